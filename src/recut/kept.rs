//! Why a JPEG is kept as it is.

use crate::decode::DecodeError;

/// Why a JPEG is kept as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Kept {
    /// Another format, or no picture at all.
    #[error("it is not a JPEG")]
    NotJpeg,
    /// Arithmetic coding: none of our decoders reads it.
    #[error("it is coded arithmetically")]
    Arithmetic,
    /// Lossless or hierarchical: there is no baseline file of the same pixels.
    #[error("it is a lossless or hierarchical JPEG (marker ff{marker:02x})")]
    Process {
        /// The frame header's marker.
        marker: u8,
    },
    /// Samples of another depth.
    #[error("it has {bits} bits a sample, a baseline JPEG has 8")]
    Depth {
        /// Bits of a sample.
        bits: u8,
    },
    /// Another number of components than gray, colour or CMYK have.
    #[error("it has {found} components, expected 1, 3 or 4")]
    Components {
        /// Components there are.
        found: u8,
    },
    /// The height comes only after the pixels (a DNL segment).
    #[error("its header leaves its height open")]
    OpenHeight,
    /// Its pixels, or its coefficients, are more than the limits allow.
    #[error("it needs {needed} coefficients, the limit is {max}")]
    Pixels {
        /// Coefficients, those of padding included.
        needed: u64,
        /// Four for each pixel of the limit.
        max: u64,
    },
    /// Its bytes, or those it would have, are more than the limits allow.
    #[error("it is of {len} bytes, the limit is {max}")]
    Bytes {
        /// Bytes there are, or would be.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// More scans than a picture of its size can want.
    #[error("it has {found} scans, the limit at its size is {max}")]
    Scans {
        /// Scans there are.
        found: usize,
        /// The limit.
        max: u64,
    },
    /// A segment that has no place in a file of one scan.
    #[error("a segment ff{marker:02x} behind its first scan, or of an unknown kind")]
    Misplaced {
        /// The segment's marker.
        marker: u8,
    },
    /// Coefficients that no picture of 8 bits has, and no baseline file can hold.
    #[error("a coefficient is out of a baseline JPEG's range")]
    Coefficient,
    /// A header or the pixels are damaged, or cut short.
    #[error("it is damaged: {reason}")]
    Damaged {
        /// The reader's own words.
        reason: String,
    },
    /// What became of it can't be decoded: it is of a kind that is not decoded at all.
    #[error("it can't be decoded: {0}")]
    Undecodable(DecodeError),
    /// What became of it has other pixels.
    #[error("the re-cut file's pixels differ")]
    Differs,
    /// A panic on the way. The next picture is not concerned.
    #[error("a panic: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
}

impl Kept {
    /// The cause in one or two words, the same for all files of that cause: to count by.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Self::NotJpeg => "not a JPEG",
            Self::Arithmetic => "arithmetic",
            Self::Process { .. } => "lossless or hierarchical",
            Self::Depth { .. } => "not 8 bits",
            Self::Components { .. } => "components",
            Self::OpenHeight => "open height",
            Self::Pixels { .. } => "too many pixels",
            Self::Bytes { .. } => "too many bytes",
            Self::Scans { .. } => "too many scans",
            Self::Misplaced { .. } => "misplaced segment",
            Self::Coefficient => "coefficient out of range",
            Self::Damaged { .. } => "damaged",
            Self::Undecodable(_) => "not decodable",
            Self::Differs => "pixels differ",
            Self::Panicked { .. } => "panic",
        }
    }

    /// A reader's refusal, in its own words.
    pub(super) fn damaged(reason: &dyn ToString) -> Self {
        Self::Damaged { reason: reason.to_string() }
    }
}

impl From<DecodeError> for Kept {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::NotJpeg { .. } => Self::NotJpeg,
            DecodeError::Process { marker: 0xc9 | 0xca | 0xcb | 0xcd | 0xce | 0xcf } => {
                Self::Arithmetic
            }
            DecodeError::Process { marker } => Self::Process { marker },
            DecodeError::Depth { bits } => Self::Depth { bits },
            DecodeError::Components { found } => Self::Components { found },
            DecodeError::OpenHeight => Self::OpenHeight,
            error => Self::damaged(&error),
        }
    }
}
