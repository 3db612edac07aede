//! The inverse transforms of 4x4 blocks.
//!
//! ```text
//! pixel = clamp(prediction + (T c T' + 4) / 8)      T c: a column (c0, c1, c2, c3) becomes
//!     c0 + c2 + K c1 + S c3,  c0 - c2 + S c1 - K c3,  c0 - c2 - S c1 + K c3,  c0 + c2 - K c1 - S c3
//! ```
//!
//! with K = 1 + 20091 / 65536 and S = 35468 / 65536: sqrt 2 times the cosine and the sine of pi / 8. All values have 16 bits
//! and wrap around, which coefficients of an image never do.

#![allow(unsafe_code, reason = "vectors as the CPU has them")]

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// 65536 times the cosine, less 65536.
const COSINE: i16 = 20091;

/// 65536 times the sine, less 65536: 35468 is no `i16`.
const SINE: i16 = -30068;

/// Adds the transform of a block's coefficients to 4 rows of 4 pixels, `stride` bytes apart.
///
/// # Panics
///
/// If `pixels` ends before the last of them.
#[inline(always)]
pub fn add_transform(coefficients: &[i16; 16], pixels: &mut [u8], stride: usize) {
    let pixels = &mut pixels[..3 * stride + 4];
    let mut block = [[0; 4]; 4];
    for (y, row) in block.iter_mut().enumerate() {
        row.copy_from_slice(&pixels[y * stride..][..4]);
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: SSE2 is part of x86-64, and every aarch64 CPU that Rust's standard library runs on has NEON.
    let block = unsafe { transformed(coefficients, block) };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let block = plain(coefficients, block);
    for (y, row) in block.iter().enumerate() {
        pixels[y * stride..][..4].copy_from_slice(row);
    }
}

/// Returns the rows of pixels plus the transform. This is the reference implementation.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn plain(coefficients: &[i16; 16], mut pixels: [[u8; 4]; 4]) -> [[u8; 4]; 4] {
    let columns = |c: [[i16; 4]; 4]| -> [[i16; 4]; 4] {
        let times = |c: i16, factor: i16| {
            (((i32::from(c) * i32::from(factor)) >> 16) as i16).wrapping_add(c)
        };
        let mut out = [[0_i16; 4]; 4];
        for x in 0..4 {
            let (a, b) = (c[0][x].wrapping_add(c[2][x]), c[0][x].wrapping_sub(c[2][x]));
            let difference = times(c[1][x], SINE).wrapping_sub(times(c[3][x], COSINE));
            let sum = times(c[1][x], COSINE).wrapping_add(times(c[3][x], SINE));
            out[0][x] = a.wrapping_add(sum);
            out[1][x] = b.wrapping_add(difference);
            out[2][x] = b.wrapping_sub(difference);
            out[3][x] = a.wrapping_sub(sum);
        }
        out
    };
    let transposed = |c: [[i16; 4]; 4]| [0, 1, 2, 3].map(|x| c.map(|row| row[x]));
    let rows = [0, 1, 2, 3].map(|y| [0, 1, 2, 3].map(|x| coefficients[4 * y + x]));
    let mut across = transposed(columns(rows));
    across[0] = across[0].map(|c| c.wrapping_add(4));
    for (row, changes) in pixels.iter_mut().zip(transposed(columns(across))) {
        for (pixel, change) in row.iter_mut().zip(changes) {
            *pixel = (i16::from(*pixel) + (change >> 3)).clamp(0, 255) as u8;
        }
    }
    pixels
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn transformed(coefficients: &[i16; 16], pixels: [[u8; 4]; 4]) -> [[u8; 4]; 4] {
    // SAFETY: 32 and 16 bytes; any bytes are vectors.
    let (rows, pixels) = unsafe {
        (
            std::mem::transmute::<[i16; 16], [__m128i; 2]>(*coefficients),
            std::mem::transmute::<[[u8; 4]; 4], __m128i>(pixels),
        )
    };
    let [first, last] = transposed_columns(rows);
    let four = _mm_setr_epi16(4, 4, 4, 4, 0, 0, 0, 0);
    let [first, last] = transposed_columns([_mm_add_epi16(first, four), last]);
    let zero = _mm_setzero_si128();
    let first = _mm_add_epi16(_mm_unpacklo_epi8(pixels, zero), _mm_srai_epi16::<3>(first));
    let last = _mm_add_epi16(_mm_unpackhi_epi8(pixels, zero), _mm_srai_epi16::<3>(last));
    // SAFETY: 16 bytes; any bytes are integers.
    unsafe { std::mem::transmute::<__m128i, [[u8; 4]; 4]>(_mm_packus_epi16(first, last)) }
}

/// Transforms columns and transposes the block. A vector has two rows.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn transposed_columns([first, last]: [__m128i; 2]) -> [__m128i; 2] {
    let swapped = |v| _mm_shuffle_epi32::<0b01_00_11_10>(v);
    let even = _mm_unpacklo_epi64(first, last);
    let odd = _mm_unpackhi_epi64(first, last);
    let other = swapped(even);
    let ab = _mm_unpacklo_epi64(_mm_add_epi16(even, other), _mm_sub_epi16(even, other));
    let times = |factor| _mm_add_epi16(_mm_mulhi_epi16(odd, _mm_set1_epi16(factor)), odd);
    // The cosines of rows 1 and 3, and the sines of rows 3 and 1.
    let (cosines, sines) = (times(COSINE), swapped(times(SINE)));
    let (sums, differences) = (_mm_add_epi16(cosines, sines), _mm_sub_epi16(sines, cosines));
    let changes =
        _mm_castpd_si128(_mm_move_sd(_mm_castsi128_pd(differences), _mm_castsi128_pd(sums)));
    let first = _mm_add_epi16(ab, changes);
    let last = swapped(_mm_sub_epi16(ab, changes));
    let (even, odd) = (_mm_unpacklo_epi16(first, last), _mm_unpackhi_epi16(first, last));
    [_mm_unpacklo_epi16(even, odd), _mm_unpackhi_epi16(even, odd)]
}

#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
fn transformed(coefficients: &[i16; 16], pixels: [[u8; 4]; 4]) -> [[u8; 4]; 4] {
    // SAFETY: 32 and 16 bytes; any bytes are vectors.
    let (rows, pixels) = unsafe {
        (
            std::mem::transmute::<[i16; 16], [int16x8_t; 2]>(*coefficients),
            std::mem::transmute::<[[u8; 4]; 4], uint8x16_t>(pixels),
        )
    };
    let [first, last] = transposed_columns(rows);
    let four = vcombine_s16(vdup_n_s16(4), vdup_n_s16(0));
    let [first, last] = transposed_columns([vaddq_s16(first, four), last]);
    let words = |bytes| vreinterpretq_s16_u16(vmovl_u8(bytes));
    let first = vaddq_s16(words(vget_low_u8(pixels)), vshrq_n_s16::<3>(first));
    let last = vaddq_s16(words(vget_high_u8(pixels)), vshrq_n_s16::<3>(last));
    let pixels = vcombine_u8(vqmovun_s16(first), vqmovun_s16(last));
    // SAFETY: 16 bytes; any bytes are integers.
    unsafe { std::mem::transmute::<uint8x16_t, [[u8; 4]; 4]>(pixels) }
}

/// Transforms columns and transposes the block. A vector has two rows.
#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
fn transposed_columns([first, last]: [int16x8_t; 2]) -> [int16x8_t; 2] {
    let times =
        |row: int16x4_t, factor: i16| vadd_s16(vshrn_n_s32::<16>(vmull_n_s16(row, factor)), row);
    let [row0, row2] = [first, last].map(|rows| vget_low_s16(rows));
    let [row1, row3] = [first, last].map(|rows| vget_high_s16(rows));
    let ab = vcombine_s16(vadd_s16(row0, row2), vsub_s16(row0, row2));
    let changes = vcombine_s16(
        vadd_s16(times(row1, COSINE), times(row3, SINE)),
        vsub_s16(times(row1, SINE), times(row3, COSINE)),
    );
    let first = vaddq_s16(ab, changes);
    let last = vsubq_s16(ab, changes);
    let last = vextq_s16::<4>(last, last);
    let (even, odd) = (vzip1q_s16(first, last), vzip2q_s16(first, last));
    [vzip1q_s16(even, odd), vzip2q_s16(even, odd)]
}

/// Adds the transform of a block of which only the first coefficient is not 0.
///
/// # Panics
///
/// In the same case as [`add_transform`].
#[inline(always)]
pub fn add_dc(first: i16, pixels: &mut [u8], stride: usize) {
    let change = first.wrapping_add(4) >> 3;
    let pixels = &mut pixels[..3 * stride + 4];
    for y in 0..4 {
        for pixel in &mut pixels[y * stride..][..4] {
            *pixel = (i16::from(*pixel) + change).clamp(0, 255) as u8;
        }
    }
}

/// Returns the first coefficients of the 16 blocks of luma, by the transform of their own coefficients (section 14.3).
#[inline(always)]
#[must_use]
pub fn walsh_hadamard(coefficients: &[i16; 16]) -> [i16; 16] {
    let four = |a: i32, b: i32, c: i32, d: i32| {
        let (outer, inner) = (a + d, b + c);
        let (outer_less, inner_less) = (a - d, b - c);
        [outer + inner, outer_less + inner_less, outer - inner, outer_less - inner_less]
    };
    let at = |y: usize, x: usize| i32::from(coefficients[4 * y + x]);
    let columns: [[i32; 4]; 4] =
        std::array::from_fn(|x| four(at(0, x), at(1, x), at(2, x), at(3, x)));
    let rows: [[i32; 4]; 4] = std::array::from_fn(|y| {
        let row = |x: usize| columns[x][y];
        four(row(0) + 3, row(1), row(2), row(3))
    });
    std::array::from_fn(|i| (rows[i / 4][i % 4] >> 3) as i16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula in real numbers, with the factors of the standard.
    fn exact(coefficients: &[i16; 16]) -> [[f64; 4]; 4] {
        let (k, s) = (1.0 + 20091.0 / 65536.0, 35468.0 / 65536.0);
        let factors =
            [[1.0, k, 1.0, s], [1.0, s, -1.0, -k], [1.0, -s, -1.0, k], [1.0, -k, 1.0, -s]];
        let mut out = [[0.0; 4]; 4];
        for (y, row) in out.iter_mut().enumerate() {
            for (x, out) in row.iter_mut().enumerate() {
                for v in 0..4 {
                    for u in 0..4 {
                        let c = f64::from(coefficients[4 * v + u]);
                        *out += factors[y][v] * factors[x][u] * c / 8.0;
                    }
                }
            }
        }
        out
    }

    #[test]
    fn blocks_are_the_formulas() {
        let mut state = 1_u32;
        for _ in 0..2000 {
            let coefficients: [i16; 16] = std::array::from_fn(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as i16 - 128
            });
            let mut pixels = [128; 4 * 5];
            add_transform(&coefficients, &mut pixels, 5);
            for (y, row) in exact(&coefficients).iter().enumerate() {
                for (x, exact) in row.iter().enumerate() {
                    let (found, exact) =
                        (f64::from(pixels[5 * y + x]), (128.0 + exact).clamp(0.0, 255.0));
                    // Four products are rounded down before they are added, and again.
                    assert!((found - exact).abs() < 1.6, "{coefficients:?}: {found}, {exact}");
                }
            }
            assert!(pixels.iter().skip(4).step_by(5).all(|&pixel| pixel == 128));
            let (mut of_dc, mut whole) = ([200; 16], [200; 16]);
            let only_dc = std::array::from_fn(|i| if i == 0 { coefficients[0] } else { 0 });
            add_dc(coefficients[0], &mut of_dc, 4);
            add_transform(&only_dc, &mut whole, 4);
            assert_eq!(of_dc, whole);
        }
    }

    #[test]
    fn any_coefficients_have_the_meanings_bits() {
        let mut state = 5_u32;
        for round in 0..4000 {
            let mut number = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 16
            };
            let shift = round % 12;
            let coefficients: [i16; 16] = std::array::from_fn(|_| number() as i16 >> shift);
            let mut pixels = [[0; 4]; 4];
            pixels.as_flattened_mut().fill_with(|| number() as u8);
            let want = plain(&coefficients, pixels);
            add_transform(&coefficients, pixels.as_flattened_mut(), 4);
            assert_eq!(pixels, want, "{coefficients:?}");
        }
    }

    #[test]
    fn equal_blocks_have_one_coefficient_of_their_own() {
        let mut coefficients = [0; 16];
        coefficients[0] = 80;
        assert_eq!(walsh_hadamard(&coefficients), [10; 16]);
        coefficients[1] = 16;
        assert_eq!(walsh_hadamard(&coefficients)[..4], [12, 12, 8, 8]);
    }
}
