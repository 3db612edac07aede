//! A mean: one reading of the picture, summing greys.
//!
//! Each grey is truncated to a whole number, so the sum is exact in any order: lanes of `i32`
//! along a row (at most 65,535 columns of 255), a word of 64 bits over the rows. Pixels that the
//! last group of a row repeats are left out by a mask.

use super::super::record::{Pass, shuffles};
use super::Spec;
use super::ir::Code;
use super::lower::{lower_own, no_slots};
use super::pass::{GROUP, Halves, Place, rows};
use crate::plan::Link;
use cranelift_codegen::ir::types::{F32, F32X4, I32X4, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use fuseloop_ops::Pixels;

/// Takes the mean of the picture after `links`, as reading number `index`, into `slot`, if this
/// sample needs it.
pub(super) fn pass(
    e: &mut Code<'_, '_>,
    spec: Spec<'_>,
    index: usize,
    links: &[Link],
    slot: usize,
) {
    let at = spec.layout.pass(1 + index);
    let (run, done) = (e.builder.create_block(), e.builder.create_block());
    let runs = e.pass_word(at, Pass::Runs);
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
        |e, place, halves, sums| add_greys(e, spec, at, (place, halves), sums),
        |e, _, sums| {
            let so_far = e.builder.use_var(total);
            let sum = sums.iter().fold(so_far, |sum, lanes| add_lanes(e, sum, *lanes));
            e.builder.def_var(total, sum);
        },
    );
    let total = e.builder.use_var(total);
    let mean = divide(e, at, total);
    let record = e.record;
    e.store(mean, record, spec.slot(slot));
    e.builder.ins().jump(done, &[]);
    e.builder.switch_to_block(done);
}

fn add_greys(
    e: &mut Code<'_, '_>,
    spec: Spec<'_>,
    pass: i32,
    (place, halves): (Place, Halves<'_>),
    sums: &[Value],
) -> Vec<Value> {
    // Columns that a group before has covered are lanes before the mask's.
    let address = e.pass_word(pass, Pass::Shuffles);
    let repeated = e.builder.ins().isub(place.x, place.fresh);
    let repeated = e.times(repeated, 4);
    let masks = e.plus(address, repeated);
    let mut out = vec![];
    for (half, sum) in (0i32..).zip(sums) {
        let pixels = halves(e, half as usize);
        let [grey, ..] = lower_own(e, no_slots(spec.rule), 0, pixels, |e, pixels| Pixels {
            channels: [e.grey(pixels); 3],
        });
        let grey = e.i32_of(grey);
        let mask = e.load(I32X4, masks, shuffles::ALL + 16 * half);
        let grey = e.builder.ins().band(grey, mask);
        out.push(e.builder.ins().iadd(*sum, grey));
    }
    out
}

fn add_lanes(e: &mut Code<'_, '_>, sum: Value, lanes: Value) -> Value {
    (0..4).fold(sum, |sum, lane| {
        let value = e.builder.ins().extractlane(lanes, lane);
        let value = e.builder.ins().sextend(I64, value);
        e.plus(sum, value)
    })
}

/// The sum as `f32`, over the number of pixels as `f32`, in all lanes.
fn divide(e: &mut Code<'_, '_>, pass: i32, total: Value) -> Value {
    let rows = e.pass_word(pass, Pass::Rows);
    let columns = e.pass_word(pass, Pass::LastGroup);
    let columns = e.offset(columns, GROUP);
    let count = e.builder.ins().imul(rows, columns);
    let [total, count] = [total, count].map(|v| e.builder.ins().fcvt_from_sint(F32, v));
    let mean = e.builder.ins().fdiv(total, count);
    e.builder.ins().splat(F32X4, mean)
}
