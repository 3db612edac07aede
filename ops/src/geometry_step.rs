//! The steps that a geometry op draws for one sample.

use crate::Size;
use crate::author::RowProducer;
use crate::rows::{Resampling, RowFilter};
use crate::shape::Window;

/// The method by which a resize weights the pixels it reads.
///
/// ```
/// # use fuseloop_ops::*;
/// let sharp = Resize::new(256)?.interpolation(Interpolation::Bicubic);
/// let aliased = Resize::new(256)?.interpolation(Interpolation::Bilinear.antialias(false));
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Interpolation {
    /// A triangle filter whose width follows the scale: torchvision's `BILINEAR` with `antialias=True`, its
    /// default, and Pillow's `BILINEAR`. Within one level of both, and equal to torchvision's to the bit under
    /// [`NumberRule::Exact`](crate::NumberRule::Exact). The weights are integers that sum to 2^14, and sums of
    /// rows are not rounded to u8.
    #[default]
    Bilinear,
    /// OpenCV's `INTER_AREA`, which FFCV uses, to the bit. Where it enlarges an axis, it
    /// interpolates between two pixels instead, as OpenCV does.
    Area,
    /// torchvision's `NEAREST`, which suits masks.
    Nearest,
    /// torchvision's `NEAREST_EXACT`, which is Pillow's `NEAREST`.
    NearestExact,
    /// torchvision's `BICUBIC` with `antialias=True`, its default.
    Bicubic,
    /// Two pixels per axis at any scale: torchvision's `BILINEAR` with `antialias=False`, and OpenCV's
    /// `INTER_LINEAR` within one level. Small sizes miss pixels.
    BilinearAliased,
    /// Four pixels per axis at any scale: torchvision's `BICUBIC` with `antialias=False`. Small sizes miss pixels.
    BicubicAliased,
}

impl Interpolation {
    /// Returns the interpolation with or without antialiasing, torchvision's `antialias`: `Bilinear` and `Bicubic`
    /// become [`BilinearAliased`](Self::BilinearAliased) and [`BicubicAliased`](Self::BicubicAliased), and back.
    /// The others are unchanged, as in torchvision.
    #[must_use]
    pub const fn antialias(self, antialias: bool) -> Self {
        match (self, antialias) {
            (Self::Bilinear | Self::BilinearAliased, true) => Self::Bilinear,
            (Self::Bilinear | Self::BilinearAliased, false) => Self::BilinearAliased,
            (Self::Bicubic | Self::BicubicAliased, true) => Self::Bicubic,
            (Self::Bicubic | Self::BicubicAliased, false) => Self::BicubicAliased,
            (other, _) => other,
        }
    }

    /// Returns true if a pixel may be computed from several others.
    pub(crate) const fn blends(self) -> bool {
        !matches!(self, Self::Nearest | Self::NearestExact)
    }

    /// Returns the corresponding row filter's interpolation, or `None` for the one that torchvision
    /// does not have.
    const fn resampling(self) -> Option<Resampling> {
        match self {
            Self::Bilinear => Some(Resampling::BilinearAntialias),
            Self::Area => None,
            Self::Nearest => Some(Resampling::Nearest),
            Self::NearestExact => Some(Resampling::NearestExact),
            Self::Bicubic => Some(Resampling::BicubicAntialias),
            Self::BilinearAliased => Some(Resampling::Bilinear),
            Self::BicubicAliased => Some(Resampling::Bicubic),
        }
    }
}

/// One step that moves pixels.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let crop = GeometryStep::CropPad { top: 4, left: 4, size: Size::from(24), fill: [0; 3] };
/// let steps = [crop, GeometryStep::FlipHorizontal];
/// # let _ = steps;
/// ```
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
    /// Scales a part of the input to `size` as [`Interpolation::Bilinear`] does, like Pillow's `resize` with a
    /// `box`. The part may begin and end inside pixels. The input is u8. The planner makes this step of a `Resize`
    /// whose image is decoded at a smaller scale.
    #[doc(hidden)]
    ResizePart {
        /// The size of the output.
        size: Size,
        /// Where the part begins and ends, in pixels of the input: its rows, then its columns.
        part: [[f64; 2]; 2],
    },
    /// Applies a row filter to the whole input, which is rounded to u8 first.
    Rows(RowFilter),
}

/// Builds a crop, which is a frame inside its input.
#[must_use]
pub fn crop(window: Window) -> GeometryStep {
    GeometryStep::CropPad {
        top: window.top as i32,
        left: window.left as i32,
        size: window.size(),
        fill: [0; 3],
    }
}

/// Returns the code that produces the rows of a resize.
#[must_use]
pub const fn resize_producer(interpolation: Interpolation) -> RowProducer {
    match interpolation {
        Interpolation::Bilinear => RowProducer::Compiled,
        _ => RowProducer::Called,
    }
}

/// Returns true if the step computes its rows from a whole u8 image.
#[must_use]
pub const fn produces_rows(step: &GeometryStep) -> bool {
    row_producer(step).is_some()
}

/// Returns the code that produces the rows of a step; `None` if the step only moves pixels.
#[must_use]
pub const fn row_producer(step: &GeometryStep) -> Option<RowProducer> {
    match step {
        GeometryStep::Resize { interpolation, .. } => Some(resize_producer(*interpolation)),
        GeometryStep::ResizePart { .. } => Some(RowProducer::Compiled),
        GeometryStep::Rows(_) => Some(RowProducer::Called),
        GeometryStep::CropPad { .. }
        | GeometryStep::FlipHorizontal
        | GeometryStep::FlipVertical => None,
    }
}

/// Returns the row filter that implements a step, if there is one.
#[must_use]
pub fn row_filter(step: &GeometryStep) -> Option<RowFilter> {
    match *step {
        GeometryStep::Resize { size, interpolation } => {
            let interpolation = interpolation.resampling()?;
            Some(RowFilter::Resample { size, interpolation })
        }
        GeometryStep::Rows(ref filter) => Some(filter.clone()),
        _ => None,
    }
}

/// Returns the size of the image after a step.
#[must_use]
pub fn output(step: &GeometryStep, input: Size) -> Size {
    match *step {
        GeometryStep::CropPad { size, .. }
        | GeometryStep::Resize { size, .. }
        | GeometryStep::ResizePart { size, .. } => size,
        GeometryStep::Rows(ref filter) => filter.output(input),
        GeometryStep::FlipHorizontal | GeometryStep::FlipVertical => input,
    }
}
