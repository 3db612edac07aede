//! The bytes of a shard in sequence, unpacked on the fly if the shard is compressed.
//!
//! ```text
//! ShardReader   a plain shard             what is passed over is never read
//! Unpack        .gz, .zst: a decoder's    what is passed over is unpacked all the same
//! ```

use super::header::BLOCK;
use crate::source::shards::{LARGE, ShardReader};
use std::io::{self, BufRead, BufReader, Read};

/// A reader for headers and data.
pub(super) trait Feed: BufRead + Send {
    /// Skips up to `count` bytes and returns how many it skipped.
    fn pass(&mut self, count: u64) -> io::Result<u64>;

    /// Appends up to `count` bytes and returns how many it appended. The reader may read up to `beyond`
    /// more bytes into its buffer.
    fn append(&mut self, bytes: &mut Vec<u8>, count: u64, beyond: u64) -> io::Result<u64>;

    /// Returns the next bytes; none only at the end. Retries a read that a signal interrupted, because
    /// callers of `fill_buf` do not expect that error.
    fn at_hand(&mut self) -> io::Result<&[u8]> {
        while let Err(error) = self.fill_buf() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        self.fill_buf()
    }
}

impl Feed for ShardReader {
    fn pass(&mut self, count: u64) -> io::Result<u64> {
        Ok(self.skip(count))
    }

    fn append(&mut self, bytes: &mut Vec<u8>, count: u64, beyond: u64) -> io::Result<u64> {
        self.append(bytes, count, beyond)
    }
}

/// A shard that is unpacked on the fly.
pub(super) type Unpack = BufReader<Box<dyn Read + Send>>;

/// Buffers the output of a decoder.
pub(super) fn unpack(decoder: Box<dyn Read + Send>) -> Unpack {
    BufReader::with_capacity(LARGE, decoder)
}

impl Feed for Unpack {
    fn pass(&mut self, count: u64) -> io::Result<u64> {
        io::copy(&mut self.take(count), &mut io::sink())
    }

    fn append(&mut self, bytes: &mut Vec<u8>, count: u64, _: u64) -> io::Result<u64> {
        self.take(count).read_to_end(bytes).map(|count| count as u64)
    }
}

/// Reads the next block; fewer bytes only at the end.
pub(super) fn block(feed: &mut dyn Feed) -> io::Result<([u8; BLOCK], usize)> {
    let (mut block, mut filled) = ([0; BLOCK], 0);
    while filled < BLOCK {
        match feed.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((block, filled))
}
