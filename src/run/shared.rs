//! What the workers and the consumers share, and how they wait for each other.
//!
//! | condition | who waits             | who tells                                             |
//! |-----------|-----------------------|-------------------------------------------------------|
//! | `work`    | workers               | a batch opened, delivered; a slot returned; a run; end |
//! | `news`    | consumers, and closes | the next batch finished; a run gone; a worker gone     |
//!
//! Nobody polls and nobody spins. A wake-up is a system call, so it is made only if somebody
//! sleeps, which is counted under the lock.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::RunError;
use super::headroom::{Clock, Meter};
use super::job::{Desk, Finished, Job, Run};
use super::ring::{Delivery, Ring, Work};
use super::stage::Stage;
use crate::batch::Batch;

/// What all threads of an engine share.
pub(super) struct Shared<S> {
    state: Mutex<State<S>>,
    work: Condvar,
    news: Condvar,
    pub(super) patience: Patience,
    pub(super) meters: Vec<Meter>,
    pub(super) waited_for_room: Clock,
    pub(super) consumer_waited: Clock,
    pub(super) batches: AtomicU64,
    pub(super) samples: AtomicU64,
}

/// How long a consumer waits.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) max_slots: usize,
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
        let ring = Ring::new(ahead);
        Self {
            state: Mutex::new(State { ring, sleeping: 0, waiting: 0, alive: 0, stopping: false }),
            work: Condvar::new(),
            news: Condvar::new(),
            patience,
            meters: (0..workers).map(|_| Meter::new()).collect(),
            waited_for_room: Clock::default(),
            consumer_waited: Clock::default(),
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
    pub(super) fn retire(&self, job: Arc<Job<S>>, desk: &mut Desk<S>, meter: &Meter) {
        self.lock().ring.unlist(&job);
        if let Some(job) = Arc::into_inner(job) {
            self.settle(job.finish(desk, meter));
        }
    }

    /// Waits for work; `None` when the engine stops.
    pub(super) fn find(&self) -> Option<Work<S>> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            let no_room = match state.ring.find() {
                Work::Nothing { no_room } => no_room,
                work => return Some(work),
            };
            let asleep = Instant::now();
            state.sleeping += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
            if no_room {
                self.waited_for_room.add_since(asleep);
            }
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

    /// Waits for the next batch of run `id`; `None` after the last.
    pub(super) fn deliver(&self, id: u64) -> Option<Result<Batch, RunError>> {
        let begun = Instant::now();
        let mut waited = false;
        let mut state = self.lock();
        let outcome = loop {
            let wait = match state.ring.deliver(id) {
                Delivery::End => break None,
                Delivery::Ready(outcome) => {
                    self.wake(&state, 1);
                    break Some(outcome);
                }
                Delivery::Wait { .. } if state.stopping || state.alive == 0 => {
                    break Some(Err(RunError::Stopped));
                }
                Delivery::Wait { batch, no_slot } => Wait { batch, no_slot },
            };
            let left = match self.patience_left(wait, begun.elapsed()) {
                Ok(left) => left,
                Err(error) => break Some(Err(error)),
            };
            waited = true;
            state = self.wait_for_news(state, left);
        };
        drop(state);
        if waited {
            self.consumer_waited.add_since(begun);
        }
        outcome
    }

    /// How much longer a consumer waits; `None` is for ever.
    fn patience_left(&self, on: Wait, waited: Duration) -> Result<Option<Duration>, RunError> {
        let Wait { batch, no_slot } = on;
        let Patience { max_slots, slot, stall } = self.patience;
        if no_slot && waited >= slot {
            return Err(RunError::SlotsHeld { batch, max_slots, waited });
        }
        if stall.is_some_and(|stall| waited >= stall) {
            let filling = self.meters.iter().filter_map(Meter::at).collect();
            return Err(RunError::Stalled { batch, waited, filling });
        }
        let slot = no_slot.then_some(slot);
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
        drop(leftovers.ready);
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

/// What a consumer waits for.
#[derive(Clone, Copy)]
struct Wait {
    batch: u64,
    no_slot: bool,
}
