//! Erasing, grids, noise.

use fuseloop_ops::*;
use std::sync::Arc;

pub const NAMES: &[&str] = &["GaussianNoise", "RandomErasing", "RandomErasing(random)", "GridMask"];

/// A random op, by name. Parameters are such that pictures stay small.
pub fn op(name: &str, rng: &mut Rng, before: &ImageType) -> Arc<dyn Op> {
    let p = f64::from(rng.uniform(0.0, 1.2)).min(1.0);
    match name {
        "GaussianNoise" => {
            let mean = f64::from(rng.uniform(-0.2, 0.2));
            let sigma = f64::from(rng.uniform(-0.1, 0.6)).max(0.0);
            Arc::new(GaussianNoise::new(mean, sigma, rng.coin(0.7)).unwrap())
        }
        "RandomErasing" => {
            let value = |rng: &mut Rng| match before.dtype {
                DType::U8 => rng.uniform(0.0, 256.0),
                _ => rng.uniform(-3.0, 3.0),
            };
            let values = [value(rng), value(rng), value(rng)];
            Arc::new(erasing(rng, p).values(values).unwrap())
        }
        "RandomErasing(random)" => Arc::new(erasing(rng, p).random()),
        "GridMask" => {
            let low = 2 + rng.below(30);
            let period = low..=low + rng.below(20);
            Arc::new(GridMask::new(period, f64::from(rng.unit()), p).unwrap())
        }
        name => panic!("no op {name}"),
    }
}

fn erasing(rng: &mut Rng, p: f64) -> RandomErasing {
    let low = f64::from(rng.uniform(0.0, 0.3));
    let ratio = f64::from(rng.uniform(0.2, 1.0));
    RandomErasing::new(p, low..=low + 0.5, ratio..=ratio * 3.0).unwrap()
}
