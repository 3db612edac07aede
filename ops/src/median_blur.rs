//! Median blur: the middle value of the pixels in a square.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::kernel_size::{odd_range, odd_side};
use crate::op::{Op, class, on_numbers};
use crate::registry::ParamLimits;
use crate::rows::{LONGEST_MEDIAN, RowFilter};
use crate::{ParamError, Size, TypeError};
use std::ops::RangeInclusive;

/// Replaces every value by the median of those around it, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/MedianBlur.md"))]
///
/// ```text
/// out = the middle one of the sorted values of a square of n*n pixels        for each channel, n odd
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                          |
/// | output | as the input                                                                     |
/// | random | a coin `p`, then n                                                               |
/// | cost   | 30 comparisons of bytes per value for n = 3, else `8 n*n`; the n*n values of other types are sorted |
///
/// Albumentations' `MedianBlur` and OpenCV's `medianBlur`, to the bit: the border repeats the pixel at the edge.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![MedianBlur::new().blur_limit(3..=5)?.p(0.1)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    NEIGHBOURHOOD,
    "makes every value the median of those around it, in a share p of the images",
    new = "Builds the op with Albumentations' defaults: squares of 3 to 7 pixels a side, for half of the images."
)]
pub struct MedianBlur {
    /// Sets the range of the number of pixels of a side; an even number is rounded up to an odd one.
    #[param("range of the square's side; an even number is the odd one above", given = RangeInclusive<u32>,
        check = sides, limits = SIDES, default = 3..=7, draw = random_sides(rng),
        errors = "If the range is empty, or not in `3..=15`")]
    blur_limit: (u32, u32),
    #[param(share)]
    p: f64,
}

const SIDES: ParamLimits = ParamLimits::new(3.0, LONGEST_MEDIAN as f64, "3 <= low <= high <= 15");

fn sides(
    op: &'static str,
    param: &'static str,
    range: RangeInclusive<u32>,
) -> Result<(u32, u32), ParamError> {
    odd_range(op, param, range, SIDES)
}

fn random_sides(rng: &mut Rng) -> RangeInclusive<u32> {
    let low = 3 + rng.below(3);
    low..=low + rng.below(4)
}

#[class(Geometry)]
impl Op for MedianBlur {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl GeometryOp for MedianBlur {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        let runs = rng.coin(self.p);
        let side = odd_side(rng, self.blur_limit);
        if runs {
            out.push(GeometryStep::Rows(RowFilter::Median { side }));
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn object_motion(&self) -> ObjectMotion {
        ObjectMotion::Stay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::ImageView;

    #[test]
    fn the_median_of_nine_pixels_leaves_a_single_bright_one_out() {
        let pixels = [1, 2, 3, 4, 100, 6, 7, 8, 9].map(|v| [v; 3]);
        let input = ImageView::packed(pixels.as_flattened(), Size::new(3, 3)).unwrap();
        let out = RowFilter::Median { side: 3 }.eval(&input);
        // The square of the corner repeats the edge: 1 1 2 1 1 2 4 4 100.
        assert_eq!((out[0], out[4 * 3]), (2, 6));
    }

    #[test]
    fn bad_parameters_are_refused() {
        let op = MedianBlur::new();
        assert!(op.blur_limit(1..=3).is_err() && op.blur_limit(3..=16).is_err());
        assert!(op.blur_limit(15..=15).is_ok());
    }
}
