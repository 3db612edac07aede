//! Clamp bounding boxes: cuts boxes at the edges of the image.

use crate::author::{ObjectOp, Objects, Type};
use crate::op::{Op, class, on_image};
use crate::{ClampingMode, Size, TypeError};

/// Cuts bounding boxes at the edges of the image.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ClampBoundingBoxes.md"))]
///
/// ```text
/// x1, x2 -> min(max(x, 0), W)        y1, y2 -> min(max(y, 0), H)
/// ```
///
/// torchvision's `ClampBoundingBoxes`: crops, pads and warps do so by themselves; resizes and flips leave boxes
/// that reach beyond the image as they are. An upright box becomes its part inside the image, which may be empty; the
/// [clamping mode](crate::ClampingMode) of the boxes decides what becomes of a rotated one. With the mode
/// `None`, nothing does: the op clamps softly then, as torchvision's does if it is given `"soft"`.
///
/// | | |
/// |--------|------------------------------------------------------------------|
/// | input  | image, with bounding boxes declared as its targets               |
/// | output | the same image                                                   |
/// | random | nothing                                                          |
/// | cost   | a few operations per object                                      |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ClampBoundingBoxes, RandomHorizontalFlip::new(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    TARGETS,
    "cuts bounding boxes at the edges of the image",
    golden = "boxes are clamped as in torchvision: tests/ops/targets.rs"
)]
pub struct ClampBoundingBoxes;

const NAME: &str = "ClampBoundingBoxes";

#[class(Objects)]
impl Op for ClampBoundingBoxes {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(NAME, input, |image| image)
    }
}

impl ObjectOp for ClampBoundingBoxes {
    fn apply(&self, size: Size, objects: &mut Objects) {
        let mode = match objects.clamping() {
            ClampingMode::None => ClampingMode::Soft,
            mode => mode,
        };
        objects.boxes_mut().iter_mut().for_each(|bounds| *bounds = bounds.clamped(size, mode));
    }
}
