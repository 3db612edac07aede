//! Folding: several links become one.
//!
//! | pass | what | where it gives the same |
//! |---|---|---|
//! | [`tables`] | per-channel ops in a row become one table of 256 values for each channel | always: their input is whole levels, so the table holds what the ops would give |
//! | [`matrices`] | colour matrices in a row become their product | but for clamping in between; only under [`NumberRule::Relaxed`], which says so |
//!
//! A table costs as much as about three clamped ops, or two that also truncate (measured: 1.0
//! ns a pixel, against 0.3 and 0.6 an op), and 256 evaluations a sample to fill.

use super::block::{Block, Link, Step, pixel_op};
use super::kind::Kind;
use super::leaf::Leaf;
use fuseloop_ops::{DType, NumberRule};

/// Fewest pixels of a picture that is worth filling a table for.
const WORTH_A_TABLE: u64 = 16_384;

/// Folds runs of per-channel ops into tables.
pub(super) fn tables(block: &mut Block, leaves: &[Leaf], rule: NumberRule) {
    let mut whole = true; // whether values are whole levels before the step at hand
    let mut at = 0;
    while at < block.steps.len() {
        let may_fold = |step: &&Step| is_per_channel(leaves, step);
        let run = block.steps[at..].iter().take_while(may_fold).count();
        if whole && run > 1 && pays(leaves, &block.steps[at..at + run], rule) {
            let folded = block.steps.drain(at..at + run).flat_map(|step| step.leaves).collect();
            let link = Link::Table { table: block.tables, counted: false };
            block.steps.insert(at, Step { leaves: folded, links: vec![link] });
            block.tables += 1;
        }
        whole = is_whole_after(block, leaves, &block.steps[at], rule, whole);
        at += 1;
    }
}

/// Folds runs of colour matrices into their products.
pub(super) fn matrices(block: &mut Block, leaves: &[Leaf], rule: NumberRule) {
    if rule != NumberRule::Relaxed {
        return;
    }
    let mut at = 0;
    while at < block.steps.len() {
        let run = block.steps[at..].iter().take_while(|step| is_matrix(leaves, step)).count();
        if run > 1 {
            let folded = block.steps.drain(at..at + run).flat_map(|step| step.leaves).collect();
            let slot = block.take_slots(12);
            let links = vec![Link::Matrix { slot }];
            block.steps.insert(at, Step { leaves: folded, links });
        }
        at += 1;
    }
}

/// The op of a step that runs for every sample, alone.
fn lone<'a>(leaves: &'a [Leaf], step: &Step) -> Option<&'a Kind> {
    let [leaf] = step.leaves[..] else { return None };
    let leaf = &leaves[leaf];
    leaf.guards.is_empty().then_some(&leaf.kind)
}

fn is_per_channel(leaves: &[Leaf], step: &Step) -> bool {
    match lone(leaves, step) {
        Some(Kind::Pixel(op)) => {
            op.is_per_channel && !op.needs_mean && !op.uses_place && !op.may_skip
        }
        Some(Kind::Table { may_skip, counted, .. }) => !counted && !may_skip,
        _ => false,
    }
}

fn is_matrix(leaves: &[Leaf], step: &Step) -> bool {
    match lone(leaves, step) {
        Some(Kind::Pixel(kind)) => {
            let op = pixel_op(leaves, step.leaves[0], None);
            let is_matrix = op.is_some_and(|op| op.matrix(&vec![0.0; kind.slots]).is_some());
            is_matrix && !kind.needs_mean && !kind.may_skip
        }
        _ => false,
    }
}

/// Whether one table is faster than these steps.
fn pays(leaves: &[Leaf], run: &[Step], rule: NumberRule) -> bool {
    let first = &leaves[run[0].leaves[0]].input;
    let is_small = first.size().is_some_and(|size| size.pixels() < WORTH_A_TABLE);
    let has_table = run.iter().any(|step| matches!(step.links[0], Link::Table { .. }));
    let of_levels = |step: &&Step| stays_u8(&leaves[step.leaves[0]]);
    let steps = run.iter().filter(of_levels).count();
    let least = if rule == NumberRule::Exact { 2 } else { 3 };
    has_table || (!is_small && steps >= least)
}

/// Whether the op gives values of 0..=255.
fn stays_u8(leaf: &Leaf) -> bool {
    leaf.output.dtype == DType::U8
}

fn is_whole_after(
    block: &Block,
    leaves: &[Leaf],
    step: &Step,
    rule: NumberRule,
    before: bool,
) -> bool {
    let last = &leaves[step.leaves[step.leaves.len() - 1]];
    match step.links[0] {
        Link::Round => true,
        Link::Paint { region } => {
            before && block.regions[region].fill.iter().all(|v| v.fract() == 0.0)
        }
        Link::Table { .. } | Link::Value { .. } => {
            let kind = leaves[step.leaves[0]].kind.pixel(None);
            let exact = kind.is_none_or(|kind| !kind.uses_place);
            rule == NumberRule::Exact && exact && stays_u8(last)
        }
        Link::Matrix { .. } => false,
    }
}
