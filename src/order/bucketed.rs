//! Bucketed: each batch has samples of one bucket, which is those whose images have one size.
//!
//! ```text
//! G          the samples of a step: batch size * ranks
//! bucket     its n samples, shuffled, make floor(n / G) steps of G samples, and a last one of the rest
//! epoch      the steps of all buckets, shuffled
//! the rest   n mod G samples: left out by `drop_last` and `Uneven::Drop`, others in each epoch;
//!            otherwise a shorter batch, or on several ranks samples of the bucket again, to fill the step
//! ```
//!
//! | | |
//! |---|---|
//! | input | the bucket of each sample; a sample without one is left out |
//! | output | each row once, or at most once |
//! | random | seed and epoch |
//! | cost | at most 4 bytes a sample held, 8 more in an epoch |
//!
//! Ranks take turns at the rows of a step, so all of them have the same bucket at the same step. A step that is not full
//! takes the positions of a full one: positions, and with them cursors, are the same for any number of ranks.

use super::Ranks;
use super::groups::Groups;
use super::memory::reserved;
use super::random::{generator, shuffle};
use crate::error::{Error, fail};
use crate::sample::Epoch;
use crate::source::Fingerprint;
use std::ops::Range;

pub(super) const NAME: &str = "bucketed";

/// How an epoch is divided into steps, for the orders that depend on it.
///
/// ```
/// use fuseloop::internals::order::Steps;
/// use fuseloop::order::{Ranks, Uneven};
///
/// let ranks = Ranks::new(0, 4, Uneven::Pad)?;
/// assert_eq!(Steps::new(8, Some(&ranks), false).samples, 32);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The number of samples of a step, on all ranks.
    pub samples: u64,
    /// True if samples that do not fill a step are left out.
    pub drops_rest: bool,
}

impl Steps {
    /// Steps of one sample each.
    pub const SINGLE: Self = Self { samples: 1, drops_rest: false };

    /// Returns the steps of batches of `batch_size` samples on each rank.
    #[must_use]
    pub fn new(batch_size: u64, ranks: Option<&Ranks>, drop_last: bool) -> Self {
        let world = ranks.map_or(1, |ranks| u64::from(ranks.world_size()));
        let drops_rest = drop_last || world > 1 && ranks.is_some_and(|ranks| ranks.drops_uneven());
        Self { samples: batch_size.saturating_mul(world), drops_rest }
    }
}

/// The buckets of the rows, and the steps that they are divided into.
#[derive(Debug)]
pub(super) struct Bucketed {
    buckets: Groups,
    steps: Steps,
    /// The number of rows of the first `len` groups, which are the buckets: rows without a bucket are the group after them.
    rows: u32,
    len: u32,
    fingerprint: u64,
}

/// Positions of an epoch that fill the last step of a bucket, and the number of rows of the bucket.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    pub(super) positions: Range<u64>,
    pub(super) bucket_rows: u64,
}

impl Bucketed {
    /// Groups the rows by their buckets; `None` for a row that is left out.
    pub(super) fn new(of_rows: &[Option<u32>], steps: Steps) -> Result<Self, Error> {
        let mut keys = reserved(of_rows.len() as u64)?;
        keys.extend(of_rows.iter().map(|bucket| bucket.map_or(u64::MAX, u64::from)));
        let buckets = Groups::by(&keys)?;
        let left_out = of_rows.iter().filter(|bucket| bucket.is_none()).count() as u32;
        let mut hash = Fingerprint::default();
        keys.iter().for_each(|&key| hash.number(key));
        hash.number(steps.samples);
        hash.number(u64::from(steps.drops_rest));
        Ok(Self {
            rows: buckets.rows() - left_out,
            len: buckets.len() - u32::from(left_out > 0),
            buckets,
            steps,
            fingerprint: hash.value(),
        })
    }

    /// Returns a hash of the buckets and the steps.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the number of positions of an epoch.
    ///
    /// # Errors
    ///
    /// If they can't be counted.
    pub(super) fn positions(&self) -> Result<u64, Error> {
        let steps = |bucket: u32| {
            let rows = self.bucket_rows(bucket);
            let Steps { samples, drops_rest } = self.steps;
            if drops_rest { rows / samples.max(1) } else { rows.div_ceil(samples.max(1)) }
        };
        let steps: u64 = (0..self.len).map(steps).sum();
        steps.checked_mul(self.steps.samples).ok_or_else(|| {
            let samples = self.steps.samples;
            fail!(Memory, "order {NAME}: no memory for {steps} steps of {samples} samples")
        })
    }

    /// Returns the number of rows of an epoch that are no filling.
    pub(super) fn rows_once(&self, positions: u64) -> u64 {
        if self.steps.drops_rest { positions } else { u64::from(self.rows) }
    }

    /// Returns the rows of an epoch, in steps, and the positions of those that fill a step.
    pub(super) fn rows(&self, seed: u64, epoch: Epoch) -> Result<(Vec<u32>, Vec<Filling>), Error> {
        let mut rng = generator(seed, epoch, NAME);
        let mut shuffled: Vec<u32> = reserved(u64::from(self.rows))?;
        shuffled.extend((0..self.rows).map(|index| self.buckets.row(index)));
        let (size, positions) = (self.steps.samples, self.positions()?);
        let (mut steps, mut order) = (vec![], vec![]);
        for bucket in 0..self.len {
            let Range { start, end } = self.buckets.indices(bucket);
            shuffle(&mut rng, &mut shuffled[start as usize..end as usize]);
            let mut first = u64::from(start);
            let end = u64::from(end);
            while first < end && !(self.steps.drops_rest && end - first < size) {
                steps.push((bucket, first));
                first = first.saturating_add(size);
            }
        }
        order.extend(0..steps.len() as u32);
        shuffle(&mut rng, &mut order);
        let (mut rows, mut fillings) = (reserved(positions)?, vec![]);
        for step in order {
            let (bucket, first) = steps[step as usize];
            let Range { start, end } = self.buckets.indices(bucket);
            let own = &shuffled[start as usize..end as usize];
            let rest = &shuffled[first as usize..end as usize];
            let step_rows = rest.len().min(usize::try_from(size).unwrap_or(usize::MAX));
            rows.extend_from_slice(&rest[..step_rows]);
            let missing = size - step_rows as u64;
            if missing > 0 {
                let from = rows.len() as u64;
                rows.extend(own.iter().cycle().take(missing as usize));
                let bucket_rows = own.len() as u64;
                fillings.push(Filling { positions: from..from + missing, bucket_rows });
            }
        }
        Ok((rows, fillings))
    }

    /// Returns a row of the same bucket; none for a row that is left out. `word` draws it.
    pub(super) fn other_row(&self, row: u32, word: u64) -> Option<u32> {
        let indices = (0..self.len).map(|bucket| self.buckets.indices(bucket)).find(|indices| {
            // The rows of a group are sorted.
            let (mut low, mut high) = (indices.start, indices.end);
            while low < high {
                let middle = low.midpoint(high);
                if self.buckets.row(middle) < row { low = middle + 1 } else { high = middle }
            }
            low < indices.end && self.buckets.row(low) == row
        })?;
        let count = u64::from(indices.end - indices.start);
        Some(self.buckets.row(indices.start + (word % count) as u32))
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.bytes()
    }

    fn bucket_rows(&self, bucket: u32) -> u64 {
        let indices = self.buckets.indices(bucket);
        u64::from(indices.end - indices.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucketed(of_rows: &[Option<u32>], samples: u64, drops_rest: bool) -> Bucketed {
        Bucketed::new(of_rows, Steps { samples, drops_rest }).unwrap()
    }

    /// 7 rows of bucket 1, 2 of bucket 0, 1 of bucket 5, and one without a bucket.
    const ROWS: [Option<u32>; 11] = [
        Some(1),
        Some(1),
        Some(0),
        None,
        Some(1),
        Some(1),
        Some(5),
        Some(0),
        Some(1),
        Some(1),
        Some(1),
    ];

    #[test]
    fn each_row_of_a_bucket_comes_once_and_steps_have_one_bucket() {
        for samples in 1..=9 {
            let order = bucketed(&ROWS, samples, false);
            let (rows, fillings) = order.rows(3, Epoch(1)).unwrap();
            assert_eq!(rows.len() as u64, order.positions().unwrap());
            let is_filling =
                |at: u64| fillings.iter().any(|filling| filling.positions.contains(&at));
            let mut once: Vec<u32> =
                (0..).zip(&rows).filter(|(at, _)| !is_filling(*at)).map(|(_, row)| *row).collect();
            assert_eq!(once.len() as u64, order.rows_once(rows.len() as u64));
            once.sort_unstable();
            assert_eq!(once, [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
            for step in rows.chunks(samples as usize) {
                let bucket = ROWS[step[0] as usize];
                assert!(step.iter().all(|row| ROWS[*row as usize] == bucket), "{step:?}");
            }
        }
    }

    #[test]
    fn the_rest_is_left_out_other_rows_in_each_epoch() {
        let order = bucketed(&ROWS, 3, true);
        assert_eq!(order.positions().unwrap(), 6);
        let mut seen = [false; 11];
        for epoch in 0..20 {
            let (rows, fillings) = order.rows(0, Epoch(epoch)).unwrap();
            assert!(rows.len() == 6 && fillings.is_empty());
            rows.iter().for_each(|row| seen[*row as usize] = true);
        }
        let of_bucket_1 = ROWS.map(|bucket| bucket == Some(1));
        assert_eq!(seen, of_bucket_1);
    }

    #[test]
    fn steps_are_shuffled_and_differ_by_epoch_and_seed() {
        let of_rows: Vec<_> = (0..400).map(|row| Some(row / 100)).collect();
        let order = bucketed(&of_rows, 4, false);
        let rows = |seed, epoch| order.rows(seed, Epoch(epoch)).unwrap().0;
        assert_eq!(rows(1, 0), rows(1, 0));
        assert!(rows(1, 0) != rows(1, 1) && rows(1, 0) != rows(2, 0));
        let buckets: Vec<u32> = rows(1, 0).chunks(4).map(|step| step[0] / 100).collect();
        let changes = buckets.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(changes > 50, "{changes} changes in 100 steps of 4 buckets");
    }

    #[test]
    fn another_row_is_of_the_same_bucket() {
        let order = bucketed(&ROWS, 3, false);
        for (row, bucket) in (0..).zip(ROWS) {
            for word in [0, 1, 5, u64::MAX] {
                let other = order.other_row(row, word);
                assert_eq!(other.and_then(|other| ROWS[other as usize]), bucket);
                assert_eq!(other.is_some(), bucket.is_some());
            }
        }
        assert_eq!(order.other_row(11, 0), None);
    }

    #[test]
    fn no_rows_and_no_buckets_are_no_steps() {
        for of_rows in [&[][..], &[None, None]] {
            let order = bucketed(of_rows, 4, false);
            assert_eq!(order.positions().unwrap(), 0);
            assert!(order.rows(0, Epoch(0)).unwrap().0.is_empty());
        }
    }

    #[test]
    fn other_buckets_and_steps_have_other_fingerprints() {
        let prints = [
            bucketed(&ROWS, 3, false),
            bucketed(&ROWS, 4, false),
            bucketed(&ROWS, 3, true),
            bucketed(&ROWS[1..], 3, false),
        ]
        .map(|order| order.fingerprint());
        assert!((1..4).all(|k| !prints[..k].contains(&prints[k])));
        assert_eq!(prints[0], bucketed(&ROWS, 3, false).fingerprint());
    }

    #[test]
    fn a_step_too_large_for_memory_is_an_error() {
        let order = bucketed(&ROWS, u64::MAX, false);
        assert!(order.positions().is_err());
    }
}
