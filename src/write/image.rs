//! How an image is stored: as a JPEG or as raw pixels, at its own size or a smaller one.
//!
//! Its size and whether it is a JPEG is for [`ImageOptions`] to say (`mode.rs`); its bytes are
//!
//! | what is given | stored as JPEG                                        | stored raw            |
//! |---------------|-------------------------------------------------------|-----------------------|
//! | a JPEG        | **its own bytes**, unless it is resized or a quality is asked for | decoded   |
//! | RGB pixels    | encoded: baseline, 4:2:0, quality 90 unless asked      | as they are           |
//!
//! Storing a JPEG's own bytes loses nothing and costs one read; FFCV can't, it decodes and
//! encodes every image anew. Sizes and modes are FFCV's; so is the resize, OpenCV's
//! `INTER_AREA` ([`fuseloop_ops::area`]). EXIF orientation is not applied, as FFCV does not.

use super::jpeg::{self, Head, HeadError};
use super::mode::{ImageOptions, raw_bytes};
use super::pixels::{Pixels, PixelsError};
use crate::sample::{Limits, SampleId};
use crate::source::ImageMode;
use fuseloop_ops::Size;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The quality of a JPEG that has to be encoded, if none is asked for: FFCV's default.
const QUALITY: u8 = 90;

/// An image as its owner has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageInput {
    /// The bytes of a JPEG file.
    JpegBytes(Vec<u8>),
    /// The path of a JPEG file, read by the thread that encodes it.
    Path(PathBuf),
    /// Pixels: u8, `[height, width, 3]`, without gaps.
    Rgb {
        /// `3 * width * height` bytes.
        pixels: Vec<u8>,
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
    },
}

impl ImageInput {
    /// Bytes of memory it holds.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::JpegBytes(bytes) | Self::Rgb { pixels: bytes, .. } => bytes.len(),
            Self::Path(_) => 0,
        }
    }
}

/// Why an image can't be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file can't be read.
    #[error("cannot read it: {source}")]
    Read {
        /// The system's answer.
        source: io::Error,
    },
    /// A directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// More bytes than a value may have.
    #[error("more than {max} bytes, the limit on one value")]
    TooManyBytes {
        /// [`Limits::max_sample_bytes`].
        max: u64,
    },
    /// More pixels than an image may have.
    #[error("{size} pixels, more than the limit of {max}")]
    TooManyPixels {
        /// Height and width.
        size: Size,
        /// [`Limits::max_pixels`].
        max: u64,
    },
    /// Not a JPEG, or one without a readable frame header.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A JPEG that is neither gray nor RGB can't be stored as it is: FFCV would not read it.
    #[error(
        "a JPEG of {components} components, neither gray nor colour: ask for a quality to have it decoded and encoded as RGB"
    )]
    Components {
        /// Components of its frame: 4 are CMYK.
        components: u8,
    },
    /// The pixels can't be decoded.
    #[error(transparent)]
    Pixels(#[from] PixelsError),
    /// The given pixels are not `3 * width * height` bytes.
    #[error("{found} bytes of pixels, {size} RGB pixels need {expected}")]
    PixelCount {
        /// Bytes given.
        found: usize,
        /// Height and width given.
        size: Size,
        /// Bytes needed.
        expected: u64,
    },
    /// A side without pixels.
    #[error("{size} pixels: an image needs at least one")]
    NoPixels {
        /// Height and width.
        size: Size,
    },
    /// A side longer than the format can say.
    #[error(
        "{size} pixels: a side of at most 65535 can be stored, max_resolution makes it smaller"
    )]
    Side {
        /// Height and width as they would be stored.
        size: Size,
    },
    /// The encoder refused.
    #[error("cannot encode it: {message}")]
    Encode {
        /// Its words.
        message: String,
    },
}

impl ImageError {
    /// Whether the image is broken, rather than too big for the format.
    pub(super) fn is_damage(&self) -> bool {
        !matches!(self, Self::Side { .. } | Self::PixelCount { .. } | Self::Encode { .. })
    }
}

/// An image as it lies in the file.
#[derive(Debug)]
pub(super) struct StoredImage {
    pub(super) mode: ImageMode,
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) bytes: Vec<u8>,
    /// Whether these are the bytes of the JPEG given.
    pub(super) passed_through: bool,
}

/// Where an image stands in the input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) sample: SampleId,
    pub(super) field: usize,
}

/// An image given, its bytes in memory, its size known.
enum Loaded {
    Jpeg { bytes: Vec<u8>, head: Head },
    Rgb { pixels: Vec<u8>, size: Size },
}

/// Turns an image into what is stored of it.
pub(super) fn store(
    input: ImageInput,
    options: &ImageOptions,
    place: Place,
    limits: &Limits,
    pixels: &mut Pixels,
) -> Result<StoredImage, ImageError> {
    let loaded = load(input, limits)?;
    let from = match &loaded {
        Loaded::Jpeg { head, .. } => head.size,
        Loaded::Rgb { size, .. } => *size,
    };
    let size = options.stored_size(from);
    let (Ok(width), Ok(height)) = (u16::try_from(size.width), u16::try_from(size.height)) else {
        return Err(ImageError::Side { size });
    };
    let as_jpeg = options.wants_jpeg(size, place.sample, place.field);
    let stored = |mode, bytes| StoredImage { mode, width, height, bytes, passed_through: false };

    let loaded = match loaded {
        Loaded::Jpeg { bytes, head } if as_jpeg && size == from && options.quality.is_none() => {
            check_untouched(&bytes, head, options, limits, pixels)?;
            return Ok(StoredImage { passed_through: true, ..stored(ImageMode::Jpeg, bytes) });
        }
        other => other,
    };
    let rgb = scaled(loaded, size, limits, pixels)?;
    if !as_jpeg {
        return Ok(stored(ImageMode::Raw, rgb));
    }
    let jpeg = jpeg::encode(&rgb, width, height, options.quality.unwrap_or(QUALITY))
        .map_err(|e| ImageError::Encode { message: e.to_string() })?;
    Ok(stored(ImageMode::Jpeg, jpeg))
}

/// Checks a JPEG that is stored as it is.
fn check_untouched(
    bytes: &[u8],
    head: Head,
    options: &ImageOptions,
    limits: &Limits,
    pixels: &mut Pixels,
) -> Result<(), ImageError> {
    if !matches!(head.components, 1 | 3) {
        return Err(ImageError::Components { components: head.components });
    }
    if options.verify {
        check_pixels(head.size, limits)?;
        pixels.verify(bytes, head.size)?;
    }
    Ok(())
}

/// The pixels of an image, at `size`.
fn scaled(
    loaded: Loaded,
    size: Size,
    limits: &Limits,
    pixels: &mut Pixels,
) -> Result<Vec<u8>, ImageError> {
    match loaded {
        Loaded::Rgb { pixels: rgb, size: from } if from == size => Ok(rgb),
        Loaded::Rgb { pixels: rgb, size: from } => Ok(pixels.resize(&rgb, from, size)?),
        Loaded::Jpeg { bytes, head } => {
            check_pixels(head.size, limits)?;
            Ok(pixels.decode(&bytes, head.size, size)?)
        }
    }
}

fn check_pixels(size: Size, limits: &Limits) -> Result<(), ImageError> {
    if size.pixels() > limits.max_pixels {
        return Err(ImageError::TooManyPixels { size, max: limits.max_pixels });
    }
    Ok(())
}

/// Reads what is given, and its size.
fn load(input: ImageInput, limits: &Limits) -> Result<Loaded, ImageError> {
    let bytes = match input {
        ImageInput::JpegBytes(bytes) => bytes,
        ImageInput::Path(path) => read_file(&path, limits.max_sample_bytes)?,
        ImageInput::Rgb { pixels, width, height } => return check_rgb(pixels, width, height),
    };
    let head = Head::parse(&bytes)?;
    Ok(Loaded::Jpeg { bytes, head })
}

fn check_rgb(pixels: Vec<u8>, width: u32, height: u32) -> Result<Loaded, ImageError> {
    let size = Size::new(height, width);
    if size.pixels() == 0 {
        return Err(ImageError::NoPixels { size });
    }
    let expected = raw_bytes(size);
    if pixels.len() as u64 != expected {
        return Err(ImageError::PixelCount { found: pixels.len(), size, expected });
    }
    Ok(Loaded::Rgb { pixels, size })
}

/// Reads a regular file of at most `max` bytes.
fn read_file(path: &Path, max: u64) -> Result<Vec<u8>, ImageError> {
    let read_error = |source| ImageError::Read { source };
    // Before it is opened: opening a pipe would wait for its other end.
    let found = fs::metadata(path).map_err(read_error)?;
    if !found.is_file() {
        return Err(ImageError::NotAFile);
    }
    if found.len() > max {
        return Err(ImageError::TooManyBytes { max });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default());
    // The file may grow while it is read: one byte over the limit tells.
    File::open(path)
        .and_then(|file| file.take(max.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(read_error)?;
    if bytes.len() as u64 > max {
        return Err(ImageError::TooManyBytes { max });
    }
    Ok(bytes)
}
