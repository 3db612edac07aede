//! WebP: decodes a window of a lossy image, and other images as a whole, to the same pixels as Pillow's `convert("RGB")`, `convert("L")` and
//! `convert("RGBA")`.
//!
//! | stored as             | becomes                                                                     |
//! |-----------------------|-----------------------------------------------------------------------------|
//! | lossy                 | RGB, chroma enlarged as libwebp does by default ("fancy upsampling")        |
//! | lossless              | RGB, or RGB and alpha, exactly                                              |
//! | either, with alpha    | alpha is dropped, or kept in [`ImageReadMode::RgbAlpha`]                    |
//! | an animation          | its first image, on a transparent canvas                                    |
//!
//! A lossless image is read as an index where red, green and blue are the same number. A lossy one is refused as
//! such, since it has no exact numbers. Colour profiles are not applied, as in Pillow; the image is turned by its EXIF
//! orientation afterwards, where that is asked for.
//!
//! Lossy images are decoded by `fuseloop_webp`, down to the last row of the window; what is damaged below it is not seen.
//! Their alpha is read only in [`ImageReadMode::RgbAlpha`], whole if it is compressed. Of a lossless image or an animation,
//! all pixels are decoded before those of the window are copied.
//!
//! The sizes in all headers are compared, and checked against [`Limits`](crate::sample::Limits), before a decoder
//! takes memory by them. There is no least number of bytes for a size: an image of one colour takes a few.
//!
//! The decoder of lossless images, compressed alpha and animations is image-webp. It panics at some damaged images, such as
//! those whose Huffman codes are more than complete (its issue 118); here a panic of it is an error as any other damage.

use super::buffer::{check_bytes, check_size, image_bytes, room};
use super::error::{no_index, no_memory, not_gray16};
use super::{DecodeOptions, Decoded, ImageReadMode};
use crate::error::{Damage, Error, fail};
use crate::panicked::call_decoder;
use crate::source::{EncodedImage, LossyChunks, WebpHeader};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::RGB;
use fuseloop_webp::{AlphaChunk, LossyDecoder, LossyError};
use image_webp::WebPDecoder;
use std::fmt;
use std::io::Cursor;

/// The crate that decodes lossless WebPs.
const CRATE: &str = "image-webp";

/// Decodes WebPs. Each worker has its own decoder, which reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct WebpDecoder {
    options: DecodeOptions,
    lossy: LossyDecoder,
    /// The alpha of a lossy image.
    alpha: Vec<u8>,
    /// The image as RGB or RGBA; of a lossy image, the window as RGB.
    stored: Vec<u8>,
    /// The pixels of the window.
    pixels: Vec<u8>,
}

fn damaged(reason: impl fmt::Display) -> Error {
    fail!(Damaged, "a WebP that can't be decoded: {reason}")
}

fn refused(error: LossyError) -> Error {
    match error {
        LossyError::NoMemory { bytes } => no_memory(bytes),
        error => damaged(error),
    }
}

/// Decodes the first `rows` rows of the alpha of a lossy image.
fn alpha_rows<'a>(
    buffer: &'a mut Vec<u8>,
    chunk: &[u8],
    size: Size,
    rows: u32,
) -> Result<&'a [u8], Error> {
    let chunk = AlphaChunk::parse(chunk).map_err(refused)?;
    let len = image_bytes(Size::new(rows, size.width), 1)?;
    let values = if let Some(stored) = chunk.stored(size).map_err(refused)? {
        let values = room(buffer, len)?;
        values.copy_from_slice(&stored[..len]);
        values
    } else {
        let file = chunk.lossless_file(size);
        let opened = call_decoder(CRATE, || WebPDecoder::new(Cursor::new(&file[..])));
        let mut decoder = opened.map_err(damaged)?;
        let values = room(buffer, image_bytes(size, RGB)?)?;
        call_decoder(CRATE, || decoder.read_image(values)).map_err(damaged)?;
        // The green ones, each moved to before where it was.
        for i in 0..len {
            values[i] = values[RGB * i + 1];
        }
        &mut values[..len]
    };
    chunk.unfilter(values, size.width as usize);
    Ok(values)
}

impl WebpDecoder {
    pub(super) fn new(options: DecodeOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Reads the size from the headers and checks it, and whether `mode` can read the image.
    pub(super) fn size(
        &self,
        image: &EncodedImage<'_>,
        mode: ImageReadMode,
    ) -> Result<Size, Error> {
        let header = WebpHeader::parse(image.bytes).map_err(damaged)?;
        check_bytes(image, &self.options.limits)?;
        check_size(image, header.size, &self.options.limits, damaged)?;
        match mode {
            ImageReadMode::Gray16 => Err(not_gray16("a WebP", "gray")),
            ImageReadMode::Index if header.is_lossy => {
                let error = fail!(
                    Damaged,
                    "a lossy WebP holds no exact numbers, so it can't be read as an index: store masks as PNG or lossless \
                     WebP"
                );
                Err(error.damage(Damage::Unsupported))
            }
            _ => Ok(header.size),
        }
    }

    /// Decodes `wanted`, a window of an image of this size.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        size: Size,
        mode: ImageReadMode,
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        match LossyChunks::find(bytes) {
            Some(chunks) => self.decode_lossy(&chunks, size, mode, wanted),
            None => self.decode_whole(bytes, size, mode, wanted),
        }
    }

    /// Decodes a window of a lossy image that is no animation.
    fn decode_lossy(
        &mut self,
        chunks: &LossyChunks<'_>,
        size: Size,
        mode: ImageReadMode,
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        let rgb = room(&mut self.stored, image_bytes(wanted.size(), RGB)?)?;
        self.lossy.decode(chunks.frame, wanted, rgb).map_err(refused)?;
        let (top, left) = (wanted.top, wanted.left);
        if mode == ImageReadMode::Rgb {
            let bytes = rgb.len();
            let view = mode.view(rgb, wanted.size()).ok_or_else(|| no_memory(bytes))?;
            return Ok(Decoded { view, top, left });
        }
        let channels = usize::from(mode.channels());
        let bytes = image_bytes(wanted.size(), channels)?;
        let out = room(&mut self.pixels, bytes)?;
        for (rgb, out) in rgb.as_chunks::<RGB>().0.iter().zip(out.chunks_exact_mut(channels)) {
            // A lossy image is not read as an index.
            let _ = mode.read(*rgb, out);
        }
        if let (ImageReadMode::RgbAlpha, Some(alpha)) = (mode, chunks.alpha) {
            let width = size.width as usize;
            let alpha = alpha_rows(&mut self.alpha, alpha, size, top + wanted.height)?;
            let rows = alpha.chunks_exact(width).skip(top as usize);
            let out = out.as_chunks_mut::<{ RGB + 1 }>().0;
            for (alpha, out) in rows.zip(out.chunks_exact_mut(wanted.width as usize)) {
                for (pixel, &alpha) in out.iter_mut().zip(&alpha[left as usize..]) {
                    pixel[RGB] = alpha;
                }
            }
        }
        let view = mode.view(out, wanted.size()).ok_or_else(|| no_memory(bytes))?;
        Ok(Decoded { view, top, left })
    }

    /// Decodes all pixels and copies those of `wanted`.
    fn decode_whole(
        &mut self,
        bytes: &[u8],
        size: Size,
        mode: ImageReadMode,
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        let opened = call_decoder(CRATE, || WebPDecoder::new(Cursor::new(bytes)));
        let mut decoder = opened.map_err(damaged)?;
        let (width, height) = decoder.dimensions();
        if Size::new(height, width) != size {
            return Err(fail!(
                Damaged,
                "a WebP that can't be decoded: two decoders read different sizes from its headers"
            ));
        }
        let has_alpha = decoder.has_alpha();
        let channels = if has_alpha { RGB + 1 } else { RGB };
        let stored = room(&mut self.stored, image_bytes(size, channels)?)?;
        call_decoder(CRATE, || decoder.read_image(stored)).map_err(damaged)?;
        let is_stored = match mode {
            ImageReadMode::Rgb => !has_alpha,
            ImageReadMode::RgbAlpha => has_alpha,
            _ => false,
        };
        if is_stored {
            let bytes = stored.len();
            let view = mode.view(stored, size).ok_or_else(|| no_memory(bytes))?;
            return Ok(Decoded { view, top: 0, left: 0 });
        }
        let out_channels = usize::from(mode.channels());
        let bytes = image_bytes(wanted.size(), out_channels)?;
        let pixels = room(&mut self.pixels, bytes)?;
        let rows = stored.chunks_exact(size.width as usize * channels).skip(wanted.top as usize);
        let out = pixels.chunks_exact_mut(wanted.width as usize * out_channels);
        for (y, (row, out)) in (wanted.top..).zip(rows.zip(out)) {
            let row = row.chunks_exact(channels).skip(wanted.left as usize);
            for (x, (pixel, out)) in
                (wanted.left..).zip(row.zip(out.chunks_exact_mut(out_channels)))
            {
                let rgb = [pixel[0], pixel[1], pixel[2]];
                if !mode.read(rgb, out) {
                    let pixel = rgb.map(u16::from);
                    return Err(no_index(y, x, pixel));
                }
            }
        }
        let view = mode.view(pixels, wanted.size()).ok_or_else(|| no_memory(bytes))?;
        Ok(Decoded { view, top: wanted.top, left: wanted.left })
    }
}
