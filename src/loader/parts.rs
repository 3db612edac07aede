//! Ops of a part of the dataset: one of several that are put together, by
//! [`Stream::mix`](crate::source::Stream::mix), `concat`, `interleave` or
//! [`source::Concat`](crate::source::Concat).
//!
//! ```text
//! a sample of part 0 ─▶ pipeline_of(0, "image") ─┐
//! a sample of part 1 ─▶ pipeline_of(1, "image") ─┼─▶ rows of one shape and type: one tensor,
//! a sample of part 2 ─▶ pipeline("image") ───────┘   mixed as the output's own list says
//! ```
//!
//! A list of a part is planned as if it stood in place of the output's own: the same field, the same
//! draws, the sizes that are known of all samples. So a sample's row is what a loader with that list
//! alone gives.

use super::LoadError;
use super::outputs::Output;
use super::works::{FieldWork, OutputWork, Setup, field_work};
use crate::jit::KernelCache;
use crate::sample::Epoch;
use crate::source::Source;
use fuseloop_ops::{Class, Layout, Op, Ops};
use std::sync::Arc;

/// Plans and compiles the lists that parts of the dataset have in an epoch.
///
/// # Errors
///
/// If one does not fit, or its rows would not be as those of its output.
pub(super) fn add(
    source: &dyn Source,
    outputs: &[Output],
    works: &mut [OutputWork],
    epoch: Epoch,
    setup: &Setup,
    cache: &mut KernelCache,
) -> Result<(), LoadError> {
    for (output, work) in outputs.iter().zip(works) {
        for (part, make) in &output.parts {
            let refused =
                |reason| LoadError::Part { output: output.name.clone(), part: *part, reason };
            let titled = output.named(format!("{} of part {part}", output.name));
            let ops = make(epoch)
                .map_err(|error| LoadError::Param { output: titled.name.clone(), error })?;
            check_lists(&ops, &work.work).map_err(refused)?;
            let own = field_work(source, &titled, ops, false, setup, cache)?;
            check_rows(&own, &work.work).map_err(refused)?;
            work.of_parts.insert(*part, own);
        }
    }
    Ok(())
}

/// Refuses what only the output's own list can have.
fn check_lists(ops: &Ops, main: &FieldWork) -> Result<(), String> {
    let is_device = |op: &Arc<dyn Op>| matches!(op.class(), Class::Device(_));
    let is_batch = |op: &Arc<dyn Op>| matches!(op.class(), Class::Batch(_));
    if matches!(main, FieldWork::Collated(_)) {
        return Err("a collated output has no ops".to_owned());
    }
    if let Some(op) = ops.iter().chain(main.ops()).find(|op| is_device(op)) {
        let name = op.name();
        return Err(format!("{name} is in a list of this output: parts are made on the CPU"));
    }
    if let Some(op) = ops.iter().find(|op| is_batch(op)) {
        let name = op.name();
        return Err(format!(
            "{name} mixes all samples of a batch: put it in the output's own list"
        ));
    }
    let is_image = matches!(main, FieldWork::Image(_));
    match main.ops().iter().find(|op| is_batch(op)).filter(|_| !is_image) {
        Some(op) => Err(format!("{} mixes this output, which is no image", op.name())),
        None => Ok(()),
    }
}

/// Refuses rows that are not as the output's own.
fn check_rows(found: &FieldWork, wanted: &FieldWork) -> Result<(), String> {
    let rows = |work: &FieldWork| (work.dtype(), work.shape(), layout(work));
    if rows(found) == rows(wanted) {
        return Ok(());
    }
    let words = |work: &FieldWork| match layout(work) {
        Some(layout) => format!("{:?} {:?} {layout:?}", work.dtype(), work.shape()),
        None => format!("{:?} {:?}", work.dtype(), work.shape()),
    };
    let (found, wanted) = (words(found), words(wanted));
    Err(format!("they make {found}, the output's own list makes {wanted}"))
}

/// Where an image's channels lie: a batch is mixed by it.
fn layout(work: &FieldWork) -> Option<Layout> {
    match work {
        FieldWork::Image(kernel) => Some(kernel.plan().output().layout),
        _ => None,
    }
}
