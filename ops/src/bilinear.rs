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
//! A part of the source may be scaled instead of all of it: then `scale = (end - start) / output`, the
//! centres lie `start` further on, and the taps stay inside the source.
//!
//! The intermediate rows are not rounded to u8, so the result is closer to the exact filter than the
//! results of the two libraries: within one level of both, and of the exact value.
//!
//! | | |
//! |--------|------------------------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart                      |
//! | output | u8 `[size.height, size.width, C]`                                      |
//! | random | nothing                                                                |
//!
//! [`resize`] is the reference implementation. The compiled loop contains this filter.

use crate::Size;
use crate::shape::ImageView;

/// The sum of the weights of one output pixel: 1.0 in Q14.
const ONE: i32 = 1 << 14;

/// An axis of the source, and the part of it that becomes the output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisPart {
    /// The pixels of the source.
    pub pixels: u32,
    /// Where the part begins and ends, in pixels of the source.
    pub part: [f64; 2],
}

impl From<u32> for AxisPart {
    /// The part is the whole axis.
    fn from(pixels: u32) -> Self {
        Self { pixels, part: [0.0, f64::from(pixels)] }
    }
}

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
    pub fn new(source: impl Into<AxisPart>, output: u32) -> Self {
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
        source: impl Into<AxisPart>,
        output: u32,
        wanted: impl Iterator<Item = i64>,
        group: usize,
        step: i32,
    ) {
        let triangle = Triangle::new(source.into(), output);
        self.count = triangle.widest().next_multiple_of(group);
        self.scratch.resize(self.count, 0.0);
        self.first.clear();
        self.weights.clear();
        let wanted = wanted.map(|i| i.clamp(0, i64::from(output) - 1) as f64);
        match self.count {
            2 => self.extend::<2>(&triangle, wanted, step),
            3 => self.extend::<3>(&triangle, wanted, step),
            4 => self.extend::<4>(&triangle, wanted, step),
            6 => self.extend::<6>(&triangle, wanted, step),
            8 => self.extend::<8>(&triangle, wanted, step),
            _ => {
                for i in wanted {
                    let start = self.weights.len();
                    self.weights.resize(start + self.count, 0);
                    let weights = &mut self.weights[start..];
                    self.first.push(step * triangle.weigh(i, &mut self.scratch, weights));
                }
            }
        }
    }

    /// Appends the taps of outputs that have `N` of them.
    fn extend<const N: usize>(
        &mut self,
        triangle: &Triangle,
        wanted: impl Iterator<Item = f64>,
        step: i32,
    ) {
        for i in wanted {
            let (first, weights) = triangle.weights::<N>(i);
            self.first.push(step * first);
            self.weights.extend_from_slice(&weights);
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
    start: f64,
    scale: f64,
    radius: f64,
    /// One over the radius.
    slope: f64,
}

impl Triangle {
    fn new(AxisPart { pixels, part: [start, end] }: AxisPart, output: u32) -> Self {
        let scale = (end - start) / f64::from(output);
        let radius = scale.max(1.0);
        Self { source: pixels, start, scale, radius, slope: 1.0 / radius }
    }

    /// Returns the largest number of taps with a weight above 0: a triangle of radius r covers at most
    /// ceil(2r) pixel centres with such a weight.
    fn widest(&self) -> usize {
        ((2.0 * self.radius).ceil() as usize).clamp(1, self.source as usize)
    }

    /// Returns the weight of source pixel `k`, before it is scaled, for an output with this centre.
    #[inline(always)]
    fn share(&self, k: u32, centre: f64) -> f64 {
        (1.0 - (f64::from(k) + 0.5 - centre).abs() * self.slope).max(0.0)
    }

    /// Returns what [`weigh`](Self::weigh) does, without branches: their outcomes differ from one output to the next, so
    /// that a processor guesses them wrong.
    #[inline(always)]
    fn weights<const N: usize>(&self, i: f64) -> (i32, [i16; N]) {
        let centre = self.start + self.scale * (i + 0.5);
        let mut first = (centre - self.radius + 0.5).max(0.0) as u32;
        let last = ((centre + self.radius + 0.5) as u32).min(self.source);
        // By its definition the first tap has a weight above 0, but rounding may make it 0.
        first += u32::from((last - first > 1) & (self.share(first, centre) <= 0.0));
        let start = first.min(self.source.saturating_sub(N as u32));
        let shares: [f64; N] = std::array::from_fn(|k| {
            let k = start + k as u32;
            if (first <= k) & (k < last) { self.share(k, centre) } else { 0.0 }
        });
        let unit = f64::from(ONE) / shares.iter().sum::<f64>();
        let mut weights = shares.map(|share| (share * unit + 0.5) as i32);
        let rest = ONE - weights.iter().sum::<i32>();
        let (mut largest, mut most) = (0, weights[0]);
        for (k, &weight) in weights.iter().enumerate() {
            largest = if weight > most { k } else { largest };
            most = most.max(weight);
        }
        for (k, weight) in weights.iter_mut().enumerate() {
            *weight += if k == largest { rest } else { 0 };
        }
        (start as i32, weights.map(|weight| weight as i16))
    }

    /// Writes the weights of output `i` over zeros, and returns its first tap. `shares` is as long as
    /// `weights`.
    fn weigh(&self, i: f64, shares: &mut [f64], weights: &mut [i16]) -> i32 {
        let centre = self.start + self.scale * (i + 0.5);
        let share = |k| self.share(k, centre);
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
    let Size { height, width } = source.size();
    resize_part(source, [height, width].map(|side| AxisPart::from(side).part), size)
}

/// Scales a part of `source`, which may begin and end inside pixels, to `size`; see [`resize`].
///
/// # Panics
///
/// If either size has a side of 0.
#[must_use]
pub fn resize_part(source: &ImageView<'_>, part: [[f64; 2]; 2], size: Size) -> Vec<u8> {
    let from = source.size();
    assert!(from.pixels() > 0 && size.pixels() > 0, "cannot resize an image without pixels");
    let [down, across] = [(from.height, part[0]), (from.width, part[1])]
        .map(|(pixels, part)| AxisPart { pixels, part });
    let (rows, columns) = (Taps::new(down, size.height), Taps::new(across, size.width));
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
fn finish(sum: i32) -> u8 {
    ((sum + (1 << 20) + (128 << 21)) >> 21).clamp(0, 255) as u8
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
    fn weights_without_branches_are_those_of_the_definition() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut compared = 0;
        for _ in 0..20_000 {
            let pixels = 1 + rng.next_u32() % 40;
            let whole = f64::from(pixels);
            let mut ends = [rng.next_u32(), rng.next_u32()]
                .map(|end| f64::from(end) / f64::from(u32::MAX) * whole);
            ends.sort_by(f64::total_cmp);
            // Whole numbers and halves put taps on the ends of the triangle.
            let is_round = rng.next_u32().is_multiple_of(2);
            let ends = if is_round { ends.map(|end| (2.0 * end).round() / 2.0) } else { ends };
            let is_whole = ends[0] == ends[1] || rng.next_u32().is_multiple_of(2);
            let part = if is_whole { [0.0, whole] } else { ends };
            let output = 1 + rng.next_u32() % 40;
            let group = 1 + rng.next_u32() as usize % 2;
            let axis = AxisPart { pixels, part };
            let mut taps = Taps::default();
            taps.set(axis, output, (0..output).map(i64::from), group, 1);
            let triangle = Triangle::new(axis, output);
            let mut shares = vec![0.0; taps.count()];
            compared += usize::from([2, 3, 4, 6, 8].contains(&taps.count()));
            for (i, found) in taps.weights().chunks_exact(taps.count()).enumerate() {
                let mut weights = vec![0; taps.count()];
                let first = triangle.weigh(i as f64, &mut shares, &mut weights);
                let case = format!("output {i} of {output}, {axis:?}");
                assert_eq!((taps.first()[i], found), (first, &weights[..]), "{case}");
            }
        }
        assert!(compared > 10_000, "{compared}");
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
