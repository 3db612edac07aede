//! Bytes in sequence: of a shard, or of one that is unpacked on the way.
//!
//! ```text
//! ShardReader   a plain shard             what is passed over is never read
//! Unpack        .gz, .zst: a decoder's    what is passed over is unpacked all the same
//! ```

use super::header::BLOCK;
use crate::source::shards::{LARGE, ShardReader};
use std::io::{self, BufRead, BufReader, Read};

/// What headers and data are read from.
pub(super) trait Feed: BufRead + Send {
    /// Passes over `count` bytes; says how many there were.
    fn pass(&mut self, count: u64) -> io::Result<u64>;

    /// Appends the next `count` bytes; says how many there were. `beyond` more may be read
    /// along.
    fn append(&mut self, bytes: &mut Vec<u8>, count: u64, beyond: u64) -> io::Result<u64>;

    /// The next bytes; none only at the end. Asked again where a signal came in between: others do not
    /// expect that of `fill_buf`.
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
        Ok(self.pass(count))
    }

    fn append(&mut self, bytes: &mut Vec<u8>, count: u64, beyond: u64) -> io::Result<u64> {
        self.append(bytes, count, beyond)
    }
}

/// A shard that is unpacked on the way.
pub(super) type Unpack = BufReader<Box<dyn Read + Send>>;

/// What a decoder gives.
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

/// The next block; fewer bytes of it only at the end.
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
