//! What can be wrong with a `.beton` file, and with one sample of it.

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
    /// What is wrong. Part of the message, so not its `source`.
    pub kind: SourceErrorKind,
}

/// What is wrong with a file, or with a sample of it.
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
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The header is wrong.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A part of the file can't be read.
    #[error(transparent)]
    Read(#[from] ReadErrorKind),
    /// A field descriptor is wrong.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// User-defined fields that make too long a row.
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
        /// Rows, as the header says.
        samples: u64,
        /// Bytes of a row.
        row_size: usize,
        /// File offset of the sample table.
        start: u64,
        /// File offset of the allocation table.
        end: u64,
    },
    /// Tables too large to be held in memory.
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
        /// Bytes from there to the end of the file.
        found: u64,
    },
    /// No memory to sort the allocation table in.
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
    /// Which sample.
    pub sample: SampleId,
    /// The field's name; `#7` for a place where no field is.
    pub field: String,
    /// What is wrong.
    pub kind: ReadErrorKind,
}

impl ReadError {
    /// The error with its file's path.
    #[must_use]
    pub fn in_file(self, path: impl Into<PathBuf>) -> SourceError {
        SourceError { path: path.into(), kind: self.into() }
    }
}

/// What is wrong with a field of a sample.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// A sample that the dataset has not.
    #[error("there is no such sample, the file has {samples}")]
    NoSuchSample {
        /// Samples of the dataset.
        samples: u64,
    },
    /// A field that the dataset has not.
    #[error("there is no such field, the file has {fields}")]
    NoSuchField {
        /// Fields of the dataset.
        fields: usize,
    },
    /// A picture was asked for, the field holds something else.
    #[error("the field is {found}, not a picture")]
    NotAnImage {
        /// The field's kind.
        found: &'static str,
    },
    /// The cell in the sample table is wrong.
    #[error("{kind}, in the sample table at byte {at}")]
    Cell {
        /// What is wrong with it.
        kind: CellError,
        /// File offset of the cell.
        at: u64,
    },
    /// A picture without pixels.
    #[error("a picture of {width} x {height} pixels, in the sample table at byte {at}")]
    EmptyImage {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
        /// File offset of the cell.
        at: u64,
    },
    /// More pixels than the limit.
    #[error("a picture of {width} x {height} pixels, the limit is {limit} pixels")]
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
    /// No allocation begins at the pointer, so nobody knows how many bytes there are.
    #[error("no record of the allocation table begins at byte {ptr}")]
    NoAllocation {
        /// The pointer in the sample table.
        ptr: u64,
    },
    /// The bytes are not where values are stored.
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
    /// The file has become shorter, or bytes are asked for that it never had.
    #[error("{size} bytes at byte {ptr}: the file ends after {found} of them")]
    Short {
        /// Where they begin.
        ptr: u64,
        /// Bytes wanted.
        size: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The system can't read.
    #[error("{size} bytes at byte {ptr}: {message}")]
    Io {
        /// Where they begin.
        ptr: u64,
        /// Bytes wanted.
        size: u64,
        /// What kind of error.
        kind: io::ErrorKind,
        /// What the system said.
        message: String,
    },
    /// The page that holds the value can't be read up to it. All values of the page from there on
    /// fail alike.
    #[error("{size} bytes at byte {ptr}: page {page} can't be read from byte {at} on: {message}")]
    Page {
        /// Where the value begins.
        ptr: u64,
        /// Bytes of it.
        size: u64,
        /// The page's number, from 0.
        page: u64,
        /// The first byte that could not be read.
        at: u64,
        /// What kind of error.
        kind: io::ErrorKind,
        /// What the system said.
        message: String,
    },
    /// There is no memory to read into.
    #[error("no memory for {size} bytes")]
    Memory {
        /// Bytes wanted.
        size: u64,
    },
    /// A raw picture whose bytes are not `width * height * 3`.
    #[error(
        "a raw picture of {width} x {height} pixels has {found} bytes at byte {ptr}, expected {expected}"
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
