//! What can be wrong with tar shards, and with one member.

use crate::source::{BoxError, Escaped};
use crate::threads::ThreadsError;
use std::fmt;

/// Why tar shards can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TarError {
    /// A text that names no files, or a file that can't be opened.
    #[error("{0}")]
    Open(BoxError),
    /// The threads that read the shards can't be started.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// A shard is damaged, or is no tar file.
    #[error("{shard}: byte {at}: {kind}")]
    Shard {
        /// Where it is, with control characters escaped.
        shard: String,
        /// The byte it was found at: in a compressed shard, of what it unpacks to.
        at: u64,
        /// What is wrong.
        kind: Damage,
    },
    /// A sample's part can't be read or is not what its field is.
    #[error("{shard}: sample {}{part}: {message}", Escaped(key))]
    Sample {
        /// Where its shard is, with control characters escaped.
        shard: String,
        /// What it is called there.
        key: String,
        /// Which part of it.
        part: PartPlace,
        /// What is wrong.
        message: String,
    },
    /// No shard has a sample.
    #[error("{shards}: there is no sample")]
    NoSamples {
        /// The shards.
        shards: String,
    },
    /// A field that can't be made as it was declared.
    #[error("field {}: {message}", Escaped(field))]
    Field {
        /// Its name.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// A sample that the dataset has not.
    #[error("there is no sample {sample}, the shards have {samples}")]
    NoSuchSample {
        /// The number asked for.
        sample: u64,
        /// Samples of the dataset.
        samples: u64,
    },
    /// A field that the dataset has not.
    #[error("there is no field {field}, the shards have {fields}")]
    NoSuchField {
        /// The number asked for.
        field: usize,
        /// Fields of the dataset.
        fields: usize,
    },
    /// More samples, or longer tables of them, than the limits allow.
    #[error("{shards}: {found} {what}, the limit is {limit}")]
    Limit {
        /// The shards.
        shards: String,
        /// What there are too many of.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A compressed shard where samples are read in any order.
    #[error(
        "{shard}: a compressed shard is read from its beginning on: open it as a stream, or unpack it"
    )]
    Compressed {
        /// Where it is, with control characters escaped.
        shard: String,
    },
    /// Ranks that can't all have a shard.
    #[error("{shards} shards for {world} ranks: a rank would have none")]
    Ranks {
        /// Shards there are.
        shards: usize,
        /// Ranks there are.
        world: usize,
    },
    /// A rank that is none.
    #[error("rank {rank} of {world}")]
    Rank {
        /// The rank.
        rank: usize,
        /// Ranks there are.
        world: usize,
    },
}

/// Which part of a sample: its extension, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartPlace {
    /// The sample as a whole.
    Whole,
    /// One member.
    Member {
        /// Its extension.
        ext: String,
        /// Its first byte.
        at: u64,
    },
}

impl fmt::Display for PartPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Member { ext, at } => write!(f, ", {} at byte {at}", Escaped(ext)),
        }
    }
}

/// What is wrong with a tar file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A file of no bytes.
    #[error("the file is empty")]
    Empty,
    /// A block where a header should be.
    #[error("this is no tar header: its checksum is wrong")]
    Checksum,
    /// A header's size field.
    #[error("a tar header whose size is no number below 2^64")]
    Size,
    /// The data of a PAX header.
    #[error("byte {byte} of a PAX header begins no record")]
    PaxRecord {
        /// Of the header's data.
        byte: usize,
    },
    /// The size in a PAX header.
    #[error("a PAX header whose size is no number below 2^64")]
    PaxSize,
    /// Place or name of all members to come, which no two readers take alike.
    #[error("a global PAX header with a path or a size")]
    PaxGlobal,
    /// A name or a PAX header that is longer than any.
    #[error("{what} of {found} bytes, the limit is {limit}")]
    Long {
        /// What is too long.
        what: &'static str,
        /// Bytes of it.
        found: u64,
        /// Bytes it may have.
        limit: u64,
    },
    /// A member of a compressed file that would unpack to more bytes than a value may have.
    #[error(
        "a member that unpacks to {found} bytes, and the limit is {limit} (`Limits::max_unpacked_bytes`): unpack the shard, or raise the limit"
    )]
    Unpacked {
        /// Bytes of it, as its header says.
        found: u64,
        /// Bytes it may have.
        limit: u64,
    },
    /// The file ends within a header.
    #[error("the file ends after {found} bytes of a header")]
    HalfHeader {
        /// Bytes there are.
        found: usize,
    },
    /// The file ends within a member.
    #[error("a member of {size} bytes, and the file ends at byte {end}")]
    Short {
        /// Its bytes.
        size: u64,
        /// Where the file ends.
        end: u64,
    },
    /// A link, a folder or a device that says it has data.
    #[error("a link, folder or device of {size} bytes: readers differ on where the next header is")]
    HasData {
        /// As it says.
        size: u64,
    },
    /// Two long names, or two PAX headers, or one of each that differ.
    #[error("two headers that name the same member")]
    Twice,
    /// A long name or a PAX header without a member.
    #[error("the archive ends where a header told of one more member")]
    Dangling,
    /// Bytes after the end.
    #[error(
        "the archive ended at byte {end}, and something follows: are two archives in one file?"
    )]
    Trailing {
        /// Where it ended.
        end: u64,
    },
    /// Zeros after the end, without end.
    #[error("the archive ended at byte {end}, and more than {limit} bytes follow")]
    LongTail {
        /// Where it ended.
        end: u64,
        /// Bytes that may follow.
        limit: u64,
    },
    /// A sample with two parts of one extension.
    #[error("sample {} has {} twice", Escaped(key), Escaped(ext))]
    Duplicate {
        /// The sample.
        key: String,
        /// The extension, in small letters.
        ext: String,
    },
    /// More extensions or parts than a table has numbers for.
    #[error("more than 65536 extensions, or 2^32 parts, in one shard")]
    Many,
    /// The system, or a decoder, can't read on.
    #[error("{0}")]
    Read(String),
}

/// Damage with the byte it was found at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) at: u64,
    pub(super) kind: Damage,
}

impl Found {
    /// With the shard's name.
    pub(super) fn of(self, shard: &impl fmt::Display) -> TarError {
        TarError::Shard { shard: shard.to_string(), at: self.at, kind: self.kind }
    }
}
