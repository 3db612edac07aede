//! Errors that several decoders return. The caller adds the path and the sample. The kind is `Damaged` unless the system has no memory; [`Damage`] says more.

use crate::error::{Cause, Damage, Details, Error, ErrorKind, fail};
use crate::source::{FORMAT_BYTES, format_name};
use fuseloop_jpeg::JpegError;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::memory::NoMemory;
use std::fmt;

/// A kind of JPEG that is not decoded: the re-cutter reports which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnsupportedJpeg(pub(crate) JpegError);

impl Cause for UnsupportedJpeg {
    fn details(&self) -> Details<'_> {
        Details::of(ErrorKind::Damaged)
    }
}

impl UnsupportedJpeg {
    fn error(self) -> Error {
        Error::from(self).damage(Damage::Unsupported)
    }
}

// The format of what is no JPEG is named from the bytes that its error has.
const _: () = assert!(fuseloop_jpeg::FIRST_BYTES >= FORMAT_BYTES);

impl From<JpegError> for Error {
    fn from(error: JpegError) -> Self {
        match error {
            JpegError::NotAJpeg { found } => {
                fail!(Damaged, "{}", not_a_jpeg(&found)).damage(Damage::OtherFormat)
            }
            JpegError::TooShort { .. } | JpegError::Cut(_) => {
                fail!(Damaged, "{error}").damage(Damage::Cut)
            }
            JpegError::NoMemory { bytes } => no_memory(bytes),
            JpegError::Process { .. }
            | JpegError::Depth { .. }
            | JpegError::Components { .. }
            | JpegError::OpenHeight => UnsupportedJpeg(error).error(),
            _ => fail!(Damaged, "{error}"),
        }
    }
}

pub(super) fn no_memory(bytes: usize) -> Error {
    NoMemory { bytes, what: "the pixels of an image" }.into()
}

pub(super) fn no_pixels(size: Size) -> Error {
    fail!(Damaged, "the image is {size}: it has no pixels")
}

pub(super) fn too_many_pixels(size: Size, max: u64) -> Error {
    fail!(Damaged, "{size} is {} pixels, the limit is {max}", size.pixels())
        .damage(Damage::OverLimit)
}

pub(super) fn too_many_bytes(len: u64, max: u64) -> Error {
    fail!(Damaged, "{len} bytes are stored, the limit is {max}").damage(Damage::OverLimit)
}

/// Returns the error of an image of fewer bits than any image of this size can be coded in.
pub(super) fn too_short(size: Size, found: u64, least: u64) -> Error {
    fail!(Damaged, "{found} bytes of pixels cannot be an image of {size}, which needs {least}")
        .damage(Damage::Cut)
}

/// Returns the error of a window that has no pixels, or is not inside the image.
pub(crate) fn outside(wanted: Window, size: Size) -> Error {
    let Window { top, left, height, width } = wanted;
    let (bottom, right) = (top.saturating_add(height), left.saturating_add(width));
    fail!(
        Damaged,
        "window of rows {top}..{bottom}, columns {left}..{right} is empty or outside the image of {size}"
    )
}

/// Returns the error of an image that is to be read as 16-bit gray, but fits another read mode.
pub(super) fn not_gray16(found: impl fmt::Display, fits: &str) -> Error {
    fail!(Damaged, "{found} can't be read as 16-bit gray: use the read mode {fits:?}")
}

/// Returns the error of a pixel that is read as an index, but whose colour is not one number up to 255.
pub(crate) fn no_index(row: u32, column: u32, pixel: [u16; 3]) -> Error {
    let [red, green, blue] = pixel;
    let error = if red == green && red == blue {
        fail!(
            Damaged,
            "the pixel in row {row}, column {column} has the number {red}: an index is at most 255; the read mode \
             \"gray16\" reads larger numbers of 16-bit gray"
        )
    } else {
        fail!(
            Damaged,
            "the pixel in row {row}, column {column} has the colour [{red}, {green}, {blue}]: an index is one number, \
             so red, green and blue must be equal"
        )
    };
    error.damage(Damage::Unsupported)
}

/// Says what the bytes are that are no JPEG. The file of a format that is not known is taken for a JPEG, whatever its name is.
pub(crate) fn not_a_jpeg(bytes: &[u8]) -> String {
    /// The bytes that are shown.
    const SHOWN: usize = 8;
    let found = &bytes[..bytes.len().min(FORMAT_BYTES)];
    match format_name(found).or_else(|| other_file(found)) {
        _ if found.is_empty() => "not an image: the file is empty".into(),
        Some(format) => format!("not a JPEG: it is {format}"),
        None => {
            let first = &found[..found.len().min(SHOWN)];
            format!("not an image of a known format: it begins with {first:02x?}")
        }
    }
}

/// Names a file that is no picture by its first bytes; `None` if it is unknown.
fn other_file(found: &[u8]) -> Option<&'static str> {
    Some(match found {
        [b'%', b'P', b'D', b'F', ..] => "a PDF, which is not read",
        [b'P', b'K', 3, 4, ..] => "a ZIP archive, which is not read",
        [0x1f, 0x8b, ..] => "a file that gzip compressed, which is not read",
        // A writer looks at twelve bytes.
        _ if found.starts_with(b"version http") => {
            "a pointer of Git LFS, whose file `git lfs pull` downloads"
        }
        _ => return None,
    })
}

/// Says what the bytes are that are no image of the expected format: the format that they are, or the first `shown` of them.
pub(super) fn begins_with(found: &[u8], shown: usize, expected: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_says_what_was_found_and_what_was_expected() {
        let size = Size::new(3, 4);
        let wanted = Window { top: 1, left: 2, height: 3, width: 4 };
        let jpeg = |kind| UnsupportedJpeg(kind).error();
        use JpegError as E;
        let (limit, unsupported) = (Some(Damage::OverLimit), Some(Damage::Unsupported));
        for (error, damage, expected) in [
            (
                outside(wanted, size),
                None,
                "window of rows 1..4, columns 2..6 is empty or outside the image of 4x3",
            ),
            (no_pixels(Size::new(0, 4)), None, "the image is 4x0: it has no pixels"),
            (too_many_pixels(size, 5), limit, "4x3 is 12 pixels, the limit is 5"),
            (too_many_bytes(200, 100), limit, "200 bytes are stored, the limit is 100"),
            (
                not_gray16("a JPEG", "gray"),
                None,
                "a JPEG can't be read as 16-bit gray: use the read mode \"gray\"",
            ),
            (
                no_index(1, 2, [3, 3, 4]),
                unsupported,
                "the pixel in row 1, column 2 has the colour [3, 3, 4]: an index is one number, so red, green and blue \
                 must be equal",
            ),
            (
                no_index(1, 2, [300; 3]),
                unsupported,
                "the pixel in row 1, column 2 has the number 300: an index is at most 255; the read mode \"gray16\" \
                 reads larger numbers of 16-bit gray",
            ),
            (
                jpeg(E::Process { marker: 0xca }),
                unsupported,
                "a JPEG with arithmetic coding (marker ffca) is not supported: only sequential and progressive Huffman \
                 coding is",
            ),
            (
                jpeg(E::Depth { bits: 12 }),
                unsupported,
                "a JPEG of 12 bits per sample, only 8 are supported",
            ),
            (
                jpeg(E::Components { found: 2 }),
                unsupported,
                "a JPEG of 2 components, expected 1, 3 or 4",
            ),
            (
                jpeg(E::OpenHeight),
                unsupported,
                "a JPEG without a height in its header (DNL) is not supported",
            ),
            (
                too_short(size, 1, 2),
                Some(Damage::Cut),
                "1 bytes of pixels cannot be an image of 4x3, which needs 2",
            ),
        ] {
            assert_eq!(error.to_string(), expected);
            assert_eq!((error.kind(), error.damage_found()), (ErrorKind::Damaged, damage));
        }
        assert!(no_memory(7).lacks_memory() && no_memory(7).kind() == ErrorKind::Memory);
        let signature = |found: &[u8]| begins_with(found, 2, "[ff, d8]");
        assert_eq!(signature(&[7, 8, 9]), "it begins with [07, 08], expected [ff, d8]");
        assert_eq!(signature(b"GIF89a"), "it is a GIF");
        assert_eq!(signature(&[]), "the file is empty");
    }
}
