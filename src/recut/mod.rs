//! Lossless re-cutting of JPEGs: the same coefficients as an interleaved baseline file with
//! optimal Huffman tables and restart markers every tile, so that the loader decodes a window
//! and not the picture.
//!
//! ```text
//! SOI | metadata, comments, quantization tables | frame, Huffman tables, interval, scan | EOI | index
//!       as they were, in their order              of this file's own
//! ```
//!
//! | | |
//! |---|---|
//! | taken | Huffman-coded JPEGs of 8 bits and 1, 3 or 4 components: baseline, extended, progressive, in any number of scans |
//! | the same in | coefficients, and so pixels; quantization tables, component ids and factors, APPn and COM segments, their order |
//! | not the same in | coding, restart markers; what lay behind the end marker is dropped |
//! | size | of ImageNet's photographs: +0.2 % with a tile a row, +1.6 % with 64 pixels, +3.4 % with 32; a third of it is the index |
//!
//! There is no padding: an interval need not divide the row, and any decoder shows the file as it
//! shows the original. A re-cut file re-cut is the same bytes.
//!
//! Every call proves its result: the original is decoded by zune-jpeg, the re-cut file as the
//! loader does, and the pixels are compared byte by byte. (The last column and row of some pictures
//! the loader's own decoder makes as libjpeg does, and zune-jpeg otherwise: there zune-jpeg decodes
//! both files. So those of a picture that the loader left to zune-jpeg, as progressive ones, are
//! libjpeg's once it is re-cut.) A sequential picture in several scans is refused by that decoder, or decoded wrong
//! (where a row is one MCU): of those the coefficients are read back and compared instead.
//!
//! Coefficients are read and written by libjpeg-turbo-rs. It is young, so it is given only what
//! was checked here: limits and the length of the coded data before anything is allocated, a file
//! of known segments, coefficients in range; and a panic in it is an answer like others.

mod blocks;
mod check;
mod kept;
mod tile;

use crate::decode::{By, DecodeOptions, Decoder, Frame, Parts, append_segment_index};
use crate::panicked;
use crate::sample::Limits;
use crate::source::{EncodedImage, ImageMode};
use blocks::Blocks;
use fuseloop_ops::{RGB, Size, Window};
pub use kept::Kept;
use std::panic::{AssertUnwindSafe, catch_unwind};
pub use tile::{NoTile, Tile};

/// Re-cuts JPEGs. One for each thread: it keeps its buffers.
#[derive(Debug)]
pub struct Recutter {
    tile: Tile,
    limits: Limits,
    /// Decodes the file as it was, by another decoder than the loader's.
    before: Decoder,
    /// Decodes the re-cut file.
    after: Decoder,
    /// Decodes its edges, by the other decoder.
    zune: Decoder,
}

impl Recutter {
    /// Cuts tiles of `tile`; pictures over `limits` are kept as they are.
    #[must_use]
    pub fn new(tile: Tile, limits: Limits) -> Self {
        let options = DecodeOptions { limits, ..DecodeOptions::default() };
        let zune = || Decoder::by(By::Zune, options);
        Self { tile, limits, before: zune(), after: Decoder::new(options), zune: zune() }
    }

    /// The same picture as an interleaved baseline JPEG with restart markers.
    ///
    /// # Errors
    ///
    /// Why it is to be kept as it is. Never panics, whatever the bytes.
    pub fn recut(&mut self, jpeg: &[u8]) -> Result<Vec<u8>, Kept> {
        catch_unwind(AssertUnwindSafe(|| self.try_recut(jpeg))).unwrap_or_else(|panic| {
            *self = Self::new(self.tile, self.limits);
            Err(Kept::Panicked { message: panicked::message(&*panic) })
        })
    }

    fn try_recut(&mut self, jpeg: &[u8]) -> Result<Vec<u8>, Kept> {
        self.check_bytes(jpeg)?;
        let parts = Parts::find(jpeg)?;
        check::check(&parts, &self.limits)?;
        let blocks = blocks::read(jpeg, &parts)?;
        let interval = self.tile.interval(parts.frame.width, blocks::mcu_width(&parts.frame));
        let (coded, blocks) = blocks::write(&parts.frame, blocks, interval)?;
        let recut = assemble(jpeg, &parts, &coded)?;
        drop(coded);
        self.check_bytes(&recut)?;
        self.prove(jpeg, &recut, &parts, blocks)?;
        let size = Size::new(parts.frame.height.into(), parts.frame.width.into());
        if size.pixels() > MOST_KEPT {
            *self = Self::new(self.tile, self.limits);
        }
        Ok(recut)
    }

    fn check_bytes(&self, jpeg: &[u8]) -> Result<(), Kept> {
        let (len, max) = (jpeg.len() as u64, self.limits.max_sample_bytes);
        if len > max { Err(Kept::Bytes { len, max }) } else { Ok(()) }
    }

    /// Refuses a re-cut file that does not decode to the pixels of the original.
    fn prove(
        &mut self,
        jpeg: &[u8],
        recut: &[u8],
        parts: &Parts,
        blocks: Blocks,
    ) -> Result<(), Kept> {
        let same = if parts.frame.progressive || parts.scans.len() == 1 {
            drop(blocks); // memory for the pixels
            self.has_the_same_pixels(jpeg, recut, &parts.frame)?
        } else {
            let size = Size::new(parts.frame.height.into(), parts.frame.width.into());
            self.after.decode(&image(recut, size), size.full()).map_err(Kept::Undecodable)?;
            let again = blocks::read(recut, &Parts::find(recut)?)?;
            blocks::are_same(&parts.frame, &blocks, &again)
        };
        if same { Ok(()) } else { Err(Kept::Differs) }
    }

    /// Compares all pixels: of the original as zune-jpeg has them, and of the re-cut file as the
    /// loader does, a band of rows after the other. Where the two decoders differ by their rule for
    /// a picture's edge, the re-cut file's edge is decoded by zune-jpeg too.
    fn has_the_same_pixels(
        &mut self,
        jpeg: &[u8],
        recut: &[u8],
        frame: &Frame,
    ) -> Result<bool, Kept> {
        let size = Size::new(frame.height.into(), frame.width.into());
        let edges = edges(frame);
        let inside = Size::new(
            size.height - u32::from(edges.last_row),
            size.width - u32::from(edges.last_column),
        );
        self.after.size(&image(recut, size)).map_err(Kept::Undecodable)?;
        let before = self.before.decode(&image(jpeg, size), size.full())?;
        let band = (BAND / size.width).max(64);
        for top in (0..size.height).step_by(band as usize) {
            let height = band.min(size.height - top);
            let window = Window { top, left: 0, height, width: size.width };
            let after =
                self.after.decode(&image(recut, size), window).map_err(Kept::Undecodable)?;
            let after = after.window(window).ok_or(Kept::Differs)?;
            let shown = RGB * inside.width as usize;
            let rows = (top..top + height).take_while(|&y| y < inside.height);
            if rows.zip(0..).any(|(y, row)| before.view.row(y)[..shown] != after.row(row)[..shown])
            {
                return Ok(false);
            }
        }
        let column = Window { left: size.width - 1, width: 1, ..size.full() };
        let row = Window { top: size.height - 1, height: 1, ..size.full() };
        let asked = [(edges.last_column, column), (edges.last_row, row)];
        for (_, window) in asked.into_iter().filter(|(differs, _)| *differs) {
            let again = self.zune.decode(&image(recut, size), window).map_err(Kept::Undecodable)?;
            let (before, after) = (before.window(window), again.window(window));
            let (Some(before), Some(after)) = (before, after) else { return Err(Kept::Differs) };
            if (0..window.height).any(|y| before.row(y) != after.row(y)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Pixels of the largest picture whose buffers are kept for the next: 48 MB.
const MOST_KEPT: u64 = 16 << 20;

/// Pixels of a band, about.
const BAND: u32 = 16 << 20;

fn image(bytes: &[u8], Size { height, width }: Size) -> EncodedImage<'_> {
    EncodedImage { mode: ImageMode::Jpeg, width, height, bytes }
}

/// Where the loader's own decoder and zune-jpeg differ, if they do.
struct Edges {
    last_column: bool,
    last_row: bool,
}

/// zune-jpeg interpolates chroma of half the columns or rows with what lies behind the picture in
/// its last block; see `decode/jpeg/core`.
fn edges(frame: &Frame) -> Edges {
    let (h, v) = blocks::finest(&frame.components);
    let differs = |side: u16, factor| factor == 2 && side % 2 == 0 && side % 16 != 0;
    Edges { last_column: differs(frame.width, h), last_row: differs(frame.height, v) }
}

/// Puts the re-cut file together: what is kept of `jpeg`, then what `coded` has of tables and scan.
fn assemble(jpeg: &[u8], parts: &Parts, coded: &[u8]) -> Result<Vec<u8>, Kept> {
    let found = Parts::find(coded)?;
    let tables = found.scans.first().and_then(|scan| scan.tables.first());
    let tables = tables.ok_or_else(|| Kept::damaged(&"no tables were written"))?;
    let mut recut = Vec::with_capacity(jpeg.len() + jpeg.len() / 16);
    recut.extend_from_slice(&[0xff, 0xd8]);
    parts.kept.iter().for_each(|part| recut.extend_from_slice(&jpeg[part.clone()]));
    // Baseline files have tables of 8 bits (T.81, B.2.4.1).
    let marker = if parts.wide_tables { 0xc1 } else { 0xc0 };
    blocks::write_frame(&mut recut, marker, &parts.frame);
    recut.extend_from_slice(&coded[tables.start..]);
    append_segment_index(&mut recut)?;
    Ok(recut)
}
