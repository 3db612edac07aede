//! The bits of a lossless image: the lowest bit of a byte comes first (RFC 9649, section 3.2).

use crate::LosslessError;

/// Reads bits. Past the end of the bytes, bits are 0, and [`check`](Self::check) says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// The next byte that is not in `window`; past the end, the number of bytes as if there were more.
    at: usize,
    /// The next bits, from the lowest one on. Above the `valid` ones there are bits of the bytes from `at` on, or zeros.
    window: u64,
    valid: u32,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, window: 0, valid: 0 }
    }

    /// Refills the window to at least 56 valid bits.
    #[inline(always)]
    pub(crate) fn fill(&mut self) {
        let eight = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>());
        if let Some(eight) = eight {
            self.window |= u64::from_le_bytes(*eight) << self.valid;
            self.at += ((63 - self.valid) >> 3) as usize;
            self.valid |= 56;
        } else if self.valid < 56 {
            // A copy is borrowed, so that the reader itself stays in registers.
            *self = self.filled_by_bytes();
        }
    }

    #[cold]
    #[inline(never)]
    fn filled_by_bytes(mut self) -> Self {
        while self.valid < 56 {
            let byte = self.bytes.get(self.at).copied().unwrap_or(0);
            self.window |= u64::from(byte) << self.valid;
            self.at = self.at.saturating_add(1);
            self.valid += 8;
        }
        self
    }

    /// Returns the window, of which [`fill`](Self::fill) says how many bits are valid.
    #[inline(always)]
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Skips as many bits as the lowest six bits of `count` say.
    #[inline(always)]
    pub(crate) fn skip(&mut self, count: u32) {
        self.window >>= count & 63;
        self.valid = self.valid.wrapping_sub(count & 63);
    }

    /// Reads a number of at most 24 bits, which must be valid.
    #[inline(always)]
    pub(crate) fn take(&mut self, count: u32) -> u32 {
        let number = (self.window & ((1 << count) - 1)) as u32;
        self.skip(count);
        number
    }

    /// Reads a number of at most 24 bits.
    pub(crate) fn read(&mut self, count: u32) -> u32 {
        self.fill();
        self.take(count)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.read(1) == 1
    }

    /// Returns the byte that has the next bit.
    pub(crate) fn byte(&self) -> usize {
        (self.at.saturating_sub(self.valid.div_ceil(8) as usize)).min(self.bytes.len())
    }

    /// Returns an error if bits were read that the bytes do not have.
    pub(crate) fn check(&self, part: &'static str) -> Result<(), LosslessError> {
        let bits_past = 8 * (self.at.saturating_sub(self.bytes.len()));
        if bits_past > self.valid as usize {
            return Err(LosslessError::Truncated { part, len: self.bytes.len() });
        }
        Ok(())
    }

    /// Returns the error of bytes that mean nothing.
    #[cold]
    pub(crate) fn damaged(&self, reason: &'static str) -> LosslessError {
        LosslessError::Damaged { byte: self.byte(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_from_the_lowest_one_on_and_end() {
        let bytes: Vec<u8> = (0..40).map(|i| (i * 37 + 11) as u8).collect();
        for len in 0..bytes.len() {
            let bytes = &bytes[..len];
            let mut reader = BitReader::new(bytes);
            let bit = |i: usize| u32::from(bytes[i / 8] >> (i % 8) & 1);
            let mut at = 0;
            for count in (0..=24).cycle() {
                if at + count as usize > 8 * len {
                    reader.read(count);
                    let refused = reader.check("a test").unwrap_err();
                    assert_eq!(refused, LosslessError::Truncated { part: "a test", len });
                    break;
                }
                let want = (0..count).fold(0, |sum, i| sum | bit(at + i as usize) << i);
                assert_eq!(reader.read(count), want);
                at += count as usize;
                assert_eq!(reader.check("a test"), Ok(()));
                assert_eq!(reader.byte(), at / 8);
            }
        }
    }
}
