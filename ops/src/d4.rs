//! D4: one of the eight symmetries of a square.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::op::{Op, class, on_numbers};
use crate::rows::RowFilter;
use crate::transpose::either_way;
use crate::{Size, TypeError};

/// Rotates and mirrors an image by one of the eight symmetries of a square.
///
#[cfg_attr(doc, doc = include_str!("../pictures/D4.md"))]
///
/// The four rotations and the four reflections are equally likely: a transpose or none, then a
/// horizontal flip or none, then a vertical flip or none. This is Albumentations' `D4`, for images
/// without a preferred orientation, such as aerial and microscope images.
///
/// ```text
/// out[y, x] = in[y', x']     (y', x') is (y, x) or (x, y), each counted from either end
/// ```
///
/// | | |
/// |--------|------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                               |
/// | output | the same type; if the input is not square, each side may have either length |
/// | random | one of eight numbers                                                   |
/// | cost   | flips cost nothing; half of the samples cost a transpose               |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomCrop::new(224)?, D4];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    GEOMETRY,
    "turns and mirrors an image by one of the eight ways of a square",
    golden = "pixels are moved unchanged: an image and its eight turns show everything"
)]
pub struct D4;

/// Appends the steps of symmetry `number`, which is in `0..8`: one bit each for the transpose and the
/// two flips.
fn symmetry(number: u32, out: &mut Vec<GeometryStep>) {
    if number & 4 != 0 {
        out.push(GeometryStep::Rows(RowFilter::Transpose));
    }
    if number & 2 != 0 {
        out.push(GeometryStep::FlipHorizontal);
    }
    if number & 1 != 0 {
        out.push(GeometryStep::FlipVertical);
    }
}

#[class(Geometry)]
impl Op for D4 {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, either_way)
    }
}

impl GeometryOp for D4 {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        symmetry(rng.below(8), out);
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
    use crate::picture::FloatImage;
    use crate::shape::ImageView;
    use crate::{DType, NumberRule};
    use std::collections::BTreeSet;

    #[test]
    fn all_eight_pictures_of_a_square_are_reached() {
        let pixels: Vec<u8> = [1, 2, 3, 4].iter().flat_map(|v| [*v; 3]).collect();
        let view = ImageView::packed(&pixels, Size::new(2, 2)).unwrap();
        let input = FloatImage::from_view(&view).unwrap();
        let all = (0..8).map(|number| {
            let mut motions = vec![];
            symmetry(number, &mut motions);
            let moved = |picture: FloatImage, motion| {
                picture.moved(motion, NumberRule::Exact, DType::U8).unwrap()
            };
            motions.iter().fold(input.clone(), moved).to_u8().unwrap()
        });
        assert_eq!(all.collect::<BTreeSet<_>>().len(), 8);
    }

    #[test]
    fn each_bit_of_the_number_is_a_step() {
        let steps = [
            (4, GeometryStep::Rows(RowFilter::Transpose)),
            (2, GeometryStep::FlipHorizontal),
            (1, GeometryStep::FlipVertical),
        ];
        for number in 0..8 {
            let mut drawn = vec![];
            symmetry(number, &mut drawn);
            let expected = steps.iter().filter(|(bit, _)| number & bit != 0).map(|(_, step)| step);
            assert!(drawn.iter().eq(expected), "{number}: {drawn:?}");
        }
    }
}
