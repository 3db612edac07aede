//! Label smoothing: a one-hot vector passes a share of its class on to all classes.

use crate::author::{LabelOp, Op, OpClass, Type};
use crate::registry::{Golden, LABELS, OpInfo, ParamKind, ParamValue, Recipes, built, required};
use crate::{DType, ParamError, TypeError};

/// Spreads a share `epsilon` of a one-hot vector evenly over all classes.
///
#[cfg_attr(doc, doc = include_str!("../pictures/LabelSmoothing.md"))]
///
/// Szegedy et al., arXiv:1512.00567, section 7.
///
/// ```text
/// out[k] = f32(in[k] * f32(1 - epsilon)) + f32(epsilon / K)      k in 0..K
/// ```
///
/// | | |
/// |--------|------------------------------------------------------------------|
/// | input  | f32 `[K]`, K at least 2: the output of [`OneHot`](crate::OneHot) |
/// | output | as the input                                                     |
/// | random | nothing                                                          |
/// | cost   | two numbers per sample, and storing the vector                   |
///
/// The output is the target that PyTorch's `CrossEntropyLoss(label_smoothing=epsilon)` builds, as a
/// vector: do not pass the same number to the loss as well. The op goes after [`OneHot`](crate::OneHot)
/// and before [`MixUp`](crate::MixUp).
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![OneHot::new(1000)?, LabelSmoothing::new(0.1)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelSmoothing {
    epsilon: f64,
}

impl LabelSmoothing {
    /// Builds the op with the share `epsilon`, usually 0.1.
    ///
    /// # Errors
    ///
    /// If `epsilon` is not in `0.0..=1.0`.
    pub fn new(epsilon: f64) -> Result<Self, ParamError> {
        if (0.0..=1.0).contains(&epsilon) {
            Ok(Self { epsilon })
        } else {
            Err(ParamError::new("LabelSmoothing", "epsilon", epsilon, "0.0..=1.0"))
        }
    }
}

impl Op for LabelSmoothing {
    fn name(&self) -> &'static str {
        "LabelSmoothing"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match input {
            Type::Tensor { dtype: DType::F32, shape } if shape.len() == 1 && shape[0] > 1 => {
                Ok(input.clone())
            }
            found => Err(TypeError {
                op: self.name(),
                expected: "a one-hot vector (put OneHot before it, Convert after it)",
                found: found.to_string(),
            }),
        }
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Label(self)
    }
}

impl LabelOp for LabelSmoothing {
    fn element(&self, value: f32, classes: usize) -> f32 {
        value * (1.0 - self.epsilon) as f32 + (self.epsilon / classes as f64) as f32
    }
}

impl LabelSmoothing {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "LabelSmoothing",
        class: LABELS,
        summary: "spreads a share of a one-hot vector evenly over all classes",
        params: &[required("epsilon", ParamKind::Number, ParamValue::Float(0.1), "the share")],
        aliases: &[],
        build: |args| Ok(built(LabelSmoothing::new(args.float("epsilon")?)?)),
        recipes: Recipes::None("labels have steps of their own"),
        golden: Golden::None("one formula, tested in its file"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_spread_over_four_classes() {
        let op = LabelSmoothing::new(0.1).unwrap();
        assert_eq!([0.0, 1.0].map(|v| op.element(v, 4)), [0.025, 0.9 + 0.025]);
        let none = LabelSmoothing::new(0.0).unwrap();
        assert_eq!([0.0, 1.0].map(|v| none.element(v, 4)), [0.0, 1.0]);
    }

    #[test]
    fn a_share_outside_0_to_1_is_refused() {
        for epsilon in [-0.1, 1.1, f64::NAN] {
            assert!(LabelSmoothing::new(epsilon).is_err(), "{epsilon}");
        }
    }

    #[test]
    fn what_is_no_one_hot_vector_is_refused() {
        let op = LabelSmoothing::new(0.1).unwrap();
        for (dtype, shape) in [(DType::I64, vec![1]), (DType::F32, vec![1]), (DType::F16, vec![9])]
        {
            assert!(op.output(&Type::Tensor { dtype, shape }).is_err(), "{dtype}");
        }
    }
}
