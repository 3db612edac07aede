//! Parses the header of a JPEG, and encodes images as FFCV does.
//!
//! [`JpegHeader::parse`] reads the markers (ITU-T T.81, B.1) up to the first frame header and
//! stops there: the size of a stored JPEG must be known, its pixels need not be.
//!
//! | marker     | action                                                           |
//! |------------|------------------------------------------------------------------|
//! | SOF0-SOF2  | read: precision, height, width, components                       |
//! | SOF3, 5-15 | refused: lossless, hierarchical or arithmetic, which the decoders of training runs do not support |
//! | others     | skipped by their length                                          |

use crate::decode::not_a_jpeg;
use crate::decode::tile_interval;
use crate::source::FORMAT_BYTES;
use fuseloop_ops::Size;
use jpeg_encoder::{ChromaSubsamplingMethod, ColorType, Encoder, EncodingError, SamplingFactor};

/// Why bytes are not a JPEG that can be stored unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// The first two bytes are not SOI.
    #[error("{}", not_a_jpeg(found))]
    NotJpeg {
        /// The first bytes of the input, at most twelve.
        found: Vec<u8>,
    },
    /// The bytes end before a frame header.
    #[error("the JPEG ends at byte {len}, before its frame header")]
    Truncated {
        /// The length of the input in bytes.
        len: usize,
    },
    /// A byte that is not a marker is found where a marker is expected.
    #[error("byte {at} of the JPEG is {found:#04x} where a marker is expected")]
    NoMarker {
        /// The offset of the byte.
        at: usize,
        /// The byte found.
        found: u8,
    },
    /// The image data begins, or the file ends, before a frame header.
    #[error("the JPEG has no frame header before marker {marker:#04x} at byte {at}")]
    NoFrame {
        /// The marker's second byte.
        marker: u8,
        /// The marker's offset.
        at: usize,
    },
    /// A segment's length is below 2, or too short for what it must hold.
    #[error("segment {marker:#04x} at byte {at} has length {len}, too short")]
    ShortSegment {
        /// The marker's second byte.
        marker: u8,
        /// The marker's offset.
        at: usize,
        /// The length that the segment declares.
        len: u16,
    },
    /// Lossless, hierarchical or arithmetic coding.
    #[error("JPEG process {marker:#04x}: only baseline, extended and progressive Huffman are read")]
    Process {
        /// The frame marker's second byte.
        marker: u8,
    },
    /// Other than 8 bits a sample.
    #[error("{bits} bits a sample, expected 8")]
    Precision {
        /// The number of bits found.
        bits: u8,
    },
    /// A side is 0: the image has no pixels, or its height is only given after the scan (DNL).
    #[error("the frame header says {size} pixels")]
    EmptyFrame {
        /// Height and width.
        size: Size,
    },
}

/// The contents of a JPEG's frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JpegHeader {
    /// Height and width, each 1 to 65535.
    pub(super) size: Size,
    /// 1 is gray, 3 is colour, 4 is CMYK or YCCK.
    pub(super) components: u8,
}

impl JpegHeader {
    /// Returns true for a JPEG that FFCV reads; false for CMYK.
    pub(super) fn is_gray_or_colour(self) -> bool {
        matches!(self.components, 1 | 3)
    }

    /// Reads the markers up to the frame header.
    ///
    /// # Errors
    ///
    /// See [`HeadError`]. Never panics, whatever the bytes.
    pub(super) fn parse(jpeg: &[u8]) -> Result<Self, HeadError> {
        let truncated = HeadError::Truncated { len: jpeg.len() };
        if jpeg.first_chunk() != Some(&[0xff, 0xd8]) {
            return Err(HeadError::NotJpeg {
                found: jpeg.iter().take(FORMAT_BYTES).copied().collect(),
            });
        }
        let mut at = 2;
        loop {
            let marker_at = at;
            let marker = take_marker(jpeg, &mut at)?;
            match marker {
                // RSTn and TEM have no length.
                0x01 | 0xd0..=0xd7 => continue,
                0xd8..=0xda => return Err(HeadError::NoFrame { marker, at: marker_at }),
                _ => {}
            }
            let rest = jpeg.get(at..).unwrap_or_default();
            let len = u16::from_be_bytes(*rest.first_chunk().ok_or(truncated.clone())?);
            let short = HeadError::ShortSegment { marker, at: marker_at, len };
            if len < 2 {
                return Err(short);
            }
            if is_frame(marker) {
                let body = rest.get(2..usize::from(len)).ok_or(truncated)?;
                return Self::from_frame(marker, body, short);
            }
            at += usize::from(len);
        }
    }

    /// Reads the body of a frame header: precision, height, width, components.
    fn from_frame(marker: u8, body: &[u8], short: HeadError) -> Result<Self, HeadError> {
        if !matches!(marker, 0xc0..=0xc2) {
            return Err(HeadError::Process { marker });
        }
        let Some(&[bits, h1, h0, w1, w0, components]) = body.first_chunk() else {
            return Err(short);
        };
        if bits != 8 {
            return Err(HeadError::Precision { bits });
        }
        let size = Size::new(
            u32::from(u16::from_be_bytes([h1, h0])),
            u32::from(u16::from_be_bytes([w1, w0])),
        );
        if size.pixels() == 0 {
            return Err(HeadError::EmptyFrame { size });
        }
        Ok(Self { size, components })
    }
}

/// Reads a marker and the fill bytes (ff) before it.
fn take_marker(jpeg: &[u8], at: &mut usize) -> Result<u8, HeadError> {
    let truncated = HeadError::Truncated { len: jpeg.len() };
    let first = *jpeg.get(*at).ok_or(truncated.clone())?;
    if first != 0xff {
        return Err(HeadError::NoMarker { at: *at, found: first });
    }
    loop {
        *at += 1;
        match *jpeg.get(*at).ok_or(truncated.clone())? {
            0xff => {}
            0x00 => return Err(HeadError::NoMarker { at: *at, found: 0 }),
            marker => {
                *at += 1;
                return Ok(marker);
            }
        }
    }
}

/// Returns true for SOF0 to SOF15: c0..=cf except DHT, JPG and DAC.
fn is_frame(marker: u8) -> bool {
    matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc)
}

/// Encodes packed RGB as `cv2.imencode('.jpg')` does: baseline, 4:2:0 with averaged chroma, the standard
/// tables scaled to `quality` (1 to 100). Unless `is_bare`, one thing is added that any decoder reads:
/// restart markers at [`tile_interval`]. They cost 1 to 2 % of the bytes and let the loader decode
/// little more than the window it needs.
///
/// # Errors
///
/// The encoder's error. `rgb` must have `3 * width * height` bytes.
pub(super) fn encode(
    rgb: &[u8],
    width: u16,
    height: u16,
    quality: u8,
    is_bare: bool,
) -> Result<Vec<u8>, EncodingError> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, quality.clamp(1, 100));
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    encoder.set_chroma_subsampling_method(ChromaSubsamplingMethod::Average);
    if !is_bare {
        encoder.set_restart_interval(tile_interval(width, MCU_WIDTH, TILE));
    }
    encoder.encode(rgb, width, height, ColorType::Rgb)?;
    Ok(out)
}

/// The distance between restart markers in pixels.
const TILE: u16 = 32;

/// The width of an MCU if chroma has half the columns.
const MCU_WIDTH: u16 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        encode(&[128; 3 * 5 * 7], 7, 5, 90, false).unwrap()
    }

    #[test]
    fn the_head_of_an_encoded_image_is_its_size() {
        assert_eq!(
            JpegHeader::parse(&sample()),
            Ok(JpegHeader { size: Size::new(5, 7), components: 3 })
        );
    }

    #[test]
    fn the_encoder_writes_what_cv2_writes_but_for_restart_markers() {
        let jpeg = sample();
        let frame = jpeg.windows(2).position(|m| m == [0xff, 0xc0]).unwrap();
        let components = &jpeg[frame + 10..frame + 19];
        assert_eq!([components[1], components[4], components[7]], [0x22, 0x11, 0x11]);
        assert_eq!(jpeg.windows(2).filter(|m| m == &[0xff, 0xda]).count(), 1);
    }

    #[test]
    fn any_cut_before_the_frame_ends_is_refused() {
        let jpeg = sample();
        let frame = jpeg.windows(2).position(|m| m == [0xff, 0xc0]).unwrap();
        for len in 0..frame + 19 {
            assert!(JpegHeader::parse(&jpeg[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn fill_bytes_and_lone_markers_are_stepped_over() {
        let mut jpeg = vec![0xff, 0xd8, 0xff, 0xff, 0xff, 0x01];
        jpeg.extend_from_slice(&sample()[2..]);
        assert_eq!(JpegHeader::parse(&jpeg).map(|head| head.size), Ok(Size::new(5, 7)));
    }

    #[test]
    fn messages_say_what_was_found() {
        let frame = |marker: u8, bits: u8, height: u8| {
            vec![0xff, 0xd8, 0xff, marker, 0, 11, bits, 0, height, 0, 9, 1, 1, 0x11, 0]
        };
        for (jpeg, message) in [
            (b"\x89PNG\r\n".to_vec(), "not a JPEG: it is a PNG"),
            (vec![0xff, 0xd8, 0xff], "the JPEG ends at byte 3, before its frame header"),
            (vec![0xff, 0xd8, 7], "byte 2 of the JPEG is 0x07 where a marker is expected"),
            (
                vec![0xff, 0xd8, 0xff, 0xd9],
                "the JPEG has no frame header before marker 0xd9 at byte 2",
            ),
            (vec![0xff, 0xd8, 0xff, 0xe0, 0, 1], "segment 0xe0 at byte 2 has length 1, too short"),
            (vec![0xff, 0xd8, 0xff, 0xc0, 0, 2], "segment 0xc0 at byte 2 has length 2, too short"),
            (
                frame(0xc9, 8, 1),
                "JPEG process 0xc9: only baseline, extended and progressive Huffman are read",
            ),
            (frame(0xc1, 12, 1), "12 bits a sample, expected 8"),
            (frame(0xc0, 8, 0), "the frame header says 9x0 pixels"),
        ] {
            assert_eq!(JpegHeader::parse(&jpeg).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic() {
        arbtest::arbtest(|u| {
            let mut bytes = vec![0xff, 0xd8, 0xff];
            bytes.extend(u.arbitrary::<Vec<u8>>()?);
            let _ = JpegHeader::parse(&bytes);
            Ok(())
        })
        .budget_ms(200);
    }
}
