//! Where the values of a column of bytes lie in the file, if its pages are neither compressed nor coded.
//!
//! ```text
//! page:  [u32 length, definition levels]   [u32 length][bytes]  [u32 length][bytes]  ...     PLAIN
//!                                          [u8 width][RLE: indexes of values of the dictionary page]
//! ```
//!
//! `datasets` writes images like this, so that an image is read by itself, with one read of its bytes. Levels of
//! definition tell the rows with a value from those that are null.

use super::pages::{Chunk, Codec, Directory, PageAt};
use super::thrift::PageKind;
use crate::error::{Error, fail};
use crate::sample::Limits;
use crate::source::shards::Shard;
use parquet::basic::Encoding;

/// The mean size of values from which their lengths are read one by one, not with the values between.
const LARGE: u64 = 8 << 10;

/// The number of bytes that are read together otherwise.
const WINDOW: u64 = 64 << 10;

/// Returns where the values lie; `None` if they are compressed, or coded otherwise. `levels` is the level of definition of
/// a row that has a value.
///
/// # Errors
///
/// Fails if a page is damaged.
pub(super) fn find(
    shard: &Shard,
    chunk: &Chunk,
    pages: &[PageAt],
    levels: i16,
    limits: &Limits,
) -> Result<Option<Directory>, Error> {
    let is_plain = |page: &PageAt| match page.header.encoding {
        Encoding::PLAIN => true,
        Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
            page.header.kind == PageKind::Dictionary
                || pages.first().is_some_and(|first| first.header.kind == PageKind::Dictionary)
        }
        _ => false,
    };
    if chunk.codec != Codec::None || !pages.iter().all(is_plain) {
        return Ok(None);
    }
    if chunk.values > limits.max_unpacked_bytes / 32 {
        return Err(fail!(Damaged, "{} rows in a row group", chunk.values).byte(chunk.start));
    }
    let (mut dictionary, mut found) = (vec![], vec![]);
    for page in pages {
        let damaged =
            || fail!(Damaged, "the levels or lengths of a page are damaged").byte(page.at);
        let values = page.header.values as usize;
        let (levels_at, levels_len, values_at) = match page.header.kind {
            PageKind::Dictionary => (page.at, 0, page.at),
            PageKind::DataV2 { definition, repetition: 0, .. } => {
                (page.at, u64::from(definition), page.at + u64::from(definition))
            }
            PageKind::Data { definition: Encoding::RLE, .. } if levels > 0 => {
                let len = word(&shard.bytes.copy(page.at, 4)?).ok_or_else(damaged)?;
                (page.at + 4, len, page.at + 4 + len)
            }
            PageKind::Data { .. } if levels == 0 => (page.at, 0, page.at),
            _ => return Ok(None),
        };
        let end = page.at + u64::from(page.header.stored);
        let left = end.checked_sub(values_at).ok_or_else(damaged)?;
        if page.header.kind == PageKind::Dictionary {
            let mut walk = Lengths::new(shard, values_at..end, values);
            dictionary =
                (0..values).map(|_| walk.next()).collect::<Option<Vec<_>>>().ok_or_else(damaged)?;
            continue;
        }
        let present = match levels {
            0 => vec![1; values],
            _ => {
                let bytes = shard.bytes.copy(levels_at, levels_len)?;
                let width = 16 - (levels as u16).leading_zeros();
                let found = run_lengths(&bytes, width, values).ok_or_else(damaged)?;
                found.into_iter().map(|level| u32::from(level == levels as u32)).collect()
            }
        };
        let null = (values_at, Directory::NULL);
        if page.header.encoding == Encoding::PLAIN {
            let count = present.iter().filter(|present| **present == 1).count();
            let mut walk = Lengths::new(shard, values_at..end, count);
            for present in present {
                found.push(match present {
                    1 => walk.next().ok_or_else(damaged)?,
                    _ => null,
                });
            }
        } else {
            let bytes = shard.bytes.copy(values_at, left)?;
            let count = present.iter().filter(|present| **present == 1).count();
            let indexes = match bytes.split_first() {
                Some((width, bytes)) => run_lengths(bytes, u32::from(*width), count),
                None => Some(vec![]).filter(|_| count == 0),
            };
            let mut indexes = indexes.ok_or_else(damaged)?.into_iter();
            for present in present {
                found.push(match present {
                    1 => {
                        let index = indexes.next().ok_or_else(damaged)?;
                        *dictionary.get(index as usize).ok_or_else(damaged)?
                    }
                    _ => null,
                });
            }
        }
    }
    let (offsets, lens): (Vec<u64>, Vec<u32>) = found.into_iter().unzip();
    Ok(Some(Directory::Extents { offsets: offsets.into(), lens: lens.into() }))
}

/// The lengths before the values of a page, one after another.
struct Lengths<'a> {
    shard: &'a Shard,
    at: u64,
    end: u64,
    /// The number of bytes that are read at a time.
    window: u64,
    buffer: Vec<u8>,
    /// The offset of the first byte in the buffer, and the number of bytes there.
    buffered: std::ops::Range<u64>,
}

impl<'a> Lengths<'a> {
    fn new(shard: &'a Shard, range: std::ops::Range<u64>, values: usize) -> Self {
        let mean = (range.end - range.start) / (values as u64).max(1);
        let window = if mean >= LARGE { 4 } else { WINDOW };
        Self { shard, at: range.start, end: range.end, window, buffer: vec![], buffered: 0..0 }
    }

    /// Returns the offset and the length of the next value; `None` if the page ends before its end.
    fn next(&mut self) -> Option<(u64, u32)> {
        let (at, start) = (self.at, self.at.checked_add(4)?);
        if start > self.end {
            return None;
        }
        if at < self.buffered.start || start > self.buffered.end {
            let size = self.window.min(self.end - at);
            self.buffer = self.shard.bytes.copy(at, size).ok()?;
            self.buffered = at..at + size;
        }
        let len = word(self.buffer.get((at - self.buffered.start) as usize..)?)?;
        self.at = start + len;
        (self.at <= self.end).then_some((start, len as u32))
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    Some(u32::from_le_bytes(*bytes.first_chunk()?).into())
}

/// Decodes `count` numbers of `width` bits from Parquet's mixture of run lengths and bit packing. `None` if the bytes have
/// fewer.
fn run_lengths(mut bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
    if width > 32 {
        return None;
    }
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count).ok()?;
    while numbers.len() < count {
        // A number of 7 bits a byte, the last of which is below 0x80.
        let size = 1 + bytes.iter().take(5).position(|byte| *byte < 0x80)?;
        let (digits, rest) = bytes.split_at(size);
        bytes = rest;
        let head = digits.iter().rev().fold(0, |head, byte| head << 7 | u64::from(byte & 0x7f));
        let left = count - numbers.len();
        let length = usize::try_from(head >> 1).ok()?;
        if head & 1 == 0 {
            let (value, rest) = bytes.split_at_checked(width.div_ceil(8) as usize)?;
            bytes = rest;
            let value = value.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
            numbers.resize(numbers.len() + left.min(length), value);
            if length == 0 {
                return None;
            }
        } else {
            // Groups of eight numbers; the last one may end with the bytes.
            let size = length.checked_mul(width as usize)?.min(bytes.len());
            let (packed, rest) = bytes.split_at(size);
            bytes = rest;
            let most = left.min(length.checked_mul(8)?);
            for index in 0..most {
                let (bit, mut value) = (index * width as usize, 0_u64);
                for (nth, byte) in packed.get(bit / 8..)?.iter().take(5).enumerate() {
                    value |= u64::from(*byte) << (8 * nth);
                }
                if bit + width as usize > packed.len() * 8 {
                    return None;
                }
                numbers.push((value >> (bit % 8) & ((1 << width) - 1)) as u32);
            }
            if length == 0 {
                return None;
            }
        }
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_numbers_are_decoded() {
        // The example of the format's document: 0 to 7 in three bits.
        let packed = [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(run_lengths(&packed, 3, 8), Some((0..8).collect()));
        assert_eq!(run_lengths(&[8 << 1, 5], 3, 6), Some(vec![5; 6]));
        assert_eq!(run_lengths(&[2 << 1, 1, 0b11, 0b101], 1, 5), Some(vec![1, 1, 1, 0, 1]));
        assert_eq!(run_lengths(&[3 << 1], 0, 3), Some(vec![0; 3]));
    }

    #[test]
    fn runs_that_end_early_or_are_empty_are_refused() {
        for bytes in [&[][..], &[8 << 1], &[0, 1], &[1], &[0b11, 0xff], &[0xff; 9]] {
            assert_eq!(run_lengths(bytes, 3, 8), None, "{bytes:?}");
        }
        assert_eq!(run_lengths(&[2, 0], 33, 1), None);
    }
}
