//! Sharpness, which matches torchvision to the bit; Gaussian blur, at most one level off in 1% of an
//! image's values; box blur, which matches OpenCV to the bit except for kernels whose number of pixels
//! is a power of two.

use super::support::{Image, cases_and_bytes, distance, golden, number, numbers, run, sha256};
use fuseloop_ops::author::GeometryStep;
use fuseloop_ops::internals::rows::RowFilter;
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
        let ops = ops![RandomAdjustSharpness::new(factor).unwrap().p(1.0).unwrap()];
        assert_eq!(sha256(&run(ops, &Image::of(&case), |_| ())), case["sha256"], "{case}");
    }
}

fn kernel(value: &Json) -> [u32; 2] {
    [number(&value[0]), number(&value[1])]
}

/// torchvision's default sigma.
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
        let op = GaussianBlur::new(kernel).unwrap().sigma(x..=x).unwrap();
        let out = run(ops![op], &Image::of(&case), |draws| {
            let blur = RowFilter::GaussianBlur { kernel, sigma: [x as f32, y as f32] };
            if x == y {
                assert_eq!(draws.geometry, [(0, GeometryStep::Rows(blur.clone()))], "{case}");
            }
            draws.geometry = vec![(0, GeometryStep::Rows(blur))];
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
        let op = BoxBlur::new(kernel(&case["ksize"])).unwrap();
        assert!(run(ops![op], &Image::of(&case), |_| ()) == bytes, "{case}");
    }
}

/// The columns and rows of the kernels of `box_blur.py`; the areas of the last six are powers of two.
const EVEN_KERNELS: [[u32; 2]; 14] = [
    [2, 3],
    [3, 2],
    [6, 6],
    [4, 6],
    [10, 2],
    [1, 6],
    [12, 1],
    [7, 4],
    [2, 1],
    [1, 2],
    [2, 2],
    [4, 4],
    [8, 2],
    [16, 16],
];

/// The anchor and border for even sides match OpenCV's, and so do the means, except that OpenCV adds 1
/// to sums of a power of two of pixels.
#[test]
fn box_blurs_of_even_sides_are_opencvs_but_for_what_it_adds() {
    let size = Size::new(17, 22);
    let bytes = golden("box_blur.bin");
    let (pixels, results) = bytes.split_at(size.pixels() as usize * 3);
    let image = Image { pixels: pixels.to_vec(), size };
    assert_eq!(results.len(), EVEN_KERNELS.len() * pixels.len());
    for (kernel, theirs) in EVEN_KERNELS.into_iter().zip(results.chunks_exact(pixels.len())) {
        let ours = run(ops![BoxBlur::new(kernel).unwrap()], &image, |_| ());
        let area = kernel[0] * kernel[1];
        if !area.is_power_of_two() {
            assert!(ours == theirs, "{kernel:?}");
            continue;
        }
        let sums = sums(&image, kernel);
        let nearest = sums.iter().map(|sum| ((2 * sum + area) / (2 * area)) as u8);
        assert!(nearest.eq(ours.iter().copied()), "{kernel:?}: the nearest");
        let added = sums.iter().map(|sum| ((sum + 1 + area / 2) / area).min(255) as u8);
        assert!(added.eq(theirs.iter().copied()), "{kernel:?}: OpenCV's");
    }
}

/// The sum of the pixels under a kernel, for each value.
fn sums(image: &Image, [columns, rows]: [u32; 2]) -> Vec<u32> {
    let reflected = |at: u32, tap: u32, count: u32, side: u32| {
        let (last, at) =
            (i64::from(side) - 1, i64::from(at) + i64::from(tap) - i64::from(count / 2));
        (last - (at.rem_euclid(2 * last) - last).abs()) as u32
    };
    let Size { height, width } = image.size;
    let mut sums = vec![];
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        for c in 0..3 {
            let taps = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
            sums.push(taps.fold(0, |sum, (i, j)| {
                let y = reflected(y, i, rows, height);
                let x = reflected(x, j, columns, width);
                sum + u32::from(image.pixels[((y * width + x) * 3 + c) as usize])
            }));
        }
    }
    sums
}
