//! Row filters: compute the rows of an image from another image.
//!
//! The compiled loop reads rows of u8 pixels. An op that can't be folded into the addresses that the
//! loop reads from (a warp, a blur, a resize other than the compiled one) computes one row at a time from
//! a whole image, right before the loop uses the row, so that no second image is ever written:
//!
//! ```text
//! image ──▶ row filter ──▶ row y, some columns ──▶ compiled loop
//! ```
//!
//! | | |
//! |--------|-------------------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart; other elements: `float.rs` |
//! | output | u8 `[h, w, C]`; [`output`](RowFilter::output) returns its size     |
//! | random | nothing: drawn numbers are fields of the filter                   |
//! | cost   | see each filter; lowest if rows are requested in sequence, upwards or downwards |
//!
//! [`RowFilter::eval`] is the definition, one value at a time. [`FilterRows`] returns the same
//! bytes one row at a time, for any columns, in any order. Each filter has its own file with its
//! formula. An image without pixels produces black. Channels do not mix, but for the three of
//! a colour in [`RowFilter::Jpeg`]: each channel of the output is what the filter makes of the same channel of the input.
//!
//! The functions that compute a row have the number of channels as a constant, `C`. Some compute a pixel in
//! `L` lanes: 1 for one channel, and otherwise 4, because vectors have four. The lanes behind the pixel's
//! are of the next pixel, which overwrites them.
//!
//! Row filters are plain Rust and not compiled with the loop, because gathers and wide filters gain least from the
//! 128-bit vectors of the code generator.
//!
//! The functions that compute a row are `inline(always)`, so that a caller compiled for the CPU's
//! widest vectors compiles them for these vectors too: `filter_row` of `fuseloop-kernels` is such a
//! caller. The bits are the same, because only operations that are written as fused are fused.

mod box_blur;
mod convolution;
mod displacement;
mod float;
mod gaussian_blur;
mod jpeg;
mod map;
mod median;
mod pad;
mod permutation;
mod pixelate;
mod resample;
mod row_mean;
mod separable;
mod sharpen;
mod tiles;
mod transpose;
mod warp;

pub use convolution::{ConvolutionKernel, MotionLine};
pub use displacement::{Displacement, DisplacementField, Lens};
pub(crate) use float::PixelTaps;
pub use float::{FloatRows, FloatScratch, eval as eval_floats};
pub use map::{
    BLOCK, Coordinates, Map, affine_matrix, expanded_size, perspective_coefficients,
    rotation_matrix,
};
pub(crate) use median::LONGEST as LONGEST_MEDIAN;
pub use pad::{PadMode, Padding};
pub use permutation::RowPermutation;
pub use resample::Resampling;
pub use tiles::Tiles;
pub use warp::{Warp, WarpInterpolation, WarpRows};

use crate::memory::NoMemory;
use crate::shape::ImageView;
use crate::{Size, memory};
use std::ops::Range;

/// A filter that computes the rows of an image from another image.
///
/// All parameter values are accepted, but they determine how much memory is allocated: the op that
/// builds the filter must check that a kernel or a border has a reasonable size.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RowFilter {
    /// One of torchvision's resizes.
    Resample {
        /// Size of the output.
        size: Size,
        /// The interpolation.
        interpolation: Resampling,
    },
    /// A rotation, an affine transform or a perspective.
    Warp(Warp),
    /// Swaps rows and columns.
    Transpose,
    /// Adds a border of the image's own pixels.
    Pad(Padding),
    /// Rows in a random order, as many as wanted.
    Permute(RowPermutation),
    /// The mean of all rows, as one row.
    RowMean,
    /// torchvision's `adjust_sharpness`.
    Sharpen {
        /// 0 is blurred, 1 is the image itself, 2 is sharper.
        factor: f64,
    },
    /// A Gaussian blur.
    GaussianBlur {
        /// Columns and rows of the kernel.
        kernel: [u32; 2],
        /// Standard deviations along a row and along a column, in pixels.
        sigma: [f32; 2],
    },
    /// The mean of a kernel's pixels.
    BoxBlur {
        /// Columns and rows of the kernel.
        kernel: [u32; 2],
    },
    /// A convolution with a square kernel.
    Convolve(ConvolutionKernel),
    /// The median of a square's pixels.
    Median {
        /// Pixels of a side: an odd number of at most 15.
        side: u32,
    },
    /// Every nearest pixel of a smaller image, enlarged again.
    Pixelate {
        /// The sides of the smaller image, as a share of the sides.
        scale: f32,
    },
    /// The tiles of a grid in another order.
    Tiles(Tiles),
    /// JPEG compression. The three channels of a colour image are coded together.
    Jpeg {
        /// The quality, 1 to 100.
        quality: u32,
    },
}

impl RowFilter {
    /// Returns the size of the output for an input of size `input`.
    #[must_use]
    pub fn output(&self, input: Size) -> Size {
        match self {
            Self::Resample { size, .. } => *size,
            Self::Warp(warp) => warp.size,
            Self::Transpose => Size::new(input.width, input.height),
            Self::Pad(padding) => padding.output(input),
            Self::Permute(permutation) => Size { height: permutation.rows, ..input },
            Self::RowMean => Size { height: 1, ..input },
            Self::Sharpen { .. }
            | Self::GaussianBlur { .. }
            | Self::BoxBlur { .. }
            | Self::Convolve(_)
            | Self::Median { .. }
            | Self::Pixelate { .. }
            | Self::Tiles(_)
            | Self::Jpeg { .. } => input,
        }
    }

    /// Returns the whole image, packed, with as many channels as the input. This is the definition,
    /// one value at a time.
    #[must_use]
    pub fn eval(&self, input: &ImageView<'_>) -> Vec<u8> {
        if input.size().pixels() == 0 {
            return vec![0; self.output(input.size()).pixels() as usize * input.channels()];
        }
        match *self {
            Self::Resample { size, interpolation } => resample::eval(input, size, interpolation),
            Self::Warp(ref warp) => warp.eval(input),
            Self::Transpose => transpose::eval(input),
            Self::Pad(padding) => padding.eval(input),
            Self::Permute(permutation) => permutation.eval(input),
            Self::RowMean => row_mean::eval(input),
            Self::Sharpen { factor } => sharpen::eval(input, factor),
            Self::GaussianBlur { kernel, sigma } => {
                gaussian_blur::separable(kernel, sigma).eval(input)
            }
            Self::BoxBlur { kernel } => box_blur::separable(kernel).eval(input),
            Self::Convolve(kernel) => convolution::eval(kernel, input),
            Self::Median { side } => median::eval(input, side),
            Self::Pixelate { scale } => pixelate::eval(input, scale),
            Self::Tiles(ref tiles) => tiles.eval(input),
            Self::Jpeg { quality } => jpeg::eval(input, quality),
        }
    }

    /// Returns an object that computes the image one row at a time, restricted to `columns`.
    ///
    /// Nothing is allocated once `scratch` has grown to the size that filters like this one need.
    ///
    /// # Errors
    ///
    /// If there is not enough memory for the rows that the filter caches.
    ///
    /// # Panics
    ///
    /// If a column is outside the output.
    pub fn rows<'a>(
        &'a self,
        input: ImageView<'a>,
        columns: Range<u32>,
        scratch: &'a mut RowScratch,
    ) -> Result<FilterRows<'a>, NoMemory> {
        let output = self.output(input.size());
        assert!(columns.start <= columns.end && columns.end <= output.width, "{columns:?}");
        let channels = input.channels();
        let bytes = columns.len() * channels;
        let maker = if input.size().pixels() == 0 {
            FilterState::Black
        } else {
            self.maker(input, columns, scratch)?
        };
        Ok(FilterRows { height: output.height, channels, bytes, maker })
    }

    fn maker<'a>(
        &'a self,
        input: ImageView<'a>,
        columns: Range<u32>,
        scratch: &'a mut RowScratch,
    ) -> Result<FilterState<'a>, NoMemory> {
        Ok(match self {
            Self::Resample { size, interpolation } => FilterState::Resample(
                scratch.resample.rows(input, (*size, *interpolation), columns)?,
            ),
            Self::Warp(warp) => {
                warp.prepare()?;
                FilterState::Warp(warp::WarpRows::new(warp, input, columns))
            }
            Self::Transpose => {
                FilterState::Transpose(transpose::TransposeRows::new(input, columns))
            }
            Self::Pad(padding) => FilterState::Pad(pad::PadRows::new(*padding, input, columns)),
            Self::Permute(permutation) => {
                FilterState::Permute(permutation::PermutedRows::new(*permutation, input, columns))
            }
            Self::RowMean => FilterState::RowMean(row_mean::MeanRow::new(input, columns)),
            Self::Sharpen { factor } => {
                let sums = &mut scratch.sharpen;
                FilterState::Sharpen(sharpen::SharpenRows::new(*factor, input, columns, sums))
            }
            Self::GaussianBlur { kernel, sigma } => {
                gaussian_blur::fill(&mut scratch.separable.filter, *kernel, *sigma);
                FilterState::Separable(scratch.separable.rows(input, columns)?)
            }
            Self::BoxBlur { kernel } => {
                box_blur::fill(&mut scratch.separable.filter, *kernel);
                FilterState::Separable(scratch.separable.rows(input, columns)?)
            }
            Self::Convolve(kernel) => {
                FilterState::Convolve(scratch.convolution.rows(*kernel, input, columns)?)
            }
            Self::Median { side } => {
                let rows = &mut scratch.median;
                FilterState::Median(median::MedianRows::new(*side, input, columns, rows)?)
            }
            Self::Pixelate { scale } => {
                FilterState::Pixelate(pixelate::PixelateRows::new(*scale, input, columns))
            }
            Self::Tiles(tiles) => FilterState::Tiles(tiles::TileRows::new(tiles, input, columns)),
            Self::Jpeg { quality } => {
                FilterState::Jpeg(scratch.jpeg.rows(*quality, input, columns)?)
            }
        })
    }
}

/// The working memory of row filters: one for each worker, reused from image to image.
#[derive(Clone, Debug, Default)]
pub struct RowScratch {
    resample: resample::ResampleScratch,
    separable: separable::SeparableScratch,
    sharpen: Vec<u16>,
    convolution: convolution::ConvolutionScratch,
    median: Vec<median::PaddedRow>,
    jpeg: jpeg::JpegScratch,
}

/// The rows of one image after a row filter.
///
/// ```
/// use fuseloop_ops::internals::rows::{RowFilter, RowScratch};
/// use fuseloop_ops::Size;
/// use fuseloop_ops::internals::ImageView;
///
/// let pixels = [1, 1, 1, 2, 2, 2]; // one row of two pixels
/// let picture = ImageView::packed(&pixels, Size::new(1, 2)).unwrap();
/// let mut scratch = RowScratch::default();
/// let mut rows = RowFilter::Transpose.rows(picture, 0..1, &mut scratch)?;
/// let mut row = [0; 3];
/// rows.row(1, &mut row);
/// assert_eq!(row, [2; 3]);
/// # Ok::<(), fuseloop_ops::internals::memory::NoMemory>(())
/// ```
#[derive(Debug)]
pub struct FilterRows<'a> {
    height: u32,
    channels: usize,
    /// The number of bytes of a row.
    bytes: usize,
    maker: FilterState<'a>,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is built for an image: a box would be allocated each time"
)]
enum FilterState<'a> {
    /// The output of an image without pixels.
    Black,
    Resample(resample::ResampleRows<'a>),
    Warp(warp::WarpRows<'a>),
    Transpose(transpose::TransposeRows<'a>),
    Pad(pad::PadRows<'a>),
    Permute(permutation::PermutedRows<'a>),
    RowMean(row_mean::MeanRow<'a>),
    Sharpen(sharpen::SharpenRows<'a>),
    Separable(separable::SeparableRows<'a>),
    Convolve(convolution::ConvolutionRows<'a>),
    Median(median::MedianRows<'a>),
    Pixelate(pixelate::PixelateRows<'a>),
    Tiles(tiles::TileRows<'a>),
    Jpeg(jpeg::JpegRows<'a>),
}

impl FilterRows<'_> {
    /// Returns the number of channels of the input and of the output.
    #[must_use]
    pub const fn channels(&self) -> usize {
        self.channels
    }

    /// Returns the rows of a warp; `None` if the filter is another.
    #[must_use]
    pub fn warp(&self) -> Option<&warp::WarpRows<'_>> {
        match &self.maker {
            FilterState::Warp(rows) => Some(rows),
            _ => None,
        }
    }

    /// Checks the arguments of [`row`](Self::row).
    ///
    /// # Panics
    ///
    /// If `y` is not below the output's height, or `out` is of another length.
    #[inline(always)]
    pub fn check(&self, y: u32, out: &[u8]) {
        assert!(y < self.height, "row {y} is outside the output of {} rows", self.height);
        assert_eq!(out.len(), self.bytes, "bytes of a row");
    }

    /// Writes the requested columns of output row `y`: `out` is `channels * columns.len()` bytes.
    ///
    /// # Panics
    ///
    /// If `y` is not below the output's height, or `out` is of another length.
    #[inline(always)]
    pub fn row(&mut self, y: u32, out: &mut [u8]) {
        match self.channels {
            1 => self.row_of::<1, 1>(y, out),
            2 => self.row_of::<2, 4>(y, out),
            3 => self.row_of::<3, 4>(y, out),
            _ => self.row_of::<4, 4>(y, out),
        }
    }

    /// Does what [`row`](Self::row) does, for `C` [`channels`](Self::channels) in `L` lanes: 1 for one
    /// channel, and otherwise 4. A caller that is compiled once for each `C` has smaller functions than
    /// one that calls [`row`](Self::row).
    ///
    /// # Panics
    ///
    /// If `C` is another number, and in the cases of [`row`](Self::row).
    #[inline(always)]
    pub fn row_of<const C: usize, const L: usize>(&mut self, y: u32, out: &mut [u8]) {
        const { assert!(L == if C == 1 { 1 } else { 4 }, "lanes of a pixel") };
        assert_eq!(C, self.channels, "channels of the image");
        self.check(y, out);
        if out.is_empty() {
            return;
        }
        match &mut self.maker {
            FilterState::Black => out.fill(0),
            FilterState::Resample(rows) => rows.row::<C, L>(y, out),
            FilterState::Warp(rows) => rows.row::<C, L>(y, out),
            FilterState::Transpose(rows) => rows.row::<C>(y, out),
            FilterState::Pad(rows) => rows.row::<C>(y, out),
            FilterState::Permute(rows) => rows.row::<C>(y, out),
            FilterState::RowMean(rows) => rows.row::<C>(out),
            FilterState::Sharpen(rows) => rows.row::<C>(y, out),
            FilterState::Separable(rows) => rows.row::<C>(y, out),
            FilterState::Convolve(rows) => rows.row::<C>(y, out),
            FilterState::Median(rows) => rows.row::<C>(y, out),
            FilterState::Pixelate(rows) => rows.row::<C>(y, out),
            FilterState::Tiles(rows) => rows.row::<C>(y, out),
            FilterState::Jpeg(rows) => rows.row::<C>(y, out),
        }
    }
}

/// If this constant is added to a number of magnitude below 2^22, the low bits of the sum are the
/// nearest integer (ties to even). `round_ties_even` is a function call on x86-64 without SSE4.1;
/// this is a vector addition.
const ROUNDING: f32 = 12_582_912.0;

/// Returns the nearest integer, as a float, of a number of magnitude below 2^22.
#[inline(always)]
fn whole(value: f32) -> f32 {
    (value + ROUNDING) - ROUNDING
}

/// Rounds such a number down: `f32::floor` is also a function call without SSE4.1.
#[inline(always)]
fn floor(value: f32) -> f32 {
    let near = whole(value);
    if near > value { near - 1.0 } else { near }
}

/// Returns the nearest integer of such a number.
#[inline(always)]
fn integer(value: f32) -> i32 {
    (value + ROUNDING).to_bits().wrapping_sub(ROUNDING.to_bits()) as i32
}

/// Returns the nearest byte, ties to even; 0 for NaN.
#[inline(always)]
pub(crate) fn byte(value: f32) -> u8 {
    (clamp(value, 0.0, 255.0) + ROUNDING).to_bits() as u8
}

/// `f32::clamp` as two instructions; returns `low` for NaN.
#[inline(always)]
fn clamp(value: f32, low: f32, high: f32) -> f32 {
    let value = if value > low { value } else { low };
    if value < high { value } else { high }
}

/// Grows the memory of a cached row to at least `len`: a filter caches as many rows as its kernel
/// or its scale spans.
fn grow_kept<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> Result<(), NoMemory> {
    memory::resize(buffer, len.max(buffer.len()), "rows that a filter caches")
}

/// Grows `buffer` to at least `len`. Its contents are unspecified.
#[inline(always)]
fn grow<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
}

#[cfg(test)]
mod tests;
