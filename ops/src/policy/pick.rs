//! One draw of a policy: which of some lists of ops runs, if any does.
//!
//! ```text
//! outcome k:          list k runs
//! outcome count + k:  list k was drawn, but its coin says that it does not run
//! ```

use crate::container::only;
use crate::op::on_u8_image;
use crate::random_choice::Weights;
use crate::{ChoiceOp, Class, Member, Op, Ops, Rng, Type, TypeError};

/// Draws one of some lists, then whether it runs.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    name: &'static str,
    count: usize,
    /// All the same if there are none.
    weights: Option<Weights>,
    /// The share of the samples for which what was drawn runs.
    p: f64,
    members: Vec<Member>,
}

impl Pick {
    /// One of `lists`, by weight if there are weights, all lists alike if there are none.
    ///
    /// There must be lists: 1 to 64 of them.
    pub(crate) fn new(
        name: &'static str,
        lists: impl IntoIterator<Item = Ops>,
        weights: Option<Weights>,
        p: f64,
    ) -> Self {
        let members = crate::container::alternatives(lists);
        Self { name, count: members.len(), weights, p, members }
    }

    /// Adds ops that run after whatever was drawn, by what that was, whether it ran or not.
    pub(crate) fn then(mut self, after: impl IntoIterator<Item = Ops>) -> Self {
        for (index, ops) in after.into_iter().enumerate() {
            self.members.push(Member { ops, when: only(index) | only(self.count + index) });
        }
        self
    }
}

impl Op for Pick {
    fn name(&self) -> &'static str {
        self.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name, input, |image| image)
    }

    fn class(&self) -> Class<'_> {
        Class::Choice(self)
    }
}

impl ChoiceOp for Pick {
    fn outcomes(&self) -> usize {
        2 * self.count
    }

    fn members(&self) -> &[Member] {
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
