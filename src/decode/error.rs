//! Why a picture could not be decoded.

use fuseloop_ops::{Size, Window};

/// Why a picture could not be decoded. The caller adds the path and the sample.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The part asked for has no pixels, or is not inside the picture.
    #[error("rows {}+{} and columns {}+{} asked of a picture of {size}",
        wanted.top, wanted.height, wanted.left, wanted.width)]
    Window {
        /// The part asked for.
        wanted: Window,
        /// The picture's size.
        size: Size,
    },
    /// The picture has no pixels.
    #[error("the picture is {size}: it has no pixels")]
    Empty {
        /// The picture's size.
        size: Size,
    },
    /// More pixels than the limits allow.
    #[error("{size} is {} pixels, the limit is {max}", size.pixels())]
    Pixels {
        /// The picture's size.
        size: Size,
        /// The limit.
        max: u64,
    },
    /// More stored bytes than the limits allow.
    #[error("{len} bytes are stored, the limit is {max}")]
    Bytes {
        /// Bytes there are.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// A raw picture's bytes are not as many as its size needs.
    #[error("a raw picture of {size} needs {expected} bytes, {found} are stored")]
    RawLength {
        /// The size in the sample table.
        size: Size,
        /// Bytes such a picture has.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The sample table and the JPEG disagree.
    #[error("the JPEG's header says {header}, the sample table {table}")]
    SizeMismatch {
        /// The size in the JPEG's header.
        header: Size,
        /// The size in the sample table.
        table: Size,
    },
    /// Another format, or no picture at all.
    #[error("not a JPEG: it begins with {found:02x?}, expected [ff, d8]")]
    NotJpeg {
        /// The first bytes, two at most.
        found: Vec<u8>,
    },
    /// What is called a PNG is none.
    #[error("not a PNG: it begins with {found:02x?}")]
    NotPng {
        /// The first bytes, eight at most.
        found: Vec<u8>,
    },
    /// A PNG that can't be decoded.
    #[error("damaged PNG: {reason}")]
    Png {
        /// The PNG decoder's own words.
        reason: String,
    },
    /// The bytes end inside the headers.
    #[error("the JPEG ends at byte {len}, inside its headers")]
    HeaderTruncated {
        /// Bytes there are.
        len: usize,
    },
    /// A segment that does not say what it must.
    #[error("damaged JPEG header: {what} at byte {at}")]
    Header {
        /// What is wrong.
        what: &'static str,
        /// Offset of the segment's length.
        at: usize,
    },
    /// A JPEG process that is not decoded: lossless, hierarchical or arithmetic.
    #[error("JPEG process {} (marker ff{marker:02x}) is not supported", marker - 0xc0)]
    Process {
        /// The frame header's marker.
        marker: u8,
    },
    /// Samples of another depth.
    #[error("a JPEG of {bits} bits a sample, only 8 are supported")]
    Depth {
        /// Bits of a sample.
        bits: u8,
    },
    /// Another number of components than gray, colour or CMYK have.
    #[error("a JPEG of {found} components, expected 1, 3 or 4")]
    Components {
        /// Components there are.
        found: u8,
    },
    /// The height comes only after the pixels (a DNL segment).
    #[error("a JPEG whose header leaves its height open is not supported")]
    OpenHeight,
    /// Chroma sampled in a ratio that is not decoded right.
    #[error("JPEG component {component} is sampled {h}x{v} where the finest is {h_max}x{v_max}")]
    Sampling {
        /// Which component, from 0.
        component: usize,
        /// Its horizontal factor.
        h: u8,
        /// Its vertical factor.
        v: u8,
        /// The largest horizontal factor.
        h_max: u8,
        /// The largest vertical factor.
        v_max: u8,
    },
    /// A sequential JPEG in several scans, one of which has several components, or with fewer
    /// rows of chroma than of luma, or one MCU wide: the decoder would give wrong pixels.
    #[error(
        "a sequential JPEG in several scans ({in_scan} of {components} components in one) is not \
         supported in its size or sampling: `fuseloop recut` rewrites it without loss"
    )]
    SequentialScans {
        /// Components in the scan.
        in_scan: u8,
        /// Components of the picture.
        components: u8,
    },
    /// A component of which no scan was found.
    #[error("JPEG component {component} has no scan")]
    MissingScan {
        /// Which component, from 0.
        component: usize,
    },
    /// More scans than a picture has use for.
    #[error("a JPEG of over {max} scans")]
    Scans {
        /// Most scans that are decoded.
        max: u32,
    },
    /// The file ends before the picture does: no end marker follows the pixels.
    #[error("the JPEG is cut short: {len} bytes and no end marker")]
    Truncated {
        /// Bytes there are.
        len: usize,
    },
    /// Fewer bits than the fewest that so many pixels can be coded in.
    #[error("{found} bytes of pixels cannot be a picture of {size}, which needs {least}")]
    TooShort {
        /// The size in the header.
        size: Size,
        /// Bytes of coded pixels.
        found: u64,
        /// Fewest bytes for that size.
        least: u64,
    },
    /// Fewer or more restart markers than the restart interval asks for.
    #[error("{found} restart markers in the JPEG, its interval asks for {expected}")]
    Restarts {
        /// Markers there are.
        found: u64,
        /// Markers there should be.
        expected: u64,
    },
    /// The pixels can't be decoded.
    #[error("damaged JPEG: {reason}")]
    Damaged {
        /// The JPEG decoder's own words.
        reason: String,
    },
    /// The system has no memory for the pixels.
    #[error("no memory for {bytes} bytes of pixels")]
    Memory {
        /// Bytes that were wanted.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_says_what_was_found_and_what_was_expected() {
        use DecodeError as E;
        let size = Size::new(3, 4);
        let wanted = Window { top: 1, left: 2, height: 3, width: 4 };
        let (len, max) = (200, 100);
        for (error, expected) in [
            (
                E::Window { wanted, size },
                "rows 1+3 and columns 2+4 asked of a picture of 3x4".to_owned(),
            ),
            (E::Empty { size: Size::new(0, 4) }, "the picture is 0x4: it has no pixels".into()),
            (E::Pixels { size, max: 5 }, "3x4 is 12 pixels, the limit is 5".into()),
            (E::Bytes { len, max }, "200 bytes are stored, the limit is 100".into()),
            (
                E::RawLength { size, expected: 36, found: 35 },
                "a raw picture of 3x4 needs 36 bytes, 35 are stored".into(),
            ),
            (
                E::SizeMismatch { header: size, table: Size::new(4, 3) },
                "the JPEG's header says 3x4, the sample table 4x3".into(),
            ),
            (
                E::NotJpeg { found: vec![0x42, 0x4d] },
                "not a JPEG: it begins with [42, 4d], expected [ff, d8]".into(),
            ),
            (E::NotPng { found: vec![1] }, "not a PNG: it begins with [01]".into()),
            (E::Png { reason: "no data".into() }, "damaged PNG: no data".into()),
            (E::HeaderTruncated { len: 9 }, "the JPEG ends at byte 9, inside its headers".into()),
            (
                E::Header { what: "a second frame", at: 7 },
                "damaged JPEG header: a second frame at byte 7".into(),
            ),
            (E::Process { marker: 0xc3 }, "JPEG process 3 (marker ffc3) is not supported".into()),
            (E::Depth { bits: 12 }, "a JPEG of 12 bits a sample, only 8 are supported".into()),
            (E::Components { found: 2 }, "a JPEG of 2 components, expected 1, 3 or 4".into()),
            (E::OpenHeight, "a JPEG whose header leaves its height open is not supported".into()),
            (
                E::Sampling { component: 1, h: 3, v: 1, h_max: 3, v_max: 2 },
                "JPEG component 1 is sampled 3x1 where the finest is 3x2".into(),
            ),
            (E::MissingScan { component: 2 }, "JPEG component 2 has no scan".into()),
            (E::Scans { max: 100 }, "a JPEG of over 100 scans".into()),
            (E::Truncated { len: 99 }, "the JPEG is cut short: 99 bytes and no end marker".into()),
            (
                E::TooShort { size, found: 1, least: 2 },
                "1 bytes of pixels cannot be a picture of 3x4, which needs 2".into(),
            ),
            (
                E::Restarts { found: 1, expected: 5 },
                "1 restart markers in the JPEG, its interval asks for 5".into(),
            ),
            (E::Damaged { reason: "bad code".into() }, "damaged JPEG: bad code".into()),
            (E::Memory { bytes: 7 }, "no memory for 7 bytes of pixels".into()),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
