//! Why an image could not be decoded.

use crate::source::format_name;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;

/// Why an image could not be decoded. The caller adds the path and the sample.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The requested window has no pixels, or is not inside the image.
    #[error("window of rows {}..{}, columns {}..{} is empty or outside the image of {size}",
        wanted.top, wanted.top.saturating_add(wanted.height),
        wanted.left, wanted.left.saturating_add(wanted.width))]
    Window {
        /// The requested window.
        wanted: Window,
        /// The image's size.
        size: Size,
    },
    /// The image has no pixels.
    #[error("the image is {size}: it has no pixels")]
    Empty {
        /// The image's size.
        size: Size,
    },
    /// More pixels than the limits allow.
    #[error("{size} is {} pixels, the limit is {max}", size.pixels())]
    Pixels {
        /// The image's size.
        size: Size,
        /// The limit.
        max: u64,
    },
    /// More stored bytes than the limits allow.
    #[error("{len} bytes are stored, the limit is {max}")]
    Bytes {
        /// The number of stored bytes.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// The number of a raw image's bytes does not match its size.
    #[error("a raw image of {size} needs {expected} bytes, {found} are stored")]
    RawLength {
        /// The size in the sample table.
        size: Size,
        /// The number of bytes that an image of this size has.
        expected: u64,
        /// The number of stored bytes.
        found: u64,
    },
    /// The number of an array's bytes is not that of whole rows or columns.
    #[error(
        "an array of {found} bytes: its shape needs a multiple of {unit} bytes, at most {max} times as many"
    )]
    ArrayLength {
        /// The number of stored bytes.
        found: usize,
        /// The number of bytes of one row or column.
        unit: usize,
        /// The most rows or columns.
        max: u32,
    },
    /// A `.npy` file is damaged, or another array than was declared.
    #[error("{reason}")]
    Npy {
        /// The error, as a sentence.
        reason: String,
    },
    /// The sample table and the JPEG disagree.
    #[error("the JPEG's header says {header}, the sample table {table}")]
    SizeMismatch {
        /// The size in the JPEG's header.
        header: Size,
        /// The size in the sample table.
        table: Size,
    },
    /// Another format, or no image at all.
    #[error("not a JPEG: {}", begins_with(found, 2, "[ff, d8]"))]
    NotJpeg {
        /// The first bytes, twelve at most.
        found: Vec<u8>,
    },
    /// The bytes of a supposed PNG do not begin with a PNG's signature.
    #[error("not a PNG: {}", begins_with(found, 8, "[89, 50, 4e, 47, 0d, 0a, 1a, 0a]"))]
    NotPng {
        /// The first bytes, twelve at most.
        found: Vec<u8>,
    },
    /// A PNG that can't be decoded.
    #[error("damaged PNG: {reason}")]
    Png {
        /// The PNG decoder's message.
        reason: String,
    },
    /// A WebP that can't be decoded.
    #[error("a WebP that can't be decoded: {reason}")]
    Webp {
        /// The error, as a sentence about the file.
        reason: String,
    },
    /// A TIFF that can't be decoded.
    #[error("a TIFF that can't be decoded: {reason}")]
    Tiff {
        /// The error, as a sentence about the file.
        reason: String,
    },
    /// An image of a format that this build leaves out.
    #[error("this build can't read {format} images: build fuseloop with the feature `{feature}`")]
    LeftOut {
        /// The name of the format.
        format: &'static str,
        /// The cargo feature that reads it.
        feature: &'static str,
    },
    /// A lossy WebP whose pixels are to be read as [`ImageReadMode::Index`](super::ImageReadMode::Index).
    #[error(
        "a lossy WebP holds no exact numbers, so it can't be read as an index: store masks as PNG or lossless WebP"
    )]
    WebpIndex,
    /// A JPEG whose pixels are to be read as [`ImageReadMode::Index`](super::ImageReadMode::Index).
    #[error(
        "a JPEG holds no exact numbers, so it can't be read as an index: store masks as PNG or raw pixels"
    )]
    JpegIndex,
    /// An image that is to be read as [`ImageReadMode::Gray16`](super::ImageReadMode::Gray16), but has no
    /// 16-bit gray levels.
    #[error("{found} can't be read as 16-bit gray: use the read mode {fits:?}")]
    NotGray16 {
        /// A description of the image.
        found: String,
        /// The name of the read mode that fits.
        fits: &'static str,
    },
    /// A pixel whose colour is not one number, or a number above 255.
    #[error("the pixel in row {row}, column {column} has the {}", no_index(*pixel))]
    NoIndex {
        /// The pixel's row in the window that is read.
        row: u32,
        /// The pixel's column in the window that is read.
        column: u32,
        /// Red, green and blue, as they are stored.
        pixel: [u16; 3],
    },
    /// The bytes end inside the headers.
    #[error("the JPEG ends at byte {len}, inside its headers")]
    HeaderTruncated {
        /// The number of stored bytes.
        len: usize,
    },
    /// A segment whose contents are not valid.
    #[error("damaged JPEG header: {what} at byte {at}")]
    Header {
        /// A description of the error.
        what: &'static str,
        /// Offset of the segment's length.
        at: usize,
    },
    /// A JPEG process that is not supported: lossless, hierarchical or arithmetic.
    #[error("a JPEG {} (marker ff{marker:02x}) is not supported: only sequential and progressive Huffman coding is", process(*marker))]
    Process {
        /// The frame header's marker.
        marker: u8,
    },
    /// Samples of a depth other than 8 bits.
    #[error("a JPEG of {bits} bits per sample, only 8 are supported")]
    Depth {
        /// Bits of a sample.
        bits: u8,
    },
    /// A number of components that neither gray, colour nor CMYK has.
    #[error("a JPEG of {found} components, expected 1, 3 or 4")]
    Components {
        /// The number of components.
        found: u8,
    },
    /// The height is stored only after the pixels (in a DNL segment).
    #[error("a JPEG without a height in its header (DNL) is not supported")]
    OpenHeight,
    /// Components are sampled in a ratio that is no whole number, which libjpeg refuses, too.
    #[error(
        "JPEG component {component} has {h}x{v} samples where the finest has {h_max}x{v_max}: only whole ratios can be decoded, by libjpeg too"
    )]
    Sampling {
        /// The component's index, from 0.
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
    /// A progressive JPEG of a sampling that only sequential ones may have.
    #[error(
        "a progressive JPEG whose component {component} is sampled {h}x{v} is not supported: `fuseloop recut` \
         rewrites it without loss"
    )]
    ProgressiveSampling {
        /// The component's index, from 0.
        component: usize,
        /// Its horizontal factor.
        h: u8,
        /// Its vertical factor.
        v: u8,
    },
    /// A component that no scan contains.
    #[error("JPEG component {component} has no scan")]
    MissingScan {
        /// The component's index, from 0.
        component: usize,
    },
    /// More scans than are decoded.
    #[error("a JPEG of over {max} scans")]
    Scans {
        /// Most scans that are decoded.
        max: u32,
    },
    /// The file ends before the image does: no end marker follows the pixels.
    #[error("the JPEG is cut short: {len} bytes and no end marker")]
    Truncated {
        /// The number of stored bytes.
        len: usize,
    },
    /// Fewer bits than any image of this size can be coded in.
    #[error("{found} bytes of pixels cannot be an image of {size}, which needs {least}")]
    TooShort {
        /// The size in the header.
        size: Size,
        /// Bytes of coded pixels.
        found: u64,
        /// Fewest bytes for that size.
        least: u64,
    },
    /// Fewer or more restart markers than the restart interval asks for.
    #[error("the JPEG has {found} restart markers, but its restart interval requires {expected}")]
    Restarts {
        /// The number of markers found.
        found: u64,
        /// The number of markers expected.
        expected: u64,
    },
    /// The pixels can't be decoded.
    #[error("damaged JPEG: {reason}")]
    Damaged {
        /// The JPEG decoder's message.
        reason: String,
    },
    /// An image of bit planes is damaged, or of another version.
    #[error("damaged bit-plane image: {what}")]
    BitPlanes {
        /// A description of the error.
        what: &'static str,
    },
    /// The system has no memory for the pixels.
    #[error("no memory for {bytes} bytes of pixels")]
    Memory {
        /// The number of bytes requested.
        bytes: usize,
    },
}

/// Names the process of a frame header that is not supported (T.81, table B.1).
fn process(marker: u8) -> &'static str {
    match marker {
        0xc9 | 0xca => "with arithmetic coding",
        0xc3 | 0xcb => "of lossless coding",
        _ => "of hierarchical coding",
    }
}

/// Says what the bytes are that are no image of the expected format: the format that they are, or the first `shown` of them.
fn begins_with(found: &[u8], shown: usize, expected: &str) -> String {
    if found.is_empty() {
        return "the file is empty".into();
    }
    match format_name(found) {
        Some(format) => format!("it is {format}"),
        None => {
            let first = &found[..found.len().min(shown)];
            format!("it begins with {first:02x?}, expected {expected}")
        }
    }
}

/// Says why a pixel is no index.
fn no_index([red, green, blue]: [u16; 3]) -> String {
    if red == green && red == blue {
        return format!(
            "number {red}: an index is at most 255; the read mode \"gray16\" reads larger numbers of 16-bit gray"
        );
    }
    format!(
        "colour [{red}, {green}, {blue}]: an index is one number, so red, green and blue must be equal"
    )
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
                "window of rows 1..4, columns 2..6 is empty or outside the image of 3x4".to_owned(),
            ),
            (E::Empty { size: Size::new(0, 4) }, "the image is 0x4: it has no pixels".into()),
            (E::Pixels { size, max: 5 }, "3x4 is 12 pixels, the limit is 5".into()),
            (E::Bytes { len, max }, "200 bytes are stored, the limit is 100".into()),
            (
                E::RawLength { size, expected: 36, found: 35 },
                "a raw image of 3x4 needs 36 bytes, 35 are stored".into(),
            ),
            (
                E::SizeMismatch { header: size, table: Size::new(4, 3) },
                "the JPEG's header says 3x4, the sample table 4x3".into(),
            ),
            (
                E::NotJpeg { found: vec![7, 8, 9] },
                "not a JPEG: it begins with [07, 08], expected [ff, d8]".into(),
            ),
            (
                E::NotJpeg { found: b"BM".to_vec() },
                "not a JPEG: it is a BMP, which is not read".into(),
            ),
            (E::NotJpeg { found: vec![] }, "not a JPEG: the file is empty".into()),
            (
                E::NotPng { found: vec![1] },
                "not a PNG: it begins with [01], expected [89, 50, 4e, 47, 0d, 0a, 1a, 0a]".into(),
            ),
            (E::Png { reason: "no data".into() }, "damaged PNG: no data".into()),
            (
                E::NotGray16 { found: "a JPEG".into(), fits: "gray" },
                "a JPEG can't be read as 16-bit gray: use the read mode \"gray\"".into(),
            ),
            (
                E::Webp { reason: "its frame is cut".into() },
                "a WebP that can't be decoded: its frame is cut".into(),
            ),
            (
                E::Tiff { reason: "its tag 320 is cut".into() },
                "a TIFF that can't be decoded: its tag 320 is cut".into(),
            ),
            (
                E::LeftOut { format: "WebP", feature: "webp" },
                "this build can't read WebP images: build fuseloop with the feature `webp`".into(),
            ),
            (
                E::NoIndex { row: 1, column: 2, pixel: [3, 3, 4] },
                "the pixel in row 1, column 2 has the colour [3, 3, 4]: an index is one number, so red, green and blue \
                 must be equal"
                    .into(),
            ),
            (
                E::NoIndex { row: 1, column: 2, pixel: [300; 3] },
                "the pixel in row 1, column 2 has the number 300: an index is at most 255; the read mode \"gray16\" reads \
                 larger numbers of 16-bit gray"
                    .into(),
            ),
            (E::HeaderTruncated { len: 9 }, "the JPEG ends at byte 9, inside its headers".into()),
            (
                E::Header { what: "a second frame", at: 7 },
                "damaged JPEG header: a second frame at byte 7".into(),
            ),
            (
                E::Process { marker: 0xca },
                "a JPEG with arithmetic coding (marker ffca) is not supported: only sequential and progressive Huffman coding is".into(),
            ),
            (E::Depth { bits: 12 }, "a JPEG of 12 bits per sample, only 8 are supported".into()),
            (E::Components { found: 2 }, "a JPEG of 2 components, expected 1, 3 or 4".into()),
            (E::OpenHeight, "a JPEG without a height in its header (DNL) is not supported".into()),
            (
                E::Sampling { component: 1, h: 3, v: 1, h_max: 3, v_max: 2 },
                "JPEG component 1 has 3x1 samples where the finest has 3x2: only whole ratios can be decoded, by libjpeg too"
                    .into(),
            ),
            (E::MissingScan { component: 2 }, "JPEG component 2 has no scan".into()),
            (E::Scans { max: 100 }, "a JPEG of over 100 scans".into()),
            (E::Truncated { len: 99 }, "the JPEG is cut short: 99 bytes and no end marker".into()),
            (
                E::TooShort { size, found: 1, least: 2 },
                "1 bytes of pixels cannot be an image of 3x4, which needs 2".into(),
            ),
            (
                E::Restarts { found: 1, expected: 5 },
                "the JPEG has 1 restart markers, but its restart interval requires 5".into(),
            ),
            (E::Damaged { reason: "bad code".into() }, "damaged JPEG: bad code".into()),
            (E::BitPlanes { what: "a checksum" }, "damaged bit-plane image: a checksum".into()),
            (E::Memory { bytes: 7 }, "no memory for 7 bytes of pixels".into()),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
