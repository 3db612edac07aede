//! The records of one file in sequence: of a compressed or a remote file.
//!
//! | damage                               | consequence                                     |
//! |--------------------------------------|-------------------------------------------------|
//! | the CRC of a record's data           | an error of that record; the next one follows   |
//! | a length or its CRC; a file cut short; compressed data | the end: no later record can be found |

use super::frame::{self, Compression};
use super::{TfRecordCause, TfRecordError};
use crate::sample::Limits;
use crate::source::shards::{Shard, ShardReader};
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use std::io::{self, BufReader, Read};

/// A pass over the records of a file.
pub(super) struct Sequence {
    from: Box<dyn Read + Send>,
    file: String,
    limits: Limits,
    is_packed: bool,
    /// The number and the offset of the next record.
    record: u64,
    at: u64,
    data: Vec<u8>,
}

/// A record's data, or the error of that record alone.
pub(super) type Data<'a> = Result<&'a [u8], TfRecordError>;

impl Sequence {
    /// Begins at a file's first record.
    pub(super) fn open(shard: &Shard, limits: Limits) -> Result<Self, TfRecordError> {
        let compression = Compression::of_shard(shard)?;
        let plain = ShardReader::new(shard.clone());
        let from: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(plain),
            Compression::Gzip => Box::new(BufReader::new(MultiGzDecoder::new(plain))),
            Compression::Zlib => Box::new(BufReader::new(ZlibDecoder::new(plain))),
        };
        let file = shard.location.to_string();
        let is_packed = compression != Compression::None;
        Ok(Self { from, file, limits, is_packed, record: 0, at: 0, data: vec![] })
    }

    /// Returns the next record's number, offset and data; `None` at the file's end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, u64, Data<'_>)>, TfRecordError> {
        let Some(len) = self.length()? else { return Ok(None) };
        self.fill(len.saturating_add(frame::FOOTER))?;
        let (record, at) = self.pass(len);
        let Some((data, crc)) = self.data.split_last_chunk::<4>() else { return Ok(None) };
        let checked = frame::check(data, *crc);
        let checked = checked.map_err(|cause| error(&self.file, record, at, cause));
        Ok(Some((record, at, checked.map(|()| data))))
    }

    /// Skips the next record; false at the file's end.
    pub(super) fn skip(&mut self) -> Result<bool, TfRecordError> {
        let Some(len) = self.length()? else { return Ok(false) };
        let size = len.saturating_add(frame::FOOTER);
        let passed = io::copy(&mut (&mut self.from).take(size), &mut io::sink());
        let left = passed.map_err(|e| self.error(frame::read(&e)))?;
        if left < size {
            return Err(self.error(TfRecordCause::Short { len: size, left }));
        }
        self.pass(len);
        Ok(true)
    }

    /// Reads the next record's length; `None` at the file's end.
    fn length(&mut self) -> Result<Option<u64>, TfRecordError> {
        self.data.clear();
        let read = (&mut self.from).take(frame::HEADER).read_to_end(&mut self.data);
        match read.map_err(|e| self.error(frame::read(&e)))? {
            0 => Ok(None),
            _ if self.record >= self.limits.max_samples => {
                Err(self.error(TfRecordCause::Many { max: self.limits.max_samples }))
            }
            _ => match frame::length(&self.data, &self.limits) {
                Ok(len) if self.is_packed && len > self.limits.max_unpacked_bytes => {
                    let max = self.limits.max_unpacked_bytes;
                    Err(self.error(TfRecordCause::Unpacked { len, max }))
                }
                Ok(len) => Ok(Some(len)),
                Err(cause) => Err(self.error(cause)),
            },
        }
    }

    /// Reads `size` bytes. Memory grows with the bytes that are read, not with the length that the file
    /// states.
    fn fill(&mut self, size: u64) -> Result<(), TfRecordError> {
        self.data.clear();
        let read = (&mut self.from).take(size).read_to_end(&mut self.data);
        let left = read.map_err(|e| self.error(frame::read(&e)))? as u64;
        if left < size {
            return Err(self.error(TfRecordCause::Short { len: size, left }));
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

    fn error(&self, cause: TfRecordCause) -> TfRecordError {
        error(&self.file, self.record, self.at, cause)
    }
}

fn error(file: &str, record: u64, at: u64, cause: TfRecordCause) -> TfRecordError {
    TfRecordError { file: file.to_owned(), record, at, cause }
}
