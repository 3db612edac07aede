//! The boolean entropy decoder (RFC 6386, section 7).
//!
//! A bit is 0 with a probability of `p / 256`. The decoder holds a range of 128 to 255 and a value below it; it splits the
//! range at `1 + (range - 1) p / 256`, and the bit says on which side the value is. The value is kept in the upper bits of a
//! word, so that both are scaled by the same shift.
//!
//! Each bit waits for the range that the one before it left, so that the time of a bit that is predicted is that of this
//! path: a multiplication, an addition, a count of leading zeros and a shift.

use std::hint::{cold_path, select_unpredictable};

/// A range of 1 as `BoolDecoder::range` has it.
const ONE: u64 = 1 << 24;

/// Reads bits from the bytes of a partition. Past its end, bits are those of zeros, and [`ended`](Self::ended) says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoolDecoder<'a> {
    /// The bytes that are not in `value`.
    rest: &'a [u8],
    /// The value, and the bits that follow it, from the highest bit of the word on.
    value: u64,
    /// The number of bits of `value` that count: those after them are bits of `rest` or 0.
    valid: u32,
    /// The range in the highest 8 of 32 bits, so that it is scaled by its leading zeros.
    range: u64,
    ended: bool,
}

/// Reads a bit and goes on at one of two places: with a bit that is likely, the next one need not wait for this one, as it
/// would if the two ranges were selected between.
macro_rules! decide {
    ($bits:expr, $probability:expr, $one:expr, $zero:expr $(,)?) => {{
        let split = $bits.split($probability);
        if $bits.is_above(split) {
            $bits.go_above(split);
            $one
        } else {
            $bits.go_below(split);
            $zero
        }
    }};
}
pub(crate) use decide;

impl<'a> BoolDecoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, value: 0, valid: 0, range: 255 << 24, ended: false }
    }

    /// Returns true if a bit was read that the partition does not have.
    #[inline(always)]
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Returns the least value for which a bit that is 0 with this probability, in 256ths and not 0, is 1. The value has 32
    /// bits of fraction that do not count. [`decide`] calls this.
    #[inline(always)]
    pub(crate) fn split(&mut self, probability: u8) -> u64 {
        debug_assert!(probability > 0, "`Self::probability` reads none");
        self.fill();
        let p = u32::from(probability);
        // This is range p + (256 - p) instead of (range - 1) p + 256, since its second term does not wait for the range. For
        // p = 0 that term would not fit in 32 bits; of 64 bits, the compiler would make the other sum.
        self.range * u64::from(p) + u64::from((p << 24).wrapping_neg())
    }

    /// Returns true if the bit is 1.
    #[inline(always)]
    pub(crate) fn is_above(&self, split: u64) -> bool {
        self.value >> 56 >= split >> 32
    }

    /// Returns the range above `split`, with a fraction that does not count.
    #[inline(always)]
    fn range_above(&self, split: u64) -> u64 {
        // The fraction of `split` is at most 255/256: with that added to the range, the difference is rounded down to the
        // range without the whole part of `split`.
        (self.range << 8) + ((1 << 32) - ONE) - split
    }

    /// Goes on with the part of the range from `split` on.
    #[inline(always)]
    pub(crate) fn go_above(&mut self, split: u64) {
        self.value -= split >> 32 << 56;
        self.scale(self.range_above(split));
    }

    /// Goes on with the part of the range below `split`.
    #[inline(always)]
    pub(crate) fn go_below(&mut self, split: u64) {
        self.scale(split);
    }

    /// Sets the range, scaled so that it has 8 bits, and scales the value. `range` has 32 bits of fraction that do not count.
    #[inline(always)]
    fn scale(&mut self, range: u64) {
        // The whole part has as many leading zeros in 32 bits as it has in 64 bits with its fraction, but comes later.
        let zeros = range.leading_zeros();
        let shift = zeros.wrapping_sub(24);
        self.range = u64::from(((range >> 32) as u32).wrapping_shl(zeros));
        self.value = self.value.wrapping_shl(shift);
        self.valid = self.valid.wrapping_sub(shift);
    }

    /// Reads a bit that is 0 with this probability, in 256ths and not 0. This suits bits that are about as likely 0 as 1: the
    /// range is selected, so that the CPU guesses nothing.
    #[inline(always)]
    pub(crate) fn bit(&mut self, probability: u8) -> bool {
        let split = self.split(probability);
        let bit = self.is_above(split);
        let above = self.value.wrapping_sub(split >> 32 << 56);
        self.value = select_unpredictable(bit, above, self.value);
        self.scale(select_unpredictable(bit, self.range_above(split), split));
        bit
    }

    /// Reads a sign that is negative as often as not. Returns `number` with that sign.
    #[inline(always)]
    pub(crate) fn signed(&mut self, number: i16) -> i16 {
        self.fill();
        // As `bit(128)`. A range of 255 exists only before the first bit of a partition, so each half has 64 to 127, and
        // the range of the next bit is twice that.
        let even = self.range + ONE;
        let (above, is_positive) = self.value.overflowing_sub(even >> 25 << 56);
        self.value = select_unpredictable(is_positive, self.value, above) << 1;
        self.range = select_unpredictable(is_positive, even, self.range) & 0xfe00_0000;
        self.valid -= 1;
        select_unpredictable(is_positive, number, number.wrapping_neg())
    }

    /// Reads a probability, in 256ths. 0 and 1 split all ranges alike: for 0, 1 is returned.
    pub(crate) fn probability(&mut self) -> u8 {
        self.literal(8).max(1)
    }

    /// Reads a number of `bits` bits, the highest first, without a model.
    pub(crate) fn literal(&mut self, bits: u32) -> u8 {
        (0..bits).fold(0, |number, _| number << 1 | u8::from(self.bit(128)))
    }

    /// Reads a flag without a model.
    pub(crate) fn flag(&mut self) -> bool {
        self.bit(128)
    }

    /// Reads a number of `bits` bits and its sign, if a flag says that there is one.
    pub(crate) fn optional_signed(&mut self, bits: u32) -> Option<i32> {
        self.flag().then(|| {
            let magnitude = i32::from(self.literal(bits));
            if self.flag() { -magnitude } else { magnitude }
        })
    }

    /// Has at least the 8 bits that the next comparison needs.
    #[inline(always)]
    fn fill(&mut self) {
        if self.valid >= 8 {
            return;
        }
        cold_path();
        if let Some(eight) = self.rest.first_chunk::<8>() {
            // Of the eighth byte, bits are set that the next filling sets again.
            self.value |= u64::from_be_bytes(*eight) >> self.valid;
            self.rest = &self.rest[7..];
            self.valid += 56;
        } else {
            // Nothing of `self` is borrowed here, so that it stays in registers.
            if let Some((byte, rest)) = self.rest.split_first() {
                self.value |= u64::from(*byte) << (56 - self.valid);
                self.rest = rest;
            } else {
                self.ended = true;
            }
            self.valid += 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decoder as section 7.3 states it: a byte at a time, a shift by one bit at a time.
    struct Meaning<'a> {
        rest: &'a [u8],
        value: u32,
        range: u32,
        shifts: u32,
    }

    impl<'a> Meaning<'a> {
        fn new(bytes: &'a [u8]) -> Self {
            let mut meaning = Self { rest: bytes, value: 0, range: 255, shifts: 0 };
            meaning.value = meaning.byte() << 8 | meaning.byte();
            meaning
        }

        fn byte(&mut self) -> u32 {
            let Some((&byte, rest)) = self.rest.split_first() else { return 0 };
            self.rest = rest;
            byte.into()
        }

        fn bit(&mut self, probability: u8) -> bool {
            let split = 1 + (((self.range - 1) * u32::from(probability)) >> 8);
            let bit = self.value >= split << 8;
            if bit {
                self.range -= split;
                self.value -= split << 8;
            } else {
                self.range = split;
            }
            while self.range < 128 {
                self.value <<= 1;
                self.range <<= 1;
                self.shifts += 1;
                if self.shifts == 8 {
                    self.shifts = 0;
                    self.value |= self.byte();
                }
            }
            bit
        }
    }

    #[test]
    fn bits_are_those_of_the_standard() {
        let mut state = 3_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for len in [0, 1, 6, 7, 8, 9, 15, 16, 5000] {
            let bytes: Vec<u8> = (0..len).map(|_| byte()).collect();
            let (mut bits, mut meaning) = (BoolDecoder::new(&bytes), Meaning::new(&bytes));
            assert_eq!(bits.bit(77), meaning.bit(77), "{len}");
            // These are more bits than there are.
            for i in 0..20 * len + 100 {
                let probability = byte().max(1);
                let (found, want) = match i % 3 {
                    0 => (decide!(bits, probability, true, false), meaning.bit(probability)),
                    1 => (bits.bit(probability), meaning.bit(probability)),
                    _ => (bits.signed(5) == -5, meaning.bit(128)),
                };
                assert_eq!(found, want, "bit {i} of {len} bytes");
            }
            assert!(bits.ended());
        }
    }
}
