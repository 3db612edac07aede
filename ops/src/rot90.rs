//! Rot90: quarter turns.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::op::{Op, class, on_image, on_numbers};
use crate::rows::RowFilter;
use crate::transpose::transposed;
use crate::{Size, TypeError};

/// Rotates an image by quarter turns.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Rot90.md"))]
///
/// The turns are counter-clockwise on the screen, as in `torch.rot90` and `numpy.rot90`:
///
/// ```text
/// k   out[y, x]                   steps
/// 0   in[y, x]                    nothing
/// 1   in[x, W-1-y]                a transpose, then a vertical flip
/// 2   in[H-1-y, W-1-x]            both flips
/// 3   in[H-1-x, y]                a transpose, then a horizontal flip
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32; of any element type for a half turn                        |
/// | output | as the input; a quarter turn swaps the sides                         |
/// | random | nothing                                                              |
/// | cost   | a half turn: nothing; a quarter: see [`Transpose`](crate::Transpose) |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Rot90::new(1)]; // a quarter, counter-clockwise
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(GEOMETRY, "turns an image by quarters", constructor = new)]
pub struct Rot90 {
    // The number of quarter turns, `0..=3`, counter-clockwise.
    #[param("how many, counter-clockwise", new, name = "k", given = i32, default = 1,
        draw = recipe::pick(rng, [0, 1, 2, 3]))]
    quarters: u32,
}

impl Rot90 {
    /// Rotates by `k` quarter turns, counter-clockwise; a negative `k` rotates clockwise.
    #[must_use]
    pub const fn new(k: i32) -> Self {
        Self { quarters: k.rem_euclid(4) as u32 }
    }

    const fn is_sideways(self) -> bool {
        self.quarters % 2 == 1
    }
}

/// Appends the steps of `0..=3` quarter turns, counter-clockwise.
pub(crate) fn turn(quarters: u32, out: &mut Vec<GeometryStep>) {
    if quarters % 2 == 1 {
        out.push(GeometryStep::Rows(RowFilter::Transpose));
    }
    if quarters == 1 || quarters == 2 {
        out.push(GeometryStep::FlipVertical);
    }
    if quarters == 2 || quarters == 3 {
        out.push(GeometryStep::FlipHorizontal);
    }
}

#[class(Geometry)]
impl Op for Rot90 {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        if self.is_sideways() {
            on_numbers(self.name(), input, transposed)
        } else {
            on_image(self.name(), input, |image| image)
        }
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.quarters == 0
    }
}

impl GeometryOp for Rot90 {
    fn draw(&self, _: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        turn(self.quarters, out);
    }

    fn row_producer(&self) -> Option<RowProducer> {
        self.is_sideways().then_some(RowProducer::Called)
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

    #[test]
    fn quarters_are_numpys() {
        let pixels: Vec<u8> = [1, 2, 3, 4, 5, 6].iter().flat_map(|v| [*v; 3]).collect();
        let view = ImageView::packed(&pixels, Size::new(2, 3)).unwrap();
        let input = FloatImage::from_view(&view).unwrap();
        let turned = |k| {
            let mut motions = vec![];
            turn(Rot90::new(k).quarters, &mut motions);
            let moved = |picture: FloatImage, motion| {
                picture.moved(motion, NumberRule::Exact, DType::U8).unwrap()
            };
            let out = motions.iter().fold(input.clone(), moved).to_u8().unwrap();
            out.as_chunks::<3>().0.iter().map(|pixel| pixel[0]).collect::<Vec<u8>>()
        };
        assert_eq!(turned(0), [1, 2, 3, 4, 5, 6]);
        assert_eq!(turned(1), [3, 6, 2, 5, 1, 4]);
        assert_eq!(turned(2), [6, 5, 4, 3, 2, 1]);
        assert_eq!(turned(3), [4, 1, 5, 2, 6, 3]);
        assert_eq!(turned(-1), turned(3));
    }
}
