//! Antialiased bilinear resize, in integer arithmetic.
//!
//! The filter is a triangle of radius `max(1, scale)` in source pixels around the centre of each output
//! pixel, where `scale = source / output` (Pillow's `BILINEAR`, torchvision's `BILINEAR` with
//! `antialias=True`):
//!
//! ```text
//! centre(i) = scale * (i + 1/2)          radius = max(1, scale)
//! first(i)  = max(floor(centre - radius + 1/2), 0)
//! last(i)   = min(floor(centre + radius + 1/2), source)        taps first..last
//! w(i, k)   = max(0, 1 - |k + 1/2 - centre| / radius), scaled to a sum of 2^14
//! ```
//!
//! The weights are integers that sum to exactly 2^14 (the largest weight absorbs the rounding error),
//! so an image of one colour stays unchanged. The image is first filtered along y, into rows of Q7
//! numbers around 128:
//!
//! ```text
//! row[x]    = sum_k ((in[k, x] - 128) * 2^8 * wy(k) + 2^14) >> 15            i16, Q7
//! out[i]    = (sum_k row[first + k] * wx(k) + 2^20 + 128 * 2^21) >> 21       clamped to 0..=255
//! ```
//!
//! The intermediate rows are not rounded to u8, so the result is closer to the exact filter than the
//! results of the two libraries: within one level of both, and of the exact value.
//!
//! | | |
//! |--------|------------------------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart                      |
//! | output | u8 `[size.height, size.width, C]`                                      |
//! | random | nothing                                                                |
//! | cost   | a row reads the source rows of its taps: the same in any order of rows |
//!
//! [`resize`] is the reference implementation. The compiled loop contains this filter for RGB;
//! [`BilinearRows`] has the same bits for any number of channels, one row at a time.

use crate::Size;
use crate::shape::ImageView;
use std::ops::Range;

/// The sum of the weights of one output pixel: 1.0 in Q14.
const ONE: i32 = 1 << 14;

/// The filter of one axis: the first tap and the weights of each output pixel.
///
/// All outputs have the same number of taps; taps beyond a border have weight 0. The buffers are reused
/// from one [`set`](Self::set) to the next.
#[derive(Clone, Debug, Default)]
pub struct Taps {
    first: Vec<i32>,
    weights: Vec<i16>,
    count: usize,
    /// The weights of one output pixel before they are scaled.
    scratch: Vec<f64>,
}

impl Taps {
    /// Builds the taps of every output pixel of the resize from `source` to `output` pixels.
    #[must_use]
    pub fn new(source: u32, output: u32) -> Self {
        let mut taps = Self::default();
        taps.set(source, output, (0..output).map(i64::from), 1, 1);
        taps
    }

    /// Sets the taps for the outputs `wanted` (in the order given, each clamped to `0..output`) of the
    /// resize from `source` to `output` pixels. The number of taps is rounded up to a multiple of
    /// `group`; offsets are in units of `1 / step` pixels.
    ///
    /// If the source has fewer pixels than there are taps, the last [`count`](Self::count) `- source`
    /// taps are past its end; their weight is 0.
    pub fn set(
        &mut self,
        source: u32,
        output: u32,
        wanted: impl Iterator<Item = i64>,
        group: usize,
        step: i32,
    ) {
        let triangle = Triangle::new(source, output);
        self.count = triangle.widest().next_multiple_of(group);
        self.scratch.resize(self.count, 0.0);
        self.first.clear();
        self.weights.clear();
        for i in wanted {
            let i = i.clamp(0, i64::from(output) - 1);
            let start = self.weights.len();
            self.weights.resize(start + self.count, 0);
            let weights = &mut self.weights[start..];
            self.first.push(step * triangle.weigh(i as f64, &mut self.scratch, weights));
        }
    }

    /// Returns the number of taps of an output pixel.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the first source pixel of each output pixel, times the `step` of [`set`](Self::set).
    #[must_use]
    pub fn first(&self) -> &[i32] {
        &self.first
    }

    /// Returns the [`count`](Self::count) weights of each output pixel, in Q14.
    #[must_use]
    pub fn weights(&self) -> &[i16] {
        &self.weights
    }

    /// Appends outputs that read from the first pixel with weights of 0, up to `len` outputs.
    pub fn pad_to(&mut self, len: usize) {
        self.first.resize(len, 0);
        self.weights.resize(len * self.count, 0);
    }
}

/// The filter of one axis, before its weights become integers.
struct Triangle {
    source: u32,
    scale: f64,
    radius: f64,
    /// One over the radius.
    slope: f64,
}

impl Triangle {
    fn new(source: u32, output: u32) -> Self {
        let scale = f64::from(source) / f64::from(output);
        let radius = scale.max(1.0);
        Self { source, scale, radius, slope: 1.0 / radius }
    }

    /// Returns the largest number of taps with a weight above 0: a triangle of radius r covers at most
    /// ceil(2r) pixel centres with such a weight.
    fn widest(&self) -> usize {
        ((2.0 * self.radius).ceil() as usize).clamp(1, self.source as usize)
    }

    /// Writes the weights of output `i` over zeros, and returns its first tap. `shares` is as long as
    /// `weights`.
    fn weigh(&self, i: f64, shares: &mut [f64], weights: &mut [i16]) -> i32 {
        let centre = self.scale * (i + 0.5);
        let share = |k: u32| (1.0 - (f64::from(k) + 0.5 - centre).abs() * self.slope).max(0.0);
        let mut first = (centre - self.radius + 0.5).max(0.0) as u32;
        let mut last = ((centre + self.radius + 0.5) as u32).min(self.source);
        while last - first > 1 && share(first) <= 0.0 {
            first += 1;
        }
        while last - first > 1 && share(last - 1) <= 0.0 {
            last -= 1;
        }
        // Limits the taps to the room available: only the rounding of the ends could produce one more.
        let taps = ((last - first) as usize).min(shares.len());
        let shares = &mut shares[..taps];
        for (k, out) in (first..).zip(&mut *shares) {
            *out = share(k);
        }
        // The taps must end inside the source, if it is long enough: they start earlier, with weights
        // of 0.
        let start = first.min(self.source.saturating_sub(weights.len() as u32));
        quantize(shares, &mut weights[(first - start) as usize..]);
        start as i32
    }
}

/// Scales the weights to a sum of exactly [`ONE`].
fn quantize(shares: &[f64], out: &mut [i16]) {
    let unit = f64::from(ONE) / shares.iter().sum::<f64>();
    let (mut total, mut largest) = (0i32, 0);
    for (k, share) in shares.iter().enumerate() {
        let q = (share * unit + 0.5) as i32;
        out[k] = q as i16;
        total += q;
        if out[k] > out[largest] {
            largest = k;
        }
    }
    out[largest] += (ONE - total) as i16;
}

/// Scales `source` to `size`, as u8 with channels last and as many channels. This is the reference
/// implementation.
///
/// # Panics
///
/// If either size has a side of 0.
#[must_use]
pub fn resize(source: &ImageView<'_>, size: Size) -> Vec<u8> {
    let from = source.size();
    assert!(from.pixels() > 0 && size.pixels() > 0, "cannot resize an image without pixels");
    let (rows, columns) = (Taps::new(from.height, size.height), Taps::new(from.width, size.width));
    let mut out = Vec::new();
    for y in 0..size.height as usize {
        let row = filter_rows(source, &rows, y);
        for x in 0..size.width as usize {
            let pixel = 0..source.channels();
            out.extend(pixel.map(|c| filter_columns(&row, &columns, source.channels(), (x, c))));
        }
    }
    out
}

/// Returns output row `y`, not yet scaled along x, in Q7 around 128.
fn filter_rows(source: &ImageView<'_>, taps: &Taps, y: usize) -> Vec<i16> {
    let weights = &taps.weights[y * taps.count..][..taps.count];
    let mut row = vec![0i16; source.size().width as usize * source.channels()];
    for (k, &weight) in weights.iter().enumerate() {
        let from = source.row(taps.first[y] as u32 + k as u32);
        for (sum, &value) in row.iter_mut().zip(from) {
            let centred = (i32::from(value) - 128) << 8;
            *sum += ((centred * i32::from(weight) + (1 << 14)) >> 15) as i16;
        }
    }
    row
}

/// Returns channel `c` of output pixel `x`.
fn filter_columns(row: &[i16], taps: &Taps, channels: usize, (x, c): (usize, usize)) -> u8 {
    let weights = &taps.weights[x * taps.count..][..taps.count];
    let first = taps.first[x] as usize;
    let terms = weights.iter().enumerate();
    let at = |k: usize| i32::from(row[(first + k) * channels + c]);
    finish(terms.map(|(k, &weight)| at(k) * i32::from(weight)).sum())
}

/// Converts the sum of an output value to a byte.
#[inline(always)]
fn finish(sum: i32) -> u8 {
    ((sum + (1 << 20) + (128 << 21)) >> 21).clamp(0, 255) as u8
}

/// The working memory of a [`BilinearRows`]. Each worker has one and reuses it for every image.
#[derive(Clone, Debug, Default)]
pub struct BilinearScratch {
    /// The sizes and the columns that the taps were built for.
    key: Option<(Size, Size, Range<u32>)>,
    columns: Taps,
    rows: Taps,
    /// An output row that is not yet scaled along x, in Q7 around 128.
    row: Vec<i16>,
    /// The sums of the output values, before they are rounded.
    sums: Vec<i32>,
}

/// A resize of one image, row by row, in any order.
///
/// ```
/// use fuseloop_ops::Size;
/// use fuseloop_ops::internals::ImageView;
/// use fuseloop_ops::internals::bilinear::{BilinearRows, BilinearScratch};
///
/// let mask = [9; 6 * 5];
/// let source = ImageView::packed_channels(&mask, Size::new(6, 5), 1).unwrap();
/// let mut scratch = BilinearScratch::default();
/// let mut rows = BilinearRows::new(source, Size::new(2, 3), 0..3, &mut scratch);
/// let mut row = [0; 3];
/// rows.row(1, &mut row);
/// assert_eq!(row, [9; 3]);
/// ```
#[derive(Debug)]
pub struct BilinearRows<'a> {
    source: ImageView<'a>,
    height: u32,
    /// The number of bytes of a row.
    bytes: usize,
    scratch: &'a mut BilinearScratch,
}

impl<'a> BilinearRows<'a> {
    /// Prepares to resize `source` to `size` and to compute only the `columns` of the output. Nothing is
    /// allocated once `scratch` has grown to the size that such images need.
    ///
    /// # Panics
    ///
    /// If either size has a side of 0, or a column is outside the output.
    #[must_use]
    pub fn new(
        source: ImageView<'a>,
        size: Size,
        columns: Range<u32>,
        scratch: &'a mut BilinearScratch,
    ) -> Self {
        let from = source.size();
        assert!(from.pixels() > 0 && size.pixels() > 0, "cannot resize an image without pixels");
        assert!(columns.start <= columns.end && columns.end <= size.width, "{columns:?}");
        let bytes = columns.len() * source.channels();
        let key = Some((from, size, columns.clone()));
        if scratch.key != key {
            let columns = columns.map(i64::from);
            scratch.columns.set(from.width, size.width, columns, 1, 1);
            scratch.rows.set(from.height, size.height, (0..size.height).map(i64::from), 1, 1);
            scratch.key = key;
        }
        Self { source, height: size.height, bytes, scratch }
    }

    /// Returns the number of channels of the input and of the output.
    #[must_use]
    pub const fn channels(&self) -> usize {
        self.source.channels()
    }

    /// Writes the requested columns of output row `y`: `out` is `channels * columns.len()` bytes.
    ///
    /// # Panics
    ///
    /// If `y` is not below the output's height, or `out` is of another length.
    #[inline(always)]
    pub fn row(&mut self, y: u32, out: &mut [u8]) {
        match self.channels() {
            1 => self.row_of::<1, 1>(y, out),
            2 => self.row_of::<2, 4>(y, out),
            3 => self.row_of::<3, 4>(y, out),
            _ => self.row_of::<4, 4>(y, out),
        }
    }

    /// Does what [`row`](Self::row) does, for `C` [`channels`](Self::channels) in `L` lanes: 1 for one
    /// channel, and otherwise 4.
    ///
    /// # Panics
    ///
    /// If `C` is another number, and in the cases of [`row`](Self::row).
    #[inline(always)]
    pub fn row_of<const C: usize, const L: usize>(&mut self, y: u32, out: &mut [u8]) {
        const { assert!(L == if C == 1 { 1 } else { 4 }, "lanes of a pixel") };
        assert_eq!(C, self.channels(), "channels of the image");
        assert!(y < self.height, "row {y} is outside the output of {} rows", self.height);
        assert_eq!(out.len(), self.bytes, "bytes of a row");
        if out.is_empty() {
            return;
        }
        self.scale_down::<C, L>(y as usize);
        let BilinearScratch { columns, row, sums, .. } = &mut *self.scratch;
        sums.resize(out.len() + (L - C), 0);
        match columns.count {
            1 => scale_across::<C, L, 1>(columns, row, sums),
            2 => scale_across::<C, L, 2>(columns, row, sums),
            3 => scale_across::<C, L, 3>(columns, row, sums),
            4 => scale_across::<C, L, 4>(columns, row, sums),
            5 => scale_across::<C, L, 5>(columns, row, sums),
            6 => scale_across::<C, L, 6>(columns, row, sums),
            7 => scale_across::<C, L, 7>(columns, row, sums),
            8 => scale_across::<C, L, 8>(columns, row, sums),
            count => {
                let weights = columns.weights.chunks_exact(count);
                scale_across_any::<C, L, _>(&columns.first, weights, row, sums);
            }
        }
        for (out, &sum) in out.iter_mut().zip(&*sums) {
            *out = finish(sum);
        }
    }

    /// Computes the part of row `y` that its columns are computed from, not yet scaled along x.
    #[inline(always)]
    fn scale_down<const C: usize, const L: usize>(&mut self, y: usize) {
        let BilinearScratch { columns, rows, row, .. } = &mut *self.scratch;
        let (begin, last) = (columns.first[0] as usize, columns.first[columns.first.len() - 1]);
        let bytes = begin * C..(last as usize + columns.count) * C;
        let (first, weights) =
            (rows.first[y] as u32, &rows.weights[y * rows.count..][..rows.count]);
        let line = |k: usize| &self.source.row(first + k as u32)[bytes.clone()];
        row.resize(bytes.len() + (L - C), 0);
        let row = &mut row[..bytes.len()];
        match *weights {
            [a] => blend([a], [0].map(line), row),
            [a, b] => blend([a, b], [0, 1].map(line), row),
            [a, b, c] => blend([a, b, c], [0, 1, 2].map(line), row),
            [a, b, c, d] => blend([a, b, c, d], [0, 1, 2, 3].map(line), row),
            _ => {
                row.fill(ROW);
                for (k, &weight) in weights.iter().enumerate() {
                    for (sum, &value) in row.iter_mut().zip(line(k)) {
                        *sum += weighed(value, weight) as i16;
                    }
                }
            }
        }
    }
}

/// The sum from which a row starts: see [`weighed`].
const ROW: i16 = -ONE as i16;

/// Returns a value's part of a row, in Q7 around 0: the formula of the module in fewer operations.
///
/// ```text
/// ((value - 128) * 2^8 * weight + 2^14) >> 15  =  ((value * weight + 2^6) >> 7) - weight
/// ```
///
/// The weights sum to [`ONE`], so a row starts from `-ONE` and no weight is subtracted here.
#[inline(always)]
fn weighed(value: u8, weight: i16) -> i32 {
    (i32::from(value) * i32::from(weight) + (1 << 6)) >> 7
}

/// Writes the weighted sums of `N` source rows.
#[inline(always)]
fn blend<const N: usize>(weights: [i16; N], lines: [&[u8]; N], row: &mut [i16]) {
    let lines = lines.map(|line| &line[..row.len()]);
    for (i, out) in row.iter_mut().enumerate() {
        let mut sum = i32::from(ROW);
        for n in 0..N {
            sum += weighed(lines[n][i], weights[n]);
        }
        *out = sum as i16;
    }
}

#[inline(always)]
fn scale_across<const C: usize, const L: usize, const TAPS: usize>(
    taps: &Taps,
    row: &[i16],
    out: &mut [i32],
) {
    let weights = taps.weights.as_chunks::<TAPS>().0;
    scale_across_any::<C, L, _>(&taps.first, weights.iter(), row, out);
}

/// Scales a row along x. Inlined into the callers above, where the length of a column's weights is known.
#[inline(always)]
fn scale_across_any<'a, const C: usize, const L: usize, W: AsRef<[i16]> + ?Sized + 'a>(
    firsts: &[i32],
    weights: impl Iterator<Item = &'a W>,
    row: &[i16],
    out: &mut [i32],
) {
    for (x, (&first, weights)) in firsts.iter().zip(weights).enumerate() {
        let weights = weights.as_ref();
        let at = (first - firsts[0]) as usize * C;
        let taps = &row[at..at + weights.len() * C + (L - C)];
        let mut sums = [0; L];
        for (tap, &weight) in weights.iter().enumerate() {
            for lane in 0..L {
                sums[lane] += i32::from(taps[tap * C + lane]) * i32::from(weight);
            }
        }
        out[x * C..x * C + L].copy_from_slice(&sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::MAX_CHANNELS;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    /// Computes the filter in double precision, rounded once.
    fn exact(source: &ImageView<'_>, size: Size) -> Vec<f64> {
        let from = source.size();
        let axis = |n: u32, m: u32| -> Vec<Vec<(u32, f64)>> {
            let scale = f64::from(n) / f64::from(m);
            let radius = scale.max(1.0);
            let taps = |i: u32| {
                let centre = scale * (f64::from(i) + 0.5);
                let w = |k: u32| (1.0 - ((f64::from(k) + 0.5 - centre) / radius).abs()).max(0.0);
                let sum: f64 = (0..n).map(w).sum();
                (0..n).map(|k| (k, w(k) / sum)).filter(|t| t.1 > 0.0).collect()
            };
            (0..m).map(taps).collect()
        };
        let (ys, xs) = (axis(from.height, size.height), axis(from.width, size.width));
        let mut out = vec![];
        for rows in &ys {
            for columns in &xs {
                for c in 0..source.channels() {
                    let column = |y: u32| -> f64 {
                        let at =
                            |x: u32| f64::from(source.row(y)[x as usize * source.channels() + c]);
                        columns.iter().map(|&(x, w)| w * at(x)).sum()
                    };
                    out.push(rows.iter().map(|&(y, w)| w * column(y)).sum());
                }
            }
        }
        out
    }

    fn noise(size: Size, channels: usize) -> Vec<u8> {
        let mut rng = crate::rng::SampleKey::new(1, 2, size.pixels()).op(0);
        (0..size.pixels() as usize * channels).map(|_| rng.below(256) as u8).collect()
    }

    #[test]
    fn within_one_level_of_the_exact_filter() {
        let sides = [(1, 1), (1, 7), (5, 1), (2, 3), (9, 4), (17, 40), (50, 16), (33, 32)];
        for (h, w) in sides {
            for (oh, ow) in sides {
                let (from, to) = (Size::new(h, w), Size::new(oh, ow));
                let channels = 1 + (h + ow) as usize % MAX_CHANNELS;
                let bytes = noise(from, channels);
                let view = ImageView::packed_channels(&bytes, from, channels).unwrap();
                for (got, want) in resize(&view, to).iter().zip(exact(&view, to)) {
                    assert!((f64::from(*got) - want).abs() <= 1.0, "{from} -> {to}: {got} {want}");
                }
            }
        }
    }

    #[test]
    fn a_flat_picture_stays_flat_and_the_same_size_stays_the_same() {
        let flat = vec![201u8; 3 * 31 * 17];
        let view = ImageView::packed(&flat, Size::new(31, 17)).unwrap();
        assert!(resize(&view, Size::new(13, 40)).iter().all(|&v| v == 201));
        let bytes = noise(Size::new(9, 12), 3);
        let view = ImageView::packed(&bytes, Size::new(9, 12)).unwrap();
        assert_eq!(resize(&view, Size::new(9, 12)), bytes);
    }

    /// Sizes of which many are short: 1x1, 1xN, Nx1, and sides below 8. Some are equal along an axis.
    fn sizes(rng: &mut impl Rng) -> [Size; 2] {
        let mut side = || {
            let most = [1, 7, 60, 60][rng.next_u32() as usize % 4];
            1 + rng.next_u32() % most
        };
        let [from, mut to] = [(); 2].map(|()| Size::new(side(), side()));
        match side() % 5 {
            0 => to.height = from.height,
            1 => to.width = from.width,
            _ => {}
        }
        [from, to]
    }

    #[test]
    fn rows_are_the_reference_for_any_columns_and_order() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
        let mut scratch = BilinearScratch::default();
        for case in 0..800 {
            let ([from, to], channels) = (sizes(&mut rng), 1 + case % MAX_CHANNELS);
            // Rows have gaps, and the image's last pixel is the last one of the buffer.
            let gap = rng.next_u32() as usize % 7;
            let stride = from.width as usize * channels + gap;
            let mut bytes = vec![0; stride * from.height as usize - gap];
            rng.fill_bytes(&mut bytes);
            if case % 3 == 0 {
                bytes.iter_mut().for_each(|byte| *byte = (*byte >> 7) * 255);
            }
            let source = ImageView::of_channels(&bytes, from, channels, stride).unwrap();
            let expected = resize(&source, to);

            let start = rng.next_u32() % to.width;
            let some = start..start + 1 + rng.next_u32() % (to.width - start);
            for columns in [0..to.width, some, start..start] {
                let mut row = vec![0; columns.len() * channels];
                let mut rows = BilinearRows::new(source, to, columns.clone(), &mut scratch);
                let any: Vec<u32> = (0..to.height).map(|_| rng.next_u32() % to.height).collect();
                for y in (0..to.height).chain((0..to.height).rev()).chain(any) {
                    rows.row(y, &mut row);
                    let line = &expected[(y * to.width) as usize * channels..];
                    let wanted = columns.start as usize * channels..columns.end as usize * channels;
                    assert_eq!(
                        row, line[wanted],
                        "{from}x{channels} to {to}, row {y}, {columns:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_large_reduction_and_a_long_thin_image_have_the_same_rows() {
        let mut scratch = BilinearScratch::default();
        for (height, width, out_height, out_width) in
            [(700, 1001, 3, 2), (1, 3000, 1, 7), (2500, 1, 3, 1), (3, 2, 9, 300)]
        {
            let (from, to) = (Size::new(height, width), Size::new(out_height, out_width));
            for channels in 1..=MAX_CHANNELS {
                for bytes in [noise(from, channels), vec![255; from.pixels() as usize * channels]] {
                    let source = ImageView::packed_channels(&bytes, from, channels).unwrap();
                    let expected = resize(&source, to);
                    let mut row = vec![0; to.width as usize * channels];
                    let mut rows = BilinearRows::new(source, to, 0..to.width, &mut scratch);
                    for (y, expected) in expected.chunks(row.len()).enumerate() {
                        rows.row(y as u32, &mut row);
                        assert_eq!(row, expected, "{from}x{channels} to {to}, row {y}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_channel_is_an_image_of_its_own() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
        for case in 0..200 {
            let ([from, to], channels) = (sizes(&mut rng), 2 + case % 3);
            let bytes = noise(from, channels);
            let resized = resize(&ImageView::packed_channels(&bytes, from, channels).unwrap(), to);
            for channel in 0..channels {
                let plane: Vec<u8> =
                    bytes.iter().skip(channel).step_by(channels).copied().collect();
                let plane = ImageView::packed_channels(&plane, from, 1).unwrap();
                let own = resized.iter().skip(channel).step_by(channels);
                assert!(resize(&plane, to).iter().eq(own), "{from} to {to}, channel {channel}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "row 2 is outside the output of 2 rows")]
    fn a_row_outside_is_a_mistake() {
        let source = ImageView::packed_channels(&[0; 6], Size::new(2, 3), 1).unwrap();
        let mut scratch = BilinearScratch::default();
        BilinearRows::new(source, Size::new(2, 2), 0..1, &mut scratch).row(2, &mut [0]);
    }

    #[test]
    fn weights_sum_to_one_and_taps_end_inside() {
        for source in 1..60 {
            for output in 1..60 {
                let taps = Taps::new(source, output);
                for (i, &first) in taps.first().iter().enumerate() {
                    let weights = &taps.weights()[i * taps.count()..][..taps.count()];
                    assert_eq!(weights.iter().map(|&w| i32::from(w)).sum::<i32>(), ONE);
                    assert!(first as usize + taps.count() <= source as usize);
                }
            }
        }
    }
}
