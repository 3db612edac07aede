//! An image whose headers were read: its size, and its windows.

use super::jpeg::JpegParts;
use super::{
    Decoded, Decoder, ImageHeaders, ImageReadMode, ScaledImage, check_jpeg_mode, check_window,
    outside,
};
use crate::error::Error;
use crate::exif;
use crate::source::{BoxError, EncodedImage, ImageMode, PartialImage};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::PixelFormat;

/// An image whose headers were read, once for its size and all its windows.
#[derive(Debug)]
pub struct Opened<'a> {
    decoder: &'a mut Decoder,
    bytes: ImageBytes<'a>,
    headers: ImageHeaders,
    mode: ImageReadMode,
}

/// The form in which an image is stored, by which advice on decoding differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodedForm {
    Jpeg,
    /// A JPEG with several restart markers in each row.
    RecutJpeg,
    BitPlanes,
    /// An image file of another format.
    OtherFile,
    Pixels,
    Audio,
}

impl DecodedForm {
    /// In the order of the variants.
    pub(crate) const ALL: [Self; 6] =
        [Self::Jpeg, Self::RecutJpeg, Self::BitPlanes, Self::OtherFile, Self::Pixels, Self::Audio];
}

/// The bytes of an image.
#[derive(Debug)]
enum ImageBytes<'a> {
    /// All of them.
    Whole(&'a [u8]),
    /// The headers, and what decoding the window needs that was read.
    Parts(Box<PartialImage<'a>>, Option<Window>),
}

/// An image of which parts are read: its headers were, and its index.
#[derive(Debug)]
pub(crate) struct PartlyRead<'a> {
    image: Box<PartialImage<'a>>,
    parts: JpegParts,
}

impl<'a> PartlyRead<'a> {
    /// Reads the headers and the index of an image; `None` if the image must be read whole.
    ///
    /// # Errors
    ///
    /// If the bytes can't be read, or the headers are damaged.
    pub(crate) fn begin(image: PartialImage<'a>) -> Result<Option<Self>, BoxError> {
        let mut image = Box::new(image);
        let parts = JpegParts::read(&mut image)?;
        Ok(parts.map(|parts| Self { image, parts }))
    }
}

impl Decoder {
    /// Like [`open_as`](Self::open_as), for an image of which parts are read.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open).
    pub(crate) fn open_partly<'a>(
        &'a mut self,
        PartlyRead { image, parts }: PartlyRead<'a>,
        mode: ImageReadMode,
    ) -> Result<Opened<'a>, Error> {
        check_jpeg_mode(mode)?;
        let Size { height, width } = image.extent().size;
        let encoded = EncodedImage { mode: ImageMode::Jpeg, width, height, bytes: image.bytes() };
        let headers = ImageHeaders::Jpeg(self.jpeg.headers_of_parts(&encoded, parts)?);
        Ok(Opened { decoder: self, bytes: ImageBytes::Parts(image, None), headers, mode })
    }
}

impl<'a> Opened<'a> {
    pub(super) fn new(
        decoder: &'a mut Decoder,
        bytes: &'a [u8],
        headers: ImageHeaders,
        mode: ImageReadMode,
    ) -> Self {
        Self { decoder, bytes: ImageBytes::Whole(bytes), headers, mode }
    }

    /// Returns the image's size after orientation: the size that windows refer to.
    #[must_use]
    pub fn size(&self) -> Size {
        self.headers.size()
    }

    /// Returns the EXIF orientation of an image file, from 2 to 8, and its size as stored; `None` for one that is stored
    /// upright, and for pixels, which have none.
    pub(crate) fn turned(&self) -> Option<(u32, Size)> {
        self.headers.turned()
    }

    /// Returns the size of the upright picture, whether the image is turned or not.
    pub(crate) fn upright_size(&self) -> Size {
        let turned = self.turned();
        turned.map_or(self.size(), |(orientation, stored)| exif::upright_size(orientation, stored))
    }

    /// Returns the form in which the image is stored.
    pub(crate) fn form(&self) -> DecodedForm {
        match &self.headers {
            ImageHeaders::Jpeg(headers) => headers.form(),
            ImageHeaders::Raw(..) | ImageHeaders::Array { .. } => DecodedForm::Pixels,
            #[cfg(feature = "audio")]
            ImageHeaders::Audio(_) => DecodedForm::Audio,
            _ => DecodedForm::OtherFile,
        }
    }

    /// Returns false if more of the image is decoded than its rows down to those of the window, or if they are decoded scan
    /// by scan.
    #[must_use]
    pub fn decodes_windows(&self) -> bool {
        match &self.headers {
            ImageHeaders::Jpeg(headers) => headers.is_for_core(),
            ImageHeaders::Raw(..) | ImageHeaders::Array { .. } => true,
            #[cfg(feature = "audio")]
            ImageHeaders::Audio(_) => true,
            #[cfg(feature = "tiff")]
            ImageHeaders::Tiff(..) => true,
            _ => false,
        }
    }

    /// Returns the image that decoding at 1 / `factor` of the size gives; `None` if the image can't be decoded so, or it
    /// would not take less time.
    #[must_use]
    pub fn scaled(&self, factor: u32) -> Option<ScaledImage> {
        match &self.headers {
            ImageHeaders::Jpeg(headers) => headers.scaled(factor),
            _ => None,
        }
    }

    /// Decodes at a smaller scale from now on: windows refer to the smaller image.
    pub fn set_scale(&mut self, image: &ScaledImage) {
        if let ImageHeaders::Jpeg(headers) = &mut self.headers {
            headers.set_scale(image.factor);
        }
    }

    /// Returns the channels of a decoded pixel, and the type of their elements.
    #[must_use]
    pub fn format(&self) -> PixelFormat {
        match self.headers {
            ImageHeaders::Array { format, .. } => format,
            #[cfg(feature = "audio")]
            ImageHeaders::Audio(file) => file.pixels(),
            _ => self.mode.format(),
        }
    }

    /// Returns whether only parts of the image are read, so that a window must be [read](Self::read) first.
    pub(crate) fn is_partly_read(&self) -> bool {
        matches!(self.bytes, ImageBytes::Parts(..))
    }

    /// Reads what decoding `wanted` needs of an image of which parts are read.
    ///
    /// # Errors
    ///
    /// If the bytes can't be read, or the index is not that of the image.
    pub(crate) fn read(&mut self, wanted: Window) -> Result<(), BoxError> {
        let Self { decoder, bytes, headers, mode } = self;
        if let (ImageBytes::Parts(image, read), ImageHeaders::Jpeg(headers)) = (bytes, headers) {
            *read = None;
            check_window(wanted, headers.size())?;
            let gray = *mode == ImageReadMode::Gray;
            decoder.jpeg.read_window(image, headers, gray, wanted)?;
            *read = Some(wanted);
        }
        Ok(())
    }

    /// Decodes at least `wanted`; see the module's documentation.
    ///
    /// # Errors
    ///
    /// If the window is empty or outside the image, or if the pixels are damaged or cut short. Another
    /// window can be decoded after any error.
    pub fn decode(&mut self, wanted: Window) -> Result<Decoded<'_>, Error> {
        let bytes = match &self.bytes {
            ImageBytes::Whole(bytes) => bytes,
            ImageBytes::Parts(image, Some(read)) if *read == wanted => image.bytes(),
            ImageBytes::Parts(..) => {
                return Err(outside(wanted, self.size()));
            }
        };
        self.decoder.decode_opened(bytes, &self.headers, self.mode, wanted)
    }
}
