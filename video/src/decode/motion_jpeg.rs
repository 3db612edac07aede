//! JPEG files from the packets of Motion JPEG.
//!
//! A packet is a baseline JPEG, often without Huffman tables: those of the standard, ITU-T T.81, annex K.3, are meant then.
//! AVI files mark a packet by an `AVI1` segment, whose first byte says whether it has both fields of an interlaced picture.

use crate::error::unsupported;
use crate::{VideoError, VideoErrorKind};
use std::borrow::Cow;

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DHT: u8 = 0xc4;
const SOF0: u8 = 0xc0;
const APP0: u8 = 0xe0;

/// The Huffman tables of ITU-T T.81, annex K.3, as a `DHT` segment: luma and chroma, differences and coefficients.
const ANNEX_K: [u8; 420] = annex_k();

/// Class and number of a table, the counts of its codes by length, and its values.
type Table = (u8, [u8; 16], &'static [u8]);

const DC_VALUES: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
#[rustfmt::skip]
const LUMA_VALUES: [u8; 162] = [
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71,
    0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72,
    0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37,
    0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
    0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83,
    0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3,
    0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
    0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
    0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
];
#[rustfmt::skip]
const CHROMA_VALUES: [u8; 162] = [
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22,
    0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1,
    0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36,
    0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
    0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a,
    0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a,
    0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba,
    0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
    0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
];

const TABLES: [Table; 4] = [
    (0x00, [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &DC_VALUES),
    (0x10, [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125], &LUMA_VALUES),
    (0x01, [0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], &DC_VALUES),
    (0x11, [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 119], &CHROMA_VALUES),
];

const fn annex_k() -> [u8; 420] {
    let mut segment = [0; 420];
    // The length does not count the marker.
    (segment[0], segment[1], segment[2], segment[3]) =
        (0xff, DHT, (418 >> 8) as u8, (418 & 255) as u8);
    let (mut at, mut table) = (4, 0);
    while table < TABLES.len() {
        let (class, counts, values) = TABLES[table];
        segment[at] = class;
        at += 1;
        let mut i = 0;
        while i < counts.len() {
            segment[at] = counts[i];
            (at, i) = (at + 1, i + 1);
        }
        i = 0;
        while i < values.len() {
            segment[at] = values[i];
            (at, i) = (at + 1, i + 1);
        }
        table += 1;
    }
    segment
}

/// Returns a complete JPEG file for a packet of Motion JPEG: with Huffman tables, with its end, and without what precedes or
/// follows it.
///
/// ```
/// use fuseloop_video::jpeg_of_packet;
///
/// let error = jpeg_of_packet(b"no JPEG").unwrap_err();
/// assert!(error.to_string().contains("JPEG"), "{error}");
/// ```
///
/// # Errors
///
/// Fails if the packet has no JPEG, one that is cut before its first scan, or the two fields of an interlaced picture.
pub fn jpeg_of_packet(packet: &[u8]) -> Result<Cow<'_, [u8]>, VideoError> {
    let damaged = |what: &str| VideoError::new(VideoErrorKind::Damaged, what);
    let start = packet.windows(3).position(|bytes| bytes == [0xff, SOI, 0xff]);
    let jpeg = &packet[start.ok_or_else(|| damaged("the packet has no JPEG"))?..];
    let headers = Headers::read(jpeg)
        .ok_or_else(|| damaged("the JPEG of the packet is cut or damaged in its headers"))?;
    let end = headers.end(jpeg);
    let has_second = jpeg[end..].windows(3).any(|bytes| bytes == [0xff, SOI, 0xff]);
    if has_second || headers.is_field {
        return Err(unsupported!(
            "a Motion JPEG packet with two fields (interlaced): convert the file, as by ffmpeg -i IN -vf yadif -c:v mjpeg OUT"
        ));
    }
    let (jpeg, is_cut) = (&jpeg[..end], !jpeg[..end].ends_with(&[0xff, EOI]));
    if headers.has_tables && !is_cut {
        return Ok(Cow::Borrowed(jpeg));
    }
    let (before, after) = jpeg.split_at(headers.scan);
    let tables: &[u8] = if headers.has_tables { &[] } else { &ANNEX_K };
    let last: &[u8] = if is_cut { &[0xff, EOI] } else { &[] };
    Ok(Cow::Owned([before, tables, after, last].concat()))
}

/// What the segments before the first scan of a JPEG say.
struct Headers {
    has_tables: bool,
    /// True if the JPEG is one of two fields.
    is_field: bool,
    /// The offset of the marker of the first scan.
    scan: usize,
}

impl Headers {
    fn read(jpeg: &[u8]) -> Option<Self> {
        let mut headers = Self { has_tables: false, is_field: false, scan: 2 };
        let mut has_frame = false;
        loop {
            // Any number of fill bytes may precede a marker.
            let fill = jpeg.get(headers.scan..)?.iter().position(|&byte| byte != 0xff)?;
            let marker = (fill > 0).then(|| jpeg[headers.scan + fill])?;
            headers.scan += fill - 1;
            match marker {
                SOS => return has_frame.then_some(headers),
                SOI | 0x01 | 0xd0..=0xd7 => headers.scan += 2,
                EOI => return None,
                _ => {
                    let length = jpeg.get(headers.scan + 2..)?.first_chunk::<2>()?;
                    let length = usize::from(u16::from_be_bytes(*length));
                    let payload = jpeg.get(headers.scan + 4..headers.scan + 2 + length.max(2))?;
                    match marker {
                        DHT => headers.has_tables = true,
                        SOF0..=0xcf if !matches!(marker, 0xc8 | 0xcc) => has_frame = true,
                        // 0 for a whole picture, 1 and 2 for the fields.
                        APP0 if payload.starts_with(b"AVI1") => {
                            headers.is_field =
                                payload.get(4).is_some_and(|&field| matches!(field, 1 | 2));
                        }
                        _ => {}
                    }
                    headers.scan += 2 + length.max(2);
                }
            }
        }
    }

    /// Returns the offset after the end marker, or that of the last byte that is not filling if there is no end.
    fn end(&self, jpeg: &[u8]) -> usize {
        let scans = &jpeg[self.scan..];
        match scans.windows(2).position(|bytes| bytes == [0xff, EOI]) {
            Some(end) => self.scan + end + 2,
            None => jpeg.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the head of a JPEG with the given segments before its scan, and the whole of it.
    fn jpeg(segments: &[(u8, &[u8])]) -> Vec<u8> {
        let mut jpeg = vec![0xff, SOI];
        for (marker, payload) in segments {
            jpeg.extend([0xff, *marker, 0, 2 + payload.len() as u8]);
            jpeg.extend(*payload);
        }
        jpeg.extend([0xff, SOS, 0, 3, 1, 0x55, 0xff, 0, 0x77, 0xff, EOI]);
        jpeg
    }

    #[test]
    fn a_complete_jpeg_stays_without_the_bytes_around_it() {
        let whole = jpeg(&[(DHT, &[0; 17]), (SOF0, &[0; 15])]);
        let packet = [&[7, 7][..], &whole, &[0, 0, 0]].concat();
        assert_eq!(jpeg_of_packet(&packet).unwrap(), whole);
        assert!(matches!(jpeg_of_packet(&whole).unwrap(), Cow::Borrowed(_)));
    }

    #[test]
    fn missing_tables_and_a_missing_end_are_added() {
        let packet = jpeg(&[(APP0, b"AVI1\0\0"), (SOF0, &[0; 15])]);
        let scan = packet.len() - 11;
        let expected = [&packet[..scan], &ANNEX_K, &packet[scan..]].concat();
        assert_eq!(jpeg_of_packet(&packet).unwrap(), expected);
        assert_eq!(jpeg_of_packet(&packet[..packet.len() - 2]).unwrap(), expected);
    }

    #[test]
    fn two_fields_are_refused() {
        let field = jpeg(&[(APP0, b"AVI1\x01\0"), (SOF0, &[0; 15])]);
        let frame = jpeg(&[(SOF0, &[0; 15])]);
        for packet in [field.clone(), [frame.clone(), frame].concat()] {
            let error = jpeg_of_packet(&packet).unwrap_err();
            assert_eq!(error.kind(), VideoErrorKind::Unsupported);
        }
    }

    #[test]
    fn cut_headers_are_refused() {
        let whole = jpeg(&[(DHT, &[0; 17]), (SOF0, &[0; 15])]);
        for end in 0..whole.len() - 10 {
            assert!(jpeg_of_packet(&whole[..end]).is_err(), "{end}");
        }
        assert!(jpeg_of_packet(&jpeg(&[])).is_err());
    }
}
