//! The steps that a geometry op draws for one sample.

use crate::author::RowProducer;
use crate::rows::{Resampling, RowFilter};
use crate::{Size, Window};

/// The method by which a resize weights the pixels it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Interpolation {
    /// A triangle filter whose width follows the scale, like torchvision's `BILINEAR` with
    /// `antialias=True` and Pillow's `BILINEAR`: within one level of both, and equal to torchvision's
    /// to the bit under [`NumberRule::Exact`](crate::NumberRule::Exact). The
    /// weights are integers that sum to 2^14, and sums of rows are not rounded to u8.
    #[default]
    BilinearAntialias,
    /// OpenCV's `INTER_AREA`, which FFCV uses, to the bit. Where it enlarges an axis, it
    /// interpolates between two pixels instead, as OpenCV does.
    Area,
    /// torchvision's `NEAREST`, which suits masks.
    Nearest,
    /// torchvision's `NEAREST_EXACT`, which is Pillow's `NEAREST`.
    NearestExact,
    /// torchvision's `BILINEAR` with `antialias=False`.
    Bilinear,
    /// torchvision's `BICUBIC` with `antialias=False`.
    Bicubic,
    /// torchvision's `BICUBIC` with `antialias=True`.
    BicubicAntialias,
}

impl Interpolation {
    /// Returns the code that produces the rows.
    #[must_use]
    pub const fn row_producer(self) -> RowProducer {
        match self {
            Self::BilinearAntialias => RowProducer::Compiled,
            _ => RowProducer::Called,
        }
    }

    /// Returns the corresponding row filter's interpolation, or `None` for the one that torchvision
    /// does not have.
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
pub enum GeometryStep {
    /// `out[y, x] = in[y + top, x + left]`, or `fill` where that pixel is outside the input.
    CropPad {
        /// The row of the input that becomes row 0.
        top: i32,
        /// The column of the input that becomes column 0.
        left: i32,
        /// The size of the output.
        size: Size,
        /// The colour of pixels outside the input.
        fill: [u8; 3],
    },
    /// `out[y, x] = in[y, width - 1 - x]`.
    FlipHorizontal,
    /// `out[y, x] = in[height - 1 - y, x]`.
    FlipVertical,
    /// Scales the whole input to `size`. The input is rounded to u8 first.
    Resize {
        /// The size of the output.
        size: Size,
        /// The method by which pixels are weighted.
        interpolation: Interpolation,
    },
    /// Applies a row filter to the whole input, which is rounded to u8 first.
    Rows(RowFilter),
}

impl GeometryStep {
    /// Builds a crop, which is a frame inside its input.
    #[must_use]
    pub fn crop(window: Window) -> Self {
        Self::CropPad {
            top: window.top as i32,
            left: window.left as i32,
            size: window.size(),
            fill: [0; 3],
        }
    }

    /// Returns true if the step computes its rows from a whole u8 image.
    #[must_use]
    pub const fn produces_rows(&self) -> bool {
        self.row_producer().is_some()
    }

    /// Returns the code that produces the rows of this step; `None` if the step only moves pixels.
    #[must_use]
    pub const fn row_producer(&self) -> Option<RowProducer> {
        match self {
            Self::Resize { interpolation, .. } => Some(interpolation.row_producer()),
            Self::Rows(_) => Some(RowProducer::Called),
            Self::CropPad { .. } | Self::FlipHorizontal | Self::FlipVertical => None,
        }
    }

    /// Returns the row filter that implements this step, if there is one.
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

    /// Returns the size of the image after this step.
    #[must_use]
    pub fn output(&self, input: Size) -> Size {
        match *self {
            Self::CropPad { size, .. } | Self::Resize { size, .. } => size,
            Self::Rows(ref filter) => filter.output(input),
            Self::FlipHorizontal | Self::FlipVertical => input,
        }
    }
}
