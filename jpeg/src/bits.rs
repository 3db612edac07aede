//! Reads the bits of entropy-coded data, most significant bit first.
//!
//! ```text
//! coded bytes   12 ff 00 34      ->      bits of   12 ff 34
//! ```
//!
//! An `ff` in the data is followed by a stuffed `00` (T.81, F.1.2.3). A whole segment is unstuffed
//! first: `ff` is rare, so this is mostly copying, and afterwards eight bytes are read at a time without
//! a test for `ff`.

use crate::scans::find_ff;

/// Zeros after a segment's bytes, so that eight bytes can be read at any offset and beyond the end.
const PAD: usize = 16;

/// Copies the bytes of a segment without their stuffing, and appends [`PAD`] zeros.
///
/// Returns `None` if an `ff` is followed by anything but `00`, or if there is no memory.
pub(crate) fn unstuff(coded: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    bytes.clear();
    bytes.try_reserve(coded.len() + PAD).ok()?;
    let mut at = 0;
    while let Some(found) = find_ff(coded, at) {
        if coded.get(found + 1) != Some(&0) {
            return None;
        }
        bytes.extend_from_slice(&coded[at..=found]);
        at = found + 2;
    }
    bytes.extend_from_slice(&coded[at..]);
    bytes.extend_from_slice(&[0; PAD]);
    Some(())
}

/// Reads bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    position: BitPosition,
}

/// A position between two bits of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BitPosition {
    /// Offset of the first byte that is not, or not with all its bits, in `word`.
    at: usize,
    /// The next bits, left-aligned.
    word: u64,
    /// The number of valid bits in `word`.
    count: u32,
}

impl<'a> Bits<'a> {
    /// Reads the bits from `position` on, of a segment that [`unstuff`] wrote.
    pub(crate) fn new(bytes: &'a [u8], position: BitPosition) -> Self {
        Self { bytes, position }
    }

    /// Returns the current position.
    pub(crate) fn position(&self) -> BitPosition {
        self.position
    }

    /// Refills `word` to at least 56 valid bits. Returns `None` past the end of the segment and its
    /// padding.
    #[inline(always)]
    pub(crate) fn refill(&mut self) -> Option<()> {
        let next = self.bytes.get(self.position.at..)?.first_chunk()?;
        // Bits beyond `count` may be in `word` already: they are the same bits.
        self.position.word |= u64::from_be_bytes(*next) >> self.position.count;
        self.position.at += (63 - self.position.count as usize) >> 3;
        self.position.count |= 56;
        Some(())
    }

    /// Returns the next 64 bits, of which `count` are valid.
    #[inline(always)]
    pub(crate) fn peek(&self) -> u64 {
        self.position.word
    }

    /// Skips `n` valid bits, 63 at most.
    #[inline(always)]
    pub(crate) fn consume(&mut self, n: u32) {
        self.position.word <<= n & 63;
        self.position.count = self.position.count.wrapping_sub(n);
    }

    /// Skips any number of bits. Returns `None` past the end of the segment.
    pub(crate) fn skip(&mut self, n: u64) -> Option<()> {
        let bit = (8 * self.position.at as u64 - u64::from(self.position.count)).checked_add(n)?;
        self.position =
            BitPosition { at: usize::try_from(bit / 8).ok()?, ..BitPosition::default() };
        self.refill()?;
        self.consume((bit % 8) as u32);
        Some(())
    }

    /// Returns whether no more bits were consumed than the segment has.
    pub(crate) fn is_inside(&self) -> bool {
        let len = self.bytes.len().saturating_sub(PAD);
        self.position.at * 8 <= len * 8 + self.position.count as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unstuffed(coded: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = vec![7; 3];
        unstuff(coded, &mut bytes)?;
        let (bytes, pad) = bytes.split_at(bytes.len() - PAD);
        assert_eq!(pad, [0; PAD]);
        Some(bytes.to_vec())
    }

    #[test]
    fn stuffed_bytes_are_taken_out_and_markers_refused() {
        assert_eq!(unstuffed(&[]), Some(vec![]));
        assert_eq!(unstuffed(&[0x12, 0xff, 0, 0x34]), Some(vec![0x12, 0xff, 0x34]));
        assert_eq!(unstuffed(&[0xff, 0, 0xff, 0, 0]), Some(vec![0xff, 0xff, 0]));
        assert_eq!(unstuffed(&[1, 0xff]), None);
        assert_eq!(unstuffed(&[0xff, 0xd0]), None);
        assert_eq!(unstuffed(&[0xff, 0xff, 0]), None);
    }

    #[test]
    fn bits_come_in_order_whatever_their_number() {
        let coded: Vec<u8> =
            (0..100u32).map(|i| (i.wrapping_mul(2_654_435_769) >> 24) as u8).collect();
        let mut bytes = coded.clone();
        bytes.extend_from_slice(&[0; PAD]);
        let bit = |n: usize| u64::from(coded.get(n / 8).copied().unwrap_or(0) >> (7 - n % 8) & 1);
        for step in 1..=31 {
            let (mut bits, mut at) = (Bits::new(&bytes, BitPosition::default()), 0);
            while at + step <= 8 * coded.len() {
                bits.refill().unwrap();
                let expected = (at..at + step).fold(0, |value, n| value << 1 | bit(n));
                assert_eq!(bits.peek() >> (64 - step), expected, "{step} bits from {at}");
                bits.consume(step as u32);
                at += step;
                assert!(bits.is_inside());
            }
        }
    }

    #[test]
    fn skipped_bits_are_those_that_are_read() {
        let mut bytes: Vec<u8> = (0..60u8).map(|i| i.wrapping_mul(151)).collect();
        bytes.extend_from_slice(&[0; PAD]);
        for first in 0..40 {
            for n in [0, 1, 7, 8, 63, 64, 65, 300] {
                let mut read = Bits::new(&bytes, BitPosition::default());
                read.refill().unwrap();
                read.consume(first);
                let mut skipped = read;
                for _ in 0..n {
                    read.refill().unwrap();
                    read.consume(1);
                }
                skipped.skip(n).unwrap();
                read.refill().unwrap();
                skipped.refill().unwrap();
                assert_eq!(read.peek() >> 8, skipped.peek() >> 8, "{n} after {first}");
                assert_eq!(read.is_inside(), skipped.is_inside());
            }
        }
        let mut bits = Bits::new(&bytes, BitPosition::default());
        assert_eq!(bits.skip(8 * 1000), None);
        assert_eq!(bits.skip(u64::MAX), None);
    }

    #[test]
    fn what_lies_behind_the_end_is_noticed() {
        let bytes = [0; PAD + 2];
        let mut bits = Bits::new(&bytes, BitPosition::default());
        bits.refill().unwrap();
        bits.consume(16);
        assert!(bits.is_inside());
        bits.consume(1);
        assert!(!bits.is_inside());
        let refills = (0..100).take_while(|_| {
            bits.consume(31);
            bits.refill().is_some()
        });
        assert!(refills.count() < 5, "and reading on comes to an end");
    }
}
