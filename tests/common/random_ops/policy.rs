//! Containers and policies.

use super::basic;
use fuseloop_ops::author::{Op, Rng};
use fuseloop_ops::internals::rows::WarpInterpolation;
use fuseloop_ops::*;
use std::sync::Arc;

pub const NAMES: &[&str] = &[
    "RandomApply",
    "RandomChoice",
    "RandomOrder",
    "AugMix",
    "AutoAugment",
    "RandAugment",
    "RandAugment(timm)",
    "TrivialAugmentWide",
];

/// What containers hold: ops that leave the type of a picture as it is.
const INSIDE: [&str; 9] = [
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "RandomTranslate",
    "Cutout",
    "RandomBrightness",
    "RandomContrast",
    "RandomSaturation",
    "RandomApply",
    "RandomChoice",
];

const STRINGS: [&str; 8] = [
    "rand-m9-mstd0.5-inc1",
    "rand-m20-mmax30-p0.9",
    "rand-n3-m5-mstd101",
    "rand-n1-p1-tweights",
    "rand-n2-p0.8-tweights",
    "rand-n2-t3a-p1-mstd3",
    "rand-n2-t3aw-p1",
    "rand-n0",
];

/// A random op, by name. Parameters are such that pictures stay small.
pub fn op(name: &str, rng: &mut Rng, before: &ImageType) -> Arc<dyn Op> {
    made(name, rng, before, 0)
}

fn made(name: &str, rng: &mut Rng, before: &ImageType, depth: u32) -> Arc<dyn Op> {
    let list = |rng: &mut Rng, most: u32| -> Ops {
        (0..rng.below(most + 1)).map(|_| inside(rng, before, depth)).collect()
    };
    let fill = [rng.below(256) as u8, rng.below(256) as u8, rng.below(256) as u8];
    let look = |rng: &mut Rng| {
        use WarpInterpolation::{Bicubic, Bilinear, Nearest};
        ([Nearest, Bilinear, Bicubic][rng.below(3) as usize], rng.coin(0.5))
    };
    match name {
        "RandomApply" => {
            let p = f64::from(rng.uniform(-0.2, 1.2)).clamp(0.0, 1.0);
            Arc::new(RandomApply::new(list(rng, 3), p).unwrap())
        }
        "RandomChoice" => {
            let lists: Vec<Ops> = (0..1 + rng.below(4)).map(|_| list(rng, 2)).collect();
            let mut weights: Vec<f64> = lists.iter().map(|_| f64::from(rng.below(3))).collect();
            weights[0] += 1.0;
            Arc::new(RandomChoice::new(lists, &weights).unwrap())
        }
        "RandomOrder" => Arc::new(RandomOrder::new(list(rng, 4)).unwrap()),
        "AugMix" => {
            let (interpolation, filled) = look(rng);
            let op = AugMix::new(1 + rng.below(10)).unwrap().all_ops(rng.coin(0.7));
            let op = op.mixture_width(1 + rng.below(3)).unwrap().interpolation(interpolation);
            Arc::new(if filled { op.fill(fill) } else { op })
        }
        "AutoAugment" => {
            let policy = [Policy::ImageNet, Policy::Cifar10, Policy::Svhn][rng.below(3) as usize];
            let (interpolation, filled) = look(rng);
            let op = AutoAugment::new(policy).interpolation(interpolation);
            Arc::new(if filled { op.fill(fill) } else { op })
        }
        "RandAugment" => {
            let (interpolation, filled) = look(rng);
            let op = RandAugment::new(rng.below(4), rng.below(31)).unwrap();
            let op = op.interpolation(interpolation);
            Arc::new(if filled { op.fill(fill) } else { op })
        }
        "RandAugment(timm)" => {
            let string = STRINGS[rng.below(STRINGS.len() as u32) as usize];
            Arc::new(RandAugment::timm(string).unwrap())
        }
        "TrivialAugmentWide" => {
            let (interpolation, filled) = look(rng);
            let op = TrivialAugmentWide::with_bins(2 + rng.below(30)).unwrap();
            let op = op.interpolation(interpolation);
            Arc::new(if filled { op.fill(fill) } else { op })
        }
        name => panic!("no op {name}"),
    }
}

/// An op of a container in `depth` others.
fn inside(rng: &mut Rng, before: &ImageType, depth: u32) -> Arc<dyn Op> {
    let name = INSIDE[rng.below(INSIDE.len() as u32) as usize];
    match name {
        "RandomApply" | "RandomChoice" if depth < 2 => made(name, rng, before, depth + 1),
        "RandomApply" | "RandomChoice" => basic::op("Cutout", rng, before),
        name => basic::op(name, rng, before),
    }
}
