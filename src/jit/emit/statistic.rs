//! Emits a statistic of an image, a reduction: a number that is computed from all pixels and stored in the
//! last parameter of the op that needs it.

use super::super::param_block::{PassWord, shuffles};
use super::ir::BlockCode;
use super::pass::{GROUP, GroupPosition};
use super::{BodySpec, grey_mean, root_mean_square};
use crate::plan::FusedOp;
use cranelift_codegen::ir::types::{F32X4, I32X4};
use cranelift_codegen::ir::{FuncRef, InstBuilder, Value};
use fuseloop_ops::author::Statistic;

/// Stores a statistic of the image after `links`, as reduction number `index`, in an op parameter, if this
/// sample needs it.
pub(super) fn pass(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    index: usize,
    links: &[FusedOp],
    (statistic, param): (Statistic, usize),
    row_loop: Option<FuncRef>,
) {
    let at = spec.layout.pass(1 + index);
    let (run, done) = (e.builder.create_block(), e.builder.create_block());
    let runs = e.pass_word(at, PassWord::Runs);
    e.builder.ins().brif(runs, run, &[], done, &[]);
    e.builder.switch_to_block(run);
    let value = match statistic {
        Statistic::GreyMean => grey_mean::compute(e, spec, index, links, row_loop),
        Statistic::RootMeanSquare => root_mean_square::compute(e, spec, index, links),
    };
    let value = e.builder.ins().splat(F32X4, value);
    let record = e.record;
    e.store(value, record, spec.param(param));
    e.builder.ins().jump(done, &[]);
    e.builder.switch_to_block(done);
}

/// Returns the address of the masks of a group, whose lanes are zeros for columns that an earlier group has
/// covered. See [`mask`].
pub(super) fn masks(e: &mut BlockCode<'_, '_>, pass: i32, position: GroupPosition) -> Value {
    // The mask starts one lane earlier for each column that an earlier group has covered.
    let address = e.pass_word(pass, PassWord::Shuffles);
    let repeated = e.builder.ins().isub(position.x, position.fresh);
    let repeated = e.times(repeated, 4);
    e.plus(address, repeated)
}

/// Loads the mask of a group's first (0) or last (1) four pixels.
pub(super) fn mask(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    masks: Value,
    half: usize,
) -> Value {
    let first = shuffles::all(spec.block.source_format());
    e.load(I32X4, masks, first + 16 * half as i32)
}

/// Returns the number of pixels of a pass.
pub(super) fn pixel_count(e: &mut BlockCode<'_, '_>, pass: i32) -> Value {
    let rows = e.pass_word(pass, PassWord::Rows);
    let columns = e.pass_word(pass, PassWord::LastGroup);
    let columns = e.offset(columns, GROUP);
    e.builder.ins().imul(rows, columns)
}
