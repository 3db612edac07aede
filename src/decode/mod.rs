//! Decoding: a stored picture's bytes and the window wanted of it, to RGB pixels.
//!
//! ```text
//! (EncodedImage, Window)  ->  u8 [rows, columns, 3], at least the window
//! ```
//!
//! | stored as                             | what is decoded                          | copied       |
//! |---------------------------------------|------------------------------------------|--------------|
//! | raw                                   | nothing: the pixels are lent             | nothing      |
//! | JPEG                                  | the window; bits before it are passed over | into scratch |
//! | JPEG with restart markers             | the window, of the bytes of its tiles    | into scratch |
//! | JPEG of a rarer kind                  | the rows, or tiles, of the window        | into scratch |
//! | JPEG, progressive or in several scans | the whole picture                        | into scratch |
//! | PNG                                   | the whole picture                        | its window into scratch |
//!
//! Inside the window the pixels are those of the whole picture's decode, bit for bit. Gray
//! becomes RGB; CMYK and YCCK become RGB without a colour profile. The IDCT is the accurate one,
//! so pixels differ from FFCV's by up to 3 levels: FFCV decodes with libjpeg's fast, biased one.
//!
//! Whatever the bytes: a picture or a [`DecodeError`]. Sizes are checked against
//! [`Limits`] and against the bytes there are before memory is taken.

mod error;
mod jpeg;
mod orientation;
mod png;
mod raw;

pub use error::DecodeError;
#[doc(hidden)]
pub use jpeg::By;
pub(crate) use jpeg::{Frame, MAX_SCANS, Part, Parts, ScanParts};
pub use jpeg::{append_segment_index, tile_interval};

use crate::sample::Limits;
use crate::source::{EncodedImage, ImageMode};
use fuseloop_ops::{ImageView, Size, Window};

/// A way pictures are stored, and how to get their pixels.
trait ImageDecoder {
    /// The size that windows refer to, from the headers alone.
    fn size(&mut self, image: &EncodedImage<'_>) -> Result<Size, DecodeError>;

    /// The pixels of `wanted` at least.
    fn decode<'a>(
        &'a mut self,
        image: &EncodedImage<'a>,
        wanted: Window,
    ) -> Result<Decoded<'a>, DecodeError>;
}

/// What is up to the user in decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Turn JPEGs as their EXIF orientation says. Off by default: FFCV does not look at it.
    pub exif_orientation: bool,
    /// What a picture may ask for.
    pub limits: Limits,
}

/// Decodes pictures. One for each worker: it keeps its buffers from picture to picture.
#[derive(Debug, Default)]
pub struct Decoder {
    jpeg: jpeg::JpegDecoder,
    png: png::PngDecoder,
    raw: raw::RawDecoder,
}

/// Pixels of a picture, lent by the decoder or by the file.
#[derive(Clone, Copy, Debug)]
pub struct Decoded<'a> {
    /// The pixels.
    pub view: ImageView<'a>,
    /// The row of the whole picture that the view's first row is.
    pub top: u32,
    /// The column of the whole picture that the view's first column is.
    pub left: u32,
}

impl<'a> Decoded<'a> {
    /// The part inside `window`, which is given in the whole picture's pixels; `None` if it is
    /// not all here.
    #[must_use]
    pub fn window(&self, window: Window) -> Option<ImageView<'a>> {
        let top = window.top.checked_sub(self.top)?;
        let left = window.left.checked_sub(self.left)?;
        self.view.crop(Window { top, left, ..window })
    }
}

impl Decoder {
    /// A decoder with empty buffers.
    #[must_use]
    pub fn new(options: DecodeOptions) -> Self {
        Self::by(By::Both, options)
    }

    /// A decoder that decodes JPEGs by what it is told.
    #[doc(hidden)]
    #[must_use]
    pub fn by(by: By, options: DecodeOptions) -> Self {
        let jpeg = jpeg::JpegDecoder::new(options, by);
        Self { jpeg, png: png::PngDecoder::new(options), raw: raw::RawDecoder::new(options.limits) }
    }

    /// The picture's size after orientation: the one that windows refer to. Costs well under a
    /// microsecond; no pixel is decoded.
    ///
    /// A coded picture's size must be the sample table's, unless that is 0 by 0: a source that has not
    /// looked.
    ///
    /// # Errors
    ///
    /// If the headers are damaged, or the size is over the limits or not the table's.
    pub fn size(&mut self, image: &EncodedImage<'_>) -> Result<Size, DecodeError> {
        self.of(image.mode).size(image)
    }

    /// Decodes `wanted` at least; see the module's top.
    ///
    /// # Errors
    ///
    /// As [`size`](Self::size), and if the window is empty or outside the picture, or the pixels
    /// are damaged or cut short. The decoder is good for the next picture all the same.
    pub fn decode<'a>(
        &'a mut self,
        image: &EncodedImage<'a>,
        wanted: Window,
    ) -> Result<Decoded<'a>, DecodeError> {
        self.of(image.mode).decode(image, wanted)
    }

    fn of(&mut self, mode: ImageMode) -> &mut dyn ImageDecoder {
        match mode {
            ImageMode::Jpeg => &mut self.jpeg,
            ImageMode::Png => &mut self.png,
            ImageMode::Raw => &mut self.raw,
        }
    }
}

/// Refuses a window without pixels or with pixels outside the picture.
fn check_window(wanted: Window, size: Size) -> Result<(), DecodeError> {
    if wanted.size().pixels() == 0 || !wanted.fits(size) {
        return Err(DecodeError::Window { wanted, size });
    }
    Ok(())
}
