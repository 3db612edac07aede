//! The engine's guarantees, in thousands of random orders of its threads.
//!
//! Each scenario runs in `FUSELOOP_SCHEDULES` orders, 2,000 by default: nine in ten at random, the
//! rest with priorities that change three times (which finds bugs that need few but rare switches).
//! Of 100,000 orders, `FUSELOOP_SLICE=3/10` tries the fourth of ten slices; each slice has a fixed
//! seed of its own, so it tries the same orders again.
#![allow(clippy::unwrap_used, reason = "a test that finds something else has failed")]

#[path = "scenarios/work_queue.rs"]
mod work_queue;

use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use fuseloop_counts::{rounds, slice};
use fuseloop_interleavings::batch::{HostBatch, RowsMut, TensorSpec};
use fuseloop_interleavings::faults::{self, Fault};
use fuseloop_interleavings::run::{
    Delivery, Engine, EngineOptions, FillError, LastBatch, OnFailure, Progress, RunError, RunOrder,
    RunRequest, Stage,
};
use fuseloop_interleavings::sample::{Epoch, SampleId, SampleRef, UNKNOWN};
use fuseloop_ops::DType;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::{Arc, mpsc};
use shuttle::{Config, Runner, thread};
use work_queue::{At as AtTask, QueueScenario, StreamsScenario};

/// Runs `scenario` in many orders, or in this process's slice of them.
fn explore(scenario: impl Fn() + Send + Sync + Clone + 'static) {
    let schedules = rounds("FUSELOOP_SCHEDULES");
    match slice("FUSELOOP_SCHEDULES") {
        (0, 1) => explore_in(schedules, None, scenario),
        (slice, of) => explore_in(schedules / of, Some(slice as u64), scenario),
    }
}

/// Runs `scenario` in `schedules` orders, from a fixed seed or from a new random one.
fn explore_in(
    schedules: usize,
    seed: Option<u64>,
    scenario: impl Fn() + Send + Sync + Clone + 'static,
) {
    let few = (schedules / 10).max(1);
    let (random, changing) = match seed {
        None => (RandomScheduler::new(schedules - few), PctScheduler::new(3, few)),
        Some(seed) => (
            RandomScheduler::new_from_seed(seed, schedules - few),
            PctScheduler::new_from_seed(seed, 3, few),
        ),
    };
    Runner::new(random, Config::new()).run(scenario.clone());
    Runner::new(changing, Config::new()).run(scenario);
}

/// Returns a number from 1 to `most`, drawn by the schedule.
fn some(most: usize) -> usize {
    thread_rng().gen_range(1..=most)
}

fn n(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The event at a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Fine,
    Error,
    Panic,
    Skip,
    /// The dataset ends before this sample.
    End,
    /// The sample whose index is 1000 higher replaces this sample.
    Substitute,
}

/// The call in which the event happens.
#[derive(Clone, Copy)]
enum Call {
    Fill(u64),
    Finish(u64),
}

/// Fills a row with its sample's number, in two steps; `finish` adds 1 to each byte.
struct Rows {
    tensors: Vec<TensorSpec>,
    chunk: usize,
    at: fn(u64) -> At,
    finish_at: fn(u64) -> At,
    /// The number of times that each sample was filled.
    filled: Vec<AtomicU64>,
}

const ROW: usize = 2;

impl Rows {
    fn new(chunk: usize) -> Self {
        let tensor = TensorSpec::new("x", DType::U8, [ROW]);
        let filled = (0..64).map(|_| AtomicU64::new(0)).collect();
        Self { tensors: vec![tensor], chunk, at: |_| At::Fine, finish_at: |_| At::Fine, filled }
    }

    fn misbehave(&self, call: Call) -> Result<(), BoxError> {
        let at = match call {
            Call::Fill(sample) => (self.at)(sample),
            Call::Finish(batch) => (self.finish_at)(batch),
        };
        match at {
            At::Fine => Ok(()),
            // Not `panic!`: its hook would print the schedule of each panic.
            At::Panic => resume_unwind(Box::new("planted")),
            _ => Err("planted".into()),
        }
    }

    fn one(&self, sample: SampleId, row: &mut [u8]) -> Result<(), FillError<BoxError>> {
        self.misbehave(Call::Fill(sample.0)).map_err(|source| FillError { sample, source })?;
        let (first, second) = row.split_at_mut(1);
        first[0] = sample.0 as u8;
        thread::yield_now();
        second[0] = sample.0 as u8;
        if let Some(filled) = self.filled.get(sample.0 as usize) {
            filled.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Stage for Rows {
    type Worker = ();
    type Error = BoxError;

    fn outputs(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn chunk(&self) -> NonZeroUsize {
        n(self.chunk)
    }

    fn worker(&self, _watch: Progress) {}

    fn fill(
        &self,
        (): &mut (),
        _epoch: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        let mut rows = rows.output(0).chunks_exact_mut(ROW);
        visits.iter().zip(&mut rows).try_for_each(|(visit, row)| self.one(visit.sample, row))
    }

    fn on_failure(
        &self,
        _: Epoch,
        visit: SampleRef,
        _: u32,
        _: &FillError<Self::Error>,
    ) -> OnFailure {
        match (self.at)(visit.sample.0) {
            At::Skip => OnFailure::Skip,
            At::End => OnFailure::End,
            At::Substitute => {
                OnFailure::Substitute(SampleRef::once(SampleId(visit.sample.0 % 8 + 1000)))
            }
            _ => OnFailure::Fail,
        }
    }

    fn finish(
        &self,
        (): &mut (),
        _epoch: Epoch,
        batch: u64,
        rows: &mut RowsMut<'_>,
    ) -> Result<(), BoxError> {
        self.misbehave(Call::Finish(batch))?;
        rows.output(0).iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        Ok(())
    }
}

/// Uses few workers or, in one schedule of four, many.
fn options() -> EngineOptions {
    let workers = if some(4) == 1 { 3 + some(5) } else { some(3) };
    EngineOptions { workers: n(workers), batches_ahead: n(some(3)), ..EngineOptions::default() }
}

fn engine(options: EngineOptions) -> Engine<Rows> {
    Engine::new(options).unwrap()
}

fn pass(stage: &Arc<Rows>, samples: u64, size: usize) -> RunRequest<Rows> {
    let ids = (0..samples).map(SampleId).collect::<Vec<_>>();
    RunRequest::new(Arc::clone(stage), Epoch(0), Box::new(ids), n(size))
}

/// Asserts that the batch holds `ids`, filled and finished once.
fn assert_holds(batch: &HostBatch, ids: &[u64]) {
    assert!(batch.ids().iter().map(|id| id.0).eq(ids.iter().copied()), "{:?}", batch.ids());
    let expected = ids.iter().flat_map(|&id| [(id as u8).wrapping_add(1); ROW]);
    assert!(batch.bytes("x").unwrap().iter().copied().eq(expected), "{ids:?}");
}

/// Asserts that the batch has the contents of its index among samples `0..samples`.
fn assert_right(batch: &HostBatch, samples: u64, size: usize) {
    let first = batch.index() * size as u64;
    assert_holds(batch, &(first..samples.min(first + size as u64)).collect::<Vec<_>>());
}

fn whole_run() {
    let (engine, stage) = (engine(options()), Arc::new(Rows::new(some(2))));
    let mut held = Vec::new();
    for (index, batch) in engine.start(pass(&stage, 7, 2)).unwrap().enumerate() {
        let batch = batch.unwrap();
        assert_eq!(batch.index(), index as u64);
        assert_right(&batch, 7, 2);
        held.push(batch);
        held.truncate(1);
        assert_right(&held[0], 7, 2);
    }
    drop(engine);
    assert_right(&held[0], 7, 2);
    for (sample, filled) in stage.filled.iter().enumerate() {
        assert_eq!(filled.load(Ordering::Relaxed), u64::from(sample < 7), "sample {sample}");
    }
}

#[test]
fn every_row_is_filled_once_and_every_batch_comes_in_its_place() {
    explore(whole_run);
}

#[test]
fn a_run_that_begins_in_the_midst_gives_the_rest() {
    explore(|| {
        let (engine, stage) = (engine(options()), Arc::new(Rows::new(1)));
        let first_batch = some(5) as u64 - 1;
        let run = engine.start(RunRequest { first_batch, ..pass(&stage, 7, 2) }).unwrap();
        let indices = run.map(|batch| {
            let batch = batch.unwrap();
            assert_right(&batch, 7, 2);
            batch.index()
        });
        assert!(indices.eq(first_batch..4));
    });
}

#[test]
fn a_run_dropped_anywhere_leaves_the_engine_to_the_next() {
    explore(|| {
        let (engine, stage) = (engine(options()), Arc::new(Rows::new(some(2))));
        let mut run = engine.start(pass(&stage, 8, 2)).unwrap();
        (1..some(5)).for_each(|_| assert_right(&run.next().unwrap().unwrap(), 8, 2));
        drop(run);
        let next = engine.start(pass(&stage, 5, 3)).unwrap().map(Result::unwrap);
        assert_eq!(next.inspect(|batch| assert_right(batch, 5, 3)).count(), 2);
    });
}

#[test]
fn an_engine_dropped_while_it_is_read_from_ends_its_reader() {
    explore(|| {
        let (engine, stage) = (engine(options()), Arc::new(Rows::new(some(2))));
        let mut run = engine.start(pass(&stage, 8, 2)).unwrap();
        let reader = thread::spawn(move || {
            let mut read = 0;
            let error = loop {
                match run.next() {
                    Some(Ok(batch)) => assert_right(&batch, 8, 2),
                    Some(Err(error)) => break Some(error),
                    None => break None,
                }
                read += 1;
            };
            assert!(error.is_some() || read == 4, "{read}");
            assert!(error.is_none_or(|error| matches!(error, RunError::Stopped)));
            assert!(run.next().is_none());
        });
        drop(engine);
        reader.join().unwrap();
    });
}

/// Two of eight samples fail: the first error in sample order is reported, whichever happens first.
fn failing(at: fn(u64) -> At, finish_at: fn(u64) -> At, bad_batch: u64, message: &str) {
    let engine = engine(options());
    let stage = Rows { at, finish_at, ..Rows::new(some(2)) };
    let mut run = engine.start(pass(&Arc::new(stage), 8, 2)).unwrap();
    (0..bad_batch).for_each(|_| assert_right(&run.next().unwrap().unwrap(), 8, 2));
    assert_eq!(run.next().unwrap().unwrap_err().to_string(), message);
    assert!(run.next().is_none());
    let next = engine.start(pass(&Arc::new(Rows::new(1)), 4, 2)).unwrap();
    assert_eq!(next.map(Result::unwrap).count(), 2);
}

#[test]
fn the_first_bad_sample_is_told_at_its_batch() {
    const BAD: fn(u64) -> At = |sample| match sample {
        3 => At::Panic,
        4 => At::Error,
        _ => At::Fine,
    };
    explore(|| failing(BAD, |_| At::Fine, 1, "batch 1: sample 3: panic: planted"));
}

#[test]
fn a_batch_that_fails_when_it_is_finished_is_told_in_its_place() {
    const BAD: fn(u64) -> At = |batch| match batch {
        1 => At::Error,
        2 => At::Panic,
        _ => At::Fine,
    };
    explore(|| failing(|_| At::Fine, BAD, 1, "batch 1: planted"));
}

#[test]
fn damaged_rows_are_left_out_or_replaced_the_same_in_every_order() {
    const AT: fn(u64) -> At = |sample| match sample {
        // A whole batch, the first and the last row of a batch, and other rows.
        2 | 3 | 4 | 6 | 9 => At::Skip,
        7 | 8 => At::Substitute,
        _ => At::Fine,
    };
    explore(|| {
        let engine = engine(options());
        let stage = Arc::new(Rows { at: AT, ..Rows::new(some(3)) });
        let mut run = engine.start(pass(&stage, 12, 2)).unwrap();
        for (index, ids) in
            [(0, &[0, 1][..]), (2, &[5]), (3, &[1007]), (4, &[1000]), (5, &[10, 11])]
        {
            let batch = run.next().unwrap().unwrap();
            assert_eq!(batch.index(), index);
            assert_holds(&batch, ids);
        }
        assert!(run.next().is_none());
        assert_eq!((run.skipped(), run.replaced()), (5, 2));
    });
}

/// An order without a known number of samples.
struct Endless;

impl RunOrder for Endless {
    fn samples(&self) -> u64 {
        UNKNOWN
    }

    fn visits(&self, positions: Range<u64>, visits: &mut Vec<SampleRef>) {
        visits.extend(positions.map(|position| SampleRef::once(SampleId(position))));
    }
}

/// The dataset ends after 5 samples, or after 6, which fill whole batches. One sample is damaged.
fn ending(delivery: Delivery, last: LastBatch) {
    const AFTER: [fn(u64) -> At; 2] = [
        |sample| match sample {
            5.. => At::End,
            2 => At::Skip,
            _ => At::Fine,
        },
        |sample| if sample >= 6 { At::End } else { At::Fine },
    ];
    let engine = engine(options());
    let which = some(2) - 1;
    let stage = Arc::new(Rows { at: AFTER[which], ..Rows::new(some(3)) });
    let pass = RunRequest::new(stage, Epoch(0), Box::new(Endless), n(2));
    let mut run = engine.start(RunRequest { delivery, last, ..pass }).unwrap();
    assert_eq!((run.remaining(), run.size_hint()), (UNKNOWN, (0, None)));
    let mut seen: Vec<_> = run
        .by_ref()
        .map(|batch| {
            let batch = batch.unwrap();
            assert_holds(&batch, &batch.ids().iter().map(|id| id.0).collect::<Vec<_>>());
            (batch.index(), batch.ids().iter().map(|id| id.0).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(run.remaining(), 0);
    if delivery == Delivery::Unordered {
        seen.sort_unstable();
    }
    let mut wanted = match which {
        0 => vec![(0, vec![0, 1]), (1, vec![3]), (2, vec![4])],
        _ => vec![(0, vec![0, 1]), (1, vec![2, 3]), (2, vec![4, 5])],
    };
    if which == 0 && last == LastBatch::Drop {
        wanted.pop();
    }
    assert_eq!(seen, wanted);
    let next = engine.start(self::pass(&Arc::new(Rows::new(1)), 4, 2)).unwrap();
    assert_eq!(next.map(Result::unwrap).count(), 2);
}

#[test]
fn an_end_found_on_the_way_is_the_same_in_every_order() {
    for last in [LastBatch::Keep, LastBatch::Drop] {
        explore(move || ending(Delivery::InOrder, last));
        explore(move || ending(Delivery::Unordered, last));
    }
}

#[test]
fn out_of_order_every_batch_comes_once_and_an_error_after_all_before_it() {
    const BAD: fn(u64) -> At = |sample| if sample == 7 { At::Error } else { At::Fine };
    explore(|| {
        let engine = engine(options());
        let is_bad = some(2) == 2;
        let at = if is_bad { BAD } else { |_| At::Fine };
        let stage = Arc::new(Rows { at, ..Rows::new(some(2)) });
        let delivery = Delivery::Unordered;
        let run = engine.start(RunRequest { delivery, ..pass(&stage, 10, 2) }).unwrap();
        let mut seen = Vec::new();
        let mut failed = false;
        for batch in run {
            assert!(!failed, "a batch after the error");
            match batch {
                Ok(batch) => {
                    assert_right(&batch, 10, 2);
                    seen.push(batch.index());
                }
                Err(error) => {
                    assert_eq!(error.to_string(), "batch 3: sample 7: planted");
                    failed = true;
                }
            }
        }
        seen.sort_unstable();
        assert_eq!(failed, is_bad);
        assert!(seen.starts_with(&[0, 1, 2]) && !(is_bad && seen.contains(&3)), "{seen:?}");
        assert!(is_bad || seen == [0, 1, 2, 3, 4], "{seen:?}");
    });
}

#[test]
fn at_the_cap_a_batch_dropped_elsewhere_lets_the_run_go_on() {
    explore(|| {
        let max_slots = Some(n(some(2)));
        let engine = engine(EngineOptions { max_slots, ..options() });
        let (send, receive) = mpsc::channel::<HostBatch>();
        let holder = thread::spawn(move || {
            while let Ok(batch) = receive.recv() {
                assert_right(&batch, 7, 2);
            }
        });
        let stage = Arc::new(Rows::new(1));
        for batch in engine.start(pass(&stage, 7, 2)).unwrap() {
            send.send(batch.unwrap()).unwrap();
        }
        drop(send);
        holder.join().unwrap();
        let most = engine.options().max_slots.unwrap().get() as u64;
        assert!(engine.utilization().slots_allocated <= most);
    });
}

#[test]
fn two_runs_share_an_engine() {
    explore(|| {
        let (engine, stage) = (engine(options()), Arc::new(Rows::new(1)));
        let mut first = engine.start(pass(&stage, 6, 2)).unwrap();
        let mut second = engine.start(pass(&stage, 4, 2)).unwrap();
        for _ in 0..2 {
            assert_right(&second.next().unwrap().unwrap(), 4, 2);
            assert_right(&first.next().unwrap().unwrap(), 6, 2);
        }
        assert!(second.next().is_none());
        drop(engine);
        let last = first.next().unwrap();
        assert!(last.is_err() || first.next().is_none());
    });
}

/// Draws a work queue; `at` is what happens at one of its tasks.
fn drawn_queue(at: AtTask) -> QueueScenario {
    let tasks = some(9);
    QueueScenario {
        workers: some(3),
        tasks,
        group: some(3),
        budget: some(4) - 1,
        at: (some(tasks) - 1, at),
        leaves_after: usize::MAX,
    }
}

#[test]
fn results_are_taken_in_order_within_the_budget() {
    explore(|| drawn_queue(AtTask::Fine).run());
}

#[test]
fn the_last_task_ends_a_queue_after_the_results_before_it() {
    explore(|| drawn_queue(AtTask::Last).run());
}

#[test]
fn a_panic_of_a_worker_ends_its_queue() {
    explore(|| drawn_queue(AtTask::Panic).run());
}

#[test]
fn a_queue_whose_consumer_leaves_ends() {
    explore(|| {
        let at = [AtTask::Fine, AtTask::Last, AtTask::Panic][some(3) - 1];
        QueueScenario { leaves_after: some(4) - 1, ..drawn_queue(at) }.run();
    });
}

/// Draws streams that are read ahead.
fn drawn_streams() -> StreamsScenario {
    StreamsScenario {
        workers: some(3),
        streams: some(3),
        items: some(3) - 1,
        capacity: some(3),
        in_turn: some(2) == 1,
        removed_after: some(4),
        panics: None,
    }
}

#[test]
fn streams_that_are_read_ahead_come_in_order_and_end() {
    explore(|| drawn_streams().run());
}

#[test]
fn a_panic_of_a_worker_ends_streams_that_are_read_ahead() {
    explore(|| StreamsScenario { panics: Some(some(3) - 1), ..drawn_streams() }.run());
}

/// Returns true if `scenario` fails with `fault` planted.
fn is_found(fault: Fault, scenario: fn()) -> bool {
    faults::plant(Some(fault));
    let explored = catch_unwind(AssertUnwindSafe(|| explore_in(2000, None, scenario)));
    faults::plant(None);
    explored.is_err()
}

#[test]
fn a_planted_lost_wake_up_is_found() {
    assert!(is_found(Fault::LostWakeUp, whole_run));
    assert!(is_found(Fault::LostWakeUp, || drawn_queue(AtTask::Fine).run()));
    assert!(is_found(Fault::LostWakeUp, || drawn_streams().run()));
}

#[test]
fn a_planted_race_for_a_row_is_found() {
    assert!(is_found(Fault::TornAdd, whole_run));
}
