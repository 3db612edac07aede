//! A file's bytes: mapped read-only, or held in memory.
#![allow(unsafe_code, reason = "mapping a file is unsafe: another process may change it")]

use memmap2::Mmap;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// The bytes of a file, good for as long as this lives.
pub(super) enum FileBytes {
    /// Read by the system as they are touched.
    Mapped(Mmap),
    /// For tests, fuzzing and files made on the spot.
    Held(Arc<[u8]>),
}

impl FileBytes {
    /// Maps a whole file. Costs no reading and, whatever its size, no memory of our own.
    ///
    /// # Errors
    ///
    /// As the system says; or if it is a folder, a FIFO or a device.
    pub(super) fn map(path: &Path) -> io::Result<Self> {
        // Asked before the file is opened: opening a FIFO waits for its writer.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self::Held(Arc::new([])));
        }
        // SAFETY: the mapping is read-only, private to this value and of the length the file has
        // now; it outlives every slice of it, since `deref` borrows `self`. What nothing here can
        // rule out is that someone changes the file while it is mapped: overwritten in place, its
        // bytes change under a `&[u8]`, which Rust leaves undefined; truncated, a touch beyond
        // the new end ends the process with SIGBUS. Hence the rule in the docs of `Beton::open`:
        // a dataset is replaced by renaming another over it, never changed in place.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self::Mapped(map))
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Held(bytes) => bytes,
        }
    }
}
