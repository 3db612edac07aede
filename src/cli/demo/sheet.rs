//! The contact sheet: originals beside what the loader made of them, as one PNG.
//!
//! ```text
//! | original | epoch 0 | epoch 1 | epoch 2 |   | original | epoch 0 | epoch 1 | epoch 2 |
//! | ...                                   |   | ...                                   |
//! ```
//!
//! Every picture is in the middle of a square cell: an original scaled to fit, an augmented one
//! pixel for pixel, so that progressive resizing can be seen.

use super::super::problem::Problem;
use fuseloop::ops::{ImageView, Size, area};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Pixels a side of a cell.
const CELL: u32 = 224;
/// Pixels between cells.
const GAP: u32 = 10;
/// Pixels around everything, and between the two halves.
const MARGIN: u32 = 28;
const BACKGROUND: [u8; 3] = [0x14, 0x16, 0x1b];
const CELL_COLOUR: [u8; 3] = [0x1d, 0x20, 0x27];

/// A picture of 8-bit RGB that is drawn on.
pub(super) struct Sheet {
    size: Size,
    pixels: Vec<u8>,
    columns: u32,
    rows: u32,
}

impl Sheet {
    /// Room for twice `rows` samples, each an original and `versions` of it.
    pub(super) fn new(rows: u32, versions: u32) -> Self {
        let columns = 1 + versions;
        let half = columns * CELL + (columns - 1) * GAP;
        let size = Size::new(2 * MARGIN + rows * (CELL + GAP) - GAP, 3 * MARGIN + 2 * half);
        let pixels = BACKGROUND.repeat(size.pixels() as usize);
        Self { size, pixels, columns, rows }
    }

    /// Puts a picture into the cell of a sample: column 0 is the original.
    pub(super) fn put(&mut self, sample: u32, column: u32, picture: ImageView<'_>) {
        let half = self.columns * (CELL + GAP) - GAP;
        let left = MARGIN + sample / self.rows * (half + MARGIN) + column * (CELL + GAP);
        let top = MARGIN + sample % self.rows * (CELL + GAP);
        self.fill(top, left);
        let fitted = fitted(picture);
        let Some(view) = fitted
            .as_ref()
            .map_or(Some(picture), |(pixels, size)| ImageView::packed(pixels, *size))
        else {
            return;
        };
        let Size { height, width } = view.size();
        self.paste(top + (CELL - height) / 2, left + (CELL - width) / 2, view);
    }

    fn fill(&mut self, top: u32, left: u32) {
        let row = CELL_COLOUR.repeat(CELL as usize);
        for y in 0..CELL {
            let at = self.at(top + y, left);
            self.pixels[at..at + row.len()].copy_from_slice(&row);
        }
    }

    fn paste(&mut self, top: u32, left: u32, view: ImageView<'_>) {
        for y in 0..view.size().height {
            let (at, row) = (self.at(top + y, left), view.row(y));
            self.pixels[at..at + row.len()].copy_from_slice(row);
        }
    }

    fn at(&self, y: u32, x: u32) -> usize {
        (y as usize * self.size.width as usize + x as usize) * 3
    }

    /// Writes the sheet as a PNG; one that is there is replaced.
    pub(super) fn save(&self, path: &Path) -> Result<(), Problem> {
        let file = File::create(path).map_err(Problem::io(path))?;
        let wrong = |error| Problem::Png { path: path.to_owned(), error };
        let Size { height, width } = self.size;
        let mut encoder = png::Encoder::new(BufWriter::new(file), width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(wrong)?;
        writer.write_image_data(&self.pixels).map_err(wrong)?;
        writer.finish().map_err(wrong)
    }
}

/// A picture too large for a cell, made smaller; `None` if it fits as it is.
fn fitted(picture: ImageView<'_>) -> Option<(Vec<u8>, Size)> {
    let Size { height, width } = picture.size();
    let longest = height.max(width);
    if longest <= CELL {
        return None;
    }
    let side = |pixels: u32| (pixels * CELL / longest).max(1);
    let size = Size::new(side(height), side(width));
    Some((area::resize(picture, size).ok()?, size))
}
