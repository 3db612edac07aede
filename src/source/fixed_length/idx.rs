//! The header of an idx file, and files that are compressed.
//!
//! ```text
//! 0 0 | type | number of dimensions | the size of each, 4 bytes with the highest first | the elements
//! ```

use super::find::IdxName;
use crate::error::{AtPath as _, Error, fail};
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
    pub(super) fn open(path: PathBuf, name: IdxName<'_>, limits: &Limits) -> Result<Self, Error> {
        let bytes = match name.is_packed {
            true => unpacked(&path, limits.max_unpacked_bytes)?,
            false => FileBytes::open(&path).at(&path)?,
        };
        let (shape, item) = header(&bytes, name.dims, limits).at(&path)?;
        let start = 4 + 4 * shape.len() as u64;
        let file = Self { path, bytes, shape, start, item, is_packed: name.is_packed };
        file.check_length()?;
        Ok(file)
    }

    /// Returns the number of items of the outermost dimension.
    pub(super) fn count(&self) -> u64 {
        self.shape[0]
    }

    fn check_length(&self) -> Result<(), Error> {
        let (count, item, found) = (self.count(), self.item, self.bytes.len());
        let size = item.checked_mul(count).and_then(|size| size.checked_add(self.start));
        let Some(size) = size else {
            return Err(fail!(Format, "{count} items of {item} bytes: the product exceeds 2^64")
                .at(&self.path)
                .byte(4));
        };
        if found < size {
            let whole = (found - self.start) / item;
            return Err(fail!(
                Format,
                "the file ends here, with {whole} of {count} items of {item} bytes: it was cut, so download it \
                 again"
            )
            .at(&self.path).byte(found));
        }
        if found > size {
            return Err(fail!(
                Format,
                "{} bytes follow the last of {count} items of {item} bytes: the header is damaged, or the file \
                 is not an idx file",
                found - size
            )
            .at(&self.path).byte(size));
        }
        Ok(())
    }
}

/// Reads the header: the sizes of the dimensions, and the number of bytes of an item of the outermost one.
fn header(bytes: &FileBytes, dims: u8, limits: &Limits) -> Result<(Vec<u64>, u64), Error> {
    let whole = 4 + 4 * u64::from(dims);
    if bytes.len() < whole {
        return Err(fail!(
            Format,
            "the file ends here, its header has {whole} bytes: download it again"
        )
        .byte(bytes.len()));
    }
    let read = |start, size| bytes.copy(start, size);
    let magic = read(0, 4)?;
    if magic.starts_with(&[0x1f, 0x8b]) {
        return Err(fail!(
            Format,
            "the file is compressed with gzip: unpack it, or add .gz to its name"
        )
        .byte(0));
    }
    if !magic.starts_with(&[0, 0]) {
        return Err(fail!(
            Format,
            "{:02x} {:02x}, expected 00 00 of an idx file",
            magic[0],
            magic[1]
        )
        .byte(0));
    }
    if magic[2] != UNSIGNED_BYTE {
        return Err(fail!(
            Format,
            "elements of type {:#04x} ({}), expected 0x08 (unsigned byte): convert the file",
            magic[2],
            element(magic[2])
        )
        .byte(2));
    }
    if magic[3] != dims {
        return Err(fail!(
            Format,
            "{} dimensions, expected {dims} by the name of the file",
            magic[3]
        )
        .byte(3));
    }
    let sizes = read(4, whole - 4)?;
    let sizes =
        sizes.chunks_exact(4).map(|size| size.iter().fold(0, |n, &b| n << 8 | u64::from(b)));
    let shape: Vec<u64> = sizes.collect();
    if let Some(zero) = shape.iter().position(|&size| size == 0) {
        return Err(
            fail!(Format, "dimension {zero} is 0: there are no elements").byte(4 + 4 * zero as u64)
        );
    }
    let item = shape[1..].iter().try_fold(1_u64, |product, &size| product.checked_mul(size));
    let item = item.filter(|&item| item <= limits.max_sample_bytes);
    let item = item.ok_or_else(|| {
        let max = limits.max_sample_bytes;
        fail!(Memory, "items of {:?} bytes, the limit is {max}", &shape[1..])
    })?;
    let (items, max) = (shape[0], limits.max_samples);
    if items > max {
        return Err(fail!(Memory, "{items} items, the limit is {max}"));
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
fn unpacked(path: &Path, max: u64) -> Result<FileBytes, Error> {
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
        io::ErrorKind::UnexpectedEof => {
            fail!(Io, "the compressed data ends too early: download the file again").at(path)
        }
        _ => Error::from(error).at(path),
    })?;
    if bytes.len() as u64 > max {
        return Err(fail!(
            Memory,
            "more bytes than may be unpacked into memory (unpack the file with gunzip), the limit is {max}"
        )
        .at(path));
    }
    Ok(FileBytes::InMemory(bytes.into()))
}
