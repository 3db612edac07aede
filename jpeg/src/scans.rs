//! A JPEG's entropy-coded data: where the data end, and whether they can be a whole image.
//!
//! In coded data `ff` is followed by `00` (a stuffed byte) or `d0..d7` (a restart marker); any other
//! `ffXX` ends them. So a truncated file is recognized by the missing marker after its pixels, also where the window
//! lies before the place at which the file was cut.

use crate::error::{JpegError, fail};
use crate::headers::{Component, DRI, Headers, Scan, cut_short, short};
use crate::index;
use crate::segments::{EOI, SOS, Segment, Segments, be16};
use fuseloop_ops::Size;
use std::ops::Range;

/// The most scans of a JPEG. A scan of a few bytes may visit all blocks, so a file of more scans is refused before one is
/// decoded. Encoders write about ten.
pub const MAX_SCANS: u32 = 100;

/// The largest number of low bits of coefficients that a scan leaves out (T.81, table B.3).
const MAX_LOW_BIT: u8 = 13;

/// The data that follow the headers.
#[derive(Debug)]
pub enum Scans<'a> {
    /// All pixels in one sequential scan.
    Single(SingleScan<'a>),
    /// Several sequential scans.
    Several,
    /// The scans of a progressive image.
    Progressive(Vec<ProgressiveScan>),
}

/// A scan of a progressive image, and where its data lie.
#[derive(Debug)]
pub struct ProgressiveScan {
    pub header: Scan,
    /// The indices of its components.
    pub components: Vec<usize>,
    /// Offset of the header's length.
    pub at: usize,
    /// Offset of the marker after the scan.
    pub end: usize,
    /// Offsets of the restart markers.
    pub restarts: Vec<usize>,
    /// MCUs between restart markers; 0 if there are none.
    pub interval: u16,
}

impl ProgressiveScan {
    /// Returns the byte range of segment `n`. The number of segments follows from MCUs and restart interval.
    pub fn segment(&self, n: usize) -> Range<usize> {
        let start = match n.checked_sub(1) {
            None => self.header.data,
            Some(before) => self.restarts.get(before).map_or(self.end, |marker| marker + 2),
        };
        start..self.restarts.get(n).copied().unwrap_or(self.end).max(start)
    }
}

/// How the offsets of restart markers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markers {
    /// From the file's index, if it has one. A segment may then contain further markers, which its
    /// reader must detect.
    FromIndex,
    /// By a scan of all coded data.
    FromScan,
}

/// The byte ranges of the segments of an image's only scan.
#[derive(Debug)]
pub struct SingleScan<'a> {
    /// Offset of the first segment.
    start: usize,
    /// Offsets of the restart markers.
    restarts: &'a [usize],
    /// Offset of the marker after the scan.
    end: usize,
    /// How the offsets were found.
    markers: Markers,
}

impl<'a> SingleScan<'a> {
    /// Wraps the offsets of an image's restart markers and of the marker after the scan, which is after its beginning.
    ///
    /// # Errors
    ///
    /// If the data are too few for the size, or the markers are not as many as the image has segments.
    pub fn new(
        headers: &Headers,
        restarts: &'a [usize],
        end: usize,
        markers: Markers,
    ) -> Result<Self, JpegError> {
        let grid = Grid::of(headers);
        let mcus = ScanMcus {
            count: grid.mcus(),
            blocks: grid.blocks,
            interval: headers.restart_interval,
        };
        let data = headers.scan.data..end;
        Self::of_mcus(headers.size, mcus, restarts, data, markers)
    }

    /// Does what [`new`](Self::new) does for any scan of a sequential image of `size`.
    pub fn of_mcus(
        size: Size,
        mcus: ScanMcus,
        restarts: &'a [usize],
        Range { start, end }: Range<usize>,
        markers: Markers,
    ) -> Result<Self, JpegError> {
        // A block is a DC code and an AC code, each of one bit or more.
        check_length(size, end - start, mcus.count * mcus.blocks * 2)?;
        mcus.check_restarts(restarts, end)?;
        Ok(Self { start, restarts, end, markers })
    }

    /// Returns the byte range of segment `n`. The number of segments follows from MCUs and restart
    /// interval.
    pub fn segment(&self, n: usize) -> Range<usize> {
        let start = n.checked_sub(1).map_or(self.start, |before| self.restarts[before] + 2);
        start..self.restarts.get(n).copied().unwrap_or(self.end)
    }

    /// Returns true if no restart marker follows segment `n`.
    pub fn is_last(&self, n: usize) -> bool {
        n >= self.restarts.len()
    }
}

/// The number of MCUs in a scan, the blocks of an MCU, and the MCUs of a segment: 0 if there is one segment.
#[derive(Clone, Copy, Debug)]
pub struct ScanMcus {
    pub count: u64,
    pub blocks: u64,
    pub interval: u16,
}

impl ScanMcus {
    /// Returns the number of segments.
    fn segments(self) -> u64 {
        match self.interval {
            0 => 1,
            interval => self.count.div_ceil(interval.into()),
        }
    }

    /// Refuses the restart markers of a scan that ends at `end` if they are not as many as it has segments.
    fn check_restarts(self, restarts: &[usize], end: usize) -> Result<(), JpegError> {
        let expected = self.segments().saturating_sub(1);
        // Some encoders end the last segment with a marker too.
        let is_ended = restarts.last().is_some_and(|last| last + 2 == end);
        let found = restarts.len() as u64;
        if found == expected || is_ended && found == expected + 1 {
            return Ok(());
        }
        Err(fail!(
            Damaged,
            "the JPEG has {found} restart markers, but its restart interval requires {expected}"
        ))
    }
}

impl<'a> Scans<'a> {
    /// Returns whether the offsets of the restart markers come from an index alone.
    pub fn come_from_index(&self) -> bool {
        matches!(self, Self::Single(scan) if scan.markers == Markers::FromIndex)
    }

    /// Scans the coded data of `bytes`, or uses their index. The markers' offsets are written to
    /// `restarts`.
    ///
    /// # Errors
    ///
    /// If the data end early, are too few for the size, or are of a kind that would be decoded wrong.
    pub fn survey(
        bytes: &[u8],
        headers: &Headers,
        markers: Markers,
        restarts: &'a mut Vec<usize>,
    ) -> Result<Self, JpegError> {
        if headers.progressive {
            return survey_progressive(bytes, headers, restarts).map(Self::Progressive);
        }
        if headers.scan.ids.len() < headers.components.len() {
            return Ok(Self::Several);
        }
        let start = headers.scan.data;
        let end_in_index = match markers {
            Markers::FromIndex => index::read(bytes, headers, restarts),
            Markers::FromScan => None,
        };
        let (end, markers) = match end_in_index {
            Some(end) => (end, Markers::FromIndex),
            None => (end_of_data(bytes, start, restarts)?, Markers::FromScan),
        };
        Ok(Self::Single(SingleScan::new(headers, restarts, end, markers)?))
    }
}

/// Returns the number of segments of an image in one scan.
pub fn segment_count(headers: &Headers) -> u64 {
    match headers.restart_interval {
        0 => 1,
        interval => Grid::of(headers).mcus().div_ceil(interval.into()),
    }
}

/// The grid of MCUs of a sequential image.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Rows of pixels of an MCU.
    pub mcu_height: u32,
    /// Columns of pixels of an MCU.
    pub mcu_width: u32,
    /// Columns of MCUs.
    pub columns: u64,
    /// Rows of MCUs.
    pub rows: u64,
    /// Blocks of an MCU.
    pub blocks: u64,
}

impl Grid {
    pub fn of(headers: &Headers) -> Self {
        let ((h, v), blocks) = match &*headers.components {
            [_] => ((1, 1), 1), // alone, a component's factors mean nothing (A.2.2)
            several => {
                let blocks = several.iter().map(|c| u64::from(c.h) * u64::from(c.v)).sum();
                (max_factors(headers), blocks)
            }
        };
        let (mcu_width, mcu_height) = (8 * u32::from(h), 8 * u32::from(v));
        let columns = headers.size.width.div_ceil(mcu_width).into();
        let rows = headers.size.height.div_ceil(mcu_height).into();
        Self { mcu_height, mcu_width, columns, rows, blocks }
    }

    pub fn mcus(self) -> u64 {
        self.columns * self.rows
    }
}

/// Returns the MCUs of `mcu` pixels each that cover `len` pixels from `start` on, and `margin` pixels on both sides, in
/// an image of `side` pixels. The margin is 1 where chroma is upsampled, which reads its neighbour.
pub(crate) fn mcus(start: u32, len: u32, side: u32, mcu: u32, margin: u32) -> Range<u64> {
    let end = (start + len + margin).min(side).div_ceil(mcu);
    u64::from(start.saturating_sub(margin) / mcu)..end.into()
}

/// Returns the largest sampling factors: horizontal, vertical.
pub fn max_factors(headers: &Headers) -> (u8, u8) {
    let components = headers.components.iter();
    components.fold((1, 1), |(h, v), component| (h.max(component.h), v.max(component.v)))
}

pub(crate) fn check_length(size: Size, bytes: usize, least_bits: u64) -> Result<(), JpegError> {
    let (found, least) = (bytes as u64, least_bits.div_ceil(8));
    if found < least {
        return Err(JpegError::TooShort { size, found, least });
    }
    Ok(())
}

/// Finds all scans of a progressive image, and the end of the image.
///
/// # Errors
///
/// If the data end early or are too few for the size, if a component has no scan, or if a scan can't be: libjpeg refuses
/// the same ones (`start_pass_phuff_decoder` in jdphuff.c). Scans in an odd order are none of those, and libjpeg no more
/// than warns of them.
fn survey_progressive(
    bytes: &[u8],
    headers: &Headers,
    restarts: &mut Vec<usize>,
) -> Result<Vec<ProgressiveScan>, JpegError> {
    // The DC coefficient of a block takes a bit or more.
    check_length(headers.size, bytes.len() - headers.scan.data, blocks(headers))?;
    let (mut seen, mut scans) = ([false; 4], vec![]);
    let mut interval = headers.restart_interval;
    // The length comes before the header's bytes, which end where the data begin.
    let at = headers.scan.data - (6 + 2 * headers.scan.ids.len());
    let (mut scan, mut at) = (headers.scan.clone(), at);
    for _ in 0..MAX_SCANS {
        check_progressive(&scan, at)?;
        let components = scan_components(headers, &scan, at)?;
        components.iter().for_each(|&component| seen[component] |= scan.coefficients[0] == 0);
        let end = end_of_data(bytes, scan.data, restarts)?;
        let mcus = ScanMcus { count: scan_mcus(headers, &components), blocks: 1, interval };
        mcus.check_restarts(restarts, end)?;
        // Without restart markers, no memory is allocated.
        let restarts = restarts.clone();
        scans.push(ProgressiveScan { header: scan, components, at, end, restarts, interval });
        let Some(next) = next_scan(bytes, end, &mut interval)? else {
            check_all_seen(&seen[..headers.components.len()])?;
            return Ok(scans);
        };
        (scan, at) = next;
    }
    Err(fail!(Damaged, "a JPEG of over {MAX_SCANS} scans"))
}

/// Refuses a scan that no progressive image can have. One has DC coefficients of any components, or AC coefficients of one,
/// of which one bit more than before is sent if any was sent before (T.81, G.1.1.1).
fn check_progressive(scan: &Scan, at: usize) -> Result<(), JpegError> {
    let ([first, last], components) = (scan.coefficients, scan.ids.len());
    // The lowest bits that were sent before, if any were, and are sent now: Ah and Al of T.81.
    let (before, low) = (scan.approximation >> 4, scan.approximation & 15);
    let (found, expected) = if first > last || last > 63 || (first == 0 && last > 0) {
        (format!("coefficients {first} to {last}"), "0 to 0, or some of 1 to 63".to_owned())
    } else if first > 0 && components > 1 {
        (format!("AC coefficients of {components} components"), "of 1".to_owned())
    } else if low > MAX_LOW_BIT {
        (format!("the bits from {low} on"), format!("from {MAX_LOW_BIT} on or less"))
    } else if before > 0 && before != low + 1 {
        (format!("bit {low} after bit {before}"), format!("bit {}", before - 1))
    } else {
        return Ok(());
    };
    Err(fail!(
        Damaged,
        "damaged JPEG header: a progressive scan of {found} at byte {at}, expected {expected}"
    ))
}

/// Returns the indices of a scan's components: of several with the same id, the first that the scan has not named yet.
pub(crate) fn scan_components(
    headers: &Headers,
    scan: &Scan,
    at: usize,
) -> Result<Vec<usize>, JpegError> {
    let mut found = vec![];
    for &id in scan.ids.iter() {
        let named = |(index, component): (usize, &Component)| {
            (component.id == id && !found.contains(&index)).then_some(index)
        };
        let index = headers.components.iter().enumerate().find_map(named);
        let unknown = || {
            fail!(Damaged, "damaged JPEG header: a scan of an undeclared component at byte {at}")
        };
        found.push(index.ok_or_else(unknown)?);
    }
    Ok(found)
}

/// Returns the error of coded data that do not decode.
pub(crate) fn not_blocks(coded: &Range<usize>) -> JpegError {
    fail!(
        Damaged,
        "damaged JPEG: the coded data of bytes {}..{} are no blocks, or end early",
        coded.start,
        coded.end
    )
}

/// Refuses an image of which a component has no scan. `seen` says which components have one.
pub(crate) fn check_all_seen(seen: &[bool]) -> Result<(), JpegError> {
    let missing = seen.iter().position(|&seen| !seen);
    missing
        .map_or(Ok(()), |component| Err(fail!(Damaged, "JPEG component {component} has no scan")))
}

/// Returns the bytes of the coefficients of all blocks that hold pixels.
pub fn coefficient_bytes(headers: &Headers) -> usize {
    usize::try_from(blocks(headers).saturating_mul(2 * 64)).unwrap_or(usize::MAX)
}

/// Returns the number of blocks, of all components, that hold pixels.
fn blocks(headers: &Headers) -> u64 {
    headers.components.iter().map(|component| blocks_of(headers, component)).sum()
}

/// Returns the number of blocks of a component that hold pixels.
fn blocks_of(headers: &Headers, component: &Component) -> u64 {
    let (h_max, v_max) = max_factors(headers);
    let across = |side: u32, factor: u8, most: u8| {
        u64::from((side * u32::from(factor)).div_ceil(u32::from(most)).div_ceil(8))
    };
    let columns = across(headers.size.width, component.h, h_max);
    columns * across(headers.size.height, component.v, v_max)
}

/// Returns the number of MCUs of a scan of these components. A component alone has its own blocks for MCUs.
fn scan_mcus(headers: &Headers, components: &[usize]) -> u64 {
    match *components {
        [alone] => blocks_of(headers, &headers.components[alone]),
        _ => Grid::of(headers).mcus(),
    }
}

/// Returns the first scan whose header is at or after `at`; `None` if the image ends before. A restart interval before it
/// replaces `interval`.
fn next_scan(
    bytes: &[u8],
    at: usize,
    interval: &mut u16,
) -> Result<Option<(Scan, usize)>, JpegError> {
    let mut segments = Segments { bytes, at };
    loop {
        let rest = &bytes[segments.at..];
        let fill = rest.iter().take_while(|&&byte| byte == 0xff).count();
        if fill > 0 && rest.get(fill) == Some(&EOI) {
            return Ok(None);
        }
        let Segment { marker, at, body } = segments.next_segment().map_err(cut_short)?;
        match marker {
            SOS => {
                let scan = Scan::parse(&bytes[body.clone()], at, body.end)?;
                return Ok(Some((scan, at)));
            }
            DRI => *interval = be16(&bytes[body], 0).ok_or_else(|| short(at))?,
            _ => {}
        }
    }
}

/// Returns the offset of the marker after the coded data that begin at `start`, and writes the offsets
/// of their restart markers to `restarts`.
///
/// # Errors
///
/// If no marker follows, or if the restart markers are not numbered from 0 to 7, again and again: segments between them are
/// lost, or stand in another place. A marker behind the last segment, which no decoder reads, may have any number.
pub fn end_of_data(
    bytes: &[u8],
    start: usize,
    restarts: &mut Vec<usize>,
) -> Result<usize, JpegError> {
    restarts.clear();
    let (mut at, mut other) = (start, None);
    while let Some(found) = find_ff(bytes, at) {
        at = found + 1;
        match bytes.get(at) {
            Some(0) => at += 1,
            Some(marker @ 0xd0..=0xd7) => {
                if usize::from(marker - 0xd0) != restarts.len() % 8 {
                    other = other.or(Some((restarts.len(), marker - 0xd0)));
                }
                restarts.push(found);
                at += 1;
            }
            Some(0xff) => {} // fill: the marker is the last of them
            Some(_) => {
                let Some((index, number)) = other else { return Ok(found) };
                if index + 1 == restarts.len() && restarts[index] + 2 == found {
                    return Ok(found);
                }
                let (nth, at, expected) = (index + 1, restarts[index], index % 8);
                return Err(fail!(
                    Damaged,
                    "damaged JPEG: restart marker {nth} at byte {at} is RST{number}, expected RST{expected}"
                ));
            }
            None => break,
        }
    }
    Err(fail!(Cut, "the JPEG is cut short: {} bytes and no end marker", bytes.len()))
}

/// Returns the index of the next `ff`.
pub(crate) fn find_ff(bytes: &[u8], from: usize) -> Option<usize> {
    let is_ff = |&byte: &u8| byte == 0xff;
    let (chunks, tail) = bytes.get(from..)?.as_chunks::<64>();
    // Without an early exit the compiler vectorizes the test; one chunk in five has a match.
    let any = |chunk: &[u8; 64]| chunk.iter().fold(false, |any, byte| any | is_ff(byte));
    match chunks.iter().position(any) {
        Some(n) => chunks[n].iter().position(is_ff).map(|at| from + 64 * n + at),
        None => tail.iter().position(is_ff).map(|at| from + 64 * chunks.len() + at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_ff_is_found_wherever_it_lies() {
        for at in 0..200 {
            let mut bytes = [0; 200];
            bytes[at] = 0xff;
            bytes[199] = 0xff;
            for from in 0..=at {
                assert_eq!(find_ff(&bytes, from), Some(at), "from {from}");
            }
            assert_eq!(find_ff(&bytes[..at], 0), None);
        }
        assert_eq!((find_ff(&[], 0), find_ff(&[0xff], 1), find_ff(&[0xff], 2)), (None, None, None));
    }

    #[test]
    fn data_end_at_the_first_marker_that_is_no_restart() {
        let bytes =
            [1, 0xff, 0, 2, 0xff, 0xd0, 0xff, 0, 3, 0xff, 0xff, 0xd1, 4, 0xff, 0xd9, 0xff, 0xd1];
        let mut restarts = vec![7];
        assert_eq!(end_of_data(&bytes, 0, &mut restarts), Ok(13));
        assert_eq!(restarts, [4, 10]);
        let cut = end_of_data(&bytes[..14], 0, &mut restarts);
        assert_eq!(cut, Err(fail!(Cut, "the JPEG is cut short: 14 bytes and no end marker")));
    }

    #[test]
    fn a_restart_marker_of_another_number_is_damage() {
        let bytes = |numbers: &[u8]| -> Vec<u8> {
            let markers = numbers.iter().flat_map(|number| [1, 0xff, 0xd0 + number]);
            markers.chain([2, 0xff, EOI]).collect()
        };
        let mut restarts = vec![];
        let all = [0, 1, 2, 3, 4, 5, 6, 7, 0];
        assert_eq!(end_of_data(&bytes(&all), 0, &mut restarts), Ok(28));
        let ended = [1, 0xff, 0xd5, 0xff, EOI];
        assert_eq!(end_of_data(&ended, 0, &mut restarts), Ok(3), "it ends the last segment");
        for (numbers, words) in [
            (&[1][..], "restart marker 1 at byte 1 is RST1, expected RST0"),
            (&[0, 3], "restart marker 2 at byte 4 is RST3, expected RST1"),
            (&[0, 1, 1], "restart marker 3 at byte 7 is RST1, expected RST2"),
        ] {
            let error = end_of_data(&bytes(numbers), 0, &mut restarts).unwrap_err();
            assert_eq!(error.to_string(), format!("damaged JPEG: {words}"));
        }
    }
}
