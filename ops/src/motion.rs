//! What a geometry op does to one sample, once drawn.

use crate::{RowMaker, Size, Window};

/// How a resize weighs the pixels it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Interpolation {
    /// A triangle as wide as the scale asks for, as torchvision's `BILINEAR` with
    /// `antialias=True` and Pillow's `BILINEAR`: within one level of both. See
    /// [`bilinear`](crate::bilinear).
    #[default]
    BilinearAntialias,
    /// OpenCV's `INTER_AREA`, which FFCV uses: bit for bit. See [`area`](crate::area).
    Area,
}

impl Interpolation {
    /// Who makes its rows.
    #[must_use]
    pub const fn maker(self) -> RowMaker {
        match self {
            Self::BilinearAntialias => RowMaker::Compiled,
            Self::Area => RowMaker::Called,
        }
    }
}

/// One step that moves pixels.
#[derive(Clone, Debug, PartialEq)]
pub enum Motion {
    /// `out[y, x] = in[y + top, x + left]`, or `fill` where that lies outside.
    Frame {
        /// Row of the input that becomes row 0.
        top: i32,
        /// Column of the input that becomes column 0.
        left: i32,
        /// Size of the output.
        size: Size,
        /// Colour of what lies outside the input.
        fill: [u8; 3],
    },
    /// `out[y, x] = in[y, width - 1 - x]`.
    FlipHorizontal,
    /// `out[y, x] = in[height - 1 - y, x]`.
    FlipVertical,
    /// The whole input, scaled to `size`. The input is rounded to u8 first.
    Resize {
        /// Size of the output.
        size: Size,
        /// How pixels are weighed.
        interpolation: Interpolation,
    },
}

impl Motion {
    /// A crop: a frame inside its input.
    #[must_use]
    pub fn crop(window: Window) -> Self {
        Self::Frame {
            top: window.top as i32,
            left: window.left as i32,
            size: window.size(),
            fill: [0; 3],
        }
    }

    /// Whether the step makes rows of its own, from a whole picture of bytes.
    #[must_use]
    pub const fn makes_rows(&self) -> bool {
        matches!(self, Self::Resize { .. })
    }

    /// The size after this step.
    #[must_use]
    pub fn output(&self, input: Size) -> Size {
        match *self {
            Self::Frame { size, .. } | Self::Resize { size, .. } => size,
            Self::FlipHorizontal | Self::FlipVertical => input,
        }
    }
}
