//! A stage of numbers that fails where configured, and the expected contents of its batches.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fuseloop::batch::{RowsMut, TensorSpec};
use fuseloop::internals::run::{
    Engine, EngineOptions, EpochRun, FillError, HostBatch, OnFailure, Phase, Progress, RunRequest,
    Stage,
};
use fuseloop::sample::{Epoch, SampleId, SampleRef};
use fuseloop::source::BoxError;
use fuseloop_ops::DType;

pub(crate) const WORKERS: [usize; 3] = [1, 2, 8];

pub(crate) fn n(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// The outcome of a visit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Fine,
    Panic,
    Error,
}

/// Returns `what` at one sample, and `Fine` at the others.
pub(crate) fn only(bad: u64, what: At) -> impl Fn(SampleRef) -> At {
    move |visit| if visit.sample.0 == bad { what } else { At::Fine }
}

/// A stage that writes numbers that depend on the epoch and the visit, and fails where configured.
pub(crate) struct Numbers {
    pub(crate) tensors: Vec<TensorSpec>,
    chunk: usize,
    at: Box<dyn Fn(SampleRef) -> At + Send + Sync>,
    nap: Box<dyn Fn(u64) -> Duration + Send + Sync>,
    damaged: Box<dyn Fn(SampleRef, u32) -> OnFailure + Send + Sync>,
    pub(crate) filled: AtomicU64,
    pub(crate) workers_made: AtomicUsize,
}

impl Numbers {
    pub(crate) fn new(chunk: usize) -> Self {
        let tensor = |name: &str, dtype, shape: Vec<usize>| TensorSpec::new(name, dtype, shape);
        Self {
            tensors: vec![tensor("x", DType::U8, vec![13]), tensor("id", DType::I64, vec![1])],
            chunk,
            at: Box::new(|_| At::Fine),
            nap: Box::new(|_| Duration::ZERO),
            damaged: Box::new(|_, _| OnFailure::Fail),
            filled: AtomicU64::new(0),
            workers_made: AtomicUsize::new(0),
        }
    }

    pub(crate) fn at(self, at: impl Fn(SampleRef) -> At + Send + Sync + 'static) -> Self {
        Self { at: Box::new(at), ..self }
    }

    pub(crate) fn nap(self, nap: impl Fn(u64) -> Duration + Send + Sync + 'static) -> Self {
        Self { nap: Box::new(nap), ..self }
    }

    /// Sets the stage's answer for a damaged visit at an attempt.
    pub(crate) fn damaged(
        self,
        damaged: impl Fn(SampleRef, u32) -> OnFailure + Send + Sync + 'static,
    ) -> Self {
        Self { damaged: Box::new(damaged), ..self }
    }

    fn one(
        &self,
        watch: &Progress,
        epoch: Epoch,
        visit: SampleRef,
        row: &mut [u8],
    ) -> Result<(), FillError<BoxError>> {
        let sample = visit.sample;
        watch.start(sample, Phase::Read);
        match (self.at)(visit) {
            At::Fine => {}
            At::Panic => panic!("no {sample}"),
            At::Error => return Err(FillError { sample, source: "it is bad".into() }),
        }
        let nap = (self.nap)(sample.0);
        if !nap.is_zero() {
            thread::sleep(nap);
        }
        watch.phase(Phase::Kernel);
        for (i, byte) in row.iter_mut().enumerate() {
            *byte = pixel(epoch, visit, i);
        }
        self.filled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

pub(crate) fn pixel(epoch: Epoch, visit: SampleRef, i: usize) -> u8 {
    let mixed = (visit.sample.0 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(epoch.0) << 17
        ^ u64::from(visit.repeat) << 40;
    (mixed >> (i % 8 * 8)) as u8 ^ i as u8
}

impl Stage for Numbers {
    type Worker = Progress;
    type Error = BoxError;

    fn outputs(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn chunk(&self) -> NonZeroUsize {
        n(self.chunk)
    }

    fn worker(&self, watch: Progress) -> Progress {
        self.workers_made.fetch_add(1, Ordering::Relaxed);
        watch
    }

    fn fill(
        &self,
        watch: &mut Progress,
        epoch: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        for (visit, row) in visits.iter().zip(rows.output(0).chunks_exact_mut(13)) {
            self.one(watch, epoch, *visit, row)?;
        }
        for (visit, row) in visits.iter().zip(rows.output(1).chunks_exact_mut(8)) {
            row.copy_from_slice(&visit.sample.0.to_ne_bytes());
        }
        Ok(())
    }

    fn on_failure(
        &self,
        _epoch: Epoch,
        visit: SampleRef,
        attempt: u32,
        _error: &FillError<Self::Error>,
    ) -> OnFailure {
        (self.damaged)(visit, attempt)
    }
}

pub(crate) fn options(workers: usize) -> EngineOptions {
    EngineOptions { workers: n(workers), ..EngineOptions::default() }
}

pub(crate) fn engine<S: Stage>(workers: usize) -> Engine<S> {
    Engine::new(options(workers)).unwrap()
}

/// Sample `i * 7 mod samples` at position `i`: the ids are not in
/// order, so that a test detects a wrong order.
pub(crate) fn ids(samples: u64) -> Vec<SampleId> {
    (0..samples).map(|i| SampleId(i * 7 % samples)).collect()
}

pub(crate) fn pass<S>(stage: &Arc<S>, samples: u64, batch_size: usize) -> RunRequest<S> {
    RunRequest::new(Arc::clone(stage), Epoch(1), Box::new(ids(samples)), n(batch_size))
}

pub(crate) fn run(
    engine: &Engine<Numbers>,
    stage: Numbers,
    samples: u64,
    size: usize,
) -> EpochRun<Numbers> {
    engine.start(pass(&Arc::new(stage), samples, size)).unwrap()
}

/// The contents of a batch: its number, its rows, and the bytes of its tensors.
pub(crate) type Whole = (u64, Vec<SampleRef>, Vec<u8>, Vec<u8>);

pub(crate) fn bytes(batch: &HostBatch) -> Whole {
    let tensor = |name| batch.bytes(name).unwrap().to_vec();
    (batch.index(), batch.visits().to_vec(), tensor("x"), tensor("id"))
}

/// Asserts that the rows hold these visits.
pub(crate) fn assert_holds(batch: &HostBatch, expected: &[SampleRef]) {
    assert_eq!(batch.visits(), expected, "batch {}", batch.index());
    assert!(batch.ids().iter().eq(expected.iter().map(|visit| &visit.sample)));
    let x = batch.tensor::<u8>("x").unwrap();
    let id = batch.tensor::<i64>("id").unwrap();
    assert_eq!(x.shape(), [expected.len(), 13]);
    for (i, &visit) in expected.iter().enumerate() {
        assert_eq!(id.as_slice()[i] as u64, visit.sample.0);
        let row = x.row(i).unwrap();
        assert!(row.iter().enumerate().all(|(j, &b)| b == pixel(batch.epoch(), visit, j)));
    }
}

/// Asserts that the rows are those of the batch's position.
pub(crate) fn assert_right(batch: &HostBatch, samples: u64, batch_size: usize) {
    let first = batch.index() as usize * batch_size;
    let expected = ids(samples);
    let expected = &expected[first..expected.len().min(first + batch_size)];
    assert_holds(batch, &expected.iter().map(|&id| SampleRef::once(id)).collect::<Vec<_>>());
}

/// Silences panics of workers: these tests cause thousands.
pub(crate) fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let ours = thread::current().name().is_some_and(|name| name.starts_with("fuseloop-"));
            if !ours {
                loud(info);
            }
        }));
    });
}

/// Pseudo-random numbers, the same ones in each run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}
