//! WebP: decodes a window of an image to the same pixels as Pillow's `convert("RGB")`, `convert("L")` and
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
//! The decoder is `fuseloop_webp`. It reads an image down to the last row of the window; what is damaged below it is not seen.
//! The alpha of a lossy image is read only in [`ImageReadMode::RgbAlpha`].
//!
//! The sizes in all headers are compared, and checked against [`Limits`](crate::sample::Limits), before a decoder
//! takes memory by them. There is no least number of bytes for a size: an image of one colour takes a few.

use super::buffer::{check_bytes, check_size, image_bytes, room};
use super::error::{no_index, no_memory, not_gray16};
use super::{DecodeOptions, Decoded, ImageReadMode};
use crate::error::{Damage, Error, fail};
use crate::source::{EncodedImage, WebpFrame, WebpHeader, WebpImage};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::RGB;
use fuseloop_webp::{
    AlphaChunk, LosslessDecoder, LosslessError, LosslessHeader, LosslessPixels, LossyDecoder,
    LossyError, frame_size,
};
use std::fmt;

/// The channels of RGBA.
const RGBA: usize = RGB + 1;

/// Decodes WebPs. Each worker has its own decoder, which reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct WebpDecoder {
    options: DecodeOptions,
    frames: FrameDecoder,
    /// The window as RGB or RGBA.
    stored: Vec<u8>,
    /// The pixels of the window.
    pixels: Vec<u8>,
}

/// Decodes the frames of WebPs.
#[derive(Debug, Default)]
struct FrameDecoder {
    lossy: LossyDecoder,
    lossless: LosslessDecoder,
    /// The window of a lossy image as RGB, and its alpha.
    rgb: Vec<u8>,
    alpha: Vec<u8>,
}

fn damaged(reason: impl fmt::Display) -> Error {
    fail!(Damaged, "a WebP that can't be decoded: {reason}")
}

fn refused(error: LossyError) -> Error {
    match error {
        LossyError::NoMemory { bytes } => no_memory(bytes),
        LossyError::Alpha(LosslessError::NoMemory { bytes }) => no_memory(bytes),
        error => damaged(error),
    }
}

fn refused_lossless(error: LosslessError) -> Error {
    match error {
        LosslessError::NoMemory { bytes } => no_memory(bytes),
        error => damaged(error),
    }
}

/// Refuses a file that is shorter than its header says, as libwebp does: bytes are missing at its end, or in its middle,
/// where all after them are read as others.
fn check_length(file: &[u8]) -> Result<(), Error> {
    let stated =
        file.get(4..).and_then(|rest| rest.first_chunk()).map(|len| u32::from_le_bytes(*len));
    let (found, stated) = (file.len() as u64, u64::from(stated.unwrap_or(0)) + 8);
    if found < stated {
        return Err(damaged(format_args!("{found} bytes, and its header says {stated}")));
    }
    Ok(())
}

/// Returns the size of a frame.
fn size_of(frame: &WebpFrame<'_>) -> Result<Size, Error> {
    match frame {
        WebpFrame::Lossy { frame, .. } => frame_size(frame).map_err(refused),
        WebpFrame::Lossless(frame) => {
            LosslessHeader::parse(frame).map(|header| header.size).map_err(refused_lossless)
        }
    }
}

impl FrameDecoder {
    /// Writes a window of a frame as RGB or RGBA.
    fn decode(
        &mut self,
        frame: &WebpFrame<'_>,
        window: Window,
        channels: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let has_alpha = channels == RGBA;
        match *frame {
            WebpFrame::Lossless(frame) => {
                let pixels = if has_alpha { LosslessPixels::RgbAlpha } else { LosslessPixels::Rgb };
                self.lossless.decode(frame, window, pixels, out).map_err(refused_lossless)
            }
            WebpFrame::Lossy { frame, .. } if !has_alpha => {
                self.lossy.decode(frame, window, out).map_err(refused)
            }
            WebpFrame::Lossy { frame, alpha } => {
                let size = frame_size(frame).map_err(refused)?;
                let rgb = room(&mut self.rgb, image_bytes(window.size(), RGB)?)?;
                self.lossy.decode(frame, window, rgb).map_err(refused)?;
                let values = room(&mut self.alpha, image_bytes(window.size(), 1)?)?;
                match alpha {
                    Some(alpha) => AlphaChunk::parse(alpha)
                        .and_then(|chunk| chunk.decode(&mut self.lossless, size, window, values))
                        .map_err(refused)?,
                    None => values.fill(255),
                }
                let pixels = rgb.as_chunks::<RGB>().0.iter().zip(&*values);
                for (out, (&[r, g, b], &a)) in out.as_chunks_mut::<RGBA>().0.iter_mut().zip(pixels)
                {
                    *out = [r, g, b, a];
                }
                Ok(())
            }
        }
    }
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
        check_length(image.bytes)?;
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

    /// Decodes `wanted`, a window of an image.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        mode: ImageReadMode,
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        let image = WebpImage::find(bytes).ok_or_else(|| damaged("it has no image"))?;
        let has_alpha = mode == ImageReadMode::RgbAlpha && image.has_alpha;
        let channels = if has_alpha { RGBA } else { RGB };
        self.decode_canvas(&image, wanted, channels)?;
        let (stored, top, left) = (&self.stored[..], wanted.top, wanted.left);
        if has_alpha || mode == ImageReadMode::Rgb {
            let bytes = stored.len();
            let view = mode.view(stored, wanted.size()).ok_or_else(|| no_memory(bytes))?;
            return Ok(Decoded { view, top, left });
        }
        let channels = usize::from(mode.channels());
        let bytes = image_bytes(wanted.size(), channels)?;
        let out = room(&mut self.pixels, bytes)?;
        let pixels = stored.as_chunks::<RGB>().0.iter();
        for (i, (rgb, out)) in (0..).zip(pixels.zip(out.chunks_exact_mut(channels))) {
            if !mode.read(*rgb, out) {
                let (y, x) = (top + i / wanted.width, left + i % wanted.width);
                return Err(no_index(y, x, rgb.map(u16::from)));
            }
        }
        let view = mode.view(out, wanted.size()).ok_or_else(|| no_memory(bytes))?;
        Ok(Decoded { view, top, left })
    }

    /// Decodes a window of the canvas to `stored`, as RGB or RGBA. The canvas outside of the image is black
    /// and transparent.
    fn decode_canvas(
        &mut self,
        image: &WebpImage<'_>,
        wanted: Window,
        channels: usize,
    ) -> Result<(), Error> {
        let (left, top) = image.corner;
        let size = size_of(&image.frame)?;
        // The part of the image in the window, as rows and columns of the image.
        let part = |first: u32, len: u32, corner: u32, side: u32| {
            let start = first.saturating_sub(corner);
            (start, (first + len).saturating_sub(corner).min(side).saturating_sub(start))
        };
        let (part_top, height) = part(wanted.top, wanted.height, top, size.height);
        let (part_left, width) = part(wanted.left, wanted.width, left, size.width);
        let part = Window { top: part_top, left: part_left, height, width };
        let stored = room(&mut self.stored, image_bytes(wanted.size(), channels)?)?;
        if part.size() == wanted.size() {
            return self.frames.decode(&image.frame, part, channels, stored);
        }
        stored.fill(0);
        if height == 0 || width == 0 {
            return Ok(());
        }
        let pixels = room(&mut self.pixels, image_bytes(part.size(), channels)?)?;
        self.frames.decode(&image.frame, part, channels, pixels)?;
        let first_row = (top + part_top - wanted.top) as usize;
        let first = channels * (left + part_left - wanted.left) as usize;
        let len = channels * width as usize;
        let rows = stored.chunks_exact_mut(channels * wanted.width as usize).skip(first_row);
        for (row, pixels) in rows.zip(pixels.chunks_exact(len)) {
            row[first..][..len].copy_from_slice(pixels);
        }
        Ok(())
    }
}
