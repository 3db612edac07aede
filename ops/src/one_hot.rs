//! One-hot: a label becomes a vector with a one at its class.

use crate::author::{LabelOp, Type};
use crate::op::{Op, class, on_one_label};
use crate::{DType, TypeError};

/// Turns a label into a vector with a one at its class.
///
#[cfg_attr(doc, doc = include_str!("../pictures/OneHot.md"))]
///
/// ```text
/// out[k] = 1 if k == label else 0      k in 0..classes
/// ```
///
/// | | |
/// |--------|------------------------------------------------------------------|
/// | input  | one integer                                                      |
/// | output | f32 `[classes]`                                                  |
/// | random | nothing                                                          |
/// | cost   | the vector is written                                            |
/// | errors | a label outside `0..classes` makes its sample a damaged one      |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![OneHot::new(1000)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    LABELS,
    "turns a label into a vector with a one at its class; gives f32",
    recipes = "labels have steps of their own",
    golden = "one comparison, tested in its file"
)]
pub struct OneHot {
    /// An op that outputs vectors of `classes` elements.
    #[param("elements of the vector", 1..=1_000_000, example = 1000)]
    classes: u32,
}

#[class(Label)]
impl Op for OneHot {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_one_label(self.name(), input)?;
        Ok(Type::Tensor { dtype: DType::F32, shape: vec![self.classes as usize] })
    }
}

impl LabelOp for OneHot {
    fn classes(&self) -> Option<u32> {
        Some(self.classes)
    }
}
