//! The header of an image file, of which only the beginning is read, and the size of a stored image.

use super::file::FileBytes;
use super::image_header::ImageHeader;
use super::samples::read_image_part;
use super::{Buffer, ImageMode, Source};
use crate::error::{AtPath as _, Error, fail};
use crate::exif::{self, ChunkFormat};
use crate::sample::{Limits, SampleId};
use fuseloop_ops::Size;
use std::path::Path;

/// The bytes at the beginning of a file that usually have the whole header.
const HEADER: u64 = 64 << 10;

/// The bytes that are read at a time where a file is searched for its orientation.
const BLOCK: u64 = 4 << 10;

/// The most bytes of EXIF data that are read: as many as a segment of a JPEG can have.
const MOST_EXIF: u64 = 64 << 10;

/// Returns the size of a stored image from the tables of its dataset or the header of its file, as it is stored or
/// upright; `None` if that takes more than a read of the header, or the header can't be read.
pub(crate) fn stored_size(
    source: &dyn Source,
    (sample, field): (SampleId, usize),
    is_upright: bool,
    limits: &Limits,
    buffer: &mut Buffer,
) -> Option<Size> {
    let stored = source.stored()?;
    let shown = |ImageHeader { size, orientation }| match is_upright {
        true => exif::upright_size(orientation, size),
        false => size,
    };
    if let Some(path) = stored.value_file(sample, field) {
        return read(&path, limits).ok().map(shown);
    }
    let extent = stored.image_extent(sample, field)?;
    let is_turned = is_upright && extent.mode != Some(ImageMode::Raw);
    if extent.size.pixels() > 0 && !is_turned {
        return Some(extent.size);
    }
    let part = 0..extent.bytes.min(HEADER);
    let is_whole = part.end == extent.bytes;
    let bytes = read_image_part(stored, (sample, field), &extent, part, buffer).ok()?;
    let is_known = is_whole || !is_upright || ImageHeader::chunks(bytes).is_none();
    ImageHeader::parse(bytes).ok().filter(|_| is_known).map(shown)
}

/// Reads the header of an image file, and its orientation wherever that is.
pub(super) fn read(path: &Path, limits: &Limits) -> Result<ImageHeader, Error> {
    let file = FileBytes::open(path).at(path)?;
    let mut bytes = vec![];
    let first = file.len().min(HEADER);
    file.append(0, first, &mut bytes).at(path)?;
    let mut header = ImageHeader::parse(&bytes);
    // A long EXIF segment or colour profile can fill the first bytes.
    let rest = file.len().min(limits.max_sample_bytes).saturating_sub(first);
    if header.is_err() && rest > 0 {
        file.append(first, rest, &mut bytes).at(path)?;
        header = ImageHeader::parse(&bytes);
    }
    let mut header = header.map_err(|reason| {
        fail!(Format, "the size of the image can't be read: {reason}").at(path)
    })?;
    if let Some(format) = ImageHeader::chunks(&bytes)
        && file.len() > bytes.len() as u64
    {
        let orientation = orientation_after(&file, format).at(path)?;
        header.orientation = orientation.into();
    }
    Ok(header)
}

/// Reads the orientation of a file of chunks, of which little more than the names is read.
fn orientation_after(file: &FileBytes, format: ChunkFormat) -> Result<u8, Error> {
    let (mut block, mut start) = (vec![], 0);
    let found = exif::find(format, file.len(), |at| {
        let known = |block: &[u8], start: u64| {
            let at = usize::try_from(at.checked_sub(start)?).ok()?;
            block.get(at..)?.first_chunk().copied()
        };
        if let Some(bytes) = known(&block, start) {
            return Ok::<_, Error>(bytes);
        }
        (block, start) = (vec![], at);
        file.append(at, BLOCK.min(file.len() - at), &mut block)?;
        Ok(known(&block, start).unwrap_or_default())
    })?;
    let Some(data) = found.filter(|data| data.end - data.start <= MOST_EXIF) else { return Ok(1) };
    Ok(exif::value_in(&file.copy(data.start, data.end - data.start)?))
}
