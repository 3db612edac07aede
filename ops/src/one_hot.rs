//! One-hot: a label becomes a vector with a one at its class.

use crate::author::{LabelOp, Op, OpClass, Type};
use crate::op::on_one_label;
use crate::registry::{Golden, LABELS, OpInfo, ParamKind, ParamValue, Recipes, built, required};
use crate::{DType, ParamError, TypeError};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneHot {
    classes: u32,
}

impl OneHot {
    /// An op that outputs vectors of `classes` elements.
    ///
    /// # Errors
    ///
    /// If `classes` is not in `1..=1_000_000`.
    pub fn new(classes: u32) -> Result<Self, ParamError> {
        if (1..=1_000_000).contains(&classes) {
            Ok(Self { classes })
        } else {
            Err(ParamError::new("OneHot", "classes", classes, "1..=1_000_000"))
        }
    }
}

impl Op for OneHot {
    fn name(&self) -> &'static str {
        "OneHot"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_one_label(self.name(), input)?;
        Ok(Type::Tensor { dtype: DType::F32, shape: vec![self.classes as usize] })
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Label(self)
    }
}

impl LabelOp for OneHot {
    fn classes(&self) -> Option<u32> {
        Some(self.classes)
    }
}

impl OneHot {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "OneHot",
        class: LABELS,
        summary: "turns a label into a vector with a one at its class; gives f32",
        params: &[required(
            "classes",
            ParamKind::Whole,
            ParamValue::Int(1000),
            "elements of the vector",
        )],
        aliases: &[],
        build: |args| Ok(built(OneHot::new(args.u32("classes")?)?)),
        recipes: Recipes::None("labels have steps of their own"),
        golden: Golden::None("one comparison, tested in its file"),
    };
}
