//! Hue, grey, tables, matrices.

use fuseloop_ops::author::{Op, Rng};
use fuseloop_ops::*;
use std::sync::Arc;

pub const NAMES: &[&str] = &[
    "RandomHue",
    "ColorJitter(hue)",
    "Grayscale",
    "RandomGrayscale",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
    "SolarizeAdd",
    "RandomAutocontrast",
    "RandomEqualize",
    "Gamma",
    "RandomGamma",
    "PermuteChannels",
    "RandomChannelPermutation",
    "RandomPhotometricDistort",
    "Lighting",
    "Lut",
    "ColorMatrix",
    "RandomBrightness(range)",
];

/// A random op, by name. Parameters are such that pictures stay small.
pub fn op(name: &str, rng: &mut Rng, _before: &ImageType) -> Arc<dyn Op> {
    // Often 0 or 1, which plans treat apart.
    let p = f64::from(rng.uniform(-0.2, 1.4)).clamp(0.0, 1.0);
    let mut number = |low, high| f64::from(rng.uniform(low, high));
    match name {
        "RandomHue" => {
            let (low, width) = (number(-0.5, 0.5), number(0.0, 1.0));
            Arc::new(RandomHue::new(low, (low + width).min(0.5), p).unwrap())
        }
        "ColorJitter(hue)" => {
            let hue = number(-0.1, 0.5).max(0.0);
            let (contrast, saturation) = (number(-0.5, 1.0).max(0.0), number(-0.5, 1.0).max(0.0));
            Arc::new(
                ColorJitter::new(number(0.0, 1.0), contrast, saturation).unwrap().hue(hue).unwrap(),
            )
        }
        "Grayscale" => Arc::new(Grayscale),
        "RandomGrayscale" => Arc::new(RandomGrayscale::new(p).unwrap()),
        "RandomInvert" => Arc::new(RandomInvert::new(p).unwrap()),
        "RandomPosterize" => Arc::new(RandomPosterize::new(rng.below(9), p).unwrap()),
        "RandomSolarize" => Arc::new(RandomSolarize::new(number(0.0, 256.0), p).unwrap()),
        "SolarizeAdd" => {
            let (add, threshold) = (number(0.0, 255.0), number(0.0, 256.0));
            Arc::new(SolarizeAdd::new(add, threshold).unwrap())
        }
        "RandomAutocontrast" => Arc::new(RandomAutocontrast::new(p).unwrap()),
        "RandomEqualize" => Arc::new(RandomEqualize::new(p).unwrap()),
        "Gamma" => Arc::new(Gamma::new(number(0.0, 3.0), number(0.5, 2.0)).unwrap()),
        "RandomGamma" => {
            let (low, width) = (number(0.0, 2.0), number(0.0, 1.0));
            Arc::new(RandomGamma::new(low, low + width, p).unwrap())
        }
        "PermuteChannels" => {
            let first = rng.below(3) as usize;
            let order = [first, (first + 1) % 3, (first + 2) % 3];
            let order = if rng.coin(0.5) { order } else { [order[1], order[0], order[2]] };
            Arc::new(PermuteChannels::new(order).unwrap())
        }
        "RandomChannelPermutation" => Arc::new(RandomChannelPermutation::new(p).unwrap()),
        "RandomPhotometricDistort" => Arc::new(RandomPhotometricDistort::new(p).unwrap()),
        "Lighting" => Arc::new(Lighting::new(number(-0.1, 1.0).max(0.0)).unwrap()),
        "Lut" => {
            let table = [0; 3].map(|_| [0; 256].map(|_| rng.uniform(0.0, 255.0)));
            Arc::new(Lut::new(table).unwrap())
        }
        "ColorMatrix" => {
            let row = |_| {
                let [r, g, b] = [0; 3].map(|_| number(-1.0, 1.5));
                [r, g, b, number(-80.0, 80.0)]
            };
            Arc::new(ColorMatrix::new([0; 3].map(row)).unwrap())
        }
        "RandomBrightness(range)" => {
            let (low, width) = (number(0.0, 2.0), number(0.0, 1.0));
            Arc::new(RandomBrightness::range(low, low + width, p).unwrap())
        }
        name => panic!("no op {name}"),
    }
}
