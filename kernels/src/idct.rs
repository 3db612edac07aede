//! The inverse discrete cosine transform of a JPEG's block (ITU-T T.81, A.3.3).
//!
//! ```text
//! out[y][x] = clamp(128 + 1/4 sum_v sum_u  f(u) f(v) c[v][u] cos((2x+1)u pi/16) cos((2y+1)v pi/16))
//! ```
//!
//! with f(0) = 1/sqrt 2, f = 1 otherwise, and c the coefficients times their quantization steps. The
//! computation is in integers: columns first, then rows, each sum with the constants of [`ODD`] and
//! [`EVEN`]. The intermediate values have two fractional bits.
//!
//! | | |
//! |--------|---------------------------------------------------------------|
//! | input  | coefficients and steps, `i16`, both in the order of [`ORDER`] |
//! | output | 8 rows of 8 bytes, with a given stride                        |
//! | cost   | 24 vector multiplications                                     |
//!
//! The constants are those of the flow graph of Loeffler, Ligtenberg and Moschytz (ICASSP 1989),
//! multiplied out, times 4096 and rounded; the bits are therefore those of decoders that follow the
//! graph. All sums wrap around: for coefficients that no image has, the result is meaningless but
//! deterministic. [`plain`] is the reference implementation. Those for x86-64 multiply pairs of `i16`,
//! and leave blocks whose sums could exceed an `i16` to [`plain`]; `neon` has products of 32 bits.

#![allow(unsafe_code, reason = "vectors as the CPU has them")]

#[cfg(target_arch = "aarch64")]
mod neon;

use crate::bit_planes::Form;
#[cfg(target_arch = "x86_64")]
use crate::bit_planes::Kind;
#[cfg(target_arch = "x86_64")]
use crate::cpu::pair;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The pairs of rows that are multiplied together.
const PAIRS: [[usize; 2]; 4] = [[0, 4], [2, 6], [1, 3], [5, 7]];

/// The columns of a row in storage order. The order is chosen so that packing the results forms pairs
/// of columns.
const COLUMNS: [usize; 8] = [0, 2, 1, 5, 4, 6, 3, 7];

/// The index at which the coefficient of row v and column u is stored is `ORDER[8 * v + u]`.
///
/// Pairs of rows are interleaved, and the columns are in an order that suits the second half of the
/// transform.
pub const ORDER: [u8; 64] = order();

const fn order() -> [u8; 64] {
    let (mut order, mut index) = ([0; 64], 0);
    while index < 64 {
        let v = PAIRS[index / 16][index % 2];
        order[8 * v + COLUMNS[index % 16 / 2]] = index as u8;
        index += 1;
    }
    order
}

/// The index at which each coefficient is stored, in the order of a JPEG's file (T.81, figure 5).
pub const POSITIONS: [u8; 64] = positions();

#[rustfmt::skip]
const ZIGZAG: [u8; 64] = [
     0,  1,  8, 16,  9,  2,  3, 10, 17, 24, 32, 25, 18, 11,  4,  5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,  6,  7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

const fn positions() -> [u8; 64] {
    let (mut positions, mut at) = ([0; 64], 0);
    while at < 64 {
        positions[at] = ORDER[ZIGZAG[at] as usize];
        at += 1;
    }
    positions
}

/// 4096 times sqrt 2 cos(k pi/16) and similar constants: the factors of coefficients 0 and 4, 2 and 6
/// for the even part of values 0..4.
const EVEN: [[i16; 4]; 4] = [
    [4096, 4096, 5352, 2217],
    [4096, -4096, 2217, -5350],
    [4096, -4096, -2217, 5350],
    [4096, 4096, -5352, -2217],
];

/// The factors of coefficients 1, 3, 5 and 7 for the odd part of values 0..4.
const ODD: [[i16; 4]; 4] = [
    [5683, 4816, 3219, 1131],
    [4816, -1129, -5681, -3218],
    [3219, -5681, 1132, 4816],
    [1131, -3218, 4816, -5680],
];

/// The summand before the shift, and the shift. The first pass keeps two of the twelve fractional bits.
/// The second pass removes those two, the twelve bits of its own constants, and three more, since the
/// two passes together scale by eight.
const FIRST: (i32, u32) = (1 << 9, 10);
const SECOND: (i32, u32) = ((1 << 16) + (1 << 9) + (128 << 17), 17);

/// Writes the samples of a block to the first 8 bytes of 8 rows, `stride` bytes apart.
///
/// # Panics
///
/// If `out` ends before the last of these bytes.
#[inline]
pub fn idct(block: &[i16; 64], steps: &[i16; 64], out: &mut [u8], stride: usize) {
    store_block(&rows(block, steps), out, stride);
}

/// Returns the rows of a block's samples, the first sample of a row in its first byte.
#[inline]
fn rows(block: &[i16; 64], steps: &[i16; 64]) -> [u64; 8] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2, as checked just above.
        if let Some(rows) = unsafe { avx2(block, steps) } {
            return rows;
        }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every aarch64 CPU that Rust's standard library runs on has NEON.
    return unsafe { neon::rows(block, steps) };
    #[cfg(not(target_arch = "aarch64"))]
    plain(block, steps)
}

/// Returns the rows of two blocks, to be stored by [`store_block`]: with AVX-512, both are transformed at once.
#[inline]
#[must_use]
pub fn idct_pair(form: Form, blocks: [&[i16; 64]; 2], steps: [&[i16; 64]; 2]) -> [[u64; 8]; 2] {
    #[cfg(target_arch = "x86_64")]
    if form == Form(Kind::Avx512) {
        // SAFETY: the CPU has the features of a form that exists.
        if let Some(rows) = unsafe { avx512(blocks, steps) } {
            return rows;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = form;
    [rows(blocks[0], steps[0]), rows(blocks[1], steps[1])]
}

/// Writes a block of one value, as [`idct`] does for a block whose only nonzero coefficient is the
/// first. `dc` is that coefficient times its quantization step.
///
/// # Panics
///
/// In the same case as [`idct`].
#[inline]
pub fn idct_flat(dc: i16, out: &mut [u8], stride: usize) {
    let value = ((i32::from(dc) + 4 + (128 << 3)) >> 3).clamp(0, 255) as u8;
    store_block(&[u64::from_ne_bytes([value; 8]); 8], out, stride);
}

/// Writes the rows of a block to the first 8 bytes of 8 rows, `stride` bytes apart.
///
/// # Panics
///
/// In the same case as [`idct`].
#[inline(always)]
pub fn store_block(rows: &[u64; 8], out: &mut [u8], stride: usize) {
    let out = &mut out[..7 * stride + 8];
    for (y, row) in rows.iter().enumerate() {
        out[y * stride..y * stride + 8].copy_from_slice(&row.to_ne_bytes());
    }
}

/// Returns the rows of a block. This is the reference implementation.
#[cfg_attr(
    all(target_arch = "aarch64", not(test)),
    expect(dead_code, reason = "the meaning of the one with NEON")
)]
fn plain(block: &[i16; 64], steps: &[i16; 64]) -> [u64; 8] {
    let at = |v: usize, u: usize| {
        let index = usize::from(ORDER[8 * v + u]);
        i32::from(block[index]).wrapping_mul(steps[index].into())
    };
    let columns: [_; 8] =
        std::array::from_fn(|u| transform(std::array::from_fn(|v| at(v, u)), FIRST));
    std::array::from_fn(|y| {
        let row = transform(std::array::from_fn(|u| columns[u][y]), SECOND);
        u64::from_ne_bytes(row.map(|value| value.clamp(0, 255) as u8))
    })
}

/// Transforms eight coefficients along one dimension.
fn transform(c: [i32; 8], (round, shift): (i32, u32)) -> [i32; 8] {
    let sum = |factors: [i16; 4], c: [i32; 4]| {
        let products = factors.iter().zip(c).map(|(&f, c)| c.wrapping_mul(f.into()));
        products.fold(0, i32::wrapping_add)
    };
    std::array::from_fn(|x| {
        let row = x.min(7 - x);
        let even = sum(EVEN[row], [c[0], c[4], c[2], c[6]]).wrapping_add(round);
        let odd = sum(ODD[row], [c[1], c[3], c[5], c[7]]);
        (if x < 4 { even.wrapping_add(odd) } else { even.wrapping_sub(odd) }) >> shift
    })
}

/// The largest sum of absolute coefficients, in half a column, for which the transform fits into an
/// `i16`: (2 * 2950 * 5683 + 512) / 1024 < 2^15.
#[cfg(any(test, target_arch = "x86_64"))]
const LARGEST: i16 = 2950;

/// Does the same as [`plain`], or returns `None` if the coefficients are too large for this
/// implementation.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn avx2(block: &[i16; 64], steps: &[i16; 64]) -> Option<[u64; 8]> {
    let zero = _mm256_setzero_si256();
    let (mut rows, mut sums, mut lost) = ([zero; 4], zero, zero);
    for ((row, block), steps) in rows.iter_mut().zip(vectors(block)).zip(vectors(steps)) {
        *row = _mm256_mullo_epi16(block, steps);
        // If a product fits, its high half is the sign.
        let (high, sign) = (_mm256_mulhi_epi16(block, steps), _mm256_srai_epi16::<15>(*row));
        lost = _mm256_or_si256(lost, _mm256_xor_si256(high, sign));
        sums = _mm256_adds_epu16(sums, _mm256_abs_epi16(*row));
    }
    lost = _mm256_or_si256(lost, _mm256_subs_epu16(sums, _mm256_set1_epi16(LARGEST)));
    if _mm256_testz_si256(lost, lost) == 0 {
        return None;
    }
    let columns = transform_avx2::<10>(rows, FIRST.0);
    Some(bytes(transform_avx2::<17>(transposed(columns), SECOND.0)))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn vectors(values: &[i16; 64]) -> [__m256i; 4] {
    // SAFETY: 128 bytes each; any bytes are vectors.
    unsafe { std::mem::transmute::<[i16; 64], [__m256i; 4]>(*values) }
}

/// Transforms eight rows or columns along one dimension, from pairs of coefficients to values in order.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn transform_avx2<const SHIFT: i32>(c: [__m256i; 4], round: i32) -> [__m256i; 8] {
    let round = _mm256_set1_epi32(round);
    let mut values = [round; 8];
    let sum = _mm256_add_epi32(_mm256_madd_epi16(c[0], pair(EVEN[0][0], EVEN[0][1])), round);
    let difference = _mm256_add_epi32(_mm256_madd_epi16(c[0], pair(EVEN[1][0], EVEN[1][1])), round);
    let low = _mm256_madd_epi16(c[1], pair(EVEN[0][2], EVEN[0][3]));
    let high = _mm256_madd_epi16(c[1], pair(EVEN[1][2], EVEN[1][3]));
    let even = [
        _mm256_add_epi32(sum, low),
        _mm256_add_epi32(difference, high),
        _mm256_sub_epi32(difference, high),
        _mm256_sub_epi32(sum, low),
    ];
    for (x, (even, [a, b, c_, d])) in even.into_iter().zip(ODD).enumerate() {
        let odd = _mm256_add_epi32(
            _mm256_madd_epi16(c[2], pair(a, b)),
            _mm256_madd_epi16(c[3], pair(c_, d)),
        );
        values[x] = _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(even, odd));
        values[7 - x] = _mm256_srai_epi32::<SHIFT>(_mm256_sub_epi32(even, odd));
    }
    values
}

/// Transposes rows of values, with columns ordered as in [`COLUMNS`], to pairs of columns as in
/// [`PAIRS`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(rows: [__m256i; 8]) -> [__m256i; 4] {
    // The low half of a vector holds the first columns of the pairs, the high half the second ones.
    let pairs = |a: __m256i, b: __m256i| {
        let packed = _mm256_packs_epi32(a, b);
        let firsts = _mm256_castsi256_si128(packed);
        let seconds = _mm256_extracti128_si256::<1>(packed);
        [_mm_unpacklo_epi16(firsts, seconds), _mm_unpackhi_epi16(firsts, seconds)]
    };
    let [[r0, r1], [r2, r3]] = [pairs(rows[0], rows[1]), pairs(rows[2], rows[3])];
    let [[r4, r5], [r6, r7]] = [pairs(rows[4], rows[5]), pairs(rows[6], rows[7])];
    let r = [(r0, r4), (r1, r5), (r2, r6), (r3, r7)].map(|(low, high)| _mm256_set_m128i(high, low));
    let low = [_mm256_unpacklo_epi32(r[0], r[1]), _mm256_unpacklo_epi32(r[2], r[3])];
    let high = [_mm256_unpackhi_epi32(r[0], r[1]), _mm256_unpackhi_epi32(r[2], r[3])];
    [
        _mm256_unpacklo_epi64(low[0], low[1]),
        _mm256_unpackhi_epi64(low[0], low[1]),
        _mm256_unpacklo_epi64(high[0], high[1]),
        _mm256_unpackhi_epi64(high[0], high[1]),
    ]
}

/// Converts columns of values to rows of bytes, clamped.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn bytes(columns: [__m256i; 8]) -> [u64; 8] {
    // Each half of a vector has four bytes of four columns, and then of four rows.
    let turn = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
    ));
    let four = |c: &[__m256i]| {
        let pairs = [_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3])];
        _mm256_shuffle_epi8(_mm256_packus_epi16(pairs[0], pairs[1]), turn)
    };
    let (left, right) = (four(&columns[..4]), four(&columns[4..]));
    let rows = [_mm256_unpacklo_epi32(left, right), _mm256_unpackhi_epi32(left, right)];
    // SAFETY: 64 bytes each; any bytes are integers.
    let [y0, y1, y4, y5, y2, y3, y6, y7] =
        unsafe { std::mem::transmute::<[__m256i; 2], [u64; 8]>(rows) };
    [y0, y1, y2, y3, y4, y5, y6, y7]
}

/// Does the same for two blocks at once as [`avx2`] does for one: in 128-bit lanes, the first and the second half of a
/// vector of one block are followed by those of the other, or alternate with them from [`transposed512`] on.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
fn avx512(blocks: [&[i16; 64]; 2], steps: [&[i16; 64]; 2]) -> Option<[[u64; 8]; 2]> {
    let zero = _mm512_setzero_si512();
    let (mut rows, mut sums, mut lost) = ([zero; 4], zero, zero);
    for ((row, block), steps) in rows.iter_mut().zip(vectors512(blocks)).zip(vectors512(steps)) {
        *row = _mm512_mullo_epi16(block, steps);
        // If a product fits, its high half is the sign.
        let (high, sign) = (_mm512_mulhi_epi16(block, steps), _mm512_srai_epi16::<15>(*row));
        lost = _mm512_or_si512(lost, _mm512_xor_si512(high, sign));
        sums = _mm512_adds_epu16(sums, _mm512_abs_epi16(*row));
    }
    lost = _mm512_or_si512(lost, _mm512_subs_epu16(sums, _mm512_set1_epi16(LARGEST)));
    if _mm512_test_epi64_mask(lost, lost) != 0 {
        return None;
    }
    let columns = transform_avx512::<10>(rows, FIRST.0);
    Some(bytes512(transform_avx512::<17>(transposed512(columns), SECOND.0)))
}

/// Returns the vectors of both blocks, each with those of the first one in its low half.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
fn vectors512(values: [&[i16; 64]; 2]) -> [__m512i; 4] {
    let (first, second) = (vectors(values[0]), vectors(values[1]));
    let mut both = [_mm512_setzero_si512(); 4];
    for ((both, first), second) in both.iter_mut().zip(first).zip(second) {
        *both = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second);
    }
    both
}

/// Does the same as [`transform_avx2`] in each half.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
fn transform_avx512<const SHIFT: u32>(c: [__m512i; 4], round: i32) -> [__m512i; 8] {
    let round = _mm512_set1_epi32(round);
    let mut values = [round; 8];
    let sum = _mm512_add_epi32(_mm512_madd_epi16(c[0], pair512(EVEN[0][0], EVEN[0][1])), round);
    let difference =
        _mm512_add_epi32(_mm512_madd_epi16(c[0], pair512(EVEN[1][0], EVEN[1][1])), round);
    let low = _mm512_madd_epi16(c[1], pair512(EVEN[0][2], EVEN[0][3]));
    let high = _mm512_madd_epi16(c[1], pair512(EVEN[1][2], EVEN[1][3]));
    let even = [
        _mm512_add_epi32(sum, low),
        _mm512_add_epi32(difference, high),
        _mm512_sub_epi32(difference, high),
        _mm512_sub_epi32(sum, low),
    ];
    for (x, (even, [a, b, c_, d])) in even.into_iter().zip(ODD).enumerate() {
        let odd = _mm512_add_epi32(
            _mm512_madd_epi16(c[2], pair512(a, b)),
            _mm512_madd_epi16(c[3], pair512(c_, d)),
        );
        values[x] = _mm512_srai_epi32::<SHIFT>(_mm512_add_epi32(even, odd));
        values[7 - x] = _mm512_srai_epi32::<SHIFT>(_mm512_sub_epi32(even, odd));
    }
    values
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn pair512(first: i16, second: i16) -> __m512i {
    _mm512_set1_epi32(i32::from(second) << 16 | i32::from(first as u16))
}

/// Does the same as [`transposed`]. In the result the lanes of the two blocks alternate.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
fn transposed512(rows: [__m512i; 8]) -> [__m512i; 4] {
    let mut r = [[_mm512_setzero_si512(); 2]; 2];
    for (n, r) in r.iter_mut().enumerate() {
        let low = _mm512_packs_epi32(rows[2 * n], rows[2 * n + 1]);
        let high = _mm512_packs_epi32(rows[2 * n + 4], rows[2 * n + 5]);
        let firsts = _mm512_shuffle_i64x2::<0b10_00_10_00>(low, high);
        let seconds = _mm512_shuffle_i64x2::<0b11_01_11_01>(low, high);
        *r = [_mm512_unpacklo_epi16(firsts, seconds), _mm512_unpackhi_epi16(firsts, seconds)];
    }
    let [[r0, r1], [r2, r3]] = r;
    let low = [_mm512_unpacklo_epi32(r0, r1), _mm512_unpacklo_epi32(r2, r3)];
    let high = [_mm512_unpackhi_epi32(r0, r1), _mm512_unpackhi_epi32(r2, r3)];
    [
        _mm512_unpacklo_epi64(low[0], low[1]),
        _mm512_unpackhi_epi64(low[0], low[1]),
        _mm512_unpacklo_epi64(high[0], high[1]),
        _mm512_unpackhi_epi64(high[0], high[1]),
    ]
}

/// Converts columns of values to rows of bytes, clamped.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
fn bytes512(columns: [__m512i; 8]) -> [[u64; 8]; 2] {
    let turn =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    let mut halves = [turn; 2];
    for (half, c) in halves.iter_mut().zip(columns.as_chunks::<4>().0) {
        let pairs = [_mm512_packs_epi32(c[0], c[1]), _mm512_packs_epi32(c[2], c[3])];
        *half = _mm512_shuffle_epi8(_mm512_packus_epi16(pairs[0], pairs[1]), turn);
    }
    let [left, right] = halves;
    let rows = [_mm512_unpacklo_epi32(left, right), _mm512_unpackhi_epi32(left, right)];
    // SAFETY: 128 bytes each; any bytes are integers.
    let [a0, a1, b0, b1, a4, a5, b4, b5, a2, a3, b2, b3, a6, a7, b6, b7] =
        unsafe { std::mem::transmute::<[__m512i; 2], [u64; 16]>(rows) };
    [[a0, a1, a2, a3, a4, a5, a6, a7], [b0, b1, b2, b3, b4, b5, b6, b7]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::{FRAC_1_SQRT_2, PI};

    /// Computes the formula at the top of the file.
    fn exact(c: &[i16; 64]) -> [f64; 64] {
        let f = |u: usize| if u == 0 { FRAC_1_SQRT_2 } else { 1.0 };
        let cos = |x: usize, u: usize| ((2 * x + 1) as f64 * u as f64 * PI / 16.0).cos();
        std::array::from_fn(|at| {
            let term = |i: usize| {
                let (v, u) = (i / 8, i % 8);
                let c = f64::from(c[usize::from(ORDER[i])]);
                f(u) * f(v) * c * cos(at % 8, u) * cos(at / 8, v)
            };
            (128.0 + (0..64).map(term).sum::<f64>() / 4.0).clamp(0.0, 255.0)
        })
    }

    fn samples(block: &[i16; 64], steps: &[i16; 64]) -> [u8; 64] {
        let mut out = [0; 64];
        idct(block, steps, &mut out, 8);
        out
    }

    /// Returns the samples of a block next to another one, first or second.
    fn pair_samples(form: Form, block: &[i16; 64], steps: &[i16; 64], second: bool) -> Vec<u8> {
        let other = std::array::from_fn(|index| (index as i16 * 37) % 50 - 25);
        let mut order = [(block, steps), (&other, &[2; 64])];
        if second {
            order.reverse();
        }
        let rows = idct_pair(form, order.map(|(block, _)| block), order.map(|(_, steps)| steps));
        let [its, others] = if second { [rows[1], rows[0]] } else { rows };
        assert_eq!(others, plain(&other, &[2; 64]), "{form:?}");
        its.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    fn plain_samples(block: &[i16; 64], steps: &[i16; 64]) -> Vec<u8> {
        plain(block, steps).into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn a_block_is_the_formulas_to_a_level() {
        arbtest::arbtest(|u| {
            let mut block = [0; 64];
            for _ in 0..u.int_in_range(1..=20)? {
                block[u.int_in_range(0..=63)?] = u.int_in_range(-200..=200)?;
            }
            for (found, expected) in samples(&block, &[1; 64]).iter().zip(exact(&block)) {
                assert!((f64::from(*found) - expected).abs() < 1.0, "{found} {expected}");
            }
            Ok(())
        });
    }

    #[test]
    fn the_fast_form_gives_the_meanings_bits() {
        arbtest::arbtest(|u| {
            let largest = *u.choose(&[5, 100, 900, 1500, 3000, i16::MAX])?;
            let (mut block, mut steps) = ([0; 64], [0; 64]);
            let (share, step_end) = (u.int_in_range(1..=64)?, *u.choose(&[1, 3, 255])?);
            for (coefficient, step) in block.iter_mut().zip(&mut steps) {
                if u.ratio(share, 64)? {
                    *coefficient = u.int_in_range(-largest..=largest)?;
                }
                *step = u.int_in_range(0..=step_end)?;
            }
            assert_eq!(
                samples(&block, &steps),
                *plain_samples(&block, &steps),
                "{block:?} {steps:?}"
            );
            for (form, second) in Form::available().zip([false, true, true]) {
                let found = pair_samples(form, &block, &steps, second);
                assert_eq!(found, plain_samples(&block, &steps), "{form:?} {block:?} {steps:?}");
            }
            Ok(())
        })
        .budget_ms(2000);
    }

    #[test]
    fn the_largest_sums_are_right_in_the_fast_form() {
        for index in 0..64 {
            for value in [LARGEST - 1, LARGEST, LARGEST + 1, i16::MAX, i16::MIN] {
                for value in [value, value.saturating_neg()] {
                    // The sum of a whole column is in one coefficient of either half.
                    let mut block = [0; 64];
                    (block[index], block[index ^ 1]) = (value, value);
                    let expected = plain_samples(&block, &[1; 64]);
                    assert_eq!(samples(&block, &[1; 64]), *expected);
                    for form in Form::available() {
                        for second in [false, true] {
                            assert_eq!(pair_samples(form, &block, &[1; 64], second), expected);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_flat_block_gives_the_same_either_way() {
        for dc in i16::MIN..=i16::MAX {
            let (mut block, mut out) = ([0; 64], [0; 64]);
            block[0] = dc;
            idct_flat(dc, &mut out, 8);
            assert_eq!(out, *plain_samples(&block, &[1; 64]), "{dc}");
        }
    }

    #[test]
    fn rows_lie_a_stride_apart() {
        let mut out = [7; 7 * 10 + 8];
        idct_flat(0, &mut out, 10);
        for (at, value) in out.iter().enumerate() {
            assert_eq!(*value, if at % 10 < 8 { 128 } else { 7 });
        }
    }
}
