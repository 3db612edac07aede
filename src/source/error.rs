//! Errors of reading a value that is stored in a file.

use crate::error::{Cause, Details, ErrorKind};
use std::io;

/// The problem with a field of a sample.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadCause {
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

/// Why a cell could not be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CellError {
    /// The cell is shorter than a cell of its kind.
    #[error("a cell of {found} bytes is too short for its field")]
    Truncated {
        /// The number of bytes available.
        found: usize,
    },
    /// The image is neither JPEG nor raw.
    #[error("image mode {found}, expected 0 (JPEG) or 1 (raw)")]
    Mode {
        /// The mode in the file.
        found: u8,
    },
}

impl Cause for ReadCause {
    fn details(&self) -> Details<'_> {
        match self {
            Self::NoSuchSample { .. } => Details::of(ErrorKind::Parameter),
            Self::NoSuchField { .. } | Self::NotAnImage { .. } => Details::of(ErrorKind::Field),
            Self::Cell { at, .. } | Self::EmptyImage { at, .. } => {
                Details::of(ErrorKind::Damaged).offset(*at)
            }
            Self::Pixels { .. } | Self::Bytes { .. } => Details::of(ErrorKind::Memory),
            Self::Memory { .. } => Details::no_memory(),
            Self::NoAllocation { ptr }
            | Self::OutOfBounds { ptr, .. }
            | Self::Short { ptr, .. }
            | Self::RawSize { ptr, .. } => Details::of(ErrorKind::Damaged).offset(*ptr),
            Self::Io { ptr, kind, .. } => Details::of_io(*kind).offset(*ptr),
            Self::Page { at, kind, .. } => Details::of_io(*kind).offset(*at),
        }
    }
}
