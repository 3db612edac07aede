//! Random choice: one of several lists of ops.

use crate::author::{ChoiceBranch, ChoiceOp, Rng, Type};
use crate::container::{self, alternatives, output};
use crate::op::{ImageType, Op, class};
use crate::registry::SpecError;
use crate::registry::{BuiltOp, OpArgs, built};
use crate::{Ops, ParamError, TypeError};

/// The maximum number of lists: the number of bits in a mask of outcomes.
const MOST: usize = 128;

/// Runs one of several lists of ops, drawn by weight.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomChoice.md"))]
///
/// torchvision's `RandomChoice(transforms, p)`, except that each entry is a list of ops.
///
/// ```text
/// list k runs with probability weights[k] / sum(weights)
/// ```
///
/// | | |
/// |--------|--------------------------------------------------------------|
/// | input  | a type that every list accepts                               |
/// | output | the lists' output, which must be the same type for all       |
/// | random | one number to choose the list, then the draws of its ops     |
/// | cost   | the cost of the list that runs: each list has its own loop body |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomChoice::new(vec![ops![RandomInvert::new(0.5)?], ops![BoxBlur::new(3)?]])?.weights(&[1.0, 2.0])?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug)]
#[op(POLICY, "runs one of a list of ops", constructor = new, build = build, draw = drawn, golden = "runs one of its lists: their ops are tested themselves")]
#[param(ops: Ops, "the ops, in order", example = ["RandomHorizontalFlip"])]
#[param(weights: Vec<f64>, "relative weight of each; default: all equal", optional)]
pub struct RandomChoice {
    weights: Weights,
    lists: Vec<ChoiceBranch>,
}

impl RandomChoice {
    /// Each list runs for the same share of the samples.
    ///
    /// # Errors
    ///
    /// If there are no lists or more than 128.
    pub fn new(lists: Vec<Ops>) -> Result<Self, ParamError> {
        let weights = vec![1.0; lists.len()];
        Self::of(lists, &weights)
    }

    /// Makes list `k` run for a share `weights[k] / sum(weights)` of the samples.
    ///
    /// # Errors
    ///
    /// If the numbers of weights and lists differ, if a weight is negative or not finite, or if all
    /// weights are 0.
    pub fn weights(self, weights: &[f64]) -> Result<Self, ParamError> {
        Self::of(self.lists.into_iter().map(|list| list.ops).collect(), weights)
    }

    fn of(lists: Vec<Ops>, weights: &[f64]) -> Result<Self, ParamError> {
        let error =
            |param, found, expected| ParamError::new("RandomChoice", param, found, expected);
        if !(1..=MOST).contains(&lists.len()) {
            return Err(error("lists", lists.len().to_string(), "1..=128 lists"));
        }
        if weights.len() != lists.len() {
            return Err(error("weights", format!("{weights:?}"), "one for each list"));
        }
        // A list that never runs is left out: it need not accept the input.
        let possible = lists.into_iter().zip(weights).filter(|(_, weight)| **weight != 0.0);
        let (lists, possible): (Vec<Ops>, Vec<f64>) = possible.unzip();
        let weights = Weights::new(&possible).ok_or_else(|| {
            error("weights", format!("{weights:?}"), "finite, 0 or more, and not all 0")
        })?;
        let lists = alternatives(lists);
        Ok(Self { weights, lists })
    }
}

#[class(Choice)]
impl Op for RandomChoice {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        output(self.name(), self, input)
    }
}

impl ChoiceOp for RandomChoice {
    fn outcomes(&self) -> usize {
        self.lists.len()
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.lists
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        self.weights.draw(rng)
    }
}

/// The probabilities of outcomes, in proportion.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weights {
    /// The cumulative sums of the weights, each including its own outcome's.
    sums: Vec<f64>,
}

impl Weights {
    /// Returns `None` if a weight is negative or not finite, or if the sum is not positive and
    /// finite.
    pub(crate) fn new(weights: &[f64]) -> Option<Self> {
        let mut sum = 0.0;
        let mut sums = Vec::with_capacity(weights.len());
        for &weight in weights {
            if !(weight >= 0.0 && weight.is_finite()) {
                return None;
            }
            sum += weight;
            sums.push(sum);
        }
        (sum > 0.0 && sum.is_finite()).then_some(Self { sums })
    }

    /// Returns the first outcome whose cumulative sum is above a uniform random share of the total.
    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        let whole = self.sums.last().copied().unwrap_or_default();
        let share = f64::from(rng.unit()) * whole;
        self.sums.partition_point(|sum| *sum <= share)
    }
}

/// Draws a container that is in `depth` others.
pub(crate) fn random(rng: &mut Rng, before: &ImageType, depth: u32) -> Result<BuiltOp, ParamError> {
    let lists = 0..1 + rng.below(4);
    let lists = lists.map(|_| container::random_ops(rng, before, 2, depth));
    let lists = lists.collect::<Result<Vec<Ops>, _>>()?;
    let mut weights: Vec<f64> = lists.iter().map(|_| f64::from(rng.below(3))).collect();
    weights[0] += 1.0;
    Ok(built(RandomChoice::new(lists)?.weights(&weights)?))
}

fn build(args: &OpArgs<'_>) -> Result<BuiltOp, SpecError> {
    let lists = args.ops("ops")?.into_iter().map(|op| vec![op]).collect();
    let op = RandomChoice::new(lists)?;
    Ok(built(match args.if_given("weights", OpArgs::floats)? {
        Some(weights) => op.weights(&weights)?,
        None => op,
    }))
}

fn drawn(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    random(rng, before, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;
    use crate::{RandomHorizontalFlip, Squeeze, container, ops};

    fn counts(weights: &[f64]) -> Vec<usize> {
        let choice = RandomChoice::new(vec![Ops::new(); weights.len()]).unwrap();
        let choice = choice.weights(weights).unwrap();
        let mut counts = vec![0; choice.outcomes()];
        for sample in 0..8000 {
            counts[choice.draw(&mut SampleKey::new(1, 2, sample).op(3))] += 1;
        }
        counts
    }

    #[test]
    fn lists_are_drawn_by_weight() {
        let counts = counts(&[1.0, 3.0]);
        assert!((1850..2150).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn a_list_without_weight_is_never_drawn_and_need_not_fit() {
        let lists = vec![ops![], ops![Squeeze], ops![RandomHorizontalFlip::new(0.5).unwrap()]];
        let choice = RandomChoice::new(lists).unwrap().weights(&[0.0, 0.0, 2.0]).unwrap();
        assert_eq!(
            (choice.outcomes(), choice.branches()[0].ops[0].name()),
            (1, "RandomHorizontalFlip")
        );
        assert!(choice.output(&container::tests::photo()).is_ok());
    }

    #[test]
    fn without_weights_all_lists_are_as_likely() {
        let counts = counts(&[1.0; 4]);
        assert!(counts.iter().all(|n| (1850..2150).contains(n)), "{counts:?}");
    }

    #[test]
    fn bad_weights_and_numbers_of_lists_are_refused() {
        let two = || RandomChoice::new(vec![Ops::new(); 2]).unwrap();
        for weights in [&[1.0][..], &[1.0, -1.0], &[0.0, 0.0], &[1.0, f64::NAN], &[f64::MAX; 2]] {
            assert!(two().weights(weights).is_err(), "{weights:?}");
        }
        assert!(RandomChoice::new(vec![]).is_err());
        assert!(RandomChoice::new(vec![Ops::new(); 128]).is_ok());
        assert!(RandomChoice::new(vec![Ops::new(); 129]).is_err());
    }
}
