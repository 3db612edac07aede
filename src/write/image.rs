//! How an image is stored: as a JPEG or as raw pixels, at its own size or a smaller one.
//!
//! Its size and whether it is a JPEG is for [`ImageOptions`] to say (`mode.rs`); its bytes are
//!
//! | what is given | stored as JPEG                                        | stored raw            |
//! |---------------|-------------------------------------------------------|-----------------------|
//! | a JPEG        | **its own bytes**, unless it is resized or a quality is asked for | decoded   |
//! | a PNG         | encoded, as RGB pixels are: lossy                     | decoded               |
//! | RGB pixels    | encoded: baseline, 4:2:0, quality 90 unless asked: lossy | as they are         |
//! | of a `.beton` | as it is there                                         | as it is there        |
//!
//! By default (`WriteMode::Lossless`) a JPEG is stored as JPEG, and all others raw. What is not stored
//! as it was given says so: [`StoredImage::reencoded`].
//!
//! Storing a JPEG's own bytes loses nothing and costs one read; FFCV can't, it decodes and
//! encodes every image anew. With [`ImageOptions::tile`] every JPEG stored is re-cut on its way
//! ([`crate::recut`]), or kept as it would be without if it can't be. Sizes and modes are FFCV's;
//! so is the resize, OpenCV's `INTER_AREA` ([`fuseloop_ops::area`]). EXIF orientation is not
//! applied, as FFCV does not.

use super::cut::{Cut, StoredImage};
use super::jpeg::{self, Head, HeadError};
use super::mode::{ImageOptions, raw_bytes};
use super::pixels::{Pixels, PixelsError};
use super::report::Reencoded;
use crate::sample::{Limits, SampleId};
use crate::source::{ImageMode, OwnedImage, ReadAt, refuse_cut};
use fuseloop_ops::Size;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The quality of a JPEG that has to be encoded, if none is asked for: FFCV's default.
const QUALITY: u8 = 90;

/// An image as its owner has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageInput {
    /// The bytes of a JPEG file, or of a PNG.
    JpegBytes(Vec<u8>),
    /// The path of a JPEG or PNG file, read by the thread that encodes it.
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
    /// A picture of a `.beton` file, or of another source. It stays raw or a JPEG as it is, of its size, whatever its
    /// bytes are: of the options only `tile` and `verify` are looked at. A PNG is stored as one given
    /// by its bytes.
    Stored(OwnedImage),
}

impl ImageInput {
    /// Bytes of memory it holds.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::JpegBytes(bytes) | Self::Rgb { pixels: bytes, .. } => bytes.len(),
            Self::Stored(image) => image.bytes.len(),
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

/// Where an image stands in the input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) sample: SampleId,
    pub(super) field: usize,
}

/// An image given, its bytes in memory, its size known.
enum Loaded {
    Jpeg { bytes: Vec<u8>, head: Head },
    Png { bytes: Vec<u8>, size: Size },
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
    let path = match &input {
        ImageInput::Path(path) => Some(path.clone()),
        _ => None,
    };
    let loaded = match input {
        ImageInput::Stored(image) if image.mode == ImageMode::Png => load(image.bytes, pixels)?,
        ImageInput::Stored(image) => return store_again(image, options, limits, pixels),
        ImageInput::JpegBytes(bytes) => load(bytes, pixels)?,
        ImageInput::Path(path) => load(read_file(&path, limits.max_sample_bytes)?, pixels)?,
        ImageInput::Rgb { pixels, width, height } => {
            let size = Size::new(height, width);
            check_rgb(&pixels, size)?;
            Loaded::Rgb { pixels, size }
        }
    };
    let (from, given) = match &loaded {
        Loaded::Jpeg { head, .. } => (head.size, ImageMode::Jpeg),
        Loaded::Png { size, .. } => (*size, ImageMode::Png),
        Loaded::Rgb { size, .. } => (*size, ImageMode::Raw),
    };
    let size = options.stored_size(from);
    let as_jpeg = options.wants_jpeg(given == ImageMode::Jpeg, size, place);

    let loaded = match loaded {
        Loaded::Jpeg { bytes, head } if as_jpeg && size == from && options.quality.is_none() => {
            let jpeg = stored(ImageMode::Jpeg, size, bytes)?;
            let jpeg = StoredImage { is_given: true, path, ..jpeg };
            check_untouched(&jpeg.bytes, head, options, limits, pixels)?;
            return Ok(jpeg.recut(options.tile, pixels));
        }
        other => other,
    };
    // Looked at before the work is done.
    sides(size)?;
    let image = if as_jpeg {
        StoredImage { path, ..encode(&loaded, size, options, limits, pixels)? }
    } else {
        stored(ImageMode::Raw, size, scaled(loaded, size, limits, pixels)?)?
    };
    let is_lossy = as_jpeg || size != from;
    let reencoded = Reencoded { from: given, to: image.mode, is_lossy, images: 1 };
    let is_same = given == image.mode && !is_lossy;
    Ok(StoredImage { reencoded: (!is_same).then_some(reencoded), ..image })
}

/// An image as it lies in another file.
fn store_again(
    image: OwnedImage,
    options: &ImageOptions,
    limits: &Limits,
    pixels: &mut Pixels,
) -> Result<StoredImage, ImageError> {
    let OwnedImage { mode, width, height, bytes } = image;
    let size = Size::new(height, width);
    if mode == ImageMode::Raw {
        check_rgb(&bytes, size)?;
        return stored(mode, size, bytes);
    }
    check_pixel_count(size)?;
    let jpeg = StoredImage { is_given: true, ..stored(mode, size, bytes)? };
    if options.verify {
        check_pixels(size, limits)?;
        pixels.verify(&jpeg.bytes, size)?;
    }
    Ok(jpeg.recut(options.tile, pixels))
}

/// An image as a JPEG of `size`. One that is re-cut gets its restart markers there.
///
/// The pixels are encoded where they were decoded, and are let go of before the JPEG is re-cut:
/// of a large picture there are not several copies at once.
fn encode(
    loaded: &Loaded,
    size: Size,
    options: &ImageOptions,
    limits: &Limits,
    pixels: &mut Pixels,
) -> Result<StoredImage, ImageError> {
    let (width, height) = sides(size)?;
    let quality = options.quality.unwrap_or(QUALITY);
    let encode = |pixels: &mut Pixels, is_bare| {
        with_rgb(loaded, size, limits, pixels, |rgb| {
            jpeg::encode(rgb, width, height, quality, is_bare)
                .map_err(|e| ImageError::Encode { message: e.to_string() })
        })
    };
    let jpeg = encode(pixels, options.tile.is_some())?;
    let mut jpeg = stored(ImageMode::Jpeg, size, jpeg)?.recut(options.tile, pixels);
    if matches!(jpeg.cut, Cut::Kept(_)) {
        jpeg.bytes = encode(pixels, false)?;
    }
    Ok(jpeg)
}

/// Calls `each` with the pixels of an image at `size`, packed.
fn with_rgb<T>(
    loaded: &Loaded,
    size: Size,
    limits: &Limits,
    pixels: &mut Pixels,
    each: impl FnOnce(&[u8]) -> Result<T, ImageError>,
) -> Result<T, ImageError> {
    match loaded {
        Loaded::Rgb { pixels: rgb, size: from } if *from == size => each(rgb),
        Loaded::Rgb { pixels: rgb, size: from } => each(&pixels.resize(rgb, *from, size)?),
        Loaded::Jpeg { bytes, head: Head { size: from, .. } }
        | Loaded::Png { bytes, size: from } => {
            check_pixels(*from, limits)?;
            pixels.with_decoded(bytes, *from, size, each)?
        }
    }
}

/// An image that was made here, and is not re-cut.
fn stored(mode: ImageMode, size: Size, bytes: Vec<u8>) -> Result<StoredImage, ImageError> {
    let (width, height) = sides(size)?;
    let (is_given, path, cut, reencoded) = (false, None, Cut::Unasked, None);
    Ok(StoredImage { mode, width, height, bytes, is_given, path, cut, reencoded })
}

/// Width and height as the format has them.
fn sides(size: Size) -> Result<(u16, u16), ImageError> {
    match (u16::try_from(size.width), u16::try_from(size.height)) {
        (Ok(width), Ok(height)) => Ok((width, height)),
        _ => Err(ImageError::Side { size }),
    }
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
        Loaded::Jpeg { bytes, head: Head { size: from, .. } }
        | Loaded::Png { bytes, size: from } => {
            check_pixels(from, limits)?;
            Ok(pixels.decode(&bytes, from, size)?)
        }
    }
}

fn check_pixels(size: Size, limits: &Limits) -> Result<(), ImageError> {
    if size.pixels() > limits.max_pixels {
        return Err(ImageError::TooManyPixels { size, max: limits.max_pixels });
    }
    Ok(())
}

/// A JPEG or a PNG, and what its header says.
fn load(bytes: Vec<u8>, pixels: &mut Pixels) -> Result<Loaded, ImageError> {
    if ImageMode::of_file(&bytes) == ImageMode::Png {
        let size = pixels.size(&bytes)?;
        return Ok(Loaded::Png { bytes, size });
    }
    let head = Head::parse(&bytes)?;
    Ok(Loaded::Jpeg { bytes, head })
}

fn check_rgb(pixels: &[u8], size: Size) -> Result<(), ImageError> {
    check_pixel_count(size)?;
    let expected = raw_bytes(size);
    if pixels.len() as u64 != expected {
        return Err(ImageError::PixelCount { found: pixels.len(), size, expected });
    }
    Ok(())
}

fn check_pixel_count(size: Size) -> Result<(), ImageError> {
    if size.pixels() == 0 { Err(ImageError::NoPixels { size }) } else { Ok(()) }
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
    let file = File::open(path).map_err(read_error)?;
    let before = ReadAt::len(&file).map_err(read_error)?;
    (&file).take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.len() as u64 > max {
        return Err(ImageError::TooManyBytes { max });
    }
    refuse_cut(&file, before, bytes.len() as u64).map_err(read_error)?;
    Ok(bytes)
}
