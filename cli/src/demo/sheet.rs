//! Draws the contact sheet: originals beside what the loader produced from them, as one PNG.
//!
//! ```text
//! | original | epoch 0 | epoch 1 | epoch 2 |   | original | epoch 0 | epoch 1 | epoch 2 |
//! | ...                                   |   | ...                                   |
//! ```
//!
//! Every image is in the middle of a square cell: an original is scaled to fit, an augmented one is
//! shown pixel for pixel, so that progressive resizing can be seen.

use super::super::picture;
use super::super::problem::Problem;
use fuseloop::internals::preview::Canvas;
use fuseloop::ops::Size;
use fuseloop::ops::internals::ImageView;
use std::path::Path;

/// The side of a cell in pixels.
const CELL: u32 = 224;
/// The gap between cells in pixels.
const GAP: u32 = 10;
/// The margin around the sheet and between the two halves in pixels.
const MARGIN: u32 = 28;
const BACKGROUND: [u8; 3] = [0x14, 0x16, 0x1b];
const CELL_COLOUR: [u8; 3] = [0x1d, 0x20, 0x27];

/// The sheet that is being drawn.
pub(super) struct Sheet {
    canvas: Canvas,
    columns: u32,
    rows: u32,
}

impl Sheet {
    /// Creates a sheet with space for twice `rows` samples, each an original and `versions` of it.
    ///
    /// # Errors
    ///
    /// If there is no memory for the sheet.
    pub(super) fn new(rows: u32, versions: u32) -> Result<Self, Problem> {
        let columns = 1 + versions;
        let half = columns * CELL + (columns - 1) * GAP;
        let size = Size::new(2 * MARGIN + rows * (CELL + GAP) - GAP, 3 * MARGIN + 2 * half);
        Ok(Self { canvas: Canvas::new(size, BACKGROUND)?, columns, rows })
    }

    /// Draws an image in the cell of a sample: column 0 is the original.
    pub(super) fn put(&mut self, sample: u32, column: u32, picture: ImageView<'_>) {
        let half = self.columns * (CELL + GAP) - GAP;
        let left = MARGIN + sample / self.rows * (half + MARGIN) + column * (CELL + GAP);
        let top = MARGIN + sample % self.rows * (CELL + GAP);
        self.canvas.square(top, left, CELL, CELL_COLOUR);
        self.canvas.paste_fitted(top, left, CELL, picture);
    }

    /// Saves the sheet as a PNG; an existing file is replaced.
    pub(super) fn save(&self, path: &Path) -> Result<(), Problem> {
        picture::save(path, self.canvas.rgb(), self.canvas.size())
    }
}
