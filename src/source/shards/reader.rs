//! A shard's bytes in sequence.
//!
//! ```text
//! small pieces     reads of 4 KiB, then 8 .. 256 while it goes straight on     copied out of the window
//! a long piece     a read into the memory that it is wanted in, with a few     never in the window
//!                  bytes more, which are the window then
//! passed over      not read at all
//! ```
//!
//! So tables of small members are had in reads of 256 KiB, of pictures each in a read of its own, and of
//! those passed over their headers alone.

use super::Shard;
use std::io::{self, BufRead, Read};
use std::ops::Range;

/// Bytes of the first read, and after a jump: no less than a disk reads for one.
const SMALL: usize = 4096;

/// Bytes of a read that goes on.
pub(in crate::source) const LARGE: usize = 256 << 10;

/// From this on a piece is read where it is wanted: a call of the system costs less than to copy it.
const LONG: usize = 32 << 10;

/// A place in a shard, and the bytes read ahead of it.
pub(in crate::source) struct ShardReader {
    shard: Shard,
    at: u64,
    /// Bytes from `at` on lie here, so far as they are at hand.
    buffer: Vec<u8>,
    window: Range<usize>,
    /// Bytes of the next read.
    ahead: usize,
}

impl ShardReader {
    /// From the beginning on.
    pub(in crate::source) fn new(shard: Shard) -> Self {
        Self { shard, at: 0, buffer: vec![], window: 0..0, ahead: SMALL }
    }

    /// Bytes that are neither taken nor passed over.
    fn left(&self) -> u64 {
        self.shard.bytes.len().saturating_sub(self.at)
    }

    /// Passes over `count` bytes; says how many there were.
    pub(in crate::source) fn pass(&mut self, count: u64) -> u64 {
        let count = count.min(self.left());
        let beyond = count.saturating_sub(self.window.len() as u64);
        if beyond >= SMALL as u64 {
            self.ahead = SMALL;
        }
        self.window.start += (count - beyond) as usize;
        self.at += count;
        count
    }

    /// Appends the next `count` bytes; says how many there were. `beyond` more may be read along: a
    /// caller who has room for them spares the bytes a move.
    ///
    /// # Errors
    ///
    /// As [`FileBytes::append`](crate::source::file::FileBytes::append): some may have been appended.
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

    /// Reads `count` bytes where they are wanted; those beyond are the window then.
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
