//! D4: one of the eight symmetries of a square.
//!
//! The four turns and the four mirrorings, all as likely: a transpose or none, then a horizontal
//! flip or none, then a vertical flip or none. Albumentations' `D4`; for pictures without an up:
//! from above, through a microscope.
//!
//! | | |
//! |--------|----------------------------------------------------------------------|
//! | input  | u8 image                                                             |
//! | output | u8 image; a side of what is not square may have the length of either |
//! | random | which of eight                                                       |
//! | cost   | flips: nothing; for half of the samples that of a transpose          |

use crate::op::on_u8_image;
use crate::rows::RowFilter;
use crate::transpose::either_way;
use crate::{Class, GeometryOp, Motion, Op, Rng, RowMaker, Size, Type, TypeError};

/// Turns and mirrors an image by one of eight ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D4;

/// Symmetry number `0..8`: a bit each for the transpose and the two flips.
fn symmetry(number: u32, out: &mut Vec<Motion>) {
    if number & 4 != 0 {
        out.push(Motion::Rows(RowFilter::Transpose));
    }
    if number & 2 != 0 {
        out.push(Motion::FlipHorizontal);
    }
    if number & 1 != 0 {
        out.push(Motion::FlipVertical);
    }
}

impl Op for D4 {
    fn name(&self) -> &'static str {
        "D4"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), input, either_way)
    }

    fn class(&self) -> Class<'_> {
        Class::Geometry(self)
    }
}

impl GeometryOp for D4 {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<Motion>) {
        symmetry(rng.below(8), out);
    }

    fn makes_rows(&self) -> Option<RowMaker> {
        Some(RowMaker::Called)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ImageView, NumberRule, Picture};
    use std::collections::BTreeSet;

    #[test]
    fn all_eight_pictures_of_a_square_are_reached() {
        let pixels: Vec<u8> = [1, 2, 3, 4].iter().flat_map(|v| [*v; 3]).collect();
        let view = ImageView::packed(&pixels, Size::new(2, 2)).unwrap();
        let input = Picture::from_view(&view).unwrap();
        let all = (0..8).map(|number| {
            let mut motions = vec![];
            symmetry(number, &mut motions);
            let moved =
                |picture: Picture, motion| picture.moved(motion, NumberRule::Exact).unwrap();
            motions.iter().fold(input.clone(), moved).to_u8().unwrap()
        });
        assert_eq!(all.collect::<BTreeSet<_>>().len(), 8);
    }
}
