//! Emits the final store: from vectors of `f32` to the output's type and layout.
//!
//! | type | channels first | channels last |
//! |---|---|---|
//! | f32 | planes, 32 bytes each a group | interleaved by shuffles, 32 bytes a channel |
//! | u8 | planes, 8 bytes each | interleaved by shuffles, 8 bytes a channel |
//! | any other type, or streamed | as f32 into one row, then a row function for each plane | as f32 into one row, then one call |
//! | bytes normalized to f16, bf16 | as u8 into one row, then a row function for each plane | as u8 into one row, then one call |
//!
//! Bytes that no op changes are copied as they are. Otherwise integers are rounded half to even and
//! saturate at the limits of their type; floats are rounded to nearest even. Where `Normalize` is the
//! only op, and loops have vectors of 128 bits, the row function normalizes while it converts: its vectors are twice
//! as wide. Loops with wider vectors store planes of f16 directly, and those of 512 bits also planes of bf16.

use super::super::param_block::{HEADER, HeaderWord, PassWord, shuffles};
use super::ir::BlockCode;
use super::pass::{GroupPosition, Halves, load_bytes, output_columns, output_row};
use super::{BodySpec, Imports};
use crate::jit::vector_bits::{Fallback, VectorBits};
use crate::plan::FusedOp;
use cranelift_codegen::ir::types::{I8X16, I16X8, I32X4, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};
use fuseloop_kernels::{Numbers, RowFunction};
use fuseloop_ops::DType;
use fuseloop_ops::author::Layout;

/// The form in which a pass with wider vectors stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassStore {
    /// A plane of `f32` for each channel. The planes follow each other as those of the output do, or, if `by_row`,
    /// as rows of the row that a row function converts.
    Floats {
        /// True if they are stored to a row.
        by_row: bool,
    },
    /// Pixels of `f32`, of 2 to 4 channels; `by_row` as for planes.
    FloatPixels {
        /// True if they are stored to a row.
        by_row: bool,
    },
    /// Planes of `f32`, stored around the caches. The image's rows, its planes and the output lie at multiples of 64
    /// bytes.
    Streamed,
    /// A plane of f16 for each channel.
    Halves,
    /// A plane of bf16 for each channel.
    Bf16Planes,
    /// A plane of bytes for each channel.
    BytePlanes,
    /// Pixels of bytes.
    Bytes,
    /// The sums of the greys of a row's columns, by column modulo the lanes: `i32`.
    Greys,
}

impl PassStore {
    /// Returns true if rows are stored to a row that a row function converts.
    pub(super) fn by_row(self) -> bool {
        matches!(self, Self::Floats { by_row: true } | Self::FloatPixels { by_row: true })
    }

    /// Returns the bytes from a pixel to the next within a row.
    pub(crate) fn pixel_bytes(self, channels: usize) -> i32 {
        match self {
            Self::Floats { .. } | Self::Streamed => 4,
            Self::FloatPixels { .. } => 4 * channels as i32,
            Self::Halves | Self::Bf16Planes => 2,
            Self::BytePlanes => 1,
            Self::Bytes => channels as i32,
            Self::Greys => 0,
        }
    }
}

/// Where and how a block's output is stored.
#[derive(Clone)]
pub(super) struct Sink {
    channels: usize,
    /// The type of the elements that the block reads.
    source: DType,
    dtype: DType,
    planar: bool,
    stored: StoreFormat,
}

/// The format in which groups are stored.
#[derive(Clone)]
enum StoreFormat {
    /// The output's own format, directly to the output.
    Output,
    /// `f32` into a row, which a row function converts.
    Floats,
    /// Bytes into a row, which a row function normalizes and converts.
    Bytes(Vec<Numbers>),
}

/// Returns the row function that stores a block's rows, if one does.
pub(crate) fn row_function(spec: BodySpec<'_>) -> Option<&'static RowFunction> {
    let sink = Sink::new(spec);
    let source = match sink.stored {
        StoreFormat::Output => return None,
        StoreFormat::Floats => "floats",
        StoreFormat::Bytes(_) if sink.has_planes() => "plane",
        StoreFormat::Bytes(_) => "pixels",
    };
    let streamed = if spec.block.streams { "_streamed" } else { "" };
    let name = format!("{source}_{}{streamed}", sink.dtype);
    Some(RowFunction::named(&name).expect("there is one for every source and type"))
}

/// Returns the numbers that a block's bytes are normalized by, if normalization is the only op and there is a
/// row function for it: for pixels of three channels or for planes, and the output's type. Loops with wider vectors
/// normalize faster themselves.
fn normalized(spec: BodySpec<'_>) -> Option<Vec<Numbers>> {
    let &[FusedOp::Value { leaf, part, .. }] = spec.links else { return None };
    let numbers = spec.leaves.get(leaf)?.kind.pixel(part)?.normalizes.clone()?;
    if spec.block.source != DType::U8 || spec.bits != VectorBits::V128 {
        return None;
    }
    let is_half = matches!(spec.block.dtype, DType::F16 | DType::Bf16);
    let has_row_function =
        spec.block.layout == Layout::ChannelsFirst || matches!(spec.block.channels, 1 | 3);
    (is_half && has_row_function).then_some(numbers)
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
        let channels = spec.block.channels_after(spec.leaves, spec.links);
        Self { channels, source: spec.block.source, dtype, planar, stored }
    }

    /// Returns what the loop of a pass with wider vectors stores.
    pub(super) fn pass_store(&self, spec: BodySpec<'_>) -> Result<PassStore, Fallback> {
        let by_row = self.by_row();
        match (self.dtype, self.has_planes()) {
            (DType::F16, true) if !spec.block.streams => Ok(PassStore::Halves),
            // The row function rounds faster than vectors of 256 bits.
            (DType::Bf16, true) if !spec.block.streams && spec.bits == VectorBits::V512 => {
                Ok(PassStore::Bf16Planes)
            }
            _ if self.passes_bytes_on(spec.links) => Err(Fallback::Bytes),
            (DType::U8, _) if by_row => Err(Fallback::Bytes),
            (DType::U8, true) => Ok(PassStore::BytePlanes),
            (DType::U8, false) => Ok(PassStore::Bytes),
            (_, true) => Ok(PassStore::Floats { by_row }),
            (_, false) => Ok(PassStore::FloatPixels { by_row }),
        }
    }

    /// Returns true if groups are stored into a row first.
    fn by_row(&self) -> bool {
        !matches!(self.stored, StoreFormat::Output)
    }

    /// Returns true if each channel is stored by itself. One channel is a plane in both layouts.
    fn has_planes(&self) -> bool {
        self.planar || self.channels == 1
    }

    /// Returns the bytes of an element as groups store it.
    fn element_bytes(&self) -> i64 {
        match self.stored {
            StoreFormat::Output => self.dtype.bytes() as i64,
            StoreFormat::Floats => 4,
            StoreFormat::Bytes(_) => 1,
        }
    }

    /// Returns the bytes of a pixel as groups store it; within one plane if there are planes.
    fn pixel_bytes(&self) -> i64 {
        let channels = if self.has_planes() { 1 } else { self.channels as i64 };
        channels * self.element_bytes()
    }

    /// Returns what the loop stores that runs in place of the pass that stores rows which a row function streams, where
    /// the output is aligned.
    pub(super) fn streamed_store(&self, spec: BodySpec<'_>) -> Option<PassStore> {
        let is_direct = spec.block.streams && spec.block.rows.is_none();
        let is_floats = self.dtype == DType::F32 && self.has_planes();
        (is_direct && is_floats).then_some(PassStore::Streamed)
    }

    /// Returns the channels of the output.
    pub(super) fn channels(&self) -> usize {
        self.channels
    }

    /// Returns the address that row `y`'s groups are stored to.
    pub(super) fn row_start(&self, e: &mut BlockCode<'_, '_>, y: Value) -> Value {
        if self.by_row() {
            return e.header(HeaderWord::FloatRow);
        }
        output_row(e, y, self.pixel_bytes())
    }

    /// Returns the bytes between the planes that groups are stored to.
    fn plane(&self, e: &mut BlockCode<'_, '_>) -> Value {
        if self.by_row() {
            let columns = output_columns(e, 0);
            return e.times(columns, self.element_bytes());
        }
        e.header(HeaderWord::Plane)
    }

    pub(super) fn group(
        &self,
        e: &mut BlockCode<'_, '_>,
        row: Value,
        x: Value,
        halves: Halves<'_>,
    ) {
        let offset = e.times(x, self.pixel_bytes());
        let to = e.plus(row, offset);
        match (self.dtype, self.has_planes()) {
            (DType::U8, true) => self.bytes_planar(e, to, halves),
            (DType::U8, false) => bytes_interleaved(e, self.channels, to, halves),
            (_, true) => self.floats_planar(e, to, halves),
            (_, false) => floats_interleaved(e, to, halves),
        }
    }

    /// Returns true if groups store the source's own bytes, shuffled.
    pub(super) fn passes_bytes_on(&self, links: &[FusedOp]) -> bool {
        match self.stored {
            StoreFormat::Output => {
                self.dtype == DType::U8 && self.source == DType::U8 && links.is_empty()
            }
            StoreFormat::Floats => false,
            StoreFormat::Bytes(_) => true,
        }
    }

    /// Copies a group's bytes.
    pub(super) fn bytes(&self, e: &mut BlockCode<'_, '_>, row: Value, position: GroupPosition) {
        let offset = e.times(position.x, self.pixel_bytes());
        let to = e.plus(row, offset);
        let address = e.pass_word(HEADER, PassWord::Shuffles);
        let first = if self.has_planes() { shuffles::PLANAR } else { shuffles::INTERLEAVED };
        if self.channels != 3 {
            self.halves_of_bytes(e, to, address, first, position);
            return;
        }
        let loads = position.from.map(|from| e.load(I8X16, from, 0));
        let [low, high] = [0, 2].map(|vector| {
            let masks = [0, 16].map(|mask| e.load_mask(address, first + 16 * vector + mask));
            let parts = [e.pshufb(loads[0], masks[0]), e.pshufb(loads[1], masks[1])];
            e.builder.ins().bor(parts[0], parts[1])
        });
        if self.planar {
            self.store_planes(e, to, &[low, high]);
        } else {
            e.store(low, to, 0);
            e.store(high, to, 8);
        }
    }

    /// Copies a group's bytes, half by half: four pixels of 1, 2 or 4 channels fit in a vector.
    fn halves_of_bytes(
        &self,
        e: &mut BlockCode<'_, '_>,
        to: Value,
        shuffles: Value,
        first: i32,
        position: GroupPosition,
    ) {
        let mask = e.load_mask(shuffles, first);
        for (half, from) in (0..).zip(position.from) {
            let bytes = load_bytes(e, self.channels, from);
            let bytes = e.pshufb(bytes, mask);
            if self.has_planes() {
                let words = e.cast(I32X4, bytes);
                let mut to = to;
                for c in 0..self.channels {
                    if c > 0 {
                        let plane = self.plane(e);
                        to = e.plus(to, plane);
                    }
                    let four = e.builder.ins().extractlane(words, c as u8);
                    e.store(four, to, 4 * half);
                }
            } else if self.channels == 2 {
                let words = e.cast(I64X2, bytes);
                let eight = e.builder.ins().extractlane(words, 0);
                e.store(eight, to, 8 * half);
            } else {
                e.store(bytes, to, 16 * half);
            }
        }
    }

    /// Calls the row function, if groups were stored to a row.
    pub(super) fn row_end(&self, e: &mut BlockCode<'_, '_>, y: Value, imports: &Imports) {
        let Some(store) = imports.store else { return };
        let element = self.dtype.bytes() as i64;
        let from = e.header(HeaderWord::FloatRow);
        let columns = output_columns(e, 0);
        let numbers = self.numbers(e);
        if !self.has_planes() {
            let channels = self.channels as i64;
            let count = e.times(columns, channels);
            let to = output_row(e, y, channels * element);
            e.call(store, &[from, to, count, numbers]);
            return;
        }
        let (from_plane, to_plane) = (self.plane(e), e.header(HeaderWord::Plane));
        let (mut from, mut to) = (from, output_row(e, y, element));
        for channel in 0..self.channels {
            let numbers = e.offset(numbers, (channel * size_of::<Numbers>()) as i64);
            e.call(store, &[from, to, columns, numbers]);
            (from, to) = (e.plus(from, from_plane), e.plus(to, to_plane));
        }
    }

    /// Returns the address of the numbers that the row function normalizes by; 0 if it does not
    /// normalize.
    fn numbers(&self, e: &mut BlockCode<'_, '_>) -> Value {
        let StoreFormat::Bytes(numbers) = &self.stored else { return e.int(0) };
        let bytes = |channel: &Numbers| {
            let [m1, s1, s0, bias] = channel.map(f32::to_ne_bytes);
            [m1, s1, s0, bias].concat().try_into().expect("four floats are sixteen bytes")
        };
        let bytes: Vec<[u8; 16]> = numbers.iter().map(bytes).collect();
        e.constants_at(&bytes)
    }

    fn floats_planar(&self, e: &mut BlockCode<'_, '_>, to: Value, halves: Halves<'_>) {
        let mut planes = vec![to];
        if self.channels > 1 {
            let plane = self.plane(e);
            for c in 1..self.channels {
                planes.push(e.plus(planes[c - 1], plane));
            }
        }
        for half in 0..2 {
            let pixels = halves(e, half);
            for (pixel, to) in pixels.into_iter().zip(&planes) {
                e.store(pixel, *to, 16 * half as i32);
            }
        }
    }

    fn bytes_planar(&self, e: &mut BlockCode<'_, '_>, to: Value, halves: Halves<'_>) {
        let pairs = byte_pairs(e, halves);
        self.store_planes(e, to, &pairs);
    }

    /// Stores planes from vectors of eight bytes of one channel, then eight bytes of the next.
    fn store_planes(&self, e: &mut BlockCode<'_, '_>, to: Value, pairs: &[Value]) {
        let plane = (self.channels > 1).then(|| self.plane(e));
        let pairs: Vec<Value> = pairs.iter().map(|pair| e.cast(I64X2, *pair)).collect();
        let mut to = to;
        for c in 0..self.channels {
            let eight = e.builder.ins().extractlane(pairs[c / 2], (c % 2) as u8);
            e.store(eight, to, 0);
            if let Some(plane) = plane {
                to = e.plus(to, plane);
            }
        }
    }
}

/// Returns vectors of eight bytes of one channel, then eight bytes of the next: clamped to 0..=255 and rounded
/// half to even. The last channel of an odd number takes both places.
fn byte_pairs(e: &mut BlockCode<'_, '_>, halves: Halves<'_>) -> Vec<Value> {
    let [low, high] = [0, 1].map(|half| {
        let pixels = halves(e, half).into_iter();
        let words = |v| {
            let v = e.level(v);
            e.i32_of(v)
        };
        pixels.map(words).collect::<Vec<Value>>()
    });
    let narrow = |(low, high): (&Value, &Value)| {
        let words = e.builder.ins().snarrow(*low, *high);
        debug_assert_eq!(e.builder.func.dfg.value_type(words), I16X8);
        words
    };
    let words: Vec<Value> = low.iter().zip(&high).map(narrow).collect();
    words.chunks(2).map(|pair| e.builder.ins().unarrow(pair[0], pair[pair.len() - 1])).collect()
}

/// Stores the bytes of eight pixels, channels last. The 24 bytes of RGB pixels are stored as the first 16 and
/// the last 16.
pub(super) fn bytes_interleaved(
    e: &mut BlockCode<'_, '_>,
    channels: usize,
    to: Value,
    halves: Halves<'_>,
) {
    let pairs = byte_pairs(e, halves);
    let first = pairs[0];
    let last = pairs[pairs.len() - 1];
    // The place of a pixel's channel: eight bytes of each channel follow each other in both vectors.
    let byte = |i: usize| (i / channels + 8 * (i % channels)) as u8;
    match channels {
        1 => {
            let words = e.cast(I64X2, first);
            let eight = e.builder.ins().extractlane(words, 0);
            e.store(eight, to, 0);
        }
        2 => {
            let all = e.shuffle(first, first, std::array::from_fn(byte));
            e.store(all, to, 0);
        }
        _ => {
            let second = 8 * (channels - 2);
            let low = e.shuffle(first, last, std::array::from_fn(byte));
            let high = e.shuffle(first, last, std::array::from_fn(|i| byte(second + i)));
            debug_assert_eq!(e.builder.func.dfg.value_type(low), I8X16);
            e.store(low, to, 0);
            e.store(high, to, second as i32);
        }
    }
}

/// Stores the values of eight pixels, channels last: of RGB pixels, `r0 g0 b0 r1 | g1 b1 r2 g2 | b2 r3 g3 b3`,
/// twice.
fn floats_interleaved(e: &mut BlockCode<'_, '_>, to: Value, halves: Halves<'_>) {
    for half in 0..2 {
        let pixels = halves(e, half);
        let vectors = match pixels[..] {
            [r, g, b] => vec![
                pick(e, [r, g, b], [(0, 0), (1, 0), (2, 0), (0, 1)]),
                pick(e, [r, g, b], [(1, 1), (2, 1), (0, 2), (1, 2)]),
                pick(e, [r, g, b], [(2, 2), (0, 3), (1, 3), (2, 3)]),
            ],
            [a, b] => in_turn(e, a, b).to_vec(),
            [a, b, c, d] => {
                let (ab, cd) = (in_turn(e, a, b), in_turn(e, c, d));
                let quads = [(0, 0), (0, 8), (1, 0), (1, 8)];
                quads.map(|(from, first)| joined(e, ab[from], cd[from], first)).to_vec()
            }
            _ => pixels,
        };
        let bytes = 16 * vectors.len() * half;
        for (k, vector) in vectors.into_iter().enumerate() {
            e.store(vector, to, (bytes + 16 * k) as i32);
        }
    }
}

/// Returns `a0 b0 a1 b1` and `a2 b2 a3 b3`.
fn in_turn(e: &mut BlockCode<'_, '_>, a: Value, b: Value) -> [Value; 2] {
    [0, 8].map(|first| {
        let lane = |i: usize| first + 4 * (i / 8) + i % 4 + if i % 8 < 4 { 0 } else { 16 };
        e.shuffle(a, b, std::array::from_fn(|i| lane(i) as u8))
    })
}

/// Returns eight bytes of `a` and eight of `b`, both from byte `first` on.
fn joined(e: &mut BlockCode<'_, '_>, a: Value, b: Value, first: usize) -> Value {
    let byte = |i: usize| first + i % 8 + if i < 8 { 0 } else { 16 };
    e.shuffle(a, b, std::array::from_fn(|i| byte(i) as u8))
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
