//! Label smoothing: a one-hot vector passes a share of its class on to all classes.

use crate::author::{LabelOp, Type};
use crate::op::{Op, class};
use crate::{DType, TypeError};

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
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    LABELS,
    "spreads a share of a one-hot vector evenly over all classes",
    recipes = "labels have steps of their own",
    golden = "one formula, tested in its file"
)]
pub struct LabelSmoothing {
    /// Builds the op with the share `epsilon`, usually 0.1.
    #[param("the share", 0.0..=1.0, example = 0.1)]
    epsilon: f64,
}

#[class(Label)]
impl Op for LabelSmoothing {
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
}

impl LabelOp for LabelSmoothing {
    fn element(&self, value: f32, classes: usize) -> f32 {
        value * (1.0 - self.epsilon) as f32 + (self.epsilon / classes as f64) as f32
    }
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
    fn what_is_no_one_hot_vector_is_refused() {
        let op = LabelSmoothing::new(0.1).unwrap();
        for (dtype, shape) in [(DType::I64, vec![1]), (DType::F32, vec![1]), (DType::F16, vec![9])]
        {
            assert!(op.output(&Type::Tensor { dtype, shape }).is_err(), "{dtype}");
        }
    }
}
