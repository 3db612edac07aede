//! A shard whose length a joined index knows: it is opened when it is read first.

use super::ends;
use crate::source::ReadAt;
use crate::source::file::FileBytes;
use crate::source::file_pool::{self, PooledFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A file of which an index knows the length and the checksum of its ends. Another file of this name is an error of every
/// read.
pub(super) struct ListedFile {
    path: PathBuf,
    len: u64,
    ends: u32,
    /// The path of the index.
    index: Arc<Path>,
    file: OnceLock<Arc<PooledFile>>,
}

impl ListedFile {
    /// Returns the file of this path, which is not looked at.
    pub(super) fn new(path: &Path, (len, ends): (u64, u32), index: &Arc<Path>) -> Self {
        let index = Arc::clone(index);
        Self { path: path.to_owned(), len, ends, index, file: OnceLock::new() }
    }

    /// Returns the file, which is found and compared with the index if it was not yet.
    fn file(&self) -> io::Result<&PooledFile> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = file_pool::pooled(&self.path)?;
        let other = || {
            let index = crate::escape::Escaped(&self.index.to_string_lossy()).to_string();
            io::Error::other(format!(
                "its index in {index} belongs to another file: run `fuseloop index --join SHARDS` again"
            ))
        };
        if file.found_len() != self.len {
            return Err(other());
        }
        let bytes = FileBytes::from_reader(Arc::clone(&file) as Arc<dyn ReadAt>)?;
        if ends(&bytes).map_err(io::Error::other)? != self.ends {
            return Err(other());
        }
        // Another thread may have been faster.
        Ok(self.file.get_or_init(|| file))
    }
}

impl ReadAt for ListedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        self.file()?.read_at(bytes, start)
    }

    fn append_at(&self, bytes: &mut Vec<u8>, most: usize, start: u64) -> io::Result<usize> {
        self.file()?.append_at(bytes, most, start)
    }
}
