//! Brightness, contrast, saturation, a jitter of the three, centre crops, resizes, and ImageNet's
//! normalization.

use super::support::{Image, cases, distance, golden, number, run, sha256};
use fuseloop::internals::plan::block::nth_order;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::geometry_step;
use fuseloop_ops::*;
use serde_json::Value as Json;

/// The parameters of an op with this factor, as its `draw` would set them. The last parameter of a
/// contrast, the mean, is computed by the kernel.
fn params(op: &str, factor: f32) -> Vec<f32> {
    let rest = (1.0 - f64::from(factor)) as f32;
    match op {
        "brightness" => vec![factor],
        "contrast" => vec![factor, rest, 0.0],
        "saturation" => vec![factor, rest],
        op => panic!("no op {op}"),
    }
}

fn single_op(op: &str) -> Ops {
    match op {
        "brightness" => ops![RandomBrightness::new(1.0).unwrap().p(1.0).unwrap()],
        "contrast" => ops![RandomContrast::new(1.0).unwrap().p(1.0).unwrap()],
        "saturation" => ops![RandomSaturation::new(1.0).unwrap().p(1.0).unwrap()],
        op => panic!("no op {op}"),
    }
}

/// A case's ops, in the order they are applied, and the factor of each: those of a colour jitter are in
/// the order brightness, contrast, saturation.
fn order_and_factors(case: &Json) -> (Vec<&str>, Vec<f32>) {
    let order = case["order"].as_array().unwrap().iter().map(|op| op.as_str().unwrap());
    let factors = case["factors"].as_array().unwrap().iter().map(|f| f.as_f64().unwrap() as f32);
    (order.collect(), factors.collect())
}

#[test]
fn brightness_contrast_and_saturation_are_torchvisions() {
    let mut seen = 0;
    for case in cases("colour.json") {
        let (order, factors) = order_and_factors(&case);
        let &[op] = &order[..] else { continue };
        let out =
            run(single_op(op), &Image::of(&case), |draws| draws.params = params(op, factors[0]));
        assert_eq!(sha256(&out), case["sha256"], "{case}");
        seen += 1;
    }
    assert_eq!(seen, 81, "three ops, nine factors, three pictures");
}

#[test]
fn colour_jitter_is_torchvisions_in_all_six_orders() {
    const PARTS: [&str; 3] = ["brightness", "contrast", "saturation"];
    let mut seen = [0; 6];
    for case in cases("colour.json") {
        let (order, factors) = order_and_factors(&case);
        if order.len() != 3 {
            continue;
        }
        let is_it = |&index: &usize| nth_order(3, index).map(|part| PARTS[part]).eq(order.clone());
        let index = (0..6).find(is_it).unwrap();
        let out = run(ops![ColorJitter::new(0.4, 0.4, 0.4).unwrap()], &Image::of(&case), |draws| {
            draws.orders = vec![(0, index)];
            draws.params = PARTS.iter().zip(&factors).flat_map(|(op, &f)| params(op, f)).collect();
        });
        assert_eq!(sha256(&out), case["sha256"], "{case}");
        seen[index] += 1;
    }
    assert_eq!(seen, [9; 6], "six orders, three triples of factors, three pictures");
}

#[test]
fn centre_crops_are_torchvisions_also_where_the_image_is_smaller() {
    for case in cases("crop.json") {
        let (height, width) = (number(&case["size"][0]), number(&case["size"][1]));
        let out = run(ops![CenterCrop::new((height, width)).unwrap()], &Image::of(&case), |_| ());
        assert_eq!(sha256(&out), case["sha256"], "{case}");
    }
}

/// Both libraries round to u8 between their two passes, and Fuseloop does not: this causes a difference
/// of up to one level.
#[test]
fn resizes_are_within_a_level_of_torchvision_and_of_pillow() {
    let libraries = golden("resize.bin");
    let mut rest = &libraries[..];
    for case in cases("resize.json") {
        let size = Size::new(number(&case["size"][0]), number(&case["size"][1]));
        let (torchvision, after) = rest.split_at(size.pixels() as usize * 3);
        let (pillow, after) = after.split_at(torchvision.len());
        rest = after;
        let out = resized(&case, size);
        for (library, theirs) in [("torchvision", torchvision), ("Pillow", pillow)] {
            let (most, share) = distance(&out, theirs);
            println!("{case}: {library} {most} level(s), {:.1} % of values differ", share * 100.0);
            assert!(most <= 1, "{case}: {most} levels from {library}");
            assert!(share < 0.3, "{case}: {share} of all values are not {library}'s");
        }
    }
    assert!(rest.is_empty(), "resize.bin has more than resize.json");
}

/// The whole image by `Resize`, or a window by `RandomResizedCrop` with the window set.
fn resized(case: &Json, size: Size) -> Vec<u8> {
    let Size { height, width } = size;
    let image = Image::of(case);
    let Json::Array(window) = &case["window"] else {
        return run(ops![Resize::new((height, width)).unwrap()], &image, |_| ());
    };
    let &[top, left, rows, columns] = &window.iter().map(number).collect::<Vec<_>>()[..] else {
        panic!("a window has four numbers: {case}")
    };
    let crop = RandomResizedCrop::new((height, width));
    run(ops![crop.unwrap()], &image, |draws| {
        let window = Window { top, left, height: rows, width: columns };
        draws.geometry[0] = (0, geometry_step::crop(window));
    })
}

/// torchvision scales by 1/255 first, uses constants rounded to f32, and rounds after each of its three
/// steps; Fuseloop rounds once. The remaining error is absolute, since the mean cancels: 2^-25 of the
/// scaled value and of the mean, each over a deviation of 0.22, plus the quotient's own.
#[test]
fn imagenet_normalization_is_torchvisions_but_for_its_roundings() {
    let ramp: Vec<u8> = (0..=255).flat_map(|v| [v; 3]).collect();
    let image = Image { pixels: ramp, size: Size::new(8, 32) };
    let ours = run(ops![Normalize::imagenet()], &image, |_| ());
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let (ours, theirs) = (floats(&ours), floats(&golden("normalize.bin")));
    assert_eq!(ours.len(), theirs.len());
    for (index, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        assert!((a - b).abs() <= 1e-6, "value {}, channel {}: {a}, {b}", index / 3, index % 3);
    }
}
