//! What a geometry op does to one sample, once drawn.

use crate::rows::{Resampling, RowFilter};
use crate::{RowMaker, Size, Window};

/// How a resize weighs the pixels it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Interpolation {
    /// A triangle as wide as the scale asks for, as torchvision's `BILINEAR` with
    /// `antialias=True` and Pillow's `BILINEAR`: within one level of both, and torchvision's to
    /// the bit under [`NumberRule::Exact`](crate::NumberRule::Exact). See
    /// [`bilinear`](crate::bilinear).
    #[default]
    BilinearAntialias,
    /// OpenCV's `INTER_AREA`, which FFCV uses: bit for bit. See [`area`](crate::area).
    Area,
    /// torchvision's `NEAREST`: what masks want.
    Nearest,
    /// torchvision's `NEAREST_EXACT`, Pillow's `NEAREST`.
    NearestExact,
    /// torchvision's `BILINEAR` with `antialias=False`.
    Bilinear,
    /// torchvision's `BICUBIC` with `antialias=False`.
    Bicubic,
    /// torchvision's `BICUBIC` with `antialias=True`.
    BicubicAntialias,
}

impl Interpolation {
    /// Who makes its rows.
    #[must_use]
    pub const fn maker(self) -> RowMaker {
        match self {
            Self::BilinearAntialias => RowMaker::Compiled,
            _ => RowMaker::Called,
        }
    }

    /// What torchvision calls it, if it is one of torchvision's.
    const fn resampling(self) -> Option<Resampling> {
        match self {
            Self::BilinearAntialias => Some(Resampling::BilinearAntialias),
            Self::Area => None,
            Self::Nearest => Some(Resampling::Nearest),
            Self::NearestExact => Some(Resampling::NearestExact),
            Self::Bilinear => Some(Resampling::Bilinear),
            Self::Bicubic => Some(Resampling::Bicubic),
            Self::BicubicAntialias => Some(Resampling::BicubicAntialias),
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
    /// Rows made of the whole input, which is rounded to u8 first.
    Rows(RowFilter),
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
        self.maker().is_some()
    }

    /// Who makes its rows, if it makes some.
    #[must_use]
    pub const fn maker(&self) -> Option<RowMaker> {
        match self {
            Self::Resize { interpolation, .. } => Some(interpolation.maker()),
            Self::Rows(_) => Some(RowMaker::Called),
            Self::Frame { .. } | Self::FlipHorizontal | Self::FlipVertical => None,
        }
    }

    /// The row filter that does it, if one does.
    #[must_use]
    pub fn filter(&self) -> Option<RowFilter> {
        match *self {
            Self::Resize { size, interpolation } => {
                let interpolation = interpolation.resampling()?;
                Some(RowFilter::Resample { size, interpolation })
            }
            Self::Rows(ref filter) => Some(filter.clone()),
            _ => None,
        }
    }

    /// The size after this step.
    #[must_use]
    pub fn output(&self, input: Size) -> Size {
        match *self {
            Self::Frame { size, .. } | Self::Resize { size, .. } => size,
            Self::Rows(ref filter) => filter.output(input),
            Self::FlipHorizontal | Self::FlipVertical => input,
        }
    }
}
