//! Separable filters: one kernel along x and one along y. Both blurs use this module.
//!
//! ```text
//! line[y, x] = Σ_j kx[j] * in[y, reflect(x + j - floor(n/2))]      n weights kx, m weights ky
//! out[y, x]  = rint((Σ_i ky[i] * line[reflect(y + i - floor(m/2)), x] + offset) * scale)
//! ```
//!
//! All is computed in f32; each product and each sum is rounded, in the order of the index. `rint` rounds
//! to nearest, ties to even, and clamps to `0..=255`; `reflect` is [`PadMode::Reflect`].
//!
//! [`SeparableRows`] caches one line for each source row that a kernel spans, so that each line is
//! computed once if rows are requested in sequence.

use super::pad::PadMode;
use super::{byte, grow, grow_kept};
use crate::memory::NoMemory;
use crate::shape::ImageView;
use std::ops::Range;

/// The weights, and the numbers that convert a sum to a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Separable {
    pub(super) x: Vec<f32>,
    pub(super) y: Vec<f32>,
    pub(super) offset: f32,
    pub(super) scale: f32,
}

impl Separable {
    pub(super) fn eval(&self, input: &ImageView<'_>) -> Vec<u8> {
        let (size, channels) = (input.size(), input.channels());
        let mut pixels = Vec::with_capacity(size.pixels() as usize * channels);
        for y in 0..size.height {
            for x in 0..size.width {
                for c in 0..channels {
                    let mut sum = 0.0;
                    for (i, weight) in self.y.iter().enumerate() {
                        let row = input.row(tap(y, i, self.y.len(), size.height));
                        let mut line = 0.0;
                        for (j, weight) in self.x.iter().enumerate() {
                            let x = tap(x, j, self.x.len(), size.width) as usize;
                            line += weight * f32::from(row[x * channels + c]);
                        }
                        sum += weight * line;
                    }
                    pixels.push(self.finish(sum));
                }
            }
        }
        pixels
    }

    #[inline(always)]
    fn finish(&self, sum: f32) -> u8 {
        byte((sum + self.offset) * self.scale)
    }
}

/// Returns the source pixel of weight `i` of `count` for a kernel over pixel `at` of `side`.
pub(super) fn tap(at: u32, i: usize, count: usize, side: u32) -> u32 {
    PadMode::Reflect.index(i64::from(at) + i as i64 - (count / 2) as i64, side)
}

/// The filter in use and its working memory.
#[derive(Clone, Debug, Default)]
pub(super) struct SeparableScratch {
    pub(super) filter: Separable,
    /// A source row's pixels as f32, with the pixels before and behind it that the kernel reads.
    wide: Vec<f32>,
    lines: Vec<Line>,
    /// The sums for a kernel of many rows.
    sums: Vec<f32>,
}

/// A source row, filtered along x or as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// The source row of the line; `None` before the line is first filled.
    pub(super) row: Option<u32>,
    pub(super) values: Vec<f32>,
}

impl SeparableScratch {
    /// Prepares to filter `input`.
    pub(super) fn rows<'a>(
        &'a mut self,
        input: ImageView<'a>,
        columns: Range<u32>,
    ) -> Result<SeparableRows<'a>, NoMemory> {
        // The rows under a kernel, reflected or not, are at most this many adjacent rows.
        let span = self.filter.y.len().min(input.size().height as usize);
        if self.lines.len() < span {
            self.lines.resize(span, Line::default());
        }
        for line in &mut self.lines {
            line.row = None; // the line is of another image
            grow_kept(&mut line.values, columns.len() * input.channels())?;
        }
        Ok(SeparableRows { input, columns, span, scratch: self })
    }
}

/// The rows of one image after a separable filter.
#[derive(Debug)]
pub(super) struct SeparableRows<'a> {
    input: ImageView<'a>,
    columns: Range<u32>,
    /// The number of lines in use; the line of a source row is at its index modulo this.
    span: usize,
    scratch: &'a mut SeparableScratch,
}

impl SeparableRows<'_> {
    #[inline(always)]
    pub(super) fn row<const C: usize>(&mut self, y: u32, out: &mut [u8]) {
        let (count, height) = (self.scratch.filter.y.len(), self.input.size().height);
        for i in 0..count {
            self.fill::<C>(tap(y, i, count, height));
        }
        let SeparableScratch { filter, lines, sums, .. } = &mut *self.scratch;
        let line =
            |i: usize| &lines[tap(y, i, count, height) as usize % self.span].values[..out.len()];
        grow(sums, out.len());
        let sums = &mut sums[..out.len()];
        let finish = |sum| filter.finish(sum);
        match *filter.y {
            [a] => weigh([a], [0].map(line), out, finish),
            [a, b, c] => weigh([a, b, c], [0, 1, 2].map(line), out, finish),
            [a, b, c, d, e] => weigh([a, b, c, d, e], [0, 1, 2, 3, 4].map(line), out, finish),
            _ => {
                weigh_many(&filter.y, line, sums);
                for (out, &sum) in out.iter_mut().zip(&*sums) {
                    *out = finish(sum);
                }
            }
        }
    }

    /// Computes the line of a source row, unless it is cached.
    #[inline(always)]
    fn fill<const C: usize>(&mut self, row: u32) {
        let SeparableScratch { filter, wide, lines, .. } = &mut *self.scratch;
        let line = &mut lines[row as usize % self.span];
        if line.row == Some(row) {
            return;
        }
        line.row = Some(row);
        let len = self.columns.len() * C;
        widen::<C>(self.input.row(row), &self.columns, filter.x.len(), wide);
        let shifted = |j: usize| &wide[j * C..j * C + len];
        let line = &mut line.values[..len];
        match *filter.x {
            [a] => weigh([a], [0].map(shifted), line, |sum| sum),
            [a, b, c] => weigh([a, b, c], [0, 1, 2].map(shifted), line, |sum| sum),
            [a, b, c, d, e] => {
                weigh([a, b, c, d, e], [0, 1, 2, 3, 4].map(shifted), line, |sum| sum);
            }
            _ => weigh_many(&filter.x, shifted, line),
        }
    }
}

/// Writes the columns of a row as f32, with the columns around them that a kernel of `count`
/// weights reads.
#[inline(always)]
pub(super) fn widen<const C: usize>(
    row: &[u8],
    columns: &Range<u32>,
    count: usize,
    wide: &mut Vec<f32>,
) {
    let pixels = row.as_chunks::<C>().0;
    let width = pixels.len() as u32;
    grow(wide, (columns.len() + count - 1) * C);
    // The number of columns before the row, and the first column inside it.
    let before = (count / 2).saturating_sub(columns.start as usize);
    let first = columns.start as usize + before - count / 2;
    let wide = &mut wide.as_chunks_mut::<C>().0[..columns.len() + count - 1];
    let inside = wide.len().saturating_sub(before).min(pixels.len() - first);
    let (left, rest) = wide.split_at_mut(before.min(wide.len()));
    let (middle, right) = rest.split_at_mut(inside);
    let bytes = pixels[first..first + inside].as_flattened();
    for (value, &byte) in middle.as_flattened_mut().iter_mut().zip(bytes) {
        *value = f32::from(byte);
    }
    let halo = |i: usize| pixels[tap(columns.start, i, count, width) as usize].map(f32::from);
    for (i, value) in left.iter_mut().enumerate() {
        *value = halo(i);
    }
    for (i, value) in right.iter_mut().enumerate() {
        *value = halo(before + inside + i);
    }
}

/// Writes the weighted sums of `N` lines.
#[inline(always)]
fn weigh<const N: usize, T>(
    weights: [f32; N],
    lines: [&[f32]; N],
    out: &mut [T],
    finish: impl Fn(f32) -> T,
) {
    let lines = lines.map(|line| &line[..out.len()]);
    for (i, out) in out.iter_mut().enumerate() {
        let mut sum = weights[0] * lines[0][i];
        for n in 1..N {
            sum += weights[n] * lines[n][i];
        }
        *out = finish(sum);
    }
}

/// Like [`weigh`] for any number of lines, without a final conversion.
#[inline(always)]
fn weigh_many<'a>(weights: &[f32], line: impl Fn(usize) -> &'a [f32], out: &mut [f32]) {
    out.fill(0.0);
    for (n, weight) in weights.iter().enumerate() {
        for (sum, value) in out.iter_mut().zip(line(n)) {
            *sum += weight * value;
        }
    }
}
