//! Warps: rotation, affine transforms, perspective.
//!
//! ```text
//! out[y, x] = in[map(y, x)]
//! ```
//!
//! The formulas of the interpolations are in the documentation of [`WarpInterpolation`].
//!
//! | | |
//! |--------|-----------------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart               |
//! | output | u8 `[size.height, size.width, C]`                               |
//! | random | nothing                                                         |
//! | cost   | a pixel: its position, then 1, 4 or 16 pixels read              |
//!
//! Rows are computed in blocks of 32 pixels, step by step, so that each step is a loop that the compiler
//! can vectorize. If all pixels of a block are inside, they are read without individual bounds checks.
//! Bilinear values are first summed without fused operations, which are function calls if the CPU is
//! unknown; only a value so near a tie that the difference could matter is summed again as above.

use super::map::{BLOCK, Coordinates, Map};
use super::{byte, floor, integer, whole};
use crate::Size;
use crate::memory::NoMemory;
use crate::shape::{ImageView, MAX_CHANNELS};
use std::ops::Range;

/// How a warp computes a pixel from those around its source position.
///
/// Let `(ix, iy)` be the source position in f32, `x0 = floor(ix)`, `e = ix - x0`, and `s` likewise
/// along y. Pixels outside the image count as 0:
///
/// | interpolation | value                                                                        |
/// |---------------|------------------------------------------------------------------------------|
/// | nearest       | `in[rint(iy), rint(ix)]`                                                     |
/// | bilinear      | `fma(se, SE, fma(sw, SW, fma(ne, NE, nw * NW)))`, `nw = (1-e)(1-s)`, ...     |
/// | bicubic       | rows `y0-1..=y0+2`, each of 4 pixels: weights of the cubic with `A = -0.75`  |
///
/// The result is rounded with `rint`, ties to even, and clamped to `0..=255`. A fill colour is mixed in by
/// the share `m` of the weights that are inside the image: `(value - fill) * m + fill`. The value already
/// contains this share as a factor, so a fill of 0 is darker at the edges than no fill. Nearest uses the
/// fill colour wherever it would read outside.
///
/// Nearest and bilinear are torchvision's on u8 tensors. Nearest takes the same pixel, except where the position is
/// a tie, half-way between two pixels up to the rounding of f32: there torch's choice depends on its build. Bilinear is
/// within 1 on fewer than one value in 10000, since torch's order of sums depends on its build, too. Bicubic, which
/// torchvision refuses on tensors, follows `grid_sample`.
///
/// ```
/// # use fuseloop_ops::*;
/// let smooth = RandomRotation::new(15.0)?.interpolation(WarpInterpolation::Bilinear);
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WarpInterpolation {
    /// The nearest pixel.
    Nearest,
    /// The 4 pixels around the position.
    Bilinear,
    /// The 16 pixels around the position.
    Bicubic,
}

impl WarpInterpolation {
    /// Returns true if a pixel may be computed from several others.
    pub(crate) const fn blends(self) -> bool {
        !matches!(self, Self::Nearest)
    }
}

/// A warp of an image: see the formulas of [`Map::affine`] and [`Map::perspective`].
#[derive(Clone, Debug, PartialEq)]
pub struct Warp {
    /// Size of the output.
    pub size: Size,
    /// The source position of each output pixel. The map must be built for this size and for the
    /// input's.
    pub map: Map,
    /// How the input is interpolated at these positions.
    pub interpolation: WarpInterpolation,
    /// The colour outside the input; `None` is black without blending at the edge. Channel 3 has the fill of
    /// channel 0: the planner guarantees that the three are equal if the image hasn't 3 channels.
    pub fill: Option<[u8; 3]>,
}

impl Warp {
    /// Computes what positions depend on besides the map's own numbers.
    pub(super) fn prepare(&self) -> Result<(), NoMemory> {
        self.map.displacement().map_or(Ok(()), |displacement| displacement.prepare())
    }

    /// Returns the warped image, computed one pixel at a time.
    pub(super) fn eval(&self, input: &ImageView<'_>) -> Vec<u8> {
        let channels = input.channels();
        let mut pixels = Vec::with_capacity(self.size.pixels() as usize * channels);
        for y in 0..self.size.height {
            for x in 0..self.size.width {
                let position = self.map.position(y, x);
                let pixel: [u8; MAX_CHANNELS] = match self.interpolation {
                    WarpInterpolation::Nearest => self.nearest(input, position),
                    WarpInterpolation::Bilinear => self.bilinear(input, position),
                    WarpInterpolation::Bicubic => self.bicubic(input, position),
                };
                pixels.extend_from_slice(&pixel[..channels]);
            }
        }
        pixels
    }

    /// Returns the fill of each channel.
    #[inline(always)]
    fn fills(&self) -> Option<[u8; MAX_CHANNELS]> {
        self.fill.map(|[r, g, b]| [r, g, b, r])
    }

    fn nearest(&self, input: &ImageView<'_>, [x, y]: [f32; 2]) -> [u8; MAX_CHANNELS] {
        let outside = self.fills().unwrap_or_default();
        pixel(input, y.round_ties_even(), x.round_ties_even()).unwrap_or(outside)
    }

    fn bilinear(&self, input: &ImageView<'_>, [x, y]: [f32; 2]) -> [u8; MAX_CHANNELS] {
        let (x0, y0) = (x.floor(), y.floor());
        let weights = bilinear_weights(x - x0, y - y0);
        let positions = [(y0, x0), (y0, x0 + 1.0), (y0 + 1.0, x0), (y0 + 1.0, x0 + 1.0)];
        let taps = positions.map(|(y, x)| pixel(input, y, x));
        let cover = covered(weights, taps.map(|tap| tap.is_some()));
        std::array::from_fn(|c| {
            let values = taps.map(|tap| tap.map_or(0, |tap| tap[c]));
            self.blended(weigh_fused(weights, values), cover, c)
        })
    }

    fn bicubic(&self, input: &ImageView<'_>, [x, y]: [f32; 2]) -> [u8; MAX_CHANNELS] {
        let (x0, y0) = (x.floor(), y.floor());
        let (across, down) = (cubic_weights(x - x0), cubic_weights(y - y0));
        let (mut sum, mut cover) = ([0.0; MAX_CHANNELS], 0.0);
        for (i, weight) in down.into_iter().enumerate() {
            let (mut line, mut line_cover) = ([0.0; MAX_CHANNELS], 0.0);
            for (j, weight) in across.into_iter().enumerate() {
                let tap = pixel(input, y0 + (i as f32 - 1.0), x0 + (j as f32 - 1.0));
                line_cover += weight * if tap.is_some() { 1.0 } else { 0.0 };
                for (line, value) in line.iter_mut().zip(tap.unwrap_or_default()) {
                    *line += weight * f32::from(value);
                }
            }
            cover += weight * line_cover;
            for (sum, line) in sum.iter_mut().zip(line) {
                *sum += weight * line;
            }
        }
        std::array::from_fn(|c| self.blended(sum[c], cover, c))
    }

    /// Returns the byte of channel `c`, with the fill mixed in and rounded.
    fn blended(&self, value: f32, cover: f32, c: usize) -> u8 {
        byte(match self.fills() {
            None => value,
            Some(fill) => mix(value, cover, f32::from(fill[c])),
        })
    }
}

/// Returns the pixel in row `y` and column `x`, which are whole numbers; `None` outside the image. Values
/// behind those of the input's channels are 0.
fn pixel(input: &ImageView<'_>, y: f32, x: f32) -> Option<[u8; MAX_CHANNELS]> {
    let Size { height, width } = input.size();
    // NaN is in no range.
    if !(0.0..height as f32).contains(&y) || !(0.0..width as f32).contains(&x) {
        return None;
    }
    let channels = input.channels();
    let mut pixel = [0; MAX_CHANNELS];
    pixel[..channels].copy_from_slice(&input.row(y as u32)[x as usize * channels..][..channels]);
    Some(pixel)
}

/// Returns the weights of the pixels NW, NE, SW, SE.
#[inline(always)]
pub(super) fn bilinear_weights(e: f32, s: f32) -> [f32; 4] {
    [(1.0 - e) * (1.0 - s), e * (1.0 - s), (1.0 - e) * s, e * s]
}

/// Returns the share of the weights that are inside the image.
#[inline(always)]
fn covered(weights: [f32; 4], inside: [bool; 4]) -> f32 {
    let [nw, ne, sw, se]: [f32; 4] =
        std::array::from_fn(|tap| if inside[tap] { weights[tap] } else { 0.0 });
    nw + ne + sw + se
}

/// Returns the weighted sum with one rounding for each tap.
fn weigh_fused([nw, ne, sw, se]: [f32; 4], values: [u8; 4]) -> f32 {
    let [a, b, c, d] = values.map(f32::from);
    se.mul_add(d, sw.mul_add(c, ne.mul_add(b, nw * a)))
}

/// Returns the weights of the pixels at -1, 0, 1, 2 for a position at distance `t` behind pixel 0.
#[inline(always)]
pub(super) fn cubic_weights(t: f32) -> [f32; 4] {
    const A: f32 = -0.75;
    let near = |t: f32| ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0;
    let far = |t: f32| ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

#[inline(always)]
pub(super) fn mix(value: f32, cover: f32, fill: f32) -> f32 {
    (value - fill) * cover + fill
}

/// A value whose distance to the nearest integer is above this is near a tie, and is summed again
/// with fused operations.
///
/// A sum of four products of bytes, with weights of sum 1, has 7 roundings without fused operations
/// and 4 with them; the fill adds 3 to each. For values below 256, each rounding is off by at most
/// 2^-17, and 17 roundings by less than 2^-12.
const NEAR_TIE: f32 = 0.5 - 1.0 / 4096.0;

/// The rows of one warped image.
#[derive(Debug)]
pub struct WarpRows<'a> {
    warp: &'a Warp,
    input: ImageView<'a>,
    columns: Range<u32>,
}

impl<'a> WarpRows<'a> {
    #[inline(always)]
    pub(super) fn new(warp: &'a Warp, input: ImageView<'a>, columns: Range<u32>) -> Self {
        Self { warp, input, columns }
    }

    /// Returns the warp.
    #[must_use]
    pub fn warp(&self) -> &'a Warp {
        self.warp
    }

    /// Returns the image that is warped.
    #[must_use]
    pub fn input(&self) -> &ImageView<'a> {
        &self.input
    }

    /// Returns the columns of a row.
    #[must_use]
    pub fn columns(&self) -> Range<u32> {
        self.columns.clone()
    }

    /// Writes the source positions of the pixels `(y, first..first + BLOCK)`, computed by instructions of FMA: for
    /// callers that are compiled for it.
    #[inline(always)]
    pub fn positions_by_fma(&self, y: u32, first: u32, out: &mut Coordinates) {
        self.warp.map.positions(y, first, true, out);
    }

    #[inline(always)]
    pub(super) fn row<const C: usize, const L: usize>(&self, y: u32, out: &mut [u8]) {
        let mut positions = [[0.0; BLOCK]; 2];
        for (first, out) in self.columns.clone().step_by(BLOCK).zip(out.chunks_mut(BLOCK * C)) {
            self.warp.map.positions(y, first, false, &mut positions);
            match self.warp.interpolation {
                WarpInterpolation::Nearest => self.nearest::<C, L>(&positions, out),
                WarpInterpolation::Bilinear => self.bilinear::<C, L>(&positions, out),
                WarpInterpolation::Bicubic => self.bicubic::<C, L>(&positions, out),
            }
        }
    }

    #[inline(always)]
    fn nearest<const C: usize, const L: usize>(&self, [xs, ys]: &Coordinates, out: &mut [u8]) {
        let (mut x, mut y) = ([0; BLOCK], [0; BLOCK]);
        integers(xs, &mut x);
        integers(ys, &mut y);
        let mut bytes = BYTES;
        if self.reads_inside::<C, L>(reach(&x, 0, 0), reach(&y, 0, 0)) {
            for i in 0..BLOCK {
                put::<C, L>(&mut bytes, i, self.lanes::<C, L>(y[i], x[i]));
            }
        } else {
            let fill = first(self.warp.fills().unwrap_or_default());
            for i in 0..BLOCK {
                put::<C, L>(&mut bytes, i, self.checked::<C, L>(y[i], x[i]).unwrap_or(fill));
            }
        }
        finish::<C>(&bytes, out);
    }

    #[inline(always)]
    fn bilinear<const C: usize, const L: usize>(&self, [xs, ys]: &Coordinates, out: &mut [u8]) {
        let (mut x, mut y) = (Cells::default(), Cells::default());
        x.fill(xs);
        y.fill(ys);
        let mut weights = [[0.0; 4]; BLOCK];
        block_weights(&x.share, &y.share, &mut weights);
        let mut values = [[0.0; L]; BLOCK];
        let mut covers = [0.0; BLOCK];
        if self.reads_inside::<C, L>(reach(&x.first, 0, 1), reach(&y.first, 0, 1)) {
            self.weigh_squares::<C, L>(&x.first, &y.first, &weights, &mut values);
            total_weights(&weights, &mut covers);
        } else {
            for (i, value) in values.iter_mut().enumerate() {
                let (taps, inside) = self.checked_square::<C, L>(y.first[i], x.first[i]);
                *value = weigh(weights[i], taps);
                covers[i] = covered(weights[i], inside);
            }
        }
        self.mix_fill(&mut values, &covers);
        if round::<C, L>(&values, out) {
            self.settle_ties::<C, L>(&values, &covers, &x, &y, out);
        }
    }

    /// Writes the weighted sums of a block whose pixels are all inside.
    #[inline(always)]
    fn weigh_squares<const C: usize, const L: usize>(
        &self,
        x: &[i32; BLOCK],
        y: &[i32; BLOCK],
        weights: &[[f32; 4]; BLOCK],
        values: &mut [[f32; L]; BLOCK],
    ) {
        // Reads all pixels first and weights them in a second loop, so that each loop does one kind
        // of work.
        let mut taps = [[[0; L]; BLOCK]; 4];
        for i in 0..BLOCK {
            let [nw, ne, sw, se] = self.square::<C, L>(y[i], x[i]);
            (taps[0][i], taps[1][i], taps[2][i], taps[3][i]) = (nw, ne, sw, se);
        }
        for i in 0..BLOCK {
            values[i] = weigh(weights[i], [taps[0][i], taps[1][i], taps[2][i], taps[3][i]]);
        }
    }

    /// Recomputes the pixels with a value near a tie, as [`Warp::bilinear`] does.
    #[cold]
    fn settle_ties<const C: usize, const L: usize>(
        &self,
        values: &[[f32; L]; BLOCK],
        covers: &[f32; BLOCK],
        x: &Cells,
        y: &Cells,
        out: &mut [u8],
    ) {
        for (i, out) in out.as_chunks_mut::<C>().0.iter_mut().enumerate() {
            if !values[i].iter().any(|value| off(*value) > NEAR_TIE) {
                continue;
            }
            let weights = bilinear_weights(x.share[i], y.share[i]);
            let taps = self.checked_square::<C, L>(y.first[i], x.first[i]).0;
            for (c, out) in out.iter_mut().enumerate() {
                let sum = weigh_fused(weights, taps.map(|tap| tap[c]));
                *out = self.warp.blended(sum, covers[i], c);
            }
        }
    }

    #[inline(always)]
    fn bicubic<const C: usize, const L: usize>(&self, [xs, ys]: &Coordinates, out: &mut [u8]) {
        let (mut x, mut y) = (Cells::default(), Cells::default());
        x.fill(xs);
        y.fill(ys);
        let inside = self.reads_inside::<C, L>(reach(&x.first, -1, 2), reach(&y.first, -1, 2));
        let mut values = [[0.0; L]; BLOCK];
        let mut covers = [0.0; BLOCK];
        for i in 0..BLOCK {
            let (across, down) = (cubic_weights(x.share[i]), cubic_weights(y.share[i]));
            for (row, weight) in (y.first[i] - 1..).zip(down) {
                let (taps, within) = if inside {
                    (self.span::<C, L>(row, x.first[i] - 1), [true; 4])
                } else {
                    self.checked_span::<C, L>(row, x.first[i] - 1)
                };
                let line = weigh(across, taps);
                for lane in 0..L {
                    values[i][lane] += weight * line[lane];
                }
                covers[i] += weight * covered(across, within);
            }
        }
        self.mix_fill(&mut values, &covers);
        round::<C, L>(&values, out);
    }

    #[inline(always)]
    fn mix_fill<const L: usize>(&self, values: &mut [[f32; L]; BLOCK], covers: &[f32; BLOCK]) {
        let Some(fill) = self.warp.fills() else { return };
        let fill = fill.map(f32::from);
        for (value, &cover) in values.iter_mut().zip(covers) {
            for lane in 0..L {
                value[lane] = mix(value[lane], cover, fill[lane]);
            }
        }
    }

    /// Returns true if all pixels of these columns and rows (first and last index) are inside, and
    /// the data has all lanes of the last pixel, which may reach behind it.
    #[inline(always)]
    fn reads_inside<const C: usize, const L: usize>(
        &self,
        [left, right]: [i32; 2],
        [top, bottom]: [i32; 2],
    ) -> bool {
        let Size { height, width } = self.input.size();
        left >= 0
            && top >= 0
            && (right as u32) < width
            && (bottom as u32) < height
            && self.offset::<C>(bottom, right) + L <= self.input.data().len()
    }

    /// Returns the offset in the input's bytes of the pixel `(y, x)`, which must be inside.
    #[inline(always)]
    fn offset<const C: usize>(&self, y: i32, x: i32) -> usize {
        y as usize * self.input.stride() + x as usize * C
    }

    /// Returns the lanes of pixel `(y, x)`, which must be inside.
    #[inline(always)]
    fn lanes<const C: usize, const L: usize>(&self, y: i32, x: i32) -> [u8; L] {
        lanes(self.input.data(), self.offset::<C>(y, x))
    }

    /// Returns the 2x2 pixels from `(y, x)` on, which must all be inside.
    #[inline(always)]
    fn square<const C: usize, const L: usize>(&self, y: i32, x: i32) -> Taps<L> {
        let (data, top) = (self.input.data(), self.offset::<C>(y, x));
        let bottom = top + self.input.stride();
        // Each pixel is read separately, though the reads overlap: if they were slices of one
        // slice, the compiler would read the bytes of two pixels once and recombine them, which
        // takes longer.
        [lanes(data, top), lanes(data, top + C), lanes(data, bottom), lanes(data, bottom + C)]
    }

    /// Returns the four pixels from `(y, x)` to the right, which must all be inside.
    #[inline(always)]
    fn span<const C: usize, const L: usize>(&self, y: i32, x: i32) -> Taps<L> {
        let at = self.offset::<C>(y, x);
        let bytes = &self.input.data()[at..at + 3 * C + L];
        [lanes(bytes, 0), lanes(bytes, C), lanes(bytes, 2 * C), lanes(bytes, 3 * C)]
    }

    /// Returns the pixel `(y, x)`, if it is inside.
    #[inline(always)]
    fn checked<const C: usize, const L: usize>(&self, y: i32, x: i32) -> Option<[u8; L]> {
        let Size { height, width } = self.input.size();
        // A negative number becomes a large unsigned one.
        if (x as u32) >= width || (y as u32) >= height {
            return None;
        }
        let bytes = &self.input.data()[self.offset::<C>(y, x)..][..C];
        Some(std::array::from_fn(|lane| if lane < C { bytes[lane] } else { 0 }))
    }

    /// Returns the 2x2 pixels from `(y, x)` on, black outside the image, and which of them are
    /// inside.
    #[inline(always)]
    fn checked_square<const C: usize, const L: usize>(
        &self,
        y: i32,
        x: i32,
    ) -> (Taps<L>, [bool; 4]) {
        self.checked_taps::<C, L>([(y, x), (y, x + 1), (y + 1, x), (y + 1, x + 1)])
    }

    /// Returns the four pixels from `(y, x)` to the right, black outside the image, and which of
    /// them are inside.
    #[inline(always)]
    fn checked_span<const C: usize, const L: usize>(&self, y: i32, x: i32) -> (Taps<L>, [bool; 4]) {
        self.checked_taps::<C, L>([(y, x), (y, x + 1), (y, x + 2), (y, x + 3)])
    }

    #[inline(always)]
    fn checked_taps<const C: usize, const L: usize>(
        &self,
        positions: [(i32, i32); 4],
    ) -> (Taps<L>, [bool; 4]) {
        let (mut taps, mut inside) = ([[0; L]; 4], [false; 4]);
        for ((tap, inside), (y, x)) in taps.iter_mut().zip(&mut inside).zip(positions) {
            if let Some(pixel) = self.checked::<C, L>(y, x) {
                (*tap, *inside) = (pixel, true);
            }
        }
        (taps, inside)
    }
}

/// Four pixels.
type Taps<const L: usize> = [[u8; L]; 4];

/// Returns the first `L` of a pixel's values.
#[inline(always)]
fn first<const L: usize>(pixel: [u8; MAX_CHANNELS]) -> [u8; L] {
    std::array::from_fn(|lane| pixel[lane])
}

#[inline(always)]
fn lanes<const L: usize>(data: &[u8], at: usize) -> [u8; L] {
    let bytes = &data[at..at + L];
    std::array::from_fn(|lane| bytes[lane])
}

/// The bytes of a block: of `BLOCK` pixels, and the lanes behind the last one.
type Bytes = [u8; BLOCK * MAX_CHANNELS];

const BYTES: Bytes = [0; BLOCK * MAX_CHANNELS];

/// Writes the lanes of pixel `i` of a block, and overwrites bytes of the next pixel.
#[inline(always)]
fn put<const C: usize, const L: usize>(bytes: &mut Bytes, i: usize, lanes: [u8; L]) {
    bytes[i * C..i * C + L].copy_from_slice(&lanes);
}

/// Copies the pixels of a block, or fewer at the end of a row, to `out`.
#[inline(always)]
fn finish<const C: usize>(bytes: &Bytes, out: &mut [u8]) {
    match out.as_chunks_mut::<C>().0.first_chunk_mut::<BLOCK>() {
        Some(out) => out.as_flattened_mut().copy_from_slice(&bytes[..BLOCK * C]),
        None => finish_part(bytes, out),
    }
}

/// Not inlined, because the compiler would otherwise merge both branches of [`finish`] into one
/// call of `memcpy`: a copy of known length is three vectors.
#[inline(never)]
fn finish_part(bytes: &Bytes, out: &mut [u8]) {
    out.copy_from_slice(&bytes[..out.len()]);
}

/// Returns the first and the last pixel that a block reads along an axis, if each of its positions
/// reads the pixels from offset `first` to offset `last`.
#[inline(always)]
fn reach(pixels: &[i32; BLOCK], first: i32, last: i32) -> [i32; 2] {
    let (mut low, mut high) = (i32::MAX, i32::MIN);
    for &pixel in pixels {
        low = low.min(pixel);
        high = high.max(pixel);
    }
    [low + first, high + last]
}

/// Rounds a block of positions to the nearest integers.
#[inline(always)]
fn integers(positions: &[f32; BLOCK], integers: &mut [i32; BLOCK]) {
    for (out, &position) in integers.iter_mut().zip(positions) {
        *out = integer(position);
    }
}

/// Computes [`bilinear_weights`] for each pixel.
#[inline(always)]
fn block_weights(e: &[f32; BLOCK], s: &[f32; BLOCK], weights: &mut [[f32; 4]; BLOCK]) {
    for (i, weights) in weights.iter_mut().enumerate() {
        *weights = bilinear_weights(e[i], s[i]);
    }
}

/// Computes [`covered`] for each pixel of a block whose pixels are all inside.
#[inline(always)]
fn total_weights(weights: &[[f32; 4]; BLOCK], covers: &mut [f32; BLOCK]) {
    for (cover, &weights) in covers.iter_mut().zip(weights) {
        *cover = covered(weights, [true; 4]);
    }
}

/// Writes a block's values as the nearest bytes. Returns true if one of them is near a tie.
#[inline(always)]
fn round<const C: usize, const L: usize>(values: &[[f32; L]; BLOCK], out: &mut [u8]) -> bool {
    let mut rounded = [[0; L]; BLOCK];
    let mut near_tie = false;
    for (out, &value) in rounded.as_flattened_mut().iter_mut().zip(values.as_flattened()) {
        *out = byte(value);
        near_tie |= off(value) > NEAR_TIE;
    }
    let mut bytes = BYTES;
    for (i, lanes) in rounded.into_iter().enumerate() {
        put::<C, L>(&mut bytes, i, lanes);
    }
    finish::<C>(&bytes, out);
    near_tie
}

/// Returns the distance of a value to its nearest integer.
#[inline(always)]
fn off(value: f32) -> f32 {
    (whole(value) - value).abs()
}

/// Returns the weighted sum, with one rounding for each product and each sum.
#[inline(always)]
fn weigh<const L: usize>(weights: [f32; 4], taps: Taps<L>) -> [f32; L] {
    let mut sum = [0.0; L];
    for (weight, tap) in weights.into_iter().zip(taps) {
        for lane in 0..L {
            sum[lane] += weight * f32::from(tap[lane]);
        }
    }
    sum
}

/// A block's positions along one axis: the pixel before each position, and the share of the next
/// pixel.
#[derive(Debug, Default)]
struct Cells {
    first: [i32; BLOCK],
    share: [f32; BLOCK],
}

impl Cells {
    #[inline(always)]
    fn fill(&mut self, positions: &[f32; BLOCK]) {
        for (i, &position) in positions.iter().enumerate() {
            let floor = floor(position);
            self.first[i] = integer(floor);
            self.share[i] = position - floor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{affine_matrix, perspective_coefficients, rotation_matrix};
    use crate::shape::RGB;
    use WarpInterpolation::{Bilinear, Nearest};

    /// Nine grey pixels, three by three.
    const NINE: [u8; 9] = [1, 2, 3, 4, 100, 6, 7, 8, 9];
    const THREE: Size = Size::new(3, 3);

    fn warped(
        pixels: &[u8],
        size: Size,
        map: Map,
        interpolation: WarpInterpolation,
        fill: Option<[u8; 3]>,
    ) -> Vec<u8> {
        let pixels: Vec<[u8; 3]> = pixels.iter().map(|&v| [v; 3]).collect();
        let picture = ImageView::packed(pixels.as_flattened(), size).unwrap();
        let out = Warp { size, map, interpolation, fill }.eval(&picture);
        out.as_chunks::<RGB>().0.iter().map(|pixel| pixel[0]).collect()
    }

    fn nine(matrix: [f64; 6], interpolation: WarpInterpolation) -> Vec<u8> {
        warped(&NINE, THREE, Map::affine(matrix, THREE, THREE), interpolation, None)
    }

    #[test]
    fn rotations_are_torchvisions() {
        let turn = |angle| rotation_matrix(angle, [0.0; 2]);
        assert_eq!(nine(turn(30.0), Nearest), [2, 3, 6, 1, 100, 9, 4, 7, 8]);
        assert_eq!(nine(turn(30.0), Bilinear), [1, 9, 3, 9, 100, 14, 3, 13, 5]);
        assert_eq!(nine(turn(90.0), Nearest), [3, 6, 9, 2, 100, 8, 1, 4, 7]);
    }

    #[test]
    fn affine_transforms_are_torchvisions() {
        let affine = |angle, translate, shear| {
            nine(affine_matrix(angle, translate, 1.0, shear, [0.0; 2]), Nearest)
        };
        assert_eq!(affine(30.0, [0.0; 2], [0.0; 2]), [4, 1, 2, 7, 100, 3, 8, 9, 6]);
        assert_eq!(affine(0.0, [1.0, 0.0], [0.0; 2]), [0, 1, 2, 0, 4, 100, 0, 7, 8]);
        assert_eq!(affine(0.0, [0.0; 2], [45.0, 0.0]), [0, 1, 2, 4, 100, 6, 8, 9, 0]);
    }

    #[test]
    fn a_perspective_is_torchvisions() {
        let start = [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]];
        let mut end = start;
        end[3] = [0.0, 1.0];
        let map = Map::perspective(perspective_coefficients(start, end).unwrap(), THREE, THREE);
        let out = warped(&NINE, THREE, map, Bilinear, None);
        assert_eq!(out, [11, 8, 3, 10, 65, 27, 0, 5, 15]);
    }

    #[test]
    fn a_fill_is_blended_at_the_edge_and_a_fill_of_0_is_not_none() {
        let size = Size::new(5, 5);
        let map = Map::affine(rotation_matrix(45.0, [0.0; 2]), size, size);
        let first = |fill| warped(&[200; 25], size, map.clone(), Bilinear, fill)[..5].to_vec();
        assert_eq!(first(None), [34, 176, 200, 176, 34]);
        assert_eq!(first(Some([0; 3])), [6, 154, 200, 154, 6]);
        assert_eq!(first(Some([100; 3])), [89, 167, 200, 167, 89]);
    }
}
