//! A JPEG's headers, up to its first scan (ITU-T T.81, annex B).
//!
//! ```text
//! ffd8                                    start of image
//! ffXX  length:2  ...                     segments, any number, in any order:
//! ffc0..cf        bits:1 height:2 width:2 n:1 (id:1 h:4 v:4 table:1) x n      frame header
//! ffdd            interval:2              restart interval, in MCUs
//! ffe0            "JFIF\0" ...            colours, see `colours`
//! ffe1            "Exif\0\0" TIFF         EXIF
//! ffee            "Adobe" ... transform:1 colours
//! ffda            n:1 (id:1 tables:1) x n first:1 last:1 approximation:1      scan header
//! ...                                     entropy-coded pixels
//! ```
//!
//! Integers are big-endian; a length counts its own two bytes. The headers are read before the decoder
//! sees the file, so that the limits are checked before anything is allocated, and the height's offset
//! is known.

use crate::colours::{ColourSegments, Colours};
use crate::error::{FIRST_BYTES, JpegError, fail};
use crate::segments::{APP1, SOI, SOS, Segment, SegmentError, Segments, be16, is_frame};
use fuseloop_ops::Size;
use std::ops::Range;

pub const DHT: u8 = 0xc4;
pub const DQT: u8 = 0xdb;
pub const DRI: u8 = 0xdd;
const APP0: u8 = 0xe0;
pub const APP14: u8 = 0xee;

/// The fields of the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    pub size: Size,
    pub progressive: bool,
    pub components: Vec4<Component>,
    pub colours: Colours,
    /// Offset of the frame header's height.
    pub height_at: usize,
    /// The first scan's header.
    pub scan: Scan,
    /// MCUs between restart markers; 0 if there are none.
    pub restart_interval: u16,
    /// The byte range of the TIFF data in the EXIF segment, if there is one.
    pub exif: Option<Range<usize>>,
}

/// A colour component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Component {
    pub id: u8,
    pub h: u8,
    pub v: u8,
    /// The number of its quantization table.
    pub table: u8,
}

/// A scan's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Ids of the scan's components.
    pub ids: Vec4<u8>,
    /// The numbers of their Huffman tables: DC in the high four bits, AC in the low ones.
    pub tables: Vec4<u8>,
    /// The first and the last coefficient, and the bits of a coefficient that were left out before and are left out now:
    /// four bits each. For sequential images they have no meaning.
    pub coefficients: [u8; 2],
    pub approximation: u8,
    /// Offset of the scan's entropy-coded data.
    pub data: usize,
}

/// One to four items, stored without an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vec4<T> {
    items: [T; 4],
    len: usize,
}

impl<T> std::ops::Deref for Vec4<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[..self.len]
    }
}

impl<T: Copy + Default> Vec4<T> {
    /// Takes the first four of `items` at most.
    fn collect(items: impl Iterator<Item = T>) -> Self {
        let mut all = Self::default();
        for (entry, item) in all.items.iter_mut().zip(items) {
            *entry = item;
            all.len += 1;
        }
        all
    }
}

impl Headers {
    /// Reads all headers up to the first scan's data.
    ///
    /// # Errors
    ///
    /// If the bytes are no JPEG, end early, or are of a kind that is not supported.
    pub fn parse(bytes: &[u8]) -> Result<Self, JpegError> {
        Self::parse_start(bytes)?
            .ok_or_else(|| fail!(Cut, "the JPEG ends at byte {}, inside its headers", bytes.len()))
    }

    /// Does the same as [`parse`](Self::parse) for the first bytes of a JPEG; `None` if they end inside the headers.
    pub fn parse_start(bytes: &[u8]) -> Result<Option<Self>, JpegError> {
        if !bytes.starts_with(&[0xff, SOI]) {
            return Err(JpegError::NotAJpeg {
                found: bytes[..bytes.len().min(FIRST_BYTES)].to_vec(),
            });
        }
        let mut segments = Segments { bytes, at: 2 };
        let (mut frame, mut restart_interval, mut exif) = (None, 0, None);
        let mut colours = ColourSegments::default();
        loop {
            let Segment { marker, at, body } = match segments.next_segment() {
                Err(SegmentError::Cut { .. }) => return Ok(None),
                segment => segment?,
            };
            let payload = &bytes[body.clone()];
            match marker {
                SOS => {
                    let frame: Frame = frame.ok_or_else(|| {
                        fail!(Damaged, "damaged JPEG header: a scan before any frame at byte {at}")
                    })?;
                    let scan = Scan::parse(payload, at, body.end)?;
                    let Frame { size, progressive, components, height_at } = frame;
                    let ids: Vec4<u8> = Vec4::collect(components.iter().map(|c| c.id));
                    let colours = colours.colours(&ids);
                    return Ok(Some(Self {
                        size,
                        progressive,
                        components,
                        colours,
                        height_at,
                        scan,
                        restart_interval,
                        exif,
                    }));
                }
                APP0 => colours.see_app0(payload),
                APP14 => colours.see_app14(payload),
                DRI => restart_interval = be16(payload, 0).ok_or_else(|| short(at))?,
                APP1 if payload.starts_with(b"Exif\0\0") && exif.is_none() => {
                    exif = Some(body.start + 6..body.end);
                }
                marker if is_frame(marker) => {
                    if frame.is_some() {
                        return Err(fail!(
                            Damaged,
                            "damaged JPEG header: a second frame at byte {at}"
                        ));
                    }
                    frame = Some(Frame::parse(marker, payload, at)?);
                }
                _ => {}
            }
        }
    }
}

/// A frame header.
struct Frame {
    size: Size,
    progressive: bool,
    components: Vec4<Component>,
    height_at: usize,
}

impl Frame {
    fn parse(marker: u8, payload: &[u8], at: usize) -> Result<Self, JpegError> {
        if marker > 0xc2 {
            return Err(JpegError::Process { marker });
        }
        let [bits, .., count] = *payload.first_chunk::<6>().ok_or_else(|| short(at))?;
        let (height, width) = (
            be16(payload, 1).ok_or_else(|| short(at))?,
            be16(payload, 3).ok_or_else(|| short(at))?,
        );
        let size = Size::new(height.into(), width.into());
        let parts = payload[6..].as_chunks::<3>().0;
        match (bits, count) {
            (8, 1 | 3 | 4) => {}
            (8, _) => return Err(JpegError::Components { found: count }),
            _ => return Err(JpegError::Depth { bits }),
        }
        if height == 0 {
            return Err(JpegError::OpenHeight);
        }
        if width == 0 {
            return Err(JpegError::Empty(size));
        }
        if payload.len() != 6 + 3 * usize::from(count) {
            return Err(short(at));
        }
        let component = |&[id, factors, table]: &[u8; 3]| Component {
            id,
            h: factors >> 4,
            v: factors & 15,
            table,
        };
        Ok(Self {
            size,
            progressive: marker == 0xc2,
            components: Vec4::collect(parts.iter().map(component)),
            height_at: at + 3,
        })
    }
}

impl Scan {
    /// Reads the header whose length is at `at` and whose data begin at `data`.
    pub fn parse(payload: &[u8], at: usize, data: usize) -> Result<Self, JpegError> {
        let (&count, rest) = payload.split_first().ok_or_else(|| short(at))?;
        let parts = rest.as_chunks::<2>().0;
        let count = usize::from(count);
        if !(1..=4).contains(&count) || rest.len() != 2 * count + 3 {
            return Err(short(at));
        }
        let ids = Vec4::collect(parts.iter().map(|part| part[0]).take(count));
        let tables = Vec4::collect(parts.iter().map(|part| part[1]).take(count));
        let coefficients = [rest[2 * count], rest[2 * count + 1]];
        Ok(Self { ids, tables, coefficients, approximation: rest[2 * count + 2], data })
    }
}

/// Returns the error for a segment whose length is at `at`.
pub(crate) fn short(at: usize) -> JpegError {
    SegmentError::Length { at }.into()
}

/// Returns the error for a segment after the first scan: the bytes end in the image, not in the headers.
pub fn cut_short(error: SegmentError) -> JpegError {
    match error {
        SegmentError::Cut { len } => {
            fail!(Cut, "the JPEG is cut short: {len} bytes and no end marker")
        }
        error => error.into(),
    }
}

impl From<SegmentError> for JpegError {
    fn from(error: SegmentError) -> Self {
        let header = |what, at| fail!(Damaged, "damaged JPEG header: {what} at byte {at}");
        match error {
            SegmentError::Cut { len } => {
                fail!(Cut, "the JPEG ends at byte {len}, inside its headers")
            }
            SegmentError::NoMarker { at } => header("no marker", at),
            SegmentError::End { at } => header("the end of the image", at),
            SegmentError::Marker { at } => header("an unexpected marker", at),
            SegmentError::Length { at } => header("a segment of a wrong length", at),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::segments::EOI;

    /// Headers of a colour image whose chroma is sampled once for `factor` by `factor` pixels.
    pub(crate) fn of_size(size: Size, factor: u8, restart_interval: u16) -> Headers {
        let factors = [factor, 1, 1];
        let component = |(id, &f)| Component { id, h: f, v: f, table: 0 };
        Headers {
            size,
            progressive: false,
            components: Vec4::collect((1..).zip(&factors).map(component)),
            colours: Colours::YCbCr,
            height_at: 0,
            scan: Scan {
                ids: Vec4::collect(1..=3),
                tables: Vec4::collect([0; 3].into_iter()),
                coefficients: [0, 63],
                approximation: 0,
                data: 0,
            },
            restart_interval,
            exif: None,
        }
    }

    /// A frame header of `bits`, 16 rows, 32 columns and components of factors 2x1, 1x1, ...
    fn frame(marker: u8, bits: u8, components: u8) -> Vec<u8> {
        let mut bytes = vec![0xff, marker, 0, 8 + 3 * components, bits, 0, 16, 0, 32, components];
        for id in 1..=components {
            bytes.extend_from_slice(&[id, if id == 1 { 0x21 } else { 0x11 }, 0]);
        }
        bytes
    }

    /// A scan header of components 1, 2, ...
    fn scan(components: u8) -> Vec<u8> {
        let ids = (1..=components).flat_map(|id| [id, 0]);
        let start = [0xff, SOS, 0, 6 + 2 * components, components];
        start.into_iter().chain(ids).chain([0, 63, 0]).collect()
    }

    fn parse(parts: &[&[u8]]) -> Result<Headers, JpegError> {
        Headers::parse(&[&[0xff, SOI], parts.concat().as_slice()].concat())
    }

    #[test]
    fn a_headers_parts_are_read_in_any_order_with_any_fill() {
        let exif = [0xff, APP1, 0, 11, b'E', b'x', b'i', b'f', 0, 0, 1, 2, 3];
        let interval = [0xff, 0xff, 0xff, DRI, 0, 4, 1, 2];
        let headers =
            parse(&[&interval, &exif, &frame(0xc0, 8, 3), &[0xff, 0xfe, 0, 2], &scan(3)]).unwrap();
        assert_eq!(headers.size, Size::new(16, 32));
        assert_eq!(headers.restart_interval, 0x102);
        assert_eq!(headers.exif, Some(20..23));
        assert_eq!(headers.height_at, 28);
        assert_eq!(headers.components[0], Component { id: 1, h: 2, v: 1, table: 0 });
        assert_eq!(*headers.scan.ids, [1, 2, 3]);
        assert_eq!((headers.progressive, headers.scan.coefficients), (false, [0, 63]));
        assert_eq!(headers.scan.data, 2 + 8 + 13 + 19 + 4 + 14);
    }

    #[test]
    fn what_a_header_may_not_say_is_an_error() {
        let header = |what, at| fail!(Damaged, "damaged JPEG header: {what} at byte {at}");
        let cut = |len| fail!(Cut, "the JPEG ends at byte {len}, inside its headers");
        let gray = frame(0xc0, 8, 1);
        for (parts, expected) in [
            (vec![frame(0xc0, 12, 3)], JpegError::Depth { bits: 12 }),
            (vec![frame(0xc1, 8, 2)], JpegError::Components { found: 2 }),
            (vec![frame(0xc3, 8, 3)], JpegError::Process { marker: 0xc3 }),
            (vec![gray.clone(), gray.clone()], header("a second frame", 17)),
            (vec![scan(1)], header("a scan before any frame", 4)),
            (vec![vec![0xff, 0xfe, 0, 1]], header("a segment of a wrong length", 4)),
            (vec![gray[..12].to_vec(), scan(1)], header("no marker", 15)),
            (vec![vec![0xff, EOI]], header("the end of the image", 4)),
            (vec![vec![0xff, 0xd0]], header("an unexpected marker", 4)),
            (vec![vec![0xff, 0xff, 0xff]], cut(5)),
            (vec![gray.clone()], cut(15)),
        ] {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            assert_eq!(parse(&parts).unwrap_err(), expected, "{parts:02x?}");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        arbtest::arbtest(|u| {
            let mut parts = Vec::new();
            for _ in 0..u.int_in_range(0..=6)? {
                parts.push(match u.int_in_range(0..=4)? {
                    0 => frame(u.int_in_range(0xbf..=0xd0)?, 8, u.int_in_range(0..=5)?),
                    1 => scan(u.int_in_range(0..=5)?),
                    2 => vec![0xff, u.arbitrary()?, 0, u.arbitrary()?],
                    _ => u.arbitrary()?,
                });
            }
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            if let Ok(headers) = parse(&parts) {
                assert!(headers.size.pixels() > 0 && headers.scan.data > headers.height_at);
            }
            Ok(())
        });
    }
}
