//! 1,024 ranks with 8 workers each begin an epoch, and 768 ranks finish it: every sample comes exactly once.

use fuseloop::internals::order::SampleCount;
use fuseloop::order::{Order, Ranks, Subset, Uneven};
use fuseloop::sample::{Epoch, SampleId};
use fuseloop::source::{BoxError, Facts, FieldKind, OwnedValue, Record, Source};
use fuseloop::{Batch, Cursor, Error, Loader};
use fuseloop_counts::rounds;
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use std::sync::atomic::{AtomicU64, Ordering};

/// Both worlds have the same global batch.
const WORLDS: [(u32, u64); 2] = [(1024, 96), (768, 128)];
const GLOBAL: u64 = 1024 * 96;
const WORKERS: u64 = 8;

fn rank(number: u32, world: u32) -> Ranks {
    Ranks::new(number, world, Uneven::Exact).unwrap()
}

/// A bit for each sample.
struct Seen(Vec<AtomicU64>);

impl Seen {
    fn of(samples: u64) -> Self {
        Self((0..samples.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Marks a sample, which must not be marked.
    fn mark(&self, sample: u64) {
        let bit = 1 << (sample % 64);
        let before = self.0[(sample / 64) as usize].fetch_or(bit, Ordering::Relaxed);
        assert_eq!(before & bit, 0, "sample {sample} comes twice");
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }
}

#[test]
fn a_thousand_ranks_have_each_sample_once_and_fewer_finish_the_epoch() {
    let samples = rounds::<u64>("FUSELOOP_SAMPLES") + 7;
    let prepared = Order::Permuted.prepare(&SampleCount(samples), Subset::All(samples)).unwrap();
    let steps = samples.div_ceil(GLOBAL);
    let stopped = steps / 2;
    let seen = Seen::of(samples);
    for ((world, batch), steps) in WORLDS.into_iter().zip([0..stopped, stopped..steps]) {
        let shares: Vec<u64> = (0..world)
            .into_par_iter()
            .map(|number| {
                let share = prepared.epoch(1, Epoch(2), Some(&rank(number, world))).unwrap();
                let mut visits = vec![];
                // Each worker makes every eighth batch, and one worker is done before the next one begins.
                for worker in 0..WORKERS {
                    for step in steps.clone().filter(|step| step % WORKERS == worker) {
                        visits.clear();
                        let end = ((step + 1) * batch).min(share.samples());
                        share.visits((step * batch).min(end)..end, &mut visits);
                        let own = visits.iter().filter(|visit| !visit.is_padding);
                        own.for_each(|visit| seen.mark(visit.sample.0));
                    }
                }
                share.samples()
            })
            .collect();
        // All ranks have as many rows, so that none is ahead of others by more than the batches that it has prepared.
        let rows = samples.div_ceil(world.into());
        assert!(shares.iter().all(|&share| share == rows), "{rows} rows");
        assert_eq!(seen.count(), (steps.end * GLOBAL).min(samples));
    }
}

/// Samples that are made when they are read.
struct Numbered(Facts);

impl Source for Numbered {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        Ok(vec![OwnedValue::Int(i64::try_from(sample.0)?)])
    }
}

/// The same by whole loaders, of which each rank has one, and by the cursor that one of them saves.
#[test]
fn loaders_of_a_thousand_ranks_resume_as_others() {
    let samples = 3 * GLOBAL + 12_345;
    let loader = |number, (world, batch): (u32, u64)| {
        let source = Numbered(Facts::new([("number", FieldKind::Int)], samples));
        let builder = Loader::from_source(source)
            .batch_size(batch as usize)
            .order(Order::Permuted)
            .ranks(rank(number, world));
        builder.seed(7).workers(1).build().unwrap()
    };
    let seen = Seen::of(samples);
    let deliver = |batch: Result<Batch, Error>| {
        let batch = batch.unwrap();
        let numbers = batch.tensor::<i64>("number").unwrap();
        let own = numbers.as_slice().iter().zip(batch.mask()).filter(|(_, counts)| *counts);
        own.for_each(|(&number, _)| seen.mark(number as u64));
    };
    let cursors: Vec<Cursor> = (0..WORLDS[0].0)
        .map(|number| {
            let loader = loader(number, WORLDS[0]);
            let mut batches = loader.epoch(0).unwrap();
            batches.by_ref().take(2).for_each(deliver);
            batches.cursor().unwrap()
        })
        .collect();
    assert_eq!(seen.count(), 2 * GLOBAL);
    let at = |cursor: &Cursor| (cursor.epoch, cursor.position);
    assert!(cursors.iter().all(|cursor| at(cursor) == (0, 2 * GLOBAL)));
    for number in 0..WORLDS[1].0 {
        loader(number, WORLDS[1]).resume(&cursors[511]).unwrap().for_each(deliver);
    }
    assert_eq!(seen.count(), samples);
}
