//! Decoding: from the bytes of a stored image and the window needed to pixels.
//!
//! ```text
//! (EncodedImage, ImageReadMode, Window)  ->  u8 or u16 [rows, columns, channels], at least the window
//! ```
//!
//! | stored as                             | what is decoded                            | copied                  |
//! |---------------------------------------|--------------------------------------------|-------------------------|
//! | raw                                   | nothing: the pixels are borrowed           | nothing                 |
//! | JPEG                                  | the window; bits before it are skipped     | into scratch            |
//! | JPEG with restart markers             | the window, from its segments only         | into scratch            |
//! | JPEG in several scans, or of a rarer kind | the rows down to the window's last     | into scratch            |
//! | JPEG, progressive                     | the window; all scans are read down to its last row | into scratch    |
//! | bit planes of a JPEG                  | the window, from its tiles only            | into scratch            |
//! | PNG                                   | the rows down to the window's last; the whole image if it is interlaced | its window into scratch, unless the file has the pixels as they are read |
//! | WebP                                  | the rows down to the window's last; of an animation the whole image | into scratch |
//! | BMP, GIF, PNM, JPEG XL, HEIC          | the whole image                            | its window into scratch |
//! | TIFF                                  | the strips or tiles that the window touches | its window into scratch |
//! | audio ([`AudioOptions`])              | the packets of the window, or those before it too | its window into scratch |
//!
//! Inside the window the pixels equal those of decoding the whole image, bit for bit. [`ImageReadMode`] says
//! what they are read as: by default RGB, which gray becomes, too. CMYK and YCCK become RGB without a colour
//! profile. The IDCT is the accurate one, so pixels differ from FFCV's by up to 3 levels: FFCV decodes with
//! libjpeg's fast, biased IDCT.
//!
//! Any bytes yield an image or an [`Error`]. Sizes are checked against [`Limits`] and against the
//! number of stored bytes before memory is allocated.

#[cfg(feature = "audio")]
mod audio;
mod audio_options;
#[cfg(all(test, feature = "audio"))]
mod audio_tests;
mod buffer;
mod error;
mod jpeg;
mod object_mask;
pub(crate) mod object_rows;
mod opened;
mod opened_frame;
mod orientation;
mod png;
mod raw;
mod read_mode;
#[cfg(feature = "audio")]
mod resample;
mod still;
#[cfg(test)]
mod still_tests;
#[cfg(test)]
mod test_images;
#[cfg(feature = "tiff")]
mod tiff;
mod unread;
#[cfg(feature = "webp")]
mod webp;
#[cfg(all(test, feature = "tiff", feature = "webp"))]
mod webp_tiff_tests;

use crate::error::{Damage, Error, fail};
pub use audio_options::AudioOptions;
pub(crate) use error::outside;
#[cfg(feature = "write")]
pub(crate) use error::{UnsupportedJpeg, no_index, not_a_jpeg};
use error::{no_memory, no_pixels, not_gray16};
use fuseloop_ops::internals::DefaultFloats;
#[doc(hidden)]
pub use jpeg::JpegBackend;
#[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
pub(crate) use jpeg::resealed;
#[cfg(feature = "write")]
pub(crate) use jpeg::{
    BitPlaneError, BitPlaneWriter, ByteRange, FrameHeader, JpegSegments, MAX_SCANS,
    STANDARD_TABLES, ScanSegments,
};
pub use jpeg::{append_segment_index, tile_interval};
pub use object_mask::ObjectMask;
pub use opened::Opened;
pub(crate) use opened::{DecodedForm, PartlyRead};
pub(crate) use opened_frame::{FrameScratch, OpenedFrame};
pub use read_mode::ImageReadMode;
pub(crate) use unread::UnreadParts;

use self::buffer::{image_bytes, room};
use self::orientation::{Orientation, StoredSize};
use crate::exif::{self, ChunkFormat};
use crate::sample::Limits;
use crate::source::{EncodedImage, ImageMode};
use fuseloop_kernels::bit_planes::Form;
use fuseloop_kernels::planes;
use fuseloop_ops::Size;
use fuseloop_ops::author::{Layout, Window};
use fuseloop_ops::internals::{ImageView, MAX_CHANNELS, PixelFormat, is_inside};
use std::sync::Arc;

/// Returns what this CPU decodes bit planes with, such as "AVX-512".
#[must_use]
pub fn bit_plane_form() -> &'static str {
    Form::of_cpu().name()
}

/// The user's options for decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Turns image files as their EXIF orientation says if true. Off by default: FFCV ignores the
    /// orientation.
    pub exif_orientation: bool,
    /// Limits on what an image may ask for.
    pub limits: Limits,
}

/// Decodes images. Each worker has its own decoder, which reuses its buffers from image to image.
#[derive(Debug, Default)]
pub struct Decoder {
    jpeg: jpeg::JpegDecoder,
    png: png::PngDecoder,
    #[cfg(feature = "tiff")]
    tiff: tiff::TiffDecoder,
    #[cfg(feature = "webp")]
    webp: webp::WebpDecoder,
    still: still::StillDecoder,
    raw: raw::RawDecoder,
    #[cfg(feature = "audio")]
    audio: audio::AudioDecoder,
    /// Gets the parts of images that are stored and not read.
    #[cfg_attr(not(feature = "tiff"), allow(dead_code, reason = "only TIFFs have such parts"))]
    unread: Option<Arc<UnreadParts>>,
    /// True if images are turned as their EXIF orientation says.
    turns: bool,
    /// The pixels of an image that is not read as it was decoded.
    converted: Vec<u8>,
    /// The window of an image after orientation. JPEGs are turned by their own decoder, which knows their scale.
    turned: Vec<u8>,
}

/// The headers of an image, read and checked.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "made for each image: an allocation costs more than its bytes on the stack"
)]
enum ImageHeaders {
    /// A JPEG or its bit planes.
    Jpeg(jpeg::JpegHeaders),
    /// An image of a format whose size is all that decoding needs to know.
    Png(StoredSize),
    #[cfg(feature = "webp")]
    /// A WebP.
    Webp(StoredSize),
    #[cfg(feature = "tiff")]
    /// A TIFF, with the directory of its first image.
    Tiff(Box<crate::source::TiffFile>, StoredSize),
    /// An image of another format.
    Still(Box<still::StillImage>, StoredSize),
    /// A raw image, whose bytes are the pixels.
    Raw(Size, PixelFormat),
    #[cfg(feature = "audio")]
    /// An audio file, whose samples are the pixels.
    Audio(audio::AudioFile),
    /// An array, whose elements are the pixels, and whether its channels are planes.
    Array { size: Size, format: PixelFormat, is_planar: bool },
}

impl ImageHeaders {
    /// Returns the size that windows refer to.
    fn size(&self) -> Size {
        match self {
            Self::Jpeg(headers) => headers.size(),
            Self::Png(file) => file.decoded_size(),
            #[cfg(feature = "webp")]
            Self::Webp(file) => file.decoded_size(),
            #[cfg(feature = "tiff")]
            Self::Tiff(_, file) => file.decoded_size(),
            Self::Still(_, file) => file.decoded_size(),
            #[cfg(feature = "audio")]
            Self::Audio(file) => file.size(),
            Self::Raw(size, _) | Self::Array { size, .. } => *size,
        }
    }

    /// Returns the stored size of an image file, which is turned here; `None` for JPEGs, which their decoder turns, and for
    /// pixels.
    fn file(&self) -> Option<StoredSize> {
        match self {
            Self::Png(file) => Some(*file),
            #[cfg(feature = "webp")]
            Self::Webp(file) => Some(*file),
            #[cfg(feature = "tiff")]
            Self::Tiff(_, file) => Some(*file),
            Self::Still(_, file) => Some(*file),
            #[cfg(feature = "audio")]
            Self::Audio(_) => None,
            Self::Jpeg(_) | Self::Raw(..) | Self::Array { .. } => None,
        }
    }

    /// Returns the EXIF orientation and the size as stored, if the image is not stored upright.
    fn turned(&self) -> Option<(u32, Size)> {
        match self {
            Self::Jpeg(headers) => headers.turned(),
            _ => self.file()?.turned(),
        }
    }
}

/// The image that is decoded at a smaller scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaledImage {
    /// The rows and columns of the stored image that become one: 2, 4 or 8.
    pub factor: u32,
    /// The size of the smaller image.
    pub size: Size,
    /// Where row 0 and column 0 of the stored image begin: after 0, if the last row or column is not whole, and
    /// the image is turned so that it comes first.
    pub origin: [f64; 2],
}

/// Pixels of an image, borrowed from the decoder or from the file.
#[derive(Clone, Copy, Debug)]
pub struct Decoded<'a> {
    /// The pixels.
    pub view: ImageView<'a>,
    /// The row of the whole image at which the view starts.
    pub top: u32,
    /// The column of the whole image at which the view starts.
    pub left: u32,
}

impl<'a> Decoded<'a> {
    /// Returns the pixels inside `window`, which is in coordinates of the whole image; `None` if some of
    /// them were not decoded.
    #[must_use]
    pub fn window(&self, window: Window) -> Option<ImageView<'a>> {
        let top = window.top.checked_sub(self.top)?;
        let left = window.left.checked_sub(self.left)?;
        self.view.crop(Window { top, left, ..window })
    }
}

impl Decoder {
    /// Creates a decoder with empty buffers.
    #[must_use]
    pub fn new(options: DecodeOptions) -> Self {
        Self::with_backend(JpegBackend::Both, options)
    }

    /// Creates a decoder that decodes JPEGs with the given backend.
    #[doc(hidden)]
    #[must_use]
    pub fn with_backend(by: JpegBackend, options: DecodeOptions) -> Self {
        let jpeg = jpeg::JpegDecoder::new(options, by);
        let (png, raw) = (png::PngDecoder::new(options), raw::RawDecoder::new(options.limits));
        Self {
            jpeg,
            png,
            #[cfg(feature = "tiff")]
            tiff: tiff::TiffDecoder::new(options),
            #[cfg(feature = "webp")]
            webp: webp::WebpDecoder::new(options),
            still: still::StillDecoder::new(options),
            raw,
            #[cfg(feature = "audio")]
            audio: audio::AudioDecoder::new(options.limits),
            unread: None,
            turns: options.exif_orientation,
            converted: vec![],
            turned: vec![],
        }
    }

    /// Warns by `unread` of what is stored and not read.
    #[must_use]
    pub(crate) fn warning(self, unread: &Arc<UnreadParts>) -> Self {
        Self { unread: Some(Arc::clone(unread)), ..self }
    }

    /// Reads the headers of an image. Costs well under a microsecond; no pixel is decoded.
    ///
    /// The size of an encoded image must equal the one in the sample table, unless the latter is 0 by 0,
    /// which means that the source has not read the header.
    ///
    /// # Errors
    ///
    /// If the headers are damaged, or the size is over the limits or not the table's.
    pub fn open<'a>(&'a mut self, image: &EncodedImage<'a>) -> Result<Opened<'a>, Error> {
        self.open_as(image, ImageReadMode::Rgb)
    }

    /// Like [`open`](Self::open), for pixels that are not RGB. A raw image may have the pixels of `mode`.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open). A JPEG or a lossy WebP can't be read as an index, and only PNGs and TIFFs of
    /// 16-bit gray levels can be read as such.
    pub fn open_as<'a>(
        &'a mut self,
        image: &EncodedImage<'a>,
        mode: ImageReadMode,
    ) -> Result<Opened<'a>, Error> {
        let headers = self.headers(image, mode)?;
        Ok(Opened::new(self, image.bytes, headers, mode))
    }

    /// Returns the pixels of a raw image that is stored as it is read, without a copy; `None` for all others, and for
    /// images that can't be [opened](Self::open_as).
    pub(crate) fn stored_pixels<'a>(
        &self,
        image: &EncodedImage<'a>,
        mode: ImageReadMode,
    ) -> Option<ImageView<'a>> {
        if image.mode.is_coded() {
            return None;
        }
        let (size, format) = self.raw.size(image, mode).ok()?;
        (format == mode.format()).then(|| raw::view(image.bytes, size, format).view)
    }

    /// Opens an array, `[height, width, channels]` or `[channels, height, width]`, whose elements are the pixels.
    /// Up to four planes are copied into pixels; more are passed on as they are.
    ///
    /// # Errors
    ///
    /// If the array has another number of bytes, or no pixels.
    pub fn open_array<'a>(
        &'a mut self,
        bytes: &'a [u8],
        size: Size,
        format: PixelFormat,
        layout: Layout,
    ) -> Result<Opened<'a>, Error> {
        let expected = size.pixels().saturating_mul(format.pixel_bytes() as u64);
        let found = bytes.len() as u64;
        if size.pixels() == 0 {
            return Err(no_pixels(size));
        }
        if found != expected {
            return Err(fail!(
                Damaged,
                "a raw image of {size} needs {expected} bytes, {found} are stored"
            ));
        }
        let is_planar = layout == Layout::ChannelsFirst && format.channels > 1;
        let headers = ImageHeaders::Array { size, format, is_planar };
        Ok(Opened::new(self, bytes, headers, ImageReadMode::Rgb))
    }

    /// Opens an audio file: its signal is an image of one row for each channel.
    ///
    /// # Errors
    ///
    /// If the file is damaged, over the limits, not what `options` say, or this build reads no audio.
    pub(crate) fn open_audio<'a>(
        &'a mut self,
        bytes: &'a [u8],
        options: AudioOptions,
    ) -> Result<Opened<'a>, Error> {
        #[cfg(feature = "audio")]
        {
            let headers = ImageHeaders::Audio(self.audio.open(bytes, options)?);
            Ok(Opened::new(self, bytes, headers, ImageReadMode::Rgb))
        }
        #[cfg(not(feature = "audio"))]
        {
            let _ = (bytes, options);
            Err(no_audio())
        }
    }

    /// Decodes all of an audio file, of any rate and any number of channels.
    ///
    /// # Errors
    ///
    /// If the file is damaged, over the limits, or this build reads no audio.
    pub(crate) fn check_audio(&self, bytes: &[u8]) -> Result<(), Error> {
        #[cfg(feature = "audio")]
        {
            self.audio.check(bytes)
        }
        #[cfg(not(feature = "audio"))]
        {
            let _ = bytes;
            Err(no_audio())
        }
    }

    /// Returns the size of an image alone; see [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open).
    pub fn size(&mut self, image: &EncodedImage<'_>) -> Result<Size, Error> {
        Ok(self.headers(image, ImageReadMode::Rgb)?.size())
    }

    /// Opens an image and decodes at least `wanted`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open) and [`Opened::decode`]. The decoder can decode the next
    /// image after any error.
    pub fn decode<'a>(
        &'a mut self,
        image: &EncodedImage<'a>,
        wanted: Window,
    ) -> Result<Decoded<'a>, Error> {
        let headers = self.headers(image, ImageReadMode::Rgb)?;
        self.decode_opened(image.bytes, &headers, ImageReadMode::Rgb, wanted)
    }

    fn headers(
        &self,
        image: &EncodedImage<'_>,
        mode: ImageReadMode,
    ) -> Result<ImageHeaders, Error> {
        if matches!(image.mode, ImageMode::Jpeg | ImageMode::BitPlanes) {
            check_jpeg_mode(mode)?;
        }
        Ok(match image.mode {
            ImageMode::Jpeg => ImageHeaders::Jpeg(self.jpeg.headers(image)?),
            ImageMode::BitPlanes => ImageHeaders::Jpeg(self.jpeg.headers_of_planes(image)?),
            ImageMode::Png => {
                let size = self.png.size(image, mode)?;
                let orientation = exif::orientation_in(ChunkFormat::Png, image.bytes);
                ImageHeaders::Png(self.stored(size, orientation))
            }
            #[cfg(feature = "webp")]
            ImageMode::Webp => {
                let size = self.webp.size(image, mode)?;
                let orientation = exif::orientation_in(ChunkFormat::Webp, image.bytes);
                ImageHeaders::Webp(self.stored(size, orientation))
            }
            #[cfg(feature = "tiff")]
            ImageMode::Tiff => {
                let file = Box::new(self.tiff.open(image, mode)?);
                if let Some(unread) = &self.unread {
                    unread.tiff(&file, mode);
                }
                let stored = self.stored(file.size, file.orientation);
                ImageHeaders::Tiff(file, stored)
            }
            ImageMode::Raw => {
                let (size, format) = self.raw.size(image, mode)?;
                ImageHeaders::Raw(size, format)
            }
            other => {
                let file = Box::new(self.still.open(image, other, mode)?);
                if let Some(unread) = &self.unread {
                    unread.still(&file, image.bytes);
                }
                let stored = self.stored(file.size(), file.orientation());
                ImageHeaders::Still(file, stored)
            }
        })
    }

    fn stored(&self, size: Size, exif_orientation: u8) -> StoredSize {
        StoredSize { size, exif_orientation, is_turned: self.turns }
    }

    /// Decodes at least `wanted`, a window of the image after orientation.
    fn decode_opened<'a>(
        &'a mut self,
        bytes: &'a [u8],
        headers: &ImageHeaders,
        mode: ImageReadMode,
        wanted: Window,
    ) -> Result<Decoded<'a>, Error> {
        check_window(wanted, headers.size())?;
        DefaultFloats::during(move || {
            let turned = headers.file().map(|file| (file.size, file.orientation()));
            let turned = turned.filter(|(_, orientation)| *orientation != Orientation::UPRIGHT);
            let Some((size, orientation)) = turned else {
                return self.decode_stored(bytes, headers, mode, wanted);
            };
            let window = orientation.stored(wanted, size);
            let mut turned = std::mem::take(&mut self.turned);
            let outcome = self.decode_stored(bytes, headers, mode, window).and_then(|decoded| {
                let view = decoded.window(window).expect("the window was decoded");
                let bytes = image_bytes(window.size(), view.format().pixel_bytes())?;
                room(&mut turned, bytes)?;
                orientation.turn(view, &mut turned);
                Ok(())
            });
            self.turned = turned; // also after an error: the next image reuses the buffer
            outcome?;
            let view = mode.view(&self.turned, wanted.size());
            let view = view.expect("turning keeps the number of pixels");
            Ok(Decoded { view, top: wanted.top, left: wanted.left })
        })
    }

    /// Decodes at least `wanted`, a window of the image as its own decoder returns it.
    fn decode_stored<'a>(
        &'a mut self,
        bytes: &'a [u8],
        headers: &ImageHeaders,
        mode: ImageReadMode,
        wanted: Window,
    ) -> Result<Decoded<'a>, Error> {
        let decoded = match headers {
            ImageHeaders::Jpeg(headers) => {
                self.jpeg.decode(bytes, headers, mode == ImageReadMode::Gray, wanted)?
            }
            ImageHeaders::Png(file) => return self.png.decode(bytes, file.size, mode, wanted),
            #[cfg(feature = "webp")]
            ImageHeaders::Webp(_) => return self.webp.decode(bytes, mode, wanted),
            ImageHeaders::Still(file, _) => return self.still.decode(bytes, file, mode, wanted),
            #[cfg(feature = "tiff")]
            ImageHeaders::Tiff(file, _) => return self.tiff.decode(bytes, file, mode, wanted),
            #[cfg(feature = "audio")]
            ImageHeaders::Audio(file) => return self.audio.decode(bytes, file, wanted),
            ImageHeaders::Raw(size, format) => raw::view(bytes, *size, *format),
            &ImageHeaders::Array { size, format, is_planar: false } => {
                return Ok(raw::view(bytes, size, format));
            }
            &ImageHeaders::Array { size, format, is_planar: true } => {
                let view = ImageView::planes(bytes, size, format);
                let view = view.expect("the length was compared");
                if format.channels > MAX_CHANNELS {
                    return Ok(Decoded { view, top: 0, left: 0 });
                }
                let joined = planes::joined(&view, &mut self.converted);
                let view = joined.map_err(|error| no_memory(error.bytes))?;
                return Ok(Decoded { view, top: 0, left: 0 });
            }
        };
        if decoded.view.format() == mode.format() {
            return Ok(decoded);
        }
        let rgb = decoded.window(wanted).expect("the window was decoded");
        mode.convert(&rgb, &mut self.converted)?;
        let view = mode.view(&self.converted, wanted.size());
        let view = view.expect("every pixel was converted");
        Ok(Decoded { view, top: wanted.top, left: wanted.left })
    }
}

/// Refuses what the pixels of a JPEG can't be read as.
fn check_jpeg_mode(mode: ImageReadMode) -> Result<(), Error> {
    match mode {
        ImageReadMode::Index => {
            let error = fail!(
                Damaged,
                "a JPEG holds no exact numbers, so it can't be read as an index: store masks as PNG or raw pixels"
            );
            Err(error.damage(Damage::Unsupported))
        }
        ImageReadMode::Gray16 => Err(not_gray16("a JPEG", "gray")),
        _ => Ok(()),
    }
}

/// Returns the error of audio in a build that reads none.
#[cfg(not(feature = "audio"))]
pub(crate) fn no_audio() -> Error {
    fail!(Unsupported, "this build can't read audio files: build fuseloop with the feature `audio`")
}

/// Refuses a window that has no pixels or lies partly outside the image.
fn check_window(wanted: Window, size: Size) -> Result<(), Error> {
    if wanted.size().pixels() == 0 || !is_inside(wanted, size) {
        return Err(outside(wanted, size));
    }
    Ok(())
}
