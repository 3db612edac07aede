//! The steps of a write that change the disk, and their order.
//!
//! ```text
//! Write, Write, ...   into the unfinished file; Truncate where an interrupted write is resumed
//! Sync                its bytes are on the disk
//! Rename              the file is at its path
//! SyncDir             the new name is on the disk as well
//! ```
//!
//! Each step is shown to an observer before it is executed. The writer's own observer, [`unwatched`],
//! permits all of them. Tests record the steps to cut the power after any of them, or refuse one as a
//! full disk does (`crash.rs`).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// A request to the file system that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileStep<'a> {
    /// Bytes go into a file.
    Write {
        /// The file.
        file: StepFile,
        /// The offset of the first byte.
        at: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A file loses the bytes behind a length.
    Truncate {
        /// The file.
        file: StepFile,
        /// The length.
        len: u64,
    },
    /// The bytes of a file become durable.
    Sync(StepFile),
    /// The unfinished file is renamed to its path, and replaces what is there.
    Rename,
    /// The rename becomes durable.
    SyncDir,
}

/// A file that a write consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepFile {
    /// The unfinished file.
    Output,
    /// The allocation table of a `.beton` that can be resumed.
    Allocations,
    /// The journal of a conversion.
    Journal,
}

/// Receives each step before it is executed; an error it returns becomes the step's own.
pub(super) trait ObserveStep: Fn(FileStep<'_>) -> io::Result<()> + Sync {}

impl<W: Fn(FileStep<'_>) -> io::Result<()> + Sync> ObserveStep for W {}

/// A reference to any observer.
pub(super) type StepObserver<'a> = &'a (dyn Fn(FileStep<'_>) -> io::Result<()> + Sync);

/// Permits every step.
pub(super) fn unwatched(_: FileStep<'_>) -> io::Result<()> {
    Ok(())
}

/// A file whose writes are shown to an observer.
pub(super) struct ObservedFile<'a, W> {
    file: &'a File,
    which: StepFile,
    at: u64,
    watch: &'a W,
}

impl<'a, W> ObservedFile<'a, W> {
    /// Wraps a file whose position is `at`.
    pub(super) fn new(file: &'a File, which: StepFile, at: u64, watch: &'a W) -> Self {
        Self { file, which, at, watch }
    }
}

impl<W> Read for ObservedFile<'_, W> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buf)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl<W: ObserveStep> Write for ObservedFile<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.watch)(FileStep::Write { file: self.which, at: self.at, bytes })?;
        let written = self.file.write(bytes)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl<W> Seek for ObservedFile<'_, W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}
