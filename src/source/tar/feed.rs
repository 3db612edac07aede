//! Bytes in sequence: of a shard that is read in parts, or of one that is unpacked on the way.
//!
//! ```text
//! Window   a plain shard: reads on the file at places    what is passed over is never read
//! Unpack   .gz, .zst: a decoder's bytes                  what is passed over is unpacked all the same
//! ```
//!
//! A window grows while reading goes straight on and is small again after a jump: so tables of small
//! members are had in reads of 256 KiB, and of pictures their headers alone.

use super::header::BLOCK;
use crate::source::shards::Shard;
use std::io::{self, BufRead as _, BufReader, Read};

/// What headers and data are read from.
pub(super) trait Feed: Send {
    /// The bytes at hand; none only at the end.
    fn at_hand(&mut self) -> io::Result<&[u8]>;

    /// Takes `count` of those at hand.
    fn take(&mut self, count: usize);

    /// Passes over `count` bytes; says how many there were.
    fn pass(&mut self, count: u64) -> io::Result<u64>;
}

/// Bytes of the first read, and after a jump: no less than a disk reads for one.
const SMALL: usize = 4096;

/// Bytes of a read that goes on.
pub(super) const LARGE: usize = 256 << 10;

/// A plain shard.
pub(super) struct Window {
    shard: Shard,
    /// Read last, from byte `start` on.
    bytes: Vec<u8>,
    start: u64,
    /// How many of them were read, and how many of those are taken.
    filled: usize,
    taken: usize,
    /// Bytes of the next read.
    ahead: usize,
}

impl Window {
    /// From the beginning of a shard on.
    pub(super) fn new(shard: Shard) -> Self {
        Self { shard, bytes: vec![], start: 0, filled: 0, taken: 0, ahead: SMALL }
    }

    /// Reads `size` bytes at `start`; bytes that are held are copied.
    fn read(&mut self, size: u64) -> io::Result<usize> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let count = if self.shard.bytes.reader().is_none() {
            bytes = self.shard.bytes.copy(self.start, size).map_err(io::Error::other)?;
            bytes.len()
        } else {
            self.shard.bytes.get(self.start, size, &mut bytes).map_err(io::Error::other)?.len()
        };
        self.bytes = bytes;
        Ok(count)
    }

    fn at(&self) -> u64 {
        self.start + self.taken as u64
    }
}

impl Feed for Window {
    fn at_hand(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.filled {
            self.start = self.at();
            (self.filled, self.taken) = (0, 0);
            let left = self.shard.bytes.len().saturating_sub(self.start);
            let size = left.min(self.ahead as u64);
            self.filled = self.read(size)?;
            self.ahead = (self.ahead * 2).min(LARGE);
        }
        Ok(&self.bytes[self.taken..self.filled])
    }

    fn take(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.filled);
    }

    fn pass(&mut self, count: u64) -> io::Result<u64> {
        let at_hand = (self.filled - self.taken) as u64;
        if count <= at_hand {
            self.taken += count as usize;
            return Ok(count);
        }
        let count = count.min(self.shard.bytes.len().saturating_sub(self.at()));
        self.start = self.at() + count;
        (self.filled, self.taken) = (0, 0);
        if count - at_hand >= SMALL as u64 {
            self.ahead = SMALL;
        }
        Ok(count)
    }
}

/// A shard that is unpacked on the way.
pub(super) struct Unpack(BufReader<Box<dyn Read + Send>>);

impl Unpack {
    /// What a decoder gives.
    pub(super) fn new(decoder: Box<dyn Read + Send>) -> Self {
        Self(BufReader::with_capacity(LARGE, decoder))
    }
}

impl Feed for Unpack {
    fn at_hand(&mut self) -> io::Result<&[u8]> {
        // Asked again where a signal came in between: others do not expect that of `fill_buf`.
        while let Err(error) = self.0.fill_buf() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        self.0.fill_buf()
    }

    fn take(&mut self, count: usize) {
        self.0.consume(count);
    }

    fn pass(&mut self, count: u64) -> io::Result<u64> {
        let mut left = count;
        while left > 0 {
            let found = self.at_hand()?.len();
            if found == 0 {
                break;
            }
            let taken = usize::try_from(left).map_or(found, |left| left.min(found));
            self.take(taken);
            left -= taken as u64;
        }
        Ok(count - left)
    }
}

/// What is at hand, into the beginning of `into`.
pub(super) fn take(feed: &mut dyn Feed, into: &mut [u8]) -> io::Result<usize> {
    let found = feed.at_hand()?;
    let count = found.len().min(into.len());
    into[..count].copy_from_slice(&found[..count]);
    feed.take(count);
    Ok(count)
}

/// The next block; fewer bytes of it only at the end.
pub(super) fn block(feed: &mut dyn Feed) -> io::Result<([u8; BLOCK], usize)> {
    let (mut block, mut filled) = ([0; BLOCK], 0);
    while filled < BLOCK {
        match take(feed, &mut block[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok((block, filled))
}
