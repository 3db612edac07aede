//! Emits the count of an image's levels, a reduction, and the look-up of levels in a table.
//!
//! A row is stored as bytes and a row function counts them, since a vector can't increment four counters
//! of one table. When all rows are counted, another row function computes the table, in the op's own
//! plain Rust.

use super::super::param_block::{HeaderWord, PassWord};
use super::ir::BlockCode;
use super::pass::{GROUP, row_by_row, rows};
use super::{BodySpec, Imports, store};
use crate::plan::FusedOp;
use cranelift_codegen::ir::types::{F32, F32X4, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

/// Counts the levels of the image after `links`, as reduction number `index`, and computes `table`.
pub(super) fn pass(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    index: usize,
    links: &[FusedOp],
    table: usize,
    imports: &Imports,
) {
    let (Some(count), Some(make)) = (imports.count, imports.table) else { return };
    let at = spec.layout.pass(1 + index);
    let channels = spec.block.channels_after(spec.leaves, links);
    let count_row = |e: &mut BlockCode<'_, '_>, row: Value| {
        let state = e.header(HeaderWord::Levels);
        let columns = e.pass_word(at, PassWord::LastGroup);
        let columns = e.offset(columns, GROUP);
        e.call(count, &[state, row, columns]);
    };
    match imports.row_loops[1 + index] {
        Some(row_loop) => {
            let row = e.header(HeaderWord::ByteRow);
            row_by_row(e, spec, 1 + index, row_loop, |_, _| row, |e, _| count_row(e, row));
        }
        None => rows(
            e,
            spec,
            1 + index,
            links,
            |e, _| vec![e.header(HeaderWord::ByteRow)],
            |e, position, halves, row| {
                let offset = e.times(position.x, channels as i64);
                let to = e.plus(row[0], offset);
                store::bytes_interleaved(e, channels, to, halves);
                row.to_vec()
            },
            |e, _, row| count_row(e, row[0]),
        ),
    }
    let state = e.header(HeaderWord::Levels);
    let (table, zero) = (e.int(table as i64), e.int(0));
    e.call(make, &[state, table, zero]);
}

/// Looks each value, rounded to a level, up in `table`.
pub(super) fn look_up(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    table: usize,
    pixels: Vec<Value>,
) -> Vec<Value> {
    let record = e.record;
    let address = e.load(I64, record, spec.layout.table(table));
    let look_up = |(c, pixel): (usize, Value)| {
        let v = e.level(pixel);
        let levels = e.i32_of(v);
        // No look-up is outside the table, whatever value an op computed.
        let most = e.splat_i32(255);
        let levels = e.builder.ins().band(levels, most);
        let found = [0, 1, 2, 3].map(|lane| value_of(e, address, c, levels, lane));
        let first = e.builder.ins().scalar_to_vector(F32X4, found[0]);
        let rest = found[1..].iter().zip(1u8..);
        rest.fold(first, |vector, (value, lane)| e.builder.ins().insertlane(vector, *value, lane))
    };
    pixels.into_iter().enumerate().map(look_up).collect()
}

/// Looks a lane of `levels` up in channel `c` of the table at `address`.
fn value_of(e: &mut BlockCode<'_, '_>, address: Value, c: usize, levels: Value, lane: u8) -> Value {
    let level = e.builder.ins().extractlane(levels, lane);
    let level = e.builder.ins().uextend(I64, level);
    let offset = e.times(level, 4);
    let from = e.plus(address, offset);
    e.load(F32, from, 1024 * c as i32)
}
