//! Random resize: scales the short side of an image to a random length.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::error::{LONGEST, side};
use crate::op::{Dim, ImageType, Op, class, on_numbers};
use crate::registry::{BuiltOp, built, recipe};
use crate::{Interpolation, ParamError, Resize, Size, TypeError, geometry_step};

/// Scales the short side of an image to a random length.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomResize.md"))]
///
/// torchvision's `RandomResize(min_size, max_size, interpolation, antialias)`: a [`Resize`] of the short side.
///
/// ```text
/// short side = a whole number in min_size..max_size     without max_size itself, as in torchvision
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                     |
/// | output | as the input, but the size differs from sample to sample: a crop or a resize must follow |
/// | random | the length                                                                  |
/// | cost   | the resize                                                                  |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomResize::new(256, 481)?, CenterCrop::new(224)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(GEOMETRY, "scales the short side to a random length", constructor = new, draw = random, golden = "a Resize, which has goldens, to a random length")]
pub struct RandomResize {
    #[param("shortest short side", example = 256)]
    min_size: u32,
    #[param("short sides are below this", example = 481)]
    max_size: u32,
    #[param(interpolation, antialias)]
    interpolation: Interpolation,
}

const OP: &str = "RandomResize";

impl RandomResize {
    /// Scales the short side to `min_size..max_size` pixels.
    ///
    /// # Errors
    ///
    /// If `min_size` is not below `max_size`, or a length is not in `1..=65535`.
    pub fn new(min_size: u32, max_size: u32) -> Result<Self, ParamError> {
        let (low, high) = (side(OP, "min_size", min_size)?, side(OP, "max_size", max_size)?);
        if low >= high {
            return Err(ParamError::new(OP, "max_size", high, "more than min_size"));
        }
        Ok(Self { min_size, max_size, interpolation: Interpolation::default() })
    }
}

#[class(Geometry)]
impl Op for RandomResize {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| {
            let [low, high] = [self.min_size, self.max_size - 1];
            if let Some(size) = image.size() {
                let [from, to] = [low, high].map(|short| Resize::short_side_of(size, short));
                let height = Dim { min: from.height, max: to.height };
                return ImageType {
                    height,
                    width: Dim { min: from.width, max: to.width },
                    ..image
                };
            }
            let side = Dim { min: low, max: LONGEST };
            ImageType { height: side, width: side, ..image }
        })
    }
}

impl GeometryOp for RandomResize {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let [low, high] = [self.min_size, self.max_size - 1];
        let size = Resize::short_side_of(size, low + rng.below(high - low + 1));
        out.push(GeometryStep::Resize { size, interpolation: self.interpolation });
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(geometry_step::resize_producer(self.interpolation))
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let low = recipe::size(rng).0;
    let op = RandomResize::new(low, low + 1 + rng.below(30))?;
    Ok(built(op.interpolation(recipe::interpolation(rng))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    #[test]
    fn lengths_reach_from_the_first_to_the_one_before_the_last() {
        let op = RandomResize::new(10, 14).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for sample in 0..200 {
            let mut steps = vec![];
            op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(20, 40), &mut steps);
            let [GeometryStep::Resize { size, .. }] = steps[..] else { panic!("{steps:?}") };
            assert_eq!(size.width, 2 * size.height);
            seen.insert(size.height);
        }
        assert!(seen.into_iter().eq(10..14));
    }

    #[test]
    fn the_type_says_what_sides_may_be() {
        let op = RandomResize::new(10, 14).unwrap();
        let input = |height| Type::Image(ImageType::decoded(height, Dim::fixed(40)));
        let output = |height| op.output(&input(height)).unwrap().to_string();
        assert_eq!(output(Dim::fixed(20)), "a u8 image [10..=13, 20..=26, 3]");
        let any = output(Dim { min: 1, max: 20 });
        assert_eq!(any, "a u8 image [10..=65535, 10..=65535, 3]");
    }

    #[test]
    fn bad_ranges_are_refused() {
        assert!(RandomResize::new(10, 10).is_err() && RandomResize::new(0, 10).is_err());
        assert!(RandomResize::new(10, 65_536).is_err());
    }
}
