//! Replaces a row of a batch by a weighted sum of two rows, in place: MixUp on bytes and floats.
//!
//! ```text
//! float:  own[i] = f32(partner[i] * f32(1 - share)) + f32(own[i] * f32(share))
//! u8:     own[i] = trunc(share * own[i] + (1 - share) * partner[i])        in f64
//! ```
//!
//! Rows are bytes in native byte order, so that one buffer can hold any type. The loops are safe code
//! without branches, which the compiler vectorizes. 16-bit floats are converted to f32 in blocks that
//! stay in the L1 cache, and are rounded once, to the nearest, ties to even. The results equal those of
//! `fuseloop_ops::internals::mix_up` bit for bit.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// The number of values of a 16-bit row that are converted to f32 at a time.
const BLOCK: usize = 256;

/// Mixes rows of f32.
///
/// # Panics
///
/// If the rows differ in length, or end inside a value.
pub fn blend_f32(own: &mut [u8], partner: &[u8], share: f64) {
    let (weight, rest) = (share as f32, (1.0 - share) as f32);
    for (own, partner) in pairs::<4>(own, partner) {
        let sum = f32::from_ne_bytes(*partner) * rest + f32::from_ne_bytes(*own) * weight;
        *own = sum.to_ne_bytes();
    }
}

/// Mixes rows of f64.
///
/// # Panics
///
/// In the same cases as [`blend_f32`].
pub fn blend_f64(own: &mut [u8], partner: &[u8], share: f64) {
    let rest = 1.0 - share;
    for (own, partner) in pairs::<8>(own, partner) {
        let sum = f64::from_ne_bytes(*partner) * rest + f64::from_ne_bytes(*own) * share;
        *own = sum.to_ne_bytes();
    }
}

/// Mixes rows of half precision.
///
/// # Panics
///
/// In the same cases as [`blend_f32`].
pub fn blend_f16(own: &mut [u8], partner: &[u8], share: f64) {
    let widen = |bits: &[u16], values: &mut [f32]| {
        let mut halves = [f16::ZERO; BLOCK];
        let halves = &mut halves[..bits.len()];
        halves.iter_mut().zip(bits).for_each(|(half, &bits)| *half = f16::from_bits(bits));
        halves.convert_to_f32_slice(values);
    };
    let narrow = |values: &[f32], bits: &mut [u16]| {
        let mut halves = [f16::ZERO; BLOCK];
        let halves = &mut halves[..bits.len()];
        halves.convert_from_f32_slice(values);
        bits.iter_mut().zip(halves).for_each(|(bits, half)| *bits = half.to_bits());
    };
    blend_16(own, partner, share, widen, narrow);
}

/// Mixes rows of bfloat16.
///
/// # Panics
///
/// In the same cases as [`blend_f32`].
pub fn blend_bf16(own: &mut [u8], partner: &[u8], share: f64) {
    let widen = |bits: &[u16], values: &mut [f32]| {
        let values = values.iter_mut().zip(bits);
        values.for_each(|(value, &bits)| *value = f32::from_bits(u32::from(bits) << 16));
    };
    let narrow = |values: &[f32], bits: &mut [u16]| {
        let bits = bits.iter_mut().zip(values);
        bits.for_each(|(bits, &value)| *bits = bf16::from_f32(value).to_bits());
    };
    blend_16(own, partner, share, widen, narrow);
}

/// Mixes rows of bytes.
///
/// # Panics
///
/// In the same cases as [`blend_f32`].
pub fn blend_u8(own: &mut [u8], partner: &[u8], share: f64) {
    let rest = 1.0 - share;
    for ([own], [partner]) in pairs::<1>(own, partner) {
        *own = truncated(share * f64::from(*own) + rest * f64::from(*partner));
    }
}

/// Returns the integer part of `value`, which is in `0..256`. A cast is exact as well, but converts one
/// value at a time on a CPU without AVX-512.
fn truncated(value: f64) -> u8 {
    // From this number on, the last bit of a double is worth 1: the sum is rounded to an integer, which
    // is in its low bits.
    const WHOLE: f64 = 4_503_599_627_370_496.0;
    let sum = value + WHOLE;
    let too_much = f64::from(u8::from(sum - WHOLE > value));
    (sum - too_much).to_bits() as u8
}

/// Returns the pairs of values of two rows.
fn pairs<'a, const N: usize>(
    own: &'a mut [u8],
    partner: &'a [u8],
) -> impl Iterator<Item = (&'a mut [u8; N], &'a [u8; N])> {
    assert_eq!(own.len(), partner.len(), "bytes of two rows");
    let ((own, []), (partner, [])) = (own.as_chunks_mut(), partner.as_chunks()) else {
        panic!("the row's length is not a multiple of the element size")
    };
    own.iter_mut().zip(partner)
}

/// Processes one block of values after the other: converts to f32, mixes, rounds.
fn blend_16(
    own: &mut [u8],
    partner: &[u8],
    share: f64,
    widen: impl Fn(&[u16], &mut [f32]),
    narrow: impl Fn(&[f32], &mut [u16]),
) {
    assert_eq!(own.len(), partner.len(), "bytes of two rows");
    let (weight, rest) = (share as f32, (1.0 - share) as f32);
    let mut bits = [0; BLOCK];
    let (mut sums, mut others) = ([0.0; BLOCK], [0.0; BLOCK]);
    for (own, partner) in own.chunks_mut(2 * BLOCK).zip(partner.chunks(2 * BLOCK)) {
        let count = own.len() / 2;
        let (bits, sums, others) = (&mut bits[..count], &mut sums[..count], &mut others[..count]);
        load(partner, bits);
        widen(bits, others);
        load(own, bits);
        widen(bits, sums);
        for (sum, other) in sums.iter_mut().zip(others) {
            *sum = *other * rest + *sum * weight;
        }
        narrow(sums, bits);
        for (out, bits) in own.as_chunks_mut().0.iter_mut().zip(bits) {
            *out = bits.to_ne_bytes();
        }
    }
}

fn load(bytes: &[u8], bits: &mut [u16]) {
    let (values, []) = bytes.as_chunks() else {
        panic!("the row's length is not a multiple of the element size")
    };
    bits.iter_mut().zip(values).for_each(|(bits, value)| *bits = u16::from_ne_bytes(*value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::internals::mix_up;
    use half::bf16;

    const SHARES: [f64; 7] = [0.0, 1.0, 0.5, 0.25, 0.3, 0.123_456_789, 0.999_999];

    /// Returns arbitrary bits, as whole values of `N` bytes.
    fn any_rows<const N: usize>(
        u: &mut arbitrary::Unstructured<'_>,
    ) -> arbitrary::Result<[Vec<u8>; 2]> {
        let len = u.int_in_range(0..=3 * BLOCK)? * N;
        let mut row = || (0..len).map(|_| u.arbitrary()).collect::<arbitrary::Result<Vec<u8>>>();
        Ok([row()?, row()?])
    }

    /// Compares a function on rows with its reference, value by value; any NaN equals any other.
    fn assert_blends<const N: usize>(
        pass: fn(&mut [u8], &[u8], f64),
        eval: impl Fn([u8; N], [u8; N], f64) -> [u8; N],
        is_nan: impl Fn([u8; N]) -> bool,
    ) {
        arbtest::arbtest(|u| {
            let [own, partner] = any_rows::<N>(u)?;
            let share = *u.choose(&SHARES)?;
            let mut mixed = own.clone();
            pass(&mut mixed, &partner, share);
            let values = |row: &[u8]| row.as_chunks::<N>().0.to_vec();
            let inputs = values(&own).into_iter().zip(values(&partner));
            for ((own, partner), found) in inputs.zip(values(&mixed)) {
                let expected = eval(own, partner, share);
                let same = found == expected || (is_nan(found) && is_nan(expected));
                assert!(same, "{own:?} {partner:?} {share}: {found:?}, not {expected:?}");
            }
            Ok(())
        });
    }

    #[test]
    fn rows_of_f32_are_what_eval_means() {
        let eval = |a, b, share| {
            mix_up::eval(f32::from_ne_bytes(a), f32::from_ne_bytes(b), share).to_ne_bytes()
        };
        assert_blends(blend_f32, eval, |v| f32::from_ne_bytes(v).is_nan());
    }

    #[test]
    fn rows_of_f64_are_what_eval_means() {
        let eval = |a, b, share| {
            mix_up::eval_f64(f64::from_ne_bytes(a), f64::from_ne_bytes(b), share).to_ne_bytes()
        };
        assert_blends(blend_f64, eval, |v| f64::from_ne_bytes(v).is_nan());
    }

    #[test]
    fn rows_of_f16_are_what_eval_means_rounded_once() {
        let eval = |a, b, share| {
            let [a, b] = [a, b].map(|v| f16::from_ne_bytes(v).to_f32());
            f16::from_f32(mix_up::eval(a, b, share)).to_ne_bytes()
        };
        assert_blends(blend_f16, eval, |v| f16::from_ne_bytes(v).is_nan());
    }

    #[test]
    fn rows_of_bf16_are_what_eval_means_rounded_once() {
        let eval = |a, b, share| {
            let [a, b] = [a, b].map(|v| bf16::from_ne_bytes(v).to_f32());
            bf16::from_f32(mix_up::eval(a, b, share)).to_ne_bytes()
        };
        assert_blends(blend_bf16, eval, |v| bf16::from_ne_bytes(v).is_nan());
    }

    #[test]
    fn every_pair_of_bytes_is_what_eval_means() {
        let bytes = || 0..=255u8;
        for share in SHARES {
            for own in bytes() {
                let mut mixed = [own; 256];
                let partner: Vec<u8> = bytes().collect();
                blend_u8(&mut mixed, &partner, share);
                for (found, partner) in mixed.into_iter().zip(bytes()) {
                    let expected = mix_up::eval_u8(own, partner, share);
                    assert_eq!(found, expected, "{own} {partner} {share}");
                }
            }
        }
    }

    #[test]
    fn whole_parts_are_exact_next_to_whole_numbers() {
        for whole in 0..=255u8 {
            let value = f64::from(whole);
            assert_eq!(truncated(value), whole);
            assert_eq!(truncated(value + 0.5), whole);
            assert_eq!(truncated((value + 1.0).next_down()), whole);
            assert_eq!(truncated(value.next_up()), whole);
        }
    }

    #[test]
    #[should_panic(expected = "bytes of two rows")]
    fn rows_of_two_lengths_are_a_mistake() {
        blend_f16(&mut [0; 4], &[0; 2], 0.5);
    }

    #[test]
    #[should_panic(expected = "the row's length is not a multiple of the element size")]
    fn a_part_of_a_value_is_a_mistake() {
        blend_f32(&mut [0; 6], &[0; 6], 0.5);
    }
}
