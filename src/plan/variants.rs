//! Counts the loop bodies that a block may need: one for each list of fused ops that a sample may run.
//!
//! ```text
//! at most  2 for each group that may be skipped  *  orders of shuffled groups  *  lists that the choices leave
//! ```
//!
//! A choice inside another choice is drawn only for some outcomes of the outer one, and ops that exclude
//! each other share fused ops, so many outcomes leave the same few lists. These lists are found by
//! trying all outcomes, choice by choice. Where that leads to too many lists to be compiled anyway, the
//! bound is the product of the numbers of lists that each choice leaves by itself.

#[cfg(feature = "object")]
use super::block::nth_order;
use super::block::{Block, FusedOp, MAX_VARIANTS, OpGroup, orders};
use super::flatten::FlatOp;
#[cfg(feature = "object")]
use crate::error::{Error, fail};
use std::collections::HashSet;

/// Most lists of groups that are tried: the outcomes of a choice in each outcome of another one, a few
/// times over.
const MAX_TRIED: usize = 4096;

impl Block {
    /// Returns an upper bound of how many lists of fused ops samples may need.
    #[must_use]
    pub fn variants(&self, leaves: &[FlatOp]) -> usize {
        let free = |step: &&OpGroup| leaves[step.flat_ops[0]].kind.may_skip();
        let coins = self.groups.iter().filter(free).count();
        let shuffles = self.groups.iter().map(|step| orders(step.fused_ops.len()));
        let all = shuffles.chain([2].repeat(coins)).chain([self.chosen_lists(leaves)]);
        all.fold(1, usize::saturating_mul)
    }

    /// Returns all lists of fused ops that samples may need, each once.
    ///
    /// # Errors
    ///
    /// If the choices of the ops leave too many lists to try.
    #[cfg(feature = "object")]
    pub(crate) fn all_fused_ops(&self, leaves: &[FlatOp]) -> Result<Vec<Vec<FusedOp>>, Error> {
        let (mut lists, mut known) = (vec![], HashSet::new());
        let trial = self.outcomes(leaves);
        if trial.is_over() {
            return Err(too_many());
        }
        for steps in &trial.steps {
            let mut all: Vec<Vec<FusedOp>> = vec![vec![]];
            for step in steps {
                let may_skip = leaves[step.flat_ops[0]].kind.may_skip();
                let count = step.fused_ops.len();
                let mut longer = if may_skip { all.clone() } else { vec![] };
                for order in 0..orders(count) {
                    let order = nth_order(count, order);
                    let more: Vec<FusedOp> =
                        order.into_iter().map(|part| step.fused_ops[part]).collect();
                    longer.extend(all.iter().map(|list| [&list[..], &more].concat()));
                }
                if longer.len() > MAX_TRIED {
                    return Err(too_many());
                }
                all = longer;
            }
            lists.extend(all.into_iter().filter(|list| known.insert(list.clone())));
            if lists.len() > MAX_TRIED {
                return Err(too_many());
            }
        }
        Ok(lists)
    }

    /// Walks over all outcomes of the choices.
    fn outcomes<'a>(&'a self, leaves: &'a [FlatOp]) -> OutcomeWalk<'a> {
        let steps: Vec<&OpGroup> = self.groups.iter().collect();
        let mut trial = OutcomeWalk { leaves, lists: HashSet::new(), steps: vec![], tried: 0 };
        trial.run(&steps, 0);
        trial
    }

    /// Returns how many lists of fused ops the choices leave.
    fn chosen_lists(&self, leaves: &[FlatOp]) -> usize {
        let steps: Vec<&OpGroup> = self.groups.iter().collect();
        let trial = self.outcomes(leaves);
        if !trial.is_over() {
            return trial.lists.len();
        }
        let guards = steps.iter().flat_map(|step| &leaves[step.flat_ops[0]].guards);
        let mut choices: Vec<usize> = guards.map(|guard| guard.choice).collect();
        choices.sort_unstable();
        choices.dedup();
        let alone = choices.into_iter().map(|choice| {
            let left = remaining_after(leaves, &steps, choice);
            left.iter().map(|steps| links(steps)).collect::<HashSet<_>>().len()
        });
        alone.fold(1, usize::saturating_mul)
    }
}

/// A walk over all outcomes.
struct OutcomeWalk<'a> {
    leaves: &'a [FlatOp],
    /// The lists of fused ops found so far.
    lists: HashSet<Vec<&'a [FusedOp]>>,
    /// The lists of groups found so far.
    steps: Vec<Vec<&'a OpGroup>>,
    /// How many lists of groups were tried.
    tried: usize,
}

impl<'a> OutcomeWalk<'a> {
    /// Returns whether there are too many.
    fn is_over(&self) -> bool {
        self.lists.len() > MAX_VARIANTS || self.tried > MAX_TRIED
    }

    /// Finds the lists that `steps` become by the choices from `first` on. A choice that guards another
    /// one has the lower number.
    fn run(&mut self, steps: &[&'a OpGroup], first: usize) {
        self.tried += 1;
        if self.is_over() {
            return;
        }
        let guards = steps.iter().flat_map(|step| &self.leaves[step.flat_ops[0]].guards);
        let open = guards.map(|guard| guard.choice).filter(|choice| *choice >= first);
        let Some(choice) = open.min() else {
            self.lists.insert(links(steps));
            self.steps.push(steps.to_vec());
            return;
        };
        for left in remaining_after(self.leaves, steps, choice) {
            self.run(&left, choice + 1);
        }
    }
}

#[cfg(feature = "object")]
fn too_many() -> Error {
    fail!(
        Pipeline,
        "its random choices leave more than {MAX_TRIED} lists of ops, each of which needs code of its own: use fewer choices"
    )
}

fn links<'a>(steps: &[&'a OpGroup]) -> Vec<&'a [FusedOp]> {
    steps.iter().map(|step| step.fused_ops.as_slice()).collect()
}

/// Returns the lists that the outcomes of `choice` leave of some groups, each once. Groups are the same
/// if their fused ops are, and the guards of other choices.
fn remaining_after<'a>(
    leaves: &[FlatOp],
    steps: &[&'a OpGroup],
    choice: usize,
) -> Vec<Vec<&'a OpGroup>> {
    let guards = |step: &OpGroup| leaves[step.flat_ops[0]].guards.iter();
    let others = |step: &'a OpGroup| guards(step).filter(move |guard| guard.choice != choice);
    let same = |(a, b): (&&'a OpGroup, &&'a OpGroup)| {
        a.fused_ops == b.fused_ops && others(a).eq(others(b))
    };
    let mut found: Vec<Vec<&OpGroup>> = vec![];
    for outcome in 0..128 {
        let runs = |step: &&&OpGroup| {
            guards(step).all(|guard| guard.choice != choice || guard.when >> outcome & 1 == 1)
        };
        let left: Vec<&OpGroup> = steps.iter().filter(runs).copied().collect();
        let is_known = |known: &Vec<&'a OpGroup>| {
            known.len() == left.len() && known.iter().zip(&left).all(same)
        };
        if !found.iter().any(is_known) {
            found.push(left);
        }
    }
    found
}
