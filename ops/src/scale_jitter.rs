//! Scale jitter: scales an image by a random factor.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::default_floats::DefaultFloats;
use crate::error::within_longest;
use crate::op::{Dim, ImageType, Op, class, on_numbers};
use crate::registry::BuiltOp;
use crate::registry::{Checked, ParamLimits};
use crate::registry::{built, recipe};
use crate::{Interpolation, ParamError, Size, TypeError, geometry_step};
use std::ops::RangeInclusive;

/// Scales an image to a random multiple of the size at which it fits into a target.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ScaleJitter.md"))]
///
/// torchvision's `ScaleJitter(target_size, scale_range, interpolation, antialias)`, of large scale jittering
/// (arXiv:2012.07177). As in torchvision, the first number of `target_size` is for the width:
///
/// ```text
/// r    = min(target_size[1] / height, target_size[0] / width) * U(scale_range)
/// size = floor(height * r) x floor(width * r)
/// ```
///
/// Products with `U` are computed in f32. No side is shorter than 1 pixel, or longer than 65535.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                     |
/// | output | as the input, but the size differs from sample to sample: a crop or a resize must follow |
/// | random | the factor                                                                  |
/// | cost   | the resize                                                                  |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ScaleJitter::new((1024, 1024))?, FixedSizeCrop::new(1024)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "scales an image by a random factor", draw = random, golden = "a Resize, which has goldens, to a size that is tested with torchvision's draws")]
pub struct ScaleJitter {
    /// Scales to 0.1 to 2 times the size that fits into `target_size`, a width and a height.
    #[param("the size that a factor of 1 fits into", 1..=65_535, example = 1024, errors = "If a side is not in `1..=65535`")]
    target_size: (u32, u32),
    // The field keeps the smallest factor, and the difference to the largest.
    /// Sets the range of the factor.
    #[param("range of the factor", default = 0.1..=2.0, given = RangeInclusive<f64>, check = factors,
        errors = "If the range is empty, not finite or not above 0")]
    #[init((0.1, 2.0 - 0.1))]
    scale_range: (f32, f32),
    #[param(interpolation, antialias)]
    interpolation: Interpolation,
}

impl ScaleJitter {
    /// Returns the ratio of the sides for an image of `size`; `unit` is the draw, in `0.0..=1.0`.
    fn ratio(&self, size: Size, unit: f32) -> f32 {
        let fits = (f64::from(self.target_size.1) / f64::from(size.height))
            .min(f64::from(self.target_size.0) / f64::from(size.width));
        fits as f32 * (self.scale_range.0 + unit * self.scale_range.1)
    }

    /// Returns the output's size for an image of `size`.
    fn size(&self, size: Size, unit: f32) -> Size {
        let ratio = self.ratio(size, unit);
        let side = |side: u32| within_longest((side as f32 * ratio) as u32);
        Size::new(side(size.height), side(size.width))
    }
}

/// Checks a range of factors, and returns the smallest and the difference to the largest.
fn factors(
    op: &'static str,
    param: &'static str,
    range: RangeInclusive<f64>,
) -> Result<(f32, f32), ParamError> {
    let (low, high): (f64, f64) = range.checked(op, param, ParamLimits::POSITIVE_RANGE)?;
    Ok(DefaultFloats::during(|| (low as f32, (high - low) as f32)))
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let (height, width) = recipe::size(rng);
    let range = recipe::range(rng, 0.2, 1.0, 0.5);
    let op = ScaleJitter::new((width, height))?.scale_range(range)?;
    Ok(built(op.interpolation(recipe::interpolation(rng))))
}

#[class(Geometry)]
impl Op for ScaleJitter {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| {
            let least = Size::new(image.height.min, image.width.min);
            let most = Size::new(image.height.max, image.width.max);
            let (low, high) = (self.ratio(most, 0.0), self.ratio(least, 1.0));
            let range = |side: Dim| Dim {
                min: within_longest((side.min as f32 * low) as u32),
                max: within_longest((side.max as f32 * high) as u32),
            };
            ImageType { height: range(image.height), width: range(image.width), ..image }
        })
    }
}

impl GeometryOp for ScaleJitter {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let size = self.size(size, rng.unit());
        out.push(GeometryStep::Resize { size, interpolation: self.interpolation });
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(geometry_step::resize_producer(self.interpolation))
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/golden/targets/vectors.json`: the cases `ScaleJitter.0` to `.2`.
    #[test]
    fn sizes_are_torchvisions() {
        let op = ScaleJitter::new((64, 48)).unwrap();
        for (unit, height, width) in
            [(0.496_256_6, 44, 66), (0.757_631_6, 65, 98), (0.614_695_1, 54, 81)]
        {
            assert_eq!(op.size(Size::new(20, 30), unit), Size::new(height, width));
        }
    }

    #[test]
    fn the_type_says_what_sides_may_be() {
        let input = Type::Image(ImageType::from(Size::new(20, 30)));
        let op = ScaleJitter::new((64, 48)).unwrap();
        assert_eq!(op.output(&input).unwrap().to_string(), "a u8 image [4..=85, 6..=128, 3]");
        let thin = Type::Image(ImageType::from(Size::new(1, 1000)));
        assert_eq!(op.output(&thin).unwrap().to_string(), "a u8 image [1, 6..=128, 3]");
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(ScaleJitter::new((0, 5)).is_err());
        let op = ScaleJitter::new((5, 5)).unwrap();
        assert!(op.scale_range(0.0..=1.0).is_err() && op.scale_range(2.0..=1.0).is_err());
    }
}
