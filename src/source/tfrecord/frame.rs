//! The frame of a record, as in TensorFlow's `record_writer.h`.
//!
//! | size | field        | meaning                                            |
//! |-----:|--------------|----------------------------------------------------|
//! |    8 | `length`     | bytes of the data, little-endian                   |
//! |    4 | `length_crc` | masked CRC-32C of the 8 bytes before               |
//! |    n | `data`       |                                                    |
//! |    4 | `data_crc`   | masked CRC-32C of the data                         |
//!
//! `masked(crc) = rotate_right(crc, 15) + 0xa282ead8`; the mask keeps the CRC useful for data that
//! itself contains CRCs. A length is used only if its CRC is right, and only up to the file's end and
//! the limits.

use crate::error::{Error, fail};
use crate::sample::Limits;
use crate::source::Location;
use crate::source::file::LengthCheck;
use crate::source::shards::{Shard, ShardIndex};
use std::fmt;
use std::ops::Range;

/// The number of bytes before the data.
pub(super) const HEADER: u64 = 12;

/// The number of bytes behind the data.
pub(super) const FOOTER: u64 = 4;

/// The masked CRC of these bytes, as a frame stores it.
pub(crate) fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Reads the length from a header and checks it.
pub(super) fn length(header: &[u8], limits: &Limits) -> Result<u64, Error> {
    let cut = || {
        fail!(
            Damaged,
            "the file ends inside its header, which has {found} of 12 bytes",
            found = header.len() as u64
        )
    };
    let Some((length, rest)) = header.split_first_chunk::<8>() else { return Err(cut()) };
    let Some(crc) = rest.first_chunk::<4>() else { return Err(cut()) };
    let (found, expected) = (u32::from_le_bytes(*crc), masked_crc32c(length));
    if found != expected {
        return Err(fail!(
            Damaged,
            "the CRC of its length is {found:#010x}, expected {expected:#010x}"
        ));
    }
    let (len, max) = (u64::from_le_bytes(*length), limits.max_sample_bytes);
    if len > max {
        Err(fail!(Memory, "its length is {len} bytes, the limit is {max}"))
    } else {
        Ok(len)
    }
}

/// Checks data against the CRC behind it.
pub(super) fn check(data: &[u8], crc: [u8; 4]) -> Result<(), Error> {
    let (found, expected) = (u32::from_le_bytes(crc), masked_crc32c(data));
    if found == expected {
        Ok(())
    } else {
        Err(fail!(Damaged, "the CRC of its data is {found:#010x}, expected {expected:#010x}"))
    }
}

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zlib,
}

impl Compression {
    /// Detects the compression from a file's first bytes. If they are a valid frame header, the file is
    /// plain: a length may look like the start of a compressed file.
    pub(super) fn of(first: &[u8]) -> Self {
        let is_frame =
            first.len() >= 12 && masked_crc32c(&first[..8]).to_le_bytes() == first[8..12];
        match first {
            _ if is_frame => Self::None,
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            // RFC 1950: method 8, and the two bytes are a multiple of 31.
            [a, b, ..] if a & 15 == 8 && a >> 4 < 8 && u16::from_be_bytes([*a, *b]) % 31 == 0 => {
                Self::Zlib
            }
            _ => Self::None,
        }
    }

    /// Detects the compression of an open file.
    pub(super) fn of_shard(shard: &Shard) -> Result<Self, Error> {
        let end = shard.bytes.len().min(HEADER);
        let mut buffer = vec![];
        let first = shard.bytes.get(0, end, &mut buffer);
        let first = first.map_err(|error| at(shard, 0, 0)(read(&error)))?;
        Ok(Self::of(first))
    }
}

/// Locates the records of a file, with a read of 12 bytes for each. A sample has a single component,
/// named "": the data of its record.
///
/// # Errors
///
/// If the file is compressed or cut short, or has a wrong length.
pub(in crate::source) fn scan(shard: &Shard, limits: &Limits) -> Result<ShardIndex, Error> {
    if Compression::of_shard(shard)? != Compression::None {
        return Err(at(shard, 0, 0)(fail!(
            Unsupported,
            "the file is compressed: it can only be read as a stream, from its beginning on"
        )));
    }
    let (mut index, mut buffer) = (ShardIndex::default(), vec![]);
    // The file's length is checked once at the end: a check takes as long as a read of a 12-byte header.
    let mut check = LengthCheck::default();
    let (end, mut start) = (shard.bytes.len(), 0);
    while start < end {
        let at = at(shard, index.len() as u64, start);
        let many = || {
            at(fail!(
                Memory,
                "more records than the limit of {max}",
                max = limits.max_samples.min(u32::MAX.into())
            ))
        };
        if index.len() as u64 >= limits.max_samples {
            return Err(many());
        }
        let size = HEADER.min(end - start);
        let header = shard.bytes.get_with((start, size), &mut buffer, Some(&mut check));
        let header = header.map_err(|error| at(read(&error)))?;
        let len = length(header, limits).map_err(at)?;
        let data = start + HEADER..start + HEADER + len;
        let left = end - data.start;
        if left < len + FOOTER {
            return Err(at(fail!(
                Damaged,
                "its length is {len} bytes, the file has {left} more",
                len = len + FOOTER
            )));
        }
        start = data.end + FOOTER;
        index.add("", data).and_then(|()| index.end(b"")).ok_or_else(many)?;
    }
    check.pass().map_err(|error| at(shard, index.len() as u64, start)(read(&error)))?;
    Ok(index)
}

/// Reads a record's data and checks both CRCs.
pub(super) fn get<'a>(
    shard: &'a Shard,
    record: u64,
    data: &Range<u64>,
    limits: &Limits,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], Error> {
    let frame = read_at(shard, record, data, buffer)?;
    checked(frame, limits).map_err(at(shard, record, data.start.saturating_sub(HEADER)))
}

/// Reads the bytes of a record, from its header to its footer.
pub(super) fn read_at<'a>(
    shard: &'a Shard,
    record: u64,
    data: &Range<u64>,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], Error> {
    let start = data.start.saturating_sub(HEADER);
    let at = at(shard, record, start);
    let size = data.end.saturating_sub(start).saturating_add(FOOTER);
    if data.start < HEADER {
        return Err(at(moved()));
    }
    shard.bytes.get(start, size, buffer).map_err(|error| at(read(&error)))
}

/// Returns the data of a record, from its header to its footer.
pub(super) fn checked<'a>(frame: &'a [u8], limits: &Limits) -> Result<&'a [u8], Error> {
    let len = length(frame, limits)?;
    let rest = frame.get(HEADER as usize..).and_then(<[u8]>::split_last_chunk::<4>);
    match rest {
        Some((found, crc)) if found.len() as u64 == len => {
            check(found, *crc)?;
            Ok(found)
        }
        _ => Err(moved()),
    }
}

fn moved() -> Error {
    fail!(Damaged, "it is not where the index says: was the file changed?")
}

/// Adds the location of a record to an error.
pub(super) fn at(shard: &Shard, record: u64, at: u64) -> impl Fn(Error) -> Error + Copy + '_ {
    move |error| located(error, &shard.location, record, at)
}

/// Does the same as [`at`], in a file of this location.
pub(super) fn located(error: Error, file: &Location, record: u64, at: u64) -> Error {
    error.context(format_args!("record {record} at byte {at}")).at(file).named_byte(at)
}

/// An error of the system.
pub(super) fn read(error: &dyn fmt::Display) -> Error {
    fail!(Damaged, "{error}")
}
