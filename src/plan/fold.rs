//! Folding: several fused ops become one.
//!
//! | pass | result | where the values are the same |
//! |---|---|---|
//! | [`tables`] | adjacent per-channel ops become one table of 256 values for each channel | always: their input is whole levels, so the table holds the ops' own results |
//! | [`matrices`] | adjacent colour matrices become their product | except for clamping in between; so only under [`NumberRule::Relaxed`], which allows this |
//!
//! A table costs as much as about three clamped ops, or two that also truncate (measured: 1.0
//! ns a pixel, against 0.3 and 0.6 an op), and 256 evaluations a sample to fill.

use super::block::{Block, FusedOp, OpGroup, pixel_op};
use super::flatten::FlatOp;
use super::kind::OpKind;
use fuseloop_ops::internals::RGB;
use fuseloop_ops::{DType, NumberRule};

/// Fewest pixels of an image that make filling a table worthwhile.
const WORTH_A_TABLE: u64 = 16_384;

/// Folds runs of per-channel ops into tables.
pub(super) fn tables(block: &mut Block, leaves: &[FlatOp], rule: NumberRule) {
    // This is true if values are whole levels before the current group.
    let mut whole = block.source == DType::U8;
    let mut at = 0;
    while at < block.groups.len() {
        let may_fold = |step: &&OpGroup| is_per_channel(leaves, step);
        let run = block.groups[at..].iter().take_while(may_fold).count();
        if whole && run > 1 && pays(leaves, &block.groups[at..at + run], rule) {
            let folded = block.groups.drain(at..at + run).flat_map(|step| step.flat_ops).collect();
            let link = FusedOp::Table { table: block.tables, counted: false };
            block.groups.insert(at, OpGroup { flat_ops: folded, fused_ops: vec![link] });
            block.tables += 1;
        }
        whole = is_whole_after(block, leaves, &block.groups[at], rule, whole);
        at += 1;
    }
}

/// Folds runs of colour matrices into their products.
pub(super) fn matrices(block: &mut Block, leaves: &[FlatOp], rule: NumberRule) {
    if rule != NumberRule::Relaxed {
        return;
    }
    let mut at = 0;
    while at < block.groups.len() {
        let run = block.groups[at..].iter().take_while(|step| is_matrix(leaves, step)).count();
        if run > 1 {
            let folded = block.groups.drain(at..at + run).flat_map(|step| step.flat_ops).collect();
            let param = block.take_params(12);
            let fused_ops = vec![FusedOp::Matrix { param }];
            block.groups.insert(at, OpGroup { flat_ops: folded, fused_ops });
        }
        at += 1;
    }
}

/// Returns the op of a group that consists of one op and runs for every sample.
fn lone<'a>(leaves: &'a [FlatOp], step: &OpGroup) -> Option<&'a OpKind> {
    let [leaf] = step.flat_ops[..] else { return None };
    let leaf = &leaves[leaf];
    leaf.guards.is_empty().then_some(&leaf.kind)
}

fn is_per_channel(leaves: &[FlatOp], step: &OpGroup) -> bool {
    match lone(leaves, step) {
        Some(OpKind::Pixel(op)) => {
            op.is_per_channel && op.statistic.is_none() && !op.uses_position && !op.may_skip
        }
        Some(OpKind::Table { may_skip, counted, .. }) => !counted && !may_skip,
        _ => false,
    }
}

fn is_matrix(leaves: &[FlatOp], step: &OpGroup) -> bool {
    match lone(leaves, step) {
        Some(OpKind::Pixel(kind)) => {
            let op = pixel_op(leaves, step.flat_ops[0], None);
            let is_matrix = op.is_some_and(|op| op.matrix(&vec![0.0; kind.param_count]).is_some());
            let FlatOp { input, output, .. } = &leaves[step.flat_ops[0]];
            let is_rgb = [input, output].iter().all(|image| usize::from(image.channels) == RGB);
            is_rgb && is_matrix && kind.statistic.is_none() && !kind.may_skip
        }
        _ => false,
    }
}

/// Returns whether one table is faster than these groups.
fn pays(leaves: &[FlatOp], run: &[OpGroup], rule: NumberRule) -> bool {
    let first = &leaves[run[0].flat_ops[0]].input;
    let is_small = first.size().is_some_and(|size| size.pixels() < WORTH_A_TABLE);
    let has_table = run.iter().any(|step| matches!(step.fused_ops[0], FusedOp::Table { .. }));
    let of_levels = |step: &&OpGroup| stays_u8(&leaves[step.flat_ops[0]]);
    let steps = run.iter().filter(of_levels).count();
    let least = if rule == NumberRule::Exact { 2 } else { 3 };
    has_table || (!is_small && steps >= least)
}

/// Returns whether the op's values are within 0..=255.
fn stays_u8(leaf: &FlatOp) -> bool {
    leaf.output.dtype == DType::U8
}

fn is_whole_after(
    block: &Block,
    leaves: &[FlatOp],
    step: &OpGroup,
    rule: NumberRule,
    before: bool,
) -> bool {
    let last = &leaves[step.flat_ops[step.flat_ops.len() - 1]];
    match step.fused_ops[0] {
        FusedOp::Round => true,
        FusedOp::Paint { region } => {
            before && block.regions[region].fill.iter().all(|v| v.fract() == 0.0)
        }
        FusedOp::Table { .. } | FusedOp::Value { .. } => {
            let kind = leaves[step.flat_ops[0]].kind.pixel(None);
            let exact = kind.is_none_or(|kind| !kind.uses_position);
            rule == NumberRule::Exact && exact && stays_u8(last)
        }
        FusedOp::Matrix { .. } => false,
    }
}
