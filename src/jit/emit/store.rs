//! Emits the final store: from vectors of `f32` to the output's type and layout.
//!
//! | type | channels first | channels last |
//! |---|---|---|
//! | f32 | three planes, 32 bytes each a group | interleaved by shuffles, 96 bytes |
//! | u8 | three planes, 8 bytes each | interleaved by shuffles, 24 bytes |
//! | any other type, or streamed | as f32 into one row, then a row function for each plane | as f32 into one row, then one call |
//! | bytes normalized to f16, bf16 | as u8 into one row, then a row function for each plane | as u8 into one row, then one call |
//!
//! Bytes that no op changes are copied as they are. Otherwise integers are rounded half to even and
//! saturate at the limits of their type; floats are rounded to nearest even. Where `Normalize` is the
//! only op, the row function normalizes while it converts: its vectors are twice as wide.

use super::super::param_block::{HEADER, HeaderWord, PassWord, shuffles};
use super::ir::BlockCode;
use super::pass::{GroupPosition, Halves, output_columns, output_row};
use super::{BodySpec, Imports};
use crate::plan::FusedOp;
use cranelift_codegen::ir::types::{I8X16, I16X8, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};
use fuseloop_kernels::{Numbers, RowFunction};
use fuseloop_ops::DType;
use fuseloop_ops::author::Layout;

/// Where and how a block's output is stored.
#[derive(Clone, Copy)]
pub(super) struct Sink {
    dtype: DType,
    planar: bool,
    stored: StoreFormat,
}

/// The format in which groups are stored.
#[derive(Clone, Copy)]
enum StoreFormat {
    /// The output's own format, directly to the output.
    Output,
    /// `f32` into a row, which a row function converts.
    Floats,
    /// Bytes into a row, which a row function normalizes and converts.
    Bytes([Numbers; 3]),
}

/// Returns the row function that stores a block's rows, if one does.
pub(crate) fn row_function(spec: BodySpec<'_>) -> Option<&'static RowFunction> {
    let sink = Sink::new(spec);
    let source = match (sink.stored, sink.planar) {
        (StoreFormat::Output, _) => return None,
        (StoreFormat::Floats, _) => "floats",
        (StoreFormat::Bytes(_), true) => "plane",
        (StoreFormat::Bytes(_), false) => "pixels",
    };
    let streamed = if spec.block.streams { "_streamed" } else { "" };
    let name = format!("{source}_{}{streamed}", sink.dtype);
    Some(RowFunction::named(&name).expect("there is one for every source and type"))
}

/// Returns the numbers that a block's bytes are normalized by, if normalization is the only op and the
/// output's type has a row function for it.
fn normalized(spec: BodySpec<'_>) -> Option<[Numbers; 3]> {
    let &[FusedOp::Value { leaf, part, .. }] = spec.links else { return None };
    let numbers = spec.leaves.get(leaf)?.kind.pixel(part)?.normalizes?;
    matches!(spec.block.dtype, DType::F16 | DType::Bf16).then_some(numbers)
}

impl Sink {
    pub(super) fn new(spec: BodySpec<'_>) -> Self {
        let (dtype, planar) = (spec.block.dtype, spec.block.layout == Layout::ChannelsFirst);
        let is_direct = !spec.block.streams && matches!(dtype, DType::U8 | DType::F32);
        let stored = match normalized(spec) {
            Some(numbers) => StoreFormat::Bytes(numbers),
            None if is_direct => StoreFormat::Output,
            None => StoreFormat::Floats,
        };
        Self { dtype, planar, stored }
    }

    /// Returns true if groups are stored into a row first.
    fn by_row(self) -> bool {
        !matches!(self.stored, StoreFormat::Output)
    }

    /// Returns the bytes of an element as groups store it.
    fn element_bytes(self) -> i64 {
        match self.stored {
            StoreFormat::Output => self.dtype.bytes() as i64,
            StoreFormat::Floats => 4,
            StoreFormat::Bytes(_) => 1,
        }
    }

    /// Returns the bytes of a pixel as groups store it; within one plane if planar.
    fn pixel_bytes(self) -> i64 {
        if self.planar { self.element_bytes() } else { 3 * self.element_bytes() }
    }

    /// Returns the address that row `y`'s groups are stored to.
    pub(super) fn row_start(self, e: &mut BlockCode<'_, '_>, y: Value) -> Value {
        if self.by_row() {
            return e.header(HeaderWord::FloatRow);
        }
        output_row(e, y, self.pixel_bytes())
    }

    /// Returns the bytes between the planes that groups are stored to.
    fn plane(self, e: &mut BlockCode<'_, '_>) -> Value {
        if self.by_row() {
            let columns = output_columns(e, 0);
            return e.times(columns, self.element_bytes());
        }
        e.header(HeaderWord::Plane)
    }

    pub(super) fn group(self, e: &mut BlockCode<'_, '_>, row: Value, x: Value, halves: Halves<'_>) {
        let offset = e.times(x, self.pixel_bytes());
        let to = e.plus(row, offset);
        match (self.dtype, self.planar) {
            (DType::U8, true) => self.bytes_planar(e, to, halves),
            (DType::U8, false) => bytes_interleaved(e, to, halves),
            (_, true) => self.floats_planar(e, to, halves),
            (_, false) => floats_interleaved(e, to, halves),
        }
    }

    /// Returns true if groups store the source's own bytes, shuffled.
    pub(super) fn passes_bytes_on(self, links: &[FusedOp]) -> bool {
        match self.stored {
            StoreFormat::Output => self.dtype == DType::U8 && links.is_empty(),
            StoreFormat::Floats => false,
            StoreFormat::Bytes(_) => true,
        }
    }

    /// Copies a group's bytes.
    pub(super) fn bytes(self, e: &mut BlockCode<'_, '_>, row: Value, position: GroupPosition) {
        let offset = e.times(position.x, self.pixel_bytes());
        let to = e.plus(row, offset);
        let address = e.pass_word(HEADER, PassWord::Shuffles);
        let first = if self.planar { shuffles::PLANAR } else { shuffles::INTERLEAVED };
        let loads = position.from.map(|from| e.load(I8X16, from, 0));
        let [low, high] = [0, 2].map(|vector| {
            let masks = [0, 16].map(|mask| e.load_mask(address, first + 16 * vector + mask));
            let parts = [e.pshufb(loads[0], masks[0]), e.pshufb(loads[1], masks[1])];
            e.builder.ins().bor(parts[0], parts[1])
        });
        if self.planar {
            self.store_planes(e, to, low, high);
        } else {
            e.store(low, to, 0);
            e.store(high, to, 8);
        }
    }

    /// Calls the row function, if groups were stored to a row.
    pub(super) fn row_end(self, e: &mut BlockCode<'_, '_>, y: Value, imports: Imports) {
        let Some(store) = imports.store else { return };
        let element = self.dtype.bytes() as i64;
        let from = e.header(HeaderWord::FloatRow);
        let columns = output_columns(e, 0);
        let numbers = self.numbers(e);
        if !self.planar {
            let count = e.times(columns, 3);
            let to = output_row(e, y, 3 * element);
            e.builder.ins().call(store, &[from, to, count, numbers]);
            return;
        }
        let (from_plane, to_plane) = (self.plane(e), e.header(HeaderWord::Plane));
        let (mut from, mut to) = (from, output_row(e, y, element));
        for channel in 0..3 {
            let numbers = e.offset(numbers, channel * size_of::<Numbers>() as i64);
            e.builder.ins().call(store, &[from, to, columns, numbers]);
            (from, to) = (e.plus(from, from_plane), e.plus(to, to_plane));
        }
    }

    /// Returns the address of the numbers that the row function normalizes by; 0 if it does not
    /// normalize.
    fn numbers(self, e: &mut BlockCode<'_, '_>) -> Value {
        let StoreFormat::Bytes(numbers) = self.stored else { return e.int(0) };
        let bytes = numbers.map(|channel| {
            let [m1, s1, s0, bias] = channel.map(f32::to_ne_bytes);
            [m1, s1, s0, bias].concat().try_into().expect("four floats are sixteen bytes")
        });
        e.constants_at(&bytes)
    }

    fn floats_planar(self, e: &mut BlockCode<'_, '_>, to: Value, halves: Halves<'_>) {
        let plane = self.plane(e);
        let second = e.plus(to, plane);
        let planes = [to, second, e.plus(second, plane)];
        for half in 0..2 {
            let pixels = halves(e, half);
            for (c, to) in planes.into_iter().enumerate() {
                e.store(pixels[c], to, 16 * half as i32);
            }
        }
    }

    fn bytes_planar(self, e: &mut BlockCode<'_, '_>, to: Value, halves: Halves<'_>) {
        let [r, g, b] = words(e, halves);
        let rg = e.builder.ins().unarrow(r, g);
        let bb = e.builder.ins().unarrow(b, b);
        self.store_planes(e, to, rg, bb);
    }

    /// Stores three planes from two vectors: eight bytes of red, then green, and eight bytes of blue.
    fn store_planes(self, e: &mut BlockCode<'_, '_>, to: Value, rg: Value, bb: Value) {
        let plane = self.plane(e);
        let (rg, bb) = (e.cast(I64X2, rg), e.cast(I64X2, bb));
        let mut to = to;
        for (pair, lane) in [(rg, 0), (rg, 1), (bb, 0)] {
            let eight = e.builder.ins().extractlane(pair, lane);
            e.store(eight, to, 0);
            to = e.plus(to, plane);
        }
    }
}

/// Returns eight pixels' channels as `i16`, clamped to 0..=255 and rounded half to even.
fn words(e: &mut BlockCode<'_, '_>, halves: Halves<'_>) -> [Value; 3] {
    let [low, high] = [0, 1].map(|half| {
        let pixels = halves(e, half);
        pixels.map(|v| {
            let v = e.level(v);
            e.i32_of(v)
        })
    });
    [0, 1, 2].map(|c| {
        let words = e.builder.ins().snarrow(low[c], high[c]);
        debug_assert_eq!(e.builder.func.dfg.value_type(words), I16X8);
        words
    })
}

/// Stores `r0 g0 b0 r1 g1 b1 ..`: 24 bytes, as the first 16 and the last 16.
pub(super) fn bytes_interleaved(e: &mut BlockCode<'_, '_>, to: Value, halves: Halves<'_>) {
    let [r, g, b] = words(e, halves);
    let rg = e.builder.ins().unarrow(r, g);
    let bb = e.builder.ins().unarrow(b, b);
    let byte = |i: u8| i / 3 + [0, 8, 16][usize::from(i % 3)];
    let low = e.shuffle(rg, bb, std::array::from_fn(|i| byte(i as u8)));
    let high = e.shuffle(rg, bb, std::array::from_fn(|i| byte(8 + i as u8)));
    debug_assert_eq!(e.builder.func.dfg.value_type(low), I8X16);
    e.store(low, to, 0);
    e.store(high, to, 8);
}

/// Stores `r0 g0 b0 r1 | g1 b1 r2 g2 | b2 r3 g3 b3`, twice.
fn floats_interleaved(e: &mut BlockCode<'_, '_>, to: Value, halves: Halves<'_>) {
    for half in 0..2 {
        let [r, g, b] = halves(e, half);
        let vectors = [
            pick(e, [r, g, b], [(0, 0), (1, 0), (2, 0), (0, 1)]),
            pick(e, [r, g, b], [(1, 1), (2, 1), (0, 2), (1, 2)]),
            pick(e, [r, g, b], [(2, 2), (0, 3), (1, 3), (2, 3)]),
        ];
        for (k, vector) in vectors.into_iter().enumerate() {
            e.store(vector, to, 48 * half as i32 + 16 * k as i32);
        }
    }
}

/// Combines four lanes of three vectors: `(vector, lane)` each.
fn pick(e: &mut BlockCode<'_, '_>, from: [Value; 3], lanes: [(u8, u8); 4]) -> Value {
    let bytes = |choose: &dyn Fn(usize) -> u8| -> [u8; 16] {
        std::array::from_fn(|i| 4 * choose(i / 4) + (i % 4) as u8)
    };
    // The lanes of vectors 0 and 1 first, then the lanes of vector 2 between them.
    let both = bytes(&|i| match lanes[i] {
        (2, _) => 0,
        (vector, lane) => 4 * vector + lane,
    });
    let both = e.shuffle(from[0], from[1], both);
    let all = bytes(&|i| match lanes[i] {
        (2, lane) => 4 + lane,
        _ => i as u8,
    });
    e.shuffle(both, from[2], all)
}
