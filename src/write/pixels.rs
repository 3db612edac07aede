//! Decodes, resizes and re-cuts images, with the working memory of one thread.

use crate::decode::{DecodeOptions, Decoder, ImageReadMode, UnreadParts};
use crate::recut::{BitPlaneCodec, Recutter, Tile, Unchanged};
use crate::sample::Limits;
use crate::source::{EncodedImage, ImageMode};
use fuseloop_ops::Size;
use fuseloop_ops::internals::area::{AreaError, AreaRows, AreaScratch, AreaTables};
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::internals::{ImageView, RGB, memory};
use std::sync::Arc;

/// Why the pixels of an image are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PixelsError {
    /// The JPEG or PNG is damaged, or of an unsupported kind.
    #[error(transparent)]
    Decode(#[from] crate::error::Error),
    /// The image can't be resized.
    #[error(transparent)]
    Resize(#[from] AreaError),
    /// The system has no memory for the pixels.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// There are fewer bytes than the image needs.
    #[error("fewer bytes than {size} RGB pixels need")]
    Short {
        /// The image's size.
        size: Size,
    },
}

/// The largest image, in pixels, whose buffers stay allocated for the next one: 48 MB.
const MOST_KEPT: u64 = 16 << 20;

/// The decoder of one thread and its memory.
pub(super) struct PixelReader {
    decoder: Decoder,
    scratch: AreaScratch,
    /// One re-cutter for each tile size among the fields, created when first needed.
    recutters: Vec<(Tile, Recutter)>,
    bit_planes: BitPlaneCodec,
    limits: Limits,
    /// Gets the parts of images that are stored and not read.
    unread: Option<Arc<UnreadParts>>,
}

fn decoder(limits: Limits, unread: Option<&Arc<UnreadParts>>) -> Decoder {
    let decoder = Decoder::new(DecodeOptions { limits, ..DecodeOptions::default() });
    match unread {
        Some(unread) => decoder.warning(unread),
        None => decoder,
    }
}

impl PixelReader {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            decoder: decoder(limits, None),
            scratch: AreaScratch::default(),
            recutters: Vec::new(),
            bit_planes: BitPlaneCodec::new(limits),
            limits,
            unread: None,
        }
    }

    /// Warns by `unread` of what images store and is not read.
    pub(super) fn warning(self, unread: &Arc<UnreadParts>) -> Self {
        let decoder = self.decoder.warning(unread);
        Self { decoder, unread: Some(Arc::clone(unread)), ..self }
    }

    /// Returns the same JPEG with restart markers every `tile`.
    pub(super) fn recut(&mut self, jpeg: &[u8], tile: Tile) -> Result<Vec<u8>, Unchanged> {
        let known = self.recutters.iter().position(|(of, _)| *of == tile);
        let index = known.unwrap_or_else(|| {
            self.recutters.push((tile, Recutter::new(tile, self.limits)));
            self.recutters.len() - 1
        });
        self.recutters[index].1.recut(jpeg)
    }

    /// Returns the same JPEG as bit planes with tiles of `tile`.
    pub(super) fn bit_planes(&mut self, jpeg: &[u8], tile: Tile) -> Result<Vec<u8>, Unchanged> {
        self.bit_planes.pack(jpeg, tile)
    }

    /// Returns the JPEG of which `image` has the bit planes.
    pub(super) fn restore(&mut self, image: &[u8]) -> Result<Vec<u8>, PixelsError> {
        Ok(self.bit_planes.unpack(image)?)
    }

    /// Decodes a whole JPEG only to find errors.
    pub(super) fn verify(&mut self, jpeg: &[u8], size: Size) -> Result<(), PixelsError> {
        self.decoder.decode(&encoded(jpeg, size), size.full())?;
        Ok(())
    }

    /// Decodes a whole audio file only to find errors.
    pub(super) fn check_audio(&self, file: &[u8]) -> Result<(), crate::error::Error> {
        self.decoder.check_audio(file)
    }

    /// Reads the size in the header of a JPEG or PNG.
    pub(super) fn size(&mut self, file: &[u8]) -> Result<Size, PixelsError> {
        Ok(self.decoder.size(&encoded(file, Size::new(0, 0)))?)
    }

    /// Returns the EXIF orientation of an image, from 2 to 8; `None` if it is stored upright.
    pub(super) fn orientation(
        &mut self,
        image: &EncodedImage<'_>,
    ) -> Result<Option<u32>, PixelsError> {
        Ok(self.decoder.open(image)?.turned().map(|(orientation, _)| orientation))
    }

    /// Returns the pixels of a JPEG or PNG of `size` as packed RGB, resized to `out`.
    pub(super) fn decode(
        &mut self,
        file: &[u8],
        size: Size,
        out: Size,
    ) -> Result<Vec<u8>, PixelsError> {
        let decoded = self.decoder.decode(&encoded(file, size), size.full())?;
        let view = decoded.window(size.full()).ok_or(PixelsError::Short { size })?;
        let rgb = resize(view, out, &mut self.scratch);
        self.let_go(size);
        rgb
    }

    /// Returns the class numbers of a mask of `size`, in all three channels of packed RGB: indices into the palette, or
    /// gray levels as stored.
    pub(super) fn class_numbers(
        &mut self,
        file: &[u8],
        size: Size,
    ) -> Result<Vec<u8>, PixelsError> {
        let image = encoded(file, size);
        let mut opened = self.decoder.open_as(&image, ImageReadMode::Index)?;
        let decoded = opened.decode(size.full())?;
        let view = decoded.window(size.full()).ok_or(PixelsError::Short { size })?;
        let mut rgb = memory::with_capacity(RGB * size.pixels() as usize, "a mask")?;
        for y in 0..size.height {
            rgb.extend(view.row(y).iter().flat_map(|&class| [class; RGB]));
        }
        self.let_go(size);
        Ok(rgb)
    }

    /// Calls `each` with the pixels that [`decode`](Self::decode) returns, without a copy if they need
    /// no resize.
    pub(super) fn with_decoded<T>(
        &mut self,
        file: &[u8],
        size: Size,
        out: Size,
        each: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, PixelsError> {
        let bytes = RGB * out.pixels() as usize;
        let decoded = self.decoder.decode(&encoded(file, size), size.full())?;
        let view = decoded.window(size.full()).ok_or(PixelsError::Short { size })?;
        let is_packed = out == size && view.stride() == RGB * out.width as usize;
        let done = match view.data().get(..bytes).filter(|_| is_packed) {
            Some(rgb) => each(rgb),
            None => each(&resize(view, out, &mut self.scratch)?),
        };
        self.let_go(size);
        Ok(done)
    }

    /// Frees the memory of a large image.
    fn let_go(&mut self, size: Size) {
        if size.pixels() > MOST_KEPT {
            self.decoder = decoder(self.limits, self.unread.as_ref());
        }
    }

    /// Resizes packed RGB of `size` to `out`.
    pub(super) fn resize(
        &mut self,
        rgb: &[u8],
        size: Size,
        out: Size,
    ) -> Result<Vec<u8>, PixelsError> {
        let view = ImageView::packed(rgb, size).ok_or(PixelsError::Short { size })?;
        resize(view, out, &mut self.scratch)
    }
}

fn encoded(file: &[u8], size: Size) -> EncodedImage<'_> {
    let (mode, Size { height, width }) = (ImageMode::of_file(file), size);
    EncodedImage { mode, width, height, bytes: file }
}

/// Resizes by area, or makes a packed copy if the size is the same.
fn resize(
    view: ImageView<'_>,
    out: Size,
    scratch: &mut AreaScratch,
) -> Result<Vec<u8>, PixelsError> {
    let tables = AreaTables::new(view.size(), out)?;
    let mut rows = AreaRows::new(&tables, view, 0..out.width, scratch)?;
    let row_bytes = out.width as usize * RGB;
    let mut rgb = vec![];
    memory::resize(&mut rgb, row_bytes * out.height as usize, "an image")?;
    for (y, row) in (0..out.height).zip(rgb.chunks_exact_mut(row_bytes)) {
        rows.row(y, row);
    }
    Ok(rgb)
}
