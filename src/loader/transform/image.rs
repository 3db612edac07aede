//! The images that a transform takes: pixels, whose bytes are borrowed, or the bytes of an image file.

use crate::batch::Element;
use crate::decode::{Decoder, ImageReadMode};
use crate::error::{Error, fail};
use crate::loader::compile_context::LARGEST_SIDE;
use crate::loader::opened_image::OpenedImage;
use crate::source::{EncodedImage, ImageMode};
use fuseloop_engine::batch::bytes_of;
use fuseloop_ops::author::{Dim, ImageType, Layout};
use fuseloop_ops::internals::{ImageView, PixelFormat, is_loaded};
use fuseloop_ops::{DType, Size};

/// An image that the caller holds, for a [`Transform`](super::Transform). Pixels are borrowed, not copied.
///
/// | made by | pixels | the ops see |
/// |---|---|---|
/// | [`rgb`](Self::rgb) | u8 `[height, width, 3]` | a decoded image |
/// | [`pixels`](Self::pixels), [`rows`](Self::rows) | `[height, width, channels]` | an image, channels last |
/// | [`planes`](Self::planes) | `[channels, height, width]` | an image, channels first |
/// | [`plane`](Self::plane) | `[height, width]` | an image of one channel, without an axis of channels |
/// | [`encoded`](Self::encoded) | the bytes of an image file | what the read mode says, by default RGB |
///
/// Elements are u8, u16, i16, f16, bf16 or f32, in native byte order. A side has 1 to 65,535 pixels.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a>(pub(super) Source<'a>);

/// Where the pixels are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// In memory, with at most this layout's axes.
    Pixels(ImageView<'a>, Layout),
    /// In an image file.
    File(EncodedImage<'a>),
}

/// The type of the images that one compiled list serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PixelType {
    pub(super) channels: u16,
    pub(super) dtype: DType,
    pub(super) layout: Layout,
}

impl PixelType {
    /// The type of the pixels of image files.
    pub(super) fn of_files(mode: ImageReadMode) -> Self {
        Self { channels: mode.channels(), dtype: mode.dtype(), layout: Layout::ChannelsLast }
    }

    /// Returns the images of this type, of one size or any.
    pub(super) fn images(self, size: Option<Size>) -> ImageType {
        let any = Dim { min: 1, max: LARGEST_SIDE };
        let [height, width] =
            size.map_or([any; 2], |size| [size.height, size.width].map(Dim::fixed));
        let Self { channels, dtype, layout } = self;
        let image = ImageType::decoded(height, width).with_channels(channels);
        ImageType { dtype, layout, is_levels: dtype == DType::U8, ..image }
    }
}

impl<'a> Image<'a> {
    /// An RGB image of `height` rows, top down, without gaps: `pixels` has `height * width * 3` bytes.
    ///
    /// # Errors
    ///
    /// If `pixels` has another length, or a side is 0 or more than 65,535.
    pub fn rgb(pixels: &'a [u8], height: usize, width: usize) -> Result<Self, Error> {
        Self::pixels(pixels, [height, width, 3])
    }

    /// An image `[height, width, channels]` without gaps.
    ///
    /// ```
    /// use fuseloop::transform::Image;
    ///
    /// let depth = vec![0.5_f32; 48 * 64];
    /// let image = Image::pixels(&depth, [48, 64, 1])?;
    /// assert!(Image::pixels(&depth, [48, 65, 1]).is_err());
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `pixels` has another length, an axis is 0, a side is more than 65,535, or there are more than 65,535 channels;
    /// if `T` is a type that ops do not take.
    pub fn pixels<T: Element>(pixels: &'a [T], shape: [usize; 3]) -> Result<Self, Error> {
        let [height, width, channels] = shape;
        Self::packed(T::DTYPE, bytes_of(pixels), (height, width, channels), Layout::ChannelsLast)
    }

    /// An image `[height, width, channels]` whose rows begin `stride` elements apart: a part of a larger image, or rows
    /// with a padding. `pixels` begins with the first pixel, and may end with the last.
    ///
    /// # Errors
    ///
    /// If `stride` is less than a row, or `pixels` ends before the last row does; see [`pixels`](Self::pixels).
    pub fn rows<T: Element>(
        pixels: &'a [T],
        shape: [usize; 3],
        stride: usize,
    ) -> Result<Self, Error> {
        let stride = stride.saturating_mul(size_of::<T>());
        Self::of_rows(T::DTYPE, bytes_of(pixels), shape, stride)
    }

    /// An image `[channels, height, width]` without gaps, as torch has it.
    ///
    /// # Errors
    ///
    /// See [`pixels`](Self::pixels).
    pub fn planes<T: Element>(pixels: &'a [T], shape: [usize; 3]) -> Result<Self, Error> {
        let [channels, height, width] = shape;
        Self::packed(T::DTYPE, bytes_of(pixels), (height, width, channels), Layout::ChannelsFirst)
    }

    /// An image `[height, width]` of one channel, without gaps.
    ///
    /// # Errors
    ///
    /// See [`pixels`](Self::pixels).
    pub fn plane<T: Element>(pixels: &'a [T], shape: [usize; 2]) -> Result<Self, Error> {
        let [height, width] = shape;
        Self::packed(T::DTYPE, bytes_of(pixels), (height, width, 1), Layout::Plane)
    }

    /// An image file of any format that is read, as its first bytes say. Only the window that the ops need is
    /// decoded, where the format allows it. A file that is damaged is an error of the call that decodes it.
    #[must_use]
    pub fn encoded(bytes: &'a [u8]) -> Self {
        let mode = ImageMode::of_file(bytes);
        Self(Source::File(EncodedImage { mode, width: 0, height: 0, bytes }))
    }

    /// Pixels without gaps, as bytes.
    pub(crate) fn packed(
        dtype: DType,
        bytes: &'a [u8],
        (height, width, channels): (usize, usize, usize),
        layout: Layout,
    ) -> Result<Self, Error> {
        let (size, format) = format_of(dtype, (height, width, channels))?;
        let expected = (size.pixels() as usize).saturating_mul(format.pixel_bytes());
        if bytes.len() != expected {
            let (found, expected) =
                (bytes.len() / dtype.bytes(), expected.checked_div(dtype.bytes()).unwrap_or(0));
            return Err(fail!(
                Parameter,
                "an image of {size} with {channels} channel(s) has {expected} elements, but {found} are given"
            ));
        }
        let view = match layout {
            Layout::ChannelsFirst if channels > 1 => ImageView::planes(bytes, size, format),
            _ => ImageView::packed_format(bytes, size, format),
        };
        Ok(Self(Source::Pixels(view.ok_or_else(|| too_large(size))?, layout)))
    }

    /// Rows of pixels `stride` bytes apart, as bytes.
    pub(crate) fn of_rows(
        dtype: DType,
        bytes: &'a [u8],
        [height, width, channels]: [usize; 3],
        stride: usize,
    ) -> Result<Self, Error> {
        let (size, format) = format_of(dtype, (height, width, channels))?;
        let view = ImageView::of_format(bytes, size, format, stride).ok_or_else(|| {
            fail!(
                Parameter,
                "{} bytes with rows {stride} bytes apart hold no image of {size} with {channels} channel(s) of {dtype}",
                bytes.len()
            )
        })?;
        Ok(Self(Source::Pixels(view, Layout::ChannelsLast)))
    }

    /// Returns whether the pixels can be those of a mask.
    pub(super) fn is_index(&self) -> bool {
        match self.0 {
            Source::Pixels(view, _) => view.format() == PixelFormat::bytes(1),
            Source::File(_) => true,
        }
    }

    /// Returns the type of the pixels, if image files are read as `mode`.
    pub(super) fn pixel_type(&self, mode: ImageReadMode) -> PixelType {
        match self.0 {
            Source::Pixels(view, layout) => {
                let PixelFormat { channels, dtype } = view.format();
                PixelType { channels: channels as u16, dtype, layout }
            }
            Source::File(_) => PixelType::of_files(mode),
        }
    }

    /// Opens the image: reads the headers of a file.
    pub(super) fn open<'d>(
        &self,
        decoder: &'d mut Decoder,
        mode: ImageReadMode,
    ) -> Result<OpenedImage<'d>, Error>
    where
        'a: 'd,
    {
        Ok(match self.0 {
            Source::File(image) => OpenedImage::Value(decoder.open_as(&image, mode)?),
            Source::Pixels(view, Layout::ChannelsFirst) if view.channels() > 1 => {
                let (bytes, size, format) = (view.data(), view.size(), view.format());
                let opened = decoder.open_array(bytes, size, format, Layout::ChannelsFirst)?;
                OpenedImage::Value(opened)
            }
            Source::Pixels(view, _) => OpenedImage::Pixels(view),
        })
    }
}

/// Checks the axes of an image, and the type of its elements.
fn format_of(
    dtype: DType,
    (height, width, channels): (usize, usize, usize),
) -> Result<(Size, PixelFormat), Error> {
    if !is_loaded(dtype) {
        return Err(fail!(
            Parameter,
            "an image of {dtype}: ops take u8, u16, i16, f16, bf16 and f32"
        ));
    }
    let side =
        |side: usize| u32::try_from(side).ok().filter(|side| (1..=LARGEST_SIDE).contains(side));
    let is_counted = (1..=usize::from(u16::MAX)).contains(&channels);
    match (side(height), side(width)) {
        (Some(height), Some(width)) if is_counted => {
            Ok((Size::new(height, width), PixelFormat { channels, dtype }))
        }
        _ => Err(fail!(
            Parameter,
            "an image of {height} rows, {width} columns and {channels} channels: each must be 1 to {LARGEST_SIDE}"
        )),
    }
}

fn too_large(size: Size) -> Error {
    fail!(Parameter, "an image of {size} has more bytes than an address can count")
}
