//! One draw of a policy: chooses one of several lists of ops, and whether the list runs.
//!
//! ```text
//! outcome k:          list k runs
//! outcome count + k:  list k was drawn, but its coin says that it does not run
//! ```

use crate::author::{ChoiceBranch, ChoiceOp, Op, OpClass, Rng, Type};
use crate::container::only;
use crate::op::on_levels;
use crate::random_choice::Weights;
use crate::{Ops, TypeError};

/// Draws one of several lists of ops, then whether the list runs.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    name: &'static str,
    count: usize,
    /// The relative probabilities of the lists; `None` if all are equal.
    weights: Option<Weights>,
    /// The probability that the drawn list runs.
    p: f64,
    members: Vec<ChoiceBranch>,
}

impl Pick {
    /// Draws one of `lists`, by weight if there are weights, uniformly otherwise.
    ///
    /// The number of lists must be 1 to 64.
    pub(crate) fn new(
        name: &'static str,
        lists: impl IntoIterator<Item = Ops>,
        weights: Option<Weights>,
        p: f64,
    ) -> Self {
        let members = crate::container::alternatives(lists);
        Self { name, count: members.len(), weights, p, members }
    }

    /// Adds one list for each drawn list: it runs after the drawn list, even if the coin skipped
    /// that list.
    pub(crate) fn then(mut self, after: impl IntoIterator<Item = Ops>) -> Self {
        for (index, ops) in after.into_iter().enumerate() {
            self.members.push(ChoiceBranch { ops, when: only(index) | only(self.count + index) });
        }
        self
    }
}

impl Op for Pick {
    fn name(&self) -> &'static str {
        self.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name, input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Choice(self)
    }
}

impl ChoiceOp for Pick {
    fn outcomes(&self) -> usize {
        2 * self.count
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.members
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let index = match &self.weights {
            Some(weights) => weights.draw(rng),
            None => rng.below(self.count as u32) as usize,
        };
        let runs = self.p >= 1.0 || f64::from(rng.unit()) <= self.p;
        if runs { index } else { self.count + index }
    }
}
