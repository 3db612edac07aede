//! Colour conversion of a JPEG: YCbCr to RGB (JFIF 1.02, ITU-R BT.601), and grey to RGB.
//!
//! ```text
//! R = Y                       + 1.402    (Cr - 128)
//! G = Y - 0.344136 (Cb - 128) - 0.714136 (Cr - 128)
//! B = Y + 1.772    (Cb - 128)                           rounded, and clamped to 0..=255
//! ```
//!
//! | | |
//! |--------|----------------------------------------|
//! | input  | rows of bytes, one for each component  |
//! | output | a row of packed pixels, 3 bytes each   |
//! | cost   | half a vector multiplication per pixel |
//!
//! The constants are multiplied by 2^14 and rounded; a half is rounded down, by a rounding term that is
//! one smaller. [`plain`] is the reference implementation, one pixel at a time; the fast one computes
//! sixteen pixels.

#![allow(unsafe_code, reason = "vectors as the CPU has them")]

#[cfg(target_arch = "x86_64")]
use crate::cpu::pair;
use crate::cpu::rgb_by_sixteens;
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

const ONE: i16 = 1 << 14;
const CR_R: i16 = 22970;
const CB_G: i16 = -5638;
const CR_G: i16 = -11700;
const CB_B: i16 = 29032;
const HALF: i32 = (1 << 13) - 1;

/// Writes as many RGB pixels as the shortest of the rows has.
pub fn ycbcr_row(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
    let len = y.len().min(cb.len()).min(cr.len()).min(out.len() / 3);
    let (y, cb, cr, out) = (&y[..len], &cb[..len], &cr[..len], &mut out[..3 * len]);
    let done = fast(y, cb, cr, out);
    plain(&y[done..], &cb[done..], &cr[done..], &mut out[3 * done..]);
}

/// Writes as many grey pixels as the shorter of the rows has.
pub fn gray_row(y: &[u8], out: &mut [u8]) {
    for (out, &y) in out.as_chunks_mut::<3>().0.iter_mut().zip(y) {
        *out = [y; 3];
    }
}

/// Converts one pixel at a time. This is the reference implementation.
fn plain(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
    for (((out, &y), &cb), &cr) in out.as_chunks_mut::<3>().0.iter_mut().zip(y).zip(cb).zip(cr) {
        let (cb, cr) = (i32::from(cb) - 128, i32::from(cr) - 128);
        let y = i32::from(y) * i32::from(ONE) + HALF;
        let times = |factor: i16, value: i32| i32::from(factor) * value;
        *out = [y + times(CR_R, cr), y + times(CB_G, cb) + times(CR_G, cr), y + times(CB_B, cb)]
            .map(|value| (value >> 14).clamp(0, 255) as u8);
    }
}

rgb_by_sixteens!(u8);

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn sixteen(y: &[u8; 16], cb: &[u8; 16], cr: &[u8; 16]) -> [u8; 48] {
    let centre = _mm256_set1_epi16(128);
    let y = words(y);
    let cb = _mm256_sub_epi16(words(cb), centre);
    let cr = _mm256_sub_epi16(words(cr), centre);
    let with_cr = [_mm256_unpacklo_epi16(y, cr), _mm256_unpackhi_epi16(y, cr)];
    let with_cb = [_mm256_unpacklo_epi16(y, cb), _mm256_unpackhi_epi16(y, cb)];
    let half = _mm256_set1_epi32(HALF);
    let sum = |pairs, cr| _mm256_add_epi32(_mm256_madd_epi16(pairs, pair(ONE, cr)), half);
    let red = with_cr.map(|pairs| sum(pairs, CR_R));
    let blue = with_cb.map(|pairs| sum(pairs, CB_B));
    let green = [0, 1].map(|i| {
        let of_cb = _mm256_madd_epi16(with_cb[i], pair(0, CB_G));
        _mm256_add_epi32(sum(with_cr[i], CR_G), of_cb)
    });
    let [red, green, blue] = [red, green, blue].map(|[low, high]| {
        _mm256_packs_epi32(_mm256_srai_epi32::<14>(low), _mm256_srai_epi32::<14>(high))
    });
    interleaved(_mm256_packus_epi16(red, green), _mm256_packus_epi16(blue, blue))
}

#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
fn sixteen(y: &[u8; 16], cb: &[u8; 16], cr: &[u8; 16]) -> [u8; 48] {
    let load = |bytes: &[u8; 16]| {
        // SAFETY: 16 bytes each; any bytes are a vector.
        unsafe { std::mem::transmute::<[u8; 16], uint8x16_t>(*bytes) }
    };
    let (y, cb, cr) = (load(y), load(cb), load(cr));
    let centre = vdup_n_u8(128);
    let low = eight(
        vmovl_u8(vget_low_u8(y)),
        vsubl_u8(vget_low_u8(cb), centre),
        vsubl_u8(vget_low_u8(cr), centre),
    );
    let high = eight(
        vmovl_high_u8(y),
        vsubl_u8(vget_high_u8(cb), centre),
        vsubl_u8(vget_high_u8(cr), centre),
    );
    let [r, g, b] = std::array::from_fn(|c| vcombine_u8(low[c], high[c]));
    let mut out = [0; 48];
    // SAFETY: 48 bytes are written, to any address.
    unsafe { vst3q_u8(out.as_mut_ptr(), uint8x16x3_t(r, g, b)) };
    out
}

/// Returns red, green and blue of eight pixels. Chroma is a number with a sign.
#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
fn eight(y: uint16x8_t, cb: uint16x8_t, cr: uint16x8_t) -> [uint8x8_t; 3] {
    let [cb, cr] = [cb, cr].map(|v| vreinterpretq_s16_u16(v));
    let half = vdupq_n_s32(HALF);
    let luma = [vget_low_u16(y), vget_high_u16(y)]
        .map(|y| vaddq_s32(half, vreinterpretq_s32_u32(vshll_n_u16::<14>(y))));
    let (cb, cr) = ([vget_low_s16(cb), vget_high_s16(cb)], [vget_low_s16(cr), vget_high_s16(cr)]);
    let bytes = |[low, high]: [int32x4_t; 2]| {
        vqmovn_u16(vcombine_u16(vqshrun_n_s32::<14>(low), vqshrun_n_s32::<14>(high)))
    };
    let red = [0, 1].map(|i| vmlal_n_s16(luma[i], cr[i], CR_R));
    let green = [0, 1].map(|i| vmlal_n_s16(vmlal_n_s16(luma[i], cb[i], CB_G), cr[i], CR_G));
    let blue = [0, 1].map(|i| vmlal_n_s16(luma[i], cb[i], CB_B));
    [bytes(red), bytes(green), bytes(blue)]
}

/// Widens sixteen bytes to 16-bit words.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn words(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: 16 bytes each; any bytes are a vector.
    _mm256_cvtepu8_epi16(unsafe { std::mem::transmute::<[u8; 16], __m128i>(*bytes) })
}

/// Interleaves colours to pixels; each half of the vectors has eight red and eight green bytes, and
/// eight blue ones.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn interleaved(red_green: __m256i, blue: __m256i) -> [u8; 48] {
    const NO: i8 = -1;
    let both = |shuffle: __m128i| _mm256_broadcastsi128_si256(shuffle);
    let rg = both(_mm_setr_epi8(0, 8, NO, 1, 9, NO, 2, 10, NO, 3, 11, NO, 4, 12, NO, 5));
    let b = both(_mm_setr_epi8(NO, NO, 0, NO, NO, 1, NO, NO, 2, NO, NO, 3, NO, NO, 4, NO));
    let rg_rest = both(_mm_setr_epi8(13, NO, 6, 14, NO, 7, 15, NO, NO, NO, NO, NO, NO, NO, NO, NO));
    let b_rest = both(_mm_setr_epi8(NO, 5, NO, NO, 6, NO, NO, 7, NO, NO, NO, NO, NO, NO, NO, NO));
    let shuffled =
        |rg, b| _mm256_or_si256(_mm256_shuffle_epi8(red_green, rg), _mm256_shuffle_epi8(blue, b));
    // SAFETY: 32 bytes each; any bytes are integers.
    let [start, rest] = [shuffled(rg, b), shuffled(rg_rest, b_rest)]
        .map(|bytes| unsafe { std::mem::transmute::<__m256i, [u64; 4]>(bytes) });
    let pixels = [start[0], start[1], rest[0], start[2], start[3], rest[2]];
    let mut out = [0; 48];
    for (out, eight) in out.as_chunks_mut::<8>().0.iter_mut().zip(pixels) {
        *out = eight.to_le_bytes();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_is_the_formulas_rounded_and_the_meanings_bits() {
        let all: Vec<u8> = (0..=255).collect();
        let (mut out, mut meant) = ([0; 3 * 256], [0; 3 * 256]);
        for (cb, cr) in (0..=255u8).flat_map(|cb| (0..=255).step_by(3).map(move |cr| (cb, cr))) {
            ycbcr_row(&all, &[cb; 256], &[cr; 256], &mut out);
            plain(&all, &[cb; 256], &[cr; 256], &mut meant);
            assert_eq!(out, meant, "{cb} {cr}");
            let (b, r) = (f64::from(cb) - 128.0, f64::from(cr) - 128.0);
            for (y, rgb) in out.as_chunks::<3>().0.iter().enumerate() {
                let exact = [1.402 * r, -0.344_136 * b - 0.714_136 * r, 1.772 * b];
                for (found, exact) in rgb.iter().zip(exact) {
                    let exact = (y as f64 + exact).clamp(0.0, 255.0);
                    assert!((f64::from(*found) - exact).abs() < 0.51, "{y} {cb} {cr}");
                }
            }
        }
    }

    #[test]
    fn rows_of_any_length_have_the_meanings_bits() {
        let row = |n: usize| -> Vec<u8> { (0..n).map(|i| (i * n * 37 % 256) as u8).collect() };
        for len in 0..70 {
            let [y, cb, cr] = [len, len + 1, len + 2].map(row);
            let (mut out, mut meant) = (vec![7; 3 * len + 1], vec![7; 3 * len + 1]);
            ycbcr_row(&y, &cb, &cr, &mut out);
            plain(&y, &cb, &cr, &mut meant);
            assert_eq!(out, meant, "{len}");
        }
    }

    #[test]
    fn gray_is_gray() {
        let mut out = [0; 6];
        gray_row(&[7, 200], &mut out);
        assert_eq!(out, [7, 7, 7, 200, 200, 200]);
    }
}
