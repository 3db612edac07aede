//! Random translate: shifts an image by a few pixels.

use crate::author::{GeometryOp, GeometryStep, Rng, Type};
use crate::op::{ImageType, Op, class, on_image};
use crate::{Size, TypeError};

/// Shifts an image by up to `padding` pixels in each direction.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomTranslate.md"))]
///
/// FFCV's `RandomTranslate(padding, fill)`: the image is padded by `padding` pixels of `fill`, and
/// a window of the image's own size is cut at a row, then a column, both uniform in
/// `0..=2 * padding`.
///
/// ```text
/// out[y, x] = in[y + dy, x + dx], or fill outside      dy, dx = U{-padding..=padding}
/// ```
///
/// | | |
/// |--------|--------------------------------------------------------|
/// | input  | image of any element type                              |
/// | output | as the input                                           |
/// | random | the row, then the column                               |
/// | cost   | a copy of the image if nothing changed it before, else a mask |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomTranslate::new(4)?.fill([125, 122, 113])];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    GEOMETRY,
    "shifts an image by a few pixels",
    golden = "FFCV draws inside its compiled code, from a generator of its own"
)]
pub struct RandomTranslate {
    /// Shifts by `-padding..=padding` rows and columns; the area outside the image is black.
    #[param("most pixels in each direction", 0..=65_535, example = 4, draw = 0..=11)]
    padding: u32,
    #[param(fill)]
    fill: [u8; 3],
}

#[class(Geometry)]
impl Op for RandomTranslate {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image)
    }
}

impl GeometryOp for RandomTranslate {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let mut shift = || rng.below(2 * self.padding + 1) as i32 - self.padding as i32;
        let (top, left) = (shift(), shift());
        out.push(GeometryStep::CropPad { top, left, size, fill: self.fill });
    }

    fn fill_color(&self, _: &ImageType) -> Option<[u8; 3]> {
        (self.padding > 0).then_some(self.fill)
    }
}
