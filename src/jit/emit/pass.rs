//! Rows and groups: eight pixels from bytes to vectors of `f32`, and through the links.
//!
//! A group is 24 bytes of source, read by two loads of 16 that overlap in the middle, so nothing
//! past the group is touched. Three shuffles of each give the channels of four pixels as `i32`.
//! A picture mirrored left to right is the same code: its shuffles are mirrored, its two loads
//! change places and its step is negative. The last group of a row is moved back to end with it.

use super::super::record::{Header, Pass, shuffles};
use super::ir::{Code, counted_loop, overlapped_loop};
use super::lower::{lower, lower_own, no_slots};
use super::{Imports, Spec, levels, store};
use crate::plan::Link;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32X4, I8X16, I32, I32X4, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use fuseloop_ops::program::Grant;
use fuseloop_ops::{Emit, Pixels};

/// Pixels of a group.
pub(super) const GROUP: i64 = 8;

/// Slots of a matrix.
const MATRIX: usize = 12;

/// A rectangle as one row sees it: `start..end`, empty where the row is outside.
struct Span {
    start: Value,
    end: Value,
}

/// A map as one row sees it: the row as an op sees it, and how it counts columns, in all lanes.
#[derive(Clone, Copy)]
struct MapRow {
    row: Value,
    sign: Value,
    offset: Value,
}

/// What links need to know of a row.
struct RowState {
    spans: Vec<Option<Span>>,
    maps: Vec<Option<MapRow>>,
}

/// Where a group lies.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// First pixel's column.
    pub(super) x: Value,
    /// First column that no group before has covered.
    pub(super) fresh: Value,
    /// Addresses its first and last four pixels are loaded from.
    pub(super) from: [Value; 2],
}

/// Gives the values of a group's first (0) or last (1) four pixels after the links, emitting what
/// makes them. A half is used up before the next is asked for where that is possible: three
/// vectors live at a time leave registers for constants.
pub(super) type Halves<'h> = &'h mut dyn FnMut(&mut Code<'_, '_>, usize) -> [Value; 3];

/// Goes over a pass: `each_row` before a row's groups, then `each_group`, then `after_row`. Values
/// are carried along a row.
pub(super) fn rows(
    e: &mut Code<'_, '_>,
    spec: Spec<'_>,
    pass: usize,
    links: &[Link],
    each_row: impl FnOnce(&mut Code<'_, '_>, Value) -> Vec<Value>,
    each_group: impl FnOnce(&mut Code<'_, '_>, Place, Halves<'_>, &[Value]) -> Vec<Value>,
    after_row: impl FnOnce(&mut Code<'_, '_>, Value, &[Value]),
) {
    let at = spec.layout.pass(pass);
    let (first, last) = (e.pass_word(at, Pass::First), e.pass_word(at, Pass::Last));
    let count = e.pass_word(at, Pass::Rows);
    counted_loop(e, count, &[first, last], |e, y, bases| {
        let carried = each_row(e, y);
        let state = row_state(e, spec, pass, links, y);
        let end = e.pass_word(at, Pass::LastGroup);
        let carried = overlapped_loop(e, end, GROUP, &carried, |e, x, fresh, carried| {
            let step = e.pass_word(at, Pass::PixelStep);
            let offset = e.builder.ins().imul(x, step);
            let from = [e.plus(bases[0], offset), e.plus(bases[1], offset)];
            let mut half = |e: &mut Code<'_, '_>, half: usize| {
                let pixels = load_half(e, at, half, from[half]);
                apply_links(e, spec, links, &state, (x, half), pixels)
            };
            each_group(e, Place { x, fresh, from }, &mut half, carried)
        });
        after_row(e, y, &carried);
        let step = e.pass_word(at, Pass::RowStep);
        vec![e.plus(bases[0], step), e.plus(bases[1], step)]
    });
}

/// The pass that stores the block's output. `before_row` makes the row's source, if need be.
pub(super) fn store(
    e: &mut Code<'_, '_>,
    spec: Spec<'_>,
    links: &[Link],
    imports: Imports,
    before_row: impl FnOnce(&mut Code<'_, '_>, Value),
) {
    let sink = store::Sink::new(spec);
    rows(
        e,
        spec,
        0,
        links,
        |e, y| {
            before_row(e, y);
            vec![sink.row_start(e, y)]
        },
        |e, place, halves, carried| {
            if sink.passes_bytes_on(links) {
                sink.bytes(e, carried[0], place);
            } else {
                sink.group(e, carried[0], place.x, halves);
            }
            carried.to_vec()
        },
        |e, y, _| sink.row_end(e, y, imports),
    );
}

/// The values of four pixels of the source.
fn load_half(e: &mut Code<'_, '_>, pass: i32, half: usize, from: Value) -> [Value; 3] {
    let address = e.pass_word(pass, Pass::Shuffles);
    let bytes = e.load(I8X16, from, 0);
    [0, 1, 2].map(|c| {
        let mask = e.load_mask(address, shuffles::UNPACK + 16 * (3 * half as i32 + c));
        let lanes = e.pshufb(bytes, mask);
        let lanes = e.cast(I32X4, lanes);
        e.builder.ins().fcvt_from_sint(F32X4, lanes)
    })
}

/// The row's parts of the regions that `links` paint, and of the maps they ask.
fn row_state(
    e: &mut Code<'_, '_>,
    spec: Spec<'_>,
    pass: usize,
    links: &[Link],
    y: Value,
) -> RowState {
    let painted = |region| links.contains(&Link::Paint { region });
    let regions = 0..spec.block.regions.len();
    let spans = regions.map(|r| painted(r).then(|| span(e, spec.layout.region(pass, r), y)));
    let spans = spans.collect();
    let asked = |number| {
        let mut links = links.iter();
        links.any(|link| matches!(link, Link::Value { map: Some(map), .. } if *map == number))
    };
    let maps = 0..spec.block.placed.len();
    let maps = maps.map(|m| asked(m).then(|| map_row(e, spec.layout.map(pass, m), y))).collect();
    RowState { spans, maps }
}

fn map_row(e: &mut Code<'_, '_>, at: i32, y: Value) -> MapRow {
    let record = e.record;
    let [sign, offset, row_sign, row_offset] = [0, 4, 8, 12].map(|o| e.load(I32, record, at + o));
    let y = e.builder.ins().ireduce(I32, y);
    let row = e.builder.ins().imul(y, row_sign);
    let row = e.builder.ins().iadd(row, row_offset);
    let [row, sign, offset] = [row, sign, offset].map(|v| e.builder.ins().splat(I32X4, v));
    MapRow { row, sign, offset }
}

/// Row and column of the four pixels of a half of the group at `at.0`, as an op sees them.
fn place(e: &mut Code<'_, '_>, map: MapRow, at: (Value, usize)) -> [Value; 2] {
    let lanes = columns(e, at.0, at.1);
    let scaled = e.builder.ins().imul(lanes, map.sign);
    [map.row, e.builder.ins().iadd(scaled, map.offset)]
}

fn span(e: &mut Code<'_, '_>, at: i32, y: Value) -> Span {
    let record = e.record;
    let [x0, x1, y0, y1] = [0, 4, 8, 12].map(|o| e.load(I32, record, at + o));
    let y = e.builder.ins().ireduce(I32, y);
    let below = e.builder.ins().icmp(IntCC::SignedGreaterThanOrEqual, y, y0);
    let above = e.builder.ins().icmp(IntCC::SignedLessThan, y, y1);
    let inside = e.builder.ins().band(below, above);
    let end = e.builder.ins().select(inside, x1, x0);
    let [start, end] = [x0, end].map(|v| e.builder.ins().splat(I32X4, v));
    Span { start, end }
}

/// The values of half `at.1` of the group at column `at.0`, through the links.
fn apply_links(
    e: &mut Code<'_, '_>,
    spec: Spec<'_>,
    links: &[Link],
    state: &RowState,
    at: (Value, usize),
    mut pixels: [Value; 3],
) -> [Value; 3] {
    for link in links {
        match *link {
            Link::Value { leaf, part, slot, map } => {
                if let Some(kind) = spec.leaves[leaf].kind.pixel(part) {
                    let map = map.and_then(|map| state.maps[map]);
                    let place = map.map(|map| place(e, map, at));
                    pixels = lower(e, &kind.program, spec.slot(slot), pixels, place);
                }
            }
            Link::Table { table, .. } => pixels = levels::look_up(e, spec, table, pixels),
            Link::Matrix { slot } => {
                let grant = Grant { slots: MATRIX, ..no_slots(spec.rule) };
                pixels = lower_own(e, grant, spec.slot(slot), pixels, multiply);
            }
            Link::Round => pixels = pixels.map(|v| e.level(v)),
            Link::Paint { region } => {
                if let Some(span) = &state.spans[region] {
                    pixels = paint(e, spec, region, span, at, pixels);
                }
            }
        }
    }
    pixels
}

/// By the matrix in twelve slots, a row each of factors of red, green, blue and a constant;
/// clamped. As [`multiplied`](super::super::oracle::multiplied) has it.
pub(crate) fn multiply(e: &mut Emit, pixels: Pixels) -> Pixels {
    e.each(pixels, |e, c, _| {
        let mut sum = e.slot(4 * c + 3);
        for k in [2, 1, 0] {
            let factor = e.slot(4 * c + k);
            sum = e.fma(pixels.channels[k], factor, sum);
        }
        e.clamp(sum)
    })
}

fn paint(
    e: &mut Code<'_, '_>,
    spec: Spec<'_>,
    region: usize,
    span: &Span,
    (x, half): (Value, usize),
    pixels: [Value; 3],
) -> [Value; 3] {
    let region = spec.block.regions[region];
    let fill = region.fill;
    let lanes = columns(e, x, half);
    let inside = within(e, lanes, span);
    [0, 1, 2].map(|c| {
        let (v, fill) = (pixels[c], e.splat_bits(fill[c].to_bits()));
        if region.outside { e.select(inside, v, fill) } else { e.select(inside, fill, v) }
    })
}

/// The columns of the four pixels of a half of the group at `x`.
fn columns(e: &mut Code<'_, '_>, x: Value, half: usize) -> Value {
    let x = e.builder.ins().ireduce(I32, x);
    let x = e.builder.ins().splat(I32X4, x);
    let lanes = [[0, 1, 2, 3], [4, 5, 6, 7]][half].map(i32::to_le_bytes);
    let lanes = e.constant(I32X4, lanes.concat().try_into().expect("four lanes of four bytes"));
    e.builder.ins().iadd(x, lanes)
}

/// All ones in the lanes whose column is in the span.
fn within(e: &mut Code<'_, '_>, columns: Value, span: &Span) -> Value {
    let before = e.builder.ins().icmp(IntCC::SignedGreaterThan, span.start, columns);
    let ahead = e.builder.ins().icmp(IntCC::SignedGreaterThan, span.end, columns);
    e.builder.ins().band_not(ahead, before)
}

/// The address of the row at which the output's row `y` begins.
pub(super) fn output_row(e: &mut Code<'_, '_>, y: Value, pixel_bytes: i64) -> Value {
    let out = e.header(Header::Out);
    let columns = output_columns(e, 0);
    let row = e.times(columns, pixel_bytes);
    let offset = e.builder.ins().imul(y, row);
    debug_assert_eq!(e.builder.func.dfg.value_type(offset), I64);
    e.plus(out, offset)
}

/// Columns of the stored picture; `extra` more.
pub(super) fn output_columns(e: &mut Code<'_, '_>, extra: i64) -> Value {
    let at = super::super::record::HEADER;
    let last = e.pass_word(at, Pass::LastGroup);
    e.offset(last, GROUP + extra)
}
