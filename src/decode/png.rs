//! PNG: decodes the image down to the window's last row, to the same pixels as Pillow's `convert("RGB")` but for gray of 16 bits.
//!
//! | stored as                | becomes                                                        |
//! |--------------------------|----------------------------------------------------------------|
//! | gray of 1, 2, 4, 8 bits  | R = G = B = the level, scaled to 0..=255                       |
//! | gray of 16 bits          | R = G = B = the upper 8 bits of the level                      |
//! | gray and alpha, RGB(A)   | alpha is dropped; samples of 16 bits keep their upper 8        |
//! | palette                  | the palette's colours; transparency is dropped                 |
//!
//! That is [`ImageReadMode::Rgb`](super::ImageReadMode::Rgb). The other modes take gray, alpha and indices as they are
//! stored: indices and gray levels that are read as an index are not scaled. `Gray16` reads gray of 16 bits alone, to
//! the levels of Pillow's mode `I;16`.
//!
//! All samples of 16 bits keep their upper 8 where 8 are read, which is what libpng and OpenCV (`IMREAD_COLOR`,
//! `IMREAD_GRAYSCALE`) do. Pillow clips 16-bit gray to 255 instead, which makes nearly every picture white.
//!
//! Gamma, colour profiles and transparent colours are not applied, as in Pillow; the image is turned by its EXIF
//! orientation afterwards, where that is asked for. An animated PNG yields
//! its first image. Rows below the window are not inflated, unless the file is interlaced. Rows of 8-bit RGB are
//! returned as they were inflated, without a copy.
//!
//! The header's size is checked against [`Limits`](crate::sample::Limits) and against the number of
//! stored bytes before memory is allocated: deflate expands a byte to at most 1,032.

use super::buffer::{check_bytes, check_size, image_bytes, room};
use super::error::{begins_with, no_index, no_memory, not_gray16, too_short};
use super::{DecodeOptions, Decoded, ImageReadMode};
use crate::error::{Damage, Error, fail};
use crate::panicked::call_decoder;
use crate::source::{EncodedImage, FORMAT_BYTES};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::RGB;
use png::{BitDepth, ColorType, Transformations};
use std::io::Cursor;

/// The first bytes of a PNG.
const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Most bytes that deflate expands one byte to.
const MAX_EXPANSION: u64 = 1032;

/// Decodes PNGs. Each worker has its own decoder, which reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct PngDecoder {
    options: DecodeOptions,
    /// The image in the file's own colour type, but with at least 8 bits a channel.
    stored: Vec<u8>,
    /// The pixels of the window.
    pixels: Vec<u8>,
}

impl PngDecoder {
    pub(super) fn new(options: DecodeOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Decodes at least the first `rows` rows of the image into `stored`; returns the form of its pixels. Unless `mode`
    /// takes them as they are stored, samples have at least 8 bits.
    fn inflate(
        &mut self,
        bytes: &[u8],
        size: Size,
        mode: ImageReadMode,
        rows: u32,
    ) -> Result<StoredPixels, Error> {
        let damaged = |reason: String| fail!(Damaged, "damaged PNG: {reason}");
        let mut decoder = png::Decoder::new(Cursor::new(bytes));
        decoder.set_transformations(match mode {
            ImageReadMode::Index | ImageReadMode::Gray16 => Transformations::IDENTITY,
            _ => Transformations::EXPAND,
        });
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let mut reader = call_decoder("png", || decoder.read_info()).map_err(damaged)?;
        let (width, height) = reader.info().size();
        if Size::new(height, width) != size {
            return Err(fail!(
                Damaged,
                "damaged PNG: two decoders read different sizes from its header"
            ));
        }
        if let Some(palette) = &reader.info().palette {
            check_palette(palette.len())?;
        }
        let wanted = reader.output_buffer_size().ok_or_else(|| no_memory(usize::MAX))?;
        if rows == height || reader.info().interlaced {
            let stored = room(&mut self.stored, wanted)?;
            if reader.info().interlaced {
                // The decoder adds the bits of each pass to those that are there, if samples have less than 8 bits.
                stored.fill(0);
            }
            call_decoder("png", || reader.next_frame(stored)).map_err(damaged)?;
        } else {
            let row = wanted / height as usize;
            let stored = room(&mut self.stored, row * rows as usize)?;
            let mut read = |row: &mut [u8]| reader.read_row(row).map(drop);
            call_decoder("png", || stored.chunks_exact_mut(row).try_for_each(&mut read))
                .map_err(damaged)?;
        }
        let (color, depth) = reader.output_color_type();
        Ok(StoredPixels { color, depth })
    }

    /// Reads the size from the header and checks it, and whether `mode` can read the image.
    pub(super) fn size(
        &self,
        image: &EncodedImage<'_>,
        mode: ImageReadMode,
    ) -> Result<Size, Error> {
        let limits = &self.options.limits;
        check_bytes(image, limits)?;
        let header = PngHeader::parse(image.bytes)?;
        let size = header.size;
        check_size(image, size, limits, |reason| fail!(Damaged, "damaged PNG: {reason}"))?;
        let len = image.bytes.len() as u64;
        let least = (size.pixels() * header.bits() / 8) / MAX_EXPANSION;
        if len < least {
            return Err(too_short(size, len, least));
        }
        if mode == ImageReadMode::Gray16 {
            header.check_gray16()?;
        }
        Ok(size)
    }

    /// Decodes `wanted`, a window of an image of this size.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        size: Size,
        mode: ImageReadMode,
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        let stored = self.inflate(bytes, size, mode, wanted.top + wanted.height)?;
        let StoredPixels { color, depth, .. } = stored;
        if mode == ImageReadMode::Gray16 {
            return self.gray16(size, (color, depth), wanted);
        }
        let channels = usize::from(mode.channels());
        if depth == BitDepth::Eight && is_stored_as(color, mode) {
            let row = stored.row(size.width);
            let rows = &self.stored[wanted.top as usize * row..][..wanted.height as usize * row];
            let view = mode.view(rows, Size::new(wanted.height, size.width));
            let view = view.ok_or_else(|| no_memory(rows.len()))?;
            return Ok(Decoded { view, top: wanted.top, left: 0 });
        }
        let bytes = image_bytes(wanted.size(), channels)?;
        let pixels = room(&mut self.pixels, bytes)?;
        let rows = self.stored.chunks_exact(stored.row(size.width)).skip(wanted.top as usize);
        let out = pixels.chunks_exact_mut(wanted.width as usize * channels);
        for (y, (row, out)) in (wanted.top..).zip(rows.zip(out)) {
            for (x, out) in (wanted.left..).zip(out.chunks_exact_mut(channels)) {
                if let Some(pixel) = stored.read(row, x as usize, mode, out) {
                    return Err(no_index(y, x, pixel));
                }
            }
        }
        let view = mode.view(pixels, wanted.size());
        let view = view.ok_or_else(|| no_memory(bytes))?;
        Ok(Decoded { view, top: wanted.top, left: wanted.left })
    }

    /// Returns the rows of `wanted` of an inflated image of 16-bit gray levels, whose bytes are swapped in place:
    /// a PNG stores the upper one first.
    fn gray16(
        &mut self,
        size: Size,
        form: (ColorType, BitDepth),
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        if form != (ColorType::Grayscale, BitDepth::Sixteen) {
            return Err(fail!(
                Damaged,
                "damaged PNG: two decoders read different samples from its header"
            ));
        }
        let row = size.width as usize * 2;
        let rows = wanted.top as usize * row..(wanted.top + wanted.height) as usize * row;
        let rows = &mut self.stored[rows];
        for level in rows.as_chunks_mut().0 {
            *level = u16::from_be_bytes(*level).to_le_bytes();
        }
        let bytes = rows.len();
        let view = ImageReadMode::Gray16.view(rows, Size::new(wanted.height, size.width));
        let view = view.ok_or_else(|| no_memory(bytes))?;
        Ok(Decoded { view, top: wanted.top, left: 0 })
    }
}

/// Returns true if the file's own samples of 8 bits are the pixels.
fn is_stored_as(color: ColorType, mode: ImageReadMode) -> bool {
    matches!(
        (color, mode),
        (ColorType::Rgb, ImageReadMode::Rgb)
            | (ColorType::Rgba, ImageReadMode::RgbAlpha)
            | (ColorType::Grayscale, ImageReadMode::Gray | ImageReadMode::Index)
            | (ColorType::Indexed, ImageReadMode::Index)
    )
}

/// The form of inflated pixels.
#[derive(Clone, Copy)]
struct StoredPixels {
    color: ColorType,
    depth: BitDepth,
}

impl StoredPixels {
    /// Returns the bytes of a row.
    fn row(self, width: u32) -> usize {
        (width as usize * self.color.samples() * self.depth as usize).div_ceil(8)
    }

    /// Writes pixel `x` of a row as `mode` reads it. Returns its colour if `mode` can't.
    fn read(self, row: &[u8], x: usize, mode: ImageReadMode, out: &mut [u8]) -> Option<[u16; RGB]> {
        let bits = self.depth as usize;
        if bits < 8 {
            // Only indices and gray levels have less, which are not expanded for an index.
            let shift = 8 - bits - x * bits % 8;
            out[0] = row[x * bits / 8] >> shift & ((1 << bits) - 1) as u8;
            return None;
        }
        let (channel, pixel) = (bits / 8, self.color.samples() * bits / 8);
        let pixel = &row[x * pixel..][..pixel];
        match (self.color, mode) {
            (ColorType::Indexed, ImageReadMode::Index) => out[0] = pixel[0],
            (ColorType::Rgba | ColorType::GrayscaleAlpha, ImageReadMode::RgbAlpha) => {
                out[..RGB].copy_from_slice(&self.to_rgb(pixel));
                out[RGB] = pixel[pixel.len() - channel];
            }
            (color, ImageReadMode::Index) if channel == 2 => {
                let numbers = numbers(pixel, color);
                let [number, ..] = numbers;
                match u8::try_from(number) {
                    Ok(index) if numbers == [number; RGB] => out[0] = index,
                    _ => return Some(numbers),
                }
            }
            (_, mode) => {
                let rgb = self.to_rgb(pixel);
                return (!mode.read(rgb, out)).then_some(rgb.map(u16::from));
            }
        }
        None
    }

    /// Converts one pixel whose channels have one byte each, or two bytes with the upper one first.
    fn to_rgb(self, pixel: &[u8]) -> [u8; RGB] {
        let channel = self.depth as usize / 8;
        match self.color {
            ColorType::Grayscale | ColorType::GrayscaleAlpha => [pixel[0]; RGB],
            ColorType::Rgb | ColorType::Rgba | ColorType::Indexed => {
                [pixel[0], pixel[channel], pixel[2 * channel]]
            }
        }
    }
}

/// Returns the red, green and blue numbers of a pixel of 16 bits a channel.
fn numbers(pixel: &[u8], color: ColorType) -> [u16; RGB] {
    let numbers: &[[u8; 2]] = pixel.as_chunks().0;
    let colors = match color {
        ColorType::Grayscale | ColorType::GrayscaleAlpha => [numbers[0]; RGB],
        ColorType::Rgb | ColorType::Rgba | ColorType::Indexed => {
            [numbers[0], numbers[1], numbers[2]]
        }
    };
    colors.map(u16::from_be_bytes)
}

/// Refuses a palette whose last colour is incomplete: the `png` crate would panic.
fn check_palette(bytes: usize) -> Result<(), Error> {
    if bytes.is_multiple_of(RGB) {
        return Ok(());
    }
    Err(fail!(Damaged, "damaged PNG: its palette has {bytes} bytes, expected 3 for each colour"))
}

/// The fields of the first chunk.
struct PngHeader {
    size: Size,
    /// Bits of a channel.
    depth: u8,
    color: u8,
}

impl PngHeader {
    /// Reads the first chunk.
    ///
    /// | offset | size | field                          |
    /// |-------:|-----:|--------------------------------|
    /// |      0 |    8 | signature                      |
    /// |      8 |    8 | 13 (length), `IHDR`            |
    /// |     16 |    8 | width, height, big-endian      |
    /// |     24 |    2 | bits of a channel, colour type |
    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if !bytes.starts_with(&SIGNATURE) {
            let found = &bytes[..bytes.len().min(FORMAT_BYTES)];
            let found = begins_with(found, 8, "[89, 50, 4e, 47, 0d, 0a, 1a, 0a]");
            return Err(fail!(Damaged, "not a PNG: {found}").damage(Damage::OtherFormat));
        }
        let cut = || fail!(Damaged, "damaged PNG: it ends inside its header");
        let (_, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
        let (first, rest) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
        if first != b"\0\0\0\x0dIHDR" {
            return Err(fail!(Damaged, "damaged PNG: its first chunk is no IHDR"));
        }
        let (width, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let (height, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let [depth, color] = *rest.first_chunk::<2>().ok_or_else(cut)?;
        let size = Size::new(u32::from_be_bytes(*height), u32::from_be_bytes(*width));
        Ok(Self { size, depth, color })
    }

    /// Returns the bits of a pixel.
    fn bits(&self) -> u64 {
        let channels = match self.color {
            2 => 3,
            4 => 2,
            6 => 4,
            _ => 1,
        };
        channels * u64::from(self.depth)
    }

    /// Refuses all but gray levels of 16 bits without alpha.
    fn check_gray16(&self) -> Result<(), Error> {
        let (kind, fits) = match (self.color, self.depth) {
            (0, 16) => return Ok(()),
            (0, _) => ("gray", "gray"),
            (2, _) => ("RGB", "rgb"),
            (3, _) => ("indices of a palette", "index"),
            (4, _) => ("gray and alpha", "gray"),
            (6, _) => ("RGB and alpha", "rgb_alpha"),
            (color, _) => {
                return Err(fail!(Damaged, "damaged PNG: its colour type is {color}"));
            }
        };
        let found = format!("a PNG of {}-bit {kind}", self.depth);
        Err(not_gray16(found, fits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Decoder;
    use crate::sample::Limits;
    use crate::source::ImageMode;
    use std::path::Path;

    fn golden(name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/png");
        std::fs::read(folder.join(name)).unwrap()
    }

    fn image(bytes: &[u8]) -> EncodedImage<'_> {
        EncodedImage { mode: ImageMode::Png, width: 0, height: 0, bytes }
    }

    fn window(decoder: &mut Decoder, bytes: &[u8], window: Window) -> Vec<u8> {
        let decoded = decoder.decode(&image(bytes), window).unwrap();
        let view = decoded.window(window).unwrap();
        (0..view.size().height).flat_map(|y| view.row(y)).copied().collect()
    }

    const NAMES: [&str; 17] = [
        "gray1",
        "gray2",
        "gray4",
        "gray8",
        "gray16",
        "gray_alpha8",
        "gray_alpha16",
        "rgb8",
        "rgb16",
        "rgba8",
        "rgba16",
        "palette4",
        "rgb8_interlaced",
        "gray16_interlaced",
        "gray16_transparent",
        "gray2_interlaced",
        "palette4_interlaced",
    ];

    #[test]
    fn pixels_are_those_of_pillow_and_of_16_bit_gray_the_upper_bits() {
        let mut decoder = Decoder::default();
        for name in NAMES {
            let (bytes, want) = (golden(&format!("{name}.png")), golden(&format!("{name}.rgb")));
            let size = decoder.size(&image(&bytes)).unwrap();
            assert_eq!(size, Size::new(7, 11), "{name}");
            assert!(window(&mut decoder, &bytes, size.full()) == want, "{name}");
            let part = Window { top: 2, left: 3, height: 4, width: 5 };
            let rows = want.chunks_exact(11 * 3).skip(2).take(4);
            let cut: Vec<u8> = rows.flat_map(|row| &row[9..24]).copied().collect();
            assert!(window(&mut decoder, &bytes, part) == cut, "a window of {name}");
        }
    }

    fn read(
        decoder: &mut Decoder,
        bytes: &[u8],
        mode: ImageReadMode,
        window: Window,
    ) -> Result<Vec<u8>, Error> {
        let image = image(bytes);
        let mut opened = decoder.open_as(&image, mode)?;
        let view = opened.decode(window)?.window(window).unwrap();
        assert_eq!(view.format(), mode.format());
        Ok((0..view.size().height).flat_map(|y| view.row(y)).copied().collect())
    }

    #[test]
    fn gray_and_alpha_are_those_of_pillow_and_indices_those_stored() {
        let mut decoder = Decoder::default();
        let full = Size::new(7, 11).full();
        let part = Window { top: 2, left: 3, height: 4, width: 5 };
        let modes = [
            (ImageReadMode::Gray, "l"),
            (ImageReadMode::RgbAlpha, "rgba"),
            (ImageReadMode::Index, "index"),
        ];
        let with_index = [
            "gray1",
            "gray2",
            "gray4",
            "gray8",
            "palette4",
            "gray2_interlaced",
            "palette4_interlaced",
        ];
        for (name, (mode, ending)) in NAMES.iter().flat_map(|name| modes.map(|mode| (name, mode))) {
            let bytes = golden(&format!("{name}.png"));
            if mode == ImageReadMode::Index && !with_index.contains(name) {
                let refused = read(&mut decoder, &bytes, mode, full);
                if *name == "gray_alpha8" {
                    assert_eq!(refused.unwrap(), golden("gray_alpha8.l"));
                } else {
                    assert!(
                        refused.is_err_and(|error| error.to_string().contains("an index is")),
                        "{name}"
                    );
                }
                continue;
            }
            let want = golden(&format!("{name}.{ending}"));
            let row = 11 * usize::from(mode.channels());
            let rows = want.chunks_exact(row).skip(2).take(4);
            let pixel = row / 11;
            let cut: Vec<u8> = rows.flat_map(|row| &row[3 * pixel..8 * pixel]).copied().collect();
            assert!(read(&mut decoder, &bytes, mode, full).unwrap() == want, "{name}, {mode:?}");
            assert!(read(&mut decoder, &bytes, mode, part).unwrap() == cut, "a window of {name}");
        }
    }

    /// The levels of a file, `[v / 256 for v in levels]`, are those that OpenCV 4 reads.
    #[test]
    fn gray_of_16_bits_is_scaled_as_rgb_of_16_bits_is() {
        let mut decoder = Decoder::default();
        let full = Size::new(7, 11).full();
        for name in ["gray16", "gray16_interlaced", "gray16_transparent"] {
            let (bytes, levels) = (golden(&format!("{name}.png")), golden(&format!("{name}.i16")));
            let upper: Vec<u8> = levels.as_chunks::<2>().0.iter().map(|level| level[1]).collect();
            assert_eq!(upper[..4], [0, 0, 0, 1], "the levels 0, 200, 255 and 256");
            let rgb: Vec<u8> = upper.iter().flat_map(|&level| [level; RGB]).collect();
            assert_eq!(read(&mut decoder, &bytes, ImageReadMode::Gray, full).unwrap(), upper);
            assert_eq!(read(&mut decoder, &bytes, ImageReadMode::Rgb, full).unwrap(), rgb);
        }
    }

    #[test]
    fn gray_of_16_bits_is_that_of_pillow() {
        let mut decoder = Decoder::default();
        for name in ["gray16", "gray16_interlaced", "gray16_transparent"] {
            let (bytes, want) = (golden(&format!("{name}.png")), golden(&format!("{name}.i16")));
            for (top, left, height, width) in [(0, 0, 7, 11), (2, 3, 4, 5), (6, 10, 1, 1)] {
                let part = Window { top, left, height, width };
                let rows = want.chunks_exact(22).skip(top as usize).take(height as usize);
                let columns = 2 * left as usize..2 * (left + width) as usize;
                let cut: Vec<u8> = rows.flat_map(|row| &row[columns.clone()]).copied().collect();
                let read = read(&mut decoder, &bytes, ImageReadMode::Gray16, part).unwrap();
                assert!(read == cut, "{part:?} of {name}");
            }
        }
    }

    #[test]
    fn what_is_not_gray_of_16_bits_is_refused_with_the_mode_that_fits() {
        let refused = |image: EncodedImage<'_>| {
            let mut decoder = Decoder::default();
            decoder.open_as(&image, ImageReadMode::Gray16).map(drop).unwrap_err().to_string()
        };
        for (name, found, fits) in [
            ("gray1", "a PNG of 1-bit gray", "gray"),
            ("gray8", "a PNG of 8-bit gray", "gray"),
            ("gray_alpha16", "a PNG of 16-bit gray and alpha", "gray"),
            ("rgb16", "a PNG of 16-bit RGB", "rgb"),
            ("rgba8", "a PNG of 8-bit RGB and alpha", "rgb_alpha"),
            ("palette4", "a PNG of 4-bit indices of a palette", "index"),
        ] {
            let message = refused(image(&golden(&format!("{name}.png"))));
            let want =
                format!("{found} can't be read as 16-bit gray: use the read mode \"{fits}\"");
            assert_eq!(message, want);
        }
        let raw = |bytes| EncodedImage { mode: ImageMode::Raw, width: 2, height: 1, bytes };
        assert!(refused(raw(&[0; 6])).starts_with("an image of RGB pixels can't be read"));
        assert!(refused(raw(&[0; 5])).contains("needs 6 bytes, 5 are stored"));
        let jpeg = EncodedImage { mode: ImageMode::Jpeg, ..raw(&[0xff, 0xd8]) };
        assert!(refused(jpeg).starts_with("a JPEG can't be read as 16-bit gray"));
        let mut decoder = Decoder::default();
        let mut opened = decoder.open_as(&raw(&[1, 2, 3, 4]), ImageReadMode::Gray16).unwrap();
        let decoded = opened.decode(Size::new(1, 2).full()).unwrap();
        assert_eq!(
            decoded.view.row(0),
            [1, 2, 3, 4],
            "raw pixels of two bytes, as a cache keeps them"
        );
    }

    #[test]
    fn an_index_of_16_bits_is_its_number_or_refused() {
        let form = |color| StoredPixels { color, depth: BitDepth::Sixteen };
        let read = |pixel: &[u8], color| {
            let mut out = [9];
            match form(color).read(pixel, 0, ImageReadMode::Index, &mut out) {
                None => Ok(out[0]),
                Some(numbers) => Err(numbers),
            }
        };
        assert_eq!(read(&[0, 5], ColorType::Grayscale), Ok(5));
        assert_eq!(read(&[1, 5], ColorType::Grayscale), Err([261; 3]));
        assert_eq!(read(&[0, 5, 255, 255], ColorType::GrayscaleAlpha), Ok(5));
        assert_eq!(read(&[1, 5, 255, 255], ColorType::GrayscaleAlpha), Err([261; 3]));
        assert_eq!(read(&[0, 5, 0, 5, 0, 5], ColorType::Rgb), Ok(5));
        assert_eq!(read(&[1, 5, 1, 5, 1, 5], ColorType::Rgb), Err([261; 3]));
        assert_eq!(read(&[0, 5, 0, 5, 0, 6], ColorType::Rgb), Err([5, 5, 6]));
    }

    #[test]
    fn a_png_cut_short_or_changed_is_refused_or_decoded() {
        let mut decoder =
            Decoder::new(DecodeOptions { limits: Limits::SMALL, ..DecodeOptions::default() });
        let full = Size::new(7, 11).full();
        for (name, mode) in [
            ("rgb8", ImageReadMode::Rgb),
            ("gray16", ImageReadMode::Gray16),
            ("gray16_interlaced", ImageReadMode::Gray16),
        ] {
            let whole = golden(&format!("{name}.png"));
            let idat = whole.windows(4).position(|four| four == b"IDAT").unwrap();
            let mut is_refused = |bytes: &[u8]| read(&mut decoder, bytes, mode, full).is_err();
            for end in 0..whole.len() {
                let is_end = end >= whole.len() - 16;
                assert!(is_refused(&whole[..end]) || is_end, "{end} bytes of {name}");
            }
            for bit in 0..whole.len() * 8 {
                let mut changed = whole.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                let is_pixels = bit / 8 >= idat + 4 && bit / 8 < whole.len() - 16;
                assert!(is_refused(&changed) || !is_pixels, "bit {bit} of {name}");
            }
        }
    }

    #[test]
    fn rows_below_the_window_are_not_inflated() {
        let mut decoder = Decoder::default();
        let (top, full) =
            (Window { top: 0, left: 2, height: 3, width: 5 }, Size::new(7, 11).full());
        for name in ["rgb8", "rgba8", "gray8", "rgb16", "rgb8_interlaced"] {
            let whole = golden(&format!("{name}.png"));
            let (rows, pixels) =
                (window(&mut decoder, &whole, top), window(&mut decoder, &whole, full));
            let cut: Vec<u8> =
                pixels.chunks_exact(33).take(3).flat_map(|row| &row[6..21]).copied().collect();
            assert!(rows == cut, "{name}");
            // The last bytes of the pixels and their checksum.
            let end = whole.windows(4).rposition(|four| four == b"IEND").unwrap() - 4;
            let cut = &whole[..end - 16];
            assert!(decoder.decode(&image(cut), full).is_err(), "{name}");
            let read = decoder.decode(&image(cut), top).map(drop);
            assert_eq!(read.is_ok(), name != "rgb8_interlaced", "{name}: {read:?}");
        }
    }

    /// Returns `palette4.png` with a palette of `bytes` bytes, and transparency.
    fn with_palette(bytes: usize) -> Vec<u8> {
        let whole = golden("palette4.png");
        let chunk = |kind: &[u8; 4]| {
            let at = whole.windows(4).position(|four| four == kind).unwrap() - 4;
            let length = u32::from_be_bytes(whole[at..at + 4].try_into().unwrap()) as usize;
            at..at + 12 + length
        };
        let old = chunk(b"PLTE");
        let new = |kind: &[u8; 4], data: &[u8]| {
            let mut sum = flate2::Crc::new();
            sum.update(kind);
            sum.update(data);
            let (length, sum) = ((data.len() as u32).to_be_bytes(), sum.sum().to_be_bytes());
            [&length, &kind[..], data, &sum].concat()
        };
        let (palette, alpha) = (new(b"PLTE", &vec![7; bytes]), new(b"tRNS", &[0]));
        let (pixels, end) = (&whole[chunk(b"IDAT")], &whole[chunk(b"IEND")]);
        [&whole[..old.start], &palette, &alpha, pixels, end].concat()
    }

    #[test]
    fn a_palette_that_is_none_is_refused() {
        let (mut decoder, full) = (Decoder::default(), Size::new(7, 11).full());
        for bytes in [47, 158, 767, 771, 3000] {
            let refused = decoder.decode(&image(&with_palette(bytes)), full).map(drop).unwrap_err();
            // A palette of more than 256 colours is refused by the `png` crate itself.
            let message = refused.to_string();
            assert!(
                bytes > 768 || message.contains(&format!("its palette has {bytes} bytes")),
                "{message}"
            );
        }
        for bytes in [48, 768] {
            assert!(decoder.decode(&image(&with_palette(bytes)), full).is_ok(), "{bytes} bytes");
        }
    }

    #[test]
    fn sizes_are_checked_before_memory_is_taken() {
        let mut decoder = Decoder::default();
        let message = |decoder: &mut Decoder, bytes: &[u8]| {
            decoder.size(&image(bytes)).unwrap_err().to_string()
        };
        assert_eq!(message(&mut decoder, b"GIF89a"), "not a PNG: it is a GIF");
        let mut huge = golden("rgb8.png");
        huge[16..24].copy_from_slice(&[0, 0, 0x20, 0, 0, 0, 0x20, 0]);
        let error = message(&mut decoder, &huge);
        assert!(error.ends_with("cannot be an image of 8192x8192, which needs 195083"), "{error}");
        huge[16..24].copy_from_slice(&[0xff; 8]);
        assert!(message(&mut decoder, &huge).contains("the limit is 178956970"));
        huge[16..24].fill(0);
        assert_eq!(message(&mut decoder, &huge), "the image is 0x0: it has no pixels");
        assert!(message(&mut decoder, &golden("rgb8.png")[..20]).contains("inside its header"));
    }
}
