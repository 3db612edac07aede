//! Errors in a `.beton` file, and in one sample of it.

use super::{FieldError, HeaderError, LayoutError};
use crate::error::{Cause, Details, ErrorKind};
use crate::sample::SampleId;
use crate::source::{Escaped, ReadCause};
use std::io;
use std::path::PathBuf;

/// An error with the path of its file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", Escaped(&path.to_string_lossy()))]
pub struct SourceError {
    /// The file.
    pub path: PathBuf,
    /// The problem. It is part of the message, so it is not the error's `source`.
    pub kind: SourceCause,
}

/// The problem with a file, or with a sample of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceCause {
    /// The file can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A sample can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The header is wrong.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The file is no `.beton` file, and its name has no other known extension.
    #[error("{0}, and its extension is not one of .tar, .tfrecord, .csv, .tsv and .jsonl")]
    Unknown(HeaderError),
    /// The file has a format that no dataset has.
    #[error("no dataset: {0}")]
    Other(String),
    /// A range of the file can't be read.
    #[error(transparent)]
    Read(#[from] ReadCause),
    /// A field descriptor is wrong.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// User-defined fields make a row too long.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// More samples than the limit.
    #[error("{found} samples at byte 8, the limit is {limit}")]
    Samples {
        /// Samples in the header.
        found: u64,
        /// `Limits::max_samples`.
        limit: u64,
    },
    /// The sample table would run into the allocation table.
    #[error(
        "a sample table of {samples} rows of {row_size} bytes at byte {start} does not fit before the allocation table at byte {end}"
    )]
    SampleTable {
        /// The number of rows, according to the header.
        samples: u64,
        /// The size of a row in bytes.
        row_size: usize,
        /// File offset of the sample table.
        start: u64,
        /// File offset of the allocation table.
        end: u64,
    },
    /// The tables are too large to be held in memory.
    #[error("tables of {found} bytes, the limit is {limit}")]
    TableBytes {
        /// Bytes of the descriptors, the sample table and, if it is needed, the allocation table.
        found: u64,
        /// `Limits::max_table_bytes`.
        limit: u64,
    },
    /// The allocation table does not end with the file: bytes are missing, or some were added.
    #[error(
        "the allocation table at byte {start} has {found} bytes to the end of the file, expected a multiple of 24"
    )]
    AllocationTable {
        /// File offset of the table.
        start: u64,
        /// The bytes from the start of the table to the end of the file.
        found: u64,
    },
    /// There is no memory to sort the allocation table.
    #[error("no memory for an index of {records} allocation records")]
    IndexMemory {
        /// Records of the table.
        records: usize,
    },
}

/// Why a field of a sample could not be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("sample {sample} ({}): {kind}", Escaped(field))]
pub struct ReadError {
    /// The sample.
    pub sample: SampleId,
    /// The field's name; `#7` for an index without a field.
    pub field: String,
    /// The problem.
    pub kind: ReadCause,
}

impl ReadError {
    /// Adds the path of the file to the error.
    #[must_use]
    pub fn in_file(self, path: impl Into<PathBuf>) -> SourceError {
        SourceError { path: path.into(), kind: self.into() }
    }
}

impl SourceError {
    /// Returns the error of a value without the file; `None` if the file could not be opened.
    pub(crate) fn read_error(&self) -> Option<&ReadError> {
        match &self.kind {
            SourceCause::Read(error) => Some(error),
            SourceCause::Open(_) => None,
        }
    }
}

impl Cause for SourceError {
    fn details(&self) -> Details<'_> {
        let details = match &self.kind {
            SourceCause::Open(error) => error.details(),
            SourceCause::Read(error) => error.details(),
        };
        details.path(&self.path)
    }
}

impl Cause for OpenError {
    fn details(&self) -> Details<'_> {
        let format = Details::of(ErrorKind::Format);
        match self {
            Self::Io(error) => Details::of_io(error.kind()),
            Self::Read(kind) => kind.details(),
            Self::Header(_) | Self::Unknown(_) | Self::Other(_) | Self::Field(_) => format,
            Self::SampleTable { start, .. } | Self::AllocationTable { start, .. } => {
                format.offset(*start)
            }
            Self::Layout(_)
            | Self::Samples { .. }
            | Self::TableBytes { .. }
            | Self::IndexMemory { .. } => Details::of(ErrorKind::Memory),
        }
    }
}

impl Cause for ReadError {
    fn details(&self) -> Details<'_> {
        self.kind.details().sample(self.sample).field(&self.field)
    }
}
