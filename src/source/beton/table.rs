//! The allocation table: which bytes of the pages belong to which sample.

use super::take;

/// A record of the allocation table: 24 bytes, one for each value stored in the pages.
///
/// | offset | size | field    | meaning                        |
/// |-------:|-----:|----------|--------------------------------|
/// |      0 |    8 | `sample` | row of the sample table        |
/// |      8 |    8 | `ptr`    | file offset of the value       |
/// |     16 |    8 | `size`   | bytes of the value             |
///
/// Records are in the order in which the writer's workers finished, not sorted. It is the
/// only place that tells the size of a stored picture. A value of no bytes has the same `ptr`
/// as the next one in files that FFCV wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Row of the sample table.
    pub sample: u64,
    /// File offset of the value.
    pub ptr: u64,
    /// Bytes of the value.
    pub size: u64,
}

impl Allocation {
    /// Bytes of a record.
    pub const SIZE: usize = 24;

    /// Reads a record; `None` if there are fewer than [`SIZE`](Self::SIZE) bytes.
    #[must_use]
    pub fn parse(mut record: &[u8]) -> Option<Self> {
        Some(Self {
            sample: u64::from_le_bytes(take(&mut record)?),
            ptr: u64::from_le_bytes(take(&mut record)?),
            size: u64::from_le_bytes(take(&mut record)?),
        })
    }

    /// The record's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0..8].copy_from_slice(&self.sample.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.ptr.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let record = Allocation { sample: 3, ptr: 1 << 33, size: 769 };
        assert_eq!(Allocation::parse(&record.to_bytes()), Some(record));
        assert_eq!(Allocation::parse(&[0; 23]), None);
    }
}
