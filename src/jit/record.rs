//! The record of one sample: all that compiled code reads about it.
//!
//! ```text
//! words of 8 bytes                                   offset
//! ┌──────────────────────────────────────────────┐
//! │ header: output, order, resize tables         │   0
//! │ pass 0: the stored picture                   │   HEADER
//! │   its regions and maps, 16 bytes each        │
//! │ pass 1..: one for each reading               │   ...
//! │ addresses of tables, 16 bytes each           │   ...
//! │ slots, 16 bytes each: a number four times    │   ...
//! └──────────────────────────────────────────────┘
//! ```
//!
//! Compiled code loops over an array of these. Whoever fills one vouches for every address in it:
//! see [`Shot`](super::compose::Shot), the only place that does.

use crate::plan::Block;
use std::ops::Range;

/// Words of the header, by place.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(crate) enum Header {
    /// Address of the output.
    Out,
    /// Bytes from one plane of the output to the next.
    Plane,
    /// Whether this sample has rows made for it.
    MakesRows,
    /// Address of a row of `f32`, for outputs of 16 bits.
    FloatRow,
    /// Address of the first pixel to resize.
    Source,
    /// Bytes from one of its rows to the next.
    Stride,
    /// Bytes of one of its rows less 16: where the last vector begins.
    LastVector,
    /// Address of the first source row of each output row, `i32`.
    RowFirst,
    /// Address of the weights of each output row, `i16`.
    RowWeights,
    /// Weights of an output row.
    RowTaps,
    /// Address of the first source column of each output column, in bytes of `wide`, `i32`.
    ColumnFirst,
    /// Address of the weights of each output column: pairs of `i16`, each pair four times.
    ColumnWeights,
    /// Pairs of weights of an output column.
    ColumnPairs,
    /// Output columns, rounded up to a multiple of 4.
    Columns,
    /// Address of a row of `i16`: a resized row before its columns are.
    Wide,
    /// Address of the resized rows.
    Resized,
    /// Bytes from one resized row to the next; 0 if all share one.
    ResizedStride,
    /// Resized rows, if all are kept.
    ResizedRows,
    /// First row of the tables to resize for the stored picture.
    FirstRow,
    /// 1 or -1: where the next one is.
    RowStep,
    /// Address of the state of the row function that makes rows.
    Maker,
    /// Address of the state of the row functions that count levels and make tables.
    Levels,
    /// Address of a row of bytes, for counting levels.
    ByteRow,
    /// Keeps the header a multiple of 16 bytes.
    Padding,
}

/// Bytes of the header.
pub(crate) const HEADER: i32 = 8 * (Header::Padding as i32 + 1);

/// Words of a pass, by place.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(crate) enum Pass {
    /// Address that the first four pixels of a group are loaded from.
    First,
    /// Address that the last four are.
    Last,
    /// Bytes from one row to the next.
    RowStep,
    /// Bytes from one pixel to the next: 3 or -3.
    PixelStep,
    /// Rows.
    Rows,
    /// Columns less 8: where the last group begins.
    LastGroup,
    /// Address of the shuffles of a group.
    Shuffles,
    /// Whether the pass runs: a reading that nothing needs is skipped.
    Runs,
}

/// Bytes of a pass, without its regions and maps.
pub(crate) const PASS: i32 = 8 * (Pass::Runs as i32 + 1);

/// Bytes of a region: `x0, x1, y0, y1` as `i32`; and of a map: the sign and offset of columns, then
/// of rows.
pub(crate) const REGION: i32 = 16;

/// What lies at [`Pass::Shuffles`], by offset: shuffles of a group's two loads, and masks.
pub(crate) mod shuffles {
    /// Six that unpack channels of `i32`: of the first four pixels, then of the last.
    pub(crate) const UNPACK: i32 = 0;
    /// Four that pass bytes on, channels last: of both loads for the output's bytes 0..16, then of
    /// both for its bytes 8..24.
    pub(crate) const INTERLEAVED: i32 = UNPACK + 6 * 16;
    /// Four that pass bytes on, channels first: of both loads for red and green, then for blue.
    pub(crate) const PLANAR: i32 = INTERLEAVED + 4 * 16;
    /// Eight lanes of all ones, after eight of zeros: a mask of a group's pixels. Begun `r` lanes
    /// earlier it leaves the first `r` out.
    pub(crate) const ALL: i32 = PLANAR + 6 * 16;
    /// All of them.
    pub(crate) const BYTES: usize = ALL as usize + 32;
}

/// Where things lie in the records of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    regions: i32,
    maps: i32,
    passes: i32,
    tables: i32,
    slots: i32,
}

impl Layout {
    /// The layout for a loop body of `block` with so many readings.
    pub(crate) fn new(block: &Block, readings: usize) -> Self {
        Self {
            regions: block.regions.len() as i32,
            maps: block.placed.len() as i32,
            passes: 1 + readings as i32,
            tables: block.tables as i32,
            slots: block.slots.len() as i32,
        }
    }

    /// Offset of pass `index`.
    pub(crate) fn pass(self, index: usize) -> i32 {
        HEADER + index as i32 * (PASS + (self.regions + self.maps) * REGION)
    }

    /// Offset of a region of a pass.
    pub(crate) fn region(self, pass: usize, region: usize) -> i32 {
        self.pass(pass) + PASS + region as i32 * REGION
    }

    /// Offset of a map of a pass.
    pub(crate) fn map(self, pass: usize, map: usize) -> i32 {
        self.region(pass, self.regions as usize + map)
    }

    /// Offset of a table's address.
    pub(crate) fn table(self, table: usize) -> i32 {
        self.pass(self.passes as usize) + 16 * table as i32
    }

    /// Offset of the block's first slot.
    pub(crate) fn slots(self) -> i32 {
        self.table(self.tables as usize)
    }

    /// Where slots lie.
    pub(crate) fn all_slots(self) -> Range<i32> {
        self.slots()..self.slots() + 16 * self.slots
    }

    /// Bytes of a record: a multiple of 16.
    pub(crate) fn bytes(self) -> usize {
        (self.slots() + 16 * self.slots) as usize
    }
}

/// Memory for records: aligned to 16 bytes.
#[derive(Debug, Default)]
pub(crate) struct Record {
    words: Vec<u128>,
}

impl Record {
    /// A zeroed record of `layout`, in the memory of the last.
    pub(crate) fn reset(&mut self, layout: Layout) {
        self.words.clear();
        self.words.resize(layout.bytes() / 16, 0);
    }

    /// Writes a word at a byte offset that is a multiple of 8.
    pub(crate) fn set(&mut self, offset: i32, word: u64) {
        let (place, high) = (offset as usize / 16, offset % 16 != 0);
        let shift = if high { 64 } else { 0 };
        let kept = self.words[place] & !(u128::from(u64::MAX) << shift);
        self.words[place] = kept | (u128::from(word) << shift);
    }

    /// The word at a byte offset that is a multiple of 8.
    pub(crate) fn get(&self, offset: i32) -> u64 {
        let shift = if offset % 16 != 0 { 64 } else { 0 };
        (self.words[offset as usize / 16] >> shift) as u64
    }

    /// Writes a number into all four lanes of a slot.
    pub(crate) fn set_slot(&mut self, offset: i32, number: f32) {
        let lane = u128::from(number.to_bits());
        self.words[offset as usize / 16] = lane | lane << 32 | lane << 64 | lane << 96;
    }

    /// Writes a region's four numbers.
    pub(crate) fn set_region(&mut self, offset: i32, numbers: [i32; 4]) {
        let lanes = numbers.map(|n| u128::from(n as u32));
        self.words[offset as usize / 16] =
            lanes[0] | lanes[1] << 32 | lanes[2] << 64 | lanes[3] << 96;
    }

    /// All of it.
    pub(crate) fn words(&mut self) -> &mut [u128] {
        &mut self.words
    }

    /// The record's first byte.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }
}
