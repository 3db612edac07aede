//! The segment index of a re-cut JPEG: where the segments of the scan are, stored in the file itself.
//!
//! The index comes after the end marker, where decoders no longer look:
//!
//! ```text
//! length:1 or 3 x n  bytes of the lengths:4  n:4  "FSEGIDX\x01"        little-endian
//! ```
//!
//! A length is the number of a segment's coded bytes, without the restart marker after them. It takes
//! one byte, or `ff` and two bytes from 255 on. The first segment begins where the scan's data do.
//! Without an index the markers are found by a scan of all coded bytes, which costs 2 % of decoding a
//! window, and reads bytes that are otherwise not needed.
//!
//! The index is checked against the file: each segment must be followed by the restart marker of its
//! number, and the last segment by another marker. An index that does not match is ignored. A match does
//! not prove that there are no more markers. zune-jpeg acts on any marker, so it is given only files
//! that were scanned.

use crate::error::JpegError;
use crate::headers::Headers;
use crate::scans::{Markers, Scans, segment_count};

/// The last bytes of a file with an index.
const MAGIC: [u8; 8] = *b"FSEGIDX\x01";

/// The bytes after the lengths.
pub const FOOTER: usize = 16;

/// Comes before a length of two bytes.
pub const LONG: u8 = 0xff;

/// Appends the index to a JPEG of one sequential scan with restart markers. Leaves other files
/// unchanged, and those with a segment of 64 KiB or more.
///
/// # Errors
///
/// If the bytes are not a JPEG, or a damaged one.
pub fn append(jpeg: &mut Vec<u8>) -> Result<(), JpegError> {
    let headers = Headers::parse(jpeg)?;
    let count = segment_count(&headers);
    let mut restarts = Vec::new();
    let Scans::Single(scan) = Scans::survey(jpeg, &headers, Markers::FromScan, &mut restarts)?
    else {
        return Ok(());
    };
    let (Ok(n), Ok(segments)) = (u32::try_from(count), usize::try_from(count)) else {
        return Ok(());
    };
    if n < 2 {
        return Ok(());
    }
    let lengths: Result<Vec<u16>, _> =
        (0..segments).map(|segment| u16::try_from(scan.segment(segment).len())).collect();
    let Ok(lengths) = lengths else { return Ok(()) };
    let coded: Vec<u8> = lengths.into_iter().flat_map(code).flatten().collect();
    let Ok(bytes) = u32::try_from(coded.len()) else { return Ok(()) };
    jpeg.extend_from_slice(&coded);
    jpeg.extend_from_slice(&bytes.to_le_bytes());
    jpeg.extend_from_slice(&n.to_le_bytes());
    jpeg.extend_from_slice(&MAGIC);
    Ok(())
}

/// Encodes a length in one byte or three.
pub fn code(length: u16) -> [Option<u8>; 3] {
    match length.to_le_bytes() {
        [short, 0] if short < LONG => [Some(short), None, None],
        [low, high] => [Some(LONG), Some(low), Some(high)],
    }
}

/// Returns the offset of the marker after the scan, and writes the offsets of the restart markers to
/// `restarts`, if the file has an index that matches it.
pub fn read(bytes: &[u8], headers: &Headers, restarts: &mut Vec<usize>) -> Option<usize> {
    follow(bytes, headers, restarts, is_restart)
}

/// Does what [`read`] does for a file of which only the last bytes were read, those of [`tail_bytes`]: looks at the
/// marker after the scan, and at no restart marker.
pub fn read_tail(bytes: &[u8], headers: &Headers, restarts: &mut Vec<usize>) -> Option<usize> {
    let end = follow(bytes, headers, restarts, |jpeg, at, _| at < jpeg.len())?;
    let tail = tail_bytes(bytes)?;
    (end >= bytes.len() - tail).then_some(end)
}

/// Returns the bytes that [`read_tail`] looks at, at the end of a file: the index and the marker before it. `None` if the
/// file has no index. Only the last [`FOOTER`] bytes are looked at.
pub fn tail_bytes(bytes: &[u8]) -> Option<usize> {
    let (rest, magic) = bytes.split_last_chunk()?;
    let (rest, _count) = rest.split_last_chunk::<4>()?;
    let (rest, length) = rest.split_last_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let tail = length.checked_add(FOOTER + 2)?;
    (*magic == MAGIC && length + 2 <= rest.len()).then_some(tail)
}

/// Follows the index from segment to segment, as long as `matches` is true of each restart marker: of the JPEG, the offset
/// in it, and the marker's number.
#[inline(always)]
fn follow(
    bytes: &[u8],
    headers: &Headers,
    restarts: &mut Vec<usize>,
    matches: impl Fn(&[u8], usize, u64) -> bool,
) -> Option<usize> {
    let (rest, magic) = bytes.split_last_chunk()?;
    let (rest, count) = rest.split_last_chunk()?;
    let (rest, length) = rest.split_last_chunk()?;
    let count = u64::from(u32::from_le_bytes(*count));
    if *magic != MAGIC || count != segment_count(headers) {
        return None;
    }
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (jpeg, mut lengths) = rest.split_at(rest.len().checked_sub(length)?);
    restarts.clear();
    let mut at = headers.scan.data;
    for n in 0..count {
        at += take(&mut lengths)?;
        if n + 1 == count {
            let found = marker(jpeg, at)?;
            let is_end = lengths.is_empty() && !matches!(found, 0 | 0xd0..=0xd7 | 0xff);
            return is_end.then_some(at);
        }
        if !matches(jpeg, at, n) {
            return None;
        }
        restarts.push(at);
        at += 2;
    }
    None
}

/// Returns whether the restart marker of a number, which counts from 0, is at an offset.
pub fn is_restart(jpeg: &[u8], at: usize, n: u64) -> bool {
    marker(jpeg, at) == Some(0xd0 + (n % 8) as u8)
}

/// Takes one length off `lengths`.
pub fn take(lengths: &mut &[u8]) -> Option<usize> {
    match **lengths {
        [LONG, low, high, ref rest @ ..] => {
            *lengths = rest;
            Some(usize::from(u16::from_le_bytes([low, high])))
        }
        [LONG, ..] | [] => None,
        [length, ref rest @ ..] => {
            *lengths = rest;
            Some(usize::from(length))
        }
    }
}

/// Returns the second byte of the marker at an offset.
fn marker(jpeg: &[u8], at: usize) -> Option<u8> {
    match jpeg.get(at..)?.first_chunk()? {
        [0xff, marker] => Some(*marker),
        _ => None,
    }
}
