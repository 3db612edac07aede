//! The boolean entropy decoder (RFC 6386, section 7).
//!
//! A bit is 0 with a probability of `p / 256`. The decoder holds a range of 128 to 255 and a value below it; it splits the
//! range at `1 + (range - 1) p / 256`, and the bit says on which side the value is. The value is kept in the upper bits of a
//! word, so that both are scaled by the same shift and a comparison needs no other.

/// Reads bits from the bytes of a partition. Past its end, bits are those of zeros, and [`ended`](Self::ended) says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoolDecoder<'a> {
    /// The bytes that are not in `value`.
    rest: &'a [u8],
    /// The value, and the bits that follow it, from the highest bit of the word on.
    value: u64,
    /// The number of bits of `value` that count: those after them are bits of `rest` or 0.
    valid: u32,
    range: u32,
    ended: bool,
}

impl<'a> BoolDecoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, value: 0, valid: 0, range: 255, ended: false }
    }

    /// Returns true if a bit was read that the partition does not have.
    #[inline(always)]
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Reads a bit that is 0 with this probability, in 256ths.
    #[inline(always)]
    pub(crate) fn bit(&mut self, probability: u8) -> bool {
        self.fill();
        let split = 1 + (((self.range - 1) * u32::from(probability)) >> 8);
        let at = u64::from(split) << 56;
        let bit = self.value >= at;
        let range = if bit {
            self.value -= at;
            self.range - split
        } else {
            split
        };
        let shift = range.leading_zeros().wrapping_sub(24) & 31;
        self.range = range << shift;
        self.value <<= shift;
        self.valid = self.valid.wrapping_sub(shift);
        bit
    }

    /// Returns `magnitude` with a sign that is negative as often as not.
    #[inline(always)]
    pub(crate) fn signed(&mut self, magnitude: i16) -> i16 {
        self.fill();
        // As `bit(128)`. A range of 255 exists only before the first bit of a partition, so both halves have 64 to 127.
        let split = (self.range + 1) >> 1;
        let at = u64::from(split) << 56;
        let is_negative = self.value >= at;
        let half = if is_negative { self.range - split } else { split };
        self.range = half << 1;
        self.value = (self.value - if is_negative { at } else { 0 }) << 1;
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
