//! Erasing, grids, noise.

use fuseloop_ops::author::{ChoiceBranch, ChoiceOp, Op, OpClass, Rng, Type};
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
        "RandomErasing(random)" => {
            let op: Arc<dyn Op> = Arc::new(erasing(rng, p).random());
            if before.dtype == DType::U8 { Arc::new(on_floats(op, rng.coin(0.5))) } else { op }
        }
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

/// An op that takes floats, where there is u8: after what makes them, and maybe u8 again.
fn on_floats(op: Arc<dyn Op>, back: bool) -> InOrder {
    let mut list = ops![Normalize::imagenet()];
    list.push(op);
    if back {
        list.push(Arc::new(Convert::to(DType::U8)));
    }
    InOrder([ChoiceBranch { ops: list, when: 1 }])
}

/// A choice of one outcome: its ops in order, as one op of a list.
#[derive(Debug)]
struct InOrder([ChoiceBranch; 1]);

impl Op for InOrder {
    fn name(&self) -> &'static str {
        "InOrder"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.0[0].ops.iter().try_fold(input.clone(), |before, op| op.output(&before))
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Choice(self)
    }
}

impl ChoiceOp for InOrder {
    fn outcomes(&self) -> usize {
        1
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.0
    }

    fn draw(&self, _: &mut Rng) -> usize {
        0
    }
}
