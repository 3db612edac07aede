//! The size of an image and its EXIF orientation, from the header of its file.

#[cfg(not(all(feature = "tiff", feature = "webp")))]
use super::feature::NeedsFeature;
#[cfg(feature = "tiff")]
use super::tiff_file::TiffFile;
#[cfg(all(feature = "tiff", feature = "write"))]
use super::tiff_file::{Photometric, SampleKind};
use super::value::ImageMode;
#[cfg(feature = "webp")]
use super::webp_file::WebpHeader;
use crate::exif;
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
    /// Reads the header of an image file from its first bytes. Those of a TIFF may be at its end.
    ///
    /// # Errors
    ///
    /// If the header is damaged or cut; the error says why.
    pub(super) fn parse(file: &[u8]) -> Result<Self, String> {
        match ImageMode::of_file(file) {
            #[cfg(feature = "webp")]
            ImageMode::Webp => {
                let size = WebpHeader::parse(file)?.size;
                return Ok(Self { size, orientation: 1 });
            }
            #[cfg(feature = "tiff")]
            ImageMode::Tiff => {
                return Ok(Self { size: TiffFile::size_of(file)?, orientation: 1 });
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
            return Ok(Self { size: Size { height, width }, orientation: 1 });
        }
        let largest = usize::from(u16::MAX);
        let options = DecoderOptions::default().set_max_width(largest).set_max_height(largest);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
        call_decoder("zune-jpeg", || decoder.decode_headers())?;
        let (width, height) = decoder.dimensions().ok_or("the header has no size")?;
        let orientation = decoder.exif().and_then(|tiff| exif::orientation(tiff));
        Ok(Self {
            size: Size { height: height as u32, width: width as u32 },
            orientation: orientation.filter(|value| (1..=8).contains(value)).unwrap_or(1),
        })
    }
}

/// What an image file has that RGB of 8 bits does not hold.
#[cfg(feature = "write")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BeyondRgb {
    pub(crate) has_alpha: bool,
    /// True if samples have more than 8 bits, or other meanings than gray and RGB.
    pub(crate) has_finer_samples: bool,
}

#[cfg(feature = "write")]
impl BeyondRgb {
    /// Reads the header of an image file. JPEGs have nothing of it.
    ///
    /// # Errors
    ///
    /// If the header is damaged or cut; the error says why.
    pub(crate) fn of_file(file: &[u8]) -> Result<Self, String> {
        let (has_alpha, has_finer_samples) = match ImageMode::of_file(file) {
            ImageMode::Png => {
                let reader =
                    call_decoder("png", || png::Decoder::new(Cursor::new(file)).read_info())?;
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
                let is_of_bytes = tiff.bits <= 8 && tiff.kind == SampleKind::Unsigned;
                let is_cmyk = tiff.photometric == Photometric::Cmyk;
                (!tiff.extra.is_empty(), !is_of_bytes || is_cmyk)
            }
            _ => (false, false),
        };
        Ok(Self { has_alpha, has_finer_samples })
    }
}
