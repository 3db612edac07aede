//! Consecutive numbers for the samples of several components, such as datasets or shards.
//!
//! ```text
//! samples of each component   3 2 4     starts   0 3 5 9     sample 4 -> component 1, its sample 1
//! ```

use crate::sample::SampleId;

/// The first sample of each component, then the number of all samples.
pub(super) struct Starts(Vec<u64>);

impl FromIterator<u64> for Starts {
    /// Takes the number of samples of each component.
    fn from_iter<I: IntoIterator<Item = u64>>(counts: I) -> Self {
        let starts = counts.into_iter().scan(0_u64, |end, count| {
            *end = end.saturating_add(count);
            Some(*end)
        });
        Self(std::iter::once(0).chain(starts).collect())
    }
}

impl Starts {
    /// Returns the number of samples of all components.
    pub(super) fn samples(&self) -> u64 {
        self.0[self.parts()]
    }

    /// Returns the first sample of a component.
    #[cfg(any(feature = "mds", feature = "parquet"))]
    pub(super) fn first(&self, part: usize) -> SampleId {
        SampleId(self.0[part])
    }

    /// Returns the number of samples of a component.
    #[cfg(feature = "parquet")]
    pub(super) fn len_of(&self, part: usize) -> u64 {
        self.0[part + 1] - self.0[part]
    }

    pub(super) fn parts(&self) -> usize {
        self.0.len() - 1
    }

    /// Returns the component that holds a sample, and the sample's number there.
    pub(super) fn locate(&self, sample: SampleId) -> Option<(usize, SampleId)> {
        let part = self.0.partition_point(|&start| start <= sample.0) - 1;
        (part < self.parts()).then(|| (part, SampleId(sample.0 - self.0[part])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_of_the_part_that_has_them() {
        let starts: Starts = [0, 3, 0, 2].into_iter().collect();
        assert_eq!((starts.samples(), starts.parts()), (5, 4));
        let located: Vec<_> = (0..6).map(|sample| starts.locate(SampleId(sample))).collect();
        let at = |part, sample| Some((part, SampleId(sample)));
        assert_eq!(located, [at(1, 0), at(1, 1), at(1, 2), at(3, 0), at(3, 1), None]);
        let none: Starts = [].into_iter().collect();
        assert_eq!((none.samples(), none.locate(SampleId(0))), (0, None));
    }
}
