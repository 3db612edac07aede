//! Why a JPEG is left unchanged.

use crate::decode::{BitPlaneError, UnsupportedJpeg};
use crate::error::{Cause, Damage, Details, Error, ErrorKind};
use fuseloop_jpeg::JpegError;
use fuseloop_ops::internals::memory::NoMemory;

/// Why a JPEG is left unchanged.
///
/// ```
/// use fuseloop::Limits;
/// use fuseloop::recut::{Recutter, Tile, Unchanged};
///
/// let error = Recutter::new(Tile::Row, Limits::DEFAULT).recut(b"text").unwrap_err();
/// assert_eq!(error, Unchanged::NotJpeg);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unchanged {
    /// Another format, or no image at all.
    #[error("it is not a JPEG")]
    NotJpeg,
    /// Arithmetic coding, which none of our decoders reads.
    #[error("it is coded arithmetically")]
    Arithmetic,
    /// Lossless or hierarchical: no baseline file has the same pixels.
    #[error("it is a lossless or hierarchical JPEG (marker ff{marker:02x})")]
    Process {
        /// The frame header's marker.
        marker: u8,
    },
    /// Samples of a depth other than 8 bits.
    #[error("it has {bits} bits per sample, a baseline JPEG has 8")]
    Depth {
        /// Bits of a sample.
        bits: u8,
    },
    /// A number of components that neither gray, colour nor CMYK has.
    #[error("it has {found} components, expected 1, 3 or 4")]
    Components {
        /// The number of components.
        found: u8,
    },
    /// The height is stored only after the pixels (in a DNL segment).
    #[error("its header has no height (DNL)")]
    OpenHeight,
    /// The image has more pixels or coefficients than the limits allow.
    #[error("it needs {needed} coefficients, the limit is {max}")]
    Pixels {
        /// The number of coefficients, including padding.
        needed: u64,
        /// The limit: four for each pixel.
        max: u64,
    },
    /// The file, or its re-cut form, has more bytes than the limits allow.
    #[error("it has {len} bytes; the limit is {max}")]
    Bytes {
        /// The number of bytes.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// More scans than an image of its size can need.
    #[error("it has {found} scans, the limit at its size is {max}")]
    Scans {
        /// The number of scans.
        found: usize,
        /// The limit.
        max: u64,
    },
    /// Its components have more blocks in an MCU than a scan of all of them may have.
    #[error("one scan of it would have {blocks} blocks in an MCU, a JPEG has at most {max}")]
    Blocks {
        /// The number of blocks.
        blocks: u64,
        /// The limit.
        max: u64,
    },
    /// A segment that a file of one scan can't hold.
    #[error("segment ff{marker:02x} is of an unknown kind, or after the first scan")]
    Misplaced {
        /// The segment's marker.
        marker: u8,
    },
    /// Coefficients that no 8-bit image has, and that no baseline file can hold.
    #[error("a coefficient is out of a baseline JPEG's range")]
    Coefficient,
    /// The coefficients are in several scans, so that their order can't be restored from bit planes.
    #[error("it is progressive, or has a scan for each component")]
    SeveralScans,
    /// A kind of JPEG that the loader's own decoder leaves to another one.
    #[error("bit planes do not support its colours, sampling or tables")]
    Rare,
    /// The bit planes of a tile are too long for their index.
    #[error("bit planes of a tile of {mcus} MCUs take over 65535 bytes: ask for smaller tiles")]
    Tile {
        /// MCUs of a tile.
        mcus: u16,
    },
    /// The JPEG that is restored from the bit planes is not the same file.
    #[error("its coded data are padded or coded in a way that bit planes can't restore")]
    Restored,
    /// A header or the pixels are damaged, or cut short.
    #[error("it is damaged: {reason}")]
    Damaged {
        /// The decoder's message.
        reason: String,
    },
    /// The re-cut file can't be decoded: files of its kind are not supported at all.
    #[error("it can't be decoded: {reason}")]
    Undecodable {
        /// The decoder's message.
        reason: String,
    },
    /// The re-cut file decodes to other pixels.
    #[error("the re-cut file's pixels differ")]
    Differs,
    /// The system has no memory for its coefficients or pixels. With more memory it can be re-cut.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// A panic during re-cutting. The next image is not affected.
    #[error("a panic: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
}

impl Unchanged {
    /// Returns the cause in one or two words, the same for all files with that cause, for counting.
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
            Self::Blocks { .. } => "too many blocks",
            Self::Misplaced { .. } => "misplaced segment",
            Self::Coefficient => "coefficient out of range",
            Self::SeveralScans => "several scans",
            Self::Rare => "rare kind",
            Self::Tile { .. } => "long tile",
            Self::Restored => "not restored",
            Self::Damaged { .. } => "damaged",
            Self::Undecodable { .. } => "not decodable",
            Self::Differs => "pixels differ",
            Self::Memory(_) => "no memory",
            Self::Panicked { .. } => "panic",
        }
    }

    /// Wraps the error of decoding a file that was re-cut.
    #[expect(clippy::needless_pass_by_value, reason = "`map_err` passes errors by value")]
    pub(super) fn undecodable(error: Error) -> Self {
        match error.cause::<NoMemory>() {
            Some(error) => (*error).into(),
            None => Self::Undecodable { reason: error.to_string() },
        }
    }

    /// Wraps a decoder's error message.
    pub(super) fn damaged(reason: &dyn ToString) -> Self {
        Self::Damaged { reason: reason.to_string() }
    }
}

/// Converts the error of a decoder.
impl From<Error> for Unchanged {
    fn from(error: Error) -> Self {
        use JpegError as E;
        if let Some(error) = error.cause::<NoMemory>() {
            return (*error).into();
        }
        match error.cause().map(|UnsupportedJpeg(kind)| kind) {
            _ if error.damage_found() == Some(Damage::OtherFormat) => Self::NotJpeg,
            Some(E::Process { marker: 0xc9 | 0xca | 0xcb | 0xcd | 0xce | 0xcf }) => {
                Self::Arithmetic
            }
            Some(&E::Process { marker }) => Self::Process { marker },
            Some(&E::Depth { bits }) => Self::Depth { bits },
            Some(&E::Components { found }) => Self::Components { found },
            Some(E::OpenHeight) => Self::OpenHeight,
            _ => Self::damaged(&error),
        }
    }
}

impl From<BitPlaneError> for Unchanged {
    fn from(error: BitPlaneError) -> Self {
        match error {
            BitPlaneError::Decode(error) => error.into(),
            BitPlaneError::Scans => Self::SeveralScans,
            BitPlaneError::Rare => Self::Rare,
            BitPlaneError::Coefficient => Self::Coefficient,
            BitPlaneError::Tile { mcus } => Self::Tile { mcus },
            BitPlaneError::Differs => Self::Restored,
        }
    }
}

impl Cause for Unchanged {
    fn details(&self) -> Details<'_> {
        match self {
            Self::Memory(error) => error.details(),
            _ => Details::of(ErrorKind::Unsupported),
        }
    }
}
