//! Emits the antialiased bilinear resize of one row, in integers, and the calls of other row producers.
//!
//! [`fuseloop_ops::internals::bilinear`] defines the resize: source rows are blended into one row of `i16` (Q7
//! around 128) that stays in the first-level cache, then its columns into bytes. Rows of 2, 3, 4, 6 and
//! 8 taps and columns of 1, 2 and 3 pairs of taps have code of their own, selected once a row; other
//! numbers of taps run a loop.
//!
//! Four rows of an image of one channel are made together, as if each were a channel of one row: a pixel
//! alone would leave most of a vector empty. The rows of the last group wait in memory.

use super::super::param_block::{GRAY_GROUP, GRAY_ROWS, HeaderWord};
use super::hoist::{entered_from, hoist};
use super::ir::{BlockCode, counted_loop, overlapped_loop};
use super::{BodySpec, Imports};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8X16, I16, I16X8, I32X4, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use fuseloop_ops::author::RowProducer;

/// Emits the production of all rows, before they are read.
pub(super) fn all_rows(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    maker: RowProducer,
    imports: &Imports,
) {
    let rows = e.header(HeaderWord::ResizedRows);
    let first = e.header(HeaderWord::Resized);
    counted_loop(e, rows, &[first], |e, y, to| {
        row(e, spec, maker, imports, y, to[0]);
        let stride = e.header(HeaderWord::ResizedStride);
        vec![e.plus(to[0], stride)]
    });
}

/// Emits the production of row `y` of the tables into the bytes at `to`.
pub(super) fn row(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    maker: RowProducer,
    imports: &Imports,
    y: Value,
    to: Value,
) {
    match (maker, imports.maker) {
        (RowProducer::Called, Some(maker)) => {
            let state = e.header(HeaderWord::Maker);
            e.call(maker, &[state, y, to]);
        }
        _ => bilinear_row(e, spec.block.channels, y, to),
    }
}

fn bilinear_row(e: &mut BlockCode<'_, '_>, channels: usize, y: Value, to: Value) {
    if channels == 1 {
        return gray_row(e, y, to);
    }
    let taps = e.header(HeaderWord::RowTaps);
    dispatch(e, taps, &[2, 3, 4, 6, 8], |e, taps| blend_rows(e, y, None, taps));
    let count = e.header(HeaderWord::ColumnPairs);
    dispatch(e, count, &[1, 2, 3], |e, pairs| blend_columns(e, channels, to, pairs));
}

/// Copies a gray row out of its group, which is made unless it is the last one that was.
fn gray_row(e: &mut BlockCode<'_, '_>, y: Value, to: Value) {
    let memory = e.header(HeaderWord::GrayRows);
    let rows = e.offset(memory, GRAY_GROUP as i64);
    let columns = e.header(HeaderWord::Columns);
    let bytes = e.offset(columns, 15);
    let vectors = e.builder.ins().ushr_imm_u(bytes, 4);
    let stride = e.times(vectors, 16);
    let (made, make) = (e.builder.create_block(), e.builder.create_block());
    let group = e.builder.ins().ushr_imm_u(y, 2);
    let known = e.load(I64, memory, 0);
    let is_known = e.builder.ins().icmp(IntCC::Equal, group, known);
    e.builder.ins().brif(is_known, made, &[], make, &[]);

    e.builder.switch_to_block(make);
    e.store(group, memory, 0);
    make_gray_rows(e, group, rows, stride);
    e.builder.ins().jump(made, &[]);

    e.builder.switch_to_block(made);
    let in_group = e.times(group, GRAY_ROWS as i64);
    let row = e.builder.ins().isub(y, in_group);
    let offset = e.builder.ins().imul(row, stride);
    let from = e.plus(rows, offset);
    counted_loop(e, vectors, &[from, to], |e, _, at| {
        let bytes = e.load(I8X16, at[0], 0);
        e.store(bytes, at[1], 0);
        vec![e.offset(at[0], 16), e.offset(at[1], 16)]
    });
}

/// Makes a group of gray rows, of `stride` bytes each, at `rows`. Behind them is room for their rows of `i16`.
fn make_gray_rows(e: &mut BlockCode<'_, '_>, group: Value, rows: Value, stride: Value) {
    let bytes = e.times(stride, GRAY_ROWS as i64);
    let blended = e.plus(rows, bytes);
    let last = e.header(HeaderWord::LastVector);
    let width = e.offset(last, 16);
    let words = e.times(width, 2);
    let first = e.times(group, GRAY_ROWS as i64);
    let four = e.int(GRAY_ROWS as i64);
    counted_loop(e, four, &[first, blended], |e, _, at| {
        let taps = e.header(HeaderWord::RowTaps);
        dispatch(e, taps, &[2, 3, 4, 6, 8], |e, taps| blend_rows(e, at[0], Some(at[1]), taps));
        vec![e.offset(at[0], 1), e.plus(at[1], words)]
    });
    interleave_rows(e, blended, width, words);
    let count = e.header(HeaderWord::ColumnPairs);
    dispatch(e, count, &[1, 2, 3], |e, pairs| blend_gray_columns(e, rows, stride, pairs));
}

/// Makes pixels of four channels of four rows of `i16`.
fn interleave_rows(e: &mut BlockCode<'_, '_>, from: Value, width: Value, row_bytes: Value) {
    let to = e.header(HeaderWord::Wide);
    let rows: [Value; GRAY_ROWS] = std::array::from_fn(|k| {
        let offset = e.builder.ins().imul_imm_s(row_bytes, k as i64);
        e.plus(from, offset)
    });
    let last = e.offset(width, -8);
    overlapped_loop(e, last, 8, &[], |e, x, _, _| {
        let offset = e.times(x, 2);
        let words = rows.map(|row| {
            let from = e.plus(row, offset);
            e.load(I16X8, from, 0)
        });
        let offset = e.times(x, 8);
        let to = e.plus(to, offset);
        for half in 0..2 {
            let upper = e.shuffle(words[0], words[1], interleaving(2, half));
            let lower = e.shuffle(words[2], words[3], interleaving(2, half));
            for quarter in 0..2 {
                let pixels = e.shuffle(upper, lower, interleaving(4, quarter));
                e.store(pixels, to, (32 * half + 16 * quarter) as i32);
            }
        }
        vec![]
    });
}

/// Emits code for each of the `known` values of `value`, and for any other value.
fn dispatch(
    e: &mut BlockCode<'_, '_>,
    value: Value,
    known: &[i64],
    mut code: impl FnMut(&mut BlockCode<'_, '_>, Option<i64>),
) {
    let done = e.builder.create_block();
    for &known in known {
        let (this, next) = (e.builder.create_block(), e.builder.create_block());
        let is_this = e.equals(value, known);
        e.builder.ins().brif(is_this, this, &[], next, &[]);
        e.builder.switch_to_block(this);
        code(e, Some(known));
        e.builder.ins().jump(done, &[]);
        e.builder.switch_to_block(next);
    }
    code(e, None);
    e.builder.ins().jump(done, &[]);
    e.builder.switch_to_block(done);
}

/// Returns the shuffle that takes units of `unit` bytes from two vectors in turn, of their lower or upper halves.
fn interleaving(unit: usize, half: usize) -> [u8; 16] {
    std::array::from_fn(|i| (i / unit / 2 * unit + i % unit + 16 * (i / unit % 2) + 8 * half) as u8)
}

/// Blends the source rows of output row `y`, 16 bytes at a time, to the row of `i16` at `to` or else to the one of the
/// header.
fn blend_rows(e: &mut BlockCode<'_, '_>, y: Value, to: Option<Value>, taps: Option<i64>) {
    let (source, stride) = (e.header(HeaderWord::Source), e.header(HeaderWord::Stride));
    let firsts = e.header(HeaderWord::RowFirst);
    let offset = e.times(y, 4);
    let first = e.plus(firsts, offset);
    let first = e.load_i32(first, 0);
    let offset = e.builder.ins().imul(first, stride);
    let source = e.plus(source, offset);

    let count = e.header(HeaderWord::RowTaps);
    let weights = e.header(HeaderWord::RowWeights);
    let offset = e.builder.ins().imul(y, count);
    let offset = e.times(offset, 2);
    let weights = e.plus(weights, offset);

    let wide = to.unwrap_or_else(|| e.header(HeaderWord::Wide));
    let last = e.header(HeaderWord::LastVector);
    // A known number of taps: rows and weights stay in registers along the row.
    let known: Vec<(Value, Value)> = (0..taps.unwrap_or(0))
        .map(|k| {
            let offset = e.times(stride, k);
            (e.plus(source, offset), weight(e, weights, 2 * k as i32))
        })
        .collect();
    overlapped_loop(e, last, 16, &[], |e, x, _, _| {
        let sums = if taps.is_some() {
            known.iter().fold(None, |sums, &(row, weight)| {
                let address = e.plus(row, x);
                Some(add_tap(e, sums, address, weight))
            })
        } else {
            let zero = e.constant(I16X8, [0; 16]);
            let start = e.plus(source, x);
            let carried = [start, weights, zero, zero];
            let carried = counted_loop(e, count, &carried, |e, _, carried| {
                let weight = weight(e, carried[1], 0);
                let sums = Some([carried[2], carried[3]]);
                let [low, high] = add_tap(e, sums, carried[0], weight);
                vec![e.plus(carried[0], stride), e.offset(carried[1], 2), low, high]
            });
            Some([carried[2], carried[3]])
        };
        let offset = e.times(x, 2);
        let to = e.plus(wide, offset);
        for (half, sum) in sums.into_iter().flatten().enumerate() {
            e.store(sum, to, 16 * half as i32);
        }
        vec![]
    });
}

/// Loads a weight into all lanes.
fn weight(e: &mut BlockCode<'_, '_>, address: Value, offset: i32) -> Value {
    let weight = e.load(I16, address, offset);
    e.builder.ins().splat(I16X8, weight)
}

/// Adds 16 bytes, centred around 128 and multiplied by a weight, to two vectors of `i16`.
fn add_tap(
    e: &mut BlockCode<'_, '_>,
    sums: Option<[Value; 2]>,
    address: Value,
    weight: Value,
) -> [Value; 2] {
    let bytes = e.load(I8X16, address, 0);
    let middle = e.constant(I8X16, [0x80; 16]);
    let bytes = e.builder.ins().bxor(bytes, middle);
    let zero = e.constant(I8X16, [0; 16]);
    [0, 8].map(|from: u8| {
        // A zero byte below each byte: the value times 2^8.
        let mask = std::array::from_fn(|i| from + i as u8 / 2 + if i % 2 == 0 { 0 } else { 16 });
        let words = e.shuffle(zero, bytes, mask);
        let words = e.cast(I16X8, words);
        let product = e.multiply_high(words, weight);
        match sums {
            None => product,
            Some(sums) => e.builder.ins().iadd(sums[usize::from(from / 8)], product),
        }
    })
}

/// Emits the loop over the columns of a row, four pixels at a time, of `bytes` bytes in the output. `four` gets the addresses
/// of their first source columns and weights and of the output; it stores the pixels, and returns the address of the next
/// weights.
fn each_four_columns(
    e: &mut BlockCode<'_, '_>,
    bytes: usize,
    to: Value,
    four: impl FnOnce(&mut BlockCode<'_, '_>, [Value; 3]) -> Value,
) {
    let (firsts, weights) =
        (e.header(HeaderWord::ColumnFirst), e.header(HeaderWord::ColumnWeights));
    let columns = e.header(HeaderWord::Columns);
    let quads = e.builder.ins().ushr_imm_u(columns, 2);
    let outside = entered_from(e);
    counted_loop(e, quads, &[firsts, weights, to], |e, _, at| {
        let weights = four(e, [at[0], at[1], at[2]]);
        vec![e.offset(at[0], 16), weights, e.offset(at[2], 4 * bytes as i64)]
    });
    hoist(e, outside);
}

/// Blends the columns of the row of `i16`, four pixels of 2, 3 or 4 channels at a time.
fn blend_columns(e: &mut BlockCode<'_, '_>, channels: usize, to: Value, pairs: Option<i64>) {
    each_four_columns(e, channels, to, |e, [firsts, weights, to]| {
        let (bytes, weights) = four_pixels(e, channels, firsts, weights, pairs);
        let bytes = if channels == 4 {
            bytes
        } else {
            let mask = e.constant(I8X16, packing(channels));
            e.pshufb(bytes, mask)
        };
        e.store(bytes, to, 0); // 4 bytes a channel are valid; the next iteration overwrites the others
        weights
    });
}

/// Blends the columns of pixels of four gray rows, and stores four bytes to each row.
fn blend_gray_columns(e: &mut BlockCode<'_, '_>, rows: Value, stride: Value, pairs: Option<i64>) {
    each_four_columns(e, 1, rows, |e, [firsts, weights, to]| {
        let (bytes, weights) = four_pixels(e, GRAY_ROWS, firsts, weights, pairs);
        let mask = std::array::from_fn(|i| (i % 4 * 4 + i / 4) as u8);
        let mask = e.constant(I8X16, mask);
        let bytes = e.pshufb(bytes, mask);
        let of_rows = e.cast(I32X4, bytes);
        let mut to = to;
        for row in 0..GRAY_ROWS {
            let four = e.builder.ins().extractlane(of_rows, row as u8);
            e.store(four, to, 0);
            to = e.plus(to, stride);
        }
        weights
    });
}

/// Returns four pixels of four bytes each, and the address of the next weights.
fn four_pixels(
    e: &mut BlockCode<'_, '_>,
    channels: usize,
    firsts: Value,
    weights: Value,
    pairs: Option<i64>,
) -> (Value, Value) {
    let (pixels, weights) = match pairs {
        Some(pairs) => blend_known(e, channels, firsts, weights, pairs),
        None => blend_any(e, channels, firsts, weights),
    };
    let pixels = pixels.map(|sum| e.builder.ins().sshr_imm_u(sum, 21));
    let low = e.builder.ins().snarrow(pixels[0], pixels[1]);
    let high = e.builder.ins().snarrow(pixels[2], pixels[3]);
    (e.builder.ins().unarrow(low, high), weights)
}

/// Returns the sums of four pixels, Q21, of `pairs` pairs of taps each, and the address of the next
/// weights.
fn blend_known(
    e: &mut BlockCode<'_, '_>,
    channels: usize,
    firsts: Value,
    weights: Value,
    pairs: i64,
) -> ([Value; 4], Value) {
    let pairs = pairs as i32;
    let sums = [0, 1, 2, 3].map(|pixel| {
        let from = source_pixel(e, firsts, pixel);
        let start = e.splat_i32(HALF);
        (0..pairs).fold(start, |sum, k| {
            let offset = 4 * channels as i32 * k;
            add_pair(e, channels, sum, (from, offset), (weights, 16 * (pairs * pixel + k)))
        })
    });
    (sums, e.offset(weights, 64 * i64::from(pairs)))
}

/// Returns the same for any number of pairs, with one loop over the pairs for all four pixels.
fn blend_any(
    e: &mut BlockCode<'_, '_>,
    channels: usize,
    firsts: Value,
    weights: Value,
) -> ([Value; 4], Value) {
    let count = e.header(HeaderWord::ColumnPairs);
    let from = [0, 1, 2, 3].map(|pixel| source_pixel(e, firsts, pixel));
    let start = e.splat_i32(HALF);
    let bytes = e.times(count, 16);
    let second = e.plus(weights, bytes);
    let third = e.plus(second, bytes);
    let all = [weights, second, third, e.plus(third, bytes)];
    let zero = e.int(0);
    let carried = [start, start, start, start, zero];
    let sums = counted_loop(e, count, &carried, |e, k, carried| {
        let weight = e.times(k, 16);
        let mut next: Vec<Value> = (0..4)
            .map(|pixel| {
                let from = e.plus(from[pixel], carried[4]);
                let weights = e.plus(all[pixel], weight);
                add_pair(e, channels, carried[pixel], (from, 0), (weights, 0))
            })
            .collect();
        next.push(e.offset(carried[4], 4 * channels as i64));
        next
    });
    ([sums[0], sums[1], sums[2], sums[3]], e.plus(all[3], bytes))
}

/// Returns the address of the first tap of pixel `pixel` of four in the row of `i16`.
fn source_pixel(e: &mut BlockCode<'_, '_>, firsts: Value, pixel: i32) -> Value {
    let wide = e.header(HeaderWord::Wide);
    let first = e.load_i32(firsts, 4 * pixel);
    e.plus(wide, first)
}

/// Adds two weighted pixels to the sums of their channels. Each position is an address and an offset.
fn add_pair(
    e: &mut BlockCode<'_, '_>,
    channels: usize,
    sum: Value,
    (from, from_offset): (Value, i32),
    (weights, weights_offset): (Value, i32),
) -> Value {
    let words = e.load(I8X16, from, from_offset);
    let mask = e.constant(I8X16, pairing(channels));
    let words = e.pshufb(words, mask);
    let pair = e.load(I16X8, weights, weights_offset);
    let products = e.pair_sum(words, pair);
    debug_assert_eq!(e.builder.func.dfg.value_type(from), I64);
    e.builder.ins().iadd(products, sum)
}

/// A half plus 128, in Q21: the initial value of a pixel's sum.
const HALF: i32 = (1 << 20) + (128 << 21);

const NONE: u8 = 0x80;

/// Returns the shuffle of two pixels of `i16`: of RGB, `r0 g0 b0 r1 g1 b1` to `r0 r1 g0 g1 b0 b1 0 0`.
fn pairing(channels: usize) -> [u8; 16] {
    std::array::from_fn(|byte| {
        let (channel, pixel) = (byte / 4, byte / 2 % 2);
        let from = 2 * (channels * pixel + channel) + byte % 2;
        if channel < channels { from as u8 } else { NONE }
    })
}

/// Returns the shuffle of four pixels of four bytes each to pixels of `channels` bytes.
fn packing(channels: usize) -> [u8; 16] {
    std::array::from_fn(|byte| {
        let from = 4 * (byte / channels) + byte % channels;
        if byte < 4 * channels { from as u8 } else { NONE }
    })
}
