//! The transform of [`plain`](super::plain) with NEON: the same sums in lanes of 32 bits, so that every block has the
//! same bits.
//!
//! ```text
//! rows of 8 columns ──▶ columns transformed ──▶ transposed ──▶ rows transformed ──▶ bytes, transposed
//! ```
//!
//! The eight values of a row or a column are two vectors: half 0 and half 1.

#![allow(unsafe_code, reason = "vectors as the CPU has them")]

use super::{COLUMNS, EVEN, FIRST, ODD, SECOND};
use std::arch::aarch64::*;

/// The rows or columns of a block, each in two halves.
type Lines = [[int32x4_t; 2]; 8];

/// The rows of [`PAIRS`](super::PAIRS), in order of storage.
const ROWS: [usize; 8] = [0, 4, 2, 6, 1, 3, 5, 7];

/// Returns the rows of a block.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn rows(block: &[i16; 64], steps: &[i16; 64]) -> [u64; 8] {
    let mut lines = [[vdupq_n_s32(0); 2]; 8];
    let pairs = block.as_chunks::<16>().0.iter().zip(steps.as_chunks::<16>().0);
    for ((block, steps), rows) in pairs.zip(ROWS.as_chunks::<2>().0) {
        let (block, steps) = (two_rows(block), two_rows(steps));
        for ((row, block), steps) in rows.iter().zip(block).zip(steps) {
            lines[*row] =
                [vmull_s16(vget_low_s16(block), vget_low_s16(steps)), vmull_high_s16(block, steps)];
        }
    }
    let columns = transformed::<{ FIRST.1 as i32 }>(&lines, FIRST.0);
    bytes(&transformed::<{ SECOND.1 as i32 }>(&transposed(&columns), SECOND.0))
}

/// Returns two rows whose elements alternate.
#[inline]
#[target_feature(enable = "neon")]
fn two_rows(elements: &[i16; 16]) -> [int16x8_t; 2] {
    // SAFETY: 32 bytes are read, at any address.
    let int16x8x2_t(a, b) = unsafe { vld2q_s16(elements.as_ptr()) };
    [a, b]
}

/// Transforms eight coefficients along one dimension, in each lane.
#[inline]
#[target_feature(enable = "neon")]
fn transformed<const SHIFT: i32>(c: &Lines, round: i32) -> Lines {
    let mut out = *c;
    for half in 0..2 {
        let c = c.map(|line| line[half]);
        // The factors of coefficients 0 and 4 are equal, or opposite.
        let (one, round) = (vdupq_n_s32(EVEN[0][0].into()), vdupq_n_s32(round));
        let sum = vmlaq_s32(round, vaddq_s32(c[0], c[4]), one);
        let difference = vmlaq_s32(round, vsubq_s32(c[0], c[4]), one);
        for (x, ([_, sign, second, sixth], odd)) in EVEN.into_iter().zip(ODD).enumerate() {
            let first = if sign > 0 { sum } else { difference };
            let even = vmlaq_n_s32(first, c[2], second.into());
            let even = vmlaq_n_s32(even, c[6], sixth.into());
            let all = vmulq_n_s32(c[1], odd[0].into());
            let all = vmlaq_n_s32(all, c[3], odd[1].into());
            let all = vmlaq_n_s32(all, c[5], odd[2].into());
            let odd = vmlaq_n_s32(all, c[7], odd[3].into());
            out[x][half] = vshrq_n_s32::<SHIFT>(vaddq_s32(even, odd));
            out[7 - x][half] = vshrq_n_s32::<SHIFT>(vsubq_s32(even, odd));
        }
    }
    out
}

/// Transposes rows, with columns in the order of storage, to columns in order.
#[inline]
#[target_feature(enable = "neon")]
fn transposed(rows: &Lines) -> Lines {
    let mut columns = *rows;
    for (from, to) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let [a, b, c, d] = std::array::from_fn(|i| rows[4 * to + i][from]);
        let low = [vtrn1q_s32(a, b), vtrn1q_s32(c, d)].map(|v| vreinterpretq_s64_s32(v));
        let high = [vtrn2q_s32(a, b), vtrn2q_s32(c, d)].map(|v| vreinterpretq_s64_s32(v));
        let four = [
            vtrn1q_s64(low[0], low[1]),
            vtrn1q_s64(high[0], high[1]),
            vtrn2q_s64(low[0], low[1]),
            vtrn2q_s64(high[0], high[1]),
        ];
        for (column, values) in COLUMNS[4 * from..].iter().zip(four) {
            columns[*column][to] = vreinterpretq_s32_s64(values);
        }
    }
    columns
}

/// Converts columns of values to rows of bytes, clamped.
#[inline]
#[target_feature(enable = "neon")]
fn bytes(columns: &Lines) -> [u64; 8] {
    let words = columns.map(|[low, high]| vqmovun_high_s32(vqmovun_s32(low), high));
    // Columns x and x + 4.
    let pairs: [uint8x16_t; 4] =
        std::array::from_fn(|x| vqmovn_high_u16(vqmovn_u16(words[x]), words[x + 4]));
    let twos = [(0, 1), (2, 3)]
        .map(|(a, b)| [vzip1q_u8(pairs[a], pairs[b]), vzip2q_u8(pairs[a], pairs[b])]);
    let twos = twos.map(|twos| twos.map(|v| vreinterpretq_u16_u8(v)));
    // Columns 0 to 3 of four rows, and columns 4 to 7.
    let fours = [0, 1].map(|side| {
        [vzip1q_u16(twos[0][side], twos[1][side]), vzip2q_u16(twos[0][side], twos[1][side])]
            .map(|v| vreinterpretq_u32_u16(v))
    });
    let rows = [0, 1].map(|half| {
        [vzip1q_u32(fours[0][half], fours[1][half]), vzip2q_u32(fours[0][half], fours[1][half])]
    });
    // SAFETY: 64 bytes each; any bytes are integers.
    unsafe { std::mem::transmute(rows) }
}
