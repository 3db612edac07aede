//! The memory of a run stays flat and bounded. This test is alone in its process, because it reads the
//! memory of the whole process.
//!
//! `FUSELOOP_BATCHES` is the number of batches that a slow reader takes, 300 by default.
#![cfg(target_os = "linux")]

use crate::passed_alone;
use std::convert::Infallible;
use std::fs;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fuseloop::batch::TensorSpec;
use fuseloop::internals::run::RowsMut;
use fuseloop::internals::run::{Engine, EngineOptions, FillError, Progress, RunRequest, Stage};
use fuseloop::sample::{Epoch, SampleId, SampleRef};
use fuseloop_counts::rounds;
use fuseloop_ops::DType;

const ROW: usize = 64 << 10;
const BATCH: usize = 16;
const WORKERS: usize = 2;

/// A stage that touches every page of its rows.
struct Wide(TensorSpec);

impl Stage for Wide {
    type Worker = ();
    type Error = Infallible;

    fn outputs(&self) -> &[TensorSpec] {
        std::slice::from_ref(&self.0)
    }

    fn worker(&self, _watch: Progress) {}

    fn fill(
        &self,
        (): &mut (),
        _epoch: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        rows.output(0).fill(visits[0].sample.0 as u8);
        Ok(())
    }
}

fn stage() -> Arc<Wide> {
    Arc::new(Wide(TensorSpec::new("x", DType::U8, [ROW])))
}

fn engine() -> Engine<Wide> {
    let workers = NonZeroUsize::new(WORKERS).unwrap();
    Engine::new(EngineOptions { workers, ..EngineOptions::default() }).unwrap()
}

fn pass(stage: &Arc<Wide>, epoch: u32, batches: usize) -> RunRequest<Wide> {
    let ids = (0..(batches * BATCH) as u64).map(SampleId).collect::<Vec<_>>();
    let size = NonZeroUsize::new(BATCH).unwrap();
    RunRequest::new(Arc::clone(stage), Epoch(epoch), Box::new(ids), size)
}

/// The resident bytes of the process without pages of files: those of the program itself are read when its
/// code first runs. `statm` is not used, because it is wrong by some hundred KiB.
fn resident() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

fn mean(values: &[u64]) -> f64 {
    values.iter().map(|&value| value as f64).sum::<f64>() / values.len() as f64
}

#[test]
fn a_slow_reader_does_not_let_memory_grow() {
    if passed_alone("run_memory::a_slow_reader_does_not_let_memory_grow") {
        return;
    }
    let batches = rounds("FUSELOOP_BATCHES");
    let (engine, stage) = (engine(), stage());
    let before = resident();
    let run = engine.start(pass(&stage, 0, batches)).unwrap();
    let mut sizes = Vec::with_capacity(batches);
    for batch in run {
        thread::sleep(Duration::from_millis(1));
        assert_eq!(batch.unwrap().len(), BATCH);
        sizes.push(resident());
    }
    let ahead = engine.options().batches_ahead.get();
    let bound = (ahead + WORKERS + 1) * BATCH * ROW + (16 << 20);
    let peak = sizes.iter().max().unwrap() - before;
    assert!(peak <= bound as u64, "{peak} bytes, {bound} allowed");
    let quarter = batches / 4;
    let (early, late) = (&sizes[quarter..2 * quarter], &sizes[3 * quarter..]);
    let slope = (mean(late) - mean(early)) / (2 * quarter) as f64;
    assert!(slope < 1024.0, "{slope} bytes a batch");
}

#[test]
fn a_hundred_epochs_take_no_more_memory_than_five() {
    if passed_alone("run_memory::a_hundred_epochs_take_no_more_memory_than_five") {
        return;
    }
    let (engine, stage) = (engine(), stage());
    let epochs = |range: std::ops::Range<u32>| {
        for epoch in range {
            let run = engine.start(pass(&stage, epoch, 5)).unwrap();
            assert_eq!(run.map(Result::unwrap).count(), 5);
        }
        resident()
    };
    // Holding all batches once touches every slot that the engine reuses, which is otherwise left to chance.
    let held = engine.start(pass(&stage, 0, 10)).unwrap().collect::<Vec<_>>();
    drop(held);
    let (early, late) = (epochs(0..5), epochs(5..100));
    let grown = late.saturating_sub(early);
    assert!(grown < 1 << 20, "{grown} bytes more");
}
