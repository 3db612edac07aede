//! Horizontal flip: mirrors an image left to right.

use crate::author::{GeometryOp, GeometryStep, Rng, Type};
use crate::op::{Op, class, on_image};
use crate::{Size, TypeError};

/// Mirrors a share `p` of the images left to right.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomHorizontalFlip.md"))]
///
/// ```text
/// out[y, x] = in[y, width - 1 - x]   for a sample whose coin is heads
/// out[y, x] = in[y, x]               otherwise
/// ```
///
/// | | |
/// |--------|----------------------------------|
/// | input  | image of any element type        |
/// | output | as the input                     |
/// | random | a coin `p` for the whole image   |
/// | cost   | nothing: rows are read backwards |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomHorizontalFlip::new(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "mirrors a share p of the images left to right")]
pub struct RandomHorizontalFlip {
    /// Builds a flip of a share `p` of the samples.
    #[param(share, new)]
    p: f64,
}

#[class(Geometry)]
impl Op for RandomHorizontalFlip {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl GeometryOp for RandomHorizontalFlip {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        if rng.coin(self.p) {
            out.push(GeometryStep::FlipHorizontal);
        }
    }
}
