//! TIFF: decodes the strips or tiles that a window touches, to the same pixels as Pillow's `convert("RGB")`,
//! `convert("L")` and `convert("RGBA")`.
//!
//! | stored as                     | becomes                                                             |
//! |-------------------------------|---------------------------------------------------------------------|
//! | gray of 1, 2, 4, 8 bits       | R = G = B = the level, scaled to 0..=255; inverted if white is zero |
//! | gray of 16 bits               | R = G = B = its upper 8 bits, as OpenCV reads it (Pillow clips it)  |
//! | gray and alpha, 8 or 16 bits  | the level, and alpha; samples of 16 bits keep their upper 8         |
//! | RGB, RGBA of 8 or 16 bits     | the colour, and alpha; samples of 16 bits keep their upper 8        |
//! | RGBA multiplied by alpha      | the colour divided by alpha again, as in Pillow; 8 bits             |
//! | palette of up to 8 bits       | the palette's colours, of which the upper 8 bits are taken          |
//! | CMYK of 8 bits                | RGB by Pillow's formula, without a colour profile                   |
//!
//! Alpha is dropped unless it is read ([`ImageReadMode::RgbAlpha`]). [`ImageReadMode::Index`] takes the index into the
//! palette, or the level that is not scaled; [`ImageReadMode::Gray16`] the levels of 16-bit gray, inverted if white is
//! zero. Of a file with
//! several images the first is read, which `unread.rs` warns of. Numbers that are no picture, such as floats, signed numbers and many bands, are
//! refused: a field of arrays takes them from `.tif` members of tar shards.
//!
//! The pixels are those of the file, as `tifffile` returns them. Pillow turns a TIFF by its orientation when it opens
//! it; here, as for all formats, [`DecodeOptions::exif_orientation`] asks for that.
//!
//! The directory is checked against [`Limits`](crate::sample::Limits) and against the number of stored bytes before
//! memory is allocated (`source/tiff_file.rs`).

use super::buffer::{check_bytes, check_size, image_bytes, room};
use super::error::{no_index, no_memory, not_gray16};
use super::{DecodeOptions, Decoded, ImageReadMode};
use crate::error::{Error, fail};
use crate::source::{EncodedImage, Photometric, SampleKind, TiffFile};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::RGB;
use std::fmt;
use std::ops::Range;

/// Decodes TIFFs. Each worker has its own decoder, which reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct TiffDecoder {
    options: DecodeOptions,
    /// The samples of a strip or tile; of each plane one after the other.
    segment: Vec<u8>,
    /// The pixels of the window.
    pixels: Vec<u8>,
}

fn damaged(reason: impl fmt::Display) -> Error {
    fail!(Damaged, "a TIFF that can't be decoded: {reason}")
}

impl TiffDecoder {
    pub(super) fn new(options: DecodeOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Reads the directory and checks it, and whether `mode` can read the image.
    pub(super) fn open(
        &self,
        image: &EncodedImage<'_>,
        mode: ImageReadMode,
    ) -> Result<TiffFile, Error> {
        let limits = &self.options.limits;
        let size = TiffFile::size_of(image.bytes).map_err(damaged)?;
        check_bytes(image, limits)?;
        check_size(image, size, limits, damaged)?;
        let file = TiffFile::parse(image.bytes, limits.max_pixels).map_err(damaged)?;
        check_picture(&file)?;
        let is_gray =
            matches!(file.photometric, Photometric::BlackIsZero | Photometric::WhiteIsZero);
        let is_gray16 = is_gray && file.bits == 16 && file.samples == 1;
        if mode == ImageReadMode::Gray16 && !is_gray16 {
            let fits = match (&file.photometric, file.samples) {
                (Photometric::Palette(_), _) => "index",
                (_, 1 | 2) => "gray",
                _ => "rgb",
            };
            let found = format!("a TIFF of {} samples of {} bits", file.samples, file.bits);
            return Err(not_gray16(found, fits));
        }
        Ok(file)
    }

    /// Decodes `wanted`, a window of an image with this directory.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        file: &TiffFile,
        mode: ImageReadMode,
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        let format = mode.format();
        let out_pixel = format.pixel_bytes();
        let out_bytes = image_bytes(wanted.size(), out_pixel)?;
        let pixels = room(&mut self.pixels, out_bytes)?;
        let mut reader = file.reader(bytes).map_err(damaged)?;
        let (Size { height, width }, (across, down)) = (file.segment(), file.segments());
        let planes = if file.is_planar { u32::from(file.samples) } else { 1 };
        let (bottom, right) = (wanted.top + wanted.height, wanted.left + wanted.width);
        for row in wanted.top / height..bottom.div_ceil(height) {
            for column in wanted.left / width..right.div_ceil(width) {
                let (size, top) = (file.segment_size(row, column), row * height);
                let read = file.size_read(row, column, bottom - top);
                let row_bytes = file.row_bytes(read.width);
                let plane_bytes = row_bytes
                    .checked_mul(read.height as usize)
                    .ok_or_else(|| no_memory(usize::MAX))?;
                let all = plane_bytes
                    .checked_mul(planes as usize)
                    .ok_or_else(|| no_memory(usize::MAX))?;
                let segment = room(&mut self.segment, all)?;
                for (plane, out) in (0..planes).zip(segment.chunks_exact_mut(plane_bytes)) {
                    let index = (plane * down + row) * across + column;
                    reader.read(index, out, row_bytes).map_err(damaged)?;
                }
                let samples = Samples { file, bytes: segment, row_bytes, plane_bytes };
                // The part of the window inside this segment, in coordinates of the image.
                let left = column * width;
                let rows = wanted.top.max(top)..bottom.min(top + size.height);
                let columns = wanted.left.max(left)..right.min(left + size.width);
                for y in rows {
                    let at = (y - wanted.top) as usize * wanted.width as usize;
                    let start = (at + (columns.start - wanted.left) as usize) * out_pixel;
                    let out = &mut pixels[start..][..columns.len() * out_pixel];
                    let range = columns.start - left..columns.end - left;
                    if let Some(stored) = samples.as_stored(y - top, range.clone(), mode) {
                        out.copy_from_slice(stored);
                        continue;
                    }
                    if let Some(stored) = samples.colours_of_16_bits(y - top, range, mode) {
                        for (level, out) in stored.iter().zip(out) {
                            *out = (u16::from_ne_bytes(*level) >> 8) as u8;
                        }
                        continue;
                    }
                    for (x, out) in columns.clone().zip(out.chunks_exact_mut(out_pixel)) {
                        if let Some(pixel) = samples.pixel(y - top, x - left, mode, out) {
                            return Err(no_index(y, x, pixel));
                        }
                    }
                }
            }
        }
        let view = mode.view(pixels, wanted.size());
        let view = view.ok_or_else(|| no_memory(out_bytes))?;
        Ok(Decoded { view, top: wanted.top, left: wanted.left })
    }
}

/// Refuses samples that are no picture.
fn check_picture(file: &TiffFile) -> Result<(), Error> {
    let TiffFile { samples, bits, kind, photometric, extra, .. } = file;
    let first_extra = extra.first().copied();
    let is_known = match photometric {
        Photometric::BlackIsZero => match samples {
            1 => *bits <= 16,
            2 => matches!(bits, 8 | 16) && matches!(first_extra, Some(0 | 2)),
            _ => false,
        },
        Photometric::WhiteIsZero => *samples == 1 && *bits <= 16,
        Photometric::Rgb => {
            let is_alpha = matches!(first_extra, None | Some(0 | 2));
            match (samples, bits) {
                (3, 8 | 16) => extra.is_empty(),
                (4, 8) => is_alpha || first_extra == Some(1),
                (4, 16) => is_alpha,
                _ => false,
            }
        }
        Photometric::Palette(_) => *samples == 1 && *bits <= 8,
        Photometric::Cmyk => *samples == 4 && *bits == 8,
        Photometric::Other(name) => {
            return Err(fail!(
                Damaged,
                "a TIFF that can't be decoded: its photometric interpretation is {name}, which is not decoded"
            ));
        }
    };
    if is_known && *kind == SampleKind::Unsigned {
        return Ok(());
    }
    let kind = match kind {
        SampleKind::Unsigned => "unsigned",
        SampleKind::Signed => "signed",
        SampleKind::Float => "floating-point",
    };
    Err(fail!(
        Damaged,
        "a TIFF that can't be decoded: {samples} {kind} samples of {bits} bits per pixel are not an image: read it as an \
         array, from a `.tif` member of a tar shard whose field is declared as `As::NdArray`"
    ))
}

/// The samples of a strip or tile.
struct Samples<'a> {
    file: &'a TiffFile,
    bytes: &'a [u8],
    row_bytes: usize,
    plane_bytes: usize,
}

impl<'a> Samples<'a> {
    /// Returns a part of a row if its bytes are the pixels.
    fn as_stored(&self, y: u32, columns: Range<u32>, mode: ImageReadMode) -> Option<&'a [u8]> {
        let samples = self.file.samples;
        let is_same = match (&self.file.photometric, mode) {
            (Photometric::BlackIsZero | Photometric::Palette(_), ImageReadMode::Index) => {
                samples == 1
            }
            _ => self.has_colours_of(mode),
        };
        if is_same && self.file.bits == 8 { self.part(y, columns) } else { None }
    }

    /// Returns a part of a row if the upper bytes of its samples are the pixels.
    fn colours_of_16_bits(
        &self,
        y: u32,
        columns: Range<u32>,
        mode: ImageReadMode,
    ) -> Option<&'a [[u8; 2]]> {
        let is_same = self.has_colours_of(mode) && self.file.bits == 16;
        if is_same { Some(self.part(y, columns)?.as_chunks().0) } else { None }
    }

    /// Returns true if the samples of a pixel are the colours that `mode` reads, in its order.
    fn has_colours_of(&self, mode: ImageReadMode) -> bool {
        let TiffFile { samples, photometric, extra, .. } = self.file;
        match (photometric, mode) {
            (Photometric::BlackIsZero, ImageReadMode::Gray) => *samples == 1,
            (Photometric::Rgb, ImageReadMode::Rgb) => *samples == 3,
            (Photometric::Rgb, ImageReadMode::RgbAlpha) => {
                *samples == 4 && matches!(extra[..], [] | [2])
            }
            _ => false,
        }
    }

    /// Returns the bytes of some columns of a row, unless the file has planes.
    fn part(&self, y: u32, columns: Range<u32>) -> Option<&'a [u8]> {
        if self.file.is_planar {
            return None;
        }
        let pixel = usize::from(self.file.samples) * usize::from(self.file.bits / 8);
        let row = &self.bytes[y as usize * self.row_bytes..][..self.row_bytes];
        row.get(columns.start as usize * pixel..columns.end as usize * pixel)
    }

    /// Returns a sample of a pixel, of up to 16 bits.
    fn sample(&self, y: u32, x: u32, sample: usize) -> u16 {
        let (plane, sample) = if self.file.is_planar { (sample, 0) } else { (0, sample) };
        let row = &self.bytes[plane * self.plane_bytes + y as usize * self.row_bytes..];
        let index = x as usize * self.file.samples_in_row() + sample;
        match self.file.bits {
            16 => u16::from_ne_bytes([row[2 * index], row[2 * index + 1]]),
            8 => u16::from(row[index]),
            bits => {
                let bits = usize::from(bits);
                let shift = 8 - bits - index * bits % 8;
                u16::from(row[index * bits / 8] >> shift) & ((1 << bits) - 1)
            }
        }
    }

    /// Returns a sample whose level is one of 256: the upper byte of 16 bits.
    fn byte(&self, y: u32, x: u32, sample: usize) -> u8 {
        let level = self.sample(y, x, sample);
        if self.file.bits == 16 { (level >> 8) as u8 } else { level as u8 }
    }

    /// Writes a pixel as `mode` reads it. Returns its colour if `mode` can't.
    fn pixel(&self, y: u32, x: u32, mode: ImageReadMode, out: &mut [u8]) -> Option<[u16; RGB]> {
        let bits = self.file.bits;
        let sample = |index| self.byte(y, x, index);
        let mut alpha = u8::MAX;
        let first_extra = self.file.extra.first();
        let rgb = match &self.file.photometric {
            Photometric::Palette(colors) => {
                let index = self.sample(y, x, 0);
                if mode == ImageReadMode::Index {
                    out[0] = index as u8;
                    return None;
                }
                colors.get(usize::from(index)).copied().unwrap_or_default()
            }
            Photometric::BlackIsZero | Photometric::WhiteIsZero => {
                let (most, stored) = (u32::MAX >> (32 - u32::from(bits)), self.sample(y, x, 0));
                let is_inverted = self.file.photometric == Photometric::WhiteIsZero;
                let level = if is_inverted { most - u32::from(stored) } else { stored.into() };
                match mode {
                    ImageReadMode::Gray16 => {
                        // No level has more than 16 bits.
                        out.copy_from_slice(&(level as u16).to_le_bytes());
                        return None;
                    }
                    ImageReadMode::Index if level <= 255 => {
                        out[0] = level as u8;
                        return None;
                    }
                    ImageReadMode::Index => return Some([level as u16; RGB]),
                    _ => {}
                }
                if self.file.samples == 2 && first_extra == Some(&2) {
                    alpha = sample(1);
                }
                let level = match bits {
                    16 => level >> 8,
                    8 => level,
                    _ => level * 255 / most,
                };
                [level as u8; RGB]
            }
            Photometric::Cmyk => {
                let light = 255 - u32::from(sample(3));
                [0, 1, 2].map(|index| {
                    let product = u32::from(sample(index)) * light + 128;
                    light.saturating_sub(((product >> 8) + product) >> 8) as u8
                })
            }
            Photometric::Rgb | Photometric::Other(_)
                if mode == ImageReadMode::Index && self.file.bits == 16 =>
            {
                // An index is the whole number, of which `byte` is the upper half.
                let numbers = [0, 1, 2].map(|index| self.sample(y, x, index));
                if numbers.iter().any(|&number| number > 255) {
                    return Some(numbers);
                }
                numbers.map(|number| number as u8)
            }
            Photometric::Rgb | Photometric::Other(_) => {
                let rgb = [sample(0), sample(1), sample(2)];
                let (has_alpha, is_multiplied) = match first_extra {
                    None | Some(2) => (self.file.samples == 4, false),
                    Some(1) => (true, true),
                    Some(_) => (false, false),
                };
                if has_alpha {
                    alpha = sample(3);
                }
                if is_multiplied { divided(rgb, alpha) } else { rgb }
            }
        };
        if mode == ImageReadMode::RgbAlpha {
            out[..RGB].copy_from_slice(&rgb);
            out[RGB] = alpha;
            return None;
        }
        (!mode.read(rgb, out)).then_some(rgb.map(u16::from))
    }
}

/// Divides a colour by its alpha, as Pillow does.
fn divided(rgb: [u8; RGB], alpha: u8) -> [u8; RGB] {
    match alpha {
        0 => [0; RGB],
        alpha => rgb.map(|level| (u32::from(level) * 255 / u32::from(alpha)).min(255) as u8),
    }
}
