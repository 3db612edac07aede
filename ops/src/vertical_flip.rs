//! Vertical flip: mirrors an image top to bottom.

use crate::author::{GeometryOp, GeometryStep, Rng, Type};
use crate::op::{Op, class, on_image};
use crate::{Size, TypeError};

/// Mirrors a share `p` of the images top to bottom.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomVerticalFlip.md"))]
///
/// ```text
/// out[y, x] = in[height - 1 - y, x]  for a sample whose coin is heads
/// out[y, x] = in[y, x]               otherwise
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------|
/// | input  | image of any element type                                 |
/// | output | as the input                                              |
/// | random | a coin `p`; the whole image is mirrored                   |
/// | cost   | nothing: rows are read from the last to the first         |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomVerticalFlip::new(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "mirrors a share p of the images top to bottom")]
pub struct RandomVerticalFlip {
    /// Builds a flip of a share `p` of the samples.
    #[param(share, new)]
    p: f64,
}

#[class(Geometry)]
impl Op for RandomVerticalFlip {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl GeometryOp for RandomVerticalFlip {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        if rng.coin(self.p) {
            out.push(GeometryStep::FlipVertical);
        }
    }
}
