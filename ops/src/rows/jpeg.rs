//! JPEG: the values of an image after an encoder and a decoder, without the bytes between them.
//!
//! ```text
//! Y, Cb, Cr = the colours of JFIF                    Cb and Cr of 2x2 pixels: floor((a + b + c + d + bias) / 4), bias 1, 2, 1, ..
//! step      = (table * scale + 50) / 100 in 1..=255  scale = 5000 / quality below 50, else 200 - 2 quality
//! code(v)   = IDCT(rint(DCT(v - 128) / step) * step) + 128      for each block of 8x8 values, clamped to 0..=255
//! out       = RGB of Y and of Cb, Cr, enlarged by weights of 3/4 and 1/4 along both axes
//! ```
//!
//! The tables are those of ITU-T T.81, annex K. The colours, the DCT (`islow`, of Loeffler, Ligtenberg and Moschytz), the
//! rounding of halves and the enlargement are libjpeg's, in integers, so that a value is that of libjpeg-turbo's encoder with
//! sampling 4:2:0 and its decoder, to the bit: OpenCV's, torchvision's and Pillow's. Blocks at the right and the bottom
//! repeat the last pixel. An image that has not three channels is coded channel by channel, with the table of Y and without
//! 2x2.
//!
//! | | |
//! |--------|--------------------------------------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart                                    |
//! | output | as the input                                                                         |
//! | random | nothing                                                                              |
//! | cost   | a value: about forty operations; two rows of blocks of each channel are cached       |

use super::{grow_kept, integer, whole};
use crate::Size;
use crate::memory::NoMemory;
use crate::shape::{ImageView, MAX_CHANNELS, RGB};
use std::ops::Range;

/// Values of a side of a block.
const SIDE: usize = 8;
/// Eight values that are computed together.
type Lanes = [i32; SIDE];
/// A block: rows of values.
type Block = [Lanes; SIDE];

/// The steps of Y at quality 50, row by row.
const LUMA: [[u8; SIDE]; SIDE] = [
    [16, 11, 10, 16, 24, 40, 51, 61],
    [12, 12, 14, 19, 26, 58, 60, 55],
    [14, 13, 16, 24, 40, 57, 69, 56],
    [14, 17, 22, 29, 51, 87, 80, 62],
    [18, 22, 37, 56, 68, 109, 103, 77],
    [24, 35, 55, 64, 81, 104, 113, 92],
    [49, 64, 78, 87, 103, 121, 120, 101],
    [72, 92, 95, 98, 112, 100, 103, 99],
];
/// Those of Cb and Cr.
const CHROMA: [[u8; SIDE]; SIDE] = [
    [17, 18, 24, 47, 99, 99, 99, 99],
    [18, 21, 26, 66, 99, 99, 99, 99],
    [24, 26, 56, 99, 99, 99, 99, 99],
    [47, 66, 99, 99, 99, 99, 99, 99],
    [99; SIDE],
    [99; SIDE],
    [99; SIDE],
    [99; SIDE],
];

/// The steps of a quality, and the reciprocals of eight times the steps.
#[derive(Clone, Copy, Debug)]
struct Steps([[[f32; 2]; SIDE]; SIDE]);

impl Steps {
    fn of(table: &[[u8; SIDE]; SIDE], quality: u32) -> Self {
        let quality = quality.clamp(1, 100);
        let scale = if quality < 50 { 5000 / quality } else { 200 - 2 * quality };
        Self(table.map(|row| {
            row.map(|base| {
                let step = ((u32::from(base) * scale + 50) / 100).clamp(1, 255) as f32;
                [step, 1.0 / (8.0 * step)]
            })
        }))
    }
}

/// Computes each of eight lanes. A loop, and not `array::from_fn`, which is a call if it is not inlined.
#[inline(always)]
fn lanes(of: impl Fn(usize) -> i32) -> Lanes {
    let mut lanes = [0; SIDE];
    for (i, lane) in lanes.iter_mut().enumerate() {
        *lane = of(i);
    }
    lanes
}

#[inline(always)]
fn times(a: Lanes, b: i32) -> Lanes {
    lanes(|i| a[i] * b)
}

#[inline(always)]
fn add(a: Lanes, b: Lanes) -> Lanes {
    lanes(|i| a[i] + b[i])
}

#[inline(always)]
fn sub(a: Lanes, b: Lanes) -> Lanes {
    lanes(|i| a[i] - b[i])
}

/// Divides by a power of two, rounding halves up.
#[inline(always)]
fn descale(a: Lanes, bits: u32) -> Lanes {
    lanes(|i| (a[i] + (1 << (bits - 1))) >> bits)
}

/// Builds a block of its values, by their row and column.
#[inline(always)]
fn block(of: impl Fn(usize, usize) -> i32) -> Block {
    let mut block = [[0; SIDE]; SIDE];
    for (i, row) in block.iter_mut().enumerate() {
        *row = lanes(|j| of(i, j));
    }
    block
}

#[inline(always)]
fn transposed(values: &Block) -> Block {
    block(|i, j| values[j][i])
}

/// Fractions of constants, and those that the first of two passes keeps.
const FRACTION: u32 = 13;
const FIRST_PASS: u32 = 2;

/// The four odd outputs of both transforms: rotations of four values by constants of `FRACTION` bits.
#[inline(always)]
fn odd([a, b, c, d]: [Lanes; 4]) -> [Lanes; 4] {
    let (ad, bc, ac, bd) = (add(a, d), add(b, c), add(a, c), add(b, d));
    let all = times(add(ac, bd), 9633);
    let (ad, bc) = (times(ad, -7373), times(bc, -20_995));
    let (ac, bd) = (add(times(ac, -16_069), all), add(times(bd, -3196), all));
    [
        add(add(times(a, 2446), ad), ac),
        add(add(times(b, 16_819), bc), bd),
        add(add(times(c, 25_172), bc), ac),
        add(add(times(d, 12_299), ad), bd),
    ]
}

/// A pass of the DCT over the first index. `scaled` shifts the sums without products, and the others are divided by
/// `2^bits`.
#[inline(always)]
fn forward(v: &Block, scaled: impl Fn(Lanes) -> Lanes, bits: u32) -> Block {
    let (s0, s1, s2, s3) = (add(v[0], v[7]), add(v[1], v[6]), add(v[2], v[5]), add(v[3], v[4]));
    let (outer, inner) = (add(s0, s3), add(s1, s2));
    let (outer_gap, inner_gap) = (sub(s0, s3), sub(s1, s2));
    let both = times(add(inner_gap, outer_gap), 4433);
    let [o7, o5, o3, o1] =
        odd([sub(v[3], v[4]), sub(v[2], v[5]), sub(v[1], v[6]), sub(v[0], v[7])]);
    [
        scaled(add(outer, inner)),
        descale(o1, bits),
        descale(add(both, times(outer_gap, 6270)), bits),
        descale(o3, bits),
        scaled(sub(outer, inner)),
        descale(o5, bits),
        descale(add(both, times(inner_gap, -15_137)), bits),
        descale(o7, bits),
    ]
}

/// A pass of the inverse DCT over the first index.
#[inline(always)]
fn inverse(v: &Block, bits: u32) -> Block {
    let both = times(add(v[2], v[6]), 4433);
    let low = add(both, times(v[6], -15_137));
    let high = add(both, times(v[2], 6270));
    let (sum, gap) = (times(add(v[0], v[4]), 1 << FRACTION), times(sub(v[0], v[4]), 1 << FRACTION));
    let [e0, e1, e2, e3] = [add(sum, high), add(gap, low), sub(gap, low), sub(sum, high)];
    let [o3, o2, o1, o0] = odd([v[7], v[5], v[3], v[1]]);
    [
        descale(add(e0, o0), bits),
        descale(add(e1, o1), bits),
        descale(add(e2, o2), bits),
        descale(add(e3, o3), bits),
        descale(sub(e3, o3), bits),
        descale(sub(e2, o2), bits),
        descale(sub(e1, o1), bits),
        descale(sub(e0, o0), bits),
    ]
}

/// Codes a block of values minus 128, with rows and columns exchanged.
#[inline(always)]
fn coded_block(values: &Block, steps: &Steps) -> Block {
    let rows = forward(values, |v| times(v, 1 << FIRST_PASS), FRACTION - FIRST_PASS);
    let mut coefficients =
        forward(&transposed(&rows), |v| descale(v, FIRST_PASS), FRACTION + FIRST_PASS);
    for (row, steps) in coefficients.iter_mut().zip(&steps.0) {
        for (v, [step, reciprocal]) in row.iter_mut().zip(steps) {
            // The nearest multiple, and of two the one that is farther from 0. A quotient is at least half a
            // reciprocal from the next whole number, which is more than f32 rounds.
            let quotient = (v.abs() as f32 + 4.0 * step + 0.5) * reciprocal - 0.5;
            let coded = integer(whole(quotient) * step);
            *v = if *v < 0 { -coded } else { coded };
        }
    }
    let columns = inverse(&coefficients, FRACTION - FIRST_PASS);
    let rows = inverse(&transposed(&columns), FRACTION + FIRST_PASS + 3);
    block(|x, y| (rows[x][y] + 128).clamp(0, 255))
}

/// A channel as it is coded.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plane {
    /// A channel as it is.
    Channel(usize),
    Y,
    Cb,
    Cr,
}

impl Plane {
    /// Returns how many pixels along each axis are one value.
    const fn factor(self) -> u32 {
        if matches!(self, Self::Cb | Self::Cr) { 2 } else { 1 }
    }

    const fn steps(self) -> &'static [[u8; SIDE]; SIDE] {
        if matches!(self, Self::Cb | Self::Cr) { &CHROMA } else { &LUMA }
    }

    /// Returns the value of a pixel.
    #[inline(always)]
    fn of<const C: usize>(self, pixel: [u8; C]) -> u8 {
        let at = |c: usize| i32::from(pixel[c % C]);
        const HALF: i32 = 1 << 15;
        let middle = (128 << 16) + HALF - 1;
        match self {
            Self::Channel(c) => pixel[c],
            Self::Y => ((19_595 * at(0) + 38_470 * at(1) + 7471 * at(2) + HALF) >> 16) as u8,
            Self::Cb => ((-11_059 * at(0) - 21_709 * at(1) + HALF * at(2) + middle) >> 16) as u8,
            Self::Cr => ((HALF * at(0) - 27_439 * at(1) - 5329 * at(2) + middle) >> 16) as u8,
        }
    }

    /// Returns the size of the plane of an image.
    const fn size(self, image: Size) -> Size {
        let factor = self.factor();
        Size { height: image.height.div_ceil(factor), width: image.width.div_ceil(factor) }
    }
}

/// Returns the planes of an image of `channels`.
fn planes(channels: usize) -> impl Iterator<Item = Plane> {
    let own = [0, 1, 2, 3].map(Plane::Channel);
    let colours = [Plane::Y, Plane::Cb, Plane::Cr];
    (0..channels).map(move |c| if channels == RGB { colours[c] } else { own[c] })
}

/// Returns red, green and blue.
#[inline(always)]
fn rgb(y: u8, cb: u8, cr: u8) -> [u8; RGB] {
    let [y, cb, cr] = [i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128];
    const HALF: i32 = 1 << 15;
    let red = y + ((91_881 * cr + HALF) >> 16);
    let green = y + ((-22_554 * cb - 46_802 * cr + HALF) >> 16);
    let blue = y + ((116_130 * cb + HALF) >> 16);
    [red, green, blue].map(|v| v.clamp(0, 255) as u8)
}

/// Returns the two rows of Cb and Cr that a row of pixels is computed from: the nearer, then the farther one.
fn chroma_rows(y: u32, height: u32) -> [u32; 2] {
    let (near, last) = (y / 2, height.div_ceil(2) - 1);
    [near, if y.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(last) }]
}

/// Returns three quarters and a quarter of four values, given the sums of three times the nearer and once the farther row at
/// a column and at the one next to it; `is_odd` is true for the right one of two pixels.
#[inline(always)]
fn enlarged(here: u16, next: u16, is_odd: bool) -> u8 {
    ((3 * here + next + 8 - u16::from(is_odd)) >> 4) as u8
}

/// If fewer values than this are in a row of Cb, they are repeated.
const LEAST: u32 = 3;

pub(super) fn eval(input: &ImageView<'_>, quality: u32) -> Vec<u8> {
    let (size, channels) = (input.size(), input.channels());
    let planes: Vec<_> = planes(channels).map(|plane| coded_plane(plane, input, quality)).collect();
    let mut pixels = Vec::with_capacity(size.pixels() as usize * channels);
    for y in 0..size.height {
        for x in 0..size.width {
            if channels != RGB {
                pixels.extend(planes.iter().map(|plane| plane[(y * size.width + x) as usize]));
                continue;
            }
            let chroma = |plane: &[u8]| {
                let width = size.width.div_ceil(2);
                let [near, far] = chroma_rows(y, size.height);
                let at = |row: u32, x: u32| u16::from(plane[(row * width + x) as usize]);
                if width < LEAST {
                    return at(near, x / 2) as u8;
                }
                let sum = |x: u32| 3 * at(near, x) + at(far, x);
                let next =
                    if x % 2 == 0 { (x / 2).saturating_sub(1) } else { (x / 2 + 1).min(width - 1) };
                enlarged(sum(x / 2), sum(next), x % 2 == 1)
            };
            let luma = planes[0][(y * size.width + x) as usize];
            pixels.extend(rgb(luma, chroma(&planes[1]), chroma(&planes[2])));
        }
    }
    pixels
}

/// Returns a whole plane, block by block.
fn coded_plane(plane: Plane, input: &ImageView<'_>, quality: u32) -> Vec<u8> {
    let (image, size, channels) = (input.size(), plane.size(input.size()), input.channels());
    let value = |y: u32, x: u32| {
        let row = input.row(y.min(image.height - 1));
        let pixel = &row[x.min(image.width - 1) as usize * channels..][..channels];
        match <[u8; RGB]>::try_from(pixel) {
            Ok(pixel) if channels == RGB => plane.of(pixel),
            _ => plane.of::<MAX_CHANNELS>(std::array::from_fn(|c| pixel[c % channels])),
        }
    };
    let sample = |y: u32, x: u32| {
        let y = y.min(size.height - 1);
        if plane.factor() == 1 {
            return i32::from(value(y, x));
        }
        let four = [[0, 0], [0, 1], [1, 0], [1, 1]];
        let sum: i32 = four.iter().map(|[i, j]| i32::from(value(2 * y + i, 2 * x + j))).sum();
        (sum + 1 + (x % 2) as i32) / 4
    };
    let steps = Steps::of(plane.steps(), quality);
    let mut out = vec![0; size.pixels() as usize];
    for top in (0..size.height).step_by(SIDE) {
        for left in (0..size.width).step_by(SIDE) {
            let values = block(|x, y| sample(top + y as u32, left + x as u32) - 128);
            let coded = coded_block(&values, &steps);
            for y in top..size.height.min(top + SIDE as u32) {
                for x in left..size.width.min(left + SIDE as u32) {
                    out[(y * size.width + x) as usize] =
                        coded[(x - left) as usize][(y - top) as usize] as u8;
                }
            }
        }
    }
    out
}

/// The rows of blocks of a plane that are cached.
const BANDS: usize = 2;

/// A plane's coded values: a few rows of blocks.
#[derive(Clone, Debug, Default)]
struct CodedPlane {
    /// The row of blocks at its index modulo [`BANDS`]; `None` before one is coded.
    bands: [Option<u32>; BANDS],
    /// The columns, which begin and end with a block.
    columns: Range<u32>,
    values: [Vec<u8>; BANDS],
}

impl CodedPlane {
    /// Returns a row, which is in a cached row of blocks, from column `first`.
    #[inline(always)]
    fn row(&self, y: u32, first: u32) -> &[u8] {
        let (band, row) = (y as usize / SIDE % BANDS, y as usize % SIDE);
        let row = &self.values[band][row * self.columns.len()..][..self.columns.len()];
        &row[(first - self.columns.start) as usize..]
    }
}

/// The working memory.
#[derive(Clone, Debug, Default)]
pub(super) struct JpegScratch {
    planes: [CodedPlane; MAX_CHANNELS],
    /// Cb and Cr of a row of pixels.
    chroma: [Vec<u8>; 2],
    /// A plane's values of two rows of pixels.
    full: Vec<u8>,
}

impl JpegScratch {
    /// Prepares to code `input`.
    pub(super) fn rows<'a>(
        &'a mut self,
        quality: u32,
        input: ImageView<'a>,
        columns: Range<u32>,
    ) -> Result<JpegRows<'a>, NoMemory> {
        for (plane, coded) in planes(input.channels()).zip(&mut self.planes) {
            let (factor, width) = (plane.factor(), plane.size(input.size()).width);
            // The columns that are read: of Cb and Cr also those next to the first and the last.
            let (start, end) = match factor {
                1 => (columns.start, columns.end),
                _ => ((columns.start / 2).saturating_sub(1), columns.end.div_ceil(2) + 1),
            };
            let block = SIDE as u32;
            coded.columns = start / block * block..end.min(width).div_ceil(block) * block;
            coded.bands = [None; BANDS];
            for values in &mut coded.values {
                grow_kept(values, coded.columns.len() * SIDE)?;
            }
        }
        grow_kept(&mut self.full, 4 * (columns.len() + 6 * SIDE))?;
        for chroma in &mut self.chroma {
            grow_kept(chroma, columns.len())?;
        }
        let steps = [&LUMA, &CHROMA].map(|table| Steps::of(table, quality));
        Ok(JpegRows { input, columns, steps, scratch: self })
    }
}

/// The rows of one image after JPEG compression.
#[derive(Debug)]
pub(super) struct JpegRows<'a> {
    input: ImageView<'a>,
    columns: Range<u32>,
    /// The steps of Y, then those of Cb and Cr.
    steps: [Steps; 2],
    scratch: &'a mut JpegScratch,
}

impl JpegRows<'_> {
    #[inline(always)]
    pub(super) fn row<const C: usize>(&mut self, y: u32, out: &mut [u8]) {
        let chroma_rows = chroma_rows(y, self.input.size().height);
        for (number, plane) in planes(C).enumerate() {
            let rows = if plane.factor() == 1 { [y; 2] } else { chroma_rows };
            for row in rows {
                self.fill::<C>(number, plane, row / SIDE as u32);
            }
        }
        let first = self.columns.start;
        let JpegScratch { planes, chroma, .. } = &mut *self.scratch;
        let count = out.len() / C;
        if C != RGB {
            for (c, plane) in planes[..C].iter().enumerate() {
                let pixels = out.as_chunks_mut::<C>().0;
                for (pixel, value) in pixels.iter_mut().zip(plane.row(y, first)) {
                    pixel[c] = *value;
                }
            }
            return;
        }
        let width = self.input.size().width.div_ceil(2);
        for (plane, chroma) in planes[1..].iter().zip(&mut *chroma) {
            enlarge(plane, chroma_rows, width, first, &mut chroma[..count]);
        }
        let luma = &planes[0].row(y, first)[..count];
        let [cb, cr] = chroma.each_ref().map(|chroma| &chroma[..count]);
        for (i, pixel) in out.as_chunks_mut::<RGB>().0.iter_mut().enumerate() {
            *pixel = rgb(luma[i], cb[i], cr[i]);
        }
    }

    /// Codes a row of blocks of a plane, unless it is cached.
    #[inline(always)]
    fn fill<const C: usize>(&mut self, number: usize, plane: Plane, band: u32) {
        let JpegScratch { planes, full, .. } = &mut *self.scratch;
        let coded = &mut planes[number];
        let slot = band as usize % BANDS;
        if coded.bands[slot] == Some(band) {
            return;
        }
        coded.bands[slot] = Some(band);
        let (width, columns) = (coded.columns.len(), coded.columns.clone());
        let values = &mut coded.values[slot][..width * SIDE];
        let (image, height) = (self.input.size(), plane.size(self.input.size()).height);
        for (y, line) in (band * SIDE as u32..).zip(values.chunks_exact_mut(width)) {
            let y = y.min(height - 1);
            let row = |y: u32| self.input.row(y.min(image.height - 1)).as_chunks::<C>().0;
            let first = (columns.start * plane.factor()) as usize;
            if plane.factor() == 1 {
                convert(plane, &row(y)[first..], line);
                continue;
            }
            let (above, below) = full.split_at_mut(2 * width);
            convert(plane, &row(2 * y)[first..], above);
            convert(plane, &row(2 * y + 1)[first..], &mut below[..2 * width]);
            halve(above, below, line);
        }
        let steps = &self.steps[usize::from(plane.factor() == 2)];
        for left in (0..width).step_by(SIDE) {
            let mut rows = [[0; SIDE]; SIDE];
            for (y, row) in rows.iter_mut().enumerate() {
                let values =
                    values[y * width + left..].first_chunk::<SIDE>().expect("a block's row");
                *row = lanes(|x| i32::from(values[x]) - 128);
            }
            let rows = transposed(&coded_block(&transposed(&rows), steps));
            for (y, row) in rows.iter().enumerate() {
                for (value, coded) in values[y * width + left..][..SIDE].iter_mut().zip(row) {
                    *value = *coded as u8;
                }
            }
        }
    }
}

/// Writes the values of a plane's pixels. The last pixel is repeated.
#[inline(always)]
fn convert<const C: usize>(plane: Plane, pixels: &[[u8; C]], out: &mut [u8]) {
    for (value, pixel) in out.iter_mut().zip(pixels) {
        *value = plane.of(*pixel);
    }
    if pixels.len() < out.len() {
        let (inside, behind) = out.split_at_mut(pixels.len());
        behind.fill(inside[inside.len() - 1]);
    }
}

/// Writes the means of 2x2 values, from an even column.
#[inline(always)]
fn halve(above: &[u8], below: &[u8], out: &mut [u8]) {
    let pairs = above.as_chunks::<2>().0.iter().zip(below.as_chunks::<2>().0);
    for (i, (value, (above, below))) in out.iter_mut().zip(pairs).enumerate() {
        let sum = above.iter().chain(below).map(|v| u16::from(*v)).sum::<u16>();
        *value = ((sum + 1 + (i % 2) as u16) >> 2) as u8;
    }
}

/// Writes the values of Cb or Cr of a row of pixels from column `first`.
#[inline(always)]
fn enlarge(plane: &CodedPlane, [near, far]: [u32; 2], width: u32, first: u32, out: &mut [u8]) {
    let start = (first / 2).saturating_sub(1);
    let (near, far) = (plane.row(near, start), plane.row(far, start));
    let (first, start, last) = (first as usize, start as usize, width as usize - 1);
    if width < LEAST {
        for (x, value) in (first..).zip(out) {
            *value = near[x / 2 - start];
        }
        return;
    }
    let sum = |x: usize| 3 * u16::from(near[x - start]) + u16::from(far[x - start]);
    let at = |x: usize| {
        let next =
            if x.is_multiple_of(2) { (x / 2).saturating_sub(1) } else { (x / 2 + 1).min(last) };
        enlarged(sum(x / 2), sum(next), x % 2 == 1)
    };
    // From the first even pixel to the last odd one, but not those at the edges: two pixels of each sum.
    let from = first.max(1).div_ceil(2);
    let end = ((first + out.len()) / 2).min(last);
    let (head, tail) =
        ((2 * from - first).min(out.len()), (2 * end.max(from) - first).min(out.len()));
    for (i, value) in out[..head].iter_mut().enumerate() {
        *value = at(first + i);
    }
    for (i, value) in out[tail..].iter_mut().enumerate() {
        *value = at(first + tail + i);
    }
    let count = end.saturating_sub(from);
    let [near, far] = [near, far].map(|row| &row[from - 1 - start..]);
    let pairs = out[head..tail].as_chunks_mut::<2>().0;
    if count == 0 {
        return;
    }
    let (near, far) = (&near[..count + 2], &far[..count + 2]);
    for (i, pair) in pairs.iter_mut().take(count).enumerate() {
        let sum = |i: usize| 3 * u16::from(near[i]) + u16::from(far[i]);
        let [left, here, right] = [sum(i), sum(i + 1), sum(i + 2)];
        *pair = [enlarged(here, left, false), enlarged(here, right, true)];
    }
}
