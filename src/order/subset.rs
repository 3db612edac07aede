//! The samples of a dataset that an epoch uses.
//!
//! Orders work on *rows*: indices in the subset, `0..len`. A row is 4 bytes where a sample id may need
//! 8, and a subset of all samples holds no memory.

use super::memory::reserved;
use crate::error::{Error, fail};
use crate::sample::SampleId;
use std::sync::Arc;

/// A set of samples, and their order before a random order is applied.
///
/// ```
/// use fuseloop::order::Subset;
///
/// let some = Subset::Listed([5, 2, 9].into());
/// assert_eq!(some.iter().map(|sample| sample.0).collect::<Vec<u64>>(), [5, 2, 9]);
/// assert_eq!(Subset::All(1000).len(), 1000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subset {
    /// The first samples, by number: all, if this is the size of the dataset.
    All(u64),
    /// The listed samples. A sample may be listed several times: it then comes as often.
    Listed(Arc<[u64]>),
}

impl Subset {
    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::All(samples) => *samples,
            Self::Listed(ids) => ids.len() as u64,
        }
    }

    /// Returns true if there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the samples, in order.
    pub fn iter(&self) -> impl Iterator<Item = SampleId> + '_ {
        (0..self.len()).map(|row| self.at(row))
    }

    /// Returns the sample of a row, which must be below `len`.
    pub(crate) fn at(&self, row: u64) -> SampleId {
        match self {
            Self::All(_) => SampleId(row),
            Self::Listed(ids) => SampleId(ids[row as usize]),
        }
    }

    /// Checks that all samples are below `samples`, and returns the subset in its smaller form.
    pub(super) fn checked(self, samples: u64) -> Result<Self, Error> {
        let beyond = match &self {
            Self::All(count) => (*count > samples).then_some(samples),
            Self::Listed(ids) => ids.iter().copied().find(|&id| id >= samples),
        };
        if let Some(id) = beyond {
            return Err(fail!(
                Parameter,
                "the subset has sample {id}, but the dataset has {samples} samples"
            )
            .of_sample(SampleId(id)));
        }
        Ok(match self {
            Self::Listed(ids) if ids.iter().copied().eq(0..ids.len() as u64) => {
                Self::All(ids.len() as u64)
            }
            other => other,
        })
    }

    /// Returns for each row the first row of the same sample; `None` if no sample is listed twice.
    pub(super) fn duplicates(&self) -> Result<Option<Vec<u32>>, Error> {
        let Self::Listed(ids) = self else { return Ok(None) };
        if ids.is_sorted_by(|a, b| a < b) {
            return Ok(None);
        }
        let mut by_id = self.rows_by_id()?;
        let id = |row: u32| ids[row as usize];
        if by_id.is_sorted_by(|&a, &b| id(a) < id(b)) {
            return Ok(None);
        }
        let mut first = reserved(self.len())?;
        first.resize(ids.len(), 0);
        for same in by_id.chunk_by_mut(|&a, &b| id(a) == id(b)) {
            same.iter().for_each(|&row| first[row as usize] = same[0]);
        }
        Ok(Some(first))
    }

    /// Returns the rows sorted by sample id; rows of the same sample stay in order.
    pub(super) fn rows_by_id(&self) -> Result<Vec<u32>, Error> {
        let mut rows = reserved(self.len())?;
        rows.extend(0..self.len() as u32);
        if let Self::Listed(ids) = self {
            rows.sort_unstable_by_key(|&row| (ids[row as usize], row));
        }
        Ok(rows)
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::All(_) => 0,
            Self::Listed(ids) => size_of_val::<[u64]>(ids),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(ids: &[u64]) -> Subset {
        Subset::Listed(ids.into())
    }

    #[test]
    fn a_list_of_the_first_samples_holds_nothing() {
        assert_eq!(listed(&[0, 1, 2]).checked(5).unwrap(), Subset::All(3));
        assert_eq!(listed(&[]).checked(0).unwrap(), Subset::All(0));
        assert_eq!(listed(&[0, 2]).checked(3).unwrap(), listed(&[0, 2]));
    }

    #[test]
    fn a_sample_beyond_the_dataset_is_named() {
        let said = listed(&[1, 9, 4]).checked(9).unwrap_err().to_string();
        assert_eq!(said, "the subset has sample 9, but the dataset has 9 samples");
        assert!(Subset::All(10).checked(9).is_err());
    }

    #[test]
    fn rows_of_one_sample_have_one_twin() {
        assert_eq!(listed(&[7, 3, 7, 5, 3, 7]).duplicates().unwrap(), Some(vec![0, 1, 0, 3, 1, 0]));
        assert_eq!(listed(&[7, 3, 5]).duplicates().unwrap(), None);
        assert_eq!(listed(&[3, 5, 7]).duplicates().unwrap(), None);
    }

    #[test]
    fn a_dataset_of_any_size_costs_nothing() {
        let all = Subset::All(1 << 40).checked(1 << 40).unwrap();
        assert_eq!((all.bytes(), all.at((1 << 40) - 1)), (0, SampleId((1 << 40) - 1)));
        assert_eq!(all.duplicates().unwrap(), None);
    }
}
