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
//! | cost | at most 4 bytes a sample and 4 a bucket held; in an epoch 4 more a sample and 12 a step |
//!
//! Ranks take turns at the rows of a step, so all of them have the same bucket at the same step. A step that is not full
//! takes the positions of a full one: positions, and with them cursors, are the same for any number of ranks.

use super::groups::Groups;
use super::memory::reserved;
use super::random::{generator, shuffle};
use super::{Ranks, Subset};
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

/// Returns one bucket for all samples of a subset: those of images of one size.
pub(crate) fn one_bucket(subset: &Subset) -> Result<Vec<Option<u32>>, Error> {
    let mut buckets = reserved(subset.len())?;
    buckets.resize(subset.len() as usize, Some(0));
    Ok(buckets)
}

/// The rows of an epoch, in steps of one bucket each.
#[derive(Debug)]
pub(super) struct StepRows {
    /// The rows, bucket by bucket, shuffled in each.
    rows: Vec<u32>,
    /// The steps, in the order of the epoch.
    steps: Vec<Step>,
    /// The number of positions of a step.
    positions: u64,
}

/// A step of an epoch, by indices of rows: those of the bucket, and the first of the step.
#[derive(Clone, Copy, Debug)]
struct Step {
    start: u32,
    first: u32,
    end: u32,
}

impl StepRows {
    /// Returns the rows, bucket by bucket.
    pub(super) fn listed(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the indices of the rows that the steps have of their own, in the order of the epoch.
    pub(super) fn own_places(&self) -> impl Iterator<Item = u64> + '_ {
        self.steps.iter().flat_map(|step| {
            let first = u64::from(step.first);
            first..first.saturating_add(self.positions).min(step.end.into())
        })
    }

    /// Returns the index of the row at a position, and how often the rows of its bucket have come when it comes: not at
    /// all, unless the row only fills the step.
    pub(super) fn place(&self, position: u64) -> (u64, u32) {
        let (Step { start, first, end }, at) = self.step(position);
        let own = u64::from(end - first);
        if at < own {
            return (u64::from(first) + at, 0);
        }
        let (filling, rows) = (at - own, u64::from(end - start));
        let times = u32::try_from(filling / rows + 1).unwrap_or(u32::MAX);
        (u64::from(start) + filling % rows, times)
    }

    /// Returns the index of the last row that a step has of its own, at or before a position.
    pub(super) fn own_place(&self, position: u64) -> u64 {
        let (Step { first, end, .. }, at) = self.step(position);
        u64::from(first).saturating_add(at).min(u64::from(end - 1))
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<u32>() + self.steps.capacity() * size_of::<Step>()
    }

    /// Returns the step of a position, and the position in it.
    fn step(&self, position: u64) -> (Step, u64) {
        (self.steps[(position / self.positions) as usize], position % self.positions)
    }
}

impl Bucketed {
    /// Groups the rows by their buckets; `None` for a row that is left out.
    pub(super) fn new(of_rows: &[Option<u32>], steps: Steps) -> Result<Self, Error> {
        let steps = Steps { samples: steps.samples.max(1), ..steps };
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
        let (steps, samples) = (self.count(), self.steps.samples);
        steps.checked_mul(samples).ok_or_else(|| {
            fail!(
                Parameter,
                "order {NAME}: {steps} steps of {samples} samples can't be counted: take a smaller batch size"
            )
        })
    }

    /// Returns the number of steps of an epoch.
    fn count(&self) -> u64 {
        let Steps { samples, drops_rest } = self.steps;
        let steps = |bucket: u32| {
            let rows = self.bucket_rows(bucket);
            if drops_rest { rows / samples } else { rows.div_ceil(samples) }
        };
        (0..self.len).map(steps).sum()
    }

    /// Describes the steps.
    pub(super) fn described_steps(&self) -> String {
        let Steps { samples, drops_rest } = self.steps;
        let rest = if drops_rest { ", without the rest of each bucket" } else { "" };
        format!("{samples} samples a step{rest}")
    }

    /// Returns the number of rows of an epoch that are no filling.
    pub(super) fn rows_once(&self, positions: u64) -> u64 {
        if self.steps.drops_rest { positions } else { u64::from(self.rows) }
    }

    /// Returns the rows of an epoch, in steps.
    pub(super) fn rows(&self, seed: u64, epoch: Epoch) -> Result<StepRows, Error> {
        let mut rng = generator(seed, epoch, NAME);
        let mut rows: Vec<u32> = reserved(u64::from(self.rows))?;
        rows.extend((0..self.rows).map(|index| self.buckets.row(index)));
        let Steps { samples: positions, drops_rest } = self.steps;
        let mut steps = reserved(self.count())?;
        for bucket in 0..self.len {
            let Range { start, end } = self.buckets.indices(bucket);
            shuffle(&mut rng, &mut rows[start as usize..end as usize]);
            let mut rest = end - start;
            while rest > 0 && !(drops_rest && u64::from(rest) < positions) {
                steps.push(Step { start, first: end - rest, end });
                rest = rest.saturating_sub(u32::try_from(positions).unwrap_or(u32::MAX));
            }
        }
        shuffle(&mut rng, &mut steps);
        Ok(StepRows { rows, steps, positions })
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

    /// The rows of all positions, and for each how often its bucket has come.
    fn listed(order: &Bucketed, seed: u64, epoch: u32) -> Vec<(u32, u32)> {
        let steps = order.rows(seed, Epoch(epoch)).unwrap();
        let row = |position| {
            let (index, times) = steps.place(position);
            let own = steps.own_place(position);
            assert!(own == index || times > 0 && own == steps.own_place(position - 1));
            (steps.listed()[index as usize], times)
        };
        (0..order.positions().unwrap()).map(row).collect()
    }

    fn rows(order: &Bucketed, seed: u64, epoch: u32) -> Vec<u32> {
        listed(order, seed, epoch).into_iter().map(|(row, _)| row).collect()
    }

    #[test]
    fn each_row_of_a_bucket_comes_once_and_steps_have_one_bucket() {
        for samples in 1..=9 {
            let order = bucketed(&ROWS, samples, false);
            let rows = listed(&order, 3, 1);
            let own = rows.iter().filter(|(_, times)| *times == 0);
            let mut once: Vec<u32> = own.map(|(row, _)| *row).collect();
            assert_eq!(once.len() as u64, order.rows_once(rows.len() as u64));
            once.sort_unstable();
            assert_eq!(once, [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
            let mut visits = rows.clone();
            visits.sort_unstable();
            visits.dedup();
            assert_eq!(visits.len(), rows.len(), "a row that comes again comes another time");
            for step in rows.chunks(samples as usize) {
                let bucket = ROWS[step[0].0 as usize];
                assert!(step.iter().all(|(row, _)| ROWS[*row as usize] == bucket), "{step:?}");
                assert!(step.is_sorted_by_key(|(_, times)| *times));
            }
        }
    }

    #[test]
    fn the_rest_is_left_out_other_rows_in_each_epoch() {
        let order = bucketed(&ROWS, 3, true);
        assert_eq!(order.positions().unwrap(), 6);
        let mut seen = [false; 11];
        for epoch in 0..20 {
            let rows = listed(&order, 0, epoch);
            assert!(rows.len() == 6 && rows.iter().all(|(_, times)| *times == 0));
            rows.iter().for_each(|(row, _)| seen[*row as usize] = true);
        }
        let of_bucket_1 = ROWS.map(|bucket| bucket == Some(1));
        assert_eq!(seen, of_bucket_1);
    }

    #[test]
    fn steps_are_shuffled_and_differ_by_epoch_and_seed() {
        let of_rows: Vec<_> = (0..400).map(|row| Some(row / 100)).collect();
        let order = bucketed(&of_rows, 4, false);
        let rows = |seed, epoch| rows(&order, seed, epoch);
        assert_eq!(rows(1, 0), rows(1, 0));
        assert!(rows(1, 0) != rows(1, 1) && rows(1, 0) != rows(2, 0));
        let buckets: Vec<u32> = rows(1, 0).chunks(4).map(|step| step[0] / 100).collect();
        let changes = buckets.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(changes > 50, "{changes} changes in 100 steps of 4 buckets");
    }

    /// 300 buckets of few rows in steps of 2^24: more positions than a list could have.
    #[test]
    fn memory_is_that_of_rows_and_steps_not_of_positions() {
        let of_rows: Vec<_> = (0..1000).map(|row| Some(row % 300)).collect();
        let order = bucketed(&of_rows, 1 << 24, false);
        assert_eq!(order.positions().unwrap(), 300 << 24);
        let steps = order.rows(0, Epoch(0)).unwrap();
        assert!(steps.bytes() <= 1000 * 4 + 300 * 12, "{}", steps.bytes());
        let (index, times) = steps.place((1 << 24) - 1);
        assert!(times >= (1 << 24) / 4 - 1, "{times}");
        let (first, _) = steps.place(0);
        assert_eq!(steps.listed()[index as usize] % 300, steps.listed()[first as usize] % 300);
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
            assert!(order.rows(0, Epoch(0)).unwrap().steps.is_empty());
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
    fn positions_that_can_not_be_counted_are_an_error() {
        let order = bucketed(&ROWS, u64::MAX, false);
        assert!(order.positions().is_err());
    }
}
