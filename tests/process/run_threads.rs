//! The threads and files of the engine do not stay behind, whenever it is dropped. This test is alone in
//! its process, because it counts all threads.
//!
//! `FUSELOOP_DROPS` is the number of moments at which the engine is dropped, 100 by default.
#![cfg(target_os = "linux")]

use crate::passed_alone;
use std::fs;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fuseloop::batch::TensorSpec;
use fuseloop::internals::run::RowsMut;
use fuseloop::internals::run::{Engine, EngineOptions, FillError, Progress, RunRequest, Stage};
use fuseloop::sample::{Epoch, SampleId, SampleRef};
use fuseloop::source::BoxError;
use fuseloop_counts::rounds;
use fuseloop_ops::DType;

/// A slow stage, with an open file for each worker. Refuses sample `bad`.
struct Slow {
    tensor: TensorSpec,
    bad: u64,
}

impl Stage for Slow {
    type Worker = fs::File;
    type Error = BoxError;

    fn outputs(&self) -> &[TensorSpec] {
        std::slice::from_ref(&self.tensor)
    }

    fn worker(&self, _watch: Progress) -> fs::File {
        fs::File::open("/proc/self/stat").unwrap()
    }

    fn fill(
        &self,
        _file: &mut fs::File,
        _epoch: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        let sample = visits[0].sample;
        if sample.0 == self.bad {
            return Err(FillError { sample, source: "it is bad".into() });
        }
        thread::sleep(Duration::from_micros(sample.0 % 7 * 30));
        rows.output(0).fill(1);
        Ok(())
    }
}

fn count(what: &str) -> usize {
    fs::read_dir(format!("/proc/self/{what}")).unwrap().count()
}

/// A joined thread may stay listed for a moment.
fn assert_soon(what: &str, expected: usize) {
    let begun = Instant::now();
    while count(what) != expected {
        let found = count(what);
        assert!(begun.elapsed() < Duration::from_secs(5), "{found} of {what}, not {expected}");
        thread::yield_now();
    }
}

/// Starts a run, takes some batches, waits a little and drops everything. Returns the duration of the drop.
fn drop_at(round: u64, before: (usize, usize)) -> Duration {
    let mixed = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let tensor = TensorSpec::new("x", DType::U8, [5]);
    let bad = if mixed.is_multiple_of(3) { mixed % 80 } else { u64::MAX };
    let stage = Arc::new(Slow { tensor, bad });
    let workers = NonZeroUsize::new([1, 2, 8][round as usize % 3]).unwrap();
    let engine = Engine::new(EngineOptions { workers, ..EngineOptions::default() }).unwrap();
    assert_soon("task", before.0 + workers.get());
    let size = NonZeroUsize::new(4).unwrap();
    let ids = (0..80).map(SampleId).collect::<Vec<_>>();
    let mut batches = engine.start(RunRequest::new(stage, Epoch(0), Box::new(ids), size)).unwrap();
    // Takes batches up to the end of the run, or past its error.
    let held = batches.by_ref().take((mixed >> 8) as usize % 22).flatten().collect::<Vec<_>>();
    thread::sleep(Duration::from_micros((mixed >> 16) % 1000));
    let begun = Instant::now();
    // Drops in both orders.
    if round.is_multiple_of(2) {
        drop(batches);
        drop(engine);
    } else {
        drop(engine);
        drop(batches);
    }
    let took = begun.elapsed();
    assert_soon("task", before.0);
    assert_soon("fd", before.1);
    assert!(held.iter().all(|batch| batch.bytes("x").unwrap().iter().all(|&x| x == 1)));
    took
}

#[test]
fn nothing_is_left_after_drops_at_random_moments() {
    if passed_alone("run_threads::nothing_is_left_after_drops_at_random_moments") {
        return;
    }
    let drops = rounds("FUSELOOP_DROPS");
    let before = (count("task"), count("fd"));
    let mut times = (0..drops).map(|round| drop_at(round, before)).collect::<Vec<_>>();
    times.sort_unstable();
    // On a busy machine a thread may have to wait to be scheduled.
    let (most, longest) = (times[times.len() * 95 / 100], times[times.len() - 1]);
    assert!(most < Duration::from_millis(100), "{most:?}");
    assert!(longest < Duration::from_millis(500), "{longest:?}");
}
