//! Rows grouped by a key: a page, a class.
//!
//! ```text
//! members   all rows, group by group, ascending in each group     `None` if this is 0, 1, 2, ...
//! starts    the index in `members` where each group starts, and the end
//! ```
//!
//! Files are mostly written page by page, so their rows usually are in this order already.

use super::memory::reserved;
use crate::error::Error;
use std::ops::Range;

#[derive(Debug)]
pub(super) struct Groups {
    members: Option<Vec<u32>>,
    starts: Vec<u32>,
}

impl Groups {
    /// Groups rows by key, in the order of the keys. At most 2^32 - 1 rows.
    pub(super) fn by<K: Ord + Copy>(keys: &[K]) -> Result<Self, Error> {
        let key = |row: u32| keys[row as usize];
        let mut members = None;
        if !keys.is_sorted() {
            let mut rows: Vec<u32> = reserved(keys.len() as u64)?;
            rows.extend(0..keys.len() as u32);
            rows.sort_unstable_by_key(|&row| (key(row), row));
            members = Some(rows);
        }
        let at = |index: u32| members.as_ref().map_or(index, |rows| rows[index as usize]);
        let begins = |index: &u32| *index == 0 || key(at(*index - 1)) != key(at(*index));
        let mut starts: Vec<u32> = (0..keys.len() as u32).filter(begins).collect();
        starts.push(keys.len() as u32);
        Ok(Self { members, starts })
    }

    /// Returns the number of groups.
    pub(super) fn len(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// Returns the number of rows of all groups.
    pub(super) fn rows(&self) -> u32 {
        self.starts[self.starts.len() - 1]
    }

    /// Returns the indices of a group's rows.
    pub(super) fn indices(&self, group: u32) -> Range<u32> {
        self.starts[group as usize]..self.starts[group as usize + 1]
    }

    /// Returns the row at an index.
    pub(super) fn row(&self, index: u32) -> u32 {
        self.members.as_ref().map_or(index, |rows| rows[index as usize])
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        let members = self.members.as_ref().map_or(0, Vec::capacity);
        (members + self.starts.capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(groups: &Groups) -> Vec<Vec<u32>> {
        let rows = |group| groups.indices(group).map(|index| groups.row(index)).collect();
        (0..groups.len()).map(rows).collect()
    }

    #[test]
    fn rows_are_grouped_by_key() {
        let groups = Groups::by(&[5, -1, 5, 7, -1]).unwrap();
        assert_eq!(lists(&groups), [vec![1, 4], vec![0, 2], vec![3]]);
        assert_eq!(groups.rows(), 5);
    }

    #[test]
    fn rows_in_order_need_no_list() {
        let groups = Groups::by(&[2, 2, 4, 4, 4]).unwrap();
        assert_eq!(lists(&groups), [vec![0, 1], vec![2, 3, 4]]);
        assert!(groups.members.is_none());
    }

    #[test]
    fn no_rows_have_no_groups() {
        let groups = Groups::by::<u64>(&[]).unwrap();
        assert_eq!((groups.len(), groups.rows()), (0, 0));
    }
}
