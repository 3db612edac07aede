//! Transpose: swaps rows and columns.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::op::{Dim, ImageType, Op, class, on_numbers};
use crate::rows::RowFilter;
use crate::{Size, TypeError};

/// Swaps rows and columns of a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Transpose.md"))]
///
/// ```text
/// out[y, x] = in[x, y]   for a sample whose coin is heads
/// out[y, x] = in[y, x]   otherwise
/// ```
///
/// Albumentations' `Transpose(p)`.
///
/// | | |
/// |--------|----------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                             |
/// | output | u8 image; if it is not square, each side may have either length      |
/// | random | a coin `p`                                                           |
/// | cost   | a copy of each pixel; successive rows read the same cache lines      |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Transpose::new(0.5)?, CenterCrop::new(224)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "swaps rows and columns of a share p of the images")]
pub struct Transpose {
    /// A transpose of a share `p` of the samples.
    #[param(share, new)]
    p: f64,
}

/// Returns the type of a transposed image.
pub(crate) fn transposed(image: ImageType) -> ImageType {
    ImageType { height: image.width, width: image.height, ..image }
}

/// Returns the type of an image that is transposed in some samples only.
pub(crate) fn either_way(image: ImageType) -> ImageType {
    let (h, w) = (image.height, image.width);
    let side = Dim { min: h.min.min(w.min), max: h.max.max(w.max) };
    ImageType { height: side, width: side, ..image }
}

#[class(Geometry)]
impl Op for Transpose {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| {
            if self.p == 0.0 {
                image
            } else if self.p == 1.0 {
                transposed(image)
            } else {
                either_way(image)
            }
        })
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl GeometryOp for Transpose {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        if rng.coin(self.p) {
            out.push(GeometryStep::Rows(RowFilter::Transpose));
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

    fn output(p: f64, height: Dim, width: Dim) -> Type {
        let input = Type::Image(ImageType::decoded(height, width));
        Transpose::new(p).unwrap().output(&input).unwrap()
    }

    #[test]
    fn the_size_is_known_as_far_as_the_coin_is() {
        let (h, w) = (Dim::fixed(24), Dim { min: 30, max: 40 });
        let image = |h, w| Type::Image(ImageType::decoded(h, w));
        assert_eq!(output(0.0, h, w), image(h, w));
        assert_eq!(output(1.0, h, w), image(w, h));
        let either = Dim { min: 24, max: 40 };
        assert_eq!(output(0.5, h, w), image(either, either));
        assert_eq!(output(0.5, h, h), image(h, h), "a square stays one");
    }
}
