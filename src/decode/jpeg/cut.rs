//! Cutting a window out of a JPEG's coded bytes: the copy of the file that the decoder is given.
//!
//! ```text
//! headers with the cut's height and width | segments | ones | end marker
//! ```
//!
//! Without restart markers there is one segment, and only rows below the window are saved: the
//! decoder stops at the height it is told. With them the decoder can begin at any segment, so
//! rows above are left out where a row of MCUs begins a segment, and columns where an interval
//! divides the row. A segment's coded bytes are taken as they lie: DC prediction begins anew in
//! each (T.81, F.1.1.5.1), only the markers' numbers change.
//!
//! Where chroma is subsampled, a pixel at the cut's edge is interpolated from chroma beyond it.
//! So one pixel more than wanted is taken along that direction, and the pixels of the window are
//! those of the whole picture's decode, bit for bit.

use super::headers::{EOI, Headers};
use super::scans::{Grid, SingleScan};
use fuseloop_ops::Window;
use std::ops::Range;

/// Ones between the data and the end marker, more than the decoder reads ahead (64 bits).
///
/// Past the end marker it reads zeros, and gives wrong pixels for a picture that lacks some. A
/// run of ones is no Huffman code (T.81, C.2): reading into it is an error.
const ONES: [[u8; 2]; 12] = [[0xff, 0]; 12];

/// What is cut out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The pixels that it decodes to, in the whole picture.
    pub(super) window: Window,
    /// The segments of each line.
    lines: Lines,
}

/// Runs of segments, `every` segments apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lines {
    first: Range<u64>,
    every: u64,
    count: u64,
}

impl Cut {
    /// The smallest cut that holds `wanted`, a window inside the picture.
    pub(super) fn plan(headers: &Headers, wanted: Window) -> Self {
        let grid = Grid::of(headers);
        let interval = u64::from(headers.restart_interval);
        let tall = Span::new(wanted.top, wanted.height, headers.size.height, grid.mcu_height);
        let wide = Span::new(wanted.left, wanted.width, headers.size.width, grid.mcu_width);
        let every_column = Span { first: 0, end: grid.columns, ..wide };
        if interval == 0 {
            let lines = Lines { first: 0..1, every: 1, count: 1 };
            return Self { window: window(Span { first: 0, ..tall }, every_column), lines };
        }
        if grid.columns.is_multiple_of(interval) {
            let wide = wide.outwards(interval);
            let every = grid.columns / interval;
            let row = tall.first * every;
            let first = row + wide.first / interval..row + wide.end.div_ceil(interval);
            let lines = Lines { first, every, count: tall.end - tall.first };
            return Self { window: window(tall, wide), lines };
        }
        // Segments and rows begin together only every so many rows.
        let tall = Span { first: outwards(tall.first, row_step(interval, grid.columns)), ..tall };
        let first = tall.first * grid.columns / interval;
        let end = (tall.end * grid.columns).div_ceil(interval);
        let lines = Lines { first: first..end, every: 1, count: 1 };
        Self { window: window(tall, every_column), lines }
    }

    /// Writes the cut as a file of its own.
    pub(super) fn write(
        &self,
        bytes: &[u8],
        headers: &Headers,
        scan: &SingleScan<'_>,
        file: &mut Vec<u8>,
    ) {
        let [height, width] = [self.window.height, self.window.width]
            .map(|side| u16::try_from(side).expect("not over the header's own").to_be_bytes());
        file.clear();
        file.extend_from_slice(&bytes[..headers.scan.data]);
        file[headers.height_at..headers.height_at + 2].copy_from_slice(&height);
        file[headers.height_at + 2..headers.height_at + 4].copy_from_slice(&width);
        for (n, segment) in self.segments().enumerate() {
            if let Some(before) = n.checked_sub(1) {
                file.extend_from_slice(&[0xff, 0xd0 + (before % 8) as u8]);
            }
            file.extend_from_slice(&bytes[scan.segment(segment)]);
        }
        file.extend_from_slice(ONES.as_flattened());
        file.extend_from_slice(&[0xff, EOI]);
    }

    /// The segments in order.
    fn segments(&self) -> impl Iterator<Item = usize> {
        let Lines { first, every, count } = self.lines.clone();
        (0..count)
            .flat_map(move |line| first.start + line * every..first.end + line * every)
            .map(|segment| usize::try_from(segment).expect("a segment in memory"))
    }
}

/// MCUs along one axis.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    end: u64,
    /// Pixels of an MCU.
    mcu: u32,
    /// Pixels of the picture.
    side: u32,
}

impl Span {
    /// The MCUs needed for `len` pixels from `start` on.
    fn new(start: u32, len: u32, side: u32, mcu: u32) -> Self {
        let margin = u32::from(mcu > 8); // chroma's neighbour, where chroma is subsampled
        let first = u64::from(start.saturating_sub(margin) / mcu);
        let end = u64::from((start + len + margin).min(side).div_ceil(mcu));
        Self { first, end, mcu, side }
    }

    /// Widened to multiples of `step`.
    fn outwards(self, step: u64) -> Self {
        Self { first: outwards(self.first, step), end: self.end.next_multiple_of(step), ..self }
    }

    /// First pixel, and how many.
    fn pixels(self) -> (u32, u32) {
        let side = u64::from(self.side);
        let [start, end] = [self.first, self.end].map(|at| (at * u64::from(self.mcu)).min(side));
        let fits = |at| u32::try_from(at).expect("not over the side");
        (fits(start), fits(end - start))
    }
}

fn window(tall: Span, wide: Span) -> Window {
    let ((top, height), (left, width)) = (tall.pixels(), wide.pixels());
    Window { top, left, height, width }
}

/// The restart interval, in MCUs, to write a JPEG with so that its windows are cheap to decode:
/// `tile` pixels, or up to half as many more where that divides a row; at most a whole row.
///
/// `width` is the picture's, `mcu_width` 16 where chroma has half the columns, 8 where it has all
/// or there is none. Markers every 32 pixels cost about 2 % of the bytes, and halve the decoding
/// of `RandomResizedCrop`'s windows.
///
/// # Panics
///
/// If `mcu_width` is 0.
#[must_use]
pub fn tile_interval(width: u16, mcu_width: u16, tile: u16) -> u16 {
    let columns = width.div_ceil(mcu_width);
    let least = tile.div_ceil(mcu_width).clamp(1, columns.max(1));
    let most = columns.min(least.saturating_add(least / 2));
    (least..=most).find(|interval| columns.is_multiple_of(*interval)).unwrap_or(least)
}

/// The multiple of `step` at or before `at`.
fn outwards(at: u64, step: u64) -> u64 {
    at / step * step
}

/// Rows of `columns` MCUs from one that begins a segment to the next that does.
fn row_step(interval: u64, columns: u64) -> u64 {
    let (mut a, mut divisor) = (columns, interval);
    while a > 0 {
        (a, divisor) = (divisor % a, a);
    }
    interval / divisor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_as_wide_as_asked_or_up_to_half_wider_if_that_divides_a_row() {
        for (width, mcu_width, tile, interval) in [
            (512, 16, 32, 2),
            (500, 16, 32, 2),
            (336, 16, 32, 3),
            (496, 16, 32, 2), // 31 MCUs: no interval divides them
            (500, 8, 32, 4),  // 63
            (400, 8, 32, 5),
            (224, 8, 64, 8),
            (20, 8, 32, 3),
            (1, 16, 32, 1),
            (65535, 8, 32, 4),
            (100, 8, 0, 1),
        ] {
            assert_eq!(tile_interval(width, mcu_width, tile), interval, "{width} in {mcu_width}");
        }
    }

    #[test]
    fn rows_and_segments_begin_together_every_least_common_multiple() {
        for (interval, columns, rows) in [(1, 7, 1), (7, 7, 1), (14, 7, 2), (5, 12, 5), (8, 12, 2)]
        {
            assert_eq!(row_step(interval, columns), rows, "{interval} of {columns}");
        }
    }
}
