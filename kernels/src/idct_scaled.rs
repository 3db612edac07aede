//! The inverse discrete cosine transform of a JPEG's block at 1/2, 1/4 and 1/8 of its size.
//!
//! ```text
//! out[y][x] = clamp(128 + 1/4 sum_v sum_u  f(u) f(v) c[v][u] cos((2x+1)u pi/2n) cos((2y+1)v pi/2n))     u, v < n
//! ```
//!
//! with f(0) = 1/sqrt 2, f = 1 otherwise, and c the coefficients times their quantization steps: the transform of the
//! lowest n x n frequencies alone, n = 4, 2 or 1, as libjpeg has it since its version 7. libjpeg-turbo writes the means
//! of the pixels that become one instead, which keep more of what a resize after it must average: 3 dB worse.
//!
//! Half as many rows as columns, or the reverse, are the means of two rows or columns of the larger square.
//!
//! | | |
//! |--------|-----------------------------------------------------------------------|
//! | input  | coefficients and steps, `i16`, both in the order of [`ORDER`]         |
//! | output | rows of 1, 2, 4 or 8 bytes, with a given stride                       |
//! | cost   | 16, 4 or 1 products with the steps; for n = 4, 16 multiplications more |
//!
//! With n = 4 the constants are multiplied by 2^13 and rounded, and columns keep two fractional bits. All sums wrap
//! around, as those of the whole transform do.

use super::idct::{ORDER, idct};

/// cos(pi/8) and cos(3 pi/8), times sqrt 2, in Q13.
const FIRST: i32 = 10_703;
const THIRD: i32 = 4_433;

/// Writes the samples of a block to the first `width` bytes of `height` rows, `stride` bytes apart. One of them is 1, 2, 4
/// or 8, and the other is as large or half as large.
///
/// # Panics
///
/// If `out` ends before the last of these bytes.
#[inline(always)]
pub fn idct_scaled(
    block: &[i16; 64],
    steps: &[i16; 64],
    [height, width]: [usize; 2],
    out: &mut [u8],
    stride: usize,
) {
    if height == width {
        return square(block, steps, height, out, stride);
    }
    let mut larger = [0; 64];
    square(block, steps, height.max(width), &mut larger, 8);
    // The distance between the two samples that become one, and between those of two rows.
    let (beside, below) = if height < width { (8, 16) } else { (1, 8) };
    let step = if height < width { 1 } else { 2 };
    for y in 0..height {
        for x in 0..width {
            let at = below * y + step * x;
            let sum = u16::from(larger[at]) + u16::from(larger[at + beside]);
            out[y * stride + x] = ((sum + 1) >> 1) as u8;
        }
    }
}

/// Writes as many rows as columns.
#[inline(always)]
fn square(block: &[i16; 64], steps: &[i16; 64], side: usize, out: &mut [u8], stride: usize) {
    match side {
        8 => idct(block, steps, out, stride),
        4 => quarter(block, steps, out, stride),
        2 => sixteenth(block, steps, out, stride),
        _ => out[0] = sample(product(block, steps, 0, 0), 3),
    }
}

/// Returns a coefficient times its step.
#[inline(always)]
fn product(block: &[i16; 64], steps: &[i16; 64], v: usize, u: usize) -> i32 {
    let at = usize::from(ORDER[8 * v + u]);
    i32::from(block[at]).wrapping_mul(i32::from(steps[at]))
}

/// Returns the sample of a sum with `bits` fractional bits.
#[inline(always)]
fn sample(sum: i32, bits: u32) -> u8 {
    (sum.wrapping_add((1 << (bits - 1)) + (128 << bits)) >> bits).clamp(0, 255) as u8
}

/// Transforms four vectors of coefficients, times sqrt 2 in Q13.
#[inline(always)]
fn four([a, b, c, d]: [[i32; 4]; 4]) -> [[i32; 4]; 4] {
    let mut out = [[0; 4]; 4];
    for lane in 0..4 {
        let even = [a[lane].wrapping_add(c[lane]) << 13, a[lane].wrapping_sub(c[lane]) << 13];
        let odd = [
            b[lane].wrapping_mul(FIRST).wrapping_add(d[lane].wrapping_mul(THIRD)),
            b[lane].wrapping_mul(THIRD).wrapping_sub(d[lane].wrapping_mul(FIRST)),
        ];
        out[0][lane] = even[0].wrapping_add(odd[0]);
        out[1][lane] = even[1].wrapping_add(odd[1]);
        out[2][lane] = even[1].wrapping_sub(odd[1]);
        out[3][lane] = even[0].wrapping_sub(odd[0]);
    }
    out
}

#[inline(always)]
fn transposed(rows: [[i32; 4]; 4]) -> [[i32; 4]; 4] {
    std::array::from_fn(|y| std::array::from_fn(|x| rows[x][y]))
}

#[inline(always)]
fn quarter(block: &[i16; 64], steps: &[i16; 64], out: &mut [u8], stride: usize) {
    let rows = std::array::from_fn(|v| std::array::from_fn(|u| product(block, steps, v, u)));
    let columns = four(rows).map(|row| row.map(|value| value.wrapping_add(1 << 10) >> 11));
    let samples = transposed(four(transposed(columns)));
    for (y, row) in samples.into_iter().enumerate() {
        out[y * stride..][..4].copy_from_slice(&row.map(|sum| sample(sum, 18)));
    }
}

#[inline(always)]
fn sixteenth(block: &[i16; 64], steps: &[i16; 64], out: &mut [u8], stride: usize) {
    let [a, b, c, d] = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(v, u)| product(block, steps, v, u));
    let (left, right) = (a.wrapping_add(b), a.wrapping_sub(b));
    let (low, high) = (c.wrapping_add(d), c.wrapping_sub(d));
    let (top, bottom) = (
        [left.wrapping_add(low), right.wrapping_add(high)],
        [left.wrapping_sub(low), right.wrapping_sub(high)],
    );
    out[..2].copy_from_slice(&top.map(|sum| sample(sum, 3)));
    out[stride..][..2].copy_from_slice(&bottom.map(|sum| sample(sum, 3)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    /// The formula.
    fn exact(block: &[i16; 64], steps: &[i16; 64], n: usize, (y, x): (usize, usize)) -> f64 {
        let factor = |k: usize| if k == 0 { 0.5_f64.sqrt() } else { 1.0 };
        let wave = |at: usize, k: usize| (((2 * at + 1) * k) as f64 * PI / (2 * n) as f64).cos();
        let mut sum = 0.0;
        for (v, u) in (0..n).flat_map(|v| (0..n).map(move |u| (v, u))) {
            let c = f64::from(product(block, steps, v, u));
            sum += factor(u) * factor(v) * c * wave(x, u) * wave(y, v);
        }
        (128.0 + sum / 4.0).clamp(0.0, 255.0)
    }

    #[test]
    fn samples_are_the_formula() {
        let mut state = 1_u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % n) as i16
        };
        for _ in 0..2000 {
            let steps = std::array::from_fn(|_| 1 + below(30));
            let block = std::array::from_fn(|_| if below(3) == 0 { below(61) - 30 } else { 0 });
            for n in [1, 2, 4] {
                let mut out = [7; 8 * 4];
                idct_scaled(&block, &steps, [n; 2], &mut out, 8);
                for (y, x) in (0..4).flat_map(|y| (0..4).map(move |x| (y, x))) {
                    let found = out[8 * y + x];
                    if y >= n || x >= n {
                        assert_eq!(found, 7, "nothing else is written");
                        continue;
                    }
                    let off = (f64::from(found) - exact(&block, &steps, n, (y, x))).abs();
                    assert!(off <= 0.75, "{n}: row {y}, column {x} is {off} off");
                }
            }
        }
    }

    #[test]
    fn half_as_many_rows_or_columns_are_means() {
        let block = std::array::from_fn(|index| (index as i16 * 37) % 50 - 25);
        for n in [2, 4, 8] {
            let (mut larger, mut rows, mut columns) = ([0; 64], [0; 64], [0; 64]);
            idct_scaled(&block, &[3; 64], [n; 2], &mut larger, 8);
            idct_scaled(&block, &[3; 64], [n / 2, n], &mut rows, 8);
            idct_scaled(&block, &[3; 64], [n, n / 2], &mut columns, 8);
            let mean = |a: usize, b: usize| {
                ((u16::from(larger[a]) + u16::from(larger[b])).div_ceil(2)) as u8
            };
            for (y, x) in (0..n / 2).flat_map(|y| (0..n).map(move |x| (y, x))) {
                assert_eq!(rows[8 * y + x], mean(16 * y + x, 16 * y + 8 + x));
                assert_eq!(columns[8 * x + y], mean(8 * x + 2 * y, 8 * x + 2 * y + 1));
            }
        }
    }

    #[test]
    fn coefficients_that_no_image_has_wrap() {
        for value in [i16::MIN, i16::MAX] {
            let (block, mut out) = ([value; 64], [0; 16]);
            for side in [1, 2, 4] {
                idct_scaled(&block, &[255; 64], [side; 2], &mut out, 4);
            }
        }
    }
}
