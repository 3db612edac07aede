//! The errors of frames, of alpha and of lossless images.

use std::fmt;

/// A reason why a VP8 frame can't be decoded.
///
/// ```
/// use fuseloop_webp::{LossyError, frame_size};
///
/// assert_eq!(frame_size(b"not VP8"), Err(LossyError::Truncated { part: "its header" }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossyError {
    /// The frame ends inside this part.
    Truncated {
        /// A noun phrase, as in "the frame ends inside its header".
        part: &'static str,
    },
    /// The frame is no key frame: it is a change of another frame.
    NotAKeyFrame,
    /// The start code of a key frame is missing.
    StartCode {
        /// The bytes instead of `9d 01 2a`.
        found: [u8; 3],
    },
    /// The frame is of a version that is not defined.
    Version {
        /// The version, above 3.
        found: u8,
    },
    /// The frame is not to be shown.
    NotShown,
    /// A side of the frame has no pixels.
    Empty,
    /// The first byte of the alpha has values that are not defined.
    AlphaHeader {
        /// The byte.
        found: u8,
    },
    /// The alpha, a lossless image, can't be decoded. Its bytes are those of the chunk "ALPH".
    Alpha(LosslessError),
    /// The window is empty or not inside the frame.
    Window,
    /// The buffer for the pixels has another size than the window.
    Buffer {
        /// The bytes of the window.
        expected: usize,
        /// The bytes of the buffer.
        found: usize,
    },
    /// There is not enough memory for this number of bytes.
    NoMemory {
        /// The number of bytes.
        bytes: usize,
    },
}

impl fmt::Display for LossyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { part } => write!(f, "the frame ends inside {part}"),
            Self::NotAKeyFrame => write!(f, "the frame is no key frame"),
            Self::StartCode { found: [a, b, c] } => {
                write!(f, "the frame's start code is {a:02x} {b:02x} {c:02x}, expected 9d 01 2a")
            }
            Self::Version { found } => {
                write!(f, "the frame's version is {found}, expected 0 to 3")
            }
            Self::NotShown => write!(f, "the frame is not to be shown"),
            Self::Empty => write!(f, "the frame has no pixels"),
            Self::AlphaHeader { found } => {
                write!(f, "its alpha begins with {found:02x}, which is not defined")
            }
            Self::Alpha(error) => write!(f, "its alpha can't be decoded: {error}"),
            Self::Window => write!(f, "the window is empty or not inside the frame"),
            Self::Buffer { expected, found } => {
                write!(f, "a buffer of {found} bytes for a window of {expected} bytes")
            }
            Self::NoMemory { bytes } => write!(f, "no memory for {bytes} bytes"),
        }
    }
}

impl std::error::Error for LossyError {}

/// A reason why a lossless image can't be decoded. Bytes are counted from the first one of its chunk.
///
/// ```
/// use fuseloop_webp::{LosslessError, LosslessHeader};
///
/// let refused = LosslessHeader::parse(b"not VP8L").unwrap_err();
/// assert_eq!(refused.to_string(), "the image begins with 6e, expected 2f");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LosslessError {
    /// The image ends inside this part.
    Truncated {
        /// A noun phrase, as in "the image ends inside its header".
        part: &'static str,
        /// The bytes of the image.
        len: usize,
    },
    /// The first byte is not 2f.
    Signature {
        /// The byte.
        found: u8,
    },
    /// The image is of a version that is not defined.
    Version {
        /// The version, above 0.
        found: u8,
    },
    /// The bytes mean nothing.
    Damaged {
        /// The byte that would have been read next.
        byte: usize,
        /// A sentence about the image.
        reason: &'static str,
    },
    /// The window is empty or not inside the image.
    Window,
    /// The buffer for the pixels has another size than the window.
    Buffer {
        /// The bytes of the window.
        expected: usize,
        /// The bytes of the buffer.
        found: usize,
    },
    /// There is not enough memory for this number of bytes.
    NoMemory {
        /// The number of bytes.
        bytes: usize,
    },
}

impl fmt::Display for LosslessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { part, len } => {
                write!(f, "the image ends after {len} bytes, inside {part}")
            }
            Self::Signature { found } => {
                write!(f, "the image begins with {found:02x}, expected 2f")
            }
            Self::Version { found } => write!(f, "the image's version is {found}, expected 0"),
            Self::Damaged { byte, reason } => {
                write!(f, "at byte {byte} of its lossless data, {reason}")
            }
            Self::Window => write!(f, "the window is empty or not inside the image"),
            Self::Buffer { expected, found } => {
                write!(f, "a buffer of {found} bytes for a window of {expected} bytes")
            }
            Self::NoMemory { bytes } => write!(f, "no memory for {bytes} bytes"),
        }
    }
}

impl std::error::Error for LosslessError {}
