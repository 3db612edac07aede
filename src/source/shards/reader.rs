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

/// Bytes of the first read, and after a jump: no less than a disk reads for one.
const SMALL: usize = 4096;

/// Bytes of a read that goes on.
pub(in crate::source) const LARGE: usize = 256 << 10;

/// From this on a piece is read where it is wanted: a call of the system costs less than to copy it.
const LONG: usize = 32 << 10;

/// What is at hand is read again only when all of it was taken.
pub(in crate::source) struct ShardReader {
    shard: Shard,
    /// The window: bytes of the shard from `start` on, and how many of them are taken.
    window: Vec<u8>,
    start: u64,
    taken: usize,
    /// Bytes of the next read.
    ahead: usize,
}

impl ShardReader {
    /// From the beginning on.
    pub(in crate::source) fn new(shard: Shard) -> Self {
        Self { shard, window: vec![], start: 0, taken: 0, ahead: SMALL }
    }

    /// Bytes that are neither taken nor passed over.
    fn left(&self) -> u64 {
        self.shard.bytes.len().saturating_sub(self.at())
    }

    fn at(&self) -> u64 {
        self.start + self.taken as u64
    }

    fn at_hand(&self) -> usize {
        self.window.len() - self.taken
    }

    /// Passes over `count` bytes; says how many there were.
    pub(in crate::source) fn pass(&mut self, count: u64) -> u64 {
        let at_hand = self.at_hand() as u64;
        let count = count.min(self.left());
        if count <= at_hand {
            self.taken += count as usize;
            return count;
        }
        self.jump_to(self.at() + count);
        if count - at_hand >= SMALL as u64 {
            self.ahead = SMALL;
        }
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
            if self.at_hand() == 0 && missing >= LONG as u64 {
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
        let start = self.at();
        let all = self.left().min(count.saturating_add(beyond));
        self.jump_to(start);
        self.shard.bytes.append(start, all, bytes).map_err(io::Error::other)?;
        let wanted = bytes.len() - (all - count) as usize;
        self.window.extend_from_slice(&bytes[wanted..]);
        bytes.truncate(wanted);
        self.start = start + count;
        self.ahead = SMALL;
        Ok(())
    }

    /// Goes on from byte `start`, with nothing at hand.
    fn jump_to(&mut self, start: u64) {
        self.start = start;
        self.taken = 0;
        self.window.clear();
    }
}

impl BufRead for ShardReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at_hand() == 0 {
            let size = self.left().min(self.ahead as u64);
            self.jump_to(self.at());
            let read = self.shard.bytes.append(self.start, size, &mut self.window);
            read.map_err(io::Error::other)?;
            self.ahead = (self.ahead * 2).min(LARGE);
        }
        Ok(&self.window[self.taken..])
    }

    fn consume(&mut self, count: usize) {
        self.taken += count.min(self.at_hand());
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
