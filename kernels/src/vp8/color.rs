//! Rows of pixels: chroma enlarged to the columns of luma, and YUV to RGB.
//!
//! ```text
//! enlarged = (9 a + 3 b + 3 c + d + 8) / 16      a: the nearest sample, b and c: those beside and below it, d: the fourth
//!
//! R = (y + (26149 v >> 8)                   - 14234) / 64        y = 19077 Y >> 8
//! G = (y - (6419 u >> 8) - (13320 v >> 8)   +  8708) / 64
//! B = (y + (33050 u >> 8)                   - 17685) / 64        clamped to 0..=255
//! ```
//!
//! These are libwebp's integers ("fancy upsampling", `src/dsp/upsampling.c` and `yuv.h`). At the edges of the image, the
//! outermost samples of chroma are repeated.
//!
//! | | |
//! |--------|------------------------------------------------------------------|
//! | input  | a row of luma, and for each chroma the nearest row and the next one |
//! | output | a row of packed pixels, 3 bytes each                              |
//! | cost   | half a vector multiplication per pixel                           |

#![allow(unsafe_code, reason = "vectors as the CPU has them")]

#[cfg(target_arch = "x86_64")]
use crate::color::{interleaved, words};
use crate::cpu::{CpuWork, for_cpu, rgb_by_sixteens};
use std::ops::Range;

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

const LUMA: u16 = 19077;
const V_R: u16 = 26149;
const U_G: u16 = 6419;
const V_G: u16 = 13320;
const U_B: u16 = 33050;
const R: i16 = -14234;
const G: i16 = 8708;
const B: i16 = -17685;

/// The rows of chroma that a row of pixels needs, and memory for the enlarged ones.
#[derive(Debug, Default)]
pub struct ChromaRows {
    /// Sums of two rows, with one before the first column and one after the last.
    sums: Vec<u16>,
    enlarged: [Vec<u8>; 2],
}

impl ChromaRows {
    /// Enlarges rows of chroma, each of the image's whole width: `rows` has for each chroma the nearest row and the next.
    /// Pixels `columns` are then read by [`rgb_row`].
    fn enlarge(&mut self, rows: [[&[u8]; 2]; 2], columns: &Range<usize>) {
        let samples = columns.start / 2..columns.end.div_ceil(2);
        let len = samples.len();
        // Rows have at most 8192 samples, so this is little memory.
        self.sums.resize(len + 2, 0);
        for (rows, enlarged) in rows.into_iter().zip(&mut self.enlarged) {
            enlarged.resize(2 * len, 0);
            for_cpu(Enlarge { rows, samples: samples.clone(), sums: &mut self.sums, enlarged });
        }
    }
}

/// One row of one chroma.
struct Enlarge<'a> {
    rows: [&'a [u8]; 2],
    samples: Range<usize>,
    sums: &'a mut [u16],
    enlarged: &'a mut [u8],
}

impl CpuWork for Enlarge<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { rows: [near, next], samples, sums, enlarged } = self;
        let (first, len) = (samples.start, samples.len());
        let read = first.saturating_sub(1)..near.len().min(samples.end + 1);
        let to = &mut sums[read.start + 1 - first..][..read.len()];
        for ((sum, &near), &next) in to.iter_mut().zip(&near[read.clone()]).zip(&next[read]) {
            *sum = 3 * u16::from(near) + u16::from(next);
        }
        if first == 0 {
            sums[0] = sums[1];
        }
        if samples.end >= near.len() {
            sums[len + 1] = sums[len];
        }
        let (before, at, after) = (&sums[..len], &sums[1..len + 1], &sums[2..len + 2]);
        let pairs = enlarged.as_chunks_mut::<2>().0.iter_mut();
        for (((pair, &before), &at), &after) in pairs.zip(before).zip(at).zip(after) {
            *pair = [(3 * at + before + 8) >> 4, (3 * at + after + 8) >> 4].map(|sum| sum as u8);
        }
    }
}

/// Writes pixels `columns` of a row as RGB. `y` is the whole row of luma; `chroma` has for U and V the nearest row and the
/// next one, both of the whole width of the image's chroma.
///
/// # Panics
///
/// If a row has no column of `columns`, or `out` has fewer pixels.
pub fn rgb_row(
    y: &[u8],
    chroma: [[&[u8]; 2]; 2],
    columns: Range<usize>,
    rows: &mut ChromaRows,
    out: &mut [u8],
) {
    rows.enlarge(chroma, &columns);
    let (len, odd) = (columns.len(), columns.start % 2);
    let [u, v] = &rows.enlarged;
    let (y, u, v, out) = (&y[columns], &u[odd..][..len], &v[odd..][..len], &mut out[..3 * len]);
    let done = fast(y, u, v, out);
    plain(&y[done..], &u[done..], &v[done..], &mut out[3 * done..]);
}

/// Converts one pixel at a time. This is the reference implementation.
fn plain(y: &[u8], u: &[u8], v: &[u8], out: &mut [u8]) {
    let times = |sample: u8, factor: u16| ((u32::from(sample) * u32::from(factor)) >> 8) as i32;
    for (((out, &y), &u), &v) in out.as_chunks_mut::<3>().0.iter_mut().zip(y).zip(u).zip(v) {
        let y = times(y, LUMA);
        *out = [
            y + times(v, V_R) + i32::from(R),
            y - times(u, U_G) - times(v, V_G) + i32::from(G),
            y + times(u, U_B) + i32::from(B),
        ]
        .map(|value| (value >> 6).clamp(0, 255) as u8);
    }
}

rgb_by_sixteens!(u8);

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn sixteen(y: &[u8; 16], u: &[u8; 16], v: &[u8; 16]) -> [u8; 48] {
    // A product of 24 bits without its lowest 8: the upper half of that with the sample times 256.
    let [y, u, v] = [y, u, v].map(|bytes| _mm256_slli_epi16::<8>(words(bytes)));
    let times =
        |samples, factor: u16| _mm256_mulhi_epu16(samples, _mm256_set1_epi16(factor as i16));
    let constant = |value: i16| _mm256_set1_epi16(value);
    let y = times(y, LUMA);
    let red = _mm256_add_epi16(_mm256_add_epi16(y, constant(R)), times(v, V_R));
    let green = _mm256_sub_epi16(
        _mm256_add_epi16(y, constant(G)),
        _mm256_add_epi16(times(u, U_G), times(v, V_G)),
    );
    // Blue is at most 51922 before the constant is subtracted: a number without a sign.
    let blue = _mm256_subs_epu16(_mm256_add_epi16(y, times(u, U_B)), constant(-B));
    let (red, green) = (_mm256_srai_epi16::<6>(red), _mm256_srai_epi16::<6>(green));
    let blue = _mm256_srli_epi16::<6>(blue);
    interleaved(_mm256_packus_epi16(red, green), _mm256_packus_epi16(blue, blue))
}

#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
fn sixteen(y: &[u8; 16], u: &[u8; 16], v: &[u8; 16]) -> [u8; 48] {
    let load = |bytes: &[u8; 16]| {
        // SAFETY: 16 bytes each; any bytes are a vector.
        unsafe { std::mem::transmute::<[u8; 16], uint8x16_t>(*bytes) }
    };
    let (y, u, v) = (load(y), load(u), load(v));
    let low = eight(vget_low_u8(y), vget_low_u8(u), vget_low_u8(v));
    let high = eight(vget_high_u8(y), vget_high_u8(u), vget_high_u8(v));
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
fn eight(y: uint8x8_t, u: uint8x8_t, v: uint8x8_t) -> [uint8x8_t; 3] {
    let times = |samples: uint8x8_t, factor: u16| {
        let samples = vmovl_u8(samples);
        let low = vmull_n_u16(vget_low_u16(samples), factor);
        let high = vmull_n_u16(vget_high_u16(samples), factor);
        vcombine_u16(vshrn_n_u32::<8>(low), vshrn_n_u32::<8>(high))
    };
    let signed = |words: uint16x8_t| vreinterpretq_s16_u16(words);
    let luma = times(y, LUMA);
    let red = vaddq_s16(signed(vaddq_u16(luma, times(v, V_R))), vdupq_n_s16(R));
    let green = vsubq_s16(
        vaddq_s16(signed(luma), vdupq_n_s16(G)),
        signed(vaddq_u16(times(u, U_G), times(v, V_G))),
    );
    let blue = vqsubq_u16(vaddq_u16(luma, times(u, U_B)), vdupq_n_u16(B.unsigned_abs()));
    [vqshrun_n_s16::<6>(red), vqshrun_n_s16::<6>(green), vqshrn_n_u16::<6>(blue)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_has_the_meanings_bits() {
        let all: Vec<u8> = (0..=255).collect();
        let (mut out, mut meant) = ([0; 3 * 256], [0; 3 * 256]);
        for (u, v) in (0..=255u8).flat_map(|u| (0..=255).map(move |v| (u, v))) {
            let (u, v) = ([u; 256], [v; 256]);
            let done = fast(&all, &u, &v, &mut out);
            plain(&all, &u, &v, &mut meant);
            assert_eq!(out[..3 * done], meant[..3 * done], "{} {}", u[0], v[0]);
        }
    }

    /// One pixel of the formula, with the nearest samples at its sides repeated.
    fn enlarged(rows: [&[u8]; 2], x: usize) -> u8 {
        let at = |row: &[u8], x: isize| u32::from(row[x.clamp(0, row.len() as isize - 1) as usize]);
        let near = (x / 2) as isize;
        let beside = if x.is_multiple_of(2) { near - 1 } else { near + 1 };
        let [row, next] = rows;
        let sum = 9 * at(row, near) + 3 * at(row, beside) + 3 * at(next, near) + at(next, beside);
        ((sum + 8) / 16) as u8
    }

    #[test]
    fn windows_of_rows_are_those_of_the_formula() {
        let mut memory = ChromaRows::default();
        let row =
            |n: usize, k: usize| -> Vec<u8> { (0..n).map(|i| (i * i * k % 251) as u8).collect() };
        for width in (1..40).chain([101, 102]) {
            let y = row(width, 37);
            let samples = width.div_ceil(2);
            let [u, u2, v, v2] = [3, 11, 29, 61].map(|k| row(samples, k));
            for start in [0, 1, 2, 7, 30] {
                for end in [start + 1, start + 2, start + 9, width - 1, width] {
                    if start >= end || end > width {
                        continue;
                    }
                    let mut out = vec![9; 3 * (end - start)];
                    rgb_row(&y, [[&u, &u2], [&v, &v2]], start..end, &mut memory, &mut out);
                    let all =
                        |rows| (start..end).map(move |x| enlarged(rows, x)).collect::<Vec<_>>();
                    let mut meant = vec![0; 3 * (end - start)];
                    plain(&y[start..end], &all([&u, &u2]), &all([&v, &v2]), &mut meant);
                    assert_eq!(out, meant, "{start}..{end} of {width}");
                }
            }
        }
    }
}
