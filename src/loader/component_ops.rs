//! Ops for one component of a dataset that is combined from several by
//! [`Stream::mix`](crate::source::Stream::mix), `concat`, `interleave` or
//! [`source::Concat`](crate::source::Concat).
//!
//! ```text
//! a sample of component 0 ─▶ component_ops(0, "image") ─┐
//! a sample of component 1 ─▶ component_ops(1, "image") ─┼─▶ rows of one shape and type: one tensor,
//! a sample of component 2 ─▶ pipeline("image") ───────┘   mixed by the output's own list
//! ```
//!
//! The list of a component is planned as if it were the output's own: with the same field, the same
//! draws, and the sizes known of all samples. A sample's row is therefore the row that a loader with
//! only that list produces.

use super::work::FieldPlan;
use crate::error::{Error, fail};
use crate::plan::batch_ops::is_on_batches;
use fuseloop_ops::Ops;
use fuseloop_ops::author::{Layout, Op, OpClass};
use std::sync::Arc;

/// Refuses ops that are only allowed in the output's own list.
pub(super) fn check_lists(ops: &Ops, main: &FieldPlan) -> Result<(), Error> {
    let is_device = |op: &Arc<dyn Op>| matches!(op.class(), OpClass::Device(_));
    let is_mixer =
        |op: &Arc<dyn Op>| matches!(op.class(), OpClass::Batch(_) | OpClass::MultiImage(_));
    if matches!(main, FieldPlan::Collated(_)) {
        return Err(fail!(Pipeline, "a collated output takes no ops"));
    }
    if let Some(op) = ops.iter().chain(main.ops()).find(|op| is_device(op)) {
        let name = op.name();
        return Err(fail!(Pipeline, "component ops run on the CPU only: remove {name}"));
    }
    if let Some(op) = ops.iter().find(|op| is_on_batches(&***op)) {
        let name = op.name();
        let does = if is_mixer(op) { "mixes" } else { "changes" };
        return Err(fail!(
            Pipeline,
            "{name} {does} all samples of a batch: put it in the output's own list"
        ));
    }
    let is_image = matches!(main, FieldPlan::Image(_));
    match main.ops().iter().find(|op| is_mixer(op)).filter(|_| !is_image) {
        Some(op) => Err(fail!(Pipeline, "{} mixes this output, which is not an image", op.name())),
        None => Ok(()),
    }
}

/// Refuses rows that differ from the output's own.
pub(super) fn check_rows(found: &FieldPlan, wanted: &FieldPlan) -> Result<(), Error> {
    let rows = |work: &FieldPlan| (work.dtype(), work.shape(), layout(work));
    if rows(found) == rows(wanted) {
        return Ok(());
    }
    let words = |work: &FieldPlan| match layout(work) {
        Some(layout) => format!("{:?} {:?} {layout:?}", work.dtype(), work.shape()),
        None => format!("{:?} {:?}", work.dtype(), work.shape()),
    };
    let (found, wanted) = (words(found), words(wanted));
    Err(fail!(Pipeline, "the rows are {found}, expected {wanted} as in the output's own list"))
}

/// Returns the layout of an image's channels, which mixing a batch depends on.
fn layout(work: &FieldPlan) -> Option<Layout> {
    match work {
        FieldPlan::Image(kernel) => Some(kernel.plan().output().layout),
        _ => None,
    }
}
