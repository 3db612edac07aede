//! Errors of TFRecord records.

use crate::error::{Cause, Details, ErrorKind};
use crate::source::Escaped;
use fuseloop_ops::Size;

/// An error in a record: its file, its number, its offset and the cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: record {record} at byte {at}: {cause}")]
#[non_exhaustive]
pub(crate) struct TfRecordError {
    /// The file, escaped.
    pub file: String,
    /// The number of the record in the file, from 0.
    pub record: u64,
    /// The offset of the record's length; in a compressed file, an offset in the inflated data.
    pub at: u64,
    /// The cause.
    pub cause: TfRecordCause,
}

/// The reason why a record can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TfRecordCause {
    /// The file ends inside the record's header.
    #[error("the file ends inside its header, which has {found} of 12 bytes")]
    Header {
        /// The number of bytes of the header that are there.
        found: u64,
    },
    /// The checksum of the length is wrong: the next record can't be found.
    #[error("the CRC of its length is {found:#010x}, expected {expected:#010x}")]
    LengthCrc {
        /// The checksum in the file.
        found: u32,
        /// The checksum of the length.
        expected: u32,
    },
    /// The checksum of the data is wrong.
    #[error("the CRC of its data is {found:#010x}, expected {expected:#010x}")]
    DataCrc {
        /// The checksum in the file.
        found: u32,
        /// The checksum of the data.
        expected: u32,
    },
    /// The file is compressed, so it can't be read at an offset.
    #[error("the file is compressed: it can only be read as a stream, from its beginning on")]
    Compressed,
    /// The record has more bytes than a value may have.
    #[error("its length is {len} bytes, the limit is {max}")]
    Long {
        /// The length in bytes.
        len: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The record would unpack to more bytes than a value may have.
    #[error(
        "it unpacks to {len} bytes, and the limit is {max} (`Limits::max_unpacked_bytes`): unpack the file, or raise the limit"
    )]
    Unpacked {
        /// The length in bytes.
        len: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The file ends before the record does.
    #[error("its length is {len} bytes, the file has {left} more")]
    Short {
        /// The length, plus 4 bytes for the data's CRC.
        len: u64,
        /// The number of bytes left in the file.
        left: u64,
    },
    /// The file has more records than the limits allow.
    #[error("more records than the limit of {max}")]
    Many {
        /// The limit.
        max: u64,
    },
    /// The record is not at the offset that the index states.
    #[error("it is not where the index says: was the file changed?")]
    Moved,
    /// The system reports a read error, or compressed data is damaged.
    #[error("{message}")]
    Read {
        /// The system's or decoder's message.
        message: String,
    },
    /// The data is not a valid message.
    #[error("neither a tf.train.Example nor a SequenceExample: {message}")]
    Message {
        /// The decoder's message.
        message: String,
    },
    /// The record lacks a requested feature.
    #[error("it has no feature {}", Escaped(feature))]
    Missing {
        /// The name of the feature.
        feature: String,
    },
    /// A feature has another type.
    #[error("feature {} is {found}, expected {wanted}", Escaped(feature))]
    Kind {
        /// The name of the feature.
        feature: String,
        /// The type found.
        found: &'static str,
        /// The type requested.
        wanted: &'static str,
    },
    /// A feature has another number of values.
    #[error("feature {} has {found} values, expected {wanted}", Escaped(feature))]
    Count {
        /// The name of the feature.
        feature: String,
        /// The number found.
        found: u64,
        /// The number requested.
        wanted: u64,
    },
    /// A feature that was written as an array differs from that of the first record.
    #[error("feature {} is no {wanted}, as in the first record", Escaped(feature))]
    Other {
        /// The name of the feature.
        feature: String,
        /// The array type in the first record.
        wanted: String,
    },
    /// An image has more objects than the limit.
    #[error(
        "feature {} has {found} values, one for each object, and the limit is {max}",
        Escaped(feature)
    )]
    Objects {
        /// The name of the feature.
        feature: String,
        /// The number of values.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// A coordinate that is no share of the image's size.
    #[error(
        "feature {}: object {index} has the coordinate {found}, expected 0 to 1, divided by the size of the image",
        Escaped(feature)
    )]
    Share {
        /// The name of the feature.
        feature: String,
        /// The index of the object.
        index: usize,
        /// The value.
        found: String,
    },
    /// The mask of an object is damaged, or of another size than its image.
    #[error("feature image/object/mask: object {index}: {reason}")]
    Mask {
        /// The index of the object.
        index: usize,
        /// The reason.
        reason: String,
    },
    /// The width or the height of an image is none.
    #[error("feature {} is {found}, expected the number of pixels", Escaped(feature))]
    Side {
        /// The name of the feature.
        feature: String,
        /// The value.
        found: i64,
    },
    /// The boxes can't be read because the size of the image is not known.
    #[error(
        "it has boxes but no image/width and image/height, and the size of its image can't be read: {reason}"
    )]
    NoSize {
        /// The reason.
        reason: String,
    },
    /// The features name another size than the image has.
    #[error(
        "image/width is {} and image/height is {}, but the image has width {} and height {}: correct the features (boxes of \
         another size are elsewhere in it)",
        annotated.width, annotated.height, found.width, found.height
    )]
    OtherSize {
        /// The size that the features name.
        annotated: Size,
        /// The size of the image.
        found: Size,
    },
    /// A feature list has another number of steps.
    #[error("feature list {} has {found} steps, expected {wanted}", Escaped(feature))]
    Steps {
        /// The name of the feature list.
        feature: String,
        /// The number found.
        found: u64,
        /// The number requested.
        wanted: u64,
    },
}

impl Cause for TfRecordError {
    fn details(&self) -> Details<'_> {
        let kind = match &self.cause {
            TfRecordCause::Compressed => ErrorKind::Unsupported,
            TfRecordCause::Long { .. }
            | TfRecordCause::Unpacked { .. }
            | TfRecordCause::Many { .. } => ErrorKind::Memory,
            _ => ErrorKind::Damaged,
        };
        Details::of(kind).path(&self.file).offset(self.at)
    }
}
