//! Clamp bounding boxes: cuts boxes at the edges of the image.

use crate::author::{ObjectOp, Objects, Op, OpClass, Type};
use crate::op::on_image;
use crate::registry::{Golden, OpInfo, Recipe, Recipes, TARGETS, built};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClampBoundingBoxes;

const NAME: &str = "ClampBoundingBoxes";

impl Op for ClampBoundingBoxes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(NAME, input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Objects(self)
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

impl ClampBoundingBoxes {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: NAME,
        class: TARGETS,
        summary: "cuts bounding boxes at the edges of the image",
        params: &[],
        aliases: &[],
        build: |_| Ok(built(ClampBoundingBoxes)),
        recipes: Recipes::Drawn(&[Recipe {
            name: NAME,
            draw: |_, _| Ok(built(ClampBoundingBoxes)),
        }]),
        golden: Golden::None("boxes are clamped as in torchvision: tests/ops/targets.rs"),
    };
}
