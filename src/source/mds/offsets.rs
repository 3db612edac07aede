//! Where the samples of a shard are: the table at its beginning.
//!
//! | offset          | size | meaning                                          |
//! |----------------:|-----:|--------------------------------------------------|
//! |               0 |    4 | `n`, the number of samples                       |
//! |               4 | 4n+4 | the offset of each sample, then of the end       |
//! |            4n+8 |      | the columns as JSON, which the index lists, too  |
//!
//! All numbers are u32, so that a shard has less than 4 GiB.

use crate::error::{Error, fail};
use std::ops::Range;

/// The offsets of the samples of a shard, and of the end of the last.
#[derive(Default)]
pub(super) struct Offsets(Vec<u32>);

impl Offsets {
    /// Returns the size of the table of as many samples; `None` if no shard of `len` bytes has it.
    pub(super) fn table_bytes(samples: u64, len: u64) -> Option<u64> {
        samples.checked_add(2)?.checked_mul(4).filter(|&bytes| bytes <= len)
    }

    /// Reads the table of a shard of `len` bytes that begins with `bytes`.
    ///
    /// # Errors
    ///
    /// Fails if the shard has another number of samples than the index lists, or if an offset is out of order.
    pub(super) fn parse(bytes: &[u8], samples: u64, len: u64) -> Result<Self, Error> {
        let none = || {
            fail!(Damaged, "{len} bytes, too few for the {samples} samples that the index lists")
        };
        let table = Self::table_bytes(samples, len).ok_or_else(none)?;
        let words = usize::try_from(table).ok().and_then(|table| bytes.get(..table));
        let mut words = words
            .ok_or_else(none)?
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let count = words.next().unwrap_or_default();
        if u64::from(count) != samples {
            return Err(fail!(
                Damaged,
                "{count} samples, and the index lists {samples}: the shard is of another dataset"
            )
            .byte(0));
        }
        let mut offsets = vec![];
        let room = usize::try_from(samples).unwrap_or(usize::MAX).saturating_add(1);
        offsets
            .try_reserve_exact(room)
            .map_err(|_| Error::from(std::io::Error::from(std::io::ErrorKind::OutOfMemory)))?;
        let mut before = table;
        for (number, offset) in (0_u64..).zip(words) {
            if u64::from(offset) < before || u64::from(offset) > len {
                let at = 4 * (number + 1);
                return Err(fail!(
                    Damaged,
                    "sample {number} begins at {offset}, expected {before} to {len}: the shard is damaged or cut short"
                )
                .byte(at));
            }
            before = offset.into();
            offsets.push(offset);
        }
        Ok(Self(offsets))
    }

    /// Returns the bytes of a sample.
    pub(super) fn range(&self, sample: usize) -> Option<Range<u64>> {
        let start = u64::from(*self.0.get(sample)?);
        Some(start..(*self.0.get(sample.checked_add(1)?)?).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn samples_lie_between_their_offsets() {
        let bytes = table(&[2, 20, 30, 30]);
        let offsets = Offsets::parse(&bytes, 2, 30).unwrap();
        assert_eq!([0, 1, 2].map(|n| offsets.range(n)), [Some(20..30), Some(30..30), None]);
    }

    #[test]
    fn offsets_that_lead_elsewhere_are_refused() {
        let said = |words: &[u32], samples, len| {
            Offsets::parse(&table(words), samples, len)
                .err()
                .map(|error| error.to_string())
                .unwrap()
        };
        for (words, samples, len, part) in [
            (&[1, 12, 20][..], 2, 40, "1 samples, and the index lists 2"),
            (&[1, 11, 20], 1, 20, "sample 0 begins at 11, expected 12 to 20"),
            (&[1, 15, 14], 1, 20, "sample 1 begins at 14, expected 15 to 20"),
            (&[1, 12, 21], 1, 20, "sample 1 begins at 21, expected 12 to 20"),
            (&[1], 1, 20, "too few"),
            (&[1], u64::MAX, 20, "too few"),
        ] {
            let error = if words.len() == 3 && samples == 2 {
                said(&[1, 12, 20, 20, 20], samples, len)
            } else {
                said(words, samples, len)
            };
            assert!(error.contains(part), "{error}");
        }
    }
}
