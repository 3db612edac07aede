//! The header of an image file, of which only the beginning is read.

use super::error::AnnotationError;
use crate::sample::Limits;
use crate::source::file::FileBytes;
use crate::source::image_header::ImageHeader;
use std::path::Path;

/// The bytes at the beginning of a file that usually have the whole header.
const HEADER: u64 = 64 << 10;

/// Reads the header of a JPEG or PNG file.
pub(super) fn read(path: &Path, limits: &Limits) -> Result<ImageHeader, AnnotationError> {
    let file = FileBytes::open(path).map_err(AnnotationError::io(path))?;
    let mut bytes = vec![];
    let first = file.len().min(HEADER);
    file.append(0, first, &mut bytes).map_err(AnnotationError::read(path))?;
    let mut header = ImageHeader::parse(&bytes);
    // A long EXIF segment or colour profile can fill the first bytes.
    let rest = file.len().min(limits.max_sample_bytes).saturating_sub(first);
    if header.is_err() && rest > 0 {
        file.append(first, rest, &mut bytes).map_err(AnnotationError::read(path))?;
        header = ImageHeader::parse(&bytes);
    }
    header.map_err(|reason| {
        AnnotationError::damaged(path, format!("the size of the image can't be read: {reason}"))
    })
}
