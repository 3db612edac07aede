//! Colour conversion of video: Y'CbCr with any subsampling to RGB (ITU-R BT.601, BT.709 and BT.2020).
//!
//! ```text
//! R = s (Y - o)                         + c 2 (1 - Kr) Cr'            s = 255/219, o = 16, c = 255/224 for the limited
//! G = s (Y - o) - c 2 (1 - Kb) Kb/Kg Cb' - c 2 (1 - Kr) Kr/Kg Cr'     range, 1, 0, 1 for the full range; Kg = 1 - Kr - Kb;
//! B = s (Y - o) + c 2 (1 - Kb) Cb'                                    rounded, and clamped to 0..=255
//! ```
//!
//! Cb' and Cr' are the chroma values of a pixel, minus 128. Those of 4:2:0 and 4:2:2 are interpolated by the bicubic filter of
//! FFmpeg's swscale (B = 0, C = 0.6), the values beyond an edge being those at the edge. Chroma lies on the left one of two
//! pixels, and between the two rows, as MPEG-2, MPEG-4, H.264 and HEVC have it unless they say otherwise. Where it lies
//! elsewhere (MPEG-1: between the columns; HEVC of BT.2020: often at the upper pixel), colours are shifted by up to half a
//! pixel: what a stream says of it is not read.
//!
//! | pixel                      | weights of chroma values                              | as integers        |
//! |----------------------------|-------------------------------------------------------|--------------------|
//! | even column                | 1                                                     |                    |
//! | odd column, between i, i+1 | -0.075 (i-1), 0.575 (i), 0.575 (i+1), -0.075 (i+2)    | -77, 589, of 1024  |
//! | odd row, after row i       | -0.084 (i-1), 0.872 (i), 0.241 (i+1), -0.028 (i+2)    | -43, 446, 123, -14, of 512 |
//! | even row, before row i     | the same with rows i+1, i, i-1, i-2                   |                    |
//!
//! | | |
//! |--------|--------------------------------------------------------------------------------------------|
//! | input  | planes of bytes, a window of them                                                            |
//! | output | rows of packed pixels, 3 bytes each: the bits of the window in the whole picture               |
//! | cost   | about one vector multiplication per pixel                                                    |
//!
//! Chroma has six fractional bits between the steps, and factors thirteen. The result differs by at most 1 from that of
//! `ffmpeg -vf scale=in_h_chr_pos=0:flags=accurate_rnd+full_chroma_int+bicubic`, except in the first three rows of 4:2:0,
//! where swscale cuts its filter, and where its filter exceeds 255 and it clamps. [`plain`] is the reference implementation
//! of the matrix; the others compute sixteen pixels.

#![allow(unsafe_code, reason = "vectors as the CPU has them")]

use crate::cpu::{CpuWork, for_cpu, rgb_by_sixteens};
#[cfg(target_arch = "x86_64")]
use crate::{
    color::{interleaved, words},
    cpu::pair,
};
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Fractional bits of luma and chroma before the matrix.
const SAMPLE_BITS: u32 = 6;
/// Fractional bits of the factors.
const FACTOR_BITS: u32 = 13;
const SHIFT: i32 = (SAMPLE_BITS + FACTOR_BITS) as i32;
const HALF: i32 = 1 << (SHIFT - 1);

/// A picture of luma and chroma planes.
#[derive(Clone, Copy, Debug)]
pub struct YuvPicture<'a> {
    /// Luma, blue-difference and red-difference chroma. The latter are not read if `chroma_shifts` is `None`.
    pub planes: [&'a [u8]; 3],
    /// Bytes from the start of a row to the next, of each plane.
    pub strides: [usize; 3],
    /// Width and height in pixels.
    pub size: [usize; 2],
    /// Binary logarithms of the pixels per chroma value, across and down: `[1, 1]` for 4:2:0, `[1, 0]` for 4:2:2, `[0, 0]` for
    /// 4:4:4, `None` for gray.
    pub chroma_shifts: Option<[u32; 2]>,
}

/// A conversion of Y'CbCr to RGB.
///
/// ```
/// use fuseloop_kernels::YuvToRgb;
///
/// let limited = YuvToRgb::new(YuvToRgb::BT709, false);
/// assert_eq!(limited.pixel([235, 128, 128]), [255; 3]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YuvToRgb {
    black: i16,
    luma: i16,
    cr_r: i16,
    cb_g: i16,
    cr_g: i16,
    cb_b: i16,
}

impl YuvToRgb {
    /// Kr and Kb of ITU-R BT.601.
    pub const BT601: [f64; 2] = [0.299, 0.114];
    /// Kr and Kb of ITU-R BT.709.
    pub const BT709: [f64; 2] = [0.2126, 0.0722];
    /// Kr and Kb of ITU-R BT.2020.
    pub const BT2020: [f64; 2] = [0.2627, 0.0593];

    /// Returns the conversion by the shares Kr and Kb of red and blue in luma: one of the constants.
    #[must_use]
    pub fn new([kr, kb]: [f64; 2], is_full_range: bool) -> Self {
        let kg = 1.0 - kr - kb;
        let (luma, chroma) =
            if is_full_range { (1.0, 1.0) } else { (255.0 / 219.0, 255.0 / 224.0) };
        let factor = |factor: f64| (factor * f64::from(1 << FACTOR_BITS)).round() as i16;
        let (red, blue) = (2.0 * (1.0 - kr) * chroma, 2.0 * (1.0 - kb) * chroma);
        Self {
            black: if is_full_range { 0 } else { 16 },
            luma: factor(luma),
            cr_r: factor(red),
            cb_g: factor(-blue * kb / kg),
            cr_g: factor(-red * kr / kg),
            cb_b: factor(blue),
        }
    }

    /// Converts one pixel.
    #[must_use]
    pub fn pixel(&self, [y, cb, cr]: [u8; 3]) -> [u8; 3] {
        let mut out = [0; 3];
        plain(self, &[y], &[centred(cb)], &[centred(cr)], &mut out);
        out
    }
}

/// Returns a chroma value minus 128, with its fractional bits.
#[inline(always)]
fn centred(chroma: u8) -> i16 {
    (i16::from(chroma) - 128) << SAMPLE_BITS
}

/// Memory for rows of chroma, which calls of [`yuv_window`] share.
#[derive(Clone, Debug, Default)]
pub struct YuvRows {
    /// Chroma values of a row, with one more before them and two more after them.
    narrow: Vec<i16>,
    /// The same for each pixel: blue and red.
    wide: [Vec<i16>; 2],
}

/// Converts a window of a picture to rows of RGB pixels, `stride` bytes apart. The window is that of `size` at `start`, each
/// across and down.
///
/// # Panics
///
/// If the window is not within the picture, or if `out` or a plane ends before the last byte that is needed.
pub fn yuv_window(
    picture: &YuvPicture<'_>,
    to: &YuvToRgb,
    start: [usize; 2],
    size: [usize; 2],
    out: &mut [u8],
    stride: usize,
    rows: &mut YuvRows,
) {
    let [x, y] = start;
    let [width, height] = size;
    assert!(
        x + width <= picture.size[0] && y + height <= picture.size[1],
        "the window is within the picture"
    );
    if width == 0 || height == 0 {
        return;
    }
    for row in 0..height {
        let luma = &picture.planes[0][(y + row) * picture.strides[0] + x..][..width];
        let out = &mut out[row * stride..][..3 * width];
        let mut skipped = 0;
        match picture.chroma_shifts {
            None => rows.wide.iter_mut().for_each(|wide| {
                wide.clear();
                wide.resize(width, 0);
            }),
            Some(shifts) => {
                let YuvRows { narrow, wide } = rows;
                for (plane, wide) in [1, 2].into_iter().zip(wide) {
                    skipped = chroma_row(picture, shifts, plane, [x, y + row], width, narrow, wide);
                }
            }
        }
        let [cb, cr] = &rows.wide;
        matrix_row(to, luma, &cb[skipped..][..width], &cr[skipped..][..width], out);
    }
}

/// Writes the chroma values of `width` pixels from `x` on to `wide`, and returns the number of values that precede them.
fn chroma_row(
    picture: &YuvPicture<'_>,
    [across, down]: [u32; 2],
    plane: usize,
    [x, y]: [usize; 2],
    width: usize,
    narrow: &mut Vec<i16>,
    wide: &mut Vec<i16>,
) -> usize {
    let [columns, lines] = [(picture.size[0], across), (picture.size[1], down)]
        .map(|(size, shift)| size.div_ceil(1 << shift));
    let (first, last) = (x >> across, (x + width - 1) >> across);
    // The columns that exist of those that are needed.
    let (left, right) = (first.saturating_sub(1), (last + 2).min(columns - 1));
    let line = |line: usize| {
        &picture.planes[plane][line.min(lines - 1) * picture.strides[plane]..][left..=right]
    };
    let at = y >> down;
    let (before, after) = (at.saturating_sub(1), at + 1);
    let vertical = match (down, y % 2) {
        (0, _) => Vertical { lines: [line(at); 4], weights: None },
        (_, 0) => Vertical {
            lines: [line(after), line(at), line(before), line(at.saturating_sub(2))],
            weights: Some(BETWEEN_ROWS),
        },
        _ => Vertical {
            lines: [line(before), line(at), line(after), line(at + 2)],
            weights: Some(BETWEEN_ROWS),
        },
    };
    let missing = [usize::from(first == 0), last + 2 - right];
    narrow.clear();
    narrow.resize(last - first + 4, 0);
    for_cpu(ToNarrow { vertical, out: &mut narrow[missing[0]..last - first + 4 - missing[1]] });
    let (ends, len) = ((narrow[missing[0]], narrow[narrow.len() - 1 - missing[1]]), narrow.len());
    narrow[..missing[0]].fill(ends.0);
    narrow[len - missing[1]..].fill(ends.1);
    wide.clear();
    if across == 0 {
        wide.extend_from_slice(&narrow[1..=width]);
        return 0;
    }
    wide.resize(2 * (last - first + 1), 0);
    for_cpu(ToWide { narrow, out: wide });
    x - (first << across)
}

/// Weights of the rows around a row of pixels, which lies a quarter of a chroma row after the second of them.
const BETWEEN_ROWS: [i32; 4] = [-43, 446, 123, -14];
const ROW_BITS: u32 = 9;
/// Weights of the columns around an odd column of pixels: the outer ones and the inner ones.
const BETWEEN_COLUMNS: [i32; 2] = [-77, 589];
const COLUMN_BITS: u32 = 10;

/// Rows of chroma and their weights; without weights, the first row.
struct Vertical<'a> {
    lines: [&'a [u8]; 4],
    weights: Option<[i32; 4]>,
}

/// Interpolates between rows.
struct ToNarrow<'a> {
    vertical: Vertical<'a>,
    out: &'a mut [i16],
}

impl CpuWork for ToNarrow<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Vertical { lines: [a, b, c, d], weights } = self.vertical;
        let Some(weights) = weights else {
            for (out, &chroma) in self.out.iter_mut().zip(a) {
                *out = centred(chroma);
            }
            return;
        };
        const DOWN: u32 = ROW_BITS - SAMPLE_BITS;
        for ((((out, &a), &b), &c), &d) in self.out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            let [a, b, c, d] = [a, b, c, d].map(|chroma| i32::from(chroma) - 128);
            let sum = a * weights[0] + b * weights[1] + c * weights[2] + d * weights[3];
            *out = ((sum + (1 << DOWN >> 1)) >> DOWN) as i16;
        }
    }
}

/// Interpolates between columns.
struct ToWide<'a> {
    /// One value more before the first one, and two more after the last one.
    narrow: &'a [i16],
    out: &'a mut [i16],
}

impl CpuWork for ToWide<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { narrow, out } = self;
        let pairs = out.as_chunks_mut::<2>().0;
        let len = pairs.len();
        let columns = narrow[..len]
            .iter()
            .zip(&narrow[1..][..len])
            .zip(&narrow[2..][..len])
            .zip(&narrow[3..][..len]);
        for (pair, (((&a, &b), &c), &d)) in pairs.iter_mut().zip(columns) {
            let outer = (i32::from(a) + i32::from(d)) * BETWEEN_COLUMNS[0];
            let inner = (i32::from(b) + i32::from(c)) * BETWEEN_COLUMNS[1];
            *pair = [b, ((outer + inner + (1 << COLUMN_BITS >> 1)) >> COLUMN_BITS) as i16];
        }
    }
}

/// Converts rows of the same length.
fn matrix_row(to: &YuvToRgb, y: &[u8], cb: &[i16], cr: &[i16], out: &mut [u8]) {
    let done = fast(to, y, cb, cr, out);
    plain(to, &y[done..], &cb[done..], &cr[done..], &mut out[3 * done..]);
}

/// Converts one pixel at a time. This is the reference implementation.
fn plain(to: &YuvToRgb, y: &[u8], cb: &[i16], cr: &[i16], out: &mut [u8]) {
    for (((out, &y), &cb), &cr) in out.as_chunks_mut::<3>().0.iter_mut().zip(y).zip(cb).zip(cr) {
        let times = |factor: i16, value: i16| i32::from(factor) * i32::from(value);
        let y = times(to.luma, (i16::from(y) - to.black) << SAMPLE_BITS) + HALF;
        *out = [
            y + times(to.cr_r, cr),
            y + times(to.cb_g, cb) + times(to.cr_g, cr),
            y + times(to.cb_b, cb),
        ]
        .map(|value| (value >> SHIFT).clamp(0, 255) as u8);
    }
}

rgb_by_sixteens!(i16, to: &YuvToRgb);

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn sixteen(to: &YuvToRgb, y: &[u8; 16], cb: &[i16; 16], cr: &[i16; 16]) -> [u8; 48] {
    let y = _mm256_slli_epi16::<{ SAMPLE_BITS as i32 }>(_mm256_sub_epi16(
        words(y),
        _mm256_set1_epi16(to.black),
    ));
    // SAFETY: 32 bytes each; any bytes are a vector.
    let [cb, cr] =
        [cb, cr].map(|chroma| unsafe { std::mem::transmute::<[i16; 16], __m256i>(*chroma) });
    let with_cr = [_mm256_unpacklo_epi16(y, cr), _mm256_unpackhi_epi16(y, cr)];
    let with_cb = [_mm256_unpacklo_epi16(y, cb), _mm256_unpackhi_epi16(y, cb)];
    let half = _mm256_set1_epi32(HALF);
    let sum =
        |pairs, factor| _mm256_add_epi32(_mm256_madd_epi16(pairs, pair(to.luma, factor)), half);
    let red = with_cr.map(|pairs| sum(pairs, to.cr_r));
    let blue = with_cb.map(|pairs| sum(pairs, to.cb_b));
    let green = [0, 1].map(|i| {
        let of_cb = _mm256_madd_epi16(with_cb[i], pair(0, to.cb_g));
        _mm256_add_epi32(sum(with_cr[i], to.cr_g), of_cb)
    });
    let [red, green, blue] = [red, green, blue].map(|[low, high]| {
        _mm256_packs_epi32(_mm256_srai_epi32::<SHIFT>(low), _mm256_srai_epi32::<SHIFT>(high))
    });
    interleaved(_mm256_packus_epi16(red, green), _mm256_packus_epi16(blue, blue))
}

#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
fn sixteen(to: &YuvToRgb, y: &[u8; 16], cb: &[i16; 16], cr: &[i16; 16]) -> [u8; 48] {
    // SAFETY: 16 bytes; any bytes are a vector.
    let y = unsafe { std::mem::transmute::<[u8; 16], uint8x16_t>(*y) };
    // SAFETY: 32 bytes each; any bytes are vectors.
    let [cb, cr] =
        [cb, cr].map(|chroma| unsafe { std::mem::transmute::<[i16; 16], [int16x8_t; 2]>(*chroma) });
    let black = vdupq_n_s16(to.black);
    let y = [vmovl_u8(vget_low_u8(y)), vmovl_high_u8(y)]
        .map(|y| vshlq_n_s16::<{ SAMPLE_BITS as i32 }>(vsubq_s16(vreinterpretq_s16_u16(y), black)));
    let [low, high] = [0, 1].map(|i| eight(to, y[i], cb[i], cr[i]));
    let [r, g, b] = std::array::from_fn(|c| vcombine_u8(low[c], high[c]));
    let mut out = [0; 48];
    // SAFETY: 48 bytes are written, to any address.
    unsafe { vst3q_u8(out.as_mut_ptr(), uint8x16x3_t(r, g, b)) };
    out
}

/// Returns red, green and blue of eight pixels.
#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
fn eight(to: &YuvToRgb, y: int16x8_t, cb: int16x8_t, cr: int16x8_t) -> [uint8x8_t; 3] {
    let half = vdupq_n_s32(HALF);
    let halves = |v: int16x8_t| [vget_low_s16(v), vget_high_s16(v)];
    let (y, cb, cr) = (halves(y), halves(cb), halves(cr));
    let luma = y.map(|y| vmlal_n_s16(half, y, to.luma));
    let bytes = |sums: [int32x4_t; 2]| {
        let [low, high] = sums.map(|sum| vqmovun_s32(vshrq_n_s32::<SHIFT>(sum)));
        vqmovn_u16(vcombine_u16(low, high))
    };
    let red = [0, 1].map(|i| vmlal_n_s16(luma[i], cr[i], to.cr_r));
    let green = [0, 1].map(|i| vmlal_n_s16(vmlal_n_s16(luma[i], cb[i], to.cb_g), cr[i], to.cr_g));
    let blue = [0, 1].map(|i| vmlal_n_s16(luma[i], cb[i], to.cb_b));
    [bytes(red), bytes(green), bytes(blue)]
}

#[cfg(test)]
mod tests;
