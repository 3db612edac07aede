//! Ops that follow Albumentations and OpenCV. `tests/golden/ops/albumentations_ops.py` writes the goldens.
//!
//! Each check states how many levels a value may be off, and how many the mean of all values.

use super::support::{Image, cases_and_bytes, number, numbers, run};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, GeometryStep, ImageType};
use fuseloop_ops::internals::rows::{
    ConvolutionKernel, Displacement, DisplacementField, Map, MotionLine, RowFilter, Warp,
    perspective_coefficients,
};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use serde_json::Value as Json;

/// The cases of `op` with their bytes; `count` is their number.
fn cases(op: &str, count: usize) -> Vec<(Json, Vec<u8>)> {
    let cases = cases_and_bytes("albumentations").into_iter();
    let found: Vec<_> = cases.filter(|(case, _)| case["op"] == op).collect();
    assert_eq!(found.len(), count, "cases of {op}");
    found
}

fn float(value: &Json) -> f64 {
    value.as_f64().unwrap()
}

/// Returns the largest difference in levels, and the mean one.
fn levels(ours: &[u8], theirs: &[u8]) -> (u8, f64) {
    assert_eq!(ours.len(), theirs.len());
    let differences = || ours.iter().zip(theirs).map(|(a, b)| a.abs_diff(*b));
    let sum: f64 = differences().map(f64::from).sum();
    (differences().max().unwrap_or(0), sum / ours.len() as f64)
}

/// Checks that `ours` differs from `theirs` by at most `most` levels, and on the average by at most `mean`.
fn assert_near(case: &Json, ours: &[u8], theirs: &[u8], most: u8, mean: f64) {
    let (found, average) = levels(ours, theirs);
    assert!(found <= most && average <= mean, "{case}: {found} level(s), {average} in the mean");
}

fn shifted([hue, saturation, value]: [f64; 3]) -> Ops {
    let op = HueSaturationValue::new().hue_shift_limit(hue..=hue).unwrap();
    let op = op.sat_shift_limit(saturation..=saturation).unwrap();
    ops![op.val_shift_limit(value..=value).unwrap().p(1.0).unwrap()]
}

#[test]
fn shifted_colours_are_opencvs_floats_and_near_albumentations_rounded_ones() {
    for (case, theirs) in cases("float_hsv", 21) {
        let ours = run(shifted(numbers(&case["shift"])), &Image::of(&case), |_| ());
        assert_near(&case, &ours, &theirs, 1, 0.1);
    }
    for (case, theirs) in cases("shift_hsv", 21) {
        let shift = numbers(&case["shift"]);
        if shift == [0.0; 3] {
            continue; // Albumentations leaves the image as it is.
        }
        let ours = run(shifted(shift), &Image::of(&case), |_| ());
        assert_near(&case, &ours, &theirs, 12, 2.5);
    }
}

#[test]
fn scaled_colours_are_opencvs_floats() {
    for (case, theirs) in cases("scale_hsv", 12) {
        let [turn, saturation, value] = numbers::<3>(&case["scale"]).map(|n| n as f32);
        let ours = run(ops![RandomHSV::new()], &Image::of(&case), |draws| {
            draws.params = vec![turn, saturation, 0.0, value, 0.0];
        });
        assert_near(&case, &ours, &theirs, 1, 0.1);
    }
}

#[test]
fn shifts_and_factors_of_channels_are_albumentations() {
    for (case, theirs) in cases("rgb_shift", 4) {
        let [r, g, b] = numbers::<3>(&case["shift"]);
        let op = RGBShift::new().r_shift_limit(r..=r).unwrap().g_shift_limit(g..=g).unwrap();
        let op = op.b_shift_limit(b..=b).unwrap().p(1.0).unwrap();
        assert!(run(ops![op], &Image::of(&case), |_| ()) == theirs, "{case}");
    }
    for (case, theirs) in cases("multiply", 3) {
        let op = MultiplicativeNoise::new().per_channel(true).p(1.0).unwrap();
        let ours = run(ops![op], &Image::of(&case), |draws| {
            let factors = numbers::<3>(&case["factors"]).map(|factor| factor as f32);
            draws.params[..3].copy_from_slice(&factors);
        });
        assert!(ours == theirs, "{case}");
    }
}

#[test]
fn tone_curves_are_albumentations() {
    for (case, theirs) in cases("move_tone_curve", 4) {
        let [low, high] = ["low", "high"].map(|key| case[key].as_array().unwrap().clone());
        let op = RandomToneCurve::new().per_channel(low.len() > 1).p(1.0).unwrap();
        let ours = run(ops![op], &Image::of(&case), |draws| {
            for (points, (low, high)) in draws.params.chunks_exact_mut(2).zip(low.iter().zip(&high))
            {
                points.copy_from_slice(&[float(low) as f32, float(high) as f32]);
            }
        });
        assert!(ours == theirs, "{case}");
    }
}

#[test]
fn sharpened_and_embossed_images_are_albumentations_but_for_the_last_bit_of_sums() {
    for (name, count) in [("sharpen", 10), ("emboss", 10)] {
        for (case, theirs) in cases(name, count) {
            let [alpha, effect] = numbers::<2>(&case["effect"]);
            let (alpha, effect) = (alpha..=alpha, effect..=effect);
            let list = if name == "sharpen" {
                let op = Sharpen::new().alpha(alpha).unwrap().lightness(effect).unwrap();
                ops![op.p(1.0).unwrap()]
            } else {
                let op = Emboss::new().alpha(alpha).unwrap().strength(effect).unwrap();
                ops![op.p(1.0).unwrap()]
            };
            let ours = run(list, &Image::of(&case), |_| ());
            assert_near(&case, &ours, &theirs, 1, 0.03);
        }
    }
}

#[test]
fn motion_blurs_are_albumentations_but_for_the_last_bit_of_sums() {
    for (case, theirs) in cases("motion_blur", 16) {
        let pair = |key: &str| numbers::<2>(&case[key]).map(|n| n as f32);
        let (side, angle) = (number(&case["side"]), float(&case["angle"]) as f32);
        let line = MotionLine { side, angle, ends: pair("ends"), shift: pair("shift") };
        let op = MotionBlur::new().p(1.0).unwrap();
        let ours = run(ops![op], &Image::of(&case), |draws| {
            draws.geometry =
                vec![(0, GeometryStep::Rows(RowFilter::Convolve(ConvolutionKernel::Line(line))))];
        });
        assert_near(&case, &ours, &theirs, 1, 0.03);
    }
}

#[test]
fn medians_are_opencvs() {
    for (case, theirs) in cases("median_blur", 10) {
        let side = number(&case["side"]);
        let op = MedianBlur::new().blur_limit(side..=side).unwrap().p(1.0).unwrap();
        assert!(run(ops![op], &Image::of(&case), |_| ()) == theirs, "{case}");
    }
}

/// Returns the step of a bilinear warp that counts pixels outside the image as black, as OpenCV does.
fn warp(field: DisplacementField, size: Size) -> GeometryStep {
    let map = Map::elastic(Displacement::of(field, size), size);
    let interpolation = WarpInterpolation::Bilinear;
    GeometryStep::Rows(RowFilter::Warp(Warp { size, map, interpolation, fill: None }))
}

/// The positions are Albumentations'; OpenCV rounds them to 1/32 of a pixel.
#[test]
fn distorted_grids_are_albumentations_but_for_the_rounding_of_positions() {
    for (case, theirs) in cases("grid_distortion", 6) {
        let lengths = |key: &str| -> Vec<f32> {
            case[key].as_array().unwrap().iter().map(|length| float(length) as f32).collect()
        };
        let (image, field) =
            (Image::of(&case), DisplacementField::Grid([lengths("x"), lengths("y")]));
        let grid = Displacement::of(field.clone(), image.size);
        let position = |axis: usize, at: f64| at + grid.at([at + 0.5; 2])[axis];
        for axis in 0..2 {
            for (at, expected) in case["map"][axis].as_array().unwrap().iter().enumerate() {
                let [found, expected] = [position(axis, at as f64), float(expected)];
                assert!((found - expected).abs() < 1e-3, "{at}: {found}, not {expected}");
            }
        }
        let op = GridDistortion::new().p(1.0).unwrap();
        let ours = run(ops![op], &image, |draws| {
            draws.geometry = vec![(0, warp(field, image.size))];
        });
        assert_near(&case, &ours, &theirs, 8, 0.8);
    }
}

#[test]
fn lenses_are_albumentations_but_for_the_rounding_of_positions() {
    for (case, theirs) in cases("optical_distortion", 24) {
        let lens = if case["mode"] == "camera" { Lens::Camera } else { Lens::Fisheye };
        let (image, k) = (Image::of(&case), float(&case["k"]) as f32);
        let op = OpticalDistortion::new().mode(lens).p(1.0).unwrap();
        let ours = run(ops![op], &image, |draws| {
            draws.geometry = vec![(0, warp(DisplacementField::Lens(lens, k), image.size))];
        });
        assert_near(&case, &ours, &theirs, 8, 0.8);
    }
}

fn clahe(case: &Json) -> Ops {
    let [columns, rows] = [1, 0].map(|axis| number(&case["tiles"][axis]));
    let op = CLAHE::new().tile_grid_size([columns, rows]).unwrap();
    let limit = float(&case["limit"]);
    ops![op.clip_limit(limit..=limit).unwrap().p(1.0).unwrap()]
}

/// Returns what a list makes of the first channel of an image.
fn run_gray(ops: Ops, image: &Image) -> Vec<u8> {
    let Size { height, width } = image.size;
    let input = ImageType::decoded(Dim::fixed(height), Dim::fixed(width)).with_channels(1);
    let kernel = Kernel::compile(ImagePlan::new(ops, input, NumberRule::Exact).unwrap()).unwrap();
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(0, 0, 0), image.size, &mut draws);
    let gray: Vec<u8> = image.pixels.iter().step_by(3).copied().collect();
    let view = ImageView::packed_channels(&gray, image.size, 1).unwrap();
    let mut out = vec![0xAA; kernel.plan().sample_bytes()];
    kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), &draws, &mut out);
    assert!(out == jit::evaluate(kernel.plan(), &view, &draws), "compiled and evaluated differ");
    out
}

#[test]
fn equalized_tiles_are_opencvs() {
    for (case, theirs) in cases("clahe_gray", 8) {
        assert_near(&case, &run_gray(clahe(&case), &Image::of(&case)), &theirs, 0, 0.0);
    }
    for (case, theirs) in cases("clahe", 8) {
        let ours = run(clahe(&case), &Image::of(&case), |_| ());
        assert_near(&case, &ours, &theirs, 2, 0.1);
    }
}

#[test]
fn brightness_and_contrast_are_albumentations() {
    for (case, theirs) in cases("brightness_contrast", 4) {
        let drawn = ["factor", "plus"].map(|key| float(&case[key]) as f32);
        let op = RandomBrightnessContrast::new().p(1.0).unwrap();
        let ours = run(ops![op], &Image::of(&case), |draws| draws.params = drawn.to_vec());
        assert!(ours == theirs, "{case}");
    }
}

#[test]
fn compressed_images_are_those_of_opencvs_codec() {
    for (case, theirs) in cases("jpeg", 28) {
        let op = JPEG::new(float(&case["quality"])).unwrap();
        assert_near(&case, &run(ops![op], &Image::of(&case), |_| ()), &theirs, 0, 0.0);
    }
    for (case, theirs) in cases("jpeg_gray", 28) {
        let op = JPEG::new(float(&case["quality"])).unwrap();
        assert_near(&case, &run_gray(ops![op], &Image::of(&case)), &theirs, 0, 0.0);
    }
}

/// OpenCV rounds positions to 1/32 of a pixel.
#[test]
fn perspectives_are_albumentations_but_for_the_rounding_of_positions() {
    for (case, theirs) in cases("perspective", 4) {
        let image = Image::of(&case);
        let Size { height, width } = image.size;
        let [right, bottom] = [width, height].map(|side| f64::from(side) + 0.5);
        let to = [[0.5, 0.5], [right, 0.5], [right, bottom], [0.5, bottom]];
        let from = [0, 1, 2, 3].map(|i| numbers::<2>(&case["corners"][i]).map(|at| at + 0.5));
        let map =
            Map::perspective(perspective_coefficients(from, to).unwrap(), image.size, image.size);
        let warp =
            Warp { size: image.size, map, interpolation: WarpInterpolation::Bilinear, fill: None };
        let op = Perspective::new().p(1.0).unwrap().fill(None);
        let ours = run(ops![op], &image, |draws| {
            draws.geometry = vec![(0, GeometryStep::Rows(RowFilter::Warp(warp)))];
        });
        assert_near(&case, &ours, &theirs, 8, 0.8);
    }
}

#[test]
fn large_pixels_are_opencvs() {
    for (case, theirs) in cases("downscale", 8) {
        let scale = float(&case["scale"]);
        let op = Downscale::new().scale_range(scale..=scale).unwrap().p(1.0).unwrap();
        assert!(run(ops![op], &Image::of(&case), |_| ()) == theirs, "{case}");
    }
}
