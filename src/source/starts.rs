//! Samples of several parts under one number.
//!
//! ```text
//! samples of each part   3 2 4        starts   0 3 5 9        sample 4 -> part 1, its sample 1
//! ```

use crate::sample::SampleId;

/// The first sample of each part; then how many there are.
pub(super) struct Starts(Vec<u64>);

impl FromIterator<u64> for Starts {
    /// By the samples of each part.
    fn from_iter<I: IntoIterator<Item = u64>>(counts: I) -> Self {
        let starts = counts.into_iter().scan(0_u64, |end, count| {
            *end = end.saturating_add(count);
            Some(*end)
        });
        Self(std::iter::once(0).chain(starts).collect())
    }
}

impl Starts {
    /// Samples of all parts.
    pub(super) fn samples(&self) -> u64 {
        self.0[self.parts()]
    }

    pub(super) fn parts(&self) -> usize {
        self.0.len() - 1
    }

    /// The part that a sample is of, and its number there.
    pub(super) fn place(&self, sample: SampleId) -> Option<(usize, SampleId)> {
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
        let places: Vec<_> = (0..6).map(|sample| starts.place(SampleId(sample))).collect();
        let at = |part, sample| Some((part, SampleId(sample)));
        assert_eq!(places, [at(1, 0), at(1, 1), at(1, 2), at(3, 0), at(3, 1), None]);
        let none: Starts = [].into_iter().collect();
        assert_eq!((none.samples(), none.place(SampleId(0))), (0, None));
    }
}
