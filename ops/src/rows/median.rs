//! Median: the middle of the values in a square.
//!
//! ```text
//! out[y, x] = the middle one of the n*n sorted values in[edge(y + i - floor(n/2)), edge(x + j - floor(n/2))]
//! ```
//!
//! `edge` is [`PadMode::Edge`]; n is odd. OpenCV's `medianBlur`, to the bit.
//!
//! | | |
//! |--------|----------------------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart                    |
//! | output | as the input                                                         |
//! | random | nothing                                                              |
//! | cost   | a value: of 3x3 pixels 30 comparisons of bytes, of more `8 n*n` and as many additions |
//!
//! [`MedianRows`] sorts the columns of squares of 3x3 pixels. In larger squares it finds the median bit by bit, from the
//! highest: a bit is set if at least half of the values are not below the number that has it. So no value is moved, and a
//! vector computes as many medians as it has bytes.

use super::grow_kept;
use super::pad::PadMode;
use crate::memory::NoMemory;
use crate::shape::ImageView;
use std::ops::Range;

/// The longest side: counts of values are bytes.
pub(crate) const LONGEST: u32 = 15;

/// The number of medians of 3x3 pixels that are computed together.
const BLOCK: usize = 32;

/// The number of medians of more pixels whose bits are found together.
const STRIP: usize = 1024;

/// Returns the source pixel of index `i` of `side` for a square around pixel `at` of an axis.
pub(super) fn source(at: u32, i: usize, side: usize, length: u32) -> u32 {
    PadMode::Edge.index(i64::from(at) + i as i64 - (side / 2) as i64, length)
}

pub(super) fn eval(input: &ImageView<'_>, side: u32) -> Vec<u8> {
    let (size, channels, side) = (input.size(), input.channels(), side as usize);
    let mut pixels = Vec::with_capacity(size.pixels() as usize * channels);
    let mut values = vec![];
    for y in 0..size.height {
        for x in 0..size.width {
            for c in 0..channels {
                values.clear();
                for row in (0..side).map(|i| input.row(source(y, i, side, size.height))) {
                    let columns = (0..side).map(|j| source(x, j, side, size.width) as usize);
                    values.extend(columns.map(|x| row[x * channels + c]));
                }
                values.sort_unstable();
                pixels.push(values[values.len() / 2]);
            }
        }
    }
    pixels
}

/// Adds 1 to a count where a value is not below that of `larger`.
#[inline(always)]
fn count(values: &[u8], larger: &[u8], counts: &mut [u8]) {
    for ((count, value), larger) in counts.iter_mut().zip(values).zip(larger) {
        let mask = if value >= larger { u8::MAX } else { 0 };
        *count = count.wrapping_sub(mask);
    }
}

/// Returns the median of three.
#[inline(always)]
fn middle([a, b, c]: [u8; 3]) -> u8 {
    a.min(b).max(a.max(b).min(c))
}

/// Writes the medians of squares of 3x3: the middle one of the largest of the columns' least values, the middle one of
/// their middle values and the least of their largest values (Smith, Implementing median filters in XC4000E FPGAs, 1996).
#[inline(always)]
fn of_nine<const C: usize>(rows: [&[u8]; 3], out: &mut [u8]) {
    for (number, out) in out.chunks_mut(BLOCK).enumerate() {
        let mut sorted = [[[0; BLOCK]; 3]; 3];
        for (j, sorted) in sorted.iter_mut().enumerate() {
            let values = rows.map(|row| row[number * BLOCK + j * C..].first_chunk::<BLOCK>());
            let [a, b, c] = values.map(|v| v.expect("a row is a block longer than its pixels"));
            for i in 0..BLOCK {
                let (low, high) = (a[i].min(b[i]), a[i].max(b[i]));
                let (middle, most) = (high.min(c[i]), high.max(c[i]));
                sorted[0][i] = low.min(middle);
                sorted[1][i] = low.max(middle);
                sorted[2][i] = most;
            }
        }
        let [left, here, right] = &sorted;
        let mut medians = [0; BLOCK];
        for i in 0..BLOCK {
            let least = left[0][i].max(here[0][i]).max(right[0][i]);
            let middles = middle([left[1][i], here[1][i], right[1][i]]);
            let most = left[2][i].min(here[2][i]).min(right[2][i]);
            medians[i] = middle([least, middles, most]);
        }
        out.copy_from_slice(&medians[..out.len()]);
    }
}

/// A source row with the pixels before and behind it that a square reads, and a block more.
#[derive(Clone, Debug, Default)]
pub(super) struct PaddedRow {
    /// The source row; `None` before the row is first filled.
    row: Option<u32>,
    bytes: Vec<u8>,
}

/// The rows of one image after a median filter.
#[derive(Debug)]
pub(super) struct MedianRows<'a> {
    input: ImageView<'a>,
    columns: Range<u32>,
    side: usize,
    /// The row of a source row is at its index modulo the number of rows.
    rows: &'a mut [PaddedRow],
}

impl<'a> MedianRows<'a> {
    pub(super) fn new(
        side: u32,
        input: ImageView<'a>,
        columns: Range<u32>,
        rows: &'a mut Vec<PaddedRow>,
    ) -> Result<Self, NoMemory> {
        let side = side.clamp(1, LONGEST) as usize;
        let span = side.min(input.size().height as usize);
        if rows.len() < span {
            rows.resize(span, PaddedRow::default());
        }
        let rows = &mut rows[..span];
        for row in &mut *rows {
            row.row = None; // the row is of another image
            grow_kept(&mut row.bytes, (columns.len() + side - 1) * input.channels() + BLOCK)?;
        }
        Ok(Self { input, columns, side, rows })
    }

    #[inline(always)]
    pub(super) fn row<const C: usize>(&mut self, y: u32, out: &mut [u8]) {
        let (side, height) = (self.side, self.input.size().height);
        for i in 0..side {
            self.fill::<C>(source(y, i, side, height));
        }
        let mut taps = [&[][..]; LONGEST as usize];
        for (i, tap) in taps[..side].iter_mut().enumerate() {
            *tap = &self.rows[source(y, i, side, height) as usize % self.rows.len()].bytes;
        }
        if side == 3 {
            return of_nine::<C>([taps[0], taps[1], taps[2]], out);
        }
        let half = (side * side / 2 + 1) as u8;
        for (number, out) in out.chunks_mut(STRIP).enumerate() {
            let (mut larger, mut counts) = ([0; STRIP], [0; STRIP]);
            let (larger, counts) = (&mut larger[..out.len()], &mut counts[..out.len()]);
            out.fill(0);
            for bit in (0..8).rev() {
                counts.fill(0);
                for (larger, median) in larger.iter_mut().zip(&*out) {
                    *larger = *median | 1 << bit;
                }
                for tap in &taps[..side] {
                    for j in 0..side {
                        count(&tap[number * STRIP + j * C..], larger, counts);
                    }
                }
                for (median, count) in out.iter_mut().zip(&*counts) {
                    let mask = if *count >= half { u8::MAX } else { 0 };
                    *median |= mask & 1 << bit;
                }
            }
        }
    }

    /// Copies a source row, unless it is there.
    #[inline(always)]
    fn fill<const C: usize>(&mut self, row: u32) {
        let span = self.rows.len();
        let padded = &mut self.rows[row as usize % span];
        if padded.row == Some(row) {
            return;
        }
        padded.row = Some(row);
        let pixels = self.input.row(row).as_chunks::<C>().0;
        let first = i64::from(self.columns.start) - (self.side / 2) as i64;
        let count = self.columns.len() + self.side - 1;
        let out = &mut padded.bytes.as_chunks_mut::<C>().0[..count];
        // The pixels before the first, and those up to the last.
        let before = (first.min(0).unsigned_abs() as usize).min(count);
        let inside = (pixels.len() - (first.max(0) as usize).min(pixels.len())).min(count - before);
        let (left, rest) = out.split_at_mut(before);
        let (middle, right) = rest.split_at_mut(inside);
        left.fill(pixels[0]);
        middle.copy_from_slice(&pixels[first.max(0) as usize..][..inside]);
        right.fill(pixels[pixels.len() - 1]);
    }
}
