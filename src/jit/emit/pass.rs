//! Emits the loop over rows and groups: converts eight pixels at a time from bytes to vectors of `f32`
//! and applies the fused ops.
//!
//! A group of RGB pixels is 24 bytes of source, read by two loads of 16 bytes that overlap in the middle, so
//! that no byte after the group is read. With 1, 2 or 4 channels, each load is of the bytes of four pixels. A
//! shuffle of a load for each channel yields the channel of four pixels as `i32`.
//! An image mirrored left to right runs the same code: its shuffles are mirrored, its two loads are
//! swapped and its step is negative. The last group of a row is moved back to end with the row. With one
//! channel and few ops, counters are much of a group's work, so two groups share an iteration.

use super::super::param_block::{HEADER, HeaderWord, PassWord, shuffles};
use super::ir::{BlockCode, counted_loop, overlapped_loop, paired_loop};
use super::lower::{lower, lower_own, no_params};
use super::store::PassStore;
use super::{BodySpec, Imports, levels, store, wide};
use crate::jit::body::multiply;
use crate::plan::FusedOp;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32X4, I8X16, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{FuncRef, InstBuilder, Value};
use fuseloop_ops::internals::program::Grant;
use fuseloop_ops::internals::{PixelFormat, channel_of};

/// The number of pixels of a group.
pub(super) const GROUP: i64 = 8;

/// The most fused ops of one channel whose group takes so little time that two groups share an iteration.
const FEW: usize = 2;

/// The number of op parameters of a matrix.
const MATRIX: usize = 12;

/// The columns of a rectangle in one row: `start..end`, empty if the row is outside the rectangle.
struct RowSpan {
    start: Value,
    end: Value,
}

/// The map of one row to an op's coordinates: the row in the op's coordinates, and the sign and offset
/// of its columns, in all lanes.
#[derive(Clone, Copy)]
struct MapRow {
    row: Value,
    sign: Value,
    offset: Value,
}

/// The values of a row that fused ops need.
struct RowState {
    spans: Vec<Option<RowSpan>>,
    maps: Vec<Option<MapRow>>,
}

/// The position of a group.
#[derive(Clone, Copy)]
pub(super) struct GroupPosition {
    /// The column of the first pixel.
    pub(super) x: Value,
    /// The first column that no earlier group has covered.
    pub(super) fresh: Value,
    /// The addresses that its first and last four pixels are loaded from.
    pub(super) from: [Value; 2],
}

/// Emits the code of a group's first (0) or last (1) four pixels up to the last fused op, and returns
/// the values of each channel. Where possible, one half is used up before the other is requested: with three
/// live vectors, registers are left for constants.
pub(super) type Halves<'h> = &'h mut dyn FnMut(&mut BlockCode<'_, '_>, usize) -> Vec<Value>;

/// Emits the loops of a pass: `each_row` before a row's groups, then `each_group`, then `after_row`.
/// Values are carried along a row.
pub(super) fn rows(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    pass: usize,
    links: &[FusedOp],
    each_row: impl FnOnce(&mut BlockCode<'_, '_>, Value) -> Vec<Value>,
    mut each_group: impl FnMut(
        &mut BlockCode<'_, '_>,
        GroupPosition,
        Halves<'_>,
        &[Value],
    ) -> Vec<Value>,
    after_row: impl FnOnce(&mut BlockCode<'_, '_>, Value, &[Value]),
) {
    let at = spec.layout.pass(pass);
    let (first, last) = (e.pass_word(at, PassWord::First), e.pass_word(at, PassWord::Last));
    let count = e.pass_word(at, PassWord::Rows);
    counted_loop(e, count, &[first, last], |e, y, bases| {
        let carried = each_row(e, y);
        let state = row_state(e, spec, pass, links, y);
        let end = e.pass_word(at, PassWord::LastGroup);
        let group = |e: &mut BlockCode<'_, '_>, x, fresh, carried: &[Value]| {
            let step = e.pass_word(at, PassWord::PixelStep);
            let offset = e.builder.ins().imul(x, step);
            let from = [e.plus(bases[0], offset), e.plus(bases[1], offset)];
            let mut half = |e: &mut BlockCode<'_, '_>, half: usize| {
                let pixels = load_half(e, spec.block.source_format(), at, half, from[half]);
                apply_links(e, spec, links, &state, (x, half), pixels)
            };
            each_group(e, GroupPosition { x, fresh, from }, &mut half, carried)
        };
        let carried = if spec.block.channels == 1 && links.len() <= FEW {
            paired_loop(e, end, GROUP, &carried, group)
        } else {
            overlapped_loop(e, end, GROUP, &carried, group)
        };
        after_row(e, y, &carried);
        let step = e.pass_word(at, PassWord::RowStep);
        vec![e.plus(bases[0], step), e.plus(bases[1], step)]
    });
}

/// Emits the pass that stores the block's output. `before_row` produces the row's source, if `has_maker`.
pub(super) fn store(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    imports: &Imports,
    has_maker: bool,
    before_row: impl FnOnce(&mut BlockCode<'_, '_>, Value),
) {
    let (sink, links) = (store::Sink::new(spec), spec.links);
    if let (Some(row_loop), Ok(store)) = (imports.row_loops[0], sink.pass_store(spec)) {
        if let Some(Some(streamed)) = imports.row_loops.last() {
            return streamed_or(e, &sink, *streamed, |e| {
                store_by_loop(e, spec, (&sink, store), row_loop, imports, has_maker, before_row);
            });
        }
        return store_by_loop(e, spec, (&sink, store), row_loop, imports, has_maker, before_row);
    }
    rows(
        e,
        spec,
        0,
        links,
        |e, y| {
            before_row(e, y);
            vec![sink.row_start(e, y)]
        },
        |e, position, halves, carried| {
            if sink.passes_bytes_on(links) {
                sink.bytes(e, carried[0], position);
            } else {
                sink.group(e, carried[0], position.x, halves);
            }
            carried.to_vec()
        },
        |e, y, _| sink.row_end(e, y, imports),
    );
}

/// Emits the pass that stores the output by a loop with wider vectors: of all rows, or row by row if rows are produced or
/// a row function stores them.
fn store_by_loop(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    (sink, store): (&store::Sink, PassStore),
    row_loop: FuncRef,
    imports: &Imports,
    has_maker: bool,
    before_row: impl FnOnce(&mut BlockCode<'_, '_>, Value),
) {
    let by_row = store.by_row();
    let pixel = i64::from(store.pixel_bytes(sink.channels()));
    if !by_row && !has_maker {
        return call_for_all(e, row_loop, pixel);
    }
    let to = |e: &mut BlockCode<'_, '_>, y| {
        before_row(e, y);
        if by_row { sink.row_start(e, y) } else { output_row(e, y, pixel) }
    };
    row_by_row(e, spec, 0, row_loop, to, |e, y| {
        if by_row {
            sink.row_end(e, y, imports);
        }
    });
}

/// Emits a call of `row_loop` for all rows of the output.
fn call_for_all(e: &mut BlockCode<'_, '_>, row_loop: FuncRef, pixel: i64) {
    let first = e.int(0);
    let (to, count) = (output_row(e, first, pixel), e.pass_word(HEADER, PassWord::Rows));
    let from = lower_address(e, HEADER);
    let arguments = [e.record, e.table, from, to, first, count];
    e.builder.ins().call(row_loop, &arguments);
}

/// Emits a call of `streamed` if the output's address, rows and planes are multiples of 64 bytes, and else `otherwise`.
fn streamed_or(
    e: &mut BlockCode<'_, '_>,
    sink: &store::Sink,
    streamed: FuncRef,
    otherwise: impl FnOnce(&mut BlockCode<'_, '_>),
) {
    let pixel = i64::from(PassStore::Streamed.pixel_bytes(sink.channels()));
    let (out, plane) = (e.header(HeaderWord::Out), e.header(HeaderWord::Plane));
    let columns = output_columns(e, 0);
    let row = e.times(columns, pixel);
    let all = e.builder.ins().bor(out, plane);
    let all = e.builder.ins().bor(all, row);
    let rest = e.builder.ins().band_imm_u(all, 63);
    let [unaligned, aligned, done] = [(); 3].map(|()| e.builder.create_block());
    e.builder.ins().brif(rest, unaligned, &[], aligned, &[]);
    e.builder.switch_to_block(aligned);
    call_for_all(e, streamed, pixel);
    e.builder.ins().jump(done, &[]);
    e.builder.switch_to_block(unaligned);
    otherwise(e);
    e.builder.ins().jump(done, &[]);
    e.builder.switch_to_block(done);
}

/// Emits a loop over the rows of a pass, each of which `row_loop` computes and stores to the address that `before_row`
/// returns.
pub(super) fn row_by_row(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    pass: usize,
    row_loop: FuncRef,
    before_row: impl FnOnce(&mut BlockCode<'_, '_>, Value) -> Value,
    after_row: impl FnOnce(&mut BlockCode<'_, '_>, Value),
) {
    let at = spec.layout.pass(pass);
    let (from, count) = (lower_address(e, at), e.pass_word(at, PassWord::Rows));
    counted_loop(e, count, &[from], |e, y, from| {
        let to = before_row(e, y);
        let one = e.int(1);
        let arguments = [e.record, e.table, from[0], to, y, one];
        e.builder.ins().call(row_loop, &arguments);
        after_row(e, y);
        let step = e.pass_word(at, PassWord::RowStep);
        vec![e.plus(from[0], step)]
    });
}

/// Returns the lower of the addresses that the first group of a pass is loaded from.
fn lower_address(e: &mut BlockCode<'_, '_>, pass: i32) -> Value {
    let [first, last] = [PassWord::First, PassWord::Last].map(|word| e.pass_word(pass, word));
    e.builder.ins().umin(first, last)
}

/// Loads the values of four pixels of the source.
fn load_half(
    e: &mut BlockCode<'_, '_>,
    format: PixelFormat,
    pass: i32,
    half: usize,
    from: Value,
) -> Vec<Value> {
    let address = e.pass_word(pass, PassWord::Shuffles);
    if !format.is_bytes() {
        return wide::load(e, format, address, from);
    }
    let channels = format.channels;
    let bytes = load_bytes(e, channels, from);
    let unpack = |c: usize| {
        let mask = e.load_mask(address, shuffles::unpack(channels, half, c));
        let lanes = e.pshufb(bytes, mask);
        let lanes = e.cast(I32X4, lanes);
        e.builder.ins().fcvt_from_sint(F32X4, lanes)
    };
    (0..channels).map(unpack).collect()
}

/// Loads the bytes of four pixels: of RGB pixels, 16 bytes with those of a fifth.
pub(super) fn load_bytes(e: &mut BlockCode<'_, '_>, channels: usize, from: Value) -> Value {
    let (element, vector) = match channels {
        1 => (I32, I32X4),
        2 => (I64, I64X2),
        _ => return e.load(I8X16, from, 0),
    };
    let bytes = e.load(element, from, 0);
    let bytes = e.builder.ins().scalar_to_vector(vector, bytes);
    e.cast(I8X16, bytes)
}

/// Computes the row's share of the rectangles that `links` paint, and of the maps that `links` use.
fn row_state(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    pass: usize,
    links: &[FusedOp],
    y: Value,
) -> RowState {
    let painted = |region| links.contains(&FusedOp::Paint { region });
    let regions = 0..spec.block.regions.len();
    let spans = regions.map(|r| painted(r).then(|| span(e, spec.layout.region(pass, r), y)));
    let spans = spans.collect();
    let asked = |number| {
        let mut links = links.iter();
        links.any(|link| matches!(link, FusedOp::Value { map: Some(map), .. } if *map == number))
    };
    let maps = 0..spec.block.position_ops.len();
    let maps = maps.map(|m| asked(m).then(|| map_row(e, spec.layout.map(pass, m), y))).collect();
    RowState { spans, maps }
}

fn map_row(e: &mut BlockCode<'_, '_>, at: i32, y: Value) -> MapRow {
    let record = e.record;
    let [sign, offset, row_sign, row_offset] = [0, 4, 8, 12].map(|o| e.load(I32, record, at + o));
    let y = e.builder.ins().ireduce(I32, y);
    let row = e.builder.ins().imul(y, row_sign);
    let row = e.builder.ins().iadd(row, row_offset);
    let [row, sign, offset] = [row, sign, offset].map(|v| e.builder.ins().splat(I32X4, v));
    MapRow { row, sign, offset }
}

/// Returns the row and the columns of the four pixels of half `at.1` of the group at column `at.0`, in
/// an op's coordinates.
fn op_coordinates(e: &mut BlockCode<'_, '_>, map: MapRow, at: (Value, usize)) -> [Value; 2] {
    let lanes = columns(e, at.0, at.1);
    let scaled = e.builder.ins().imul(lanes, map.sign);
    [map.row, e.builder.ins().iadd(scaled, map.offset)]
}

fn span(e: &mut BlockCode<'_, '_>, at: i32, y: Value) -> RowSpan {
    let record = e.record;
    let [x0, x1, y0, y1] = [0, 4, 8, 12].map(|o| e.load(I32, record, at + o));
    let y = e.builder.ins().ireduce(I32, y);
    let below = e.builder.ins().icmp(IntCC::SignedGreaterThanOrEqual, y, y0);
    let above = e.builder.ins().icmp(IntCC::SignedLessThan, y, y1);
    let inside = e.builder.ins().band(below, above);
    let end = e.builder.ins().select(inside, x1, x0);
    let [start, end] = [x0, end].map(|v| e.builder.ins().splat(I32X4, v));
    RowSpan { start, end }
}

/// Applies the fused ops to half `at.1` of the group at column `at.0`.
fn apply_links(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    links: &[FusedOp],
    state: &RowState,
    at: (Value, usize),
    mut pixels: Vec<Value>,
) -> Vec<Value> {
    for link in links {
        match *link {
            FusedOp::Value { leaf, part, param, map } => {
                if let Some(kind) = spec.leaves[leaf].kind.pixel(part) {
                    let map = map.and_then(|map| state.maps[map]);
                    let position = map.map(|map| op_coordinates(e, map, at));
                    pixels = lower(e, &kind.program, spec.param(param), pixels, position);
                }
            }
            FusedOp::Table { table, .. } => pixels = levels::look_up(e, spec, table, pixels),
            FusedOp::Matrix { param } => {
                let grant = Grant { param_count: MATRIX, ..no_params(spec.rule, pixels.len()) };
                pixels = lower_own(e, grant, spec.param(param), pixels, multiply);
            }
            FusedOp::Round => pixels = pixels.into_iter().map(|v| e.level(v)).collect(),
            FusedOp::Paint { region } => {
                if let Some(span) = &state.spans[region] {
                    pixels = paint(e, spec, region, span, at, pixels);
                }
            }
        }
    }
    pixels
}

fn paint(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    region: usize,
    span: &RowSpan,
    (x, half): (Value, usize),
    pixels: Vec<Value>,
) -> Vec<Value> {
    let region = spec.block.regions[region];
    let fill = region.fill;
    let lanes = columns(e, x, half);
    let inside = within(e, lanes, span);
    let paint = |(c, v): (usize, Value)| {
        let fill = e.splat_bits(channel_of(fill, c).to_bits());
        if region.outside { e.select(inside, v, fill) } else { e.select(inside, fill, v) }
    };
    pixels.into_iter().enumerate().map(paint).collect()
}

/// Returns the columns of the four pixels of a half of the group at `x`.
fn columns(e: &mut BlockCode<'_, '_>, x: Value, half: usize) -> Value {
    let x = e.builder.ins().ireduce(I32, x);
    let x = e.builder.ins().splat(I32X4, x);
    let lanes = [[0, 1, 2, 3], [4, 5, 6, 7]][half].map(i32::to_le_bytes);
    let lanes = e.constant(I32X4, lanes.concat().try_into().expect("four lanes of four bytes"));
    e.builder.ins().iadd(x, lanes)
}

/// Returns all ones in the lanes whose column is in the span.
fn within(e: &mut BlockCode<'_, '_>, columns: Value, span: &RowSpan) -> Value {
    let before = e.builder.ins().icmp(IntCC::SignedGreaterThan, span.start, columns);
    let ahead = e.builder.ins().icmp(IntCC::SignedGreaterThan, span.end, columns);
    e.builder.ins().band_not(ahead, before)
}

/// Returns the address of row `y` of the output.
pub(super) fn output_row(e: &mut BlockCode<'_, '_>, y: Value, pixel_bytes: i64) -> Value {
    let out = e.header(HeaderWord::Out);
    let columns = output_columns(e, 0);
    let row = e.times(columns, pixel_bytes);
    let offset = e.builder.ins().imul(y, row);
    debug_assert_eq!(e.builder.func.dfg.value_type(offset), I64);
    e.plus(out, offset)
}

/// Returns the number of columns of the stored image plus `extra`.
pub(super) fn output_columns(e: &mut BlockCode<'_, '_>, extra: i64) -> Value {
    let last = e.pass_word(HEADER, PassWord::LastGroup);
    e.offset(last, GROUP + extra)
}
