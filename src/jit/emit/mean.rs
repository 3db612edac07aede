//! Emits the mean of an image's greys, a reduction.
//!
//! Each grey is truncated to an integer, so the sum is exact in any order: in lanes of `i32` along a row
//! (at most 65,535 columns of 255), and in a word of 64 bits over the rows. A mask leaves out pixels
//! that the last group of a row repeats.

use super::super::param_block::{PassWord, shuffles};
use super::BodySpec;
use super::ir::BlockCode;
use super::lower::{lower_own, no_params};
use super::pass::{GROUP, GroupPosition, Halves, rows};
use crate::plan::FusedOp;
use cranelift_codegen::ir::types::{F32, F32X4, I32X4, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

/// Stores the mean of the image after `links`, as reduction number `index`, in op parameter `param`, if
/// this sample needs it.
pub(super) fn pass(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    index: usize,
    links: &[FusedOp],
    param: usize,
) {
    let at = spec.layout.pass(1 + index);
    let (run, done) = (e.builder.create_block(), e.builder.create_block());
    let runs = e.pass_word(at, PassWord::Runs);
    e.builder.ins().brif(runs, run, &[], done, &[]);
    e.builder.switch_to_block(run);
    let total = e.builder.declare_var(I64);
    let zero = e.int(0);
    e.builder.def_var(total, zero);
    rows(
        e,
        spec,
        1 + index,
        links,
        |e, _| {
            let zero = e.splat_i32(0);
            vec![zero, zero]
        },
        |e, position, halves, sums| add_greys(e, spec, at, (position, halves), sums),
        |e, _, sums| {
            let so_far = e.builder.use_var(total);
            let sum = sums.iter().fold(so_far, |sum, lanes| add_lanes(e, sum, *lanes));
            e.builder.def_var(total, sum);
        },
    );
    let total = e.builder.use_var(total);
    let mean = divide(e, at, total);
    let record = e.record;
    e.store(mean, record, spec.param(param));
    e.builder.ins().jump(done, &[]);
    e.builder.switch_to_block(done);
}

fn add_greys(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    pass: i32,
    (position, halves): (GroupPosition, Halves<'_>),
    sums: &[Value],
) -> Vec<Value> {
    // The mask starts one lane earlier for each column that an earlier group has covered.
    let address = e.pass_word(pass, PassWord::Shuffles);
    let repeated = e.builder.ins().isub(position.x, position.fresh);
    let repeated = e.times(repeated, 4);
    let masks = e.plus(address, repeated);
    let mut out = vec![];
    for (half, sum) in (0i32..).zip(sums) {
        let pixels = halves(e, half as usize);
        let grant = no_params(spec.rule, pixels.len());
        let grey = lower_own(e, grant, 0, pixels, |e, pixels| {
            let grey = e.grey(pixels);
            pixels.filled(grey)
        });
        let grey = e.i32_of(grey[0]);
        let mask = e.load(I32X4, masks, shuffles::all(spec.block.source_format()) + 16 * half);
        let grey = e.builder.ins().band(grey, mask);
        out.push(e.builder.ins().iadd(*sum, grey));
    }
    out
}

fn add_lanes(e: &mut BlockCode<'_, '_>, sum: Value, lanes: Value) -> Value {
    (0..4).fold(sum, |sum, lane| {
        let value = e.builder.ins().extractlane(lanes, lane);
        let value = e.builder.ins().sextend(I64, value);
        e.plus(sum, value)
    })
}

/// Divides the sum as `f32` by the number of pixels as `f32`; returns the mean in all lanes.
fn divide(e: &mut BlockCode<'_, '_>, pass: i32, total: Value) -> Value {
    let rows = e.pass_word(pass, PassWord::Rows);
    let columns = e.pass_word(pass, PassWord::LastGroup);
    let columns = e.offset(columns, GROUP);
    let count = e.builder.ins().imul(rows, columns);
    let [total, count] = [total, count].map(|v| e.builder.ins().fcvt_from_sint(F32, v));
    let mean = e.builder.ins().fdiv(total, count);
    e.builder.ins().splat(F32X4, mean)
}
