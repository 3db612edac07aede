//! The mask that is being drawn: pixels at which inside and outside change, and then their running parity
//! down each column.

use fuseloop_ops::Size;
use std::ops::Range;

/// The bit of pixels that are inside.
const INSIDE: u8 = 1;

/// The bit of pixels of the shape that is being drawn: first those at which it begins or ends, then those
/// inside it.
const DRAWN: u8 = 2;

/// A mask of zeros and ones, to which shapes are added.
pub(super) struct Raster<'a> {
    pixels: &'a mut [u8],
    size: Size,
    /// The columns and rows that the shape that is being drawn may be in.
    columns: Range<u32>,
    rows: Range<u32>,
}

impl<'a> Raster<'a> {
    /// Clears the mask. `pixels` has one byte for each pixel of `size`.
    pub(super) fn new(pixels: &'a mut [u8], size: Size) -> Self {
        pixels.fill(0);
        Self { pixels, size, columns: nothing(), rows: nothing() }
    }

    /// From this pixel of a column on, the shape begins where it ended, and ends where it began. A `row` below
    /// the mask changes nothing: columns do not go on in the next one.
    pub(super) fn toggle(&mut self, column: u32, row: u32) {
        widen(&mut self.columns, column);
        widen(&mut self.rows, row);
        if row < self.size.height {
            self.pixels[row as usize * self.size.width as usize + column as usize] ^= DRAWN;
        }
    }

    /// Adds the shape to the mask.
    pub(super) fn add(&mut self) {
        let rows = self.rows.start..self.rows.end.min(self.size.height);
        let columns = self.columns.start as usize..self.columns.end as usize;
        (self.rows, self.columns) = (nothing(), nothing());
        if rows.is_empty() {
            return;
        }
        let width = self.size.width as usize;
        let row_of =
            |row: u32| row as usize * width + columns.start..row as usize * width + columns.end;
        for row in rows.start + 1..rows.end {
            let (above, below) = self.pixels.split_at_mut(row as usize * width);
            let own = &mut below[columns.clone()];
            for (pixel, above) in own.iter_mut().zip(&above[row_of(row - 1)]) {
                *pixel ^= above & DRAWN;
            }
        }
        for row in rows {
            for pixel in &mut self.pixels[row_of(row)] {
                *pixel = (*pixel | (*pixel / DRAWN)) & INSIDE;
            }
        }
    }
}

fn nothing() -> Range<u32> {
    Range { start: u32::MAX, end: 0 }
}

fn widen(range: &mut Range<u32>, index: u32) {
    *range = range.start.min(index)..range.end.max(index.saturating_add(1));
}
