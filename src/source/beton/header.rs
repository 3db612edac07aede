//! The header of a `.beton` file.

use super::{INCOMPLETE, take};
use crate::error::{Damage, Error, fail};
use crate::source::FieldSpec;

/// The first 24 bytes of a `.beton` file, version 2.
///
/// All integers are little-endian.
///
/// | offset | size | field             | meaning                                    |
/// |-------:|-----:|-------------------|--------------------------------------------|
/// |      0 |    2 | `version`         | 2                                          |
/// |      2 |    2 | `num_fields`      | field descriptors that follow, 1041 B each |
/// |      4 |    4 | `page_size`       | bytes, a power of two                      |
/// |      8 |    8 | `num_samples`     | rows of the sample table                   |
/// |     16 |    8 | `alloc_table_ptr` | file offset of the allocation table        |
///
/// A writer that did not finish leaves `alloc_table_ptr` 0, which
/// [`parse`](Self::parse) refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of field descriptors that follow.
    pub num_fields: u16,
    /// The size of a page in bytes, a power of two. FFCV's own writer accepts 2 MiB to 2 GiB.
    pub page_size: u32,
    /// The number of rows of the sample table.
    pub num_samples: u64,
    /// The file offset of the allocation table.
    pub alloc_table_ptr: u64,
}

impl Header {
    /// The size of a header in bytes.
    pub const SIZE: usize = 24;
    /// The only version that is supported.
    pub const VERSION: u16 = 2;

    /// Reads a header and checks it against the length of its file.
    ///
    /// # Errors
    ///
    /// If the bytes are not a header, or the tables would end beyond the end of the file. Never panics, whatever the bytes.
    pub fn parse(bytes: &[u8], file_len: u64) -> Result<Self, Error> {
        let (version, header) = Self::split(bytes).ok_or_else(truncated)?;
        if version != Self::VERSION {
            let expected = Self::VERSION;
            return Err(fail!(
                Format,
                "not a .beton file: version {version} at byte 0, expected {expected}"
            )
            .damage(Damage::OtherFormat));
        }
        if header.num_fields == 0 {
            return Err(fail!(Format, "0 fields at byte 2, expected at least 1"));
        }
        let page_size = header.page_size;
        if !page_size.is_power_of_two() {
            return Err(fail!(Format, "page size {page_size} at byte 4, expected a power of two"));
        }
        if header.alloc_table_ptr == 0 {
            return Err(fail!(
                Format,
                "no allocation table, its offset at byte 16 is 0: the file was not finished by its writer"
            )
            .help("its writer was stopped: write it again with `fuseloop write`"));
        }
        let tables = [
            ("field descriptor table", header.sample_table_start()),
            ("allocation table", header.alloc_table_ptr),
        ];
        for (table, end) in tables {
            if end > file_len {
                return Err(fail!(
                    Format,
                    "the {table} needs bytes up to {end}, the file has {file_len}"
                )
                .help(INCOMPLETE));
            }
        }
        Ok(header)
    }

    /// Splits the bytes into the version and the other fields, unchecked; `None` if there are too few
    /// bytes.
    fn split(mut bytes: &[u8]) -> Option<(u16, Self)> {
        let version = u16::from_le_bytes(take(&mut bytes)?);
        let header = Self {
            num_fields: u16::from_le_bytes(take(&mut bytes)?),
            page_size: u32::from_le_bytes(take(&mut bytes)?),
            num_samples: u64::from_le_bytes(take(&mut bytes)?),
            alloc_table_ptr: u64::from_le_bytes(take(&mut bytes)?),
        };
        Some((version, header))
    }

    /// Returns the header's bytes, with [`VERSION`](Self::VERSION).
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0..2].copy_from_slice(&Self::VERSION.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.num_fields.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.page_size.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.num_samples.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.alloc_table_ptr.to_le_bytes());
        bytes
    }

    /// Returns the file offset of the sample table, right after the field descriptors.
    #[must_use]
    pub fn sample_table_start(&self) -> u64 {
        Self::SIZE as u64 + u64::from(self.num_fields) * FieldSpec::SIZE as u64
    }

    /// Returns the file offset where the sample table ends, with rows of `row_size` bytes; `None` if
    /// that is beyond 2^64.
    #[must_use]
    pub fn sample_table_end(&self, row_size: usize) -> Option<u64> {
        let rows = self.num_samples.checked_mul(u64::try_from(row_size).ok()?)?;
        self.sample_table_start().checked_add(rows)
    }

    /// Returns the file offset of the first page: the sample table's end, rounded up to a page. `None`
    /// if that is beyond 2^64.
    ///
    /// A file without pointer fields has no page, and ends before this offset.
    #[must_use]
    pub fn data_start(&self, row_size: usize) -> Option<u64> {
        self.sample_table_end(row_size)?.checked_next_multiple_of(u64::from(self.page_size))
    }
}

/// Returns the error of a file that ends before its field descriptors do.
pub(super) fn truncated() -> Error {
    fail!(Format, "not a .beton file: it ends inside its header of {} bytes", Header::SIZE)
        .damage(Damage::OtherFormat)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header =
        Header { num_fields: 2, page_size: 1 << 23, num_samples: 5, alloc_table_ptr: 0x88a };

    /// FFCV's own first 24 bytes for 5 rows of an Int and a Float.
    const BYTES: [u8; 24] =
        [2, 0, 2, 0, 0, 0, 0x80, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0x8a, 8, 0, 0, 0, 0, 0, 0];

    #[test]
    fn a_header_is_read_and_written_to_the_byte() {
        assert_eq!(Header::parse(&BYTES, 0x88a), Ok(HEADER));
        assert_eq!(HEADER.to_bytes(), BYTES);
    }

    #[test]
    fn the_sample_table_of_the_documented_file_ends_with_it() {
        assert_eq!(HEADER.sample_table_start(), 0x83a);
        assert_eq!(HEADER.sample_table_end(16), Some(0x88a));
        assert_eq!(HEADER.data_start(16), Some(1 << 23));
    }

    #[test]
    fn a_product_beyond_64_bits_is_none() {
        let header = Header { num_samples: 1 << 63, ..HEADER };
        assert_eq!(header.sample_table_end(16), None);
        assert_eq!(header.data_start(16), None);
    }
}
