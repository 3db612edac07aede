//! Convolution with a kernel of which few weights are not 0: motion blur, sharpening, embossing.
//!
//! ```text
//! out[y, x] = rint(Σ w[i, j] * in[reflect(y + i - floor(n/2)), reflect(x + j - floor(n/2))])      n x n weights
//! ```
//!
//! All is computed in f32; each product and each sum is rounded, row by row of the kernel, and weights of 0 are left out.
//! `rint` rounds to nearest, ties to even, and clamps to `0..=255`; `reflect` is [`PadMode::Reflect`](super::PadMode::Reflect).
//! OpenCV's `filter2D` with its default border, but for the order of its sums: values differ by at most 1.
//!
//! | | |
//! |--------|-------------------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart                 |
//! | output | as the input                                                      |
//! | random | nothing                                                           |
//! | cost   | a value: a multiplication and an addition for each weight         |

use super::separable::{Line, tap, widen};
use super::{byte, grow, grow_kept};
use crate::memory::NoMemory;
use crate::shape::ImageView;
use std::ops::Range;

/// A square kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConvolutionKernel {
    /// Nine weights, row by row.
    Square([[f32; 3]; 3]),
    /// The pixels of a line, which weigh the same.
    Line(MotionLine),
}

/// The line of a motion blur: of each of `side` points with equal distances, the kernel contains the nearest pixel.
///
/// ```text
/// x_i = floor(side/2) + cos(angle) t_i + shift[0]      y_i likewise with sin(angle)      t_i from ends[0] to ends[1]
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MotionLine {
    /// Pixels of a side of the kernel, an odd number.
    pub side: u32,
    /// The direction in degrees, from the columns towards the rows.
    pub angle: f32,
    /// Where the line begins and ends, in pixels from its middle.
    pub ends: [f32; 2],
    /// How far the middle is from that of the kernel, along x and along y.
    pub shift: [f32; 2],
}

/// A weight of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weight {
    pub(super) row: u32,
    pub(super) column: u32,
    pub(super) weight: f32,
}

impl ConvolutionKernel {
    /// Returns the number of pixels of a side.
    pub(super) const fn side(&self) -> u32 {
        match self {
            Self::Square(_) => 3,
            Self::Line(line) => line.side,
        }
    }

    /// Returns whether results can leave the range of the values, which are levels.
    pub(super) const fn clamps(&self) -> bool {
        matches!(self, Self::Square(_))
    }

    /// Sets the weights that are not 0, row by row.
    pub(super) fn set(&self, out: &mut Vec<Weight>) {
        out.clear();
        match self {
            Self::Square(rows) => {
                for (row, weights) in (0..).zip(rows) {
                    let weights = (0..).zip(weights).filter(|(_, weight)| **weight != 0.0);
                    out.extend(weights.map(|(column, &weight)| Weight { row, column, weight }));
                }
            }
            Self::Line(line) => line.set(out),
        }
        if out.is_empty() {
            out.push(Weight { row: 0, column: 0, weight: 0.0 });
        }
    }
}

impl MotionLine {
    fn set(&self, out: &mut Vec<Weight>) {
        let (last, middle) = (self.side - 1, f64::from(self.side / 2));
        let (down, across) = libm::sincos(f64::from(self.angle).to_radians());
        let [start, end] = self.ends.map(f64::from);
        let step = (end - start) / f64::from(last.max(1));
        let place = |direction: f64, t: f64, shift: f32| {
            let place = middle + direction * t + f64::from(shift);
            place.round_ties_even().clamp(0.0, f64::from(last)) as u32
        };
        out.extend((0..self.side).map(|i| {
            let t = if i == last { end } else { start + f64::from(i) * step };
            let (row, column) = (place(down, t, self.shift[1]), place(across, t, self.shift[0]));
            Weight { row, column, weight: 1.0 }
        }));
        out.sort_unstable_by_key(|pixel| (pixel.row, pixel.column));
        out.dedup();
        let share = 1.0 / out.len() as f32;
        out.iter_mut().for_each(|pixel| pixel.weight = share);
    }
}

pub(super) fn eval(kernel: ConvolutionKernel, input: &ImageView<'_>) -> Vec<u8> {
    let (size, channels) = (input.size(), input.channels());
    let (mut weights, side) = (vec![], kernel.side() as usize);
    kernel.set(&mut weights);
    let mut pixels = Vec::with_capacity(size.pixels() as usize * channels);
    for y in 0..size.height {
        for x in 0..size.width {
            for c in 0..channels {
                let mut sum = 0.0;
                for &Weight { row, column, weight } in &weights {
                    let row = input.row(tap(y, row as usize, side, size.height));
                    let x = tap(x, column as usize, side, size.width) as usize;
                    sum += weight * f32::from(row[x * channels + c]);
                }
                pixels.push(byte(sum));
            }
        }
    }
    pixels
}

/// The working memory.
#[derive(Clone, Debug, Default)]
pub(super) struct ConvolutionScratch {
    weights: Vec<Weight>,
    /// Source rows as f32, with the pixels before and behind them that the kernel reads.
    lines: Vec<Line>,
    sums: Vec<f32>,
}

impl ConvolutionScratch {
    /// Prepares to filter `input`.
    pub(super) fn rows<'a>(
        &'a mut self,
        kernel: ConvolutionKernel,
        input: ImageView<'a>,
        columns: Range<u32>,
    ) -> Result<ConvolutionRows<'a>, NoMemory> {
        kernel.set(&mut self.weights);
        let side = kernel.side() as usize;
        // The rows under a kernel, reflected or not, are at most this many adjacent rows.
        let span = side.min(input.size().height as usize);
        if self.lines.len() < span {
            self.lines.resize(span, Line::default());
        }
        for line in &mut self.lines {
            line.row = None; // the line is of another image
            grow_kept(&mut line.values, (columns.len() + side - 1) * input.channels())?;
        }
        Ok(ConvolutionRows { input, columns, side, span, scratch: self })
    }
}

/// The rows of one image after a convolution.
#[derive(Debug)]
pub(super) struct ConvolutionRows<'a> {
    input: ImageView<'a>,
    columns: Range<u32>,
    side: usize,
    /// The number of lines in use; the line of a source row is at its index modulo this.
    span: usize,
    scratch: &'a mut ConvolutionScratch,
}

impl ConvolutionRows<'_> {
    #[inline(always)]
    pub(super) fn row<const C: usize>(&mut self, y: u32, out: &mut [u8]) {
        let ConvolutionScratch { weights, lines, sums } = &mut *self.scratch;
        grow(sums, out.len());
        let sums = &mut sums[..out.len()];
        sums.fill(0.0);
        for &Weight { row, column, weight } in &*weights {
            let source = tap(y, row as usize, self.side, self.input.size().height);
            let line = &mut lines[source as usize % self.span];
            if line.row != Some(source) {
                line.row = Some(source);
                let row = self.input.row(source);
                widen::<C>(row, &self.columns, self.side, &mut line.values);
            }
            let values = &line.values[column as usize * C..][..sums.len()];
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += weight * value;
            }
        }
        for (out, &sum) in out.iter_mut().zip(&*sums) {
            *out = byte(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(line: MotionLine) -> Vec<(u32, u32)> {
        let mut weights = vec![];
        ConvolutionKernel::Line(line).set(&mut weights);
        weights.iter().map(|weight| (weight.row, weight.column)).collect()
    }

    #[test]
    fn a_line_has_the_nearest_pixels_of_its_points() {
        let line = MotionLine { side: 5, angle: 0.0, ends: [-2.0, 2.0], shift: [0.0; 2] };
        assert_eq!(pixels(line), [(2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]);
        let down = MotionLine { angle: 90.0, ends: [0.0, 2.0], ..line };
        assert_eq!(pixels(down), [(2, 2), (3, 2), (4, 2)]);
        let outside = MotionLine { shift: [9.0, -9.0], ..line };
        assert_eq!(pixels(outside), [(0, 4)]);
    }
}
