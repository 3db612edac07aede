//! Warps, pads, turns, blurs, sharpness.

use fuseloop_ops::author::{Op, Rng};
use fuseloop_ops::*;
use std::sync::Arc;

pub const NAMES: &[&str] = &[
    "Pad",
    "RandomCrop(framed)",
    "Resize(bounded)",
    "RandomZoomOut",
    "RandomRotation",
    "RandomAffine",
    "RandomPerspective",
    "Rot90",
    "RandomRotate90",
    "Transpose",
    "D4",
    "GaussianBlur",
    "BoxBlur",
    "RandomAdjustSharpness",
];

/// A random op, by name. Parameters are such that pictures stay small.
pub fn op(name: &str, rng: &mut Rng, before: &ImageType) -> Arc<dyn Op> {
    let p = f64::from(rng.uniform(0.0, 1.4)).min(1.0);
    let fill = [0; 3].map(|_: u8| rng.below(256) as u8);
    let (height, width) = (4 + rng.below(60), 4 + rng.below(60));
    match name {
        "Pad" => Arc::new(Pad::new(sides(rng)).unwrap().padding_mode(padding_mode(rng, fill))),
        "RandomCrop(framed)" => {
            let crop = RandomCrop::new(height, width).unwrap();
            let crop = crop.padding(sides(rng), padding_mode(rng, fill)).unwrap();
            Arc::new(if rng.coin(0.5) { crop.pad_if_needed() } else { crop })
        }
        "Resize(bounded)" if rng.coin(0.5) => Arc::new(Resize::long_side(height).unwrap()),
        "Resize(bounded)" => {
            Arc::new(Resize::short_side(height).unwrap().max_size(height + width).unwrap())
        }
        "RandomZoomOut" => {
            let low = f64::from(rng.uniform(1.0, 1.5));
            Arc::new(RandomZoomOut::new(fill, low..=low + p / 2.0, p).unwrap())
        }
        "RandomRotation" => rotation(rng, fill),
        "RandomAffine" => affine(rng, fill, before),
        "RandomPerspective" => {
            let op = RandomPerspective::new(f64::from(rng.unit()), p).unwrap();
            Arc::new(op.interpolation(interpolation(rng)).fill(rng.coin(0.6).then_some(fill)))
        }
        "Rot90" => Arc::new(Rot90::new(rng.below(4) as i32)),
        "RandomRotate90" => Arc::new(RandomRotate90::new(p).unwrap()),
        "Transpose" => Arc::new(Transpose::new(p).unwrap()),
        "D4" => Arc::new(D4),
        "GaussianBlur" => {
            let kernel = [0; 2].map(|_: u32| 1 + 2 * rng.below(5));
            Arc::new(GaussianBlur::with_kernel(kernel, GaussianBlur::SIGMA).unwrap())
        }
        "BoxBlur" => Arc::new(BoxBlur::with_kernel([0; 2].map(|_: u32| 1 + rng.below(8))).unwrap()),
        "RandomAdjustSharpness" => {
            Arc::new(RandomAdjustSharpness::new(f64::from(rng.uniform(0.0, 3.0)), p).unwrap())
        }
        name => panic!("no op {name}"),
    }
}

fn sides(rng: &mut Rng) -> Sides {
    match rng.below(3) {
        0 => Sides::from(rng.below(6)),
        1 => Sides::from([0; 2].map(|_: u32| rng.below(9))),
        _ => Sides::from([0; 4].map(|_: u32| rng.below(20))),
    }
}

fn padding_mode(rng: &mut Rng, fill: [u8; 3]) -> PaddingMode {
    let constant = PaddingMode::Constant(fill);
    [constant, PaddingMode::Edge, PaddingMode::Reflect, PaddingMode::Symmetric]
        [rng.below(4) as usize]
}

fn interpolation(rng: &mut Rng) -> WarpInterpolation {
    [WarpInterpolation::Nearest, WarpInterpolation::Bilinear, WarpInterpolation::Bicubic]
        [rng.below(3) as usize]
}

/// Sometimes by quarters alone, sometimes out of sight.
fn rotation(rng: &mut Rng, fill: [u8; 3]) -> Arc<dyn Op> {
    let quarter = f64::from(90 * rng.below(5));
    let degrees = if rng.coin(0.2) { quarter..=quarter } else { -200.0..=200.0 };
    let mut op = RandomRotation::new(degrees).unwrap().interpolation(interpolation(rng));
    op = op.fill(rng.coin(0.6).then_some(fill));
    if rng.coin(0.3) {
        op = op.expand();
    }
    if rng.coin(0.2) {
        op = op.center(f64::from(rng.uniform(-99.0, 99.0)), 3.0).unwrap();
    }
    Arc::new(op)
}

fn affine(rng: &mut Rng, fill: [u8; 3], before: &ImageType) -> Arc<dyn Op> {
    let mut op = RandomAffine::new(-30.0..=60.0).unwrap().interpolation(interpolation(rng));
    op = op.fill(rng.coin(0.6).then_some(fill));
    if rng.coin(0.5) {
        op = op.translate(f64::from(rng.unit()), f64::from(rng.unit())).unwrap();
    }
    if rng.coin(0.5) {
        op = op.scale(0.4..=1.7).unwrap();
    }
    match rng.below(3) {
        0 => {}
        1 => op = op.shear(-20.0..=90.0).unwrap(),
        _ => op = op.shear_both(-9.0..=9.0, -50.0..=20.0).unwrap(),
    }
    if rng.coin(0.2) {
        op = op.center(f64::from(before.width.max), 0.0).unwrap();
    }
    Arc::new(op)
}
