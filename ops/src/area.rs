//! Area resize: OpenCV's `INTER_AREA` for 8-bit images, to the bit.
//!
//! FFCV uses this filter for every resize, in its decoders and in its writer, so files and batches can
//! be compared byte by byte. Let an axis have `S` source and `D` output pixels, and let `inv = D / S`
//! and `s = 1 / inv`, in doubles. The rule is chosen once, for both axes:
//!
//! | when                          | rule      | `out` is                                        |
//! |-------------------------------|-----------|-------------------------------------------------|
//! | equal sizes                   | copy      | `in`                                            |
//! | both `s` integers, 2 and 2    | block     | `(sum of 4 + 2) >> 2`                           |
//! | both `s` integers             | block     | `rint(f32(sum) * (1f32 / (kx * ky)))`           |
//! | both `s >= 1`                 | area      | mean weighted by covered area, in f32, see below |
//! | otherwise (an axis enlarges)  | two taps  | bilinear in 11-bit fixed point, see below       |
//!
//! *Area*: output `d` covers `[d*s, d*s + min(s, S - d*s))`; the weight of a source pixel is its
//! covered share, and shares below 1/1000 of a pixel are left out. The order of the f32 sums is part of
//! the definition: each source row is summed along x first, then the rows are added from top to bottom.
//! `rint` rounds to the nearest integer, ties to even. *Two taps*: `i = floor(d*s)`, and
//! `f = (d+1) - (i+1)*inv` reduced to its fractional part (0 if negative); the weights are
//! `rint((1-f)*2048)` and `rint(f*2048)`; rows are blended as
//! `(((b0*(T0>>4))>>16) + ((b1*(T1>>4))>>16) + 2) >> 2`. An image that shrinks along one axis and grows
//! along the other is therefore not antialiased, as in OpenCV.
//!
//! | | |
//! |--------|------------------------------------------------------------------|
//! | input  | u8 `[S_y, S_x, C]`, C in 1..=4, rows with any stride             |
//! | output | u8 `[D_y, D_x, C]`, packed                                       |
//! | random | nothing                                                          |
//! | cost   | each source pixel is read once if output rows are taken in order |
//!
//! [`resize`] is the reference implementation. [`AreaRows`] produces the same bytes one row at a time,
//! for any window and in any order; the compiled loops and the writer use it.

mod rows;

pub use rows::{AreaRows, AreaScratch, AreaTables};

use crate::Size;
use crate::rows::PixelTaps;
use crate::shape::ImageView;

/// The reason why a resize is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AreaError {
    /// A side is zero pixels long.
    #[error("cannot resize {source_size} to {out}: a side has no pixels")]
    Empty {
        /// The size of the image.
        source_size: Size,
        /// The requested output size.
        out: Size,
    },
    /// The tables were built for images of another size.
    #[error("the image is {found}, but the tables were built for {expected}")]
    Source {
        /// The size of the image.
        found: Size,
        /// The size that the tables were built for.
        expected: Size,
    },
    /// The requested columns are outside the output.
    #[error("columns {start}..{end} are outside the output, which is {width} wide")]
    Columns {
        /// The first requested column.
        start: u32,
        /// One past the last requested column.
        end: u32,
        /// The width of the output.
        width: u32,
    },
}

/// The rule of the module's table that applies to a pair of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Copy,
    /// The mean of `kx * ky` pixels.
    Block {
        kx: u32,
        ky: u32,
    },
    Area,
    TwoTaps,
}

impl Rule {
    fn of(source: Size, out: Size) -> Result<Self, AreaError> {
        if source.pixels() == 0 || out.pixels() == 0 {
            return Err(AreaError::Empty { source_size: source, out });
        }
        let (x, y) = (Axis::new(source.width, out.width), Axis::new(source.height, out.height));
        Ok(if source == out {
            Self::Copy
        } else if x.scale < 1.0 || y.scale < 1.0 {
            Self::TwoTaps
        } else if let (Some(kx), Some(ky)) = (x.integer_scale(), y.integer_scale()) {
            Self::Block { kx, ky }
        } else {
            Self::Area
        })
    }
}

/// One axis of a resize.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// The number of source pixels.
    source: u32,
    /// Output pixels per source pixel.
    inv: f64,
    /// Source pixels per output pixel, `1 / inv`. This is not always the double nearest to the exact
    /// quotient.
    scale: f64,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions are not negative and below 2^32; f32 is the precision OpenCV keeps"
)]
impl Axis {
    fn new(source: u32, out: u32) -> Self {
        let inv = f64::from(out) / f64::from(source);
        Self { source, inv, scale: 1.0 / inv }
    }

    /// Returns the scale if it is an integer within OpenCV's tolerance.
    fn integer_scale(self) -> Option<u32> {
        let nearest = self.scale.round_ties_even();
        ((self.scale - nearest).abs() < f64::EPSILON).then_some(nearest as u32)
    }

    /// Appends the source pixels that output `d` covers, each with its weight.
    fn area(self, d: u32, taps: &mut Vec<(u32, f32)>) {
        let start = f64::from(d) * self.scale;
        let end = start + self.scale;
        let cell = self.scale.min(f64::from(self.source) - start);
        // `as` rounds down here, since positions are not negative. `f64::floor` would be a function
        // call.
        let (floor, last) = (start as u32, (end as u32).min(self.source - 1));
        let first = (floor + u32::from(start > f64::from(floor))).min(last);
        let head = f64::from(first) - start;
        if head > SLIVER {
            taps.push((first - 1, (head / cell) as f32));
        }
        let whole = (1.0 / cell) as f32;
        taps.extend((first..last).map(|source| (source, whole)));
        let tail = end - f64::from(last);
        if tail > SLIVER {
            taps.push((last, (tail.min(1.0).min(cell) / cell) as f32));
        }
    }

    /// Returns the first of the two source pixels of output `d`, and the share of the second.
    fn two_taps(self, d: u32) -> (u32, f32) {
        let first = (f64::from(d) * self.scale) as u32;
        let share = (f64::from(d) + 1.0 - (f64::from(first) + 1.0) * self.inv) as f32;
        (first, if share <= 0.0 { 0.0 } else { share.fract() })
    }

    /// Does the same as [`two_taps`](Self::two_taps) along x, where no second pixel is read beyond the
    /// edge.
    fn two_taps_inside(self, d: u32) -> (u32, f32) {
        let last = self.source - 1;
        let (first, share) = self.two_taps(d);
        if first >= last { (last, 0.0) } else { (first, share) }
    }
}

/// A covered share of a pixel up to which no tap is added (OpenCV, `computeResizeAreaTab`).
const SLIVER: f64 = 1e-3;

/// Returns the weights of the two taps in units of 1/2048.
#[expect(clippy::cast_possible_truncation, reason = "in 0..=2048")]
fn fixed_weights(share: f32) -> [i16; 2] {
    [(1.0 - share) * 2048.0, share * 2048.0].map(|w| w.round_ties_even() as i16)
}

/// Returns, for both axes, what appends the taps of an output pixel, for images whose elements are not bytes:
/// the same weights, before they are rounded to integers.
pub(crate) fn float_taps(source: Size, out: Size) -> [impl FnMut(u32, &mut PixelTaps); 2] {
    let axes = [(source.width, out.width), (source.height, out.height)];
    let axes = axes.map(|(source, out)| Axis::new(source, out));
    let enlarges = source != out && axes.iter().any(|axis| axis.scale < 1.0);
    axes.map(|axis| {
        move |d, taps: &mut PixelTaps| {
            if !enlarges {
                return axis.area(d, taps);
            }
            let (first, share) = axis.two_taps_inside(d);
            taps.push((first, 1.0 - share));
            taps.push(((first + 1).min(axis.source - 1), share));
        }
    })
}

/// Resizes a whole image. This is the reference implementation, which computes one value at a time.
///
/// Returns `[out.height, out.width, channels]`, packed, with the channels of `source`.
///
/// # Errors
///
/// If either size has no pixels.
pub fn resize(source: ImageView<'_>, out: Size) -> Result<Vec<u8>, AreaError> {
    let rule = Rule::of(source.size(), out)?;
    let x_axis = Axis::new(source.size().width, out.width);
    let y_axis = Axis::new(source.size().height, out.height);
    let channels = source.channels();
    let mut pixels = Vec::with_capacity(out.pixels() as usize * channels);
    for y in 0..out.height {
        for x in 0..out.width {
            for channel in 0..channels {
                let at = |y: u32, x: u32| source.row(y)[x as usize * channels + channel];
                pixels.push(match rule {
                    Rule::Copy => at(y, x),
                    Rule::Block { kx, ky } => block(at, (y, x), (ky, kx)),
                    Rule::Area => area(at, (y_axis, y), (x_axis, x)),
                    Rule::TwoTaps => two_taps(at, (y_axis, y), (x_axis, x)),
                });
            }
        }
    }
    Ok(pixels)
}

/// Returns the mean of block `(y, x)`, where each block has `ky` rows and `kx` columns.
fn block(at: impl Fn(u32, u32) -> u8, (y, x): (u32, u32), (ky, kx): (u32, u32)) -> u8 {
    let columns = || x * kx..(x + 1) * kx;
    let sum = (y * ky..(y + 1) * ky)
        .flat_map(|y| columns().map(move |x| (y, x)))
        .map(|(y, x)| i64::from(at(y, x)))
        .sum();
    block_mean(sum, ky, kx)
}

/// Returns the mean of a block whose values add up to `sum`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the mean of bytes is a byte; OpenCV takes the sum as f32 too"
)]
fn block_mean(sum: i64, ky: u32, kx: u32) -> u8 {
    if (ky, kx) == (2, 2) {
        return ((sum + 2) >> 2) as u8;
    }
    (sum as f32 * (1.0 / (ky as f32 * kx as f32))).round_ties_even() as u8
}

/// Returns the mean weighted by covered area: first along x, then along y.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn area(at: impl Fn(u32, u32) -> u8, (y_axis, y): (Axis, u32), (x_axis, x): (Axis, u32)) -> u8 {
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    y_axis.area(y, &mut rows);
    x_axis.area(x, &mut columns);
    let mut total = 0.0;
    for &(y, weight) in &rows {
        let mut line = 0.0;
        for &(x, weight) in &columns {
            line += f32::from(at(y, x)) * weight;
        }
        total += weight * line;
    }
    total.round_ties_even() as u8
}

/// Interpolates bilinearly in fixed point.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in 0..=255")]
fn two_taps(at: impl Fn(u32, u32) -> u8, (y_axis, y): (Axis, u32), (x_axis, x): (Axis, u32)) -> u8 {
    let (left, share) = x_axis.two_taps_inside(x);
    let right = (left + 1).min(x_axis.source - 1);
    let [a0, a1] = fixed_weights(share).map(i32::from);
    let line = |y: u32| {
        let y = y.min(y_axis.source - 1);
        (i32::from(at(y, left)) * a0 + i32::from(at(y, right)) * a1) >> 4
    };
    let (top, share) = y_axis.two_taps(y);
    let [b0, b1] = fixed_weights(share).map(i32::from);
    ((((b0 * line(top)) >> 16) + ((b1 * line(top + 1)) >> 16) + 2) >> 2) as u8
}

#[cfg(test)]
mod tests;
