//! A file's bytes: read at a place when they are asked for, or held in memory.
//!
//! Read, not mapped. A mapping of a file that is cut short, or whose disk fails, ends the process
//! with SIGBUS when the missing part is touched; a read says so. It costs a copy, 15 µs for 200 KB
//! that the system has in its cache, and saves the page faults that threads queue up for.

use super::ReadErrorKind;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The bytes of a file, as many as it had when it was opened.
#[derive(Debug)]
pub(super) enum FileBytes {
    /// Read when asked for.
    Disk { file: File, len: u64 },
    /// For tests, fuzzing and files made on the spot.
    Held(Arc<[u8]>),
}

impl FileBytes {
    /// Opens a regular file.
    ///
    /// # Errors
    ///
    /// As the system says; or if it is a folder, a FIFO or a device.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // Asked before the file is opened: opening a FIFO waits for its writer.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self::Disk { file, len })
    }

    /// Bytes there are, or were when it was opened.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Disk { len, .. } => *len,
            Self::Held(bytes) => bytes.len() as u64,
        }
    }

    /// `size` bytes at `start`: lent if they are held, else read into `buffer`, which grows to the
    /// largest size asked for and never shrinks.
    ///
    /// # Errors
    ///
    /// If the file is shorter, by its length or by now; if there is no memory; or as the system
    /// says.
    pub(super) fn get<'a>(
        &'a self,
        start: u64,
        size: u64,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], ReadErrorKind> {
        let short = |found| ReadErrorKind::Short { ptr: start, size, found };
        let left = self.len().saturating_sub(start);
        if left < size {
            return Err(short(left));
        }
        let memory = |_| ReadErrorKind::Memory { size };
        let count = usize::try_from(size).map_err(memory)?;
        match self {
            Self::Held(bytes) => {
                let start = usize::try_from(start).map_err(|_| short(0))?;
                bytes.get(start..).and_then(|rest| rest.get(..count)).ok_or(short(0))
            }
            Self::Disk { file, .. } => {
                if buffer.len() < count {
                    let more = count - buffer.len();
                    buffer.try_reserve(more).map_err(|_| ReadErrorKind::Memory { size })?;
                    buffer.resize(count, 0);
                }
                let bytes = &mut buffer[..count];
                let found = read_at(file, bytes, start).map_err(|error| ReadErrorKind::Io {
                    ptr: start,
                    size,
                    kind: error.kind(),
                    message: error.to_string(),
                })?;
                if found < count { Err(short(found as u64)) } else { Ok(bytes) }
            }
        }
    }

    /// `size` bytes at `start`, in memory of their own.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub(super) fn copy(&self, start: u64, size: u64) -> Result<Vec<u8>, ReadErrorKind> {
        let mut buffer = vec![];
        let lent = self.get(start, size, &mut buffer)?;
        if let Self::Held(_) = self {
            return Ok(lent.to_vec());
        }
        Ok(buffer)
    }
}

/// Fills `bytes` from `start` on; fewer only at the end of the file. A read may be cut by a signal
/// or give less than asked for: it is gone on with.
fn read_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match read_some(file, &mut bytes[done..], start + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(unix)]
fn read_some(file: &File, bytes: &mut [u8], start: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, start)
}

#[cfg(windows)]
fn read_some(file: &File, bytes: &mut [u8], start: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_file_cut_while_it_is_open_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 5000]).unwrap();
        let bytes = FileBytes::open(file.path()).unwrap();
        let mut buffer = vec![];
        assert_eq!(bytes.get(4000, 1000, &mut buffer), Ok(&[7; 1000][..]));
        assert_eq!(bytes.get(10, 3, &mut buffer), Ok(&[7; 3][..]));
        let beyond = ReadErrorKind::Short { ptr: 4001, size: 1000, found: 999 };
        assert_eq!(bytes.get(4001, 1000, &mut buffer), Err(beyond));
        file.as_file().set_len(4100).unwrap();
        let cut = ReadErrorKind::Short { ptr: 4000, size: 1000, found: 100 };
        assert_eq!(bytes.get(4000, 1000, &mut buffer), Err(cut));
        assert_eq!(bytes.len(), 5000);
    }

    #[test]
    fn held_bytes_are_lent() {
        let bytes = FileBytes::Held(vec![1, 2, 3].into());
        let mut buffer = vec![];
        assert_eq!(bytes.get(1, 2, &mut buffer), Ok(&[2, 3][..]));
        assert!(buffer.is_empty() && bytes.get(u64::MAX, 1, &mut buffer).is_err());
        assert_eq!(bytes.copy(0, 3), Ok(vec![1, 2, 3]));
    }
}
