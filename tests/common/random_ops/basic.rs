//! Crops, resizes, flips, the three colour changes and their jitter, normalization, conversion, and
//! the step onto a device.

use fuseloop_ops::author::{Op, Rng};
use fuseloop_ops::*;
use std::sync::Arc;

pub const NAMES: &[&str] = &[
    "RandomResizedCrop",
    "CenterCrop",
    "CenterCrop(ratio)",
    "RandomCrop",
    "Resize",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "RandomTranslate",
    "Cutout",
    "RandomBrightness",
    "RandomContrast",
    "RandomSaturation",
    "ColorJitter",
    "Normalize",
    "Convert",
    "ToDevice",
    "Poison",
];

/// The compiled one more often than the others.
const INTERPOLATIONS: [Interpolation; 9] = [
    Interpolation::BilinearAntialias,
    Interpolation::BilinearAntialias,
    Interpolation::BilinearAntialias,
    Interpolation::Area,
    Interpolation::Nearest,
    Interpolation::NearestExact,
    Interpolation::Bilinear,
    Interpolation::Bicubic,
    Interpolation::BicubicAntialias,
];

/// A random op, by name. Parameters are such that pictures stay small.
pub fn op(name: &str, rng: &mut Rng, before: &ImageType) -> Arc<dyn Op> {
    let interpolation = INTERPOLATIONS[rng.below(9) as usize];
    let mut side = |most: u32| if rng.coin(0.1) { 1 + rng.below(9) } else { 8 + rng.below(most) };
    let (height, width) = (side(60), side(90));
    let fill = [rng.below(256) as u8, rng.below(256) as u8, rng.below(256) as u8];
    let p = f64::from(rng.uniform(0.0, 1.2)).min(1.0);
    let magnitude = f64::from(rng.uniform(0.0, 1.5));
    match name {
        "RandomResizedCrop" => Arc::new(
            RandomResizedCrop::to(height, width, 0.08..=1.0, 0.75..=1.33)
                .unwrap()
                .interpolation(interpolation),
        ),
        "CenterCrop" => Arc::new(CenterCrop::new(height, width).unwrap()),
        "CenterCrop(ratio)" => Arc::new(
            CenterCrop::ratio(height, width, p.max(0.05)).unwrap().interpolation(interpolation),
        ),
        "RandomCrop" => {
            let padding = if rng.coin(0.5) { rng.below(6) } else { 0 };
            Arc::new(RandomCrop::new(height, width).unwrap().padding(padding, fill).unwrap())
        }
        "Resize" if rng.coin(0.3) => {
            Arc::new(Resize::short_side(height).unwrap().interpolation(interpolation))
        }
        "Resize" => Arc::new(Resize::new(height, width).unwrap().interpolation(interpolation)),
        "RandomHorizontalFlip" => Arc::new(RandomHorizontalFlip::new(p).unwrap()),
        "RandomVerticalFlip" => Arc::new(RandomVerticalFlip::new(p).unwrap()),
        "RandomTranslate" => Arc::new(RandomTranslate::new(rng.below(12), fill).unwrap()),
        "Cutout" => Arc::new(Cutout::new(1 + rng.below(20), fill).unwrap()),
        "RandomBrightness" => Arc::new(RandomBrightness::new(magnitude, p).unwrap()),
        "RandomContrast" => Arc::new(RandomContrast::new(magnitude, p).unwrap()),
        "RandomSaturation" => Arc::new(RandomSaturation::new(magnitude, p).unwrap()),
        "ColorJitter" => {
            let mut part = || f64::from(rng.uniform(0.0, 1.0));
            let (b, c, s) = (part(), part(), part());
            let keep = |v: f64| if v < 0.2 { 0.0 } else { v };
            Arc::new(ColorJitter::new(keep(b), keep(c), keep(s)).unwrap())
        }
        "Normalize" => Arc::new(Normalize::imagenet()),
        "Convert" => {
            let to = DType::ALL[rng.below(DType::ALL.len() as u32) as usize];
            Arc::new(Convert::to(to))
        }
        "ToDevice" => Arc::new(ToDevice::to(Device::Auto)),
        "Poison" => {
            let size = before.size().unwrap_or(Size::new(1, 1));
            let pixels = size.pixels() as usize;
            let alpha: Vec<f64> = (0..pixels).map(|_| f64::from(rng.unit())).collect();
            let mask: Vec<f64> =
                (0..3 * pixels).map(|_| f64::from(rng.uniform(0.0, 256.0))).collect();
            Arc::new(Poison::new(size, &mask, &alpha, [0, 2]).unwrap())
        }
        name => panic!("no op {name}"),
    }
}
