//! Random quarter turns.

use crate::author::{GeometryOp, GeometryStep, Op, OpClass, Rng, RowProducer, Type};
use crate::error::probability;
use crate::op::on_numbers;
use crate::registry::{GEOMETRY, Golden, OpInfo, P, Recipe, Recipes, built, recipe};
use crate::rot90::turn;
use crate::transpose::either_way;
use crate::{ParamError, Size, TypeError};

/// Rotates a share `p` of the images by a random number of quarter turns.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomRotate90.md"))]
///
/// Albumentations' `RandomRotate90(p)`: for a sample whose coin is heads, `0..=3` quarter turns
/// ([`Rot90`](crate::Rot90)) with equal probability.
///
/// ```text
/// out = Rot90(k)(in)    k = U{0..=3} for a sample whose coin is heads, else 0
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                             |
/// | output | u8 image; if it is not square, each side may have either length      |
/// | random | a coin `p`, then the number of turns                                 |
/// | cost   | the cost of the turn                                                 |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomRotate90::new(0.5)?, CenterCrop::new(224)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomRotate90 {
    p: f64,
}

impl RandomRotate90 {
    /// Rotates a share `p` of the samples; a quarter of these get 0 turns.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn new(p: f64) -> Result<Self, ParamError> {
        Ok(Self { p: probability("RandomRotate90", p)? })
    }
}

impl Op for RandomRotate90 {
    fn name(&self) -> &'static str {
        "RandomRotate90"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| if self.p > 0.0 { either_way(image) } else { image })
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl GeometryOp for RandomRotate90 {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        if rng.coin(self.p) {
            turn(rng.below(4), out);
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        false
    }
}

impl RandomRotate90 {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomRotate90",
        class: GEOMETRY,
        summary: "turns a share p of the images by random quarters",
        params: &[P],
        aliases: &[],
        build: |args| Ok(built(RandomRotate90::new(args.float("p")?)?)),
        recipes: Recipes::Drawn(&[Recipe {
            name: "RandomRotate90",
            draw: |rng, _| Ok(built(RandomRotate90::new(recipe::share(rng))?)),
        }]),
        golden: Golden::None(
            "pixels are moved unchanged: an image and its four turns show everything",
        ),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    #[test]
    fn every_turn_is_drawn_as_often() {
        let turns = RandomRotate90::new(1.0).unwrap();
        let mut rng = SampleKey::new(1, 1, 1).op(0);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..4000 {
            let mut out = vec![];
            turns.draw(&mut rng, Size::new(4, 4), &mut out);
            *seen.entry(format!("{out:?}")).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 4);
        assert!(seen.values().all(|n| (900..1100).contains(n)), "{seen:?}");
    }
}
