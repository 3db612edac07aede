//! The allocation table: which bytes of the pages belong to which sample.

/// A record of the allocation table: 24 bytes, one for each value stored in the pages.
///
/// | offset | size | field    | meaning                        |
/// |-------:|-----:|----------|--------------------------------|
/// |      0 |    8 | `sample` | row of the sample table        |
/// |      8 |    8 | `ptr`    | file offset of the value       |
/// |     16 |    8 | `size`   | bytes of the value             |
///
/// Records are in the order in which the writer's workers finished, not sorted. Only the allocation
/// table tells the size of a stored image. In files that FFCV wrote, a value of no bytes has the same
/// `ptr` as the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The row of the sample table.
    pub sample: u64,
    /// The file offset of the value.
    pub ptr: u64,
    /// The size of the value in bytes.
    pub size: u64,
}

impl Allocation {
    /// The size of a record in bytes.
    pub const SIZE: usize = 24;

    /// Reads a record. Any 24 bytes are a record: its pointer is checked when it is used.
    #[must_use]
    pub fn parse(record: &[u8; Self::SIZE]) -> Self {
        let mut words = record.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
        let [sample, ptr, size] = [(); 3].map(|()| words.next().unwrap_or_default());
        Self { sample, ptr, size }
    }

    /// Returns the records of a table, in the table's order; bytes after the last whole record are left
    /// out.
    pub fn parse_table(table: &[u8]) -> impl ExactSizeIterator<Item = Self> {
        table.as_chunks().0.iter().map(Self::parse)
    }

    /// Returns the record's bytes.
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
        assert_eq!(Allocation::parse(&record.to_bytes()), record);
        assert_eq!(Allocation::parse_table(&[0; 47]).len(), 1);
    }
}
