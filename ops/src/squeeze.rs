//! Squeeze: drops the axes of length 1.

use crate::TypeError;
use crate::author::{LabelOp, Op, OpClass, Type};
use crate::registry::{Golden, LABELS, OpInfo, Recipes, built};

/// Drops the axes of length 1.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Squeeze.md"))]
///
/// ```text
/// [1] -> []        [3, 1, 2] -> [3, 2]
/// ```
///
/// | | |
/// |--------|------------------------------------------------------------------|
/// | input  | a tensor of any shape, but not an image                          |
/// | output | the same elements; the batch axis stays, even for a batch of one |
/// | random | nothing                                                          |
/// | cost   | nothing                                                          |
///
/// Labels are `[batch]` without it. (FFCV's are `[batch, 1]`, and its `Squeeze` drops the batch axis as
/// well if its length is 1.)
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Squeeze];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Squeeze;

impl Op for Squeeze {
    fn name(&self) -> &'static str {
        "Squeeze"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match input {
            Type::Tensor { dtype, shape } => Ok(Type::Tensor {
                dtype: *dtype,
                shape: shape.iter().copied().filter(|&n| n != 1).collect(),
            }),
            image @ Type::Image(_) => Err(TypeError {
                op: self.name(),
                expected: "a label or an array",
                found: image.to_string(),
            }),
        }
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Label(self)
    }
}

impl LabelOp for Squeeze {
    fn keeps_elements(&self) -> bool {
        true
    }
}

impl Squeeze {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "Squeeze",
        class: LABELS,
        summary: "drops the axes of length 1",
        params: &[],
        aliases: &[],
        build: |_| Ok(built(Squeeze)),
        recipes: Recipes::None("labels run as scalar code"),
        golden: Golden::None("the values stay as they are"),
    };
}
