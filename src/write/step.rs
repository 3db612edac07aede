//! The steps of a write that change what a disk holds, and in which order.
//!
//! ```text
//! Write, Write, ...   into the unfinished file
//! Sync                its bytes are on the disk
//! Rename              it lies at its path
//! SyncDir             the name is on the disk as well
//! ```
//!
//! Each is shown to a watcher before it is made. The writer's own, [`unwatched`], lets all of them
//! pass; a test writes them down to cut the power after any of them, or refuses one as a full
//! disk does (`crash.rs`).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// What is about to be asked of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// Bytes go into the unfinished file.
    Write {
        /// Offset of the first.
        at: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The unfinished file's bytes become durable.
    Sync,
    /// The unfinished file takes its path, in place of what is there.
    Rename,
    /// The rename becomes durable.
    SyncDir,
}

/// Who is shown each step before it is made; an error is the step's own.
pub(super) trait Watch: Fn(Step<'_>) -> io::Result<()> + Sync {}

impl<W: Fn(Step<'_>) -> io::Result<()> + Sync> Watch for W {}

/// A watcher of any kind.
pub(super) type Watcher<'a> = &'a (dyn Fn(Step<'_>) -> io::Result<()> + Sync);

/// Lets every step pass.
pub(super) fn unwatched(_: Step<'_>) -> io::Result<()> {
    Ok(())
}

/// A file whose writes are shown to a watcher.
pub(super) struct Watched<'a, W> {
    file: &'a File,
    at: u64,
    watch: &'a W,
}

impl<'a, W> Watched<'a, W> {
    /// An empty file, which nobody has moved in.
    pub(super) fn new(file: &'a File, watch: &'a W) -> Self {
        Self::behind(file, 0, watch)
    }

    /// A file that stands at `at`.
    pub(super) fn behind(file: &'a File, at: u64, watch: &'a W) -> Self {
        Self { file, at, watch }
    }
}

impl<W> Read for Watched<'_, W> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buf)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl<W: Watch> Write for Watched<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.watch)(Step::Write { at: self.at, bytes })?;
        let written = self.file.write(bytes)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl<W> Seek for Watched<'_, W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}
