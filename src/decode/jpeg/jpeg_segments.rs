//! Finds the byte ranges of a JPEG's segments, for code that writes the file again.
//!
//! ```text
//! SOI | preserved segments, frame header, Huffman tables | scan | tables | scan | ... | EOI
//! ```
//!
//! Nothing is copied and nothing is decoded: every segment is a range of the file's bytes that begins
//! with the segment's marker. One pass over the coded data finds where they end, by the decoder's own
//! rule ([`end_of_data`]).

use crate::error::{Error, fail};
use fuseloop_jpeg::{
    DHT, DQT, DRI, EOI, Headers, SOS, Scan, Segment, Segments, cut_short, end_of_data,
};
use std::ops::Range;

const COM: u8 = 0xfe;

/// A range of the file's bytes.
pub(crate) type ByteRange = Range<usize>;

/// The segments of a JPEG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JpegSegments {
    pub(crate) frame: FrameHeader,
    /// Metadata, comments and quantization tables before the first scan, in the file's order.
    pub(crate) preserved: Vec<ByteRange>,
    /// True if a quantization table has entries of 16 bits.
    pub(crate) wide_tables: bool,
    pub(crate) scans: Vec<ScanSegments>,
    /// The first marker of any other segment, or of metadata and quantization tables after the first
    /// scan, where they change what follows.
    pub(crate) misplaced: Option<u8>,
}

/// The fields of the frame header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) width: u16,
    pub(crate) height: u16,
    pub(crate) progressive: bool,
    /// The header's own bytes: id, factors (the horizontal one in the high four bits), quantization table.
    pub(crate) components: Vec<[u8; 3]>,
}

/// A scan, and the tables defined since the previous one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScanSegments {
    /// Segments of Huffman tables and restart intervals.
    pub(crate) tables: Vec<ByteRange>,
    pub(crate) header: ByteRange,
    /// Indices of the scan's components in the frame, in the scan's order.
    pub(crate) components: Vec<usize>,
    pub(crate) data: ByteRange,
}

impl FrameHeader {
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

impl JpegSegments {
    /// Finds the segments of a whole file. Bytes after its end marker are ignored.
    ///
    /// # Errors
    ///
    /// If the file is no JPEG, of a kind that is not supported, damaged in a header, or cut short.
    pub(crate) fn find(bytes: &[u8]) -> Result<Self, Error> {
        let frame = FrameHeader::of(bytes, &Headers::parse(bytes)?);
        let mut parts =
            Self { frame, preserved: vec![], wide_tables: false, scans: vec![], misplaced: None };
        let (mut segments, mut tables) = (Segments { bytes, at: 2 }, vec![]);
        let mut restarts = Vec::new();
        loop {
            let segment = segments.next_segment().map_err(cut_short)?;
            let whole = segment.at - 2..segment.body.end;
            match segment.marker {
                SOS => {
                    let scan = parts.scan(bytes, &segment, whole, std::mem::take(&mut tables))?;
                    let end = end_of_data(bytes, scan.data.start, &mut restarts)?;
                    parts.scans.push(ScanSegments { data: scan.data.start..end, ..scan });
                    segments.at = end;
                    if bytes.get(end + 1) == Some(&EOI) {
                        return Ok(parts);
                    }
                }
                DHT | DRI => tables.push(whole),
                0xc0..=0xc2 => {}
                marker => parts.add_segment(marker, &bytes[segment.body], whole),
            }
        }
    }

    /// Records a segment that is not a table of a scan.
    fn add_segment(&mut self, marker: u8, payload: &[u8], whole: ByteRange) {
        let known = matches!(marker, DQT | COM | 0xe0..=0xef);
        if !known || !self.scans.is_empty() {
            self.misplaced = self.misplaced.or(Some(marker));
            return;
        }
        self.wide_tables |= marker == DQT && has_wide_table(payload);
        self.preserved.push(whole);
    }

    /// Parses a scan's header. The end of the scan's data is not known yet.
    fn scan(
        &self,
        bytes: &[u8],
        segment: &Segment,
        header: ByteRange,
        tables: Vec<ByteRange>,
    ) -> Result<ScanSegments, Error> {
        let (at, end) = (segment.at, segment.body.end);
        let scan = Scan::parse(&bytes[segment.body.clone()], at, end)?;
        let unknown = || {
            fail!(Damaged, "damaged JPEG header: a scan of an undeclared component at byte {at}")
        };
        let index_of =
            |id: &u8| self.frame.components.iter().position(|component| component[0] == *id);
        let components: Option<Vec<usize>> = scan.ids.iter().map(index_of).collect();
        let components = components.ok_or_else(unknown)?;
        Ok(ScanSegments { tables, header, components, data: end..end })
    }
}

/// Returns whether a DQT segment has a table of 16-bit entries.
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

    /// All segments in order are the file, except for its start, its frame header and its end.
    #[test]
    fn the_parts_are_the_whole_file() {
        for file in [PROGRESSIVE, SEPARATE] {
            let parts = JpegSegments::find(file).unwrap();
            let of_scans = parts.scans.iter().flat_map(|scan| {
                [&scan.header, &scan.data].into_iter().chain(&scan.tables).cloned()
            });
            let mut all: Vec<ByteRange> = parts.preserved.iter().cloned().chain(of_scans).collect();
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
        let separate = JpegSegments::find(SEPARATE).unwrap();
        let components: Vec<_> = separate.scans.iter().map(|scan| &scan.components[..]).collect();
        assert_eq!(components, [[0], [1], [2]]);
        assert_eq!(separate.frame.components[0][1], 0x22);
        assert!(JpegSegments::find(PROGRESSIVE).unwrap().scans.len() > 3);
    }

    #[test]
    fn what_stands_behind_the_first_scan_is_told() {
        let second = JpegSegments::find(SEPARATE).unwrap().scans[1].header.start;
        for marker in [COM, 0xe1, DQT, 0xdc] {
            let (head, tail) = SEPARATE.split_at(second);
            let file = [head, &[0xff, marker, 0, 3, 7], tail].concat();
            assert_eq!(JpegSegments::find(&file).unwrap().misplaced, Some(marker));
        }
        assert_eq!(JpegSegments::find(SEPARATE).unwrap().misplaced, None);
    }

    #[test]
    fn a_file_without_its_end_is_refused() {
        for len in [SEPARATE.len() - 1, SEPARATE.len() - 2] {
            let error = JpegSegments::find(&SEPARATE[..len]).unwrap_err();
            assert!(
                error.damage_found() == Some(crate::error::Damage::Cut)
                    && error.kind() == crate::error::ErrorKind::Damaged
            );
            let expected = format!("the JPEG is cut short: {len} bytes and no end marker");
            assert_eq!(error.to_string(), expected);
        }
    }
}
