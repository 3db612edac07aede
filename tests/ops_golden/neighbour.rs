//! Sharpness, which is torchvision's to the bit; Gaussian blur, at most a level off on 1% of a
//! picture's values; box blur, OpenCV's to the bit.

use crate::support::{Image, cases_and_bytes, distance, number, numbers, run, sha256};
use fuseloop_ops::rows::RowFilter;
use fuseloop_ops::*;
use serde_json::Value as Json;

/// The cases of `op`, with their bytes.
fn cases_of(op: &str) -> Vec<(Json, Vec<u8>)> {
    cases_and_bytes("neighbour").into_iter().filter(|(case, _)| case["op"] == op).collect()
}

#[test]
fn sharpness_is_torchvisions() {
    let cases = cases_of("adjust_sharpness");
    assert_eq!(cases.len(), 35);
    for (case, _) in cases {
        let factor = case["sharpness_factor"].as_f64().unwrap();
        let ops = ops![RandomAdjustSharpness::new(factor, 1.0).unwrap()];
        assert_eq!(sha256(&run(ops, &Image::of(&case), |_| ())), case["sha256"], "{case}");
    }
}

fn kernel(value: &Json) -> [u32; 2] {
    [number(&value[0]), number(&value[1])]
}

/// torchvision's sigma, where none is given.
fn sigma(case: &Json) -> [f64; 2] {
    match &case["sigma"] {
        Json::Null => kernel(&case["kernel_size"]).map(|side| 0.15 * f64::from(side) + 0.35),
        sigma => numbers(sigma),
    }
}

#[test]
fn gaussian_blurs_are_torchvisions_but_for_the_last_bit_of_sums() {
    let cases = cases_of("gaussian_blur");
    assert_eq!(cases.len(), 16);
    for (case, bytes) in cases {
        let (kernel, [x, y]) = (kernel(&case["kernel_size"]), sigma(&case));
        let op = GaussianBlur::with_kernel(kernel, x..=x).unwrap();
        let out = run(ops![op], &Image::of(&case), |draws| {
            let blur = RowFilter::GaussianBlur { kernel, sigma: [x as f32, y as f32] };
            if x == y {
                assert_eq!(draws.motions, [(0, Motion::Rows(blur.clone()))], "{case}");
            }
            draws.motions = vec![(0, Motion::Rows(blur))];
        });
        let (most, share) = distance(&out, &bytes);
        assert!(most <= 1 && share <= 0.01, "{case}: {most} level(s), {share}");
    }
}

#[test]
fn box_blurs_are_opencvs() {
    let cases = cases_of("blur");
    assert_eq!(cases.len(), 9);
    for (case, bytes) in cases {
        let op = BoxBlur::with_kernel(kernel(&case["ksize"])).unwrap();
        assert!(run(ops![op], &Image::of(&case), |_| ()) == bytes, "{case}");
    }
}
