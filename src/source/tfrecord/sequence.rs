//! The records of one file in sequence: of a compressed or a remote file.
//!
//! | damage                               | consequence                                     |
//! |--------------------------------------|-------------------------------------------------|
//! | the CRC of a record's data           | an error of that record; the next one follows   |
//! | a length or its CRC; a file cut short; compressed data | the end: no later record can be found |

use super::frame::{self, Compression};
use crate::error::{Error, fail};
use crate::sample::Limits;
use crate::source::Location;
use crate::source::shards::{Shard, ShardReader};
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use std::io::{self, BufReader, Read};

/// A pass over the records of a file.
pub(super) struct Sequence {
    from: Box<dyn Read + Send>,
    file: Location,
    limits: Limits,
    is_packed: bool,
    /// The number and the offset of the next record.
    record: u64,
    at: u64,
    data: Vec<u8>,
}

/// A record's data, or the error of that record alone.
pub(super) type Data<'a> = Result<&'a [u8], Error>;

impl Sequence {
    /// Begins at a file's first record.
    pub(super) fn open(shard: &Shard, limits: Limits) -> Result<Self, Error> {
        let compression = Compression::of_shard(shard)?;
        let plain = ShardReader::new(shard.clone());
        let from: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(plain),
            Compression::Gzip => Box::new(BufReader::new(MultiGzDecoder::new(plain))),
            Compression::Zlib => Box::new(BufReader::new(ZlibDecoder::new(plain))),
        };
        let file = shard.location.clone();
        let is_packed = compression != Compression::None;
        Ok(Self { from, file, limits, is_packed, record: 0, at: 0, data: vec![] })
    }

    /// Returns the next record's number, offset and data; `None` at the file's end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, u64, Data<'_>)>, Error> {
        let Some(len) = self.length()? else { return Ok(None) };
        self.fill(len.saturating_add(frame::FOOTER))?;
        let (record, at) = self.pass(len);
        let Some((data, crc)) = self.data.split_last_chunk::<4>() else { return Ok(None) };
        let checked = frame::check(data, *crc);
        let checked = checked.map_err(|error| frame::located(error, &self.file, record, at));
        Ok(Some((record, at, checked.map(|()| data))))
    }

    /// Skips the next record; false at the file's end.
    pub(super) fn skip(&mut self) -> Result<bool, Error> {
        let Some(len) = self.length()? else { return Ok(false) };
        let size = len.saturating_add(frame::FOOTER);
        let passed = io::copy(&mut (&mut self.from).take(size), &mut io::sink());
        let left = passed.map_err(|e| self.error(frame::read(&e)))?;
        if left < size {
            return Err(
                self.error(fail!(Damaged, "its length is {size} bytes, the file has {left} more"))
            );
        }
        self.pass(len);
        Ok(true)
    }

    /// Reads the next record's length; `None` at the file's end.
    fn length(&mut self) -> Result<Option<u64>, Error> {
        self.data.clear();
        let read = (&mut self.from).take(frame::HEADER).read_to_end(&mut self.data);
        match read.map_err(|e| self.error(frame::read(&e)))? {
            0 => Ok(None),
            _ if self.record >= self.limits.max_samples => Err(self.error(fail!(
                Memory,
                "more records than the limit of {max}",
                max = self.limits.max_samples
            ))),
            _ => match frame::length(&self.data, &self.limits) {
                Ok(len) if self.is_packed && len > self.limits.max_unpacked_bytes => {
                    let max = self.limits.max_unpacked_bytes;
                    Err(self.error(fail!(
                        Memory,
                        "it unpacks to {len} bytes, and the limit is {max} (`Limits::max_unpacked_bytes`): unpack the file, or raise the limit"
                    )))
                }
                Ok(len) => Ok(Some(len)),
                Err(error) => Err(self.error(error)),
            },
        }
    }

    /// Reads `size` bytes. Memory grows with the bytes that are read, not with the length that the file
    /// states.
    fn fill(&mut self, size: u64) -> Result<(), Error> {
        self.data.clear();
        let read = (&mut self.from).take(size).read_to_end(&mut self.data);
        let left = read.map_err(|e| self.error(frame::read(&e)))? as u64;
        if left < size {
            return Err(
                self.error(fail!(Damaged, "its length is {size} bytes, the file has {left} more"))
            );
        }
        Ok(())
    }

    /// Moves past a record of `len` bytes; returns its number and offset.
    fn pass(&mut self, len: u64) -> (u64, u64) {
        let passed = (self.record, self.at);
        self.record += 1;
        self.at += frame::HEADER + len + frame::FOOTER;
        passed
    }

    /// Adds the location of the next record to an error.
    fn error(&self, error: Error) -> Error {
        frame::located(error, &self.file, self.record, self.at)
    }
}
