//! Errors, panics, stages that hang, and runs that are dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use fuseloop::batch::TensorSpec;
use fuseloop::internals::run::RowsMut;
use fuseloop::internals::run::{
    Engine, EngineOptions, EpochRun, FillError, Progress, RunError, RunRequest, Stage,
};
use fuseloop::sample::{Epoch, SampleId, SampleRef};
use fuseloop::source::BoxError;

use crate::support::{
    At, Numbers, WORKERS, assert_right, engine, ids, n, only, options, pass, quiet_panics, run,
};

/// The number of rows of the runs in which each row fails once.
const ROWS: u64 = 200;

/// Asserts that every batch before `bad` arrives, then the error of `bad` with its sample, then the end,
/// and that no thread is left after the engine is dropped. Returns the duration of that drop.
fn assert_told_at_its_batch(workers: usize, bad: u64, at: At, message: &str) -> Duration {
    let engine = engine(workers);
    let stage = Arc::new(Numbers::new(3).at(only(bad, at)));
    let mut batches = engine.start(pass(&stage, ROWS, 7)).unwrap();
    let position = ids(ROWS).iter().position(|id| id.0 == bad).unwrap() as u64;
    for _ in 0..position / 7 {
        assert_right(&batches.next().unwrap().unwrap(), ROWS, 7);
    }
    let error = batches.next().unwrap().unwrap_err();
    assert_eq!(error.sample(), Some(SampleId(bad)));
    assert_eq!(error.to_string(), format!("batch {}: sample {bad}: {message}", position / 7));
    assert!(batches.next().is_none() && batches.next().is_none());
    assert_eq!(run(&engine, Numbers::new(1), 20, 5).map(Result::unwrap).count(), 4, "reuse");
    drop(batches);
    let begun = Instant::now();
    drop(engine);
    let took = begun.elapsed();
    // Each thread holds the stage until it ends.
    assert_eq!(Arc::strong_count(&stage), 1, "a thread is left");
    took
}

/// Allows for a few slow drops: on a busy machine a thread may have to wait to be scheduled.
fn assert_nearly_all_within_a_second(mut times: Vec<Duration>) {
    times.sort_unstable();
    let most = times[times.len() * 95 / 100];
    assert!(most < Duration::from_secs(1), "{most:?}");
}

#[test]
fn a_panic_at_any_sample_arrives_at_its_batch() {
    quiet_panics();
    for workers in WORKERS {
        let time =
            |bad| assert_told_at_its_batch(workers, bad, At::Panic, &format!("panic: no {bad}"));
        assert_nearly_all_within_a_second((0..ROWS).map(time).collect());
    }
}

#[test]
fn an_error_at_any_sample_arrives_at_its_batch() {
    for workers in WORKERS {
        let time = |bad| assert_told_at_its_batch(workers, bad, At::Error, "it is bad");
        assert_nearly_all_within_a_second((0..ROWS).map(time).collect());
    }
}

/// A stage that refuses odd samples; even ones are slow, so that later errors occur first.
struct ManyBad(Vec<TensorSpec>);

impl Stage for ManyBad {
    type Worker = ();
    type Error = BoxError;

    fn outputs(&self) -> &[TensorSpec] {
        &self.0
    }

    fn worker(&self, _watch: Progress) {}

    fn fill(
        &self,
        (): &mut (),
        _epoch: Epoch,
        visits: &[SampleRef],
        _rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        let sample = visits[0].sample;
        if sample.0 < 3 {
            return Ok(());
        }
        thread::sleep(Duration::from_micros(1000_u64.saturating_sub(sample.0 * 50)));
        Err(FillError { sample, source: "odd".into() })
    }
}

#[test]
fn of_many_errors_always_the_first_is_told() {
    let engine = engine(8);
    for _ in 0..20 {
        let pass = RunRequest::new(
            Arc::new(ManyBad(Vec::new())),
            Epoch(0),
            Box::new((0..64).map(SampleId).collect::<Vec<_>>()),
            n(16),
        );
        let error = engine.start(pass).unwrap().next().unwrap().unwrap_err();
        assert_eq!(error.sample(), Some(SampleId(3)));
    }
}

#[test]
fn an_early_drop_at_any_batch_leaves_the_engine_usable() {
    for workers in WORKERS {
        let engine = engine(workers);
        for taken in 0..=20 {
            let mut batches = run(&engine, Numbers::new(2), 100, 5);
            let first = batches.by_ref().take(taken).map(Result::unwrap).collect::<Vec<_>>();
            assert_eq!(first.len(), taken);
            drop(batches);
        }
        assert_eq!(run(&engine, Numbers::new(2), 100, 5).map(Result::unwrap).count(), 20);
    }
}

#[test]
fn an_early_drop_is_prompt() {
    let engine = engine(2);
    let stage = Arc::new(Numbers::new(1).nap(|_| Duration::from_millis(2)));
    let begun = Instant::now();
    drop(engine.start(pass(&stage, 1_000_000, 1000)).unwrap());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(stage.filled.load(Ordering::Relaxed) < 200);
    let batches = engine.start(pass(&stage, 1_000_000, 1000)).unwrap();
    let begun = Instant::now();
    drop(engine);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let last = batches.last().unwrap();
    assert!(matches!(last, Err(RunError::Stopped)));
}

/// A stage that waits at sample 7 until it is released.
struct Gate {
    reached: AtomicBool,
    released: AtomicBool,
}

impl Gate {
    fn new() -> Arc<Self> {
        let (reached, released) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { reached, released })
    }

    fn stage(self: &Arc<Self>) -> Numbers {
        let gate = Arc::clone(self);
        Numbers::new(4).nap(move |sample| {
            while sample == 7 && !gate.released.load(Ordering::Relaxed) {
                gate.reached.store(true, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
            Duration::ZERO
        })
    }

    fn wait(&self) {
        while !self.reached.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    }

    fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_stage_that_hangs_is_named_with_its_sample_and_phase() {
    let stall_timeout = Some(Duration::from_millis(50));
    let engine = Engine::new(EngineOptions { stall_timeout, ..options(2) }).unwrap();
    let gate = Gate::new();
    let mut batches = run(&engine, gate.stage(), 20, 20);
    gate.wait();
    let text = batches.next().unwrap().unwrap_err().to_string();
    gate.release();
    assert!(text.starts_with("batch 0 is not ready after "), "{text}");
    assert!(text.ends_with("being filled: sample 7: read"), "{text}");
}

#[test]
fn a_wait_with_an_end_loses_no_batch() {
    let (engine, gate) = (engine(2), Gate::new());
    let mut batches = run(&engine, gate.stage(), 20, 20);
    gate.wait();
    for longest in [Duration::ZERO, Duration::from_millis(5)] {
        assert!(batches.next_within(longest).is_pending());
        assert_eq!(batches.remaining(), 1);
    }
    gate.release();
    let next = batches.next_within(Duration::from_secs(600));
    assert!(matches!(next, Poll::Ready(Some(Ok(batch))) if batch.len() == 20));
    assert!(matches!(batches.next_within(Duration::ZERO), Poll::Ready(None)));
}

#[test]
fn a_stall_is_counted_over_all_waits_for_a_batch() {
    let stall_timeout = Some(Duration::from_millis(100));
    let engine = Engine::new(EngineOptions { stall_timeout, ..options(2) }).unwrap();
    let gate = Gate::new();
    let mut batches = run(&engine, gate.stage(), 20, 20);
    gate.wait();
    // No single wait is as long as the limit.
    let answer = std::iter::repeat_with(|| batches.next_within(Duration::from_millis(5)))
        .find(Poll::is_ready);
    gate.release();
    let Some(Poll::Ready(Some(Err(error)))) = answer else { panic!("no error") };
    assert!(error.to_string().starts_with("batch 0 is not ready after "), "{error}");
}

#[test]
fn a_stage_that_never_returns_does_not_hold_up_the_end() {
    let (engine, gate) = (engine(2), Gate::new());
    let batches = run(&engine, gate.stage(), 20, 20);
    gate.wait();
    let begun = Instant::now();
    drop(batches);
    drop(engine);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    gate.release();
}

#[test]
fn a_stage_that_asks_its_own_engine_for_batches_gets_an_error() {
    for workers in WORKERS {
        let own: Arc<OnceLock<Engine<Numbers>>> = Arc::default();
        let begun: Arc<Mutex<Option<EpochRun<Numbers>>>> = Arc::default();
        let (asked, outer) = (Arc::clone(&own), Arc::clone(&begun));
        let said = Arc::new(Mutex::new(vec![]));
        let found = Arc::clone(&said);
        let stage = Numbers::new(3).at(move |_| {
            let refused = asked.get().unwrap().start(pass(&Arc::new(Numbers::new(3)), 20, 7));
            found.lock().unwrap().push(refused.err().unwrap().to_string());
            // The batches of a run that another thread has begun.
            let taken = outer.lock().unwrap().take();
            if let Some(mut batches) = taken {
                let error = batches.next().unwrap().unwrap_err();
                assert!(matches!(error, RunError::OwnThread), "{error}");
            }
            At::Fine
        });
        assert!(own.set(engine(workers)).is_ok());
        *begun.lock().unwrap() = Some(run(own.get().unwrap(), Numbers::new(3), 20, 7));
        let batches = own.get().unwrap().start(pass(&Arc::new(stage), 20, 7)).unwrap();
        assert_eq!(batches.map(Result::unwrap).count(), 3);
        assert_eq!(said.lock().unwrap().len(), 20, "each sample asks once");
        assert!(said.lock().unwrap()[0].contains("use another loader"));
    }
}
