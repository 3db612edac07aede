//! Where the segments of a re-cut JPEG lie, told by the file itself.
//!
//! Behind the end marker, where decoders no longer look:
//!
//! ```text
//! length:2 x n  n:4  "FSEGIDX\x01"        little-endian
//! ```
//!
//! A length is that of a segment's coded bytes, without the restart marker behind it; the first
//! segment begins where the scan's data do. Finding the markers by a look through all coded bytes
//! costs 2 % of decoding a window, and needs bytes that are otherwise not touched.
//!
//! What it says is checked against the file: behind each segment stands the restart marker of its
//! number, behind the last another marker. What does not fit is as good as absent.

use super::headers::Headers;
use super::scans::{Scans, segment_count};
use crate::decode::DecodeError;

/// The last bytes of a file with an index.
const MAGIC: [u8; 8] = *b"FSEGIDX\x01";

/// Appends the index to a JPEG of one sequential scan with restart markers. Of other files, and
/// of those with a segment of 64 KiB or more, nothing is changed.
///
/// # Errors
///
/// If it is not a JPEG, or a damaged one.
pub fn append_segment_index(jpeg: &mut Vec<u8>) -> Result<(), DecodeError> {
    let headers = Headers::parse(jpeg)?;
    let count = segment_count(&headers);
    let mut restarts = Vec::new();
    let Scans::Single(scan) = Scans::survey(jpeg, &headers, &mut restarts)? else { return Ok(()) };
    let (Ok(n), Ok(segments)) = (u32::try_from(count), usize::try_from(count)) else {
        return Ok(());
    };
    if n < 2 {
        return Ok(());
    }
    let lengths: Result<Vec<u16>, _> =
        (0..segments).map(|segment| u16::try_from(scan.segment(segment).len())).collect();
    let Ok(lengths) = lengths else { return Ok(()) };
    jpeg.extend(lengths.into_iter().flat_map(u16::to_le_bytes));
    jpeg.extend_from_slice(&n.to_le_bytes());
    jpeg.extend_from_slice(&MAGIC);
    Ok(())
}

/// The offset of the marker behind the scan, and in `restarts` the offsets of the restart
/// markers, if the file has an index and it is right.
pub(super) fn read(bytes: &[u8], headers: &Headers, restarts: &mut Vec<usize>) -> Option<usize> {
    let (rest, magic) = bytes.split_last_chunk()?;
    let (rest, count) = rest.split_last_chunk()?;
    let count = u32::from_le_bytes(*count);
    if *magic != MAGIC || u64::from(count) != segment_count(headers) {
        return None;
    }
    let start = rest.len().checked_sub(2 * usize::try_from(count).ok()?)?;
    let (jpeg, lengths) = rest.split_at(start);
    let (last, others) = lengths.as_chunks::<2>().0.split_last()?;
    restarts.clear();
    let mut at = headers.scan.data;
    for (n, length) in others.iter().enumerate() {
        at += usize::from(u16::from_le_bytes(*length));
        if marker(jpeg, at)? != 0xd0 + (n % 8) as u8 {
            return None;
        }
        restarts.push(at);
        at += 2;
    }
    at += usize::from(u16::from_le_bytes(*last));
    (!matches!(marker(jpeg, at)?, 0 | 0xd0..=0xd7 | 0xff)).then_some(at)
}

/// The second byte of the marker at an offset.
fn marker(jpeg: &[u8], at: usize) -> Option<u8> {
    match jpeg.get(at..)?.first_chunk()? {
        [0xff, marker] => Some(*marker),
        _ => None,
    }
}
