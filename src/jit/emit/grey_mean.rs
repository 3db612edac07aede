//! Emits the mean of an image's greys, a statistic.
//!
//! Each grey is truncated to an integer, so the sum is exact in any order: in lanes of `i32` along a row
//! (at most 2^26 columns of 255), and in a word of 64 bits over the rows. A mask leaves out pixels
//! that the last group of a row repeats.

use super::ir::BlockCode;
use super::lower::{lower_own, no_params};
use super::pass::{GroupPosition, Halves, row_by_row, rows};
use super::{BodySpec, statistic};
use crate::plan::FusedOp;
use cranelift_codegen::ir::types::{F32, I32X4, I64};
use cranelift_codegen::ir::{FuncRef, InstBuilder, Value};

/// Returns the mean of the image after `links`, as reduction number `index`.
pub(super) fn compute(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    index: usize,
    links: &[FusedOp],
    row_loop: Option<FuncRef>,
) -> Value {
    let at = spec.layout.pass(1 + index);
    let total = e.builder.declare_var(I64);
    let zero = e.int(0);
    e.builder.def_var(total, zero);
    if let Some(row_loop) = row_loop {
        let sums = spec.layout.sums();
        let to = |e: &mut BlockCode<'_, '_>| e.offset(e.record, i64::from(sums));
        row_by_row(
            e,
            spec,
            1 + index,
            row_loop,
            |e, _| to(e),
            |e, _| {
                let so_far = e.builder.use_var(total);
                let sum = (0..spec.bits.count() as i32 / 128).fold(so_far, |sum, vector| {
                    let lanes = e.load(I32X4, e.record, sums + 16 * vector);
                    add_lanes(e, sum, lanes)
                });
                e.builder.def_var(total, sum);
            },
        );
        let total = e.builder.use_var(total);
        return divide(e, at, total);
    }
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
    divide(e, at, total)
}

fn add_greys(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    pass: i32,
    (position, halves): (GroupPosition, Halves<'_>),
    sums: &[Value],
) -> Vec<Value> {
    let masks = statistic::masks(e, pass, position);
    let mut out = vec![];
    for (half, sum) in sums.iter().enumerate() {
        let pixels = halves(e, half);
        let grant = no_params(spec.rule, pixels.len());
        let grey = lower_own(e, grant, 0, pixels, |e, pixels| {
            let grey = e.grey(pixels);
            pixels.filled(grey)
        });
        let grey = e.i32_of(grey[0]);
        let mask = statistic::mask(e, spec, masks, half);
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

/// Divides the sum as `f32` by the number of pixels as `f32`.
fn divide(e: &mut BlockCode<'_, '_>, pass: i32, total: Value) -> Value {
    let count = statistic::pixel_count(e, pass);
    let [total, count] = [total, count].map(|v| e.builder.ins().fcvt_from_sint(F32, v));
    e.builder.ins().fdiv(total, count)
}
