//! How many loop bodies a block may need: one for each list of links that a sample may run.
//!
//! ```text
//! at most  coins of steps  *  orders of shuffled steps  *  lists that the choices leave
//! ```
//!
//! A choice inside another one is drawn for some of its outcomes only, and leaves that exclude each
//! other share links, so many outcomes leave the same few lists. They are found by trying all
//! outcomes, choice by choice; where that leads to too many to be compiled anyway, the product of
//! what each choice leaves by itself is the bound.

use super::block::{Block, Link, MAX_VARIANTS, Step, orders};
use super::leaf::Leaf;
use std::collections::HashSet;

/// Most lists of steps that are tried: the outcomes of a choice in each outcome of another one,
/// a few times over.
const MAX_TRIED: usize = 4096;

impl Block {
    /// An upper bound of how many lists of links samples may need.
    #[must_use]
    pub fn variants(&self, leaves: &[Leaf]) -> usize {
        let free = |step: &&Step| leaves[step.leaves[0]].kind.may_skip();
        let coins = self.steps.iter().filter(free).count();
        let shuffles = self.steps.iter().map(|step| orders(step.links.len()));
        let all = shuffles.chain([2].repeat(coins)).chain([self.chosen(leaves)]);
        all.fold(1, usize::saturating_mul)
    }

    /// How many lists of links the choices leave.
    fn chosen(&self, leaves: &[Leaf]) -> usize {
        let steps: Vec<&Step> = self.steps.iter().collect();
        let mut trial = Trial { leaves, lists: HashSet::new(), tried: 0 };
        trial.run(&steps, 0);
        if !trial.is_over() {
            return trial.lists.len();
        }
        let guards = steps.iter().flat_map(|step| &leaves[step.leaves[0]].guards);
        let mut choices: Vec<usize> = guards.map(|guard| guard.choice).collect();
        choices.sort_unstable();
        choices.dedup();
        let alone = choices.into_iter().map(|choice| {
            let left = left_by(leaves, &steps, choice);
            left.iter().map(|steps| links(steps)).collect::<HashSet<_>>().len()
        });
        alone.fold(1, usize::saturating_mul)
    }
}

/// All outcomes, tried.
struct Trial<'a> {
    leaves: &'a [Leaf],
    /// The lists of links that were found.
    lists: HashSet<Vec<&'a [Link]>>,
    /// How many lists of steps were looked at.
    tried: usize,
}

impl<'a> Trial<'a> {
    /// Whether there are too many.
    fn is_over(&self) -> bool {
        self.lists.len() > MAX_VARIANTS || self.tried > MAX_TRIED
    }

    /// Finds the lists that `steps` become by the choices from `first` on. A choice that guards
    /// another one has the lower number.
    fn run(&mut self, steps: &[&'a Step], first: usize) {
        self.tried += 1;
        if self.is_over() {
            return;
        }
        let guards = steps.iter().flat_map(|step| &self.leaves[step.leaves[0]].guards);
        let open = guards.map(|guard| guard.choice).filter(|choice| *choice >= first);
        let Some(choice) = open.min() else {
            self.lists.insert(links(steps));
            return;
        };
        for left in left_by(self.leaves, steps, choice) {
            self.run(&left, choice + 1);
        }
    }
}

fn links<'a>(steps: &[&'a Step]) -> Vec<&'a [Link]> {
    steps.iter().map(|step| step.links.as_slice()).collect()
}

/// What the outcomes of `choice` leave of some steps, each once: steps are the same if their links
/// are, and the guards of other choices.
fn left_by<'a>(leaves: &[Leaf], steps: &[&'a Step], choice: usize) -> Vec<Vec<&'a Step>> {
    let guards = |step: &Step| leaves[step.leaves[0]].guards.iter();
    let others = |step: &'a Step| guards(step).filter(move |guard| guard.choice != choice);
    let same = |(a, b): (&&'a Step, &&'a Step)| a.links == b.links && others(a).eq(others(b));
    let mut found: Vec<Vec<&Step>> = vec![];
    for outcome in 0..128 {
        let runs = |step: &&&Step| {
            guards(step).all(|guard| guard.choice != choice || guard.when >> outcome & 1 == 1)
        };
        let left: Vec<&Step> = steps.iter().filter(runs).copied().collect();
        let is_known =
            |known: &Vec<&'a Step>| known.len() == left.len() && known.iter().zip(&left).all(same);
        if !found.iter().any(is_known) {
            found.push(left);
        }
    }
    found
}
