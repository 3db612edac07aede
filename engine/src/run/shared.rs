//! The state that workers and consumers share, and how they wait for each other.
//!
//! | condition | waiting               | woken by                                              |
//! |-----------|-----------------------|-------------------------------------------------------|
//! | `work`    | workers               | a batch opened, delivered; a slot returned; a run; end |
//! | `news`    | consumers, and closes | a batch that can be delivered; a run, a worker gone    |
//!
//! No thread polls or spins. A wake-up is a system call, so it is made only if a thread sleeps; sleeping
//! threads are counted under the lock.

use std::task::Poll;
use std::time::Duration;

use super::RunError;
use super::job::{BatchInFlight, BatchOutcome, FinishedBatch, RunContext, WorkerState};
use super::meter::{ConsumerTimer, WorkerTimer};
use super::ring::{NextBatch, Ring, WorkItem};
use super::stage::Stage;
use crate::batch::HostBatch;
use crate::sync::counter::AtomicU64;
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Arc, Condvar, Instant, Mutex, MutexGuard, PoisonError};

/// The state shared by all threads of an engine.
pub(super) struct EngineShared<S> {
    state: Mutex<State<S>>,
    work: Condvar,
    news: Condvar,
    pub(super) patience: WaitLimits,
    pub(super) meters: Vec<Arc<WorkerTimer>>,
    pub(super) consumer: ConsumerTimer,
    pub(super) batches: AtomicU64,
    pub(super) samples: AtomicU64,
}

/// How long a consumer waits before it gets an error.
#[derive(Clone, Copy)]
pub(super) struct WaitLimits {
    pub(super) slot: Duration,
    pub(super) stall: Option<Duration>,
}

/// The state that the lock guards.
struct State<S> {
    ring: Ring<S>,
    /// The number of sleeping workers.
    sleeping: usize,
    /// The number of threads waiting on `news`.
    waiting: usize,
    /// The number of workers that have not ended.
    alive: usize,
    /// The workers, which may not wait for a batch.
    workers: Vec<ThreadId>,
    stopping: bool,
}

impl<S> State<S> {
    fn check_thread(&self) -> Result<(), RunError> {
        let is_own = self.workers.contains(&thread::current().id());
        if is_own { Err(RunError::OwnThread) } else { Ok(()) }
    }
}

impl<S: Stage> EngineShared<S> {
    pub(super) fn new(workers: usize, ahead: u64, patience: WaitLimits) -> Self {
        let born = Instant::now();
        let state = State {
            ring: Ring::new(ahead),
            sleeping: 0,
            waiting: 0,
            alive: 0,
            workers: vec![],
            stopping: false,
        };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            news: Condvar::new(),
            patience,
            meters: (0..workers).map(|_| Arc::new(WorkerTimer::new(born))).collect(),
            consumer: ConsumerTimer::new(born),
            batches: AtomicU64::new(0),
            samples: AtomicU64::new(0),
        }
    }

    /// No user code runs under the lock, so the lock can't be poisoned by a panic in it.
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a thread before it starts, so that it is counted at all times.
    pub(super) fn thread_started(&self) {
        self.lock().alive += 1;
    }

    /// Lists this thread as a worker.
    pub(super) fn enter(&self) {
        self.lock().workers.push(thread::current().id());
        self.news.notify_all();
    }

    /// Waits until `count` threads are listed as workers, or one of them has ended.
    ///
    /// The standard library ends the process where a new thread finds no memory for what it allocates before its
    /// function is called. Until all of them are past that, none of them may do work that allocates.
    pub(super) fn wait_for_workers(&self, count: usize) {
        let mut state = self.lock();
        while state.workers.len() < count && state.alive >= count {
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Refuses a worker, which must not wait for a batch: it may be the one that the worker fills, or all workers may
    /// wait for batches that none of them fills.
    pub(super) fn check_thread(&self) -> Result<(), RunError> {
        self.lock().check_thread()
    }

    /// Counts a thread that has ended, or could not be started.
    pub(super) fn thread_exited(&self) {
        self.lock().alive -= 1;
        self.news.notify_all();
    }

    /// Adds a run, numbered by the ring, and wakes every worker.
    pub(super) fn begin(&self, run: impl FnOnce(u64) -> RunContext<S>) -> u64 {
        let mut state = self.lock();
        let id = state.ring.next_id();
        state.ring.add(Arc::new(run(id)));
        self.wake(&state, usize::MAX);
        id
    }

    /// Returns true if every thread has ended, or is about to end.
    pub(super) fn is_over(&self) -> bool {
        self.lock().alive == 0
    }

    /// Wakes up to `count` sleeping workers.
    fn wake(&self, state: &State<S>, count: usize) {
        match count.min(state.sleeping) {
            0 => {}
            all if all == state.sleeping => self.work.notify_all(),
            some => (0..some).for_each(|_| self.work.notify_one()),
        }
    }

    fn notify_consumers(&self, state: &State<S>) {
        if state.waiting > 0 {
            self.news.notify_all();
        }
    }

    /// Wakes every worker: there is a new run, or a slot was returned.
    pub(super) fn wake_all(&self) {
        let state = self.lock();
        self.wake(&state, usize::MAX);
    }

    /// Records a finished batch. Batches no longer needed are dropped after the lock is released.
    pub(super) fn settle(&self, finished: FinishedBatch) {
        let mut state = self.lock();
        let settled = state.ring.finish(finished);
        if settled.news {
            self.notify_consumers(&state);
        }
        drop(state);
        drop(settled.surplus);
    }

    /// Releases a reference to a batch; the thread that releases the last one finishes the batch.
    pub(super) fn release(&self, job: Arc<BatchInFlight<S>>, worker_state: &mut WorkerState<S>) {
        self.lock().ring.unlist(&job);
        if let Some(job) = Arc::into_inner(job) {
            self.settle(job.finish(worker_state));
        }
    }

    /// Waits for work; `None` when the engine stops.
    pub(super) fn find(&self, meter: &WorkerTimer) -> Option<WorkItem<S>> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            match state.ring.find() {
                WorkItem::Nothing(phase) => meter.phase(phase),
                work => return Some(work),
            }
            state.sleeping += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
    }

    /// Lists an opened batch and wakes the workers that can help.
    pub(super) fn publish(&self, job: &Arc<BatchInFlight<S>>) {
        let mut state = self.lock();
        let helpers = state.ring.publish(job);
        if state.stopping {
            job.filling.cancel();
        }
        self.wake(&state, helpers);
    }

    /// Waits for the next batch of run `id`, at most `longest`; `None` after the last. Batches without rows
    /// are skipped and counted in `passed`. The consumer has waited for this batch in earlier calls, too,
    /// since `first`. A worker gets an error: see [`check_thread`](Self::check_thread).
    pub(super) fn deliver(
        &self,
        id: u64,
        passed: &mut Passed,
        first: Option<Instant>,
        longest: Option<Duration>,
    ) -> Poll<Option<Result<HostBatch, RunError>>> {
        let begun = Instant::now();
        let first = first.unwrap_or(begun);
        let mut waiting_for = None;
        let mut state = self.lock();
        if let Err(error) = state.check_thread() {
            return Poll::Ready(Some(Err(error)));
        }
        let outcome = loop {
            let wait = match state.ring.deliver(id) {
                NextBatch::End => break Poll::Ready(None),
                NextBatch::Ready(outcome) => {
                    self.wake(&state, 1);
                    match outcome {
                        BatchOutcome::Batch(batch) => break Poll::Ready(Some(Ok(batch))),
                        BatchOutcome::Error(error) => break Poll::Ready(Some(Err(error))),
                        BatchOutcome::Empty(skipped) => passed.add(skipped),
                    }
                    continue;
                }
                NextBatch::Wait { .. } if state.stopping || state.alive == 0 => {
                    break Poll::Ready(Some(Err(RunError::Stopped)));
                }
                NextBatch::Wait { batch, no_slot } => Wait { batch, no_slot },
            };
            let left = match self.patience_left(wait, first.elapsed()) {
                Ok(left) => left,
                Err(error) => break Poll::Ready(Some(Err(error))),
            };
            let asked = longest.map(|longest| longest.saturating_sub(begun.elapsed()));
            if asked.is_some_and(|asked| asked.is_zero()) {
                break Poll::Pending;
            }
            waiting_for = Some(wait.batch);
            state = self.wait_for_news(state, left.into_iter().chain(asked).min());
        };
        drop(state);
        if let Some(batch) = waiting_for {
            passed.waited += self.consumer.note(begun, batch);
        }
        outcome
    }

    /// Returns the number of batches that are finished and not delivered, of all runs.
    pub(super) fn ready(&self) -> usize {
        self.lock().ring.ready()
    }

    /// Returns how much longer a consumer waits; `None` is forever.
    fn patience_left(&self, on: Wait, waited: Duration) -> Result<Option<Duration>, RunError> {
        let Wait { batch, no_slot } = on;
        let WaitLimits { slot, stall } = self.patience;
        if let Some(max_slots) = no_slot.filter(|_| waited >= slot) {
            return Err(RunError::SlotsHeld { batch, max_slots, waited });
        }
        if stall.is_some_and(|stall| waited >= stall) {
            let filling = self.meters.iter().filter_map(|meter| meter.doing()).collect();
            return Err(RunError::Stalled { batch, waited, filling });
        }
        let slot = no_slot.map(|_| slot);
        let limit = slot.into_iter().chain(stall).min();
        Ok(limit.map(|limit| limit.saturating_sub(waited)))
    }

    /// Sleeps until a consumer is notified, or `longest` is over.
    fn wait_for_news<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<S>>,
        longest: Option<Duration>,
    ) -> MutexGuard<'a, State<S>> {
        state.waiting += 1;
        let mut state = match longest {
            None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(longest) => {
                let woken = self.news.wait_timeout(state, longest);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.waiting -= 1;
        state
    }

    /// Closes run `id` and waits, at most `longest`, until no worker holds a batch of it.
    pub(super) fn close(&self, id: u64, longest: Duration) {
        let leftovers = self.lock().ring.close(id);
        drop(leftovers.ahead);
        for job in leftovers.jobs {
            // If a worker still holds the batch, that worker finishes it.
            if let Some(job) = Arc::into_inner(job) {
                self.settle(job.abandon());
            }
        }
        let begun = Instant::now();
        let mut state = self.lock();
        let gone = state.ring.forget(id);
        while state.ring.knows(id) && state.alive > 0 && begun.elapsed() < longest {
            state = self.wait_for_news(state, Some(longest.saturating_sub(begun.elapsed())));
        }
        drop(state);
        drop(gone);
    }

    /// Stops all threads and waits, at most `longest`, until they have ended.
    pub(super) fn stop(&self, longest: Duration) {
        let begun = Instant::now();
        let mut state = self.lock();
        state.stopping = true;
        state.ring.cancel_all();
        self.wake(&state, usize::MAX);
        self.notify_consumers(&state);
        while state.alive > 0 && begun.elapsed() < longest {
            state = self.wait_for_news(state, Some(longest.saturating_sub(begun.elapsed())));
        }
    }
}

/// The batch that a consumer waits for; see [`NextBatch::Wait`].
#[derive(Clone, Copy)]
struct Wait {
    batch: u64,
    no_slot: Option<usize>,
}

/// The wait before a batch was delivered, and the batches before it that were not, because they lost all their rows.
#[derive(Default)]
pub(super) struct Passed {
    /// How long the consumer waited.
    pub(super) waited: Duration,
    /// The number of these batches.
    pub(super) batches: u64,
    /// The number of their rows.
    pub(super) skipped: u64,
}

impl Passed {
    fn add(&mut self, skipped: u64) {
        self.batches += 1;
        self.skipped += skipped;
    }
}
