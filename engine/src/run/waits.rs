//! The waits of consumers for batches, counted by their length.
//!
//! ```text
//! bound      1 ms   2 ms   5 ms   10 ms  ..  100 s   longer
//! batches     812      7      0       1  ..      0        0     -> the median is at most 1 ms
//! ```

use std::time::Duration;

use crate::sync::counter::{AtomicU64, Ordering};

/// The upper bounds of the counts but the last, which has no bound: each is 2 to 2.5 times the one before it.
const BOUNDS: [Duration; 16] = {
    let millis =
        [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000];
    let mut bounds = [Duration::ZERO; 16];
    let mut i = 0;
    while i < bounds.len() {
        bounds[i] = Duration::from_millis(millis[i]);
        i += 1;
    }
    bounds
};

/// How many of the delivered batches a consumer has waited for, by the length of the wait. A batch that was
/// ready counts as a wait of no time.
///
/// ```
/// # use fuseloop_engine::run::WaitHistogram;
/// assert_eq!(WaitHistogram::default().median(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct WaitHistogram([u64; BOUNDS.len() + 1]);

impl WaitHistogram {
    /// Returns the upper bound of each count, and the number of waits that are no longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        let sums = self.0.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        BOUNDS.into_iter().zip(sums)
    }

    /// Returns the number of waits.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the bound that half of the waits or more are not above; `None` without waits, and if it would be above
    /// the last bound.
    #[must_use]
    pub fn median(&self) -> Option<Duration> {
        let half = self.count().div_ceil(2);
        if half == 0 {
            return None;
        }
        self.cumulative().find(|(_, waits)| *waits >= half).map(|(bound, _)| bound)
    }
}

/// Counts waits of these lengths.
impl FromIterator<Duration> for WaitHistogram {
    fn from_iter<I: IntoIterator<Item = Duration>>(waits: I) -> Self {
        let mut counts = Self::default();
        waits.into_iter().for_each(|waited| counts.0[index(waited)] += 1);
        counts
    }
}

/// Returns the count that a wait belongs to.
fn index(waited: Duration) -> usize {
    BOUNDS.partition_point(|bound| *bound < waited)
}

/// The counts, which consumers add to.
#[derive(Default)]
pub(super) struct WaitCounts([AtomicU64; BOUNDS.len() + 1]);

impl WaitCounts {
    pub(super) fn add(&self, waited: Duration) {
        self.0[index(waited)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn histogram(&self) -> WaitHistogram {
        WaitHistogram(std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_up_to_their_bounds() {
        let counts = WaitCounts::default();
        assert_eq!(counts.histogram().median(), None);
        for ms in [0, 1, 2, 300, 200_000] {
            counts.add(Duration::from_millis(ms));
        }
        let waits = counts.histogram();
        assert_eq!(waits, [0, 1, 2, 300, 200_000].map(Duration::from_millis).into_iter().collect());
        assert_eq!(waits.count(), 5);
        let below = |ms| {
            let bound = Duration::from_millis(ms);
            waits.cumulative().find(|(known, _)| *known == bound).unwrap().1
        };
        assert_eq!([1, 2, 5, 250, 500, 100_000].map(below), [2, 3, 3, 3, 4, 4]);
        assert_eq!(waits.median(), Some(Duration::from_millis(2)));
        (0..9).for_each(|_| counts.add(Duration::from_secs(1000)));
        assert_eq!(counts.histogram().median(), None);
    }
}
