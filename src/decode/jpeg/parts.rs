//! A JPEG taken apart: where each of its segments lies, for whoever writes it anew.
//!
//! ```text
//! SOI | what is kept, frame header, Huffman tables | scan | tables | scan | ... | EOI
//! ```
//!
//! Nothing is copied and nothing is decoded: everything is a range of the file's bytes, a
//! segment's beginning with its marker. One look through the coded data finds their ends, with
//! the same eyes as the decoder's ([`end_of_data`]).

use super::headers::{DHT, DQT, DRI, EOI, Headers, SOS, Scan, Segment, Segments};
use super::scans::end_of_data;
use crate::decode::DecodeError;
use std::ops::Range;

const COM: u8 = 0xfe;

/// Where a part of the file lies.
pub(crate) type Part = Range<usize>;

/// A JPEG's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) frame: Frame,
    /// Metadata, comments and quantization tables before the first scan, in the file's order.
    pub(crate) kept: Vec<Part>,
    /// Whether a quantization table has entries of 16 bits.
    pub(crate) wide_tables: bool,
    pub(crate) scans: Vec<ScanParts>,
    /// The first marker that is none of these, or stands where it changes what follows: metadata
    /// and quantization tables behind the first scan.
    pub(crate) misplaced: Option<u8>,
}

/// What the frame header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) width: u16,
    pub(crate) height: u16,
    pub(crate) progressive: bool,
    /// id, factors (horizontal in the high four bits), quantization table: as in the header.
    pub(crate) components: Vec<[u8; 3]>,
}

/// A scan, and what was said since the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScanParts {
    /// Huffman tables and restart intervals.
    pub(crate) tables: Vec<Part>,
    pub(crate) header: Part,
    /// Which components of the frame, in the scan's order.
    pub(crate) components: Vec<usize>,
    pub(crate) data: Part,
}

impl Frame {
    fn of(bytes: &[u8], headers: &Headers) -> Self {
        let components = headers.components.len();
        let lines = bytes[headers.height_at + 5..].as_chunks::<3>().0;
        let side = |side: u32| u16::try_from(side).expect("of 16 bits in the header");
        Self {
            width: side(headers.size.width),
            height: side(headers.size.height),
            progressive: headers.progressive,
            components: lines[..components].to_vec(),
        }
    }
}

impl Parts {
    /// Finds the parts of a whole file. What lies behind its end marker is not looked at.
    ///
    /// # Errors
    ///
    /// If it is no JPEG, of a kind that is not decoded, damaged in a header, or cut short.
    pub(crate) fn find(bytes: &[u8]) -> Result<Self, DecodeError> {
        let frame = Frame::of(bytes, &Headers::parse(bytes)?);
        let mut parts =
            Self { frame, kept: vec![], wide_tables: false, scans: vec![], misplaced: None };
        let (mut segments, mut tables) = (Segments { bytes, at: 2 }, vec![]);
        let mut restarts = Vec::new();
        loop {
            let segment = segments.next().map_err(cut_short)?;
            let whole = segment.at - 2..segment.body.end;
            match segment.marker {
                SOS => {
                    let scan = parts.scan(bytes, &segment, whole, std::mem::take(&mut tables))?;
                    let end = end_of_data(bytes, scan.data.start, &mut restarts)?;
                    parts.scans.push(ScanParts { data: scan.data.start..end, ..scan });
                    segments.at = end;
                    if bytes.get(end + 1) == Some(&EOI) {
                        return Ok(parts);
                    }
                }
                DHT | DRI => tables.push(whole),
                0xc0..=0xc2 => {}
                marker => parts.keep(marker, &bytes[segment.body], whole),
            }
        }
    }

    /// Notes a segment that is no table of the scans'.
    fn keep(&mut self, marker: u8, payload: &[u8], whole: Part) {
        let known = matches!(marker, DQT | COM | 0xe0..=0xef);
        if !known || !self.scans.is_empty() {
            self.misplaced = self.misplaced.or(Some(marker));
            return;
        }
        self.wide_tables |= marker == DQT && has_wide_table(payload);
        self.kept.push(whole);
    }

    /// A scan whose data's end is not yet known.
    fn scan(
        &self,
        bytes: &[u8],
        segment: &Segment,
        header: Part,
        tables: Vec<Part>,
    ) -> Result<ScanParts, DecodeError> {
        let (at, end) = (segment.at, segment.body.end);
        let scan = Scan::parse(&bytes[segment.body.clone()], at, end)?;
        let unknown = DecodeError::Header { what: "a scan of a component that is not there", at };
        let place =
            |id: &u8| self.frame.components.iter().position(|component| component[0] == *id);
        let components: Option<Vec<usize>> = scan.ids.iter().map(place).collect();
        let components = components.ok_or(unknown)?;
        Ok(ScanParts { tables, header, components, data: end..end })
    }
}

/// Behind the first scan the bytes end in the picture, not in the headers; before it
/// `Headers::parse` has seen them.
fn cut_short(error: DecodeError) -> DecodeError {
    match error {
        DecodeError::HeaderTruncated { len } => DecodeError::Truncated { len },
        error => error,
    }
}

/// Whether a DQT segment has a table of 16-bit entries.
fn has_wide_table(mut payload: &[u8]) -> bool {
    while let Some((&first, rest)) = payload.split_first() {
        if first >> 4 != 0 {
            return true;
        }
        payload = rest.get(64..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRESSIVE: &[u8] = include_bytes!("../../../tests/golden/jpeg/420_progressive.jpg");
    const SEPARATE: &[u8] = include_bytes!("../../../tests/golden/jpeg/420_separate.jpg");

    /// Parts in order are the file, but for its start, its frame header and its end.
    #[test]
    fn the_parts_are_the_whole_file() {
        for file in [PROGRESSIVE, SEPARATE] {
            let parts = Parts::find(file).unwrap();
            let of_scans = parts.scans.iter().flat_map(|scan| {
                [&scan.header, &scan.data].into_iter().chain(&scan.tables).cloned()
            });
            let mut all: Vec<Part> = parts.kept.iter().cloned().chain(of_scans).collect();
            all.sort_by_key(|part| part.start);
            let frame = 2 + 8 + 3 * parts.frame.components.len();
            assert_eq!(all.iter().map(|part| part.len()).sum::<usize>(), file.len() - 4 - frame);
            let gaps = all.windows(2).filter(|pair| pair[0].end != pair[1].start).count();
            assert_eq!(gaps, 1, "the frame header alone");
            assert_eq!((all[0].start, all[all.len() - 1].end), (2, file.len() - 2));
        }
    }

    #[test]
    fn a_scans_components_are_told_by_their_place() {
        let separate = Parts::find(SEPARATE).unwrap();
        let components: Vec<_> = separate.scans.iter().map(|scan| &scan.components[..]).collect();
        assert_eq!(components, [[0], [1], [2]]);
        assert_eq!(separate.frame.components[0][1], 0x22);
        assert!(Parts::find(PROGRESSIVE).unwrap().scans.len() > 3);
    }

    #[test]
    fn what_stands_behind_the_first_scan_is_told() {
        let second = Parts::find(SEPARATE).unwrap().scans[1].header.start;
        for marker in [COM, 0xe1, DQT, 0xdc] {
            let (head, tail) = SEPARATE.split_at(second);
            let file = [head, &[0xff, marker, 0, 3, 7], tail].concat();
            assert_eq!(Parts::find(&file).unwrap().misplaced, Some(marker));
        }
        assert_eq!(Parts::find(SEPARATE).unwrap().misplaced, None);
    }

    #[test]
    fn a_file_without_its_end_is_refused() {
        for len in [SEPARATE.len() - 1, SEPARATE.len() - 2] {
            assert_eq!(Parts::find(&SEPARATE[..len]), Err(DecodeError::Truncated { len }));
        }
    }
}
