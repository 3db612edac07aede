//! Tiles: the rectangles of a grid in another order.
//!
//! ```text
//! out[y, x] = in[y - top(t) + top(from[t]), x - left(t) + left(from[t])]        for (y, x) in tile t
//! ```
//!
//! | | |
//! |--------|---------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart |
//! | output | as the input                                      |
//! | random | nothing: the order is a field of the filter       |
//! | cost   | a copy of each row                                |

use crate::shape::ImageView;
use std::ops::Range;

/// The tiles of an image, row by row, and where each comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Where the rows of tiles begin, and where the last one ends: at the image's last row.
    pub rows: Vec<u32>,
    /// Where the columns of tiles begin and end.
    pub columns: Vec<u32>,
    /// For each tile the one whose pixels it gets, which has the same size.
    pub from: Vec<u32>,
}

impl Tiles {
    /// Returns the first row and the first column of the tile at this place of the grid, and of the one that it is copied
    /// from.
    #[inline(always)]
    fn corners(&self, row: usize, column: usize) -> [[u32; 2]; 2] {
        let across = self.columns.len() - 1;
        let from = self.from[row * across + column] as usize;
        [[row, column], [from / across, from % across]]
            .map(|[row, column]| [self.rows[row], self.columns[column]])
    }

    /// Returns the row and column of the input that are copied to `(y, x)` of the output.
    pub(super) fn source(&self, y: u32, x: u32) -> [u32; 2] {
        let [to, from] = self.corners(place(&self.rows, y), place(&self.columns, x));
        [y - to[0] + from[0], x - to[1] + from[1]]
    }

    pub(super) fn eval(&self, input: &ImageView<'_>) -> Vec<u8> {
        let (size, channels) = (input.size(), input.channels());
        let mut pixels = Vec::with_capacity(size.pixels() as usize * channels);
        for (y, x) in (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x))) {
            let [y, x] = self.source(y, x);
            pixels.extend_from_slice(&input.row(y)[x as usize * channels..][..channels]);
        }
        pixels
    }
}

/// Returns which of the intervals between `bounds` has `at`.
#[inline(always)]
fn place(bounds: &[u32], at: u32) -> usize {
    bounds.partition_point(|bound| *bound <= at) - 1
}

/// The rows of one image whose tiles are in another order.
#[derive(Debug)]
pub(super) struct TileRows<'a> {
    tiles: &'a Tiles,
    input: ImageView<'a>,
    columns: Range<u32>,
}

impl<'a> TileRows<'a> {
    pub(super) const fn new(tiles: &'a Tiles, input: ImageView<'a>, columns: Range<u32>) -> Self {
        Self { tiles, input, columns }
    }

    #[inline(always)]
    pub(super) fn row<const C: usize>(&self, y: u32, out: &mut [u8]) {
        let row = place(&self.tiles.rows, y);
        for (column, bounds) in self.tiles.columns.windows(2).enumerate() {
            let (first, end) = (bounds[0].max(self.columns.start), bounds[1].min(self.columns.end));
            if first < end {
                let [to, from] = self.tiles.corners(row, column);
                let pixels = self.input.row(y - to[0] + from[0]).as_chunks::<C>().0;
                let pixels =
                    &pixels[(first - to[1] + from[1]) as usize..][..(end - first) as usize];
                let out = &mut out[(first - self.columns.start) as usize * C..];
                out[..pixels.len() * C].copy_from_slice(pixels.as_flattened());
            }
        }
    }
}
