//! Basic image types: sizes, windows, element types, layouts, and a borrowed image.

use std::fmt;

/// Bytes of a u8 pixel: red, green, blue.
pub const RGB: usize = 3;

/// The largest number of channels whose pixels are processed as a whole.
pub const MAX_CHANNELS: usize = 4;

/// Height and width in pixels.
///
/// ```
/// # use fuseloop_ops::*;
/// assert_eq!(Size::from(224), Size::new(224, 224));
/// assert_eq!(Size::from((2, 3)).pixels(), 6);
/// assert_eq!(Size::new(1080, 1920).to_string(), "1920x1080");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Size {
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

impl Size {
    /// A size of `height` rows and `width` columns.
    #[must_use]
    pub const fn new(height: u32, width: u32) -> Self {
        Self { height, width }
    }

    /// Returns `height * width`.
    #[must_use]
    pub const fn pixels(self) -> u64 {
        self.height as u64 * self.width as u64
    }

    /// Returns the window that covers an image of this size.
    #[must_use]
    pub const fn full(self) -> Window {
        Window { top: 0, left: 0, height: self.height, width: self.width }
    }
}

/// One number is both the height and the width.
impl From<u32> for Size {
    fn from(side: u32) -> Self {
        Self::new(side, side)
    }
}

/// Two numbers are the height and the width, in this order.
impl From<(u32, u32)> for Size {
    fn from((height, width): (u32, u32)) -> Self {
        Self::new(height, width)
    }
}

/// Shows the width before the height, as sizes of pictures and videos are written: `1920x1080`.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// A rectangle of an image, in pixels from its top left corner.
///
/// ```
/// # use fuseloop_ops::author::*;
/// let window = Window { top: 10, left: 20, height: 2, width: 3 };
/// assert_eq!(window.size().pixels(), 6);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// First row.
    pub top: u32,
    /// First column.
    pub left: u32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

impl Window {
    /// Returns the window's size.
    #[must_use]
    pub const fn size(self) -> Size {
        Size { height: self.height, width: self.width }
    }
}

/// Returns true if the window is inside an image of `size`.
#[must_use]
pub const fn is_inside(window: Window, size: Size) -> bool {
    window.top as u64 + window.height as u64 <= size.height as u64
        && window.left as u64 + window.width as u64 <= size.width as u64
}

/// The type of one element of a tensor.
///
/// ```
/// # use fuseloop_ops::*;
/// assert_eq!((DType::U8.bytes(), DType::Bf16.bytes(), DType::F64.bytes()), (1, 2, 8));
/// let half = ops![Normalize::imagenet(), Convert::to(DType::F16)];
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// Unsigned byte.
    U8,
    /// 16-bit unsigned integer.
    U16,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// All element types.
pub const DTYPES: [DType; 9] = {
    use DType::{Bf16, F16, F32, F64, I16, I32, I64, U8, U16};
    [U8, U16, I16, I32, I64, F16, Bf16, F32, F64]
};

impl DType {
    /// Returns the size of one element in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }
}

impl DType {
    /// Returns the least and the largest value of an integer type, as the nearest `f32`; `None` for a float
    /// type.
    pub(crate) const fn integer_range(self) -> Option<[f32; 2]> {
        match self {
            Self::U8 => Some([0.0, u8::MAX as f32]),
            Self::U16 => Some([0.0, u16::MAX as f32]),
            Self::I16 => Some([i16::MIN as f32, i16::MAX as f32]),
            Self::I32 => Some([i32::MIN as f32, i32::MAX as f32]),
            Self::I64 => Some([i64::MIN as f32, i64::MAX as f32]),
            Self::F16 | Self::Bf16 | Self::F32 | Self::F64 => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// The order of an image's axes.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let image = ImageType::decoded(Dim::fixed(8), Dim::fixed(8));
/// assert_eq!(image.layout, Layout::ChannelsLast);
/// let Type::Image(planes) = ToChannelsFirst.output(&Type::Image(image))? else { unreachable!() };
/// assert_eq!(planes.layout, Layout::ChannelsFirst);
/// # Ok::<(), TypeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `[H, W, C]`: the channels of a pixel are adjacent.
    ChannelsLast,
    /// `[C, H, W]`: each channel is a plane.
    ChannelsFirst,
    /// `[H, W]`: one channel, which has no axis.
    Plane,
}

/// The elements of a pixel: their number, which is that of the channels, and their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PixelFormat {
    /// The number of channels.
    pub channels: usize,
    /// The type of an element.
    pub dtype: DType,
}

impl PixelFormat {
    /// The format of a decoded image: a byte a channel.
    #[must_use]
    pub const fn bytes(channels: usize) -> Self {
        Self { channels, dtype: DType::U8 }
    }

    /// Returns the number of bytes of a pixel.
    #[must_use]
    pub const fn pixel_bytes(self) -> usize {
        self.channels * self.dtype.bytes()
    }

    /// Returns true if each element is a byte.
    #[must_use]
    pub const fn is_bytes(self) -> bool {
        matches!(self.dtype, DType::U8)
    }
}

/// A borrowed image, `[H, W, C]`, rows `stride` bytes apart, or `[C, H, W]`, planes `plane` bytes apart. Elements
/// are little-endian and may begin at any address.
#[derive(Clone, Copy, Debug)]
pub struct ImageView<'a> {
    data: &'a [u8],
    size: Size,
    stride: usize,
    format: PixelFormat,
    /// The bytes from one plane to the next; `None` if the channels of a pixel are adjacent.
    plane: Option<usize>,
}

impl<'a> ImageView<'a> {
    /// Returns a view of an RGB image whose first row begins at `data[0]`.
    ///
    /// Returns `None` if `data` ends before the last row does, or if a row is longer than `stride`.
    #[must_use]
    pub fn new(data: &'a [u8], size: Size, stride: usize) -> Option<Self> {
        Self::of_channels(data, size, RGB, stride)
    }

    /// Like [`new`](Self::new), for an image of `channels` bytes a pixel: 1 to 4.
    #[must_use]
    pub fn of_channels(data: &'a [u8], size: Size, channels: usize, stride: usize) -> Option<Self> {
        let format = PixelFormat::bytes(channels);
        let is_pixel = (1..=MAX_CHANNELS).contains(&channels);
        is_pixel.then(|| Self::of_format(data, size, format, stride)).flatten()
    }

    /// Like [`new`](Self::new), for an image of any number of channels of any type.
    #[must_use]
    pub fn of_format(
        data: &'a [u8],
        size: Size,
        format: PixelFormat,
        stride: usize,
    ) -> Option<Self> {
        let row = (size.width as usize).checked_mul(format.pixel_bytes())?;
        if row > stride || format.channels == 0 {
            return None;
        }
        let needed = match (size.height as usize).checked_sub(1) {
            None => 0,
            Some(before_last) => before_last.checked_mul(stride)?.checked_add(row)?,
        };
        (needed <= data.len()).then_some(Self { data, size, stride, format, plane: None })
    }

    /// Returns a view of an image whose channels are planes, `[C, H, W]`, without gaps.
    #[must_use]
    pub fn planes(data: &'a [u8], size: Size, format: PixelFormat) -> Option<Self> {
        let stride = (size.width as usize).checked_mul(format.dtype.bytes())?;
        let plane = (size.height as usize).checked_mul(stride)?;
        let needed = plane.checked_mul(format.channels)?;
        let view = Self { data, size, stride, format, plane: Some(plane) };
        (needed <= data.len() && format.channels > 0).then_some(view)
    }

    /// Returns the view of one channel, if the channels are planes.
    #[must_use]
    pub fn plane(&self, channel: usize) -> Option<Self> {
        let first = self.plane?.checked_mul(channel)?;
        let format = PixelFormat { channels: 1, ..self.format };
        Self::of_format(self.data.get(first..)?, self.size, format, self.stride)
    }

    /// Returns a view of an RGB image without gaps between its rows.
    #[must_use]
    pub fn packed(data: &'a [u8], size: Size) -> Option<Self> {
        Self::packed_channels(data, size, RGB)
    }

    /// Like [`packed`](Self::packed), for an image of `channels` bytes a pixel: 1 to 4.
    #[must_use]
    pub fn packed_channels(data: &'a [u8], size: Size, channels: usize) -> Option<Self> {
        Self::packed_format(data, size, PixelFormat::bytes(channels))
    }

    /// Like [`packed`](Self::packed), for an image of any number of channels of any type.
    #[must_use]
    pub fn packed_format(data: &'a [u8], size: Size, format: PixelFormat) -> Option<Self> {
        let stride = (size.width as usize).checked_mul(format.pixel_bytes())?;
        Self::of_format(data, size, format, stride)
    }

    /// Returns the height and width.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// Returns the number of channels.
    #[must_use]
    pub const fn channels(&self) -> usize {
        self.format.channels
    }

    /// Returns the channels and the type of an element.
    #[must_use]
    pub const fn format(&self) -> PixelFormat {
        self.format
    }

    /// Returns the number of bytes from one row to the next.
    #[must_use]
    pub const fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the number of bytes from one plane to the next, if the channels are planes.
    #[must_use]
    pub const fn plane_bytes(&self) -> Option<usize> {
        self.plane
    }

    /// Returns the bytes, starting at the first pixel.
    #[must_use]
    pub const fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Returns the bytes of row `y`.
    ///
    /// # Panics
    ///
    /// If `y` is not below the height, or if the channels are planes.
    #[must_use]
    pub fn row(&self, y: u32) -> &'a [u8] {
        assert!(y < self.size.height, "row {y} is outside the image of {}", self.size);
        assert!(self.plane.is_none(), "the channels are planes, each with rows of its own");
        let start = y as usize * self.stride;
        &self.data[start..start + self.size.width as usize * self.format.pixel_bytes()]
    }

    /// Returns a view of the part inside `window`, without copying; `None` if `window` is empty or
    /// does not fit.
    #[must_use]
    pub fn crop(&self, window: Window) -> Option<Self> {
        if !is_inside(window, self.size) || window.height == 0 || window.width == 0 {
            return None;
        }
        let pixel = match self.plane {
            None => self.format.pixel_bytes(),
            Some(_) => self.format.dtype.bytes(),
        };
        let start = window.top as usize * self.stride + window.left as usize * pixel;
        if self.plane.is_some() {
            return Some(Self { data: &self.data[start..], size: window.size(), ..*self });
        }
        Self::of_format(&self.data[start..], window.size(), self.format, self.stride)
    }
}
