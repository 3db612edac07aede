//! Random apply: runs a whole list of ops, or none of it.

use crate::author::{ChoiceBranch, ChoiceOp, Rng, Type};
use crate::container::{self, only, output};
use crate::op::{ImageType, Op, class};
use crate::registry::{BuiltOp, built, recipe};
use crate::registry::{Checked, ParamLimits};
use crate::{Ops, ParamError, TypeError};

/// Runs a whole list of ops, or none of it, for a share `p` of the samples.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomApply.md"))]
///
/// torchvision's `RandomApply(transforms, p)`: one coin for the whole list.
///
/// ```text
/// out = ops(in)    for a sample whose coin is heads
/// out = in         otherwise
/// ```
///
/// | | |
/// |--------|--------------------------------------------------------------|
/// | input  | the input of the first op                                    |
/// | output | the last op's output, which must be of the input's type      |
/// | random | a coin `p`, then the ops' own draws if the coin is heads     |
/// | cost   | the ops' cost for a share `p` of the samples; the others run a loop body without them |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomApply::new(ops![GaussianBlur::new(9)?]).p(0.1)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug)]
#[op(POLICY, "runs a list of ops for a share p of the images", constructor = new, draw = drawn, golden = "runs its list or not: its ops are tested themselves")]
#[param(ops: Ops, "the ops, in order", example = ["RandomHorizontalFlip"])]
#[param(p: f64, share)]
pub struct RandomApply {
    p: f64,
    list: [ChoiceBranch; 1],
}

impl RandomApply {
    /// Runs all of `ops`, in order, for half of the samples.
    #[must_use]
    pub fn new(ops: Ops) -> Self {
        Self { p: 0.5, list: [ChoiceBranch { ops, when: only(HEADS) }] }
    }

    /// Sets the share of the samples that run the ops. Default 0.5.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn p(mut self, p: f64) -> Result<Self, ParamError> {
        self.p = p.checked("RandomApply", "p", ParamLimits::SHARE)?;
        self.list[0].when = match p {
            0.0 => 0,
            1.0 => only(TAILS) | only(HEADS),
            _ => only(HEADS),
        };
        Ok(self)
    }
}

const TAILS: usize = 0;
const HEADS: usize = 1;

#[class(Choice)]
impl Op for RandomApply {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        output(self.name(), self, input)
    }
}

impl ChoiceOp for RandomApply {
    fn outcomes(&self) -> usize {
        2
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.list
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        if rng.coin(self.p) { HEADS } else { TAILS }
    }
}

/// Draws a container that is in `depth` others.
pub(crate) fn random(rng: &mut Rng, before: &ImageType, depth: u32) -> Result<BuiltOp, ParamError> {
    let list = container::random_ops(rng, before, 3, depth)?;
    Ok(built(RandomApply::new(list).p(recipe::share(rng))?))
}

fn drawn(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    random(rng, before, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;
    use crate::{Normalize, RandomCrop, RandomHorizontalFlip, container, ops};

    fn flip() -> Ops {
        ops![RandomHorizontalFlip::new(1.0).unwrap()]
    }

    #[test]
    fn a_share_of_the_samples_runs_the_list() {
        let op = RandomApply::new(flip()).p(0.25).unwrap();
        let draw = |sample| op.draw(&mut SampleKey::new(1, 2, sample).op(3));
        let heads: usize = (0..4000).map(draw).sum();
        assert!((900..1100).contains(&heads), "{heads}");
        assert_eq!(op.branches()[0].when, 0b10);
    }

    #[test]
    fn certain_outcomes_need_no_second_loop_body() {
        assert_eq!(RandomApply::new(flip()).p(0.0).unwrap().branches()[0].when, 0b00);
        assert_eq!(RandomApply::new(flip()).p(1.0).unwrap().branches()[0].when, 0b11);
    }

    #[test]
    fn a_list_that_changes_the_type_is_refused_unless_it_always_runs() {
        let photo = container::tests::photo();
        for ops in [ops![Normalize::imagenet()], ops![RandomCrop::new(8).unwrap()]] {
            assert!(RandomApply::new(ops.clone()).output(&photo).is_err());
            assert!(RandomApply::new(ops).p(1.0).unwrap().output(&photo).is_ok());
        }
    }

    #[test]
    fn a_probability_outside_0_to_1_is_refused() {
        for p in [-0.1, 1.1, f64::NAN] {
            assert!(RandomApply::new(flip()).p(p).is_err(), "{p}");
        }
    }
}
