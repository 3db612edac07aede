//! The inverse discrete cosine transform of a block (T.81, A.3.3), in 32-bit integers.
//!
//! ```text
//! out[y][x] = clamp(128 + 1/4 sum_v sum_u  f(u) f(v) c[v][u] cos((2x+1)u pi/16) cos((2y+1)v pi/16))
//! ```
//!
//! with f(0) = 1/sqrt 2 and f = 1 else. Columns first, then rows, each by the flow graph of
//! Loeffler, Ligtenberg and Moschytz (ICASSP 1989) with its constants times 4096, rounded. Between
//! the two, values have two bits behind the point. The sums wrap: for coefficients that no picture
//! has, the result means nothing, but it is one and the same.
//!
//! | constant  | times 4096 |                                       |
//! |-----------|-----------:|---------------------------------------|
//! | 0.5411961 |       2217 | sqrt 2 cos 6pi/16                     |
//! | ...       |            | sums and differences of such, by name |

use std::ops::{Add, Mul, Shl, Shr, Sub};

/// Eight values, one of each column, or of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lanes([i32; 8]);

macro_rules! lanewise {
    ($($trait:ident, $name:ident: $other:ident, $with:expr;)*) => {$(
        impl $trait<$other> for Lanes {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: $other) -> Self {
                let with: fn(i32, usize, $other) -> i32 = $with;
                Self(std::array::from_fn(|i| with(self.0[i], i, other)))
            }
        }
    )*};
}

lanewise! {
    Add, add: Lanes, |a, i, other| a.wrapping_add(other.0[i]);
    Sub, sub: Lanes, |a, i, other| a.wrapping_sub(other.0[i]);
    Add, add: i32, |a, _, other| a.wrapping_add(other);
    Mul, mul: i32, |a, _, other| a.wrapping_mul(other);
    Shl, shl: u32, |a, _, other| a.wrapping_shl(other);
    Shr, shr: u32, |a, _, other| a >> other;
}

/// One dimension: `round` is added to each sum before it is shifted.
#[inline(always)]
fn transform(c: [Lanes; 8], round: i32, shift: u32) -> [Lanes; 8] {
    // Even coefficients: a butterfly, and a rotation by 6pi/16.
    let turned = (c[2] + c[6]) * 2217;
    let (low, high) = (turned + c[2] * 3135, turned + c[6] * -7567);
    let (sum, difference) = (((c[0] + c[4]) << 12) + round, ((c[0] - c[4]) << 12) + round);
    let even = [sum + low, difference + high, difference - high, sum - low];
    // Odd ones: eight products and two rotations that share one.
    let shared = (c[1] + c[3] + c[5] + c[7]) * 4816;
    let (p17, p35) = (shared + (c[1] + c[7]) * -3685, shared + (c[3] + c[5]) * -10497);
    let (p37, p15) = ((c[3] + c[7]) * -8034, (c[1] + c[5]) * -1597);
    let odd = [
        c[1] * 6149 + p17 + p15,
        c[3] * 12586 + p35 + p37,
        c[5] * 8410 + p35 + p15,
        c[7] * 1223 + p17 + p37,
    ];
    std::array::from_fn(|i| match i {
        0..4 => (even[i] + odd[i]) >> shift,
        _ => (even[7 - i] - odd[7 - i]) >> shift,
    })
}

#[inline(always)]
fn transposed(rows: [Lanes; 8]) -> [Lanes; 8] {
    std::array::from_fn(|y| Lanes(std::array::from_fn(|x| rows[x].0[y])))
}

/// The pixels of a block of `length` coefficients, of which those behind are zeros: quantised
/// ones, by rows, and their steps.
///
/// `None` if its DC value is beyond what any picture has, since then it would matter whether the
/// short way is taken.
#[inline(always)]
pub(super) fn idct(block: &[i16; 64], steps: &[i32; 64], length: usize) -> Option<[[u8; 8]; 8]> {
    let dc = i32::from(block[0]) * steps[0];
    i16::try_from(dc).ok()?;
    if length <= 1 {
        return Some([[flat(dc); 8]; 8]);
    }
    Some(full(block, steps))
}

/// What every pixel of a block of one DC value is.
fn flat(dc: i32) -> u8 {
    ((dc + 4 + (128 << 3)) >> 3).clamp(0, 255) as u8
}

#[inline(always)]
fn full(block: &[i16; 64], steps: &[i32; 64]) -> [[u8; 8]; 8] {
    let rows: [Lanes; 8] = std::array::from_fn(|y| {
        Lanes(std::array::from_fn(|x| i32::from(block[8 * y + x]).wrapping_mul(steps[8 * y + x])))
    });
    // 10 of the 12 bits of the constants: two remain. Then those and 15 more: both directions
    // together are 8 times too large.
    let columns = transform(rows, 1 << 9, 10);
    let rows = transform(transposed(columns), (1 << 16) + (1 << 9) + (128 << 17), 17);
    let rows = transposed(rows);
    std::array::from_fn(|y| std::array::from_fn(|x| rows[y].0[x].clamp(0, 255) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::{FRAC_1_SQRT_2, PI};

    /// The formula at the top.
    fn exact(c: &[i16; 64]) -> [[f64; 8]; 8] {
        let f = |u: usize| if u == 0 { FRAC_1_SQRT_2 } else { 1.0 };
        let cos = |x: usize, u: usize| ((2 * x + 1) as f64 * u as f64 * PI / 16.0).cos();
        std::array::from_fn(|y| {
            std::array::from_fn(|x| {
                let term = |i: usize| {
                    let (v, u) = (i / 8, i % 8);
                    f(u) * f(v) * f64::from(c[i]) * cos(x, u) * cos(y, v)
                };
                (128.0 + (0..64).map(term).sum::<f64>() / 4.0).clamp(0.0, 255.0)
            })
        })
    }

    #[test]
    fn a_block_is_the_formulas_to_a_level() {
        arbtest::arbtest(|u| {
            let mut block = [0; 64];
            for _ in 0..u.int_in_range(1..=20)? {
                block[u.int_in_range(0..=63)?] = u.int_in_range(-200..=200)?;
            }
            let found = full(&block, &[1; 64]);
            let expected = exact(&block);
            for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                assert!((f64::from(*found) - expected).abs() < 1.0, "{found} {expected}");
            }
            Ok(())
        });
    }

    #[test]
    fn the_short_way_of_a_flat_block_gives_the_same() {
        for dc in (i16::MIN..=i16::MAX).step_by(7) {
            let mut block = [0; 64];
            block[0] = dc;
            assert_eq!(idct(&block, &[1; 64], 1), Some(full(&block, &[1; 64])), "{dc}");
            assert_eq!(idct(&block, &[300; 64], 1).is_some(), dc.checked_mul(300).is_some());
        }
    }

    #[test]
    fn coefficients_of_any_size_give_something() {
        for value in [i16::MIN, i16::MAX] {
            let mut block = [value; 64];
            block[0] = 0;
            assert!(idct(&block, &[255; 64], 64).is_some());
        }
    }
}
