//! Lossless re-cutting of JPEGs: writes the same coefficients as an interleaved baseline file with
//! optimal Huffman tables and a restart marker after every tile, so that the loader decodes a window and
//! not the whole image.
//!
//! ```text
//! SOI | metadata, comments, quantization tables | frame, Huffman tables, interval, scan | EOI | index
//!       as they were, in their order              of this file's own
//! ```
//!
//! | | |
//! |---|---|
//! | accepted | Huffman-coded JPEGs of 8 bits and 1, 3 or 4 components: baseline, extended, progressive, in any number of scans |
//! | unchanged | coefficients, and so pixels; quantization tables, component ids and factors, APPn and COM segments, their order |
//! | changed | coding, restart markers; bytes after the end marker are dropped |
//! | size | for ImageNet's photographs: +0.2 % with a tile a row, +1.6 % with 64 pixels, +3.4 % with 32; a third of this is the index |
//!
//! There is no padding: an interval need not divide the row, and any decoder shows the re-cut file as it
//! shows the original. Re-cutting a re-cut file yields the same bytes.
//!
//! Every call checks its result. zune-jpeg decodes the original, the loader's decoder decodes the re-cut
//! file, and the pixels are compared byte by byte. One difference is allowed for: the loader's own
//! decoder computes the last column and row of some images as libjpeg does, and zune-jpeg differently.
//! For such an image zune-jpeg decodes the edges of both files. zune-jpeg does not decode a sequential image in several
//! scans, nor every sampling and colour: for such images the loader's decoder decodes both files, and the coefficients
//! are read back and compared.
//!
//! libjpeg-turbo-rs reads and writes the coefficients. The crate is young, so it is given only input
//! that was checked here: the limits and the length of the coded data before anything is allocated, a
//! file of known segments, coefficients in range. A panic in it is returned as an error.

mod bit_planes;
mod check;
mod coefficients;
mod tile;
mod unchanged;

use crate::decode::{
    DecodeOptions, Decoder, FrameHeader, JpegBackend, JpegSegments, append_segment_index,
};
use crate::panicked::caught;
use crate::sample::Limits;
use crate::source::{EncodedImage, ImageMode};
pub use bit_planes::BitPlaneCodec;
use coefficients::Coefficients;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::{RGB, memory};
pub use tile::Tile;
pub use unchanged::Unchanged;

/// Re-cuts JPEGs. Each thread has its own, which reuses its buffers.
///
/// ```no_run
/// use fuseloop::Limits;
/// use fuseloop::recut::{Recutter, Tile};
///
/// let mut recutter = Recutter::new(Tile::default(), Limits::DEFAULT);
/// let jpeg = std::fs::read("photo.jpg")?;
/// match recutter.recut(&jpeg) {
///     Ok(recut) => std::fs::write("photo.jpg", recut)?,
///     Err(unchanged) => println!("left as it is: {unchanged}"),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Recutter {
    tile: Tile,
    limits: Limits,
    /// Decodes the original, with another decoder than the loader's.
    before: Decoder,
    /// Decodes the re-cut file.
    after: Decoder,
    /// Decodes the edges of the re-cut file, with the same decoder as `before`.
    zune: Decoder,
}

impl Recutter {
    /// Creates a re-cutter with tiles of `tile`; images over `limits` are left unchanged.
    #[must_use]
    pub fn new(tile: Tile, limits: Limits) -> Self {
        let options = DecodeOptions { limits, ..DecodeOptions::default() };
        let zune = || Decoder::with_backend(JpegBackend::Zune, options);
        Self { tile, limits, before: zune(), after: Decoder::new(options), zune: zune() }
    }

    /// Returns the same image as an interleaved baseline JPEG with restart markers.
    ///
    /// # Errors
    ///
    /// Returns why the image must be left unchanged. Never panics, whatever the bytes.
    pub fn recut(&mut self, jpeg: &[u8]) -> Result<Vec<u8>, Unchanged> {
        caught(|| self.try_recut(jpeg)).unwrap_or_else(|message| {
            *self = Self::new(self.tile, self.limits);
            Err(Unchanged::Panicked { message })
        })
    }

    fn try_recut(&mut self, jpeg: &[u8]) -> Result<Vec<u8>, Unchanged> {
        self.check_bytes(jpeg)?;
        let parts = JpegSegments::find(jpeg)?;
        check::check(&parts, &self.limits)?;
        // libjpeg-turbo-rs aborts the process where there is no memory.
        let bytes = 2 * coefficients::bytes(&parts.frame) + 3 * jpeg.len() as u64;
        memory::probe(usize::try_from(bytes).unwrap_or(usize::MAX), "the coefficients of a JPEG")?;
        let blocks = coefficients::read(jpeg, &parts)?;
        let interval = self.tile.interval(parts.frame.width, coefficients::mcu_width(&parts.frame));
        let (coded, blocks) = coefficients::write(&parts.frame, blocks, interval)?;
        let recut = assemble(jpeg, &parts, &coded)?;
        drop(coded);
        self.check_bytes(&recut)?;
        self.prove(jpeg, &recut, &parts, blocks)?;
        let size = Size::new(parts.frame.height.into(), parts.frame.width.into());
        if size.pixels() > MAX_REUSED_PIXELS {
            *self = Self::new(self.tile, self.limits);
        }
        Ok(recut)
    }

    fn check_bytes(&self, jpeg: &[u8]) -> Result<(), Unchanged> {
        let (len, max) = (jpeg.len() as u64, self.limits.max_sample_bytes);
        if len > max { Err(Unchanged::Bytes { len, max }) } else { Ok(()) }
    }

    /// Refuses a re-cut file that does not decode to the pixels of the original.
    fn prove(
        &mut self,
        jpeg: &[u8],
        recut: &[u8],
        parts: &JpegSegments,
        blocks: Coefficients,
    ) -> Result<(), Unchanged> {
        let size = Size::new(parts.frame.height.into(), parts.frame.width.into());
        let cut = image(recut, size);
        let is_usual = self.after.open(&cut).map_err(Unchanged::undecodable)?.decodes_windows();
        if is_usual && (parts.frame.progressive || parts.scans.len() == 1) {
            drop(blocks); // frees memory for the pixels
            match self.has_the_same_pixels(jpeg, recut, &parts.frame)? {
                Some(true) => return Ok(()),
                Some(false) => return Err(Unchanged::Differs),
                None => {}
            }
            return self.prove_blocks(jpeg, recut, parts, coefficients::read(jpeg, parts)?);
        }
        self.prove_blocks(jpeg, recut, parts, blocks)
    }

    /// Refuses a re-cut file that does not have the coefficients of the original, `blocks`, or one of the two files if it
    /// can't be decoded.
    fn prove_blocks(
        &mut self,
        jpeg: &[u8],
        recut: &[u8],
        parts: &JpegSegments,
        blocks: Coefficients,
    ) -> Result<(), Unchanged> {
        let again = coefficients::read(recut, &JpegSegments::find(recut)?)?;
        if !coefficients::are_same(&parts.frame, &blocks, &again) {
            return Err(Unchanged::Differs);
        }
        drop((blocks, again)); // frees memory for the pixels
        let size = Size::new(parts.frame.height.into(), parts.frame.width.into());
        self.after.decode(&image(jpeg, size), size.full())?;
        self.after.decode(&image(recut, size), size.full()).map_err(Unchanged::undecodable)?;
        Ok(())
    }

    /// Compares all pixels: those that zune-jpeg decodes from the original, and those that the loader
    /// decodes from the re-cut file, one band of rows after the other. Where the two decoders' rules for
    /// an image's edge differ, zune-jpeg decodes the re-cut file's edge too. `None` if zune-jpeg refuses the original.
    fn has_the_same_pixels(
        &mut self,
        jpeg: &[u8],
        recut: &[u8],
        frame: &FrameHeader,
    ) -> Result<Option<bool>, Unchanged> {
        let size = Size::new(frame.height.into(), frame.width.into());
        let edges = edges(frame);
        let inside = Size::new(
            size.height - u32::from(edges.last_row),
            size.width - u32::from(edges.last_column),
        );
        self.after.size(&image(recut, size)).map_err(Unchanged::undecodable)?;
        let before = match self.before.decode(&image(jpeg, size), size.full()) {
            Ok(before) => before,
            Err(error) if error.lacks_memory() => return Err(error.into()),
            Err(_) => return Ok(None),
        };
        let band = (BAND / size.width).max(64);
        for top in (0..size.height).step_by(band as usize) {
            let height = band.min(size.height - top);
            let window = Window { top, left: 0, height, width: size.width };
            let after =
                self.after.decode(&image(recut, size), window).map_err(Unchanged::undecodable)?;
            let after = after.window(window).ok_or(Unchanged::Differs)?;
            let shown = RGB * inside.width as usize;
            let rows = (top..top + height).take_while(|&y| y < inside.height);
            if rows.zip(0..).any(|(y, row)| before.view.row(y)[..shown] != after.row(row)[..shown])
            {
                return Ok(Some(false));
            }
        }
        let column = Window { left: size.width - 1, width: 1, ..size.full() };
        let row = Window { top: size.height - 1, height: 1, ..size.full() };
        let asked = [(edges.last_column, column), (edges.last_row, row)];
        for (_, window) in asked.into_iter().filter(|(differs, _)| *differs) {
            let again =
                self.zune.decode(&image(recut, size), window).map_err(Unchanged::undecodable)?;
            let (before, after) = (before.window(window), again.window(window));
            let (Some(before), Some(after)) = (before, after) else {
                return Err(Unchanged::Differs);
            };
            if (0..window.height).any(|y| before.row(y) != after.row(y)) {
                return Ok(Some(false));
            }
        }
        Ok(Some(true))
    }
}

/// Most pixels of an image whose buffers are reused for the next one: 48 MB.
const MAX_REUSED_PIXELS: u64 = 16 << 20;

/// Pixels of a band, roughly.
const BAND: u32 = 16 << 20;

fn image(bytes: &[u8], Size { height, width }: Size) -> EncodedImage<'_> {
    EncodedImage { mode: ImageMode::Jpeg, width, height, bytes }
}

/// Edges at which the loader's own decoder and zune-jpeg differ.
struct Edges {
    last_column: bool,
    last_row: bool,
}

/// zune-jpeg interpolates chroma of half the columns or rows with the samples that fill up the image's
/// last block; see `mcu_row` of the crate fuseloop-jpeg.
fn edges(frame: &FrameHeader) -> Edges {
    let (h, v) = coefficients::max_factors(&frame.components);
    let differs =
        |side: u16, factor| factor == 2 && side.is_multiple_of(2) && !side.is_multiple_of(16);
    Edges { last_column: differs(frame.width, h), last_row: differs(frame.height, v) }
}

/// Assembles the re-cut file: the preserved segments of `jpeg`, then the tables and the scan of `coded`.
fn assemble(jpeg: &[u8], parts: &JpegSegments, coded: &[u8]) -> Result<Vec<u8>, Unchanged> {
    let found = JpegSegments::find(coded)?;
    let tables = found.scans.first().and_then(|scan| scan.tables.first());
    let tables = tables.ok_or_else(|| Unchanged::damaged(&"no tables were written"))?;
    let mut recut = Vec::with_capacity(jpeg.len() + jpeg.len() / 16);
    recut.extend_from_slice(&[0xff, 0xd8]);
    parts.preserved.iter().for_each(|part| recut.extend_from_slice(&jpeg[part.clone()]));
    // Baseline files have tables of 8 bits (T.81, B.2.4.1).
    let marker = if parts.wide_tables { 0xc1 } else { 0xc0 };
    coefficients::write_frame(&mut recut, marker, &parts.frame);
    recut.extend_from_slice(&coded[tables.start..]);
    append_segment_index(&mut recut)?;
    Ok(recut)
}
