//! The stage's work on a batch whose rows are all filled.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuseloop::batch::TensorSpec;
use fuseloop::internals::run::RowsMut;
use fuseloop::internals::run::{FillError, Progress, RunRequest, Stage};
use fuseloop::sample::{Epoch, SampleId, SampleRef};
use fuseloop::source::BoxError;

use crate::support::{At, Numbers, WORKERS, engine, ids, only, pass, pixel, quiet_panics};

/// A stage that adds its batch's number to every byte of "x" of a whole batch, and fails where
/// configured.
struct Finishing {
    numbers: Numbers,
    /// The batch at which the stage fails, and true if it panics.
    fails: Option<(u64, bool)>,
    finished: AtomicU64,
}

impl Finishing {
    fn new(numbers: Numbers, fails: Option<(u64, bool)>) -> Self {
        Self { numbers, fails, finished: AtomicU64::new(0) }
    }
}

impl Stage for Finishing {
    type Worker = Progress;
    type Error = BoxError;

    fn outputs(&self) -> &[TensorSpec] {
        self.numbers.outputs()
    }

    fn chunk(&self) -> NonZeroUsize {
        self.numbers.chunk()
    }

    fn worker(&self, watch: Progress) -> Progress {
        self.numbers.worker(watch)
    }

    fn fill(
        &self,
        watch: &mut Progress,
        epoch: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        self.numbers.fill(watch, epoch, visits, rows)
    }

    fn finish(
        &self,
        _watch: &mut Progress,
        epoch: Epoch,
        batch: u64,
        rows: &mut RowsMut<'_>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.finished.fetch_add(1, Ordering::Relaxed);
        match self.fails {
            Some((at, true)) if at == batch => panic!("no {at}"),
            Some((at, false)) if at == batch => return Err("it is bad".into()),
            _ => {}
        }
        let first = batch as usize * 7;
        let samples = &ids(50)[first..first + rows.len()];
        for (&sample, row) in samples.iter().zip(rows.output(0).chunks_exact_mut(13)) {
            for (i, byte) in row.iter_mut().enumerate() {
                assert_eq!(
                    *byte,
                    pixel(epoch, SampleRef::once(sample), i),
                    "batch {batch} is not filled"
                );
                *byte = byte.wrapping_add(batch as u8 + 1);
            }
        }
        Ok(())
    }
}

#[test]
fn every_batch_is_finished_once_and_whole() {
    for workers in WORKERS {
        for chunk in [1, 3, 7] {
            let engine = engine(workers);
            let stage = Arc::new(Finishing::new(Numbers::new(chunk), None));
            for batch in engine.start(pass(&stage, 50, 7)).unwrap() {
                let batch = batch.unwrap();
                let x = batch.tensor::<u8>("x").unwrap();
                for (row, &sample) in batch.ids().iter().enumerate() {
                    let added = batch.index() as u8 + 1;
                    let expected = (0..13)
                        .map(|i| pixel(Epoch(1), SampleRef::once(sample), i).wrapping_add(added));
                    assert!(x.row(row).unwrap().iter().copied().eq(expected));
                }
            }
            assert_eq!(stage.finished.load(Ordering::Relaxed), 8, "{workers} {chunk}");
        }
    }
}

#[test]
fn what_goes_wrong_in_finishing_arrives_at_its_batch() {
    quiet_panics();
    for workers in WORKERS {
        for bad in 0..8 {
            for panics in [false, true] {
                let engine = engine(workers);
                let stage = Arc::new(Finishing::new(Numbers::new(2), Some((bad, panics))));
                let mut batches = engine.start(pass(&stage, 50, 7)).unwrap();
                for _ in 0..bad {
                    batches.next().unwrap().unwrap();
                }
                let error = batches.next().unwrap().unwrap_err().to_string();
                let message = if panics {
                    format!("batch {bad}: panic after its last sample: no {bad}")
                } else {
                    format!("batch {bad}: it is bad")
                };
                assert_eq!(error, message);
                assert!(batches.next().is_none());
                let good = Arc::new(Finishing::new(Numbers::new(2), None));
                assert_eq!(engine.start(pass(&good, 50, 7)).unwrap().count(), 8, "reuse");
            }
        }
    }
}

#[test]
fn a_batch_with_a_bad_sample_is_not_finished() {
    for at in [At::Error, At::Panic] {
        let engine = engine(1);
        let stage = Arc::new(Finishing::new(Numbers::new(1).at(only(0, at)), None));
        let error = engine.start(pass(&stage, 50, 7)).unwrap().next().unwrap().unwrap_err();
        assert_eq!(error.sample(), Some(SampleId(0)));
        drop(engine);
        assert_eq!(stage.finished.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_batch_is_finished_with_its_number_wherever_the_run_begins() {
    for first_batch in 0..8 {
        let engine = engine(2);
        let stage = Arc::new(Finishing::new(Numbers::new(2), None));
        let run = engine.start(RunRequest { first_batch, ..pass(&stage, 50, 7) }).unwrap();
        // The stage itself compares the rows with the number.
        assert!(run.map(|batch| batch.unwrap().index()).eq(first_batch..8));
    }
}
