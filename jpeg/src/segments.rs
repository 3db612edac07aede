//! The segments of a JPEG's headers (ITU-T T.81, annex B), which the decoder and the reader of sizes walk.

use std::fmt;
use std::ops::Range;

pub const SOI: u8 = 0xd8;
pub const EOI: u8 = 0xd9;
pub const SOS: u8 = 0xda;
pub const APP1: u8 = 0xe1;

/// SOF0..SOF15, except for three markers that mean something else.
const FRAMES: Range<u8> = 0xc0..0xd0;
const NOT_FRAMES: [u8; 3] = [0xc4, 0xc8, 0xcc];

/// Returns whether a segment is a frame header.
pub fn is_frame(marker: u8) -> bool {
    FRAMES.contains(&marker) && !NOT_FRAMES.contains(&marker)
}

/// Reads two bytes at an offset.
pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|&pair| u16::from_be_bytes(pair))
}

/// A marker that is followed by a length.
pub struct Segment {
    pub marker: u8,
    /// Offset of the segment's length.
    pub at: usize,
    /// The byte range after the length.
    pub body: Range<usize>,
}

/// The reason why no segment follows. An offset is that of the byte after the marker, except for `NoMarker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// The bytes end before the segment does.
    Cut {
        len: usize,
    },
    NoMarker {
        at: usize,
    },
    /// The image ends.
    End {
        at: usize,
    },
    /// A marker without a segment.
    Marker {
        at: usize,
    },
    /// A length that does not count its own bytes.
    Length {
        at: usize,
    },
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { len } => write!(f, "it ends at byte {len}, inside its headers"),
            Self::NoMarker { at }
            | Self::End { at }
            | Self::Marker { at }
            | Self::Length { at } => write!(f, "no segment begins at byte {at}"),
        }
    }
}

/// Iterates over the segments from an offset on.
pub struct Segments<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl Segments<'_> {
    /// Returns the next complete segment.
    ///
    /// # Errors
    ///
    /// If the bytes or the image end before the segment does.
    pub fn next_segment(&mut self) -> Result<Segment, SegmentError> {
        let bytes = self.bytes;
        let cut = SegmentError::Cut { len: bytes.len() };
        if bytes.get(self.at).is_some_and(|&byte| byte != 0xff) {
            return Err(SegmentError::NoMarker { at: self.at });
        }
        // Any number of ff may precede a marker (B.1.1.2).
        let fill = bytes[self.at.min(bytes.len())..].iter().position(|&byte| byte != 0xff);
        let Some(fill) = fill else { return Err(cut) };
        let at = self.at + fill + 1;
        let marker = bytes[at - 1];
        match marker {
            EOI => return Err(SegmentError::End { at }),
            0 | 1 | 0xd0..=SOI => return Err(SegmentError::Marker { at }),
            _ => {}
        }
        let Some(length) = be16(bytes, at) else { return Err(cut) };
        let body = at + 2..at + usize::from(length);
        if length < 2 {
            return Err(SegmentError::Length { at });
        }
        if body.end > bytes.len() {
            return Err(cut);
        }
        self.at = body.end;
        Ok(Segment { marker, at, body })
    }
}
