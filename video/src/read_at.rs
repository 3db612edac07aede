//! Positioned reads: the files that indexes are made of.

use crate::VideoError;
use crate::error::{format_error, over_limit};
use std::fs::File;
use std::io;

/// Bytes that can be read at any offset: a local file, a member of a tar shard, a remote object.
///
/// ```
/// use fuseloop_video::ReadExactAt;
///
/// let mut found = [0; 2];
/// b"RIFF"[..].read_exact_at(2, &mut found)?;
/// assert_eq!(&found, b"FF");
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ReadExactAt {
    /// Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// Fails with the system's error.
    fn byte_len(&self) -> io::Result<u64>;

    /// Fills `to` with the bytes from an offset on.
    ///
    /// # Errors
    ///
    /// Fails with the system's error, or with [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if there are fewer bytes.
    fn read_exact_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()>;
}

impl ReadExactAt for [u8] {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let range = start.and_then(|start| Some(start..start.checked_add(to.len())?));
        let found = range.and_then(|range| self.get(range));
        to.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl ReadExactAt for &[u8] {
    fn byte_len(&self) -> io::Result<u64> {
        (**self).byte_len()
    }

    fn read_exact_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        (**self).read_exact_at(offset, to)
    }
}

impl ReadExactAt for Vec<u8> {
    fn byte_len(&self) -> io::Result<u64> {
        self.as_slice().byte_len()
    }

    fn read_exact_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_exact_at(offset, to)
    }
}

impl ReadExactAt for File {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_exact_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, to, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut offset: u64, mut to: &mut [u8]) -> io::Result<()> {
        while !to.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(self, to, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    to = &mut to[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A reader of headers, which lie close together or far apart: it keeps the bytes around the last one.
pub(crate) struct Headers<'a> {
    file: &'a dyn ReadExactAt,
    len: u64,
    /// The bytes of the file from `start` on.
    kept: Vec<u8>,
    start: u64,
    /// Number of bytes that may still be read.
    budget: u64,
}

impl<'a> Headers<'a> {
    /// Number of bytes that a read of a header takes.
    const READ: usize = 4096;

    pub(crate) fn new(file: &'a dyn ReadExactAt) -> Result<Self, VideoError> {
        let len = file.byte_len().map_err(|error| VideoError::io(error, 0))?;
        // Files without damage take less than 3 times their length: headers that lie apart are read with what follows.
        let budget = len.saturating_mul(16).saturating_add(1 << 20);
        Ok(Self { file, len, kept: vec![], start: 0, budget })
    }

    /// Reads bytes. A damaged file whose tables refer to the same bytes again and again is refused.
    fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<(), VideoError> {
        let left = self.budget.checked_sub(to.len() as u64);
        self.budget = left.ok_or_else(|| {
            format_error!(
                "the tables of the file refer to the same bytes again and again: it is damaged"
            )
            .at(offset)
        })?;
        self.file.read_exact_at(offset, to).map_err(|error| VideoError::io(error, offset))
    }

    /// Returns the length of the file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns at most `most` bytes from an offset on, fewer at the end of the file. `most` is small.
    pub(crate) fn up_to(&mut self, offset: u64, most: usize) -> Result<&[u8], VideoError> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = most.min(left);
        if count == 0 {
            return Ok(&[]);
        }
        let in_kept = |headers: &Self| {
            let at = usize::try_from(offset.checked_sub(headers.start)?).ok()?;
            (at.checked_add(count)? <= headers.kept.len()).then_some(at)
        };
        let at = match in_kept(self) {
            Some(at) => at,
            None => {
                let mut bytes = std::mem::take(&mut self.kept);
                bytes.resize(Self::READ.max(count).min(left), 0);
                self.read(offset, &mut bytes)?;
                (self.kept, self.start) = (bytes, offset);
                0
            }
        };
        Ok(&self.kept[at..at + count])
    }

    /// Returns the `N` bytes at an offset, or nothing if the file ends before.
    pub(crate) fn array<const N: usize>(
        &mut self,
        offset: u64,
    ) -> Result<Option<[u8; N]>, VideoError> {
        Ok(self.up_to(offset, N)?.first_chunk().copied())
    }

    /// Reads `count` bytes, `what` of the file, into memory of their own.
    pub(crate) fn table(
        &mut self,
        offset: u64,
        count: u64,
        most: u64,
        what: &str,
    ) -> Result<Vec<u8>, VideoError> {
        if offset.checked_add(count).is_none_or(|end| end > self.len) {
            let len = self.len;
            return Err(format_error!(
                "the {what} of {count} bytes ends after the file, which has {len} bytes: the file was cut or is damaged"
            )
            .at(offset));
        }
        if count > most {
            return Err(
                over_limit!("the {what} has {count} bytes, the limit is {most} bytes").at(offset)
            );
        }
        let no_memory = || over_limit!("no memory for the {what} of {count} bytes").at(offset);
        let size = usize::try_from(count).map_err(|_| no_memory())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| no_memory())?;
        bytes.resize(size, 0);
        self.read(offset, &mut bytes)?;
        Ok(bytes)
    }
}
