//! Emits the root of the mean of all values' squares, a statistic.
//!
//! Floats are summed, so the order is part of the definition, which is
//! [`root_mean_square`](fuseloop_ops::internals::emit::root_mean_square) of the ops: eight partial sums of `f64`,
//! one for each pixel of a group, over all groups of all rows, and then from the first to the last. A mask leaves
//! out pixels that the last group of a row repeats: it makes zeros of their values.

use super::ir::BlockCode;
use super::pass::{GroupPosition, Halves, rows};
use super::{BodySpec, statistic};
use crate::plan::FusedOp;
use cranelift_codegen::ir::types::{F32, F32X4, F64, F64X2, I32X4};
use cranelift_codegen::ir::{InstBuilder, Value};

/// The vectors of two partial sums.
const SUMS: usize = 4;

/// Returns the root mean square of the image after `links`, as reduction number `index`.
pub(super) fn compute(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    index: usize,
    links: &[FusedOp],
) -> Value {
    let at = spec.layout.pass(1 + index);
    let totals = [(); SUMS].map(|()| e.builder.declare_var(F64X2));
    for total in totals {
        let zero = e.builder.ins().f64const(0.0);
        let zero = e.builder.ins().splat(F64X2, zero);
        e.builder.def_var(total, zero);
    }
    rows(
        e,
        spec,
        1 + index,
        links,
        |e, _| totals.map(|total| e.builder.use_var(total)).to_vec(),
        |e, position, halves, sums| add_squares(e, spec, at, (position, halves), sums),
        |e, _, sums| {
            for (total, sum) in totals.into_iter().zip(sums) {
                e.builder.def_var(total, *sum);
            }
        },
    );
    let sums = totals.map(|total| e.builder.use_var(total));
    let lanes = sums.into_iter().flat_map(|sum| [(sum, 0), (sum, 1)]);
    let sum = lanes.map(|(sum, lane)| e.builder.ins().extractlane(sum, lane)).collect::<Vec<_>>();
    let (first, rest) = sum.split_first().expect("there are eight partial sums");
    let sum = rest.iter().fold(*first, |sum, lane| e.builder.ins().fadd(sum, *lane));
    let pixels = statistic::pixel_count(e, at);
    let channels = spec.block.channels_after(spec.leaves, links);
    let count = e.times(pixels, channels as i64);
    let count = e.builder.ins().fcvt_from_sint(F64, count);
    let mean = e.builder.ins().fdiv(sum, count);
    let root = e.builder.ins().sqrt(mean);
    e.builder.ins().fdemote(F32, root)
}

fn add_squares(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    pass: i32,
    (position, halves): (GroupPosition, Halves<'_>),
    sums: &[Value],
) -> Vec<Value> {
    let masks = statistic::masks(e, pass, position);
    let mut sums = sums.to_vec();
    for (half, sums) in sums.chunks_exact_mut(2).enumerate() {
        let pixels = halves(e, half);
        let mask = statistic::mask(e, spec, masks, half);
        for values in pixels {
            let bits = e.cast(I32X4, values);
            let bits = e.builder.ins().band(bits, mask);
            let low = e.cast(F32X4, bits);
            let high =
                e.shuffle(low, low, [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15]);
            let high = e.cast(F32X4, high);
            for (sum, pair) in sums.iter_mut().zip([low, high]) {
                let pair = e.builder.ins().fvpromote_low(pair);
                let squares = e.builder.ins().fmul(pair, pair);
                *sum = e.builder.ins().fadd(*sum, squares);
            }
        }
    }
    sums
}
