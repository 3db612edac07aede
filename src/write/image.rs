//! Stores an image: as a JPEG or as raw pixels, at its own size or a smaller one.
//!
//! [`ImageOptions`] decides the stored size and whether the image is stored as JPEG (`mode.rs`). The
//! stored bytes are
//!
//! | given                | stored as JPEG                                              | stored raw |
//! |----------------------|-------------------------------------------------------------|------------|
//! | a JPEG               | **its own bytes**, unless it is resized or a quality is set | decoded    |
//! | a JPEG of CMYK       | encoded like RGB pixels: lossy                              | decoded    |
//! | a file of another format | encoded like RGB pixels: lossy                              | decoded    |
//! | RGB pixels           | encoded: baseline, 4:2:0, quality 90 by default: lossy      | unchanged  |
//! | stored in a `.beton` | unchanged                                                   | unchanged  |
//! | bit planes           | like the JPEG that they were made of                        | decoded    |
//!
//! By default (`WriteMode::Lossless`) a JPEG is stored as JPEG, and other images raw, those of CMYK among them: FFCV does
//! not read a JPEG that is neither gray nor colour. With a quality, all are stored as JPEG.
//! [`StoredImage::reencoded`] records each image that is not stored as given.
//!
//! Storing a JPEG's own bytes is lossless and costs one read; FFCV can't do it: it decodes and
//! re-encodes every image. With [`ImageOptions::tile`] every stored JPEG is re-cut ([`crate::recut`]),
//! or stored as it would be without this option if it can't be. With [`ImageOptions::bit_planes`] it is stored as bit
//! planes in the same way. Sizes and modes are FFCV's, and so is
//! the resize, OpenCV's `INTER_AREA` ([`fuseloop_ops::internals::area`]). Like FFCV, the writer does not apply EXIF
//! orientation.

use super::cut::{RecutResult, StoredImage};
use super::jpeg::{self, HeadError, JpegHeader};
use super::mode::{ImageOptions, WriteMode, raw_bytes};
use super::pixels::{PixelReader, PixelsError};
use super::report::Reencoded;
use crate::decode::no_index;
use crate::sample::{Limits, SampleId};
use crate::source::{
    EncodedImage, ImageFormat, ImageMode, OwnedImage, ReadAt, SampleFormat, refuse_cut,
};
use fuseloop_ops::Size;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The default quality of an encoded JPEG: FFCV's default.
const QUALITY: u8 = 90;

/// An image to be written.
///
/// ```
/// use fuseloop::write::{FieldValue, ImageInput};
///
/// let pixels = ImageInput::Rgb { pixels: vec![0; 4 * 4 * 3], width: 4, height: 4 };
/// let file = ImageInput::Path("photos/cat/1.jpg".into());
/// let row = vec![FieldValue::Image(pixels), FieldValue::Image(file)];
/// assert_eq!(row.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageInput {
    /// The bytes of a JPEG file, or of an image file of another format.
    JpegBytes(Vec<u8>),
    /// The path of an image file, read by the thread that encodes it.
    Path(PathBuf),
    /// Pixels: u8, `[height, width, 3]`, without gaps.
    Rgb {
        /// `3 * width * height` bytes.
        pixels: Vec<u8>,
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
    },
    /// An image from a `.beton` file or from another source. It keeps its mode and its size, whatever
    /// its bytes are: only the options `tile` and `verify` apply. A file of a format other than JPEG is treated like one given
    /// by its bytes.
    Stored(OwnedImage),
}

impl ImageInput {
    /// Returns the bytes of memory that the image uses.
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
    /// The image file can't be read.
    #[error("cannot read it: {source}")]
    Read {
        /// The system's error.
        source: io::Error,
    },
    /// The path is a directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The file is larger than the limit on one value.
    #[error("more than {max} bytes, the limit on one value")]
    TooManyBytes {
        /// [`Limits::max_sample_bytes`].
        max: u64,
    },
    /// The image has more pixels than the limit allows.
    #[error("{size} pixels, more than the limit of {max}")]
    TooManyPixels {
        /// The image's size.
        size: Size,
        /// [`Limits::max_pixels`].
        max: u64,
    },
    /// The bytes are not a JPEG, or a JPEG without a readable frame header.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A JPEG of a mask.
    #[error("a JPEG blends the class numbers of a mask: give the mask as PNG or as raw pixels")]
    MaskJpeg,
    /// A lossy file of a mask, such as a lossy WebP.
    #[error(
        "a lossy {format} blends the class numbers of a mask: give the mask as PNG, lossless WebP or raw pixels"
    )]
    MaskLossy {
        /// The name of the format.
        format: &'static str,
    },
    /// The pixels of an image that is not stored upright would be stored without its EXIF orientation, beside objects or
    /// masks.
    #[error(
        "the EXIF orientation is {orientation}, which re-encoding would lose, and boxes, keypoints and masks may refer to the upright image: store image files unchanged (write mode `lossless`, no quality; a .beton file stores only JPEGs unchanged), or turn the image and remove its orientation"
    )]
    Orientation {
        /// The EXIF orientation, from 2 to 8.
        orientation: u32,
    },
    /// The pixels can't be decoded.
    #[error(transparent)]
    Pixels(#[from] PixelsError),
    /// The given pixels are not `3 * width * height` bytes.
    #[error("{found} bytes of pixels, {size} RGB pixels need {expected}")]
    PixelCount {
        /// The number of bytes given.
        found: usize,
        /// The size given.
        size: Size,
        /// The number of bytes needed.
        expected: u64,
    },
    /// A side is 0.
    #[error("{size} pixels: an image needs at least one")]
    NoPixels {
        /// The image's size.
        size: Size,
    },
    /// A side is longer than the format allows.
    #[error(
        "{size} pixels: a side of at most 65535 can be stored, max_resolution makes it smaller"
    )]
    Side {
        /// The size that would be stored.
        size: Size,
    },
    /// The encoder failed.
    #[error("cannot encode it: {message}")]
    Encode {
        /// The encoder's message.
        message: String,
    },
}

impl ImageError {
    /// Returns true if the image is damaged; false if its size does not suit the format or its buffer,
    /// if the encoder failed, or if there is no memory for it.
    pub(super) fn is_damage(&self) -> bool {
        let is_other = matches!(
            self,
            Self::Side { .. }
                | Self::PixelCount { .. }
                | Self::Encode { .. }
                | Self::MaskJpeg
                | Self::MaskLossy { .. }
                | Self::Orientation { .. }
        );
        !is_other && !self.lacks_memory()
    }

    /// Returns true if the system has no memory for the file or for its pixels.
    pub(super) fn lacks_memory(&self) -> bool {
        match self {
            Self::Read { source } => source.kind() == io::ErrorKind::OutOfMemory,
            Self::Pixels(PixelsError::Decode(error)) => error.lacks_memory(),
            Self::Pixels(PixelsError::Memory(_)) => true,
            _ => false,
        }
    }
}

/// The position of an image in the input.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputPosition {
    pub(super) sample: SampleId,
    pub(super) field: usize,
}

/// An input image in memory, with its size.
enum LoadedImage {
    Jpeg {
        bytes: Vec<u8>,
        head: JpegHeader,
    },
    /// A file of another format.
    Other {
        bytes: Vec<u8>,
        size: Size,
        mode: ImageMode,
        format: SampleFormat,
    },
    Rgb {
        pixels: Vec<u8>,
        size: Size,
    },
}

impl LoadedImage {
    /// Returns the number of bytes as given.
    fn bytes(&self) -> u64 {
        match self {
            Self::Jpeg { bytes, .. }
            | Self::Other { bytes, .. }
            | Self::Rgb { pixels: bytes, .. } => bytes.len() as u64,
        }
    }
}

/// Turns an image into its stored form.
pub(super) fn store(
    input: ImageInput,
    options: &ImageOptions,
    position: InputPosition,
    limits: &Limits,
    pixels: &mut PixelReader,
) -> Result<StoredImage, ImageError> {
    let path = match &input {
        ImageInput::Path(path) => Some(path.clone()),
        _ => None,
    };
    let is_mask = options.write_mode == WriteMode::Mask;
    let loaded = match input {
        ImageInput::Stored(image)
            if is_mask && matches!(image.mode, ImageMode::Jpeg | ImageMode::BitPlanes) =>
        {
            return Err(ImageError::MaskJpeg);
        }
        ImageInput::Stored(image) if image.mode.is_other_file() => load(image.bytes, pixels)?,
        ImageInput::Stored(image) => return store_unchanged(image, options, limits, pixels),
        ImageInput::JpegBytes(bytes) => load(bytes, pixels)?,
        ImageInput::Path(path) => load(read_file(&path, limits.max_sample_bytes)?, pixels)?,
        ImageInput::Rgb { pixels, width, height } => {
            let size = Size::new(height, width);
            check_rgb(&pixels, size)?;
            LoadedImage::Rgb { pixels, size }
        }
    };
    let (from, given) = match &loaded {
        LoadedImage::Jpeg { head, .. } => (head.size, ImageMode::Jpeg),
        LoadedImage::Other { size, mode, .. } => (*size, *mode),
        LoadedImage::Rgb { size, .. } => (*size, ImageMode::Raw),
    };
    if is_mask && given == ImageMode::Jpeg {
        return Err(ImageError::MaskJpeg);
    }
    if let LoadedImage::Other { bytes, mode, .. } = &loaded
        && is_mask
        && !is_exact_file(*mode, bytes)
    {
        let format = mode.file_format().map_or("file", ImageFormat::noun);
        return Err(ImageError::MaskLossy { format });
    }
    let format = match &loaded {
        LoadedImage::Other { format, .. } => *format,
        _ => SampleFormat::default(),
    };
    let is_turned = match &loaded {
        LoadedImage::Jpeg { bytes, .. } | LoadedImage::Other { bytes, .. } => {
            let image = EncodedImage { mode: given, width: 0, height: 0, bytes };
            pixels.orientation(&image).is_ok_and(|found| found.is_some())
        }
        LoadedImage::Rgb { .. } => false,
    };
    let size = options.stored_size(from);
    let is_storable = match &loaded {
        LoadedImage::Jpeg { head, .. } => head.is_gray_or_colour(),
        LoadedImage::Other { .. } | LoadedImage::Rgb { .. } => false,
    };
    let as_jpeg = options.wants_jpeg(is_storable, size, position);
    let given_bytes = loaded.bytes();

    let loaded = match loaded {
        LoadedImage::Jpeg { bytes, head }
            if is_storable && as_jpeg && size == from && options.jpeg_quality.is_none() =>
        {
            let jpeg = stored(ImageMode::Jpeg, size, bytes)?;
            let jpeg = StoredImage { is_given: true, path, ..jpeg };
            check_untouched(&jpeg.bytes, head, options, limits, pixels)?;
            return jpeg.recut(options, pixels);
        }
        other => other,
    };
    // The size is checked before any pixels are decoded.
    sides(size)?;
    let image = if as_jpeg {
        StoredImage { path, ..encode(&loaded, size, options, limits, pixels)? }
    } else if is_mask {
        stored(ImageMode::Raw, size, nearest(class_numbers(loaded, limits, pixels)?, from, size))?
    } else {
        stored(ImageMode::Raw, size, scaled(loaded, size, limits, pixels)?)?
    };
    // Class numbers are exact, or an error.
    let is_converted = format.has_alpha || (format.is_over_8_bits && !is_mask);
    let is_lossy = as_jpeg || size != from || is_converted;
    let lost_orientations = u64::from(is_turned);
    let reencoded =
        Reencoded { from: given, to: image.mode, is_lossy, images: 1, lost_orientations };
    let is_same = given == image.mode && !is_lossy;
    Ok(StoredImage { reencoded: (!is_same).then_some(reencoded), given_bytes, ..image })
}

/// Stores an image that is already in stored form.
fn store_unchanged(
    image: OwnedImage,
    options: &ImageOptions,
    limits: &Limits,
    pixels: &mut PixelReader,
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
    jpeg.recut(options, pixels)
}

/// Encodes an image as a JPEG of `size`. If the JPEG will be re-cut, it is encoded without restart
/// markers.
///
/// The pixels are encoded in the buffer they were decoded into, and released before the JPEG is re-cut,
/// so that a large image is not in memory several times.
fn encode(
    loaded: &LoadedImage,
    size: Size,
    options: &ImageOptions,
    limits: &Limits,
    pixels: &mut PixelReader,
) -> Result<StoredImage, ImageError> {
    let (width, height) = sides(size)?;
    let quality = options.jpeg_quality.unwrap_or(QUALITY);
    let encode = |pixels: &mut PixelReader, is_bare| {
        with_rgb(loaded, size, limits, pixels, |rgb| {
            jpeg::encode(rgb, width, height, quality, is_bare)
                .map_err(|e| ImageError::Encode { message: e.to_string() })
        })
    };
    let jpeg = encode(pixels, options.tile.is_some() || options.bit_planes)?;
    let mut jpeg = stored(ImageMode::Jpeg, size, jpeg)?.recut(options, pixels)?;
    if matches!(jpeg.cut, RecutResult::Unchanged(_)) {
        jpeg.bytes = encode(pixels, false)?;
    }
    Ok(jpeg)
}

/// Calls `each` with the packed pixels of an image, scaled to `size`.
fn with_rgb<T>(
    loaded: &LoadedImage,
    size: Size,
    limits: &Limits,
    pixels: &mut PixelReader,
    each: impl FnOnce(&[u8]) -> Result<T, ImageError>,
) -> Result<T, ImageError> {
    match loaded {
        LoadedImage::Rgb { pixels: rgb, size: from } if *from == size => each(rgb),
        LoadedImage::Rgb { pixels: rgb, size: from } => each(&pixels.resize(rgb, *from, size)?),
        LoadedImage::Jpeg { bytes, head: JpegHeader { size: from, .. } }
        | LoadedImage::Other { bytes, size: from, .. } => {
            check_pixels(*from, limits)?;
            pixels.with_decoded(bytes, *from, size, each)?
        }
    }
}

/// Returns the stored form of new bytes, not re-cut.
fn stored(mode: ImageMode, size: Size, bytes: Vec<u8>) -> Result<StoredImage, ImageError> {
    let (width, height) = sides(size)?;
    let (is_given, path, cut, reencoded) = (false, None, RecutResult::NotRequested, None);
    Ok(StoredImage { mode, width, height, bytes, is_given, path, cut, reencoded, given_bytes: 0 })
}

/// Returns width and height in the format's types.
fn sides(size: Size) -> Result<(u16, u16), ImageError> {
    match (u16::try_from(size.width), u16::try_from(size.height)) {
        (Ok(width), Ok(height)) => Ok((width, height)),
        _ => Err(ImageError::Side { size }),
    }
}

/// Checks a JPEG that is stored unchanged.
fn check_untouched(
    bytes: &[u8],
    head: JpegHeader,
    options: &ImageOptions,
    limits: &Limits,
    pixels: &mut PixelReader,
) -> Result<(), ImageError> {
    if options.verify {
        check_pixels(head.size, limits)?;
        pixels.verify(bytes, head.size)?;
    }
    Ok(())
}

/// Returns the pixels of an image, scaled to `size`.
fn scaled(
    loaded: LoadedImage,
    size: Size,
    limits: &Limits,
    pixels: &mut PixelReader,
) -> Result<Vec<u8>, ImageError> {
    match loaded {
        LoadedImage::Rgb { pixels: rgb, size: from } if from == size => Ok(rgb),
        LoadedImage::Rgb { pixels: rgb, size: from } => Ok(pixels.resize(&rgb, from, size)?),
        LoadedImage::Jpeg { bytes, head: JpegHeader { size: from, .. } }
        | LoadedImage::Other { bytes, size: from, .. } => {
            check_pixels(from, limits)?;
            Ok(pixels.decode(&bytes, from, size)?)
        }
    }
}

/// Returns the class numbers of a mask, in all three channels of packed RGB.
fn class_numbers(
    loaded: LoadedImage,
    limits: &Limits,
    pixels: &mut PixelReader,
) -> Result<Vec<u8>, ImageError> {
    match loaded {
        LoadedImage::Rgb { pixels: rgb, size } => {
            let mut colors = rgb.as_chunks::<3>().0.iter();
            match colors.position(|[r, g, b]| r != g || r != b) {
                None => Ok(rgb),
                Some(index) => {
                    let [row, column] = [index as u32 / size.width, index as u32 % size.width];
                    let pixel = rgb.as_chunks::<3>().0[index].map(u16::from);
                    Err(PixelsError::from(no_index(row, column, pixel)).into())
                }
            }
        }
        LoadedImage::Jpeg { .. } => Err(ImageError::MaskJpeg),
        LoadedImage::Other { bytes, size, .. } => {
            check_pixels(size, limits)?;
            Ok(pixels.class_numbers(&bytes, size)?)
        }
    }
}

/// Returns true if an image file stores exact numbers, as the mask of an image needs.
pub(super) fn is_exact(image: &OwnedImage) -> bool {
    is_exact_file(image.mode, &image.bytes)
}

fn is_exact_file(mode: ImageMode, bytes: &[u8]) -> bool {
    let is_for_masks = mode.file_format().is_some_and(|format| format.is_for_masks);
    is_for_masks && !(mode == ImageMode::Webp && is_lossy_webp(bytes))
}

/// Returns true for a JPEG that a `.beton` file can't store as it is, such as one of CMYK.
pub(super) fn is_other_jpeg(image: &OwnedImage) -> bool {
    image.mode == ImageMode::Jpeg
        && JpegHeader::parse(&image.bytes).is_ok_and(|head| !head.is_gray_or_colour())
}

#[cfg(feature = "webp")]
fn is_lossy_webp(bytes: &[u8]) -> bool {
    crate::source::WebpHeader::parse(bytes).is_ok_and(|header| header.is_lossy)
}

/// A build without WebP can't tell, and refuses the image when it is loaded.
#[cfg(not(feature = "webp"))]
fn is_lossy_webp(_bytes: &[u8]) -> bool {
    true
}

/// Scales packed RGB down to the nearest pixels, as torchvision's `NEAREST` does. No side of `to` may be longer
/// than that of `from`, so that a pixel never moves back in the buffer.
fn nearest(mut rgb: Vec<u8>, from: Size, to: Size) -> Vec<u8> {
    let of =
        |at: u32, from: u32, to: u32| (u64::from(at) * u64::from(from) / u64::from(to)) as usize;
    let mut end = 0;
    for y in 0..to.height {
        let row = of(y, from.height, to.height) * from.width as usize;
        for x in 0..to.width {
            let pixel = 3 * (row + of(x, from.width, to.width));
            rgb.copy_within(pixel..pixel + 3, end);
            end += 3;
        }
    }
    rgb.truncate(end);
    rgb
}

fn check_pixels(size: Size, limits: &Limits) -> Result<(), ImageError> {
    if size.pixels() > limits.max_pixels {
        return Err(ImageError::TooManyPixels { size, max: limits.max_pixels });
    }
    Ok(())
}

/// Reads the header of an image file. Bit planes become the JPEG that they were made of.
fn load(mut bytes: Vec<u8>, pixels: &mut PixelReader) -> Result<LoadedImage, ImageError> {
    match ImageMode::of_file(&bytes) {
        mode if mode.is_other_file() => {
            let size = pixels.size(&bytes)?;
            // The decoder reads the same header: if it can't be read, decoding the pixels gives the error.
            let format = SampleFormat::of_file(&bytes).unwrap_or_default();
            return Ok(LoadedImage::Other { bytes, size, mode, format });
        }
        ImageMode::BitPlanes => bytes = pixels.restore(&bytes)?,
        _ => {}
    }
    let head = JpegHeader::parse(&bytes)?;
    Ok(LoadedImage::Jpeg { bytes, head })
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
    // The file type is checked before opening: opening a pipe would block until its other end is opened.
    let found = fs::metadata(path).map_err(read_error)?;
    if !found.is_file() {
        return Err(ImageError::NotAFile);
    }
    if found.len() > max {
        return Err(ImageError::TooManyBytes { max });
    }
    let mut bytes = vec![];
    // One byte more than the file has, so that its end is found without growing the buffer.
    let room = usize::try_from(found.len()).unwrap_or(usize::MAX).saturating_add(1);
    bytes.try_reserve_exact(room).map_err(|_| read_error(io::ErrorKind::OutOfMemory.into()))?;
    // The file may grow while it is read: reading one byte over the limit detects this.
    let file = File::open(path).map_err(read_error)?;
    let before = ReadAt::len(&file).map_err(read_error)?;
    (&file).take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.len() as u64 > max {
        return Err(ImageError::TooManyBytes { max });
    }
    refuse_cut(&file, before, bytes.len() as u64).map_err(read_error)?;
    Ok(bytes)
}
