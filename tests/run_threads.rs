//! Threads of the engine do not stay behind. Alone in its process, since it counts all threads.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that finds something else has failed")]

use std::fs;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fuseloop::batch::{RowsMut, TensorSpec};
use fuseloop::run::{Engine, EngineOptions, FillError, LastBatch, Pass, Stage};
use fuseloop::sample::{Epoch, SampleId, Visit};
use fuseloop_ops::DType;

struct Slow(Vec<TensorSpec>);

impl Stage for Slow {
    type Worker = ();

    fn outputs(&self) -> &[TensorSpec] {
        &self.0
    }

    fn worker(&self) {}

    fn fill(
        &self,
        (): &mut (),
        _epoch: Epoch,
        visits: &[Visit],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError> {
        thread::sleep(Duration::from_micros(visits[0].sample.0 % 7 * 30));
        rows.output(0).fill(1);
        Ok(())
    }
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// A joined thread may stay listed for a moment.
fn assert_threads_are(expected: usize) {
    let begun = Instant::now();
    while threads() != expected {
        assert!(begun.elapsed() < Duration::from_millis(500), "{} threads", threads());
        thread::yield_now();
    }
}

#[test]
fn no_thread_is_left_after_200_early_drops() {
    let before = threads();
    let size = NonZeroUsize::new(4).unwrap();
    let tensor = TensorSpec::new("x", DType::U8, [5]);
    let stage = Arc::new(Slow(vec![tensor]));
    for round in 0..200 {
        let workers = NonZeroUsize::new([1, 2, 8][round % 3]).unwrap();
        let engine = Engine::new(EngineOptions { workers, ..EngineOptions::default() }).unwrap();
        assert_threads_are(before + workers.get());
        let mut batches = engine
            .start(Pass {
                stage: Arc::clone(&stage),
                epoch: Epoch(0),
                schedule: Box::new((0..80).map(SampleId).collect::<Vec<_>>()),
                batch_size: size,
                last: LastBatch::Keep,
            })
            .unwrap();
        let held = batches.by_ref().take(round % 21).collect::<Result<Vec<_>, _>>().unwrap();
        let begun = Instant::now();
        // In one order and in the other.
        if round.is_multiple_of(2) {
            drop(batches);
            drop(engine);
        } else {
            drop(engine);
            drop(batches);
        }
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
        assert_threads_are(before);
        assert!(held.iter().all(|batch| batch.bytes("x").unwrap().iter().all(|&x| x == 1)));
    }
}
