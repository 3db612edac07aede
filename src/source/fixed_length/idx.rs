//! The header of an idx file, and files that are compressed.
//!
//! ```text
//! 0 0 | type | number of dimensions | the size of each, 4 bytes with the highest first | the elements
//! ```

use super::error::FixedLengthError;
use super::find::IdxName;
use crate::sample::Limits;
use crate::source::file::FileBytes;
use crate::source::file_pool;
use flate2::bufread::MultiGzDecoder;
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// The type of an element that is a byte from 0 to 255.
const UNSIGNED_BYTE: u8 = 0x08;

/// Bytes that are read at once while a file is unpacked.
const PACKED_AT_ONCE: usize = 1 << 16;

/// An open idx file of bytes.
pub(super) struct IdxFile {
    pub(super) path: PathBuf,
    pub(super) bytes: FileBytes,
    /// The sizes of the dimensions, outermost first.
    pub(super) shape: Vec<u64>,
    /// The offset of the elements.
    pub(super) start: u64,
    /// The number of bytes of an item of the outermost dimension.
    pub(super) item: u64,
    pub(super) is_packed: bool,
}

impl IdxFile {
    /// Opens a file and checks its length.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read, has elements of another type or another number of dimensions than its
    /// name says, or is shorter or longer than its header says.
    pub(super) fn open(
        path: PathBuf,
        name: IdxName<'_>,
        limits: &Limits,
    ) -> Result<Self, FixedLengthError> {
        let bytes = match name.is_packed {
            true => unpacked(&path, limits.max_unpacked_bytes)?,
            false => FileBytes::open(&path).map_err(FixedLengthError::io(&path))?,
        };
        let (shape, item) = header(&path, &bytes, name.dims, limits)?;
        let start = 4 + 4 * shape.len() as u64;
        let file = Self { path, bytes, shape, start, item, is_packed: name.is_packed };
        file.check_length()?;
        Ok(file)
    }

    /// Returns the number of items of the outermost dimension.
    pub(super) fn count(&self) -> u64 {
        self.shape[0]
    }

    fn check_length(&self) -> Result<(), FixedLengthError> {
        let (count, item, found) = (self.count(), self.item, self.bytes.len());
        let size = item.checked_mul(count).and_then(|size| size.checked_add(self.start));
        let Some(size) = size else {
            let reason = format!("{count} items of {item} bytes: the product exceeds 2^64");
            return Err(FixedLengthError::damaged(&self.path, 4, reason));
        };
        if found < size {
            let whole = (found - self.start) / item;
            let reason = format!(
                "the file ends here, with {whole} of {count} items of {item} bytes: it was cut, so download it \
                 again"
            );
            return Err(FixedLengthError::damaged(&self.path, found, reason));
        }
        if found > size {
            let reason = format!(
                "{} bytes follow the last of {count} items of {item} bytes: the header is damaged, or the file \
                 is not an idx file",
                found - size
            );
            return Err(FixedLengthError::damaged(&self.path, size, reason));
        }
        Ok(())
    }
}

/// Reads the header: the sizes of the dimensions, and the number of bytes of an item of the outermost one.
fn header(
    path: &Path,
    bytes: &FileBytes,
    dims: u8,
    limits: &Limits,
) -> Result<(Vec<u64>, u64), FixedLengthError> {
    let damaged = |at, reason: String| FixedLengthError::damaged(path, at, reason);
    let whole = 4 + 4 * u64::from(dims);
    if bytes.len() < whole {
        let reason = format!("the file ends here, its header has {whole} bytes: download it again");
        return Err(damaged(bytes.len(), reason));
    }
    let read = |start, size| bytes.copy(start, size).map_err(FixedLengthError::read(path));
    let magic = read(0, 4)?;
    if magic.starts_with(&[0x1f, 0x8b]) {
        let reason = "the file is compressed with gzip: unpack it, or add .gz to its name";
        return Err(damaged(0, reason.to_owned()));
    }
    if !magic.starts_with(&[0, 0]) {
        let reason = format!("{:02x} {:02x}, expected 00 00 of an idx file", magic[0], magic[1]);
        return Err(damaged(0, reason));
    }
    if magic[2] != UNSIGNED_BYTE {
        let reason = format!(
            "elements of type {:#04x} ({}), expected 0x08 (unsigned byte): convert the file",
            magic[2],
            element(magic[2])
        );
        return Err(damaged(2, reason));
    }
    if magic[3] != dims {
        let reason = format!("{} dimensions, expected {dims} by the name of the file", magic[3]);
        return Err(damaged(3, reason));
    }
    let sizes = read(4, whole - 4)?;
    let sizes =
        sizes.chunks_exact(4).map(|size| size.iter().fold(0, |n, &b| n << 8 | u64::from(b)));
    let shape: Vec<u64> = sizes.collect();
    if let Some(zero) = shape.iter().position(|&size| size == 0) {
        let reason = format!("dimension {zero} is 0: there are no elements");
        return Err(damaged(4 + 4 * zero as u64, reason));
    }
    let item = shape[1..].iter().try_fold(1_u64, |product, &size| product.checked_mul(size));
    let item = item.filter(|&item| item <= limits.max_sample_bytes);
    let item = item.ok_or_else(|| FixedLengthError::Limit {
        path: path.to_owned(),
        what: format!("items of {:?} bytes", &shape[1..]),
        max: limits.max_sample_bytes,
    })?;
    if shape[0] > limits.max_samples {
        let (what, max) = (format!("{} items", shape[0]), limits.max_samples);
        return Err(FixedLengthError::Limit { path: path.to_owned(), what, max });
    }
    Ok((shape, item))
}

/// Returns the name of a type of elements.
fn element(code: u8) -> &'static str {
    match code {
        0x08 => "unsigned byte",
        0x09 => "signed byte",
        0x0b => "int16",
        0x0c => "int32",
        0x0d => "float32",
        0x0e => "float64",
        _ => "unknown",
    }
}

/// Unpacks a `.gz` file into memory. Memory grows with the bytes that are unpacked, up to the limit.
fn unpacked(path: &Path, max: u64) -> Result<FileBytes, FixedLengthError> {
    let read = || -> io::Result<Vec<u8>> {
        // Opening a pipe would wait for its other end.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let packed = BufReader::with_capacity(PACKED_AT_ONCE, file_pool::open(path)?);
        let mut bytes = vec![];
        MultiGzDecoder::new(packed).take(max.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FixedLengthError::io(path)(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the compressed data ends too early: download the file again",
        )),
        _ => FixedLengthError::io(path)(error),
    })?;
    if bytes.len() as u64 > max {
        let what =
            "more bytes than may be unpacked into memory (unpack the file with gunzip)".to_owned();
        return Err(FixedLengthError::Limit { path: path.to_owned(), what, max });
    }
    Ok(FileBytes::InMemory(bytes.into()))
}
