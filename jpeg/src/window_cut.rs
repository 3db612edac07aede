//! Cuts a window out of a JPEG's coded bytes: writes the smaller file that zune-jpeg is given.
//!
//! ```text
//! standard tables | headers with the cut's height and width | segments | a restart marker, or ones | end marker
//! ```
//!
//! Without restart markers there is one segment, and only the rows below the window are left out: the
//! decoder stops at the height in the headers. With restart markers the decoder can begin at any
//! segment, and what lies beside the window is left out too. The coded bytes of a segment are copied
//! unchanged, because DC prediction restarts in each segment (T.81, F.1.1.5.1); only the markers'
//! numbers change.
//!
//! The image is `C` columns of MCUs, a segment `K` of them in reading order. The cut is `C'` columns of
//! MCUs; those from `lead` on belong to the window:
//!
//! ```text
//! picture  MCU (row, column)  is number  row * C + column
//! cut      MCU (row, column)  is number  row * C + column + first - row0 * C   of the picture
//! K divides first, and C - C'
//! ```
//!
//! So rows of the cut are stacked as the image's rows are, and begin and end at segment boundaries,
//! although segments run from row to row if `K` does not divide `C`. In that case the cut's columns
//! beside the window are MCUs from elsewhere in the image, and `C' >= width + K - 1`, so that no segment
//! has MCUs of the window in two rows. Those other MCUs are decoded but their pixels are not used.
//!
//! Where chroma is subsampled, a pixel at the window's edge is interpolated from chroma beyond the edge.
//! So the cut takes one pixel more than wanted along that direction, and the pixels of the window equal
//! those of decoding the whole image, bit for bit. At the image's own edge there is no chroma beyond:
//! there the cut must end where the image does, and so must begin at a row that begins a segment.

use crate::headers::Headers;
use crate::scans::{Grid, SingleScan, mcus};
use crate::segments::EOI;
use crate::standard_tables::STANDARD_TABLES;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use std::ops::Range;

/// Ones between the data and the end marker, more of them than the decoder reads ahead (64 bits).
///
/// Past the end marker the decoder reads zeros, and returns wrong pixels for an image whose data end
/// early. A run of ones is no Huffman code (T.81, C.2), so reading into the ones is an error.
///
/// They follow the file's last segment only. Past any other segment the decoder reads zeros, as it does
/// when it decodes the whole image: where a damaged segment ends inside a coefficient's value, ones would
/// be that value's bits, and the window would have other pixels than the whole image.
const ONES: [[u8; 2]; 12] = [[0xff, 0]; 12];

/// The maximum number of bytes that the cut adds to those of the file: the tables, the ones or a restart marker, and
/// the end marker.
pub const MOST_ADDED: usize = STANDARD_TABLES.len() + 2 * ONES.len() + 2;

/// The part of a JPEG that is cut out for a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowCut {
    /// The window of the whole image that can be taken from the cut.
    pub window: Window,
    /// The size that the cut decodes to.
    pub decoded: Size,
    /// Columns of pixels that the cut has before the window's.
    pub lead: u32,
    /// Which segments make up the cut; `None` means all of them.
    layout: Option<CutLayout>,
}

/// Which MCUs of the image the cut consists of; see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CutLayout {
    /// MCUs of a segment: `K`.
    interval: u64,
    /// MCUs of the image.
    mcus: u64,
    /// Columns of the image: `C`.
    columns: u64,
    /// The number, in the image, of the cut's first MCU.
    first: u64,
    /// Rows of the cut.
    rows: u64,
    /// Columns of the cut: `C'`.
    width: u64,
    /// Columns of the cut, counted up to the window's last.
    used: u64,
}

impl WindowCut {
    /// Plans a small cut that holds `wanted`, a window inside the image.
    pub fn plan(headers: &Headers, wanted: Window) -> Self {
        let grid = Grid::of(headers);
        let Size { height, width } = headers.size;
        let tall = McuRange::new(wanted.top, wanted.height, height, grid.mcu_height);
        let wide = McuRange::new(wanted.left, wanted.width, width, grid.mcu_width);
        let interval = u64::from(headers.restart_interval);
        if interval == 0 {
            let window = window(
                McuRange { first: 0, ..tall },
                McuRange { first: 0, end: grid.columns, ..wide },
            );
            return Self { window, decoded: window.size(), lead: 0, layout: None };
        }
        let placed = McuPosition::new(interval, grid, tall, wide, wanted);
        let layout = CutLayout {
            interval,
            mcus: grid.mcus(),
            columns: grid.columns,
            first: placed.row * grid.columns + wide.first - placed.lead,
            rows: tall.end - placed.row,
            width: placed.width,
            used: placed.lead + wide.len(),
        };
        let window = window(McuRange { first: placed.row, ..tall }, wide);
        let decoded = Size::new(window.height, layout.pixels(grid.mcu_width, width));
        let lead = fits(placed.lead * u64::from(grid.mcu_width));
        Self { window, decoded, lead, layout: Some(layout) }
    }

    /// Writes the cut as a complete JPEG file.
    pub fn write(
        &self,
        bytes: &[u8],
        headers: &Headers,
        scan: &SingleScan<'_>,
        file: &mut Vec<u8>,
    ) {
        let [height, width] = [self.decoded.height, self.decoded.width]
            .map(|side| u16::try_from(side).expect("not over the header's own").to_be_bytes());
        file.clear();
        // The file's own tables follow and take the place of the standard's.
        file.extend_from_slice(&bytes[..2]);
        file.extend_from_slice(&STANDARD_TABLES);
        file.extend_from_slice(&bytes[2..headers.scan.data]);
        let height_at = headers.height_at + STANDARD_TABLES.len();
        file[height_at..height_at + 2].copy_from_slice(&height);
        file[height_at + 2..height_at + 4].copy_from_slice(&width);
        let restart = |number: usize| [0xff, 0xd0 + (number % 8) as u8];
        let (mut number, mut is_last) = (0, true);
        match self.layout {
            None => file.extend_from_slice(&bytes[scan.segment(0)]),
            Some(layout) => {
                for (n, segment) in layout.segments().enumerate() {
                    if let Some(before) = n.checked_sub(1) {
                        file.extend_from_slice(&restart(before));
                    }
                    let segment = usize::try_from(segment).expect("a segment in memory");
                    file.extend_from_slice(&bytes[scan.segment(segment)]);
                    (number, is_last) = (n, scan.is_last(segment));
                }
            }
        }
        match is_last {
            true => file.extend_from_slice(ONES.as_flattened()),
            false => file.extend_from_slice(&restart(number)),
        }
        file.extend_from_slice(&[0xff, EOI]);
    }
}

/// The position of the window's MCUs in the cut.
#[derive(Clone, Copy)]
struct McuPosition {
    /// The row of the image that is the cut's first.
    row: u64,
    /// Columns of the cut before the window's.
    lead: u64,
    /// Columns of the cut.
    width: u64,
}

impl McuPosition {
    fn new(interval: u64, grid: Grid, tall: McuRange, wide: McuRange, wanted: Window) -> Self {
        let columns = grid.columns;
        if columns.is_multiple_of(interval) {
            let lead = wide.first % interval;
            let width = (lead + wide.len()).next_multiple_of(interval);
            return Self { row: tall.first, lead, width };
        }
        let least = wide.len() + interval - 1;
        let width = least + (columns % interval + interval - least % interval) % interval;
        let stepped = round_down(tall.first, row_step(interval, columns));
        if width >= columns {
            return Self { row: stepped, lead: wide.first, width: columns };
        }
        // Chroma must not be interpolated across the image's edge.
        let at_left = wide.mcu > 8 && wanted.left == 0;
        let at_right = wide.mcu > 8 && wanted.left + wanted.width == wide.side;
        // A short last segment can only be the last segment of the cut too.
        let last = (tall.end - 1) * columns + wide.end;
        if at_right || last > round_down(grid.mcus(), interval) {
            let first = round_down(wide.first.min(columns - least), interval);
            return Self { row: stepped, lead: wide.first - first, width: columns - first };
        }
        let row = if at_left { stepped } else { tall.first };
        Self { row, lead: (row * columns + wide.first) % interval, width }
    }
}

impl CutLayout {
    /// Returns the columns of pixels that the cut has, for an image of `side` columns.
    fn pixels(self, mcu_width: u32, side: u32) -> u32 {
        let mcu = u64::from(mcu_width);
        let cut_off = self.columns - self.width;
        let is_last = (self.first + self.width).is_multiple_of(self.columns);
        fits(if is_last { u64::from(side) - cut_off * mcu } else { self.width * mcu })
    }

    /// Returns the segments of the image that make up the cut, in order.
    fn segments(self) -> impl Iterator<Item = u64> {
        let Self { interval, mcus, columns, first, rows, width, used } = self;
        let all = rows * width;
        let end = move |row: u64| {
            if row + 1 == rows { all } else { row * width + used }.div_ceil(interval)
        };
        (0..rows).flat_map(move |row| {
            let start = row.checked_sub(1).map_or(0, end);
            let shift = (first + row * (columns - width)) / interval;
            (start..end(row)).map(move |n| {
                let needed = interval.min(all - n * interval);
                let segment = shift + n;
                // MCUs past the image's end are not used: any segment will do.
                if segment * interval + needed <= mcus { segment } else { 0 }
            })
        })
    }
}

/// MCUs along one axis.
#[derive(Clone, Copy, Debug)]
struct McuRange {
    first: u64,
    end: u64,
    /// Pixels of an MCU.
    mcu: u32,
    /// Pixels of the image.
    side: u32,
}

impl McuRange {
    /// Returns the MCUs needed for `len` pixels from `start` on.
    fn new(start: u32, len: u32, side: u32, mcu: u32) -> Self {
        let Range { start: first, end } = mcus(start, len, side, mcu, u32::from(mcu > 8));
        Self { first, end, mcu, side }
    }

    fn len(self) -> u64 {
        self.end - self.first
    }

    /// Returns the first pixel and the number of pixels.
    fn pixels(self) -> (u32, u32) {
        let side = u64::from(self.side);
        let [start, end] = [self.first, self.end].map(|at| (at * u64::from(self.mcu)).min(side));
        (fits(start), fits(end - start))
    }
}

/// Converts a position in an image, in pixels, to `u32`.
fn fits(at: u64) -> u32 {
    u32::try_from(at).expect("not over the side")
}

fn window(tall: McuRange, wide: McuRange) -> Window {
    let ((top, height), (left, width)) = (tall.pixels(), wide.pixels());
    Window { top, left, height, width }
}

/// Returns the restart interval, in MCUs, to write a JPEG with so that its windows are cheap to decode.
///
/// It is the smallest interval from `tile` pixels to twice as many that divides a row; if none does, the
/// largest of them; and at most a whole row. `width` is the image's; `mcu_width` is 16 where chroma has
/// half the columns, and 8 where it has all of them or there is no chroma. With markers every 32 to 64
/// pixels a file is 1 to 2 % longer, and windows of `RandomResizedCrop` are decoded in three quarters of
/// the time.
///
/// # Panics
///
/// If `mcu_width` is 0.
#[must_use]
pub fn tile_interval(width: u16, mcu_width: u16, tile: u16) -> u16 {
    let columns = width.div_ceil(mcu_width);
    let least = tile.div_ceil(mcu_width).clamp(1, columns.max(1));
    let most = columns.min(least.saturating_mul(2));
    (least..=most).find(|interval| columns.is_multiple_of(*interval)).unwrap_or(most)
}

/// Returns the last multiple of `step` that is not above `at`.
fn round_down(at: u64, step: u64) -> u64 {
    at / step * step
}

/// Returns the number of rows, of `columns` MCUs each, from one row that begins a segment to the next
/// one.
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
    use crate::headers::tests::of_size;
    use fuseloop_ops::internals::is_inside;

    #[test]
    fn restart_markers_save_what_lies_around_the_window() {
        let size = Size::new(128, 192); // 12 columns of 16x16 MCUs
        let wanted = Window { top: 40, left: 70, height: 20, width: 30 };
        for (interval, top, decoded) in [
            (0, 0, (64, 192)),
            (1, 32, (32, 48)),
            (2, 32, (32, 64)),
            (3, 32, (32, 96)),
            (5, 32, (32, 112)),
            (12, 32, (32, 192)),
            (24, 32, (32, 192)),
            (36, 0, (64, 192)),
        ] {
            let cut = WindowCut::plan(&of_size(size, 2, interval), wanted);
            let found = (cut.window.top, (cut.decoded.height, cut.decoded.width));
            assert_eq!(found, (top, decoded), "interval {interval}");
        }
    }

    /// All windows of whole MCUs, in images up to 9 by 4 MCUs, at intervals up to 11.
    #[test]
    fn every_mcu_of_a_window_is_where_the_picture_has_it() {
        for (columns, rows, interval, mcu) in all([9, 4, 11, 2]) {
            let mcu = 8 * mcu;
            let size = Size::new(rows * mcu - 3, columns * mcu - 5);
            let headers = of_size(size, (mcu / 8) as u8, interval as u16);
            for (bottom, right, height, width) in all([rows, columns, rows, columns]) {
                if height > bottom || width > right {
                    continue;
                }
                let (top, left) = ((bottom - height) * mcu, (right - width) * mcu);
                let height = (bottom * mcu).min(size.height) - top;
                let wanted =
                    Window { top, left, height, width: (right * mcu).min(size.width) - left };
                check(&headers, wanted, mcu);
            }
        }
    }

    /// Returns all tuples from ones to `most`.
    fn all(most: [u32; 4]) -> impl Iterator<Item = (u32, u32, u32, u32)> {
        let [a, b, c, d] = most;
        (1..=a).flat_map(move |i| {
            (1..=b).flat_map(move |j| (1..=c).flat_map(move |k| (1..=d).map(move |l| (i, j, k, l))))
        })
    }

    fn check(headers: &Headers, wanted: Window, mcu: u32) {
        let cut = WindowCut::plan(headers, wanted);
        let layout = cut.layout.unwrap();
        let case = format!("{wanted:?} of {:?} by {}: {cut:?}", headers.size, layout.interval);
        let within = |outer: Window| {
            outer.top <= wanted.top
                && outer.left <= wanted.left
                && outer.top + outer.height >= wanted.top + wanted.height
                && outer.left + outer.width >= wanted.left + wanted.width
        };
        assert!(within(cut.window) && is_inside(cut.window, headers.size), "{case}");
        assert!(cut.lead + cut.window.width <= cut.decoded.width, "{case}");
        let segments: Vec<u64> = layout.segments().collect();
        let all = layout.rows * layout.width;
        assert_eq!(segments.len() as u64, all.div_ceil(layout.interval), "{case}");
        for (n, segment) in segments.iter().enumerate() {
            let needed = layout.interval.min(all - n as u64 * layout.interval);
            assert!(segment * layout.interval + needed <= layout.mcus, "{n} of {case}");
        }
        let (top, left, lead) = (cut.window.top / mcu, cut.window.left / mcu, cut.lead / mcu);
        for row in 0..cut.window.height.div_ceil(mcu) {
            for column in 0..cut.window.width.div_ceil(mcu) {
                let n = u64::from(row) * layout.width + u64::from(lead + column);
                let shown = segments[(n / layout.interval) as usize] * layout.interval
                    + n % layout.interval;
                let meant = u64::from(top + row) * layout.columns + u64::from(left + column);
                assert_eq!(shown, meant, "row {row}, column {column} of {case}");
            }
        }
        // At its own edges an image's chroma has no neighbour, and the cut must not add one.
        let [at_left, at_right] =
            [wanted.left == 0, wanted.left + wanted.width == headers.size.width];
        assert!(mcu == 8 || !at_left || cut.lead == 0, "{case}");
        assert!(
            mcu == 8 || !at_right || cut.lead + cut.window.width == cut.decoded.width,
            "{case}"
        );
        assert!(cut.decoded.width <= headers.size.width.next_multiple_of(mcu), "{case}");
    }

    #[test]
    fn a_tile_is_as_wide_as_asked_or_up_to_twice_that_to_divide_a_row() {
        for (width, mcu_width, tile, interval) in [
            (512, 16, 32, 2),
            (500, 16, 32, 2),
            (336, 16, 32, 3),
            (496, 16, 32, 4), // 31 MCUs: no interval divides them
            (500, 8, 32, 7),  // 63
            (400, 8, 32, 5),
            (224, 8, 64, 14),
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
