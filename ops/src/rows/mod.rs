//! Row filters: what makes the rows of a picture out of another picture.
//!
//! The compiled loop reads rows of u8 RGB pixels. What can't be folded into the addresses it reads
//! from (a warp, a blur, a resize of another kind than its own) makes one row at a time out of a
//! whole picture, right before the loop uses the row, so that no second picture is ever written:
//!
//! ```text
//! picture ──▶ row filter ──▶ row y, some columns ──▶ compiled loop
//! ```
//!
//! | | |
//! |--------|-------------------------------------------------------------------|
//! | input  | u8 `[H, W, 3]`, rows any stride apart                             |
//! | output | u8 `[h, w, 3]`, [`output`](RowFilter::output) its size            |
//! | random | nothing: what is drawn is a number in the filter                  |
//! | cost   | said by each filter; least if rows are asked for in turn, upwards or downwards |
//!
//! [`RowFilter::eval`] is the meaning, one value at a time. [`FilterRows`] gives the same bytes a
//! row at a time, any columns, in any order. Each filter has its file and its formula there. A
//! picture without pixels gives black.
//!
//! What a row runs through is `inline(always)`, so that a caller compiled for the CPU's widest
//! vectors has it compiled for them too: `filter_row` of `fuseloop-kernels` is one. The bits are
//! the same, since only what is written as fused is fused.

mod box_blur;
mod gaussian_blur;
mod map;
mod pad;
mod resample;
mod separable;
mod sharpen;
mod transpose;
mod warp;

pub use map::{Map, affine_matrix, expanded_size, perspective_coefficients, rotation_matrix};
pub use pad::{PadMode, Padding};
pub use resample::Resampling;
pub use warp::{Warp, WarpInterpolation};

use crate::shape::RGB;
use crate::{ImageView, NoMemory, Size, memory};
use std::ops::Range;

/// What makes the rows of a picture out of another one.
///
/// Any numbers give some picture, but memory is taken as they ask for it: that a kernel or a frame
/// is of a reasonable size is for the op to check that makes the filter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RowFilter {
    /// A resize of torchvision's.
    Resample {
        /// Size of the output.
        size: Size,
        /// Which one.
        interpolation: Resampling,
    },
    /// Rotation, affine, perspective.
    Warp(Warp),
    /// Rows and columns change places.
    Transpose,
    /// The picture framed with its own pixels.
    Pad(Padding),
    /// torchvision's `adjust_sharpness`.
    Sharpen {
        /// 0 is blurred, 1 the picture itself, 2 sharper.
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
}

impl RowFilter {
    /// Size of the picture made of one of size `input`.
    #[must_use]
    pub fn output(&self, input: Size) -> Size {
        match self {
            Self::Resample { size, .. } => *size,
            Self::Warp(warp) => warp.size,
            Self::Transpose => Size::new(input.width, input.height),
            Self::Pad(padding) => padding.output(input),
            Self::Sharpen { .. } | Self::GaussianBlur { .. } | Self::BoxBlur { .. } => input,
        }
    }

    /// The whole picture, packed: the meaning, one value at a time.
    #[must_use]
    pub fn eval(&self, input: &ImageView<'_>) -> Vec<u8> {
        if input.size().pixels() == 0 {
            return vec![0; self.output(input.size()).pixels() as usize * RGB];
        }
        match *self {
            Self::Resample { size, interpolation } => resample::eval(input, size, interpolation),
            Self::Warp(warp) => warp.eval(input),
            Self::Transpose => transpose::eval(input),
            Self::Pad(padding) => padding.eval(input),
            Self::Sharpen { factor } => sharpen::eval(input, factor),
            Self::GaussianBlur { kernel, sigma } => {
                gaussian_blur::separable(kernel, sigma).eval(input)
            }
            Self::BoxBlur { kernel } => box_blur::separable(kernel).eval(input),
        }
    }

    /// The picture a row at a time, of each row `columns`.
    ///
    /// Nothing is allocated once `scratch` has grown to what filters like this one need.
    ///
    /// # Errors
    ///
    /// If there is no memory for the rows that the filter keeps.
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
        let width = columns.len();
        let maker = if input.size().pixels() == 0 {
            Maker::Black
        } else {
            self.maker(input, columns, scratch)?
        };
        Ok(FilterRows { height: output.height, bytes: width * RGB, maker })
    }

    fn maker<'a>(
        &'a self,
        input: ImageView<'a>,
        columns: Range<u32>,
        scratch: &'a mut RowScratch,
    ) -> Result<Maker<'a>, NoMemory> {
        Ok(match self {
            Self::Resample { size, interpolation } => {
                Maker::Resample(scratch.resample.rows(input, (*size, *interpolation), columns)?)
            }
            Self::Warp(warp) => Maker::Warp(warp::WarpRows::new(warp, input, columns)),
            Self::Transpose => Maker::Transpose(transpose::TransposeRows::new(input, columns)),
            Self::Pad(padding) => Maker::Pad(pad::PadRows::new(*padding, input, columns)),
            Self::Sharpen { factor } => {
                let sums = &mut scratch.sharpen;
                Maker::Sharpen(sharpen::SharpenRows::new(*factor, input, columns, sums))
            }
            Self::GaussianBlur { kernel, sigma } => {
                gaussian_blur::fill(&mut scratch.separable.filter, *kernel, *sigma);
                Maker::Separable(scratch.separable.rows(input, columns)?)
            }
            Self::BoxBlur { kernel } => {
                box_blur::fill(&mut scratch.separable.filter, *kernel);
                Maker::Separable(scratch.separable.rows(input, columns)?)
            }
        })
    }
}

/// The working memory of row filters: one for each worker, reused from picture to picture.
#[derive(Clone, Debug, Default)]
pub struct RowScratch {
    resample: resample::Scratch,
    separable: separable::Scratch,
    sharpen: Vec<u16>,
}

/// One picture on its way through a row filter.
///
/// ```
/// use fuseloop_ops::rows::{RowFilter, RowScratch};
/// use fuseloop_ops::{ImageView, Size};
///
/// let pixels = [1, 1, 1, 2, 2, 2]; // one row of two pixels
/// let picture = ImageView::packed(&pixels, Size::new(1, 2)).unwrap();
/// let mut scratch = RowScratch::default();
/// let mut rows = RowFilter::Transpose.rows(picture, 0..1, &mut scratch)?;
/// let mut row = [0; 3];
/// rows.row(1, &mut row);
/// assert_eq!(row, [2; 3]);
/// # Ok::<(), fuseloop_ops::NoMemory>(())
/// ```
#[derive(Debug)]
pub struct FilterRows<'a> {
    height: u32,
    /// Of a row.
    bytes: usize,
    maker: Maker<'a>,
}

#[derive(Debug)]
enum Maker<'a> {
    /// Of a picture without pixels.
    Black,
    Resample(resample::ResampleRows<'a>),
    Warp(warp::WarpRows<'a>),
    Transpose(transpose::TransposeRows<'a>),
    Pad(pad::PadRows<'a>),
    Sharpen(sharpen::SharpenRows<'a>),
    Separable(separable::SeparableRows<'a>),
}

impl FilterRows<'_> {
    /// Writes output row `y`, those columns: `out` is `3 * columns.len()` bytes.
    ///
    /// # Panics
    ///
    /// If `y` is not below the output's height, or `out` is of another length.
    #[inline(always)]
    pub fn row(&mut self, y: u32, out: &mut [u8]) {
        assert!(y < self.height, "row {y} of {}", self.height);
        assert_eq!(out.len(), self.bytes, "bytes of a row");
        if out.is_empty() {
            return;
        }
        match &mut self.maker {
            Maker::Black => out.fill(0),
            Maker::Resample(rows) => rows.row(y, out),
            Maker::Warp(rows) => rows.row(y, out),
            Maker::Transpose(rows) => rows.row(y, out),
            Maker::Pad(rows) => rows.row(y, out),
            Maker::Sharpen(rows) => rows.row(y, out),
            Maker::Separable(rows) => rows.row(y, out),
        }
    }
}

/// Added to a number nearer 0 than 2^22, leaves its nearest integer (ties to even) in the low bits
/// of the sum: `round_ties_even` is a call on x86-64 without SSE4.1, this is a vector addition.
const ROUNDING: f32 = 12_582_912.0;

/// The integer nearest to a number nearer 0 than 2^22.
#[inline(always)]
fn whole(value: f32) -> f32 {
    (value + ROUNDING) - ROUNDING
}

/// The integer below, of such a number: `f32::floor` is a call without SSE4.1 too.
#[inline(always)]
fn floor(value: f32) -> f32 {
    let near = whole(value);
    if near > value { near - 1.0 } else { near }
}

/// The integer nearest to such a number.
#[inline(always)]
fn integer(value: f32) -> i32 {
    (value + ROUNDING).to_bits().wrapping_sub(ROUNDING.to_bits()) as i32
}

/// The nearest byte, ties to even; 0 of NaN.
#[inline(always)]
pub(crate) fn byte(value: f32) -> u8 {
    (clamp(value, 0.0, 255.0) + ROUNDING).to_bits() as u8
}

/// `f32::clamp` as two instructions, `low` of NaN.
#[inline(always)]
fn clamp(value: f32, low: f32, high: f32) -> f32 {
    let value = if value > low { value } else { low };
    if value < high { value } else { high }
}

/// Makes the memory of a kept row at least `len` long: a filter keeps as many rows as its kernel or
/// its scale spans.
fn grow_kept<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> Result<(), NoMemory> {
    memory::resize(buffer, len.max(buffer.len()), "rows that a filter keeps")
}

/// Makes `buffer` at least `len` long. What it holds is anyone's.
#[inline(always)]
fn grow<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
}

#[cfg(test)]
mod tests;
