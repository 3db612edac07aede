//! The parameter block of a sample: everything that compiled code reads about the sample.
//!
//! ```text
//! words of 8 bytes                                   offset
//! ┌──────────────────────────────────────────────┐
//! │ header: output, order, resize tables         │   0
//! │ pass 0: the stored image                     │   HEADER
//! │   its rectangles and maps, 16 bytes each     │
//! │ pass 1..: one for each reduction             │   ...
//! │ addresses of tables, 16 bytes each           │   ...
//! │ op parameters, 16 bytes each: f32 x 4        │   ...
//! │ sums of greys, if there are reductions       │   ...
//! └──────────────────────────────────────────────┘
//! ```
//!
//! Compiled code loops over an array of parameter blocks. Only [`Invocation`](super::invocation::Invocation)
//! fills them, and it is responsible for every address it writes there.

use super::vector_bits::VectorBits;
use crate::plan::Block;
use std::ops::Range;

/// The words of the header, in order.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(crate) enum HeaderWord {
    /// The address of the output.
    Out,
    /// The bytes from one plane of the output to the next.
    Plane,
    /// 1 if this sample's rows are produced by a resize or a filter, else 0.
    ProducesRows,
    /// The address of a row of `f32`, for outputs of 16 bits.
    FloatRow,
    /// The address of the first pixel to resize.
    Source,
    /// The bytes from one row of the resize's source to the next.
    Stride,
    /// The bytes of one row of the resize's source less 16: the offset of the last vector.
    LastVector,
    /// The address of a table: the first source row of each output row, `i32`.
    RowFirst,
    /// The address of the weights of each output row, `i16`.
    RowWeights,
    /// The number of weights of an output row.
    RowTaps,
    /// The address of a table: the first source column of each output column, in bytes of `wide`, `i32`.
    ColumnFirst,
    /// The address of the weights of each output column: pairs of `i16`, each pair four times.
    ColumnWeights,
    /// The number of pairs of weights of an output column.
    ColumnPairs,
    /// The number of output columns, rounded up to a multiple of 4.
    Columns,
    /// The address of a row of `i16`: a row whose height is resized and whose width is not yet; of one channel, four such
    /// rows as pixels of four channels.
    Wide,
    /// The address of the produced rows.
    Resized,
    /// The bytes from one produced row to the next; 0 if all rows share one buffer.
    ResizedStride,
    /// The number of produced rows, if all are stored.
    ResizedRows,
    /// The first row of the resize tables that the stored image uses.
    FirstRow,
    /// 1 or -1: the step from one row of the resize tables to the next.
    RowStep,
    /// The address of the state of the row function that produces rows.
    Maker,
    /// The address of the state of the row functions that count levels and compute tables.
    Levels,
    /// The address of a row of bytes, for counting levels.
    ByteRow,
    /// The address of the last group of resized gray rows.
    GrayRows,
}

/// Number of gray rows that a resize makes together.
pub(crate) const GRAY_ROWS: usize = 4;

/// The bytes before these rows: the number of the group that they are, which is negative if there is none.
pub(crate) const GRAY_GROUP: usize = 16;

/// The bytes of the header: a multiple of 16.
pub(crate) const HEADER: i32 = 8 * (HeaderWord::GrayRows as i32 + 1);
const _: () = assert!(HEADER % 16 == 0);

/// The words of a pass, in order.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(crate) enum PassWord {
    /// The address that the first four pixels of a group are loaded from.
    First,
    /// The address that the last four pixels of a group are loaded from.
    Last,
    /// The bytes from one row to the next.
    RowStep,
    /// The bytes from one pixel to the next: the channels, negative if the image is mirrored.
    PixelStep,
    /// The number of rows.
    Rows,
    /// The number of columns less 8: the column where the last group starts.
    LastGroup,
    /// The address of the shuffles of a group.
    Shuffles,
    /// 1 if the pass runs, else 0: a reduction whose result no op uses is skipped.
    Runs,
    /// The address of the masks of a row that is not in view: a word of zeros for each group of 16 pixels.
    NoMasks,
    /// The bytes from there to the masks of a row in view: the bytes that are loaded of each group.
    ToMasks,
    /// The first row in view.
    FirstShown,
    /// The number of rows in view.
    ShownRows,
}

/// The bytes of a pass, without its rectangles and maps.
pub(crate) const PASS: i32 = 8 * (PassWord::ShownRows as i32 + 1);

/// The bytes of a rectangle, `x0, x1, y0, y1` as `i32`, and of a map: sign and offset of the columns,
/// then of the rows.
pub(crate) const REGION: i32 = 16;

/// The data at [`PassWord::Shuffles`], by offset: the shuffles of a group's two loads, and masks.
pub(crate) mod shuffles {
    use fuseloop_ops::internals::PixelFormat;

    /// The shuffles that unpack channels to `i32`. Those of RGB pixels are six: of the first four pixels,
    /// then of the last four. Otherwise the loads do not overlap, and both use the same.
    const UNPACK: i32 = 0;
    /// For RGB pixels, four shuffles that copy bytes, channels last: from both loads for the output's bytes
    /// 0..16, then from both loads for its bytes 8..24. Otherwise one, for either load.
    pub(crate) const INTERLEAVED: i32 = UNPACK + 6 * 16;
    /// For RGB pixels, four shuffles that copy bytes, channels first: from both loads for red and green, then
    /// for blue. Otherwise one, for either load: four bytes of each channel.
    pub(crate) const PLANAR: i32 = INTERLEAVED + 4 * 16;
    /// Eight lanes of all ones after eight lanes of zeros: a mask of a group's pixels. A load that
    /// starts `r` lanes earlier masks out the first `r` pixels.
    pub(crate) const ALL: i32 = PLANAR + 6 * 16;
    /// The bytes of all shuffles and masks.
    pub(crate) const BYTES: usize = ALL as usize + 32;

    /// The shuffles of elements of more than a byte: of each of up to four loads for each of up to four
    /// channels, or only of the first if a channel is shuffled once. Both halves of a group use the same.
    pub(crate) const WIDE_BYTES: usize = WIDE_ALL as usize + 32;

    /// The counterpart of [`ALL`] for elements of more than a byte.
    pub(crate) const WIDE_ALL: i32 = (16 + 2) * 16;

    /// Returns the offset of the shuffle that takes channel `c` of four pixels from load number `load` of their
    /// bytes.
    pub(crate) const fn wide(load: usize, c: usize) -> i32 {
        16 * (4 * load + c) as i32
    }

    /// Returns the load that has an element of four pixels, and the element's place in its bytes, if several have
    /// it, then of the first. Elements have `bytes` bytes: see [`loads`].
    pub(crate) const fn place(channels: usize, bytes: usize, element: usize) -> (usize, usize) {
        let of_four = 4 * channels * bytes;
        let load = bytes * element / 16;
        let begins =
            if of_four >= 16 && 16 * load > of_four - 16 { of_four - 16 } else { 16 * load };
        (load, bytes * element - begins)
    }

    /// Returns the load that each byte of a blend of the loads is taken from, so that one shuffle of it yields
    /// channel `c` of four pixels; `None` if two loads have elements of the channel in the same place.
    pub(crate) const fn blend(channels: usize, bytes: usize, c: usize) -> Option<[usize; 16]> {
        let (mut from, mut is_taken) = ([0; 16], [false; 16]);
        let mut pixel = 0;
        while pixel < 4 {
            let (load, first) = place(channels, bytes, channels * pixel + c);
            let mut at = first;
            while at < first + bytes {
                if is_taken[at] {
                    return None;
                }
                (from[at], is_taken[at]) = (load, true);
                at += 1;
            }
            pixel += 1;
        }
        Some(from)
    }

    /// Returns the offset of the mask of a group's pixels.
    pub(crate) const fn all(format: PixelFormat) -> i32 {
        if format.is_bytes() { ALL } else { WIDE_ALL }
    }

    /// Returns the offsets of the loads of the bytes of four pixels, from the first byte; all but a lone one
    /// are of 16 bytes. Loads overlap where the bytes are not a multiple of 16.
    pub(crate) fn loads(format: PixelFormat) -> impl Iterator<Item = i32> {
        let bytes = 4 * format.pixel_bytes();
        (0..bytes.div_ceil(16)).map(move |load| (16 * load).min(bytes.saturating_sub(16)) as i32)
    }

    /// Returns the offset of the shuffle that unpacks channel `c` of a group's first or last four pixels.
    pub(crate) const fn unpack(channels: usize, half: usize, c: usize) -> i32 {
        let first = if channels == 3 { 3 * half } else { 0 };
        UNPACK + 16 * (first + c) as i32
    }
}

/// The bytes that a loop with wider vectors stores sums of greys to: the widest vector.
const SUMS: i32 = 64;

/// The layout of the parameter blocks of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParamLayout {
    regions: i32,
    maps: i32,
    passes: i32,
    tables: i32,
    param_count: i32,
    sums: i32,
}

impl ParamLayout {
    /// The layout for a loop body of `block` with `readings` reductions, which may have vectors of `bits`.
    pub(crate) fn new(block: &Block, readings: usize, bits: VectorBits) -> Self {
        Self {
            regions: block.regions.len() as i32,
            maps: block.position_ops.len() as i32,
            passes: 1 + readings as i32,
            tables: block.tables as i32,
            param_count: block.params.len() as i32,
            sums: if readings == 0 || bits == VectorBits::V128 { 0 } else { SUMS },
        }
    }

    /// Returns the offset of pass `index`.
    pub(crate) fn pass(self, index: usize) -> i32 {
        HEADER + index as i32 * (PASS + (self.regions + self.maps) * REGION)
    }

    /// Returns the offset of a rectangle of a pass.
    pub(crate) fn region(self, pass: usize, region: usize) -> i32 {
        self.pass(pass) + PASS + region as i32 * REGION
    }

    /// Returns the offset of a map of a pass.
    pub(crate) fn map(self, pass: usize, map: usize) -> i32 {
        self.region(pass, self.regions as usize + map)
    }

    /// Returns the offset of a table's address.
    pub(crate) fn table(self, table: usize) -> i32 {
        self.pass(self.passes as usize) + 16 * table as i32
    }

    /// Returns the offset of the block's first op parameter.
    pub(crate) fn params(self) -> i32 {
        self.table(self.tables as usize)
    }

    /// Returns the byte range of the op parameters.
    pub(crate) fn all_params(self) -> Range<i32> {
        self.params()..self.params() + 16 * self.param_count
    }

    /// Returns the offset of the sums of greys that a loop of wider vectors stores for a row.
    pub(crate) fn sums(self) -> i32 {
        self.params() + 16 * self.param_count
    }

    /// Returns the bytes of a parameter block: a multiple of 16.
    pub(crate) fn bytes(self) -> usize {
        (self.sums() + self.sums) as usize
    }
}

/// The memory of the parameter blocks of one layout, aligned to 16 bytes. The last of them is written and read.
#[derive(Debug, Default)]
pub(crate) struct ParamBlocks {
    words: Vec<u128>,
    /// The index of the first word of the last block.
    last: usize,
    count: u64,
}

impl ParamBlocks {
    /// Forgets all blocks.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.count = 0;
    }

    /// Forgets all blocks and adds one of zeros.
    pub(crate) fn reset(&mut self, layout: ParamLayout) {
        self.clear();
        self.push(layout);
    }

    /// Adds a block of zeros. All blocks must have the same layout.
    pub(crate) fn push(&mut self, layout: ParamLayout) {
        self.last = self.words.len();
        self.words.resize(self.last + layout.bytes() / 16, 0);
        self.count += 1;
    }

    /// Returns the number of blocks.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns 16 bytes of the last block.
    fn word(&mut self, offset: i32) -> &mut u128 {
        &mut self.words[self.last..][offset as usize / 16]
    }

    /// Writes a word at a byte offset that is a multiple of 8.
    pub(crate) fn set(&mut self, offset: i32, word: u64) {
        let shift = if offset % 16 != 0 { 64 } else { 0 };
        let both = self.word(offset);
        let other_half = *both & !(u128::from(u64::MAX) << shift);
        *both = other_half | (u128::from(word) << shift);
    }

    /// Returns the word at a byte offset that is a multiple of 8.
    pub(crate) fn get(&self, offset: i32) -> u64 {
        let shift = if offset % 16 != 0 { 64 } else { 0 };
        (self.words[self.last..][offset as usize / 16] >> shift) as u64
    }

    /// Writes a number into all four lanes of an op parameter.
    pub(crate) fn set_param(&mut self, offset: i32, number: f32) {
        let lane = u128::from(number.to_bits());
        *self.word(offset) = lane | lane << 32 | lane << 64 | lane << 96;
    }

    /// Writes the four numbers of a rectangle or a map.
    pub(crate) fn set_region(&mut self, offset: i32, numbers: [i32; 4]) {
        let lanes = numbers.map(|n| u128::from(n as u32));
        *self.word(offset) = lanes[0] | lanes[1] << 32 | lanes[2] << 64 | lanes[3] << 96;
    }

    /// Returns all blocks.
    pub(crate) fn words(&mut self) -> &mut [u128] {
        &mut self.words
    }

    /// Returns the address of the first byte.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }
}
