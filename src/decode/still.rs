//! Small formats whose images are decoded whole: BMP, GIF, PNM, and by features JPEG XL and HEIC.
//!
//! | stored as                | becomes                                                                            |
//! |--------------------------|------------------------------------------------------------------------------------|
//! | gray, RGB                | 8 bits: `level * 255 / white`, rounded to the nearest, an exact half to the even number |
//! | indices                  | the palette's colours                                                              |
//! | alpha                    | dropped, or kept in [`ImageReadMode::RgbAlpha`]; that of a palette, too              |
//! | read as an index         | the index, or the level as stored                                                  |
//! | read as 16-bit gray      | the levels of gray whose white is over 255, as stored: they are not scaled          |
//!
//! These are Pillow's pixels (`convert("RGB")`, `"L"`, `"RGBA"`), but for gray of more than 8 bits, which Pillow clips to
//! 255. The size is checked against [`Limits`](crate::sample::Limits) and against the number of stored bytes before
//! memory is allocated. A window is copied out of the whole image.

use super::buffer::{check_bytes, check_size, image_bytes, room};
use super::error::{no_index, no_memory, not_gray16, too_short};
use super::{DecodeOptions, Decoded, ImageReadMode};
use crate::error::{Damage, Error, fail};
use crate::panicked::call_decoder;
use crate::source::{EncodedImage, ImageFormat, ImageMode, Still, StillFormat};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::RGB;

/// Decodes such images. Each worker has its own decoder, which reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct StillDecoder {
    options: DecodeOptions,
    /// The image as its file stores it.
    stored: Vec<u8>,
    /// The pixels of the window.
    pixels: Vec<u8>,
    /// The levels of 8 bits that levels of another white become, and that white.
    levels: (Vec<u8>, u16),
}

/// An image whose header was read.
pub(super) struct StillImage {
    header: Still,
    format: &'static ImageFormat,
    reader: StillFormat,
}

impl std::fmt::Debug for StillImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.header.fmt(f)
    }
}

impl StillImage {
    pub(super) fn size(&self) -> Size {
        self.header.size
    }

    pub(super) fn orientation(&self) -> u8 {
        self.header.orientation
    }

    pub(super) fn noun(&self) -> &'static str {
        self.format.noun()
    }

    /// Returns whether the file has images after the first.
    pub(super) fn has_more(&self, bytes: &[u8]) -> bool {
        (self.reader.has_more)(bytes)
    }

    fn damaged(&self, reason: &str) -> Error {
        damaged(self.format, reason)
    }
}

fn damaged(format: &ImageFormat, reason: &str) -> Error {
    fail!(Damaged, "{} that can't be decoded: {reason}", format.name)
}

impl StillDecoder {
    pub(super) fn new(options: DecodeOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Reads the header and checks it, and whether `mode` can read the image.
    pub(super) fn open(
        &self,
        image: &EncodedImage<'_>,
        kind: ImageMode,
        mode: ImageReadMode,
    ) -> Result<StillImage, Error> {
        let format = kind.file_format().expect("modes without a format have decoders of their own");
        let Some(reader) = format.still else {
            let reason = format.needs_feature().unwrap_or_default();
            return Err(fail!(Damaged, "{reason}").damage(Damage::Unsupported));
        };
        let limits = &self.options.limits;
        check_bytes(image, limits)?;
        let header = call_decoder(format.noun(), || (reader.header)(image.bytes));
        let header = header.map_err(|reason| damaged(format, &reason))?;
        check_size(image, header.size, limits, |reason| damaged(format, &reason))?;
        let found = image.bytes.len() as u64;
        if found < header.least_bytes {
            return Err(too_short(header.size, found, header.least_bytes));
        }
        match mode {
            ImageReadMode::Gray16 if header.channels > 1 || header.white < 256 => {
                let fits = match (&header.palette, header.channels) {
                    (Some(_), _) => "index",
                    (None, 1 | 2) => "gray",
                    _ => "rgb",
                };
                Err(not_gray16(format.name, fits))
            }
            ImageReadMode::Index if header.is_lossy => {
                let error = fail!(
                    Damaged,
                    "{} holds no exact numbers, so it can't be read as an index: store masks as PNG or raw pixels",
                    format.name
                );
                Err(error.damage(Damage::Unsupported))
            }
            _ => Ok(StillImage { header, format, reader }),
        }
    }

    /// Decodes `wanted`, a window of an image with this header.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        image: &StillImage,
        mode: ImageReadMode,
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        let header = &image.header;
        let (size, pixel) = (header.size, header.pixel_bytes());
        let stored = room(&mut self.stored, image_bytes(size, pixel)?)?;
        call_decoder(image.noun(), || (image.reader.pixels)(bytes, header, stored))
            .map_err(|reason| image.damaged(&reason))?;
        let is_plain = header.palette.is_none() && header.white == u16::from(u8::MAX);
        let is_stored = match mode {
            ImageReadMode::Rgb => header.channels == 3,
            ImageReadMode::RgbAlpha => header.channels == 4,
            ImageReadMode::Gray | ImageReadMode::Index => header.channels == 1,
            ImageReadMode::Gray16 => false,
        };
        if is_plain && is_stored {
            let bytes = stored.len();
            let view = mode.view(stored, size).ok_or_else(|| no_memory(bytes))?;
            return Ok(Decoded { view, top: 0, left: 0 });
        }
        scale_table(&mut self.levels, header.white);
        let samples = Samples { header, levels: &self.levels.0 };
        let out_pixel = mode.format().pixel_bytes();
        let bytes = image_bytes(wanted.size(), out_pixel)?;
        let pixels = room(&mut self.pixels, bytes)?;
        let rows = stored.chunks_exact(size.width as usize * pixel).skip(wanted.top as usize);
        let out = pixels.chunks_exact_mut(wanted.width as usize * out_pixel);
        for (y, (row, out)) in (wanted.top..).zip(rows.zip(out)) {
            let row = row.chunks_exact(pixel).skip(wanted.left as usize);
            for (x, (pixel, out)) in (wanted.left..).zip(row.zip(out.chunks_exact_mut(out_pixel))) {
                samples.read(pixel, mode, out).map_err(|found| no_index(y, x, found))?;
            }
        }
        let view = mode.view(pixels, wanted.size()).ok_or_else(|| no_memory(bytes))?;
        Ok(Decoded { view, top: wanted.top, left: wanted.left })
    }
}

/// Makes the table of `round(level / white * 255)`, in the doubles that Pillow computes it in.
fn scale_table(levels: &mut (Vec<u8>, u16), white: u16) {
    if levels.1 != white {
        let scaled = |level: u16| (f64::from(level) / f64::from(white) * 255.0).round_ties_even();
        *levels = ((0..=white).map(|level| scaled(level) as u8).collect(), white);
    }
}

/// How the samples of a pixel are read.
struct Samples<'a> {
    header: &'a Still,
    levels: &'a [u8],
}

impl Samples<'_> {
    /// Writes what a pixel is read as. The error is the numbers of a pixel that is read as an index, and has none.
    fn read(&self, pixel: &[u8], mode: ImageReadMode, out: &mut [u8]) -> Result<(), [u16; RGB]> {
        let Still { channels, white, ref palette, .. } = *self.header;
        let sample = |at: usize| match white {
            256.. => pixel.as_chunks::<2>().0.get(at).map_or(0, |two| u16::from_ne_bytes(*two)),
            _ => pixel.get(at).map_or(0, |one| u16::from(*one)),
        };
        let level = |at| self.levels.get(usize::from(sample(at))).copied().unwrap_or(u8::MAX);
        let is_gray = channels <= 2;
        match mode {
            ImageReadMode::Gray16 => {
                out.copy_from_slice(&sample(0).to_ne_bytes());
                return Ok(());
            }
            ImageReadMode::Index => {
                let numbers = if is_gray { [sample(0); RGB] } else { [0, 1, 2].map(sample) };
                let is_number = numbers[0] <= u8::MAX.into() && numbers == [numbers[0]; RGB];
                out[0] = numbers[0] as u8;
                return if is_number { Ok(()) } else { Err(numbers) };
            }
            _ => {}
        }
        let (rgb, alpha) = match palette {
            Some(palette) => {
                let [r, g, b, alpha] = palette[usize::from(pixel[0])];
                ([r, g, b], alpha)
            }
            None => {
                let rgb = if is_gray { [level(0); RGB] } else { [0, 1, 2].map(level) };
                let has_alpha = channels % 2 == 0;
                (rgb, if has_alpha { level(usize::from(channels) - 1) } else { u8::MAX })
            }
        };
        mode.read(rgb, out);
        if mode == ImageReadMode::RgbAlpha {
            out[RGB] = alpha;
        }
        Ok(())
    }
}
