//! Reads a shard's bytes in sequence.
//!
//! ```text
//! small pieces     reads of 4 KiB, then 8 .. 256 while they are in sequence     copied out of the window
//! a long piece     a read directly into the caller's memory, with a few        never in the window
//!                  bytes more, which become the window
//! skipped          not read at all
//! ```
//!
//! So shards of small members are read 256 KiB at a time, shards of images one image at a time, and of
//! skipped members only the headers are read.

use super::Shard;
use std::io::{self, BufRead, Read};
use std::ops::Range;

/// The size of the first read, and of the first read after a jump: a disk reads at least this much at
/// once.
const SMALL: usize = 4096;

/// The largest size of reads in sequence.
pub(in crate::source) const LARGE: usize = 256 << 10;

/// A piece of at least this size is read directly into the caller's memory: a system call costs less
/// than the copy.
const LONG: usize = 32 << 10;

/// An offset in a shard, and the bytes read ahead of it.
pub(in crate::source) struct ShardReader {
    shard: Shard,
    at: u64,
    /// The bytes of the last read. `window` is the range of the bytes from offset `at` on.
    buffer: Vec<u8>,
    window: Range<usize>,
    /// The size of the next read.
    ahead: usize,
}

impl ShardReader {
    /// Returns a reader at the beginning of a shard.
    pub(in crate::source) fn new(shard: Shard) -> Self {
        Self { shard, at: 0, buffer: vec![], window: 0..0, ahead: SMALL }
    }

    /// Returns the number of bytes that are neither read nor skipped.
    fn left(&self) -> u64 {
        self.shard.bytes.len().saturating_sub(self.at)
    }

    /// Skips up to `count` bytes; returns how many there were.
    pub(in crate::source) fn skip(&mut self, count: u64) -> u64 {
        let count = count.min(self.left());
        let beyond = count.saturating_sub(self.window.len() as u64);
        if beyond >= SMALL as u64 {
            self.ahead = SMALL;
        }
        self.window.start += (count - beyond) as usize;
        self.at += count;
        count
    }

    /// Appends the next `count` bytes; returns how many there were. Up to `beyond` bytes more may be
    /// read in the same call: a caller who has room for them saves moving the bytes.
    ///
    /// # Errors
    ///
    /// Fails as [`FileBytes::append`](crate::source::file::FileBytes::append) does; some bytes may have
    /// been appended.
    pub(in crate::source) fn append(
        &mut self,
        bytes: &mut Vec<u8>,
        count: u64,
        beyond: u64,
    ) -> io::Result<u64> {
        let count = count.min(self.left());
        let mut missing = count;
        while missing > 0 {
            if self.window.is_empty() && missing >= LONG as u64 {
                self.append_long(bytes, missing, beyond)?;
                break;
            }
            let found = self.fill_buf()?;
            let taken = found.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
            bytes.try_reserve(taken)?;
            bytes.extend_from_slice(&found[..taken]);
            self.consume(taken);
            missing -= taken as u64;
        }
        Ok(count)
    }

    /// Reads `count` bytes directly into the caller's memory. The bytes beyond them become the window.
    fn append_long(&mut self, bytes: &mut Vec<u8>, count: u64, beyond: u64) -> io::Result<()> {
        let all = self.left().min(count.saturating_add(beyond));
        self.shard.bytes.append(self.at, all, bytes).map_err(io::Error::other)?;
        let wanted = bytes.len() - (all - count) as usize;
        self.buffer.clear();
        self.buffer.extend_from_slice(&bytes[wanted..]);
        bytes.truncate(wanted);
        self.window = 0..self.buffer.len();
        self.at += count;
        self.ahead = SMALL;
        Ok(())
    }
}

impl BufRead for ShardReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.window.is_empty() {
            let size = self.left().min(self.ahead as u64);
            let read = self.shard.bytes.load(self.at, size, &mut self.buffer);
            self.window = read.map_err(io::Error::other)?;
            self.ahead = (self.ahead * 2).min(LARGE);
        }
        Ok(&self.buffer[self.window.clone()])
    }

    fn consume(&mut self, count: usize) {
        let count = count.min(self.window.len());
        self.window.start += count;
        self.at += count as u64;
    }
}

impl Read for ShardReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let found = self.fill_buf()?;
        let count = found.len().min(into.len());
        into[..count].copy_from_slice(&found[..count]);
        self.consume(count);
        Ok(count)
    }
}
