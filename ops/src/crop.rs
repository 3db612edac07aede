//! Crop: a window at a fixed position.

use crate::author::{GeometryOp, GeometryStep, Rng, Type};
use crate::op::{ImageType, Op, class, on_image};
use crate::{Size, TypeError};

/// Cuts a window of one size at one position out of every image.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Crop.md"))]
///
/// ```text
/// out[y, x] = in[y + top, x + left]        black outside the image
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------|
/// | input  | image of any element type                                     |
/// | output | as the input, of the given size                               |
/// | random | nothing                                                       |
/// | cost   | nothing; only the window is decoded                           |
///
/// torchvision's function `crop`, and Albumentations' `Crop`, which refuses a window that is not inside the image.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Crop::new((200, 300))?.top(40)?.left(16)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(GEOMETRY, "cuts a window at a fixed position", golden = "a window whose position is tested")]
pub struct Crop {
    /// Cuts `size` (one number of pixels for a square, or height and width) at the top left.
    #[param(size)]
    size: Size,
    /// Sets the first row.
    #[param("first row", 0..=65_535, default = 0, draw = rng.below(20))]
    top: u32,
    /// Sets the first column.
    #[param("first column", 0..=65_535, default = 0, draw = rng.below(20))]
    left: u32,
}

#[class(Geometry)]
impl Op for Crop {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image.with_size(self.size))
    }
}

impl GeometryOp for Crop {
    fn draw(&self, _: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        let (top, left) = (self.top as i32, self.left as i32);
        out.push(GeometryStep::CropPad { top, left, size: self.size, fill: [0; 3] });
    }

    fn fill_color(&self, input: &ImageType) -> Option<[u8; 3]> {
        let outside = input.height.min < self.top + self.size.height
            || input.width.min < self.left + self.size.width;
        outside.then_some([0; 3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    #[test]
    fn the_window_is_where_it_is_asked_for() {
        let op = Crop::new((2, 3)).unwrap().top(5).unwrap().left(7).unwrap();
        let mut out = vec![];
        op.draw(&mut SampleKey::new(0, 0, 0).op(0), Size::new(9, 9), &mut out);
        let size = Size::new(2, 3);
        assert_eq!(out, [GeometryStep::CropPad { top: 5, left: 7, size, fill: [0; 3] }]);
        let fills = |height, width| op.fill_color(&Size::new(height, width).into());
        assert_eq!([fills(7, 10), fills(6, 10), fills(7, 9)], [None, Some([0; 3]), Some([0; 3])]);
        assert!(Crop::new(3).unwrap().top(65_536).is_err());
    }
}
