//! Row filters of images whose elements are not bytes: the same filters in f32.
//!
//! | filter | value |
//! |---|---|
//! | resizes, blurs | `Σ_i ky[i] * (Σ_j kx[j] * in[..])`: the weights of the filter of bytes, before they are rounded to integers |
//! | nearest, transpose, padding, permuted rows, tiles, large pixels | copies |
//! | mean of rows | the sum of the rows from the first to the last, divided by their number |
//! | warps | the formulas of [`WarpInterpolation`], with one rounding for each product and each sum |
//! | convolutions | the weighted sum, row by row of the kernel; with nine weights clamped to 0..=255 |
//! | median | the middle of the values in their total order, in which NaN is the largest |
//! | sharpness | `in + (blur - in) * (1 - factor)`, clamped to 0..=255; `blur` is the weighted mean of 3x3 pixels |
//!
//! Products and sums are rounded to f32, in the order of the index, and taps of weight 0 are left out, so that
//! an infinity or a NaN spreads no farther than the filter reaches. Sums are not clamped: of the integer types,
//! the store of a row does that. torch computes the same sums of f32 in an order of its own, so values differ in
//! the last places; for u16 it truncates the sum where this file rounds half to even.
//!
//! | | |
//! |--------|-------------------------------------------------------------------------------------|
//! | input  | `[H, W, C]` of u16, i16, f16, bf16 or f32, C in 1..=4, rows any stride apart        |
//! | output | the same type; [`geometry_step::output`] returns its size                            |
//! | random | nothing                                                                             |
//! | cost   | the input is converted to f32 once; each row is filtered along x once if rows are requested in sequence |
//!
//! [`eval`] is the definition, one value at a time. [`FloatRows`] returns the same bits row by row.

use super::convolution::Weight;
use super::warp::{bilinear_weights, cubic_weights, mix};
use super::{
    Padding, RowFilter, RowPermutation, Tiles, Warp, WarpInterpolation, gaussian_blur, grow,
    median, pixelate, resample, separable,
};
use crate::author::GeometryStep;
use crate::element::ElementValue;
use crate::memory::NoMemory;
use crate::shape::{ImageView, MAX_CHANNELS, PixelFormat};
use crate::{Interpolation, Size, area, geometry_step, memory};
use std::ops::Range;

/// An image of f32, packed.
#[derive(Clone, Copy, Debug)]
struct Floats<'a> {
    values: &'a [f32],
    size: Size,
    channels: usize,
}

impl<'a> Floats<'a> {
    fn at(&self, y: u32, x: u32) -> &'a [f32] {
        let first = (y as usize * self.size.width as usize + x as usize) * self.channels;
        &self.values[first..first + self.channels]
    }

    fn row(&self, y: u32) -> &'a [f32] {
        let row = self.size.width as usize * self.channels;
        &self.values[y as usize * row..][..row]
    }

    /// Returns the pixel in row `y` and column `x`, which are whole numbers; `None` outside the image.
    fn inside(&self, y: f32, x: f32) -> Option<&'a [f32]> {
        let Size { height, width } = self.size;
        // NaN is in no range.
        let is_inside = (0.0..height as f32).contains(&y) && (0.0..width as f32).contains(&x);
        is_inside.then(|| self.at(y as u32, x as u32))
    }
}

/// The source pixels of an output pixel, and their weights.
pub(crate) type PixelTaps = Vec<(u32, f32)>;

/// The source pixels of each output pixel of an axis, and their weights.
#[derive(Clone, Debug, Default)]
struct Taps {
    /// The index of the first tap of each output pixel, and the number of all taps.
    first: Vec<usize>,
    taps: PixelTaps,
    is_copy: bool,
}

impl Taps {
    /// Sets the taps of `count` output pixels; `of` appends those of one.
    fn set(&mut self, count: u32, mut of: impl FnMut(u32, &mut PixelTaps)) {
        self.first.clear();
        self.taps.clear();
        let mut own = vec![];
        for i in 0..count {
            own.clear();
            of(i, &mut own);
            self.first.push(self.taps.len());
            let counts = own.iter().copied().filter(|(_, weight)| *weight != 0.0);
            self.taps.extend(counts);
            if self.taps.len() == self.first[i as usize] {
                self.taps.extend(own.first());
            }
        }
        self.first.push(self.taps.len());
        self.is_copy = (0..count).all(|i| self.of(i) == [(i, 1.0)]);
    }

    /// Returns the taps of output pixel `i`.
    #[inline(always)]
    fn of(&self, i: u32) -> &[(u32, f32)] {
        &self.taps[self.first[i as usize]..self.first[i as usize + 1]]
    }

    /// Returns the number of adjacent source pixels that contain all taps of any output pixel.
    fn span(&self) -> usize {
        let own = |range: &[usize]| {
            let sources = self.taps[range[0]..range[1]].iter().map(|(source, _)| *source);
            (sources.clone().max().unwrap_or(0) - sources.min().unwrap_or(0)) as usize + 1
        };
        self.first.windows(2).map(own).max().unwrap_or(1)
    }
}

/// How a step computes its pixels.
#[derive(Clone, Copy, Debug)]
enum Method<'a> {
    /// Weighted sums, first along x and then along y.
    Taps,
    Transpose,
    Pad(Padding),
    Permute(RowPermutation),
    Tiles(&'a Tiles),
    RowMean,
    Warp(&'a Warp),
    /// Sharpness, with the share of the blurred image.
    Sharpen(f32),
    Convolve {
        weights: &'a [Weight],
        side: usize,
        clamps: bool,
    },
    /// The median, with the side of the square.
    Median(usize),
    /// Large pixels, with the scale.
    Pixelate(f32),
}

/// Returns the method of a step that produces rows, for an image of a size. Sets the taps of both axes, or the weights of
/// a square kernel, if it has any.
fn method<'a>(
    step: &'a GeometryStep,
    from: Size,
    [x, y]: [&mut Taps; 2],
    weights: &'a mut Vec<Weight>,
) -> Method<'a> {
    let to = geometry_step::output(step, from);
    match step {
        GeometryStep::Resize { interpolation: Interpolation::Area, .. } => {
            let [across, down] = area::float_taps(from, to);
            x.set(to.width, across);
            y.set(to.height, down);
        }
        GeometryStep::Resize { .. } | GeometryStep::Rows(RowFilter::Resample { .. }) => {
            let filter = geometry_step::row_filter(step);
            if let Some(RowFilter::Resample { interpolation, .. }) = filter {
                x.set(to.width, resample::float_taps(from.width, to.width, interpolation));
                y.set(to.height, resample::float_taps(from.height, to.height, interpolation));
            }
        }
        GeometryStep::Rows(RowFilter::GaussianBlur { kernel, sigma }) => {
            let filter = gaussian_blur::separable(*kernel, *sigma);
            x.set(to.width, reflected(&filter.x, from.width));
            y.set(to.height, reflected(&filter.y, from.height));
        }
        GeometryStep::Rows(RowFilter::BoxBlur { kernel }) => {
            let [across, down] =
                kernel.map(|side| vec![1.0 / side.max(1) as f32; side.max(1) as usize]);
            x.set(to.width, reflected(&across, from.width));
            y.set(to.height, reflected(&down, from.height));
        }
        GeometryStep::Rows(RowFilter::Transpose) => return Method::Transpose,
        GeometryStep::Rows(RowFilter::Pad(padding)) => return Method::Pad(*padding),
        GeometryStep::Rows(RowFilter::Permute(permutation)) => {
            return Method::Permute(*permutation);
        }
        GeometryStep::Rows(RowFilter::Tiles(tiles)) => return Method::Tiles(tiles),
        GeometryStep::Rows(RowFilter::RowMean) => return Method::RowMean,
        GeometryStep::Rows(RowFilter::Warp(warp)) => return Method::Warp(warp),
        GeometryStep::Rows(RowFilter::Sharpen { factor }) => {
            return Method::Sharpen((1.0 - factor) as f32);
        }
        GeometryStep::Rows(RowFilter::Convolve(kernel)) => {
            kernel.set(weights);
            let side = kernel.side() as usize;
            return Method::Convolve { weights, side, clamps: kernel.clamps() };
        }
        GeometryStep::Rows(RowFilter::Median { side }) => {
            return Method::Median((*side).clamp(1, median::LONGEST) as usize);
        }
        GeometryStep::Rows(RowFilter::Pixelate { scale }) => return Method::Pixelate(*scale),
        GeometryStep::CropPad { .. }
        | GeometryStep::FlipHorizontal
        | GeometryStep::FlipVertical => {
            unreachable!("these steps move pixels, and produce no rows")
        }
        GeometryStep::ResizePart { .. } | GeometryStep::Rows(RowFilter::Jpeg { .. }) => {
            unreachable!("these steps are made for bytes alone")
        }
    }
    Method::Taps
}

/// Returns the taps of a kernel over an axis of `side` pixels, which is reflected at its ends.
fn reflected(weights: &[f32], side: u32) -> impl FnMut(u32, &mut PixelTaps) {
    move |at, taps| {
        let source = |i| separable::tap(at, i, weights.len(), side);
        taps.extend(weights.iter().enumerate().map(|(i, weight)| (source(i), *weight)));
    }
}

/// Returns the whole image after a step that produces rows, given the values of an image of `size`.
///
/// # Errors
///
/// If there is not enough memory.
pub fn eval(
    step: &GeometryStep,
    values: &[f32],
    size: Size,
    channels: usize,
) -> Result<Vec<f32>, NoMemory> {
    let to = geometry_step::output(step, size);
    let mut out = memory::with_capacity(to.pixels() as usize * channels, "an f32 image")?;
    if size.pixels() == 0 {
        out.resize(to.pixels() as usize * channels, 0.0);
        return Ok(out);
    }
    let (mut x_taps, mut y_taps, mut weights) = (Taps::default(), Taps::default(), vec![]);
    let method = method(step, size, [&mut x_taps, &mut y_taps], &mut weights);
    let input = Floats { values, size, channels };
    for y in 0..to.height {
        for x in 0..to.width {
            match method {
                Method::Taps => out.extend((0..channels).map(|c| {
                    let line = |y: u32| weighted(x_taps.of(x), |x| input.at(y, x)[c]);
                    weighted(y_taps.of(y), line)
                })),
                _ => out.extend_from_slice(&pixel(method, input, y, x)[..channels]),
            }
        }
    }
    Ok(out)
}

/// Returns the weighted sum of the values at the taps, in their order.
#[inline(always)]
fn weighted(taps: &[(u32, f32)], at: impl Fn(u32) -> f32) -> f32 {
    let (first, rest) = taps.split_first().expect("an output pixel has a tap");
    rest.iter().fold(first.1 * at(first.0), |sum, (source, weight)| sum + weight * at(*source))
}

/// Returns output pixel `(y, x)` of a method without taps. Values behind those of the channels are 0.
#[inline(always)]
fn pixel(method: Method<'_>, input: Floats<'_>, y: u32, x: u32) -> [f32; MAX_CHANNELS] {
    match method {
        Method::Transpose => first(input.at(x, y)),
        Method::Pad(padding) => {
            let (y, x) = padding.source(input.size, y, x);
            first(input.at(y, x))
        }
        Method::Permute(permutation) => {
            first(input.at(permutation.source(input.size.height, y), x))
        }
        Method::Tiles(tiles) => {
            let [y, x] = tiles.source(y, x);
            first(input.at(y, x))
        }
        Method::RowMean => {
            let mut mean = first(input.at(0, x));
            for y in 1..input.size.height {
                mean.iter_mut().zip(input.at(y, x)).for_each(|(sum, value)| *sum += value);
            }
            mean.map(|sum| sum / input.size.height as f32)
        }
        Method::Warp(warp) => warped(warp, input, warp.map.position(y, x)),
        Method::Sharpen(share) => sharpened(input, share, y, x),
        Method::Convolve { weights, side, clamps } => {
            let mut sum = [0.0; MAX_CHANNELS];
            for &Weight { row, column, weight } in weights {
                let y = separable::tap(y, row as usize, side, input.size.height);
                let x = separable::tap(x, column as usize, side, input.size.width);
                let pairs = sum.iter_mut().zip(input.at(y, x));
                pairs.for_each(|(sum, value)| *sum += weight * value);
            }
            if clamps { sum.map(|sum| super::clamp(sum, 0.0, 255.0)) } else { sum }
        }
        Method::Median(side) => middle(input, side, y, x),
        Method::Pixelate(scale) => {
            let y = pixelate::source(y, input.size.height, scale);
            first(input.at(y, pixelate::source(x, input.size.width, scale)))
        }
        Method::Taps => unreachable!("taps are of an axis"),
    }
}

/// Returns the values of a pixel of up to four.
#[inline(always)]
fn first(values: &[f32]) -> [f32; MAX_CHANNELS] {
    let mut pixel = [0.0; MAX_CHANNELS];
    pixel[..values.len()].copy_from_slice(values);
    pixel
}

/// Returns the pixel at a source position. Pixels outside the image count as 0, and then the fill is mixed in.
#[inline(always)]
fn warped(warp: &Warp, input: Floats<'_>, [x, y]: [f32; 2]) -> [f32; MAX_CHANNELS] {
    let fill = warp.fill.map(|[r, g, b]| [r, g, b, r].map(f32::from));
    let (mut sum, mut cover) = ([0.0; MAX_CHANNELS], 0.0);
    let mut add = |weight: f32, y: f32, x: f32| {
        if weight != 0.0
            && let Some(pixel) = input.inside(y, x)
        {
            cover += weight;
            sum.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += weight * value);
        }
    };
    let (x0, y0) = (x.floor(), y.floor());
    match warp.interpolation {
        WarpInterpolation::Nearest => {
            let pixel = input.inside(y.round_ties_even(), x.round_ties_even());
            return pixel.map_or(fill.unwrap_or_default(), first);
        }
        WarpInterpolation::Bilinear => {
            let [nw, ne, sw, se] = bilinear_weights(x - x0, y - y0);
            add(nw, y0, x0);
            add(ne, y0, x0 + 1.0);
            add(sw, y0 + 1.0, x0);
            add(se, y0 + 1.0, x0 + 1.0);
        }
        WarpInterpolation::Bicubic => {
            let (across, down) = (cubic_weights(x - x0), cubic_weights(y - y0));
            for (i, down) in down.into_iter().enumerate() {
                for (j, across) in across.into_iter().enumerate() {
                    add(down * across, y0 + (i as f32 - 1.0), x0 + (j as f32 - 1.0));
                }
            }
        }
    }
    match fill {
        None => sum,
        Some(fill) => std::array::from_fn(|c| mix(sum[c], cover, fill[c])),
    }
}

/// Returns a sharpened pixel; those at the edge stay as they are.
#[inline(always)]
fn sharpened(input: Floats<'_>, share: f32, y: u32, x: u32) -> [f32; MAX_CHANNELS] {
    let (Size { height, width }, here) = (input.size, input.at(y, x));
    if y == 0 || x == 0 || y + 1 >= height || x + 1 >= width {
        return first(here);
    }
    let mut sum = [0.0; MAX_CHANNELS];
    for y in y - 1..=y + 1 {
        for x in x - 1..=x + 1 {
            sum.iter_mut().zip(input.at(y, x)).for_each(|(sum, value)| *sum += value);
        }
    }
    let mut out = first(here);
    for (value, sum) in out.iter_mut().zip(sum).take(input.channels) {
        let blurred = (sum + 4.0 * *value) / 13.0;
        *value = super::clamp(*value + (blurred - *value) * share, 0.0, 255.0);
    }
    out
}

/// Returns the median of each channel of the pixels in a square. NaN counts as larger than all numbers, whatever its sign:
/// stored images lose it.
fn middle(input: Floats<'_>, side: usize, y: u32, x: u32) -> [f32; MAX_CHANNELS] {
    const MOST: usize = (median::LONGEST * median::LONGEST) as usize;
    let mut values = [[0.0; MOST]; MAX_CHANNELS];
    for i in 0..side * side {
        let y = median::source(y, i / side, side, input.size.height);
        let x = median::source(x, i % side, side, input.size.width);
        for (values, value) in values.iter_mut().zip(input.at(y, x)) {
            values[i] = if value.is_nan() { f32::NAN } else { *value };
        }
    }
    let half = side * side / 2;
    values.map(|mut values| *values[..side * side].select_nth_unstable_by(half, f32::total_cmp).1)
}

/// The working memory of [`FloatRows`]: one for each worker, reused from image to image.
#[derive(Clone, Debug, Default)]
pub struct FloatScratch {
    values: Vec<f32>,
    x: Taps,
    y: Taps,
    /// Source rows filtered along x; the line of a row is at its index modulo the number of lines in use.
    lines: Vec<Line>,
    row: Vec<f32>,
    weights: Vec<Weight>,
}

/// A source row filtered along x.
#[derive(Clone, Debug, Default)]
struct Line {
    /// The source row of the line; `None` before the line is first filled.
    row: Option<u32>,
    values: Vec<f32>,
}

impl FloatScratch {
    /// Returns an object that computes the image after a step that produces rows, one row at a time, restricted
    /// to `columns`.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    ///
    /// # Panics
    ///
    /// If a column is outside the output.
    pub fn rows<'a>(
        &'a mut self,
        step: &'a GeometryStep,
        input: ImageView<'_>,
        columns: Range<u32>,
    ) -> Result<FloatRows<'a>, NoMemory> {
        let Self { values, x, y, lines, row, weights } = self;
        let (size, format) = (input.size(), input.format());
        let to = geometry_step::output(step, size);
        assert!(columns.start <= columns.end && columns.end <= to.width, "{columns:?}");
        values.clear();
        let count = size.pixels() as usize * format.channels;
        memory::reserve(values, count, "an f32 image")?;
        for y in 0..size.height {
            ElementValue::append_floats(format.dtype, input.row(y), values);
        }
        grow(row, columns.len() * format.channels);
        let method =
            if size.pixels() > 0 { Some(method(step, size, [x, y], weights)) } else { None };
        if let Some(Method::Warp(warp)) = method {
            warp.prepare()?;
        }
        let mut span = 1;
        if let Some(Method::Taps) = method {
            span = y.span();
            lines.resize_with(lines.len().max(span), Line::default);
            for line in &mut lines[..span] {
                line.row = None; // the line is of another image
                let len = if x.is_copy { 0 } else { columns.len() * format.channels };
                super::grow_kept(&mut line.values, len)?;
            }
        }
        let input = Floats { values, size, channels: format.channels };
        Ok(FloatRows { format, height: to.height, columns, method, input, x, y, lines, span, row })
    }
}

/// The rows of one image after a step, as elements of the image's type.
#[derive(Debug)]
pub struct FloatRows<'a> {
    format: PixelFormat,
    height: u32,
    columns: Range<u32>,
    /// `None` for an image without pixels.
    method: Option<Method<'a>>,
    input: Floats<'a>,
    x: &'a Taps,
    y: &'a Taps,
    lines: &'a mut [Line],
    /// The number of lines in use.
    span: usize,
    row: &'a mut [f32],
}

impl FloatRows<'_> {
    /// Writes the requested columns of output row `y`.
    ///
    /// # Panics
    ///
    /// If `y` is not below the output's height, or `out` is of another length.
    #[inline(always)]
    pub fn row(&mut self, y: u32, out: &mut [u8]) {
        assert!(y < self.height, "row {y} is outside the output of {} rows", self.height);
        assert_eq!(out.len(), self.columns.len() * self.format.pixel_bytes(), "bytes of a row");
        let len = self.columns.len() * self.format.channels;
        match self.method {
            None => self.row[..len].fill(0.0),
            Some(Method::Taps) => self.filter(y, len),
            Some(Method::Permute(permutation)) => {
                let source = permutation.source(self.input.size.height, y);
                let start = self.columns.start as usize * self.format.channels;
                self.row[..len].copy_from_slice(&self.input.row(source)[start..start + len]);
            }
            Some(method) => {
                let pixels = self.row[..len].chunks_exact_mut(self.format.channels);
                for (x, to) in self.columns.clone().zip(pixels) {
                    to.copy_from_slice(&pixel(method, self.input, y, x)[..to.len()]);
                }
            }
        }
        ElementValue::store_floats(self.format.dtype, &self.row[..len], out);
    }

    /// Computes the values of output row `y` as weighted sums.
    #[inline(always)]
    fn filter(&mut self, y: u32, len: usize) {
        let y_taps = self.y;
        for (number, &(source, weight)) in y_taps.of(y).iter().enumerate() {
            self.fill(source);
            let start = self.columns.start as usize * self.format.channels;
            let line = if self.x.is_copy {
                &self.input.row(source)[start..start + len]
            } else {
                &self.lines[source as usize % self.span].values[..len]
            };
            let pairs = self.row[..len].iter_mut().zip(line);
            if number == 0 {
                pairs.for_each(|(out, value)| *out = weight * value);
            } else {
                pairs.for_each(|(out, value)| *out += weight * value);
            }
        }
    }

    /// Filters a source row along x, unless its line is cached.
    #[inline(always)]
    fn fill(&mut self, source: u32) {
        let line = &mut self.lines[source as usize % self.span];
        if self.x.is_copy || line.row == Some(source) {
            return;
        }
        line.row = Some(source);
        let (row, line) = (self.input.row(source), &mut line.values);
        match self.format.channels {
            1 => across::<1>(self.x, row, self.columns.clone(), line),
            2 => across::<2>(self.x, row, self.columns.clone(), line),
            3 => across::<3>(self.x, row, self.columns.clone(), line),
            _ => across::<4>(self.x, row, self.columns.clone(), line),
        }
    }
}

/// Filters the columns of a row of `C` channels.
#[inline(always)]
fn across<const C: usize>(taps: &Taps, row: &[f32], columns: Range<u32>, to: &mut [f32]) {
    let pixels = row.as_chunks::<C>().0;
    for (x, to) in columns.zip(to.as_chunks_mut::<C>().0) {
        let (first, rest) = taps.of(x).split_first().expect("an output pixel has a tap");
        let mut sum = pixels[first.0 as usize].map(|value| first.1 * value);
        for (source, weight) in rest {
            let pixel = &pixels[*source as usize];
            for c in 0..C {
                sum[c] += weight * pixel[c];
            }
        }
        *to = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::rows::{ConvolutionKernel, Map, MotionLine, PadMode, Resampling, affine_matrix};

    const SIZE: Size = Size::new(13, 17);

    fn steps() -> Vec<GeometryStep> {
        use Interpolation::{
            Area, Bicubic, BicubicAliased, Bilinear, BilinearAliased, Nearest, NearestExact,
        };
        let sizes = [Size::new(6, 9), Size::new(20, 30), SIZE, Size::new(1, 40)];
        let resizes =
            [Area, Nearest, NearestExact, BilinearAliased, BicubicAliased, Bilinear, Bicubic]
                .into_iter()
                .flat_map(|interpolation| {
                    sizes.map(|size| GeometryStep::Resize { size, interpolation })
                });
        let matrix = affine_matrix(30.0, [2.0, -1.0], 1.2, [5.0, 0.0], [0.0; 2]);
        let warp = |interpolation, fill| {
            let map = Map::affine(matrix, SIZE, SIZE);
            Warp { size: SIZE, map, interpolation, fill }
        };
        let warps =
            [WarpInterpolation::Nearest, WarpInterpolation::Bilinear, WarpInterpolation::Bicubic]
                .into_iter()
                .flat_map(|interpolation| {
                    [None, Some([7; 3])].map(|fill| warp(interpolation, fill))
                });
        let line = MotionLine { side: 7, angle: 33.0, ends: [-3.0, 2.0], shift: [0.4, -1.0] };
        let padding = Padding { top: 2, left: 40, bottom: 0, right: 1, mode: PadMode::Reflect };
        let others = [
            RowFilter::Transpose,
            RowFilter::Pad(padding),
            RowFilter::Permute(RowPermutation { rows: 31, keys: [3, 4] }),
            RowFilter::RowMean,
            RowFilter::Sharpen { factor: 1.7 },
            RowFilter::GaussianBlur { kernel: [5, 3], sigma: [1.0, 0.6] },
            RowFilter::BoxBlur { kernel: [4, 31] },
            RowFilter::Convolve(ConvolutionKernel::Square([
                [-0.2, -0.2, 0.0],
                [-0.2, 1.4, 0.0],
                [0.3, 0.0, 0.1],
            ])),
            RowFilter::Convolve(ConvolutionKernel::Line(line)),
            RowFilter::Median { side: 5 },
            RowFilter::Pixelate { scale: 0.37 },
        ];
        let filters = others.into_iter().chain(warps.map(RowFilter::Warp));
        resizes.chain(filters.map(GeometryStep::Rows)).collect()
    }

    fn bytes(dtype: DType, values: &[f32]) -> Vec<u8> {
        let mut bytes = vec![0; values.len() * dtype.bytes()];
        ElementValue::store_floats(dtype, values, &mut bytes);
        bytes
    }

    fn noise(channels: usize) -> Vec<f32> {
        let values = 0..SIZE.pixels() as u32 * channels as u32;
        values.map(|i| (i.wrapping_mul(2_654_435_769) >> 20) as f32 / 16.0).collect()
    }

    #[test]
    fn rows_have_the_bits_of_the_definition_in_any_order() {
        let mut scratch = FloatScratch::default();
        for (channels, dtype) in
            [(1, DType::F32), (2, DType::I16), (3, DType::U16), (4, DType::F16)]
        {
            let source = bytes(dtype, &noise(channels));
            let format = PixelFormat { channels, dtype };
            let view = ImageView::packed_format(&source, SIZE, format).unwrap();
            let mut values = vec![];
            ElementValue::append_floats(dtype, &source, &mut values);
            for step in steps() {
                let to = geometry_step::output(&step, SIZE);
                let want = bytes(dtype, &eval(&step, &values, SIZE, channels).unwrap());
                let columns = to.width / 3..to.width;
                let pixel = format.pixel_bytes();
                let mut row = vec![0; columns.len() * pixel];
                let mut rows = scratch.rows(&step, view, columns.clone()).unwrap();
                for y in (0..to.height).rev().chain([0]) {
                    rows.row(y, &mut row);
                    let at = (y * to.width + columns.start) as usize * pixel;
                    assert!(row == want[at..at + row.len()], "{step:?}, {format:?}, row {y}");
                }
            }
        }
    }

    #[test]
    fn floats_are_within_a_level_of_the_filters_of_bytes() {
        // Levels that no cubic filter takes out of 0..=255, where bytes are clamped between the two axes.
        let levels: Vec<u8> = noise(3).iter().map(|v| (96.0 + v / 4.0) as u8).collect();
        let values: Vec<f32> = levels.iter().map(|level| f32::from(*level)).collect();
        let view = ImageView::packed(&levels, SIZE).unwrap();
        for step in steps() {
            let Some(filter) = geometry_step::row_filter(&step) else { continue };
            let floats = eval(&step, &values, SIZE, 3).unwrap();
            for (float, byte) in floats.iter().zip(filter.eval(&view)) {
                let difference = (float.clamp(0.0, 255.0) - f32::from(byte)).abs();
                assert!(difference <= 1.5, "{step:?}: {float} for {byte}");
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_where_the_filter_reaches() {
        let mut values = [1.0; 25];
        values[12] = f32::NAN;
        let step = GeometryStep::Resize {
            size: Size::new(5, 10),
            interpolation: Interpolation::BilinearAliased,
        };
        let out = eval(&step, &values, Size::new(5, 5), 1).unwrap();
        let nans = out.iter().filter(|v| v.is_nan()).count();
        assert_eq!(nans, 4, "two columns around each side of the pixel, in its row: {out:?}");
        let filter = Resampling::Nearest;
        let step = GeometryStep::Rows(RowFilter::Resample {
            size: Size::new(5, 5),
            interpolation: filter,
        });
        let out = eval(&step, &[-0.0; 25], Size::new(5, 5), 1).unwrap();
        assert!(out.iter().all(|v| v.to_bits() == (-0f32).to_bits()), "a copy keeps the sign of 0");
    }
}
