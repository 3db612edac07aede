//! Errors in a `.beton` file, and in one sample of it.

use super::{CellError, FieldError, HeaderError, LayoutError};
use crate::sample::SampleId;
use crate::source::Escaped;
use std::io;
use std::path::PathBuf;

/// An error with the path of its file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", Escaped(&path.to_string_lossy()))]
pub struct SourceError {
    /// The file.
    pub path: PathBuf,
    /// The problem. It is part of the message, so it is not the error's `source`.
    pub kind: SourceErrorKind,
}

/// The problem with a file, or with a sample of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceErrorKind {
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
    /// A range of the file can't be read.
    #[error(transparent)]
    Read(#[from] ReadErrorKind),
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
    pub kind: ReadErrorKind,
}

impl ReadError {
    /// Adds the path of the file to the error.
    #[must_use]
    pub fn in_file(self, path: impl Into<PathBuf>) -> SourceError {
        SourceError { path: path.into(), kind: self.into() }
    }
}

/// The problem with a field of a sample.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The dataset does not have this sample.
    #[error("no such sample: the file has {samples}")]
    NoSuchSample {
        /// Samples of the dataset.
        samples: u64,
    },
    /// The dataset does not have this field.
    #[error("no such field: the file has {fields}")]
    NoSuchField {
        /// Fields of the dataset.
        fields: usize,
    },
    /// An image was asked for, but the field holds something else.
    #[error("the field is {found}, not an image")]
    NotAnImage {
        /// The field's kind.
        found: &'static str,
    },
    /// The cell in the sample table is wrong.
    #[error("{kind}, in the sample table at byte {at}")]
    Cell {
        /// The problem with the cell.
        kind: CellError,
        /// File offset of the cell.
        at: u64,
    },
    /// An image without pixels.
    #[error("an image of {width} x {height} pixels, in the sample table at byte {at}")]
    EmptyImage {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
        /// File offset of the cell.
        at: u64,
    },
    /// More pixels than the limit.
    #[error("an image of {width} x {height} pixels, the limit is {limit} pixels")]
    Pixels {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
        /// `Limits::max_pixels`.
        limit: u64,
    },
    /// More bytes than the limit.
    #[error("a value of {found} bytes, the limit is {limit}")]
    Bytes {
        /// Bytes stored.
        found: u64,
        /// `Limits::max_sample_bytes`.
        limit: u64,
    },
    /// No allocation begins at the pointer, so the number of bytes is not known.
    #[error("no record of the allocation table begins at byte {ptr}")]
    NoAllocation {
        /// The pointer in the sample table.
        ptr: u64,
    },
    /// The bytes are outside the range where values are stored.
    #[error("{size} bytes at byte {ptr} lie outside the data, bytes {start} to {end}")]
    OutOfBounds {
        /// The pointer in the sample table.
        ptr: u64,
        /// Bytes of the value.
        size: u64,
        /// Where the data begins.
        start: u64,
        /// Where the data ends.
        end: u64,
    },
    /// The file has become shorter, or the bytes were never in it.
    #[error("{size} bytes at byte {ptr}: the file ends after {found} of them")]
    Short {
        /// The file offset of the bytes.
        ptr: u64,
        /// The number of bytes asked for.
        size: u64,
        /// The number of bytes available.
        found: u64,
    },
    /// The system can't read the bytes.
    #[error("{size} bytes at byte {ptr}: {message}")]
    Io {
        /// The file offset of the bytes.
        ptr: u64,
        /// The number of bytes asked for.
        size: u64,
        /// The kind of the error.
        kind: io::ErrorKind,
        /// The system's message.
        message: String,
    },
    /// The page that holds the value can't be read up to the value. All values of the page from there on
    /// fail in the same way.
    #[error("{size} bytes at byte {ptr}: page {page} can't be read from byte {at} on: {message}")]
    Page {
        /// The file offset of the value.
        ptr: u64,
        /// The size of the value in bytes.
        size: u64,
        /// The page's number, from 0.
        page: u64,
        /// The first byte that could not be read.
        at: u64,
        /// The kind of the error.
        kind: io::ErrorKind,
        /// The system's message.
        message: String,
    },
    /// There is no memory to read into.
    #[error("no memory for {size} bytes")]
    Memory {
        /// The number of bytes asked for.
        size: u64,
    },
    /// The bytes of a raw image are not `width * height * 3`.
    #[error(
        "a raw image of {width} x {height} pixels has {found} bytes at byte {ptr}, expected {expected}"
    )]
    RawSize {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
        /// File offset of the bytes.
        ptr: u64,
        /// Bytes stored.
        found: u64,
        /// `width * height * 3`.
        expected: u64,
    },
}
