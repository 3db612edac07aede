//! The boolean entropy decoder (RFC 6386, section 7).
//!
//! A bit is 0 with a probability of `p / 256`. The decoder holds a range of 128 to 255 and a value below it; it splits the
//! range at `1 + (range - 1) p / 256`, and the bit says on which side the value is. The value is kept in the upper bits of a
//! word, so that both are scaled by the same shift and a comparison needs no other.

/// A range of 1.
const ONE: u32 = 1 << 24;

/// Reads bits from the bytes of a partition. Past its end, bits are those of zeros, and [`ended`](Self::ended) says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoolDecoder<'a> {
    /// The bytes that are not in `value`.
    rest: &'a [u8],
    /// The value, and the bits that follow it, from the highest bit of the word on.
    value: u64,
    /// The number of bits of `value` that count: those after them are bits of `rest` or 0.
    valid: u32,
    /// The range in the highest 8 bits, so that it is scaled by its leading zeros.
    range: u32,
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

    /// Returns the highest value for which a bit that is 0 with this probability, in 256ths, is 0. For [`decide`].
    #[inline(always)]
    pub(crate) fn split(&mut self, probability: u8) -> u32 {
        self.fill();
        ((u64::from(self.range - ONE) * u64::from(probability)) >> 32) as u32
    }

    /// Returns true if the bit is 1.
    #[inline(always)]
    pub(crate) fn is_above(&self, split: u32) -> bool {
        (self.value >> 56) as u32 > split
    }

    /// Goes on with the part of the range above `split`.
    #[inline(always)]
    pub(crate) fn go_above(&mut self, split: u32) {
        self.value -= u64::from(split + 1) << 56;
        self.scale(((self.range - ONE) >> 24) - split);
    }

    /// Goes on with the part of the range up to `split`.
    #[inline(always)]
    pub(crate) fn go_below(&mut self, split: u32) {
        self.scale(split + 1);
    }

    /// Scales a range below 256, and the value, so that the range has 8 bits.
    #[inline(always)]
    fn scale(&mut self, range: u32) {
        let zeros = range.leading_zeros();
        let shift = zeros.wrapping_sub(24);
        self.range = range.wrapping_shl(zeros);
        self.value = self.value.wrapping_shl(shift);
        self.valid = self.valid.wrapping_sub(shift);
    }

    /// Reads a bit that is 0 with this probability, in 256ths.
    #[inline(always)]
    pub(crate) fn bit(&mut self, probability: u8) -> bool {
        let split = self.split(probability);
        let bit = self.is_above(split);
        self.value -= if bit { u64::from(split + 1) << 56 } else { 0 };
        self.scale(if bit { ((self.range - ONE) >> 24) - split } else { split + 1 });
        bit
    }

    /// Returns `magnitude` with a sign that is negative as often as not.
    #[inline(always)]
    pub(crate) fn signed(&mut self, magnitude: i16) -> i16 {
        self.fill();
        // As `bit(128)`. A range of 255 exists only before the first bit of a partition, so each half has 64 to 127, and
        // the range of the next bit is twice that.
        let split = (self.range - ONE) >> 25;
        let is_negative = self.is_above(split);
        self.value = (self.value - if is_negative { u64::from(split + 1) << 56 } else { 0 }) << 1;
        self.range = (self.range + if is_negative { 0 } else { ONE }) & 0xfe00_0000;
        self.valid -= 1;
        let mask = -i16::from(is_negative);
        (magnitude ^ mask) - mask
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
