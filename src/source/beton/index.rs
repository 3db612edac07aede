//! How many bytes lie at a pointer: the allocation table, sorted once.
//!
//! | | |
//! |--------|-------------------------------------------------------------------------|
//! | memory | 16 bytes a record of the table                                          |
//! | build  | one pass over a table that is already in order, else one sort            |
//! | lookup | a binary search, about 20 steps at a million samples                    |
//!
//! A value of no bytes shares its pointer with the next one in files that FFCV wrote: of
//! several records with one pointer the largest size is taken.

use super::{Allocation, OpenError};

/// Sizes by pointer.
pub(super) struct SizeIndex {
    /// Pointer and size, by pointer, each pointer once.
    sizes: Vec<(u64, u64)>,
}

impl SizeIndex {
    /// An index without a record: for datasets without pictures.
    pub(super) const EMPTY: Self = Self { sizes: Vec::new() };

    /// Sorts the records of an allocation table.
    ///
    /// # Errors
    ///
    /// If the system has no memory for the index. Its size follows the table's bytes, which
    /// are there, not a number in the file; but a sparse file has any number of them.
    pub(super) fn new(table: &[u8]) -> Result<Self, OpenError> {
        let records = Allocation::parse_table(table);
        let mut sizes = Vec::new();
        let count = records.len();
        sizes.try_reserve_exact(count).map_err(|_| OpenError::IndexMemory { records: count })?;
        sizes.extend(records.map(|record| (record.ptr, record.size)));
        if !sizes.is_sorted_by_key(|&(ptr, _)| ptr) {
            // The stable sort: the table is a few ascending runs, one a worker, and it merges
            // them instead of sorting anew.
            sizes.sort_by_key(|&(ptr, _)| ptr);
        }
        sizes.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.max(next.1);
            }
            same
        });
        Ok(Self { sizes })
    }

    /// Bytes stored at `ptr`; `None` if no record begins there.
    pub(super) fn size_at(&self, ptr: u64) -> Option<u64> {
        let found = self.sizes.binary_search_by_key(&ptr, |&(ptr, _)| ptr).ok()?;
        Some(self.sizes.get(found)?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(records: &[(u64, u64)]) -> SizeIndex {
        let records = records.iter().map(|&(ptr, size)| Allocation { sample: 0, ptr, size });
        SizeIndex::new(&records.flat_map(|record| record.to_bytes()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn an_unsorted_table_is_searched_all_the_same() {
        let index = index(&[(80, 8), (90, 9), (10, 1), (20, 2)]);
        assert_eq!(
            [10, 20, 80, 90].map(|ptr| index.size_at(ptr)),
            [Some(1), Some(2), Some(8), Some(9)]
        );
        assert_eq!(index.size_at(11), None);
    }

    #[test]
    fn the_largest_of_several_records_with_one_pointer_counts() {
        assert_eq!(index(&[(10, 0), (10, 5), (10, 0), (15, 0)]).size_at(10), Some(5));
        assert_eq!(index(&[(15, 1), (10, 5), (10, 0)]).size_at(10), Some(5));
    }
}
