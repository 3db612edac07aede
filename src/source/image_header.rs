//! The size of an image and its EXIF orientation, from the header of its file.

#[cfg(not(all(feature = "tiff", feature = "webp")))]
use super::feature::NeedsFeature;
#[cfg(all(feature = "tiff", feature = "write"))]
use super::tiff_file::Photometric;
#[cfg(feature = "tiff")]
use super::tiff_file::TiffFile;
use super::value::ImageMode;
#[cfg(feature = "webp")]
use super::webp_file::WebpHeader;
use crate::exif::{self, ChunkFormat};
use crate::panicked::call_decoder;
use fuseloop_ops::Size;
#[cfg(feature = "write")]
use png::{BitDepth, ColorType};
use std::io::Cursor;
use zune_core::bytestream::ZCursor;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

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
        match ImageMode::of_file(file) {
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
            #[cfg(not(feature = "webp"))]
            ImageMode::Webp => {
                return Err(NeedsFeature { what: "WebP images", feature: "webp" }.to_string());
            }
            #[cfg(not(feature = "tiff"))]
            ImageMode::Tiff => {
                return Err(NeedsFeature { what: "TIFF images", feature: "tiff" }.to_string());
            }
            ImageMode::Jpeg | ImageMode::Png | ImageMode::Raw | ImageMode::BitPlanes => {}
        }
        if !file.starts_with(&[0xff, 0xd8]) {
            let reader = call_decoder("png", || png::Decoder::new(Cursor::new(file)).read_info())?;
            let (width, height) = reader.info().size();
            let orientation = exif::orientation_in(ChunkFormat::Png, file).into();
            return Ok(Self { size: Size { height, width }, orientation });
        }
        let largest = usize::from(u16::MAX);
        let options = DecoderOptions::default().set_max_width(largest).set_max_height(largest);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
        call_decoder("zune-jpeg", || decoder.decode_headers())?;
        let (width, height) = decoder.dimensions().ok_or("the header has no size")?;
        let orientation = decoder.exif().map_or(1, |tiff| exif::value_in(tiff)).into();
        Ok(Self { size: Size { height: height as u32, width: width as u32 }, orientation })
    }

    /// Returns the format of a file whose orientation may be after the bytes that its header is read from.
    pub(super) fn chunks(file: &[u8]) -> Option<ChunkFormat> {
        match ImageMode::of_file(file) {
            ImageMode::Png => Some(ChunkFormat::Png),
            ImageMode::Webp => Some(ChunkFormat::Webp),
            _ => None,
        }
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
            _ => (false, false),
        };
        Ok(Self { has_alpha, is_over_8_bits })
    }
}

#[cfg(all(test, feature = "tiff", feature = "webp", feature = "write"))]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

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
