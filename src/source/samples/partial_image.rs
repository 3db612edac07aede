//! Stored images of which some bytes are read without the others.

use super::{Buffer, StoredValues};
use crate::error::Error;
use crate::sample::SampleId;
use crate::source::error::no_memory;
use crate::source::file::{LINE, skew};
use crate::source::{BoxError, ImageMode};
use fuseloop_ops::Size;
use std::fmt;
use std::mem;
use std::ops::Range;

/// The bytes of a stored image, of which any part can be read without the others.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageExtent {
    /// How the bytes are coded; `None` if only their beginning says it.
    pub mode: Option<ImageMode>,
    /// The size according to the sample table; 0 by 0 if it is not known.
    pub size: Size,
    /// The offset of the first byte in its file.
    pub start: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// An image that has an extent, and the parts of it that were read, each where it is among the image's bytes.
pub(crate) struct PartialImage<'a> {
    source: &'a dyn StoredValues,
    sample: SampleId,
    field: usize,
    extent: ImageExtent,
    buffer: &'a mut Buffer,
    /// Where the image is in the buffer.
    place: Range<usize>,
}

impl<'a> PartialImage<'a> {
    /// Makes room for all bytes of an image, and reads none.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(crate) fn new(
        source: &'a dyn StoredValues,
        (sample, field): (SampleId, usize),
        extent: ImageExtent,
        buffer: &'a mut Buffer,
    ) -> Result<Self, Error> {
        let place = make_room(&mut buffer.bytes, extent.start, extent.bytes)?;
        Ok(Self { source, sample, field, extent, buffer, place })
    }

    /// Returns what is known of the image.
    pub(crate) fn extent(&self) -> &ImageExtent {
        &self.extent
    }

    /// Returns as many bytes as the image has. Those that were not [read](Self::read) are unspecified.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes[self.place.clone()]
    }

    /// Reads a part of the image's bytes, which is inside the image.
    ///
    /// # Errors
    ///
    /// The read fails as [`Source::value`](super::Source::value) does.
    pub(crate) fn read(&mut self, part: Range<usize>) -> Result<(), BoxError> {
        let Self { source, sample, field, buffer, place, .. } = self;
        let to = place.start + part.start..place.start + part.end;
        read_to(*source, (*sample, *field), part.start as u64, to, buffer)
    }
}

impl fmt::Debug for PartialImage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sample, field, extent, .. } = self;
        let mut shown = f.debug_struct("PartialImage");
        shown.field("sample", sample).field("field", field).field("extent", extent);
        shown.finish_non_exhaustive()
    }
}

/// Reads a part of the bytes of an image that has this extent, and nothing else.
///
/// # Errors
///
/// The read fails as [`Source::value`](super::Source::value) does.
pub(crate) fn read_image_part<'a>(
    source: &dyn StoredValues,
    (sample, field): (SampleId, usize),
    extent: &ImageExtent,
    part: Range<u64>,
    buffer: &'a mut Buffer,
) -> Result<&'a [u8], BoxError> {
    let bytes = part.end.saturating_sub(part.start);
    let place = make_room(&mut buffer.bytes, extent.start.saturating_add(part.start), bytes)?;
    read_to(source, (sample, field), part.start, place.clone(), buffer)?;
    Ok(&buffer.bytes[place])
}

/// Grows a buffer so that `bytes` bytes of a file from offset `start` on can be read into it fast, and returns where.
fn make_room(buffer: &mut Vec<u8>, start: u64, bytes: u64) -> Result<Range<usize>, Error> {
    let none = || no_memory(bytes);
    let count = usize::try_from(bytes).ok().filter(|count| count.checked_add(LINE).is_some());
    let count = count.ok_or_else(none)?;
    if buffer.len() < count + LINE {
        buffer.try_reserve(count + LINE - buffer.len()).map_err(|_| none())?;
        buffer.resize(count + LINE, 0);
    }
    let skew = skew(buffer, start);
    Ok(skew..skew + count)
}

/// Reads the bytes of an image from byte `at` of it on to a range of a buffer.
fn read_to(
    source: &dyn StoredValues,
    (sample, field): (SampleId, usize),
    at: u64,
    to: Range<usize>,
    buffer: &mut Buffer,
) -> Result<(), BoxError> {
    let mut bytes = mem::take(&mut buffer.bytes);
    let read = source.image_part(sample, field, (at, &mut bytes[to]), buffer);
    buffer.bytes = bytes;
    read
}
