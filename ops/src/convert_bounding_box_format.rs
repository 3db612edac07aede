//! Convert bounding box format: the format that boxes have in a batch.

use crate::author::{ObjectOp, Objects, Op, OpClass, Type};
use crate::op::on_image;
use crate::registry::{
    BOX_FORMAT_WORDS, Golden, OpInfo, ParamValue, Recipe, Recipes, TARGETS, built, required,
};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvertBoundingBoxFormat {
    format: BoxFormat,
}

const NAME: &str = "ConvertBoundingBoxFormat";

impl ConvertBoundingBoxFormat {
    /// Makes boxes come in this format.
    #[must_use]
    pub const fn new(format: BoxFormat) -> Self {
        Self { format }
    }
}

impl Op for ConvertBoundingBoxFormat {
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

impl ObjectOp for ConvertBoundingBoxFormat {
    fn apply(&self, _: Size, objects: &mut Objects) {
        objects.set_format(self.format);
    }
}

impl ConvertBoundingBoxFormat {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: NAME,
        class: TARGETS,
        summary: "sets the format that bounding boxes have in a batch",
        params: &[required(
            "format",
            BOX_FORMAT_WORDS,
            ParamValue::Word("cxcywh"),
            "the edges, a corner and the size, the middle and the size, or a rotated format",
        )],
        aliases: &[],
        build: |args| Ok(built(ConvertBoundingBoxFormat::new(args.box_format("format")?))),
        recipes: Recipes::Drawn(&[Recipe {
            name: NAME,
            draw: |_, _| Ok(built(ConvertBoundingBoxFormat::new(BoxFormat::Cxcywh))),
        }]),
        golden: Golden::None("formats are those of torchvision: tests/ops/targets.rs"),
    };
}
