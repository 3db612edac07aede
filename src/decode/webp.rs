//! WebP: decodes the whole image, to the same pixels as Pillow's `convert("RGB")`, `convert("L")` and
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
//! orientation afterwards, where that is asked for. The format knows no windows: all pixels are decoded before those of
//! the window are copied.
//!
//! The sizes in all headers are compared, and checked against [`Limits`](crate::sample::Limits), before the decoder
//! takes memory by them. There is no least number of bytes for a size: an image of one colour takes a few.
//!
//! The decoder is image-webp. It panics at some damaged images, such as lossless ones whose Huffman codes are more than
//! complete (its issue 118); here a panic of it is an error as any other damage.

use super::buffer::{check_bytes, check_size, image_bytes, room};
use super::error::{no_index, no_memory, not_gray16};
use super::{DecodeOptions, Decoded, ImageReadMode};
use crate::error::{Damage, Error, fail};
use crate::panicked::call_decoder;
use crate::source::{EncodedImage, WebpHeader};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::RGB;
use image_webp::WebPDecoder;
use std::fmt;
use std::io::Cursor;

/// The crate that decodes WebPs.
const CRATE: &str = "image-webp";

/// Decodes WebPs. Each worker has its own decoder, which reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct WebpDecoder {
    options: DecodeOptions,
    /// The image as RGB or RGBA.
    stored: Vec<u8>,
    /// The pixels of the window.
    pixels: Vec<u8>,
}

fn damaged(reason: impl fmt::Display) -> Error {
    fail!(Damaged, "a WebP that can't be decoded: {reason}")
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
