//! What the workers and the consumers share, and how they wait for each other.
//!
//! | condition | who waits             | who tells                                             |
//! |-----------|-----------------------|-------------------------------------------------------|
//! | `work`    | workers               | a batch opened, delivered; a slot returned; a run; end |
//! | `news`    | consumers, and closes | a batch that can be delivered; a run, a worker gone    |
//!
//! Nobody polls and nobody spins. A wake-up is a system call, so it is made only if somebody
//! sleeps, which is counted under the lock.

use std::time::Duration;

use super::RunError;
use super::job::{Desk, Finished, Job, Outcome, Run};
use super::meter::{Consumer, Meter};
use super::ring::{Next, Ring, Work};
use super::stage::Stage;
use crate::batch::Batch;
use crate::sync::counter::AtomicU64;
use crate::sync::{Arc, Condvar, Instant, Mutex, MutexGuard, PoisonError};

/// What all threads of an engine share.
pub(super) struct Shared<S> {
    state: Mutex<State<S>>,
    work: Condvar,
    news: Condvar,
    pub(super) patience: Patience,
    pub(super) meters: Vec<Arc<Meter>>,
    pub(super) consumer: Consumer,
    pub(super) batches: AtomicU64,
    pub(super) samples: AtomicU64,
}

/// How long a consumer waits.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) slot: Duration,
    pub(super) stall: Option<Duration>,
}

/// What the lock guards.
struct State<S> {
    ring: Ring<S>,
    /// Workers asleep.
    sleeping: usize,
    /// Threads in `news`.
    waiting: usize,
    /// Workers that have not ended.
    alive: usize,
    stopping: bool,
}

impl<S: Stage> Shared<S> {
    pub(super) fn new(workers: usize, ahead: u64, patience: Patience) -> Self {
        let (ring, born) = (Ring::new(ahead), Instant::now());
        Self {
            state: Mutex::new(State { ring, sleeping: 0, waiting: 0, alive: 0, stopping: false }),
            work: Condvar::new(),
            news: Condvar::new(),
            patience,
            meters: (0..workers).map(|_| Arc::new(Meter::new(born))).collect(),
            consumer: Consumer::new(born),
            batches: AtomicU64::new(0),
            samples: AtomicU64::new(0),
        }
    }

    /// Nothing that can panic for a user's reason runs under the lock: it can't be poisoned.
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a thread that is about to start, so that none is forgotten in between.
    pub(super) fn enlist(&self) {
        self.lock().alive += 1;
    }

    /// Notes that a thread has ended, or never began.
    pub(super) fn discharge(&self) {
        self.lock().alive -= 1;
        self.news.notify_all();
    }

    /// Enters a new run, numbered by the ring, and has every worker look.
    pub(super) fn begin(&self, run: impl FnOnce(u64) -> Run<S>) -> u64 {
        let mut state = self.lock();
        let id = state.ring.next_id();
        state.ring.add(Arc::new(run(id)));
        self.wake(&state, usize::MAX);
        id
    }

    /// Whether every thread has ended, or is about to.
    pub(super) fn is_over(&self) -> bool {
        self.lock().alive == 0
    }

    /// Wakes up to `count` workers that sleep.
    fn wake(&self, state: &State<S>, count: usize) {
        match count.min(state.sleeping) {
            0 => {}
            all if all == state.sleeping => self.work.notify_all(),
            some => (0..some).for_each(|_| self.work.notify_one()),
        }
    }

    fn tell(&self, state: &State<S>) {
        if state.waiting > 0 {
            self.news.notify_all();
        }
    }

    /// Has every worker look again: there is a new run, or a slot came back.
    pub(super) fn wake_all(&self) {
        let state = self.lock();
        self.wake(&state, usize::MAX);
    }

    /// Enters a finished batch. What is of no use any more is dropped after the lock.
    pub(super) fn settle(&self, finished: Finished) {
        let mut state = self.lock();
        let settled = state.ring.finish(finished);
        if settled.news {
            self.tell(&state);
        }
        drop(state);
        drop(settled.surplus);
    }

    /// Gives up a share in a batch; the last to do so finishes it.
    pub(super) fn retire(&self, job: Arc<Job<S>>, desk: &mut Desk<S>) {
        self.lock().ring.unlist(&job);
        if let Some(job) = Arc::into_inner(job) {
            self.settle(job.finish(desk));
        }
    }

    /// Waits for work; `None` when the engine stops.
    pub(super) fn find(&self, meter: &Meter) -> Option<Work<S>> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            match state.ring.find() {
                Work::Nothing(phase) => meter.phase(phase),
                work => return Some(work),
            }
            state.sleeping += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
    }

    /// Lists an opened batch and wakes those that can help.
    pub(super) fn publish(&self, job: &Arc<Job<S>>) {
        let mut state = self.lock();
        let helpers = state.ring.publish(job);
        if state.stopping {
            job.filling.cancel();
        }
        self.wake(&state, helpers);
    }

    /// Waits for the next batch of run `id`; `None` after the last. Batches without rows are
    /// `passed` over.
    pub(super) fn deliver(&self, id: u64, passed: &mut Passed) -> Option<Result<Batch, RunError>> {
        let begun = Instant::now();
        let mut waiting_for = None;
        let mut state = self.lock();
        let outcome = loop {
            let wait = match state.ring.deliver(id) {
                Next::End => break None,
                Next::Ready(outcome) => {
                    self.wake(&state, 1);
                    match outcome {
                        Outcome::Batch(batch) => break Some(Ok(batch)),
                        Outcome::Error(error) => break Some(Err(error)),
                        Outcome::Empty(skipped) => passed.add(skipped),
                    }
                    continue;
                }
                Next::Wait { .. } if state.stopping || state.alive == 0 => {
                    break Some(Err(RunError::Stopped));
                }
                Next::Wait { batch, no_slot } => Wait { batch, no_slot },
            };
            let left = match self.patience_left(wait, begun.elapsed()) {
                Ok(left) => left,
                Err(error) => break Some(Err(error)),
            };
            waiting_for = Some(wait.batch);
            state = self.wait_for_news(state, left);
        };
        drop(state);
        if let Some(batch) = waiting_for {
            self.consumer.note(begun, batch);
        }
        outcome
    }

    /// How much longer a consumer waits; `None` is for ever.
    fn patience_left(&self, on: Wait, waited: Duration) -> Result<Option<Duration>, RunError> {
        let Wait { batch, no_slot } = on;
        let Patience { slot, stall } = self.patience;
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

    /// Sleeps until something is told, or `longest` is over.
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

    /// Ends run `id` and waits, but not for ever, until nobody works at it.
    pub(super) fn close(&self, id: u64, longest: Duration) {
        let leftovers = self.lock().ring.close(id);
        drop(leftovers.ahead);
        for job in leftovers.jobs {
            // Where a worker still holds the batch, the worker finishes it.
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

    /// Tells all threads to end and waits, but not for ever, until they have.
    pub(super) fn stop(&self, longest: Duration) {
        let begun = Instant::now();
        let mut state = self.lock();
        state.stopping = true;
        state.ring.cancel_all();
        self.wake(&state, usize::MAX);
        self.tell(&state);
        while state.alive > 0 && begun.elapsed() < longest {
            state = self.wait_for_news(state, Some(longest.saturating_sub(begun.elapsed())));
        }
    }
}

/// What a consumer waits for: see [`Next::Wait`].
#[derive(Clone, Copy)]
struct Wait {
    batch: u64,
    no_slot: Option<usize>,
}

/// Batches that were not delivered since they lost all their rows.
#[derive(Default)]
pub(super) struct Passed {
    pub(super) batches: u64,
    /// Their rows.
    pub(super) skipped: u64,
}

impl Passed {
    fn add(&mut self, skipped: u64) {
        self.batches += 1;
        self.skipped += skipped;
    }
}
