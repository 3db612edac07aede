//! Convert bounding box format: the format that boxes have in a batch.

use crate::author::{ObjectOp, Objects, Type};
use crate::op::{Op, class, on_image};
use crate::{BoxFormat, Size, TypeError};

/// Sets the format that the bounding boxes have in a batch.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ConvertBoundingBoxFormat.md"))]
///
/// ```text
/// xyxy: x1, y1, x2, y2        xywh: x1, y1, x2 - x1, y2 - y1        cxcywh: (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1
/// ```
///
/// torchvision's `ConvertBoundingBoxFormat`. Boxes are computed as edges or corners whatever their format is, so the op
/// may stand anywhere in the list, and the last one counts. Upright boxes can't become rotated ones, nor the other way
/// round. `BoundingBoxes::to` of the loader's targets does the same for a whole loader.
///
/// | | |
/// |--------|------------------------------------------------------------------|
/// | input  | image, with bounding boxes declared as its targets               |
/// | output | the same image                                                   |
/// | random | nothing                                                          |
/// | cost   | nothing                                                          |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Resize::new(300)?, ConvertBoundingBoxFormat::new(BoxFormat::Cxcywh)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    TARGETS,
    "sets the format that bounding boxes have in a batch",
    golden = "formats are those of torchvision: tests/ops/targets.rs"
)]
pub struct ConvertBoundingBoxFormat {
    /// Makes boxes come in this format.
    #[param("the edges, a corner and the size, the middle and the size, or a rotated format", example = "cxcywh",
        draw = BoxFormat::Cxcywh)]
    format: BoxFormat,
}

const NAME: &str = "ConvertBoundingBoxFormat";

#[class(Objects)]
impl Op for ConvertBoundingBoxFormat {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(NAME, input, |image| image)
    }
}

impl ObjectOp for ConvertBoundingBoxFormat {
    fn apply(&self, _: Size, objects: &mut Objects) {
        objects.set_format(self.format);
    }
}
