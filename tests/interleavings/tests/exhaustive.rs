//! The engine's guarantees, in every order of its threads up to a number of preemptions.
//!
//! A preemption is a switch away from a thread that could continue; switches at a wait are free.
//! The tests try all orders of two workers and a reader with at most `FUSELOOP_PREEMPTIONS`
//! preemptions (1 by default, 2 in the slow tier) for each scenario: a run that completes, one that
//! ends with an error or a panic, one that is dropped early, and an engine dropped during a run. Most
//! concurrency bugs need no more than two preemptions (Musuvathi and Qadeer, PLDI 2007). With 3 the scenarios have
//! millions of orders: `FUSELOOP_SLICE=2/8` tries the third of eight slices of them, so that
//! several machines can share the work.
//!
//! The orders are interleavings of operations that all threads see at once, as in `engine.rs`.
//! Effects of weak memory are not covered, and need not be: without a lock, threads decide only by
//! the next chunk of a batch (a read-modify-write, which always sees the newest value), by the flag
//! that chunks were cut off (read by the last owner of the batch, which the count of the batch's
//! owners orders after all others), and by the oldest batch with work (a hint: a thread misled by
//! the hint looks again under the lock). Everything else is under the ring's lock. So a model
//! checker of weak memory such as loom would find the same orders; loom has no `Weak` references
//! and no [`Arc::into_inner`], by which the engine decides which thread finishes a batch.
#![allow(clippy::unwrap_used, reason = "a test that finds something else has failed")]

#[path = "scenarios/work_queue.rs"]
mod work_queue;

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use fuseloop_counts::{rounds, slice};
use fuseloop_interleavings::batch::{HostBatch, RowsMut, TensorSpec};
use fuseloop_interleavings::faults::{self, Fault};
use fuseloop_interleavings::run::{
    Engine, EngineOptions, FillError, Progress, RunError, RunRequest, Stage,
};
use fuseloop_interleavings::sample::{Epoch, SampleId, SampleRef};
use fuseloop_ops::DType;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::sync::Arc;
use shuttle::{Config, Runner, thread};
use work_queue::{At as AtTask, QueueScenario, StreamsScenario};

/// Tries every order with at most `preemptions` preemptions, depth first.
struct Exhaustive {
    preemptions: usize,
    /// The decisions of the current order, from its beginning.
    decisions: Vec<Decision>,
    /// The number of decisions made so far.
    made: usize,
    /// The number of preemptions among the decisions made.
    preempted: usize,
    /// Slice `slice.0` of `slice.1`, selected by the first [`SLICED_BY`] decisions.
    slice: (usize, usize),
    orders: Arc<AtomicU64>,
}

/// The threads that may continue, and the one that does.
struct Decision {
    choices: Vec<TaskId>,
    chosen: usize,
}

/// The number of decisions that select an order's slice.
const SLICED_BY: usize = 60;

impl Exhaustive {
    fn new(preemptions: usize, slice: (usize, usize), orders: &Arc<AtomicU64>) -> Self {
        let orders = Arc::clone(orders);
        Self { preemptions, decisions: vec![], made: 0, preempted: 0, slice, orders }
    }

    /// Returns the threads that may continue: the current thread first, then the others if a switch
    /// is free or preemptions are left.
    fn choices(&self, runnable: &[&Task], current: Option<TaskId>) -> Vec<TaskId> {
        let ids = runnable.iter().map(|task| task.id());
        match current.filter(|current| ids.clone().any(|id| id == *current)) {
            None => ids.collect(),
            Some(current) if self.preempted == self.preemptions => vec![current],
            Some(current) => {
                let others = ids.filter(|id| *id != current);
                std::iter::once(current).chain(others).collect()
            }
        }
    }

    /// Moves on to the next order; false after the last.
    fn advance(&mut self) -> bool {
        while let Some(last) = self.decisions.last_mut() {
            last.chosen += 1;
            if last.chosen < last.choices.len() {
                return true;
            }
            self.decisions.pop();
        }
        false
    }

    /// Returns true if the current order belongs to another slice, by a weighted sum of its first
    /// choices.
    fn is_of_others(&self) -> bool {
        let first = self.decisions.iter().take(SLICED_BY);
        let sum = first.zip(1..).map(|(decision, index)| decision.chosen * index).sum::<usize>();
        self.made == SLICED_BY && sum % self.slice.1 != self.slice.0
    }
}

impl Scheduler for Exhaustive {
    fn new_execution(&mut self) -> Option<Schedule> {
        let is_first = self.orders.load(Ordering::Relaxed) == 0;
        if !is_first && !self.advance() {
            return None;
        }
        self.orders.fetch_add(1, Ordering::Relaxed);
        (self.made, self.preempted) = (0, 0);
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        _is_yielding: bool,
    ) -> Option<TaskId> {
        if self.is_of_others() {
            return None;
        }
        let choices = self.choices(runnable, current);
        if self.made == self.decisions.len() {
            self.decisions.push(Decision { choices, chosen: 0 });
        } else {
            assert_eq!(self.decisions[self.made].choices, choices, "the scenario is not the same");
        }
        let Decision { choices, chosen } = &self.decisions[self.made];
        let next = choices[*chosen];
        let could_go_on = current.is_some_and(|current| choices.contains(&current));
        self.preempted += usize::from(could_go_on && current != Some(next));
        self.made += 1;
        Some(next)
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("a scenario whose orders are all tried draws no numbers")
    }
}

/// Tries every order of a scenario, or this process's slice of them.
fn explore(name: &str, scenario: impl Fn() + Send + Sync + 'static) {
    let preemptions = rounds("FUSELOOP_PREEMPTIONS");
    let orders = explore_in(preemptions, slice("FUSELOOP_PREEMPTIONS"), scenario);
    println!("{name}: {orders} orders with at most {preemptions} preemptions");
}

fn explore_in(
    preemptions: usize,
    slice: (usize, usize),
    scenario: impl Fn() + Send + Sync + 'static,
) -> u64 {
    let orders = Arc::new(AtomicU64::new(0));
    let scheduler = Exhaustive::new(preemptions, slice, &orders);
    Runner::new(scheduler, Config::new()).run(scenario);
    orders.load(Ordering::Relaxed)
}

fn n(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// The event at sample 1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Fine,
    Error,
    Panic,
}

/// Fills a row with its sample's number.
struct Rows {
    tensors: Vec<TensorSpec>,
    at: At,
    /// The number of times that each sample was filled.
    filled: Vec<AtomicU64>,
}

impl Rows {
    fn new(at: At) -> Arc<Self> {
        let tensors = vec![TensorSpec::new("x", DType::U8, [1])];
        Arc::new(Self { tensors, at, filled: (0..4).map(|_| AtomicU64::new(0)).collect() })
    }
}

impl Stage for Rows {
    type Worker = ();
    type Error = &'static str;

    fn outputs(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn worker(&self, _watch: Progress) {}

    fn fill(
        &self,
        (): &mut (),
        _epoch: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        let sample = visits[0].sample;
        match self.at {
            At::Error if sample.0 == 1 => {
                return Err(FillError { sample, source: "planted" });
            }
            // Not `panic!`: its hook would print the schedule of each panic.
            At::Panic if sample.0 == 1 => resume_unwind(Box::new("planted")),
            _ => {}
        }
        rows.output(0)[0] = sample.0 as u8 + 1;
        self.filled[sample.0 as usize].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Starts two workers, with one batch begun in addition to the batch that is waited for.
fn engine(max_slots: Option<usize>) -> Engine<Rows> {
    let max_slots = max_slots.map(n);
    let options =
        EngineOptions { workers: n(2), batches_ahead: n(2), max_slots, ..Default::default() };
    Engine::new(options).unwrap()
}

/// Requests batches of two rows, of samples from 0 on.
fn pass(stage: &Arc<Rows>, samples: u64) -> RunRequest<Rows> {
    let ids = (0..samples).map(SampleId).collect::<Vec<_>>();
    RunRequest::new(Arc::clone(stage), Epoch(0), Box::new(ids), n(2))
}

fn assert_right(batch: &HostBatch, samples: u64) {
    let first = batch.index() * 2;
    let expected = first..samples.min(first + 2);
    assert!(batch.ids().iter().map(|id| id.0).eq(expected.clone()), "{:?}", batch.ids());
    assert!(batch.bytes("x").unwrap().iter().map(|&x| u64::from(x)).eq(expected.map(|x| x + 1)));
}

fn whole_run(max_slots: Option<usize>) {
    let (engine, stage) = (engine(max_slots), Rows::new(At::Fine));
    let mut run = engine.start(pass(&stage, 3)).unwrap();
    for index in 0..2 {
        let batch = run.next().unwrap().unwrap();
        assert_eq!(batch.index(), index);
        assert_right(&batch, 3);
    }
    assert!(run.next().is_none());
    drop(run);
    drop(engine);
    let filled = stage.filled.iter().map(|filled| filled.load(Ordering::Relaxed));
    assert!(filled.eq([1, 1, 1, 0]), "a row was lost, or filled twice");
}

#[test]
fn every_row_is_filled_once_and_every_batch_comes_in_its_place() {
    explore("a whole run", || whole_run(None));
}

#[test]
fn a_slot_is_never_used_twice() {
    explore("one slot", || whole_run(Some(1)));
}

/// Checks that the engine continues after a failed run, and ends.
fn failing(at: At, message: &str) {
    let engine = engine(None);
    let mut run = engine.start(pass(&Rows::new(at), 3)).unwrap();
    assert_eq!(run.next().unwrap().unwrap_err().to_string(), message);
    assert!(run.next().is_none());
}

#[test]
fn an_error_comes_at_its_batch_and_ends_the_run() {
    explore("an error", || failing(At::Error, "batch 0: sample 1: planted"));
}

#[test]
fn a_panic_comes_at_its_batch_and_ends_the_run() {
    explore("a panic", || failing(At::Panic, "batch 0: sample 1: panic: planted"));
}

#[test]
fn a_run_that_is_left_ends() {
    explore("a run left", || {
        let (engine, stage) = (engine(None), Rows::new(At::Fine));
        let mut run = engine.start(pass(&stage, 4)).unwrap();
        assert_right(&run.next().unwrap().unwrap(), 4);
        drop(run);
        drop(engine);
    });
}

#[test]
fn an_engine_dropped_while_it_is_read_from_ends_its_reader() {
    explore("an engine dropped", || {
        let (engine, stage) = (engine(None), Rows::new(At::Fine));
        let mut run = engine.start(pass(&stage, 2)).unwrap();
        let reader = thread::spawn(move || match run.next() {
            Some(Ok(batch)) => assert_right(&batch, 2),
            Some(Err(error)) => assert!(matches!(error, RunError::Stopped)),
            None => panic!("a run without an end"),
        });
        drop(engine);
        reader.join().unwrap();
    });
}

/// Two workers, three tasks in groups of two, of which all results but the first have to wait.
const QUEUE: QueueScenario = QueueScenario {
    workers: 2,
    tasks: 3,
    group: 2,
    budget: 0,
    at: (1, AtTask::Fine),
    leaves_after: usize::MAX,
};

#[test]
fn a_work_queue_ends_in_every_order() {
    explore("a work queue", || QUEUE.run());
}

#[test]
fn a_work_queue_with_a_last_task_ends_in_every_order() {
    explore("a last task", || QueueScenario { at: (1, AtTask::Last), ..QUEUE }.run());
}

#[test]
fn a_work_queue_whose_worker_panics_ends_in_every_order() {
    explore("a panic of a worker", || QueueScenario { at: (1, AtTask::Panic), ..QUEUE }.run());
}

#[test]
fn a_work_queue_that_is_left_ends_in_every_order() {
    explore("a queue left", || QueueScenario { leaves_after: 1, ..QUEUE }.run());
}

const STREAMS: StreamsScenario = StreamsScenario {
    workers: 2,
    streams: 2,
    items: 0,
    capacity: 1,
    in_turn: true,
    removed_after: usize::MAX,
    panics: None,
};

#[test]
fn streams_that_are_read_ahead_end_in_every_order() {
    explore("streams in turn", || STREAMS.run());
    explore("streams as they are ready", || StreamsScenario { in_turn: false, ..STREAMS }.run());
}

#[test]
fn streams_whose_worker_panics_or_that_are_removed_end_in_every_order() {
    explore("a panic at a stream", || StreamsScenario { panics: Some(1), ..STREAMS }.run());
    explore("a stream removed", || StreamsScenario { removed_after: 1, ..STREAMS }.run());
}

/// Returns true if some order of `scenario` fails with `fault` planted.
fn is_found(fault: Fault, scenario: fn()) -> bool {
    let planted = move || {
        faults::plant(Some(fault));
        scenario();
    };
    let explored = catch_unwind(AssertUnwindSafe(|| explore_in(1, (0, 1), planted)));
    faults::plant(None);
    explored.is_err()
}

#[test]
fn a_planted_lost_wake_up_is_found() {
    assert!(is_found(Fault::LostWakeUp, || whole_run(None)));
    assert!(is_found(Fault::LostWakeUp, || QUEUE.run()));
}

#[test]
fn a_planted_race_for_a_row_is_found() {
    assert!(is_found(Fault::TornAdd, || whole_run(None)));
}
