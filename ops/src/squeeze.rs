//! Squeeze: drops the axes of length 1.

use crate::TypeError;
use crate::author::{ImageType, LabelOp, Layout, OpClass, Type};
use crate::op::{Op, class};
use std::sync::Arc;

/// Drops the axes of length 1.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Squeeze.md"))]
///
/// ```text
/// [1] -> []        [3, 1, 2] -> [3, 2]        an image of one channel: [H, W, 1] or [1, H, W] -> [H, W]
/// ```
///
/// | | |
/// |--------|------------------------------------------------------------------|
/// | input  | a tensor of any shape, or an image of one channel                |
/// | output | the same elements; the batch axis stays, even for a batch of one |
/// | random | nothing                                                          |
/// | cost   | nothing                                                          |
///
/// A mask is `[batch, H, W]` with it, as PyTorch's losses take it. Labels are `[batch]` without it. (FFCV's are `[batch, 1]`, and its `Squeeze` drops the batch axis as
/// well if its length is 1.)
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Squeeze];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    LABELS,
    "drops the axes of length 1",
    recipes = "labels have steps of their own",
    golden = "the values stay unchanged"
)]
pub struct Squeeze;

#[class(Label)]
impl Op for Squeeze {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match input {
            Type::Tensor { dtype, shape } => Ok(Type::Tensor {
                dtype: *dtype,
                shape: shape.iter().copied().filter(|&n| n != 1).collect(),
            }),
            Type::Image(image) if image.channels == 1 => {
                Ok(Type::Image(ImageType { layout: Layout::Plane, ..*image }))
            }
            image @ Type::Image(_) => Err(TypeError {
                op: self.name(),
                expected: "an image of one channel, a label or an array",
                found: image.to_string(),
            }),
        }
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        matches!(input, Type::Image(_)).then(|| Arc::new(SqueezeImage) as _)
    }
}

/// Drops the axis of an image's one channel: [`Squeeze`] on images.
#[derive(Debug)]
struct SqueezeImage;

impl Op for SqueezeImage {
    fn name(&self) -> &'static str {
        Squeeze.name()
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Squeeze.output(input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Layout(Layout::Plane)
    }
}

impl LabelOp for Squeeze {
    fn keeps_elements(&self) -> bool {
        true
    }
}
