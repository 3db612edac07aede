//! The types of what goes into an op and comes out of it.

use crate::shape::Layout;
use crate::{DType, Size};
use std::fmt;

/// The range of an image side that is known before any sample is read.
///
/// ```
/// # use fuseloop_ops::author::*;
/// let side = Dim { min: 32, max: 512 };
/// assert_ne!(side, Dim::fixed(32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim {
    /// The smallest number of pixels.
    pub min: u32,
    /// The largest number of pixels.
    pub max: u32,
}

impl Dim {
    /// A side that is the same for all samples.
    #[must_use]
    pub const fn fixed(side: u32) -> Self {
        Self { min: side, max: side }
    }

    /// Returns the side, if it is the same for all samples.
    #[must_use]
    pub(crate) const fn get(self) -> Option<u32> {
        if self.min == self.max { Some(self.min) } else { None }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(side) => write!(f, "{side}"),
            None => write!(f, "{}..={}", self.min, self.max),
        }
    }
}

/// An image between two ops: `[height, width, channels]` or `[channels, height, width]`.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let photo = ImageType::decoded(Dim { min: 1, max: 4096 }, Dim { min: 1, max: 4096 });
/// assert_eq!((photo.channels, photo.size()), (3, None));
/// let depth = ImageType::array(Size::new(480, 640), 1, DType::U16);
/// assert_eq!((depth.is_levels, depth.size()), (false, Some(Size::new(480, 640))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageType {
    /// Rows.
    pub height: Dim,
    /// Columns.
    pub width: Dim,
    /// Channels: 1 (gray, or the class numbers of a mask), 2 (gray and alpha), 3 (red, green and blue),
    /// 4 (and alpha), or more (bands).
    pub channels: u16,
    /// Type of an element.
    pub dtype: DType,
    /// The axes and their order.
    pub layout: Layout,
    /// True if the values are levels of light: 0 is black and 255 is white. Stored bytes are, and stay so when
    /// they are converted to another type; the values of other arrays, and normalized values, are not. Ops that
    /// change brightness or colour take levels only.
    pub is_levels: bool,
}

impl ImageType {
    /// A decoded image: RGB, u8, channels last.
    #[must_use]
    pub const fn decoded(height: Dim, width: Dim) -> Self {
        Self {
            height,
            width,
            channels: 3,
            dtype: DType::U8,
            layout: Layout::ChannelsLast,
            is_levels: true,
        }
    }

    /// An array of numbers, `[height, width, channels]`: an image whose values are levels only if they are
    /// bytes.
    #[must_use]
    pub fn array(size: Size, channels: u16, dtype: DType) -> Self {
        let image = Self::from(size).with_channels(channels);
        Self { dtype, is_levels: dtype == DType::U8, ..image }
    }

    /// Returns this type with another number of channels. An image without an axis for its one channel gets one, as
    /// its last.
    #[must_use]
    pub const fn with_channels(self, channels: u16) -> Self {
        let layout = match self.layout {
            Layout::Plane if channels != 1 => Layout::ChannelsLast,
            layout => layout,
        };
        Self { channels, layout, ..self }
    }

    /// Returns this type with another size.
    #[must_use]
    pub const fn with_size(self, size: Size) -> Self {
        Self { height: Dim::fixed(size.height), width: Dim::fixed(size.width), ..self }
    }

    /// Returns the size, if it is the same for all samples.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        Some(Size { height: self.height.get()?, width: self.width.get()? })
    }
}

/// RGB images of one size.
impl From<Size> for ImageType {
    fn from(size: Size) -> Self {
        Self::decoded(Dim::fixed(size.height), Dim::fixed(size.width))
    }
}

/// The type of a value between two ops.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let label = Type::Tensor { dtype: DType::I64, shape: vec![] };
/// let one_hot = OneHot::new(10)?.output(&label)?;
/// assert_eq!(one_hot, Type::Tensor { dtype: DType::F32, shape: vec![10] });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// An image.
    Image(ImageType),
    /// Numbers of a fixed shape: labels, arrays.
    Tensor {
        /// Type of an element.
        dtype: DType,
        /// Elements along each axis, without the batch axis.
        shape: Vec<usize>,
    },
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(i) if i.layout == Layout::ChannelsFirst => {
                write!(f, "a {} image [{}, {}, {}]", i.dtype, i.channels, i.height, i.width)
            }
            Self::Image(i) if i.layout == Layout::Plane => {
                write!(f, "a {} image [{}, {}]", i.dtype, i.height, i.width)
            }
            Self::Image(i) => {
                write!(f, "a {} image [{}, {}, {}]", i.dtype, i.height, i.width, i.channels)
            }
            Self::Tensor { dtype, shape } if shape.is_empty() => {
                write!(f, "one {dtype} per sample")
            }
            Self::Tensor { dtype, shape } => write!(f, "a {dtype} tensor {shape:?}"),
        }
    }
}
