//! Resize: computes the same bytes as torchvision's resize of u8 tensors.
//!
//! | interpolation        | torchvision                              |
//! |----------------------|------------------------------------------|
//! | `Nearest`            | `NEAREST`: `src = floor(i * s)`          |
//! | `NearestExact`       | `NEAREST_EXACT`: `floor((i + 1/2) * s)`  |
//! | `Bilinear`           | `BILINEAR`, `antialias=False`            |
//! | `BilinearAntialias`  | `BILINEAR`, its default                  |
//! | `Bicubic`            | `BICUBIC`, `antialias=False`             |
//! | `BicubicAntialias`   | `BICUBIC`, its default                   |
//!
//! *Nearest*: `s = f32(n) / f32(m)` for `n` input and `m` output pixels; products and sums are in f32, and
//! the index is limited to the last pixel. *The others* resize along x first, then along y, with u8
//! between; an axis whose size does not change is skipped. With `scale = n / m`, all in f64, output `i` has
//! taps at
//!
//! ```text
//! antialiased   weight F((j - c + 1/2) / max(scale, 1)) for pixels j of c ± r max(scale, 1),
//!               c = scale (i + 1/2); r = 1, F the triangle; or r = 2, F the cubic with A = -0.5
//! bilinear      s = max(scale (i + 1/2) - 1/2, 0): pixels floor(s), floor(s) + 1, by distance
//! bicubic       s = scale (i + 1/2) - 1/2: four pixels around, the cubic with A = -0.75
//! ```
//!
//! Without antialiasing, taps outside the image are added to the edge pixel's; antialiased weights are
//! divided by their sum. Let `p` be the largest number below 23 such that `trunc(1/2 + wmax 2^p) < 2^15`
//! for the largest weight of the axis. Weights are rounded to `q = trunc(w 2^p ± 1/2)`, and
//!
//! ```text
//! out = clamp((2^(p-1) + Σ q[j] * in[j]) >> p, 0, 255)
//! ```
//!
//! This is torch's CPU kernel for u8 (`upsample_avx_bilinear_bicubic_uint8`), to the bit. torch's
//! kernels for other CPUs and for GPUs differ from it by at most 1.
//!
//! | | |
//! |--------|-------------------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart                 |
//! | output | u8 `[size.height, size.width, C]`                                 |
//! | random | nothing                                                           |
//! | cost   | each source row is resized along x once if rows are requested in sequence |

use super::float::PixelTaps;
use super::{grow, grow_kept};
use crate::Size;
use crate::memory::NoMemory;
use crate::shape::ImageView;
use std::ops::Range;

/// The interpolation of a resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resampling {
    /// The source pixel that contains the output pixel's first corner.
    Nearest,
    /// The source pixel that contains the output pixel's middle.
    NearestExact,
    /// Two pixels per axis, weighted by distance.
    Bilinear,
    /// A triangle as wide as an output pixel's neighbours.
    BilinearAntialias,
    /// Four pixels per axis.
    Bicubic,
    /// A cubic as wide as four output pixels.
    BicubicAntialias,
}

/// One axis of a resize: for each output pixel, adjacent source pixels and their weights.
#[derive(Clone, Debug, Default)]
struct Axis {
    /// The sizes and the interpolation that the axis was built for.
    key: Option<(u32, u32, Resampling)>,
    /// The first source pixel of each output pixel.
    first: Vec<u32>,
    /// The number of source pixels of each output pixel.
    count: Vec<usize>,
    /// `taps` weights for each output pixel, padded with 0. Each weight is repeated four times,
    /// once for each vector lane.
    weights: Vec<[i16; 4]>,
    /// The largest count.
    taps: usize,
    /// The `p` of the formula above.
    shift: u32,
    /// The weights before they are rounded.
    exact: Vec<f64>,
}

impl Axis {
    fn new(source: u32, out: u32, interpolation: Resampling) -> Self {
        let mut axis = Self::default();
        axis.rebuild(source, out, interpolation);
        axis
    }

    /// Rebuilds the axis for other sizes. Does nothing if they are the same.
    fn rebuild(&mut self, source: u32, out: u32, interpolation: Resampling) {
        let key = Some((source, out, interpolation));
        if self.key == key {
            return;
        }
        self.key = key;
        self.first.clear();
        self.count.clear();
        self.exact.clear();
        for i in 0..out {
            let before = self.exact.len();
            let first = taps(source, out, interpolation, i, &mut self.exact);
            self.first.push(first);
            self.count.push(self.exact.len() - before);
        }
        self.quantise();
    }

    fn quantise(&mut self) {
        let largest = self.exact.iter().copied().fold(0.0, f64::max);
        let fits = |p: &u32| (0.5 + largest * (1 << p) as f64).trunc() < 32768.0;
        self.shift = (1..=22).take_while(fits).last().unwrap_or(0);
        self.taps = self.count.iter().copied().max().unwrap_or(0);
        self.weights.clear();
        let one = f64::from(1 << self.shift);
        let quantised = |weight: &f64| (weight * one + 0.5f64.copysign(*weight)) as i16;
        let mut exact = self.exact.iter();
        for &count in &self.count {
            let own = exact.by_ref().take(count).map(quantised);
            let padded = own.chain(std::iter::repeat_n(0, self.taps - count));
            self.weights.extend(padded.map(|q| [q; 4]));
        }
    }

    /// Returns the weights of output pixel `i`.
    fn weights(&self, i: usize) -> impl ExactSizeIterator<Item = i16> + Clone {
        self.weights[i * self.taps..][..self.count[i]].iter().map(|lanes| lanes[0])
    }

    /// Converts a weighted sum that started with [`half`](Self::half) to a byte.
    #[inline(always)]
    fn finish(&self, sum: i32) -> u8 {
        (sum >> self.shift).clamp(0, 255) as u8
    }

    #[inline(always)]
    fn half(&self) -> i32 {
        (1 << self.shift) >> 1
    }

    /// Returns output pixel `i` of the axis; `at` returns a source pixel's value.
    fn eval(&self, i: u32, at: impl Fn(u32) -> u8) -> u8 {
        let taps = (self.first[i as usize]..).zip(self.weights(i as usize));
        let sum: i32 = taps.map(|(j, weight)| i32::from(weight) * i32::from(at(j))).sum();
        self.finish(self.half() + sum)
    }
}

/// Appends the weights of output `i`, and returns the first source pixel.
fn taps(n: u32, m: u32, interpolation: Resampling, i: u32, weights: &mut Vec<f64>) -> u32 {
    let scale = f64::from(n) / f64::from(m);
    let center = scale * (f64::from(i) + 0.5);
    match interpolation {
        Resampling::Nearest | Resampling::NearestExact => {
            weights.push(1.0);
            nearest(n, m, interpolation, i)
        }
        Resampling::BilinearAntialias => wide_taps(n, scale, center, (1.0, triangle), weights),
        Resampling::BicubicAntialias => wide_taps(n, scale, center, (2.0, cubic), weights),
        Resampling::Bilinear => {
            let position = (center - 0.5).max(0.0);
            let first = position.floor().min(f64::from(n - 1));
            let share = (position - first).clamp(0.0, 1.0);
            edge_taps(n, first as i64, [1.0 - share, share], weights)
        }
        Resampling::Bicubic => {
            let position = center - 0.5;
            let first = position.floor();
            edge_taps(n, first as i64 - 1, four_taps(position - first), weights)
        }
    }
}

/// Returns what appends the taps of an output pixel as f32, for an axis of `n` source pixels.
pub(super) fn float_taps(
    n: u32,
    m: u32,
    interpolation: Resampling,
) -> impl FnMut(u32, &mut PixelTaps) {
    let mut weights = vec![];
    move |i, own| {
        if n == m {
            own.push((i, 1.0));
            return;
        }
        weights.clear();
        let first = taps(n, m, interpolation, i, &mut weights);
        own.extend((first..).zip(weights.iter().map(|weight| *weight as f32)));
    }
}

/// Returns the source pixel of output `i` for the two nearest interpolations.
fn nearest(n: u32, m: u32, interpolation: Resampling, i: u32) -> u32 {
    let step = n as f32 / m as f32;
    let middle = if interpolation == Resampling::NearestExact { 0.5 } else { 0.0 };
    (((i as f32 + middle) * step) as u32).min(n - 1)
}

/// Appends the weights of an antialiased interpolation: a filter of radius `radius`, stretched if
/// the image shrinks. Returns the first source pixel.
fn wide_taps(
    n: u32,
    scale: f64,
    center: f64,
    (radius, filter): (f64, fn(f64) -> f64),
    weights: &mut Vec<f64>,
) -> u32 {
    let stretch = scale.max(1.0);
    let (support, inverse) = (radius * stretch, 1.0 / stretch);
    let first = ((center - support + 0.5) as i64).max(0);
    let end = ((center + support + 0.5) as i64).min(i64::from(n));
    let begin = weights.len();
    let distance = |j: i64| (j as f64 - center + 0.5) * inverse;
    weights.extend((first..end).map(|j| filter(distance(j))));
    let own = &mut weights[begin..];
    let sum: f64 = own.iter().sum();
    for weight in own {
        *weight /= sum;
    }
    first as u32
}

fn triangle(t: f64) -> f64 {
    (1.0 - t.abs()).max(0.0)
}

fn cubic(t: f64) -> f64 {
    const A: f64 = -0.5;
    let t = t.abs();
    if t < 1.0 {
        ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0
    } else if t < 2.0 {
        (((t - 5.0) * t + 8.0) * t - 4.0) * A
    } else {
        0.0
    }
}

/// Returns the weights of the four pixels around a position at distance `t` behind the second
/// pixel.
fn four_taps(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |t: f64| ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0;
    let far = |t: f64| ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// Appends the weights of an interpolation without antialiasing: `taps` are the weights of the
/// pixels from `first` on, and weights of pixels outside are added to the edge pixel's. Returns the
/// first source pixel.
fn edge_taps<const N: usize>(n: u32, first: i64, taps: [f64; N], weights: &mut Vec<f64>) -> u32 {
    let inside = |j: i64| j.clamp(0, i64::from(n) - 1);
    let (low, high) = (inside(first), inside(first + N as i64 - 1));
    let begin = weights.len();
    weights.resize(begin + (high - low) as usize + 1, 0.0);
    for (j, weight) in (first..).zip(taps) {
        weights[begin + (inside(j) - low) as usize] += weight;
    }
    low as u32
}

/// Returns the resized image, computed one axis after the other.
pub(super) fn eval(input: &ImageView<'_>, size: Size, interpolation: Resampling) -> Vec<u8> {
    let (from, channels) = (input.size(), input.channels());
    let x_axis = Axis::new(from.width, size.width, interpolation);
    let y_axis = Axis::new(from.height, size.height, interpolation);
    let column = |y: u32, x: u32, c: usize| {
        let at = |x: u32| input.row(y)[x as usize * channels + c];
        if from.width == size.width { at(x) } else { x_axis.eval(x, at) }
    };
    let mut pixels = Vec::with_capacity(size.pixels() as usize * channels);
    for y in 0..size.height {
        for x in 0..size.width {
            for c in 0..channels {
                let at = |y: u32| column(y, x, c);
                pixels.push(if from.height == size.height { at(y) } else { y_axis.eval(y, at) });
            }
        }
    }
    pixels
}

/// The tables of the last used sizes, and working memory.
#[derive(Clone, Debug, Default)]
pub(super) struct ResampleScratch {
    x: Axis,
    y: Axis,
    /// A source row as i16, with space for taps of weight 0 beyond its end.
    wide: Vec<i16>,
    lines: Vec<Line>,
    sums: Vec<i32>,
}

/// A source row resized along x.
#[derive(Clone, Debug, Default)]
struct Line {
    /// The source row of the line; `None` before the line is first filled.
    row: Option<u32>,
    /// The bytes of the columns and two more, for the lanes behind the last pixel.
    bytes: Vec<u8>,
}

impl ResampleScratch {
    /// Prepares to resize `input`; only `columns` of the output are computed.
    pub(super) fn rows<'a>(
        &'a mut self,
        input: ImageView<'a>,
        (size, interpolation): (Size, Resampling),
        columns: Range<u32>,
    ) -> Result<ResampleRows<'a>, NoMemory> {
        let from = input.size();
        self.x.rebuild(from.width, size.width, interpolation);
        self.y.rebuild(from.height, size.height, interpolation);
        if self.lines.len() < self.y.taps {
            self.lines.resize(self.y.taps, Line::default());
        }
        for line in &mut self.lines {
            line.row = None; // the line is of another image
            grow_kept(&mut line.bytes, columns.len() * input.channels() + 2)?;
        }
        let columns = columns.start as usize..columns.end as usize;
        let (keeps_width, keeps_height) = (from.width == size.width, from.height == size.height);
        let nearest = matches!(interpolation, Resampling::Nearest | Resampling::NearestExact);
        Ok(ResampleRows { input, columns, keeps_width, keeps_height, nearest, scratch: self })
    }
}

/// The rows of one resized image.
#[derive(Debug)]
pub(super) struct ResampleRows<'a> {
    input: ImageView<'a>,
    columns: Range<usize>,
    keeps_width: bool,
    keeps_height: bool,
    nearest: bool,
    scratch: &'a mut ResampleScratch,
}

impl ResampleRows<'_> {
    #[inline(always)]
    pub(super) fn row<const C: usize, const L: usize>(&mut self, y: u32, out: &mut [u8]) {
        if self.nearest {
            self.copy_pixels::<C>(self.scratch.y.first[y as usize], out);
        } else if self.keeps_height {
            self.fill::<C, L>(y);
            out.copy_from_slice(self.line::<C>(y, out.len()));
        } else {
            self.blend::<C, L>(y as usize, out);
        }
    }

    #[inline(always)]
    fn copy_pixels<const C: usize>(&self, row: u32, out: &mut [u8]) {
        let pixels = self.input.row(row).as_chunks::<C>().0;
        let firsts = &self.scratch.x.first[self.columns.clone()];
        for (out, &x) in out.as_chunks_mut::<C>().0.iter_mut().zip(firsts) {
            *out = pixels[x as usize];
        }
    }

    /// Returns a source row resized along x, which [`fill`](Self::fill) must have computed.
    #[inline(always)]
    fn line<const C: usize>(&self, row: u32, len: usize) -> &[u8] {
        if self.keeps_width {
            &self.input.row(row)[self.columns.start * C..][..len]
        } else {
            &self.scratch.lines[row as usize % self.scratch.y.taps].bytes[..len]
        }
    }

    /// Computes the line of a source row, unless it is cached.
    #[inline(always)]
    fn fill<const C: usize, const L: usize>(&mut self, row: u32) {
        let ResampleScratch { x, y, wide, lines, .. } = &mut *self.scratch;
        let line = &mut lines[row as usize % y.taps];
        if self.keeps_width || line.row == Some(row) {
            return;
        }
        line.row = Some(row);
        let (firsts, last) = (&x.first[self.columns.clone()], self.columns.end - 1);
        let begin = firsts[0] as usize;
        let end = x.first[last] as usize + x.taps;
        let bytes = &self.input.row(row)[begin * C..];
        let len = (end - begin) * C;
        widen(&bytes[..bytes.len().min(len)], len + (L - C), wide);
        let weights = &x.weights[self.columns.start * x.taps..self.columns.end * x.taps];
        gather::<C, L>(x, wide, firsts, weights, &mut line.bytes);
    }

    /// Blends the lines of output row `y`.
    #[inline(always)]
    fn blend<const C: usize, const L: usize>(&mut self, y: usize, out: &mut [u8]) {
        let (first, count) = (self.scratch.y.first[y], self.scratch.y.count[y]);
        for row in (first..).take(count) {
            self.fill::<C, L>(row);
        }
        match count {
            1 => self.blend_fixed::<C, 1>(y, out),
            2 => self.blend_fixed::<C, 2>(y, out),
            3 => self.blend_fixed::<C, 3>(y, out),
            4 => self.blend_fixed::<C, 4>(y, out),
            5 => self.blend_fixed::<C, 5>(y, out),
            6 => self.blend_fixed::<C, 6>(y, out),
            _ => self.blend_any::<C>(y, out),
        }
    }

    #[inline(always)]
    fn blend_fixed<const C: usize, const N: usize>(&self, y: usize, out: &mut [u8]) {
        let axis = &self.scratch.y;
        let lines: [&[u8]; N] =
            std::array::from_fn(|n| self.line::<C>(axis.first[y] + n as u32, out.len()));
        let weights: [i16; N] = std::array::from_fn(|n| axis.weights[y * axis.taps + n][0]);
        for (i, out) in out.iter_mut().enumerate() {
            let mut sum = axis.half();
            for n in 0..N {
                sum += i32::from(weights[n]) * i32::from(lines[n][i]);
            }
            *out = axis.finish(sum);
        }
    }

    #[inline(always)]
    fn blend_any<const C: usize>(&mut self, y: usize, out: &mut [u8]) {
        let mut sums = std::mem::take(&mut self.scratch.sums);
        let axis = &self.scratch.y;
        sums.clear();
        sums.resize(out.len(), axis.half());
        for (row, weight) in (axis.first[y]..).zip(axis.weights(y)) {
            for (sum, &value) in sums.iter_mut().zip(self.line::<C>(row, out.len())) {
                *sum += i32::from(weight) * i32::from(value);
            }
        }
        for (out, &sum) in out.iter_mut().zip(&sums) {
            *out = axis.finish(sum);
        }
        self.scratch.sums = sums;
    }
}

/// Converts the bytes to i16. The values behind them, up to `len`, are unspecified and get weight
/// 0.
#[inline(always)]
fn widen(bytes: &[u8], len: usize, wide: &mut Vec<i16>) {
    grow(wide, len);
    for (value, &byte) in wide.iter_mut().zip(bytes) {
        *value = i16::from(byte);
    }
}

/// Resizes a row along x: the first tap of a column is `firsts[x] - firsts[0]` pixels into `wide`.
#[inline(always)]
fn gather<const C: usize, const L: usize>(
    axis: &Axis,
    wide: &[i16],
    firsts: &[u32],
    weights: &[[i16; 4]],
    out: &mut [u8],
) {
    match axis.taps {
        1 => gather_fixed::<C, L, 1>(axis, wide, firsts, weights, out),
        2 => gather_fixed::<C, L, 2>(axis, wide, firsts, weights, out),
        3 => gather_fixed::<C, L, 3>(axis, wide, firsts, weights, out),
        4 => gather_fixed::<C, L, 4>(axis, wide, firsts, weights, out),
        5 => gather_fixed::<C, L, 5>(axis, wide, firsts, weights, out),
        6 => gather_fixed::<C, L, 6>(axis, wide, firsts, weights, out),
        7 => gather_fixed::<C, L, 7>(axis, wide, firsts, weights, out),
        8 => gather_fixed::<C, L, 8>(axis, wide, firsts, weights, out),
        taps => gather_chunks::<C, L, _>(axis, wide, firsts, weights.chunks_exact(taps), out),
    }
}

#[inline(always)]
fn gather_fixed<const C: usize, const L: usize, const TAPS: usize>(
    axis: &Axis,
    wide: &[i16],
    firsts: &[u32],
    weights: &[[i16; 4]],
    out: &mut [u8],
) {
    gather_chunks::<C, L, _>(axis, wide, firsts, weights.as_chunks::<TAPS>().0.iter(), out);
}

/// Inlined into the callers above, where the length of a chunk is known.
#[inline(always)]
fn gather_chunks<'a, const C: usize, const L: usize, W: AsRef<[[i16; 4]]> + ?Sized + 'a>(
    axis: &Axis,
    wide: &[i16],
    firsts: &[u32],
    weights: impl Iterator<Item = &'a W>,
    out: &mut [u8],
) {
    for (x, (&first, weights)) in firsts.iter().zip(weights).enumerate() {
        let weights = weights.as_ref();
        let at = (first - firsts[0]) as usize * C;
        let pixels = &wide[at..at + weights.len() * C + (L - C)];
        let mut sum = [axis.half(); L];
        for (tap, weight) in weights.iter().enumerate() {
            for lane in 0..L {
                sum[lane] += i32::from(pixels[tap * C + lane]) * i32::from(weight[lane]);
            }
        }
        out[x * C..x * C + L].copy_from_slice(&sum.map(|sum| axis.finish(sum)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of five grey pixels, resized to `width`.
    fn resized(width: u32, interpolation: Resampling) -> Vec<u8> {
        let pixels = [10, 20, 30, 40, 250].map(|v| [v; 3]);
        let row = ImageView::packed(pixels.as_flattened(), Size::new(1, 5)).unwrap();
        eval(&row, Size::new(1, width), interpolation).chunks(3).map(|pixel| pixel[0]).collect()
    }

    #[test]
    fn five_pixels_become_two_as_torchvision_does() {
        assert_eq!(resized(2, Resampling::Nearest), [10, 30]);
        assert_eq!(resized(2, Resampling::NearestExact), [20, 40]);
        assert_eq!(resized(2, Resampling::BilinearAntialias), [20, 104]);
        assert_eq!(resized(2, Resampling::Bilinear), [18, 93]);
        assert_eq!(resized(2, Resampling::BicubicAntialias), [12, 111]);
        assert_eq!(resized(2, Resampling::Bicubic), [17, 89]);
    }

    #[test]
    fn five_pixels_become_eight_as_torchvision_does() {
        assert_eq!(resized(8, Resampling::Nearest), [10, 10, 20, 20, 30, 40, 40, 250]);
        assert_eq!(resized(8, Resampling::NearestExact), [10, 10, 20, 30, 30, 40, 250, 250]);
        assert_eq!(resized(8, Resampling::Bilinear), [10, 14, 21, 27, 33, 39, 158, 250]);
        assert_eq!(resized(8, Resampling::BilinearAntialias), [10, 14, 21, 27, 33, 39, 158, 250]);
        assert_eq!(resized(8, Resampling::BicubicAntialias), [9, 13, 21, 27, 26, 34, 168, 255]);
        assert_eq!(resized(8, Resampling::Bicubic), [9, 13, 21, 26, 23, 31, 161, 255]);
    }

    #[test]
    fn a_size_that_stays_is_a_copy() {
        assert_eq!(resized(5, Resampling::BicubicAntialias), [10, 20, 30, 40, 250]);
    }
}
