//! Replace label: sets the label of some samples.

use crate::author::{BoxError, LabelOp, Type};
use crate::op::{Op, class, on_one_label};
use crate::{LabelSample, TypeError};

/// Replaces the labels of the listed samples.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ReplaceLabel.md"))]
///
/// ```text
/// out = new_label   if the sample's id is listed
/// out = in          otherwise
/// ```
///
/// | | |
/// |--------|---------------------------------------------|
/// | input  | i64 of one element                          |
/// | output | as the input                                |
/// | random | nothing                                     |
/// | cost   | a binary search a sample                    |
///
/// FFCV's `ReplaceLabel(indices, new_label)`; ids are rows of the dataset.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ReplaceLabel::new([3, 7], 0)]; // samples 3 and 7 are of class 0
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug, PartialEq, Eq)]
#[op(LABELS, "gives some samples another label", constructor = new, recipes = "labels have steps of their own", golden = "one comparison, tested in its file")]
pub struct ReplaceLabel {
    #[param("the samples", name = "indices", example = [0, 7])]
    ids: Vec<u64>,
    #[param("their label", example = 1)]
    new_label: i64,
}

impl ReplaceLabel {
    /// Sets the label of the samples `ids`, in any order, to `new_label`.
    #[must_use]
    pub fn new(ids: impl IntoIterator<Item = u64>, new_label: i64) -> Self {
        let mut ids: Vec<u64> = ids.into_iter().collect();
        ids.sort_unstable();
        Self { ids, new_label }
    }
}

#[class(Label)]
impl Op for ReplaceLabel {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_one_label(self.name(), input)?;
        Ok(input.clone())
    }
}

impl LabelOp for ReplaceLabel {
    fn eval(&self, cx: LabelSample<'_>, label: i64) -> Result<i64, BoxError> {
        Ok(if self.ids.binary_search(&cx.sample).is_ok() { self.new_label } else { label })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_samples_and_no_others() {
        let op = ReplaceLabel::new([7, 3, 5], 99);
        let rng = &mut crate::author::Rng::new(0);
        let label = |sample| op.eval(LabelSample { sample, epoch: 0, rng: &mut *rng }, 1).unwrap();
        let labels: Vec<i64> = (0..9).map(label).collect();
        assert_eq!(labels, [1, 1, 1, 99, 1, 99, 1, 99, 1]);
    }
}
