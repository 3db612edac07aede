//! Scale jitter: scales an image by a random factor.

use crate::author::{GeometryOp, GeometryStep, Op, OpClass, Rng, RowProducer, Type};
use crate::default_floats::DefaultFloats;
use crate::error::{output_size, positive_range, within_longest};
use crate::op::{Dim, ImageType, on_numbers};
use crate::registry::{
    ANTIALIAS, GEOMETRY, Golden, INTERPOLATION, OpInfo, ParamKind, ParamValue, Recipe, Recipes,
    built, recipe, required, with_default,
};
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleJitter {
    /// The numbers for the width and for the height.
    target: (u32, u32),
    /// The smallest factor, and the difference to the largest.
    scale: (f32, f32),
    interpolation: Interpolation,
}

const OP: &str = "ScaleJitter";

impl ScaleJitter {
    /// Scales to 0.1 to 2 times the size that fits into `target_size`, a width and a height.
    ///
    /// # Errors
    ///
    /// If a side is not in `1..=65535`.
    pub fn new(target_size: (u32, u32)) -> Result<Self, ParamError> {
        let (width, height) = target_size;
        output_size(OP, Size::new(height, width))?;
        Ok(Self {
            target: target_size,
            scale: (0.1, 2.0 - 0.1),
            interpolation: Interpolation::default(),
        })
    }

    /// Sets the range of the factor. Default `0.1..=2.0`.
    ///
    /// # Errors
    ///
    /// If the range is empty, not finite or not above 0.
    pub fn scale_range(self, scale_range: RangeInclusive<f64>) -> Result<Self, ParamError> {
        let (low, high) =
            positive_range(OP, "scale_range", *scale_range.start(), *scale_range.end())?;
        Ok(Self { scale: DefaultFloats::during(|| (low as f32, (high - low) as f32)), ..self })
    }

    /// Sets how pixels are weighted.
    #[must_use]
    pub const fn interpolation(self, interpolation: Interpolation) -> Self {
        Self { interpolation, ..self }
    }

    /// Returns the ratio of the sides for an image of `size`; `unit` is the draw, in `0.0..=1.0`.
    fn ratio(&self, size: Size, unit: f32) -> f32 {
        let fits = (f64::from(self.target.1) / f64::from(size.height))
            .min(f64::from(self.target.0) / f64::from(size.width));
        fits as f32 * (self.scale.0 + unit * self.scale.1)
    }

    /// Returns the output's size for an image of `size`.
    fn size(&self, size: Size, unit: f32) -> Size {
        let ratio = self.ratio(size, unit);
        let side = |side: u32| within_longest((side as f32 * ratio) as u32);
        Size::new(side(size.height), side(size.width))
    }
}

impl Op for ScaleJitter {
    fn name(&self) -> &'static str {
        OP
    }

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

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
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

impl ScaleJitter {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "ScaleJitter",
        class: GEOMETRY,
        summary: "scales an image by a random factor",
        params: &[
            required(
                "target_size",
                ParamKind::Kernel,
                ParamValue::Int(1024),
                "the size that a factor of 1 fits into",
            ),
            with_default(
                "scale_range",
                ParamKind::Range,
                ParamValue::Floats(&[0.1, 2.0]),
                "range of the factor",
            ),
            INTERPOLATION,
            ANTIALIAS,
        ],
        aliases: &[],
        build: |args| {
            let [width, height] = args.kernel("target_size")?;
            let op = ScaleJitter::new((width, height))?.scale_range(args.range("scale_range")?)?;
            Ok(built(op.interpolation(args.interpolation("interpolation")?)))
        },
        recipes: Recipes::Drawn(&[Recipe {
            name: "ScaleJitter",
            draw: |rng, _| {
                let (height, width) = recipe::size(rng);
                let low = recipe::number(rng, 0.2, 1.0);
                let range = low..=low + recipe::number(rng, 0.0, 0.5);
                let op = ScaleJitter::new((width, height))?.scale_range(range)?;
                Ok(built(op.interpolation(recipe::interpolation(rng))))
            },
        }]),
        golden: Golden::None(
            "a Resize, which has goldens, to a size that is tested with torchvision's draws",
        ),
    };
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
