//! The size of an image and its EXIF orientation, from the header of its file.

use super::image_format::format_name;
use super::still::Still;
#[cfg(all(feature = "tiff", feature = "write"))]
use super::tiff_file::Photometric;
#[cfg(feature = "tiff")]
use super::tiff_file::TiffFile;
use super::value::ImageMode;
#[cfg(feature = "webp")]
use super::webp_file::WebpHeader;
use crate::exif::{self, ChunkFormat};
use crate::panicked::call_decoder;
use fuseloop_jpeg::{APP1, SOS, Segment, SegmentError, Segments, be16, is_frame};
use fuseloop_ops::Size;
#[cfg(feature = "write")]
use png::{BitDepth, ColorType};
use std::io::Cursor;

/// The facts in the header of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageHeader {
    /// The stored size.
    pub(super) size: Size,
    /// The EXIF orientation, from 1 to 8. 1 is upright.
    pub(super) orientation: u32,
}

impl ImageHeader {
    /// Reads the header of an image file from its first bytes. Those of a TIFF may be at its end, and the orientation of
    /// a PNG or WebP, too: see [`chunks`](Self::chunks).
    ///
    /// # Errors
    ///
    /// If the header is damaged or cut; the error says why.
    pub(super) fn parse(file: &[u8]) -> Result<Self, String> {
        let mode = ImageMode::of_file(file);
        if let Some(format) = mode.file_format() {
            if let Some(error) = format.needs_feature() {
                return Err(error);
            }
            if let Some(still) = format.still {
                let Still { size, orientation, .. } =
                    call_decoder(format.noun(), || (still.header)(file))?;
                return Ok(Self { size, orientation: orientation.into() });
            }
        }
        match mode {
            #[cfg(feature = "webp")]
            ImageMode::Webp => {
                let size = WebpHeader::parse(file)?.size;
                let orientation = exif::orientation_in(ChunkFormat::Webp, file).into();
                return Ok(Self { size, orientation });
            }
            #[cfg(feature = "tiff")]
            ImageMode::Tiff => {
                let (size, orientation) = TiffFile::size_and_orientation(file)?;
                return Ok(Self { size, orientation: orientation.into() });
            }
            _ => {}
        }
        if !file.starts_with(&[0xff, 0xd8]) {
            if let Some(format) = format_name(file).filter(|_| !file.starts_with(b"\x89PNG")) {
                return Err(format!("it is {format}"));
            }
            let reader = call_decoder("png", || png::Decoder::new(Cursor::new(file)).read_info())?;
            let (width, height) = reader.info().size();
            let orientation = exif::orientation_in(ChunkFormat::Png, file).into();
            return Ok(Self { size: Size { height, width }, orientation });
        }
        Self::of_jpeg(file)
    }

    /// Returns whether the image has this size, as it is stored or upright.
    pub(super) fn is_of(&self, size: Size) -> bool {
        size == self.size || size == exif::upright_size(self.orientation, self.size)
    }

    /// Returns the format of a file whose orientation may be after the bytes that its header is read from.
    pub(super) fn chunks(file: &[u8]) -> Option<ChunkFormat> {
        match ImageMode::of_file(file) {
            ImageMode::Png => Some(ChunkFormat::Png),
            ImageMode::Webp => Some(ChunkFormat::Webp),
            _ => None,
        }
    }

    /// Reads the segments of a JPEG before its first scan.
    fn of_jpeg(file: &[u8]) -> Result<Self, String> {
        let (mut size, mut orientation) = (None, None);
        let mut segments = Segments { bytes: file, at: 2 };
        loop {
            let Segment { marker, at, body } =
                segments.next_segment().map_err(|error| error.to_string())?;
            match marker {
                SOS => break,
                APP1 if orientation.is_none() => {
                    let tiff = file[body].strip_prefix(b"Exif\0\0");
                    orientation = tiff.map(|tiff| exif::value_in(tiff).into());
                }
                marker if is_frame(marker) => {
                    let side = |offset| be16(&file[body.clone()], offset).map(u32::from);
                    let (Some(height), Some(width)) = (side(1), side(3)) else {
                        return Err(SegmentError::Length { at }.to_string());
                    };
                    size = Some(Size { height, width });
                }
                _ => {}
            }
        }
        let size = size.ok_or("the header has no size")?;
        Ok(Self { size, orientation: orientation.unwrap_or(1) })
    }
}

/// The properties of an image file that RGB pixels of 8 bits a sample can't represent.
#[cfg(feature = "write")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleFormat {
    pub(crate) has_alpha: bool,
    /// True if samples have more than 8 bits.
    pub(crate) is_over_8_bits: bool,
}

#[cfg(feature = "write")]
impl SampleFormat {
    /// Reads the header of an image file. A JPEG has none of these properties.
    ///
    /// # Errors
    ///
    /// If the header is damaged or cut; the error says why.
    pub(crate) fn of_file(file: &[u8]) -> Result<Self, String> {
        let (has_alpha, is_over_8_bits) = match ImageMode::of_file(file) {
            ImageMode::Png => {
                let mut decoder = png::Decoder::new(Cursor::new(file));
                decoder.set_ignore_text_chunk(true);
                decoder.set_ignore_iccp_chunk(true);
                let reader = call_decoder("png", || decoder.read_info())?;
                let info = reader.info();
                let colors = info.color_type;
                let has_alpha = matches!(colors, ColorType::GrayscaleAlpha | ColorType::Rgba);
                (has_alpha || info.trns.is_some(), info.bit_depth == BitDepth::Sixteen)
            }
            #[cfg(feature = "webp")]
            ImageMode::Webp => (WebpHeader::parse(file)?.has_alpha, false),
            #[cfg(feature = "tiff")]
            ImageMode::Tiff => {
                let tiff = TiffFile::parse(file, u64::MAX)?;
                let colors = match tiff.photometric {
                    Photometric::Rgb => 3,
                    Photometric::Cmyk => 4,
                    _ => 1,
                };
                (tiff.samples > colors, tiff.bits > 8)
            }
            mode => match mode.file_format().and_then(|format| format.still) {
                Some(still) => {
                    let still = call_decoder("header", || (still.header)(file))?;
                    (still.has_alpha(), still.white > 255)
                }
                None => (false, false),
            },
        };
        Ok(Self { has_alpha, is_over_8_bits })
    }
}

#[cfg(all(test, feature = "tiff", feature = "webp", feature = "write"))]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A segment of Adobe that is too short says nothing, and is no damage.
    #[test]
    fn the_size_of_a_jpeg_is_read_whatever_its_other_segments_are() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/strangers/jpeg");
        let short = fs::read(folder.join("colour-adobe_short/a/colour-adobe_short.jpg")).unwrap();
        let expected = ImageHeader { size: Size::new(48, 64), orientation: 1 };
        assert_eq!(ImageHeader::parse(&short), Ok(expected));
        for len in 2..180 {
            assert!(ImageHeader::parse(&short[..len]).is_err(), "{len}");
        }
        let error = ImageHeader::parse(b"\0\0\0\x0cjP  \r\n\x87\n").unwrap_err();
        assert_eq!(error, "it is a JPEG 2000, which is not read");
    }

    #[test]
    fn alpha_and_the_bits_of_samples_are_read_from_headers() {
        let alpha = [
            "png/gray16_transparent",
            "png/gray_alpha16",
            "png/gray_alpha8",
            "png/palette4",
            "png/rgba16",
            "png/rgba8",
            "tiff/gray_alpha",
            "tiff/rgba",
            "tiff/rgba_multiplied",
            "tiff/rgbx",
            "webp/animated_alpha",
            "webp/lossless_alpha",
            "webp/lossy_alpha",
        ];
        let over_8_bits = [
            "png/gray16",
            "png/gray16_interlaced",
            "png/gray16_transparent",
            "png/gray_alpha16",
            "png/rgb16",
            "png/rgba16",
            "tiff/gray16",
            "tiff/gray16_big_endian",
            "tiff/rgb16",
            "tiff/rgb16_big_endian",
        ];
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let mut files = 0;
        for folder in ["png", "tiff", "webp"] {
            for entry in fs::read_dir(golden.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let is_image =
                    path.extension().is_some_and(|end| end == &folder[..3] || end == "webp");
                // Arrays are no pictures.
                if !is_image || path.with_extension("array").exists() {
                    continue;
                }
                let name = format!("{folder}/{}", path.file_stem().unwrap().to_str().unwrap());
                let found = SampleFormat::of_file(&fs::read(&path).unwrap()).unwrap();
                let expected = SampleFormat {
                    has_alpha: alpha.contains(&&*name),
                    is_over_8_bits: over_8_bits.contains(&&*name),
                };
                assert_eq!(found, expected, "{name}");
                files += 1;
            }
        }
        assert!(files > 40, "{files}");
    }
}
