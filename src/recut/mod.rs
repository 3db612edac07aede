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
//! | the same in | pixels, quantization tables, component ids and factors, APPn and COM segments, their order |
//! | not the same in | coding, restart markers; what lay behind the end marker is dropped |
//! | size | of ImageNet's photographs: +0.2 % with a tile a row, +1.6 % with 64 pixels, +3.4 % with 32; a third of it is the index |
//!
//! There is no padding: an interval need not divide the row, and any decoder shows the file as it
//! shows the original. A re-cut file re-cut is the same bytes.
//!
//! Every call proves its result: the original is decoded by zune-jpeg, the re-cut file as the
//! loader does, and the pixels are compared byte by byte. A sequential picture in several scans is refused by that decoder, or decoded wrong
//! (where a row is one MCU): of those the coefficients are read back and compared instead.
//!
//! Coefficients are read and written by libjpeg-turbo-rs. It is young, so it is given only what
//! was checked here: limits and the length of the coded data before anything is allocated, a file
//! of known segments, coefficients in range; and a panic in it is an answer like others.

mod blocks;
mod check;
mod kept;
mod tile;

use crate::decode::{By, DecodeOptions, Decoder, Parts, append_segment_index};
use crate::panicked;
use crate::sample::Limits;
use crate::source::{EncodedImage, ImageMode};
use blocks::Blocks;
use fuseloop_ops::Window;
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
}

impl Recutter {
    /// Cuts tiles of `tile`; pictures over `limits` are kept as they are.
    #[must_use]
    pub fn new(tile: Tile, limits: Limits) -> Self {
        let options = DecodeOptions { limits, ..DecodeOptions::default() };
        let (before, after) = (Decoder::by(By::Zune, options), Decoder::new(options));
        Self { tile, limits, before, after }
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
        self.check_bytes(&recut)?;
        self.prove(jpeg, &recut, &parts, &blocks)?;
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
        blocks: &Blocks,
    ) -> Result<(), Kept> {
        let (height, width) = (parts.frame.height.into(), parts.frame.width.into());
        let whole = Window { top: 0, left: 0, height, width };
        let image = |bytes| EncodedImage { mode: ImageMode::Jpeg, width, height, bytes };
        let after = self.after.decode(&image(recut), whole).map_err(Kept::Undecodable)?;
        let same = if parts.frame.progressive || parts.scans.len() == 1 {
            let before = self.before.decode(&image(jpeg), whole)?;
            (0..height).all(|y| before.view.row(y) == after.view.row(y))
        } else {
            let again = blocks::read(recut, &Parts::find(recut)?)?;
            blocks::are_same(&parts.frame, blocks, &again)
        };
        if same { Ok(()) } else { Err(Kept::Differs) }
    }
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
