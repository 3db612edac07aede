//! Why a record can't be had.

use crate::source::Escaped;

/// Why a record can't be had: of which file, which one, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: record {record} at byte {at}: {cause}")]
#[non_exhaustive]
pub struct TfRecordError {
    /// The file, escaped.
    pub file: String,
    /// Its number in the file, from 0.
    pub record: u64,
    /// Where its length lies; in a compressed file, of what it is inflated to.
    pub at: u64,
    /// Why.
    pub cause: TfRecordCause,
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TfRecordCause {
    /// The file ends before the length does.
    #[error("the file ends inside its header, which has {found} of 12 bytes")]
    Header {
        /// Bytes there are.
        found: u64,
    },
    /// The length's checksum is wrong: what follows can't be found.
    #[error("the CRC of its length is {found:#010x}, expected {expected:#010x}")]
    LengthCrc {
        /// In the file.
        found: u32,
        /// Of the length.
        expected: u32,
    },
    /// The data's checksum is wrong.
    #[error("the CRC of its data is {found:#010x}, expected {expected:#010x}")]
    DataCrc {
        /// In the file.
        found: u32,
        /// Of the data.
        expected: u32,
    },
    /// The file is compressed: there are no places in it.
    #[error("the file is compressed: it can only be read as a stream, from its beginning on")]
    Compressed,
    /// More bytes than a value may have.
    #[error("its length is {len} bytes, the limit is {max}")]
    Long {
        /// The length.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// More bytes than a value may unpack to.
    #[error(
        "it unpacks to {len} bytes, and the limit is {max} (`Limits::max_unpacked_bytes`): unpack the file, or raise the limit"
    )]
    Unpacked {
        /// The length.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// The file ends before the record does.
    #[error("its length is {len} bytes, the file has {left} more")]
    Short {
        /// The length, and 4 for the data's CRC.
        len: u64,
        /// Bytes left.
        left: u64,
    },
    /// More records than the limits allow.
    #[error("more records than the limit of {max}")]
    Many {
        /// The limit.
        max: u64,
    },
    /// The record is not where the index says.
    #[error("it is not where the index says: was the file changed?")]
    Moved,
    /// The system refused, or what is compressed is damaged.
    #[error("{message}")]
    Read {
        /// Its words.
        message: String,
    },
    /// Not a message.
    #[error("neither a tf.train.Example nor a SequenceExample: {message}")]
    Message {
        /// The decoder's words.
        message: String,
    },
    /// A feature that is asked for is not there.
    #[error("it has no feature {}", Escaped(feature))]
    Missing {
        /// Its name.
        feature: String,
    },
    /// A feature of another type.
    #[error("feature {} is {found}, expected {wanted}", Escaped(feature))]
    Kind {
        /// Its name.
        feature: String,
        /// What it is.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// A feature of more or fewer values.
    #[error("feature {} has {found} values, expected {wanted}", Escaped(feature))]
    Count {
        /// Its name.
        feature: String,
        /// How many it has.
        found: u64,
        /// How many were asked for.
        wanted: u64,
    },
    /// A feature that was written as an array, and is another than in the first record.
    #[error("feature {} is not {wanted}, as in the first record", Escaped(feature))]
    Other {
        /// Its name.
        feature: String,
        /// What it is in the first record.
        wanted: String,
    },
    /// A feature list of more or fewer steps.
    #[error("feature list {} has {found} steps, expected {wanted}", Escaped(feature))]
    Steps {
        /// Its name.
        feature: String,
        /// How many it has.
        found: u64,
        /// How many were asked for.
        wanted: u64,
    },
}
