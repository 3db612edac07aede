//! Errors of tar shards and their members.

use crate::error::{Cause, Details, Error, ErrorKind};
use crate::source::Escaped;
use crate::threads::ThreadsError;
use std::fmt;

/// The reason why tar shards can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TarError {
    /// A text that names no files, or a file that can't be opened.
    #[error("{0}")]
    Open(Error),
    /// The threads that read the shards can't be started.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// A shard is damaged, or is not a tar file.
    #[error("{shard}: byte {at}: {kind}")]
    Shard {
        /// The path or address of the shard, with control characters escaped.
        shard: String,
        /// The offset of the damage: in a compressed shard, an offset in the unpacked data.
        at: u64,
        /// The damage.
        kind: TarDamage,
    },
    /// A member of a sample can't be read, or does not have its field's type.
    #[error("{shard}: sample {}{part}: {message}", Escaped(key))]
    Sample {
        /// The path or address of the shard, with control characters escaped.
        shard: String,
        /// The key of the sample.
        key: String,
        /// The member of the sample.
        part: MemberLocation,
        /// The cause.
        message: String,
    },
    /// The shards contain no sample.
    #[error("{shards}: no samples found")]
    NoSamples {
        /// The shards.
        shards: String,
    },
    /// A field can't be read as it is declared.
    #[error("field {}: {message}", Escaped(field))]
    Field {
        /// The name of the field.
        field: String,
        /// The cause.
        message: String,
    },
    /// The dataset has no sample with this number.
    #[error("sample {sample} does not exist: the shards have {samples} samples")]
    NoSuchSample {
        /// The number asked for.
        sample: u64,
        /// The number of samples in the dataset.
        samples: u64,
    },
    /// The dataset has no field with this number.
    #[error("field {field} does not exist: the shards have {fields} fields")]
    NoSuchField {
        /// The number asked for.
        field: usize,
        /// The number of fields in the dataset.
        fields: usize,
    },
    /// There are more samples, or longer tables, than the limits allow.
    #[error("{shards}: {found} {what}, the limit is {limit}")]
    Limit {
        /// The shards.
        shards: String,
        /// The counted quantity.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The largest number allowed.
        limit: u64,
    },
    /// A compressed shard can't be read in any order.
    #[error(
        "{shard}: a compressed shard is read from its beginning on: open it as a stream, or unpack it"
    )]
    Compressed {
        /// The path or address of the shard, with control characters escaped.
        shard: String,
    },
    /// There are fewer shards than ranks.
    #[error("{shards} shards for {world} ranks: some would have no shard: write more shards")]
    Ranks {
        /// The number of shards.
        shards: usize,
        /// The number of ranks.
        world: usize,
    },
    /// The rank is not below the number of ranks.
    #[error("rank {rank} of {world}: ranks are 0 to world - 1")]
    Rank {
        /// The rank.
        rank: usize,
        /// The number of ranks.
        world: usize,
    },
}

/// The member of a sample that an error is about: its extension and its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberLocation {
    /// The whole sample.
    Whole,
    /// One member.
    Member {
        /// The extension of the member.
        ext: String,
        /// The offset of the member's first byte.
        at: u64,
    },
}

impl fmt::Display for MemberLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Member { ext, at } => write!(f, ", {} at byte {at}", Escaped(ext)),
        }
    }
}

/// The damage found in a tar file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TarDamage {
    /// The file has no bytes.
    #[error("the file is empty")]
    Empty,
    /// A block is not a header: its checksum is wrong.
    #[error("not a tar header: the checksum is wrong")]
    Checksum,
    /// The size field of a header is not a number.
    #[error("the size in a tar header is not a number below 2^64")]
    Size,
    /// The data of a PAX header is not a record.
    #[error("no valid record at byte {byte} of a PAX header")]
    PaxRecord {
        /// The offset in the header's data.
        byte: usize,
    },
    /// The size in a PAX header is not a number.
    #[error("the size in a PAX header is not a number below 2^64")]
    PaxSize,
    /// A global PAX header sets the path or size of all later members, which readers interpret
    /// differently.
    #[error("a global PAX header with a path or a size")]
    PaxGlobal,
    /// A name or a PAX header is longer than the limit.
    #[error("{what} of {found} bytes, the limit is {limit}")]
    Long {
        /// The item that is too long.
        what: &'static str,
        /// The length found, in bytes.
        found: u64,
        /// The largest length allowed, in bytes.
        limit: u64,
    },
    /// A member of a compressed file would unpack to more bytes than a value may have.
    #[error(
        "a member that unpacks to {found} bytes, and the limit is {limit} (`Limits::max_unpacked_bytes`): unpack the shard, or raise the limit"
    )]
    Unpacked {
        /// The size in the member's header, in bytes.
        found: u64,
        /// The largest size allowed, in bytes.
        limit: u64,
    },
    /// The file ends within a header.
    #[error("the file ends after {found} bytes of a header")]
    HalfHeader {
        /// The number of bytes of the header that are there.
        found: usize,
    },
    /// The file ends within a member.
    #[error("a member of {size} bytes, and the file ends at byte {end}")]
    Short {
        /// The size of the member in bytes.
        size: u64,
        /// The length of the file.
        end: u64,
    },
    /// A link, a folder or a device has a size other than 0.
    #[error("a link, folder or device of {size} bytes: readers differ on where the next header is")]
    HasData {
        /// The size in the header, in bytes.
        size: u64,
    },
    /// A file is stored without its holes.
    #[error(
        "{} is a sparse file, of which only the parts between its holes are stored: write the archive without `--sparse`",
        Escaped(name)
    )]
    Sparse {
        /// The name of the member.
        name: String,
    },
    /// A member has two long names, two PAX headers, or a long name and a PAX path that differ.
    #[error("two headers that name the same member")]
    Twice,
    /// A long name or a PAX header is not followed by a member.
    #[error("the archive ends, but a header announced one more member")]
    Dangling,
    /// Bytes other than zeros follow the end of the archive.
    #[error(
        "the archive ended at byte {end}, and something follows: are two archives in one file?"
    )]
    Trailing {
        /// The offset of the end of the archive.
        end: u64,
    },
    /// Too many zeros follow the end of the archive.
    #[error("the archive ended at byte {end}, and more than {limit} bytes follow")]
    LongTail {
        /// The offset of the end of the archive.
        end: u64,
        /// The largest number of bytes that may follow.
        limit: u64,
    },
    /// A sample has two members with the same extension.
    #[error("sample {} has {} twice", Escaped(key), Escaped(ext))]
    Duplicate {
        /// The key of the sample.
        key: String,
        /// The extension, in lower case.
        ext: String,
    },
    /// A shard has more extensions or members than the tables can number.
    #[error("more than 65536 extensions, or 2^32 members, in one shard")]
    Many,
    /// The system or a decoder reports a read error.
    #[error("{0}")]
    Read(String),
}

/// Damage, with its offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LocatedDamage {
    pub(super) at: u64,
    pub(super) kind: TarDamage,
}

impl LocatedDamage {
    /// Adds the shard's name.
    pub(super) fn of(self, shard: &impl fmt::Display) -> TarError {
        TarError::Shard { shard: shard.to_string(), at: self.at, kind: self.kind }
    }
}

impl Cause for TarError {
    fn details(&self) -> Details<'_> {
        match self {
            Self::Open(error) => error.details(),
            Self::Threads(error) => error.details(),
            Self::Shard { shard, at, .. } => Details::of(ErrorKind::Format).path(shard).offset(*at),
            Self::Sample { shard, part, .. } => {
                let damaged = Details::of(ErrorKind::Damaged).path(shard);
                match part {
                    MemberLocation::Whole => damaged,
                    MemberLocation::Member { at, .. } => damaged.offset(*at),
                }
            }
            Self::NoSamples { .. } => Details::of(ErrorKind::Format),
            Self::Field { field, .. } => Details::of(ErrorKind::Field).field(field),
            Self::NoSuchField { .. } => Details::of(ErrorKind::Field),
            Self::Limit { .. } => Details::of(ErrorKind::Memory),
            Self::Compressed { shard } => Details::of(ErrorKind::Unsupported).path(shard),
            Self::NoSuchSample { .. } | Self::Ranks { .. } | Self::Rank { .. } => {
                Details::of(ErrorKind::Parameter)
            }
        }
    }
}
