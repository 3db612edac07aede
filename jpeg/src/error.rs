//! The errors of headers and of coded data.

use fuseloop_ops::Size;

/// The first bytes that [`JpegError::NotAJpeg`] has at most: enough to know other formats by.
pub const FIRST_BYTES: usize = 64;

/// A reason why a JPEG can't be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JpegError {
    /// The bytes are not those of a JPEG.
    #[error("no JPEG: it begins with {found:02x?}")]
    NotAJpeg {
        /// The first bytes, at most [`FIRST_BYTES`].
        found: Vec<u8>,
    },
    /// The image is lossless, hierarchical or arithmetic.
    #[error("a JPEG {} (marker ff{marker:02x}) is not supported: only sequential and progressive Huffman coding is", process(*marker))]
    Process {
        /// The frame header's marker.
        marker: u8,
    },
    /// The samples have a depth other than 8 bits.
    #[error("a JPEG of {bits} bits per sample, only 8 are supported")]
    Depth {
        /// Bits of a sample.
        bits: u8,
    },
    /// The image has a number of components that neither gray, colour nor CMYK has.
    #[error("a JPEG of {found} components, expected 1, 3 or 4")]
    Components {
        /// The number of components.
        found: u8,
    },
    /// The height is stored only after the pixels (in a DNL segment).
    #[error("a JPEG without a height in its header (DNL) is not supported")]
    OpenHeight,
    /// A side of the image has no pixels.
    #[error("the image is {0}: it has no pixels")]
    Empty(Size),
    /// The image has fewer bits than any image of this size can be coded in.
    #[error("{found} bytes of pixels cannot be an image of {size}, which needs {least}")]
    TooShort {
        /// The size that the headers say.
        size: Size,
        /// The bytes of the coded data.
        found: u64,
        /// The bytes that an image of this size has at least.
        least: u64,
    },
    /// There is not enough memory for this number of bytes.
    #[error("no memory for {bytes} bytes")]
    NoMemory {
        /// The number of bytes.
        bytes: usize,
    },
    /// The bytes end before the image does.
    #[error("{0}")]
    Cut(String),
    /// Anything else is wrong.
    #[error("{0}")]
    Damaged(String),
}

/// Names the process of a frame header that is not supported (T.81, table B.1).
fn process(marker: u8) -> &'static str {
    match marker {
        0xc9 | 0xca => "with arithmetic coding",
        0xc3 | 0xcb => "of lossless coding",
        _ => "of hierarchical coding",
    }
}

/// Creates a [`JpegError`] of a text, which is written as that of `format!`.
macro_rules! fail {
    ($kind:ident, $($text:tt)+) => {
        $crate::error::JpegError::$kind(format!($($text)+))
    };
}
pub(crate) use fail;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_jpegs_have_their_names() {
        assert_eq!(process(0xc9), "with arithmetic coding");
        assert_eq!(process(0xc3), "of lossless coding");
        assert_eq!(process(0xc5), "of hierarchical coding");
    }
}
