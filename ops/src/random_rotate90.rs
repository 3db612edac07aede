//! Random quarter turns.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::op::{Op, class, on_numbers};
use crate::rot90::turn;
use crate::transpose::either_way;
use crate::{Size, TypeError};

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
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    GEOMETRY,
    "turns a share p of the images by random quarters",
    golden = "pixels are moved unchanged: an image and its four turns show everything"
)]
pub struct RandomRotate90 {
    /// Rotates a share `p` of the samples; a quarter of these get 0 turns.
    #[param(share, new)]
    p: f64,
}

#[class(Geometry)]
impl Op for RandomRotate90 {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| if self.p > 0.0 { either_way(image) } else { image })
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
