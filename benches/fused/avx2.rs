//! The compiled loop's algorithm, written by hand in AVX2: the code that a person would write for
//! 256-bit registers and a fixed list of ops. The same arithmetic in the same order, so the same
//! bits.

#![allow(unsafe_code, reason = "vector loads and stores through pointers")]

use super::recipe::{Recipe, SIDE};
use std::arch::x86_64::*;

/// Three channels of eight pixels.
type Pixels = [__m256; 3];

/// Orders of brightness (0), contrast (1) and saturation (2), in lexicographic order; the last
/// entry has no jitter.
const ORDERS: [&[u8]; 7] =
    [&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0], &[]];

/// Runs crop, flip, jitter if the recipe has one, normalize, channels first.
pub(crate) fn run(recipe: &Recipe, source: &[u8], out: &mut [f32]) {
    assert!(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"));
    assert!(recipe.last_byte() <= source.len() && out.len() == 3 * SIDE * SIDE);
    // SAFETY: the CPU has both features, and the crop ends inside the source: asserted just above.
    unsafe {
        match recipe.order {
            Some(0) => sample::<0>(recipe, source, out),
            Some(1) => sample::<1>(recipe, source, out),
            Some(2) => sample::<2>(recipe, source, out),
            Some(3) => sample::<3>(recipe, source, out),
            Some(4) => sample::<4>(recipe, source, out),
            Some(_) => sample::<5>(recipe, source, out),
            None => sample::<6>(recipe, source, out),
        }
    }
}

/// The addresses of groups of eight pixels in the source.
struct Groups {
    /// The addresses of the first and the last four pixels of group 0.
    bases: [*const u8; 2],
    /// Bytes from one row to the next, and from one group to the next.
    stride: isize,
    step: isize,
    shuffles: [__m256i; 3],
}

/// # Safety
///
/// The CPU must have AVX2 and FMA, the recipe's crop must end inside `source`, and `out` must have
/// three planes.
#[target_feature(enable = "avx2,fma")]
unsafe fn sample<const ORDER: usize>(recipe: &Recipe, source: &[u8], out: &mut [f32]) {
    // SAFETY: the caller promises that every group is inside the crop.
    unsafe {
        let groups = groups(recipe, source);
        let mut mean = 0.0;
        if let Some(index) = ORDERS[ORDER].iter().position(|part| *part == 1) {
            mean = grey_mean(recipe, &groups, &ORDERS[ORDER][..index]);
        }
        for y in 0..SIDE {
            for x in (0..SIDE).step_by(8) {
                let mut pixels = load(&groups, y, x);
                for part in ORDERS[ORDER] {
                    pixels = jitter(recipe, *part, mean, pixels);
                }
                for (c, v) in pixels.into_iter().enumerate() {
                    let [m1, s1, s0, bias] = recipe.normalize[c].map(|n| _mm256_set1_ps(n));
                    let d = _mm256_sub_ps(v, m1);
                    let v = _mm256_fmadd_ps(d, s1, _mm256_fmadd_ps(d, s0, bias));
                    _mm256_storeu_ps(out.as_mut_ptr().add((c * SIDE + y) * SIDE + x), v);
                }
            }
        }
    }
}

/// # Safety
///
/// The same as for [`sample`].
#[target_feature(enable = "avx2,fma")]
unsafe fn groups(recipe: &Recipe, source: &[u8]) -> Groups {
    let mut shuffles = [_mm256_setzero_si256(); 3];
    for (c, shuffle) in shuffles.iter_mut().enumerate() {
        let mut bytes = [0x80u8; 32];
        for pixel in 0..8 {
            let from = if recipe.flipped { 7 - pixel } else { pixel };
            let loaded_from = if from >= 4 { 8 } else { 0 };
            bytes[4 * pixel] = (3 * from + c - loaded_from) as u8;
        }
        // SAFETY: `bytes` is an array of 32 bytes.
        *shuffle = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    }
    let first = recipe.top * recipe.stride + 3 * recipe.left;
    let last_group = first + 3 * (SIDE - 8);
    // SAFETY: both groups are inside the crop, which the caller promises is inside the source.
    let (low, step) = unsafe {
        if recipe.flipped {
            (source.as_ptr().add(last_group), -24)
        } else {
            (source.as_ptr().add(first), 24)
        }
    };
    // SAFETY: 8 bytes further is still in the same group.
    let high = unsafe { low.add(8) };
    let bases = if recipe.flipped { [high, low] } else { [low, high] };
    Groups { bases, stride: recipe.stride as isize, step, shuffles }
}

/// # Safety
///
/// The same as for [`sample`]; `x` and `y` must be below [`SIDE`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn load(groups: &Groups, y: usize, x: usize) -> Pixels {
    let offset = y as isize * groups.stride + (x / 8) as isize * groups.step;
    // SAFETY: the 24 bytes of a group are all inside the crop.
    let bytes = unsafe {
        let [first, last] = groups.bases.map(|base| base.offset(offset).cast());
        _mm256_set_m128i(_mm_loadu_si128(last), _mm_loadu_si128(first))
    };
    groups.shuffles.map(|mask| _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, mask)))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn jitter(recipe: &Recipe, part: u8, mean: f32, pixels: Pixels) -> Pixels {
    let [factor, rest] = recipe.factors[usize::from(part)].map(|n| _mm256_set1_ps(n));
    let (white, black) = (_mm256_set1_ps(255.0), _mm256_setzero_ps());
    if part == 0 {
        return pixels.map(|v| _mm256_min_ps(_mm256_mul_ps(v, factor), white));
    }
    let towards = if part == 1 { _mm256_set1_ps(mean) } else { grey(pixels) };
    let towards = _mm256_mul_ps(towards, rest);
    pixels.map(|v| {
        let v = _mm256_fmadd_ps(v, factor, towards);
        _mm256_max_ps(_mm256_min_ps(v, white), black)
    })
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn grey([r, g, b]: Pixels) -> __m256 {
    let [wr, wg, wb] = [0.2989, 0.587, 0.114].map(|w| _mm256_set1_ps(w));
    _mm256_fmadd_ps(b, wb, _mm256_fmadd_ps(g, wg, _mm256_mul_ps(r, wr)))
}

/// # Safety
///
/// The same as for [`sample`].
#[target_feature(enable = "avx2,fma")]
unsafe fn grey_mean(recipe: &Recipe, groups: &Groups, before: &[u8]) -> f32 {
    let mut total = 0i64;
    for y in 0..SIDE {
        let mut sums = _mm256_setzero_si256();
        for x in (0..SIDE).step_by(8) {
            // SAFETY: the caller's promise.
            let mut pixels = unsafe { load(groups, y, x) };
            for part in before {
                pixels = jitter(recipe, *part, 0.0, pixels);
            }
            sums = _mm256_add_epi32(sums, _mm256_cvttps_epi32(grey(pixels)));
        }
        // SAFETY: any 32 bytes are eight valid numbers.
        let lanes: [i32; 8] = unsafe { std::mem::transmute(sums) };
        total += lanes.iter().map(|lane| i64::from(*lane)).sum::<i64>();
    }
    total as f32 / (SIDE * SIDE) as f32
}
