//! The size of an image, from the header of its file.

use super::error::AnnotationError;
use crate::exif;
use crate::sample::Limits;
use crate::source::file::FileBytes;
use std::io::Cursor;
use std::path::Path;
use zune_core::bytestream::ZCursor;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// The bytes at the beginning of a file that usually have the whole header.
const HEADER: u64 = 64 << 10;

/// The stored size of an image, and its EXIF orientation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageSize {
    pub width: u32,
    pub height: u32,
    /// The orientation, from 1 to 8. 1 is upright.
    pub orientation: u32,
}

/// Reads the header of a JPEG or PNG file.
pub(super) fn read(path: &Path, limits: &Limits) -> Result<ImageSize, AnnotationError> {
    let file = FileBytes::open(path).map_err(AnnotationError::io(path))?;
    let mut bytes = vec![];
    let first = file.len().min(HEADER);
    file.append(0, first, &mut bytes).map_err(AnnotationError::read(path))?;
    let mut size = parse(&bytes);
    // A long EXIF segment or colour profile can fill the first bytes.
    let rest = file.len().min(limits.max_sample_bytes).saturating_sub(first);
    if size.is_err() && rest > 0 {
        file.append(first, rest, &mut bytes).map_err(AnnotationError::read(path))?;
        size = parse(&bytes);
    }
    size.map_err(|reason| {
        AnnotationError::damaged(path, format!("the size of the image can't be read: {reason}"))
    })
}

/// Reads a header from the first bytes of a file.
fn parse(bytes: &[u8]) -> Result<ImageSize, String> {
    if bytes.starts_with(&[0xff, 0xd8]) {
        let largest = usize::from(u16::MAX);
        let options = DecoderOptions::default().set_max_width(largest).set_max_height(largest);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers().map_err(|error| error.to_string())?;
        let (width, height) = decoder.dimensions().ok_or("the header has no size")?;
        let value = decoder.exif().and_then(|tiff| exif::orientation(tiff));
        let orientation = value.filter(|value| (1..=8).contains(value)).unwrap_or(1);
        return Ok(ImageSize { width: width as u32, height: height as u32, orientation });
    }
    let reader = png::Decoder::new(Cursor::new(bytes)).read_info();
    let reader = reader.map_err(|error| error.to_string())?;
    let (width, height) = reader.info().size();
    Ok(ImageSize { width, height, orientation: 1 })
}
