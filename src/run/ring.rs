//! The ring's books: which batches are opened, filled, ready, delivered. No thread, no waiting.
//!
//! The invariants are on top of [`run`](super). Every method is called with the lock held and
//! is short; what it returns to be dropped must be dropped after the lock.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

use super::job::{Finished, Job, Outcome, Run};
use super::stage::Stage;
use super::{Delivery, Phase};
use crate::batch::Lease;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

/// Batches begun and not yet delivered, and how each ended, once it has.
type Ahead = BTreeMap<u64, Option<Outcome>>;

/// The books of all runs.
pub(super) struct Ring<S> {
    runs: Vec<RunState<S>>,
    next_id: u64,
    /// Most batches of a run that are opened and not delivered.
    most_ahead: u64,
}

/// The books of one run.
pub(super) struct RunState<S> {
    run: Arc<Run<S>>,
    /// Batches before this one are begun.
    opened: u64,
    /// No batch from here on is delivered.
    limit: u64,
    /// Batches opened and not yet finished.
    under_way: u64,
    /// Batches with chunks to claim, the oldest first.
    listed: VecDeque<Arc<Job<S>>>,
    ahead: Ahead,
    /// Nobody waits for its batches any more.
    closed: bool,
}

/// What a worker can do next.
pub(super) enum Work<S> {
    /// Fill chunks of a batch.
    Fill(Arc<Job<S>>),
    /// Open a batch: the room and the slot are reserved.
    Open { run: Arc<Run<S>>, batch: u64, lease: Lease },
    /// Nothing: sleep, in this phase.
    Nothing(Phase),
}

/// What the consumer gets.
pub(super) enum Next {
    Ready(Outcome),
    /// All is delivered.
    End,
    /// Batch `batch` is not ready. If it can't even be opened, for want of a slot: how many there
    /// may be.
    Wait {
        batch: u64,
        no_slot: Option<usize>,
    },
}

/// What finishing a batch leads to.
pub(super) struct Settled<S> {
    /// It is one the consumer waits for, or the run is gone: wake who waits.
    pub(super) news: bool,
    /// Of no use any more: drop it after the lock.
    pub(super) surplus: (Ahead, Option<RunState<S>>),
}

/// What is left of a closed run, to be settled without the lock.
pub(super) struct Leftovers<S> {
    pub(super) jobs: VecDeque<Arc<Job<S>>>,
    pub(super) ahead: Ahead,
}

impl<S: Stage> Ring<S> {
    pub(super) fn new(most_ahead: u64) -> Self {
        Self { runs: Vec::new(), next_id: 0, most_ahead }
    }

    /// The number of the next run.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn add(&mut self, run: Arc<Run<S>>) {
        let (first, limit) = run.batches();
        self.runs.push(RunState {
            run,
            opened: first,
            limit,
            under_way: 0,
            listed: VecDeque::new(),
            ahead: Ahead::new(),
            closed: false,
        });
    }

    /// The most urgent work: a chunk of the oldest batch, else a new batch.
    pub(super) fn find(&mut self) -> Work<S> {
        let open = || self.runs.iter().filter(|state| !state.closed);
        let mut listed = open().flat_map(|state| &state.listed);
        if let Some(job) = listed.find(|job| !job.filling.is_exhausted()) {
            return Work::Fill(Arc::clone(job));
        }
        let mut lack = Phase::Idle;
        for state in self.runs.iter_mut().filter(|state| state.wants_to_open()) {
            match state.reserve(self.most_ahead) {
                Work::Nothing(phase) => lack = lack.max(phase),
                work => return work,
            }
        }
        Work::Nothing(lack)
    }

    /// Lists an opened batch, for others to help. Returns for how many there is work.
    pub(super) fn publish(&mut self, job: &Arc<Job<S>>) -> usize {
        let Some(state) = self.state(job.run.id) else { return 0 };
        if state.closed || job.batch >= state.limit {
            job.filling.cancel();
            return 0;
        }
        let place = state.listed.partition_point(|before| before.batch < job.batch);
        state.listed.insert(place, Arc::clone(job));
        state.note_oldest();
        job.filling.chunks() - 1
    }

    /// Takes a batch off the list if no chunk of it is left. The caller holds it, so this drops no
    /// last reference.
    pub(super) fn unlist(&mut self, job: &Arc<Job<S>>) {
        if let Some(state) = self.state(job.run.id) {
            state.listed.retain(|listed| !Arc::ptr_eq(listed, job) || !job.filling.is_exhausted());
            state.note_oldest();
        }
    }

    /// Enters how a batch ended.
    pub(super) fn finish(&mut self, finished: Finished) -> Settled<S> {
        let Finished { run, batch, outcome, is_last } = finished;
        let mut settled = Settled { news: false, surplus: (Ahead::new(), None) };
        let Some(state) = self.state(run) else {
            settled.surplus.0.insert(batch, Some(outcome));
            return settled;
        };
        state.under_way -= 1;
        if state.closed {
            settled.surplus.0.insert(batch, Some(outcome));
            settled.surplus.1 = self.forget(run);
            settled.news = settled.surplus.1.is_some();
            return settled;
        }
        if is_last {
            settled.surplus.0 = state.stop_after(batch);
        }
        // It has no place if it comes after an error or the end.
        match state.ahead.entry(batch) {
            Entry::Occupied(mut place) => {
                place.insert(Some(outcome));
                settled.news = state.deliverable().is_some();
            }
            Entry::Vacant(_) => {
                settled.surplus.0.insert(batch, Some(outcome));
            }
        }
        settled
    }

    /// The next batch of run `id`, if it is ready.
    pub(super) fn deliver(&mut self, id: u64) -> Next {
        let Some(state) = self.state(id) else { return Next::End };
        if let Some(outcome) = state.take_ready() {
            return Next::Ready(outcome);
        }
        match state.ahead.first_key_value() {
            Some((&batch, _)) => Next::Wait { batch, no_slot: None },
            None if state.opened >= state.limit => Next::End,
            None => {
                let pool = &state.run.pool;
                let no_slot = pool.cap().filter(|_| pool.is_exhausted());
                Next::Wait { batch: state.opened, no_slot }
            }
        }
    }

    /// Ends run `id`: nothing of it is begun, handed out or delivered any more.
    pub(super) fn close(&mut self, id: u64) -> Leftovers<S> {
        let Some(state) = self.state(id) else {
            return Leftovers { jobs: VecDeque::new(), ahead: Ahead::new() };
        };
        state.closed = true;
        let jobs = std::mem::take(&mut state.listed);
        jobs.iter().for_each(|job| job.filling.cancel());
        Leftovers { jobs, ahead: std::mem::take(&mut state.ahead) }
    }

    /// Takes run `id` out of the books, if it is closed and nobody works at it.
    pub(super) fn forget(&mut self, id: u64) -> Option<RunState<S>> {
        let place = self.runs.iter().position(|state| state.run.id == id)?;
        let state = &self.runs[place];
        (state.closed && state.under_way == 0).then(|| self.runs.remove(place))
    }

    /// Whether run `id` is in the books.
    pub(super) fn knows(&self, id: u64) -> bool {
        self.runs.iter().any(|state| state.run.id == id)
    }

    /// Hands out no chunk of any run any more.
    pub(super) fn cancel_all(&self) {
        let jobs = self.runs.iter().flat_map(|state| &state.listed);
        jobs.for_each(|job| job.filling.cancel());
    }

    fn state(&mut self, id: u64) -> Option<&mut RunState<S>> {
        self.runs.iter_mut().find(|state| state.run.id == id)
    }
}

impl<S: Stage> RunState<S> {
    fn wants_to_open(&self) -> bool {
        !self.closed && self.opened < self.limit
    }

    /// Room and a slot for the next batch, if there are.
    fn reserve(&mut self, most: u64) -> Work<S> {
        if self.ahead.len() as u64 >= most {
            return Work::Nothing(Phase::Room);
        }
        let Some(lease) = self.run.pool.take() else { return Work::Nothing(Phase::Slot) };
        let batch = self.opened;
        self.opened += 1;
        self.under_way += 1;
        self.ahead.insert(batch, None);
        Work::Open { run: Arc::clone(&self.run), batch, lease }
    }

    /// The number of the batch that can be delivered now. An error is one only when there is
    /// nothing before it, in whichever order batches are delivered.
    fn deliverable(&self) -> Option<u64> {
        let mut ahead = self.ahead.iter();
        let (&oldest, outcome) = ahead.next()?;
        match (outcome, self.run.delivery) {
            (Some(_), _) => Some(oldest),
            (None, Delivery::InOrder) => None,
            (None, Delivery::Unordered) => {
                let is_batch = |outcome: &Option<Outcome>| {
                    matches!(outcome, Some(Outcome::Batch(_) | Outcome::Empty(_)))
                };
                ahead.find(|(_, outcome)| is_batch(outcome)).map(|(&batch, _)| batch)
            }
        }
    }

    fn take_ready(&mut self) -> Option<Outcome> {
        let batch = self.deliverable()?;
        self.ahead.remove(&batch).flatten()
    }

    /// Tells the workers in the midst of a batch whether an older one could use them.
    fn note_oldest(&self) {
        let left = self.listed.iter().find(|job| !job.filling.is_exhausted());
        self.run.oldest.store(left.map_or(u64::MAX, |job| job.batch), Ordering::Relaxed);
    }

    /// Begins nothing after `batch`, and hands out no more of what is begun. Returns what is
    /// finished in vain.
    fn stop_after(&mut self, batch: u64) -> Ahead {
        self.limit = self.limit.min(batch + 1);
        let vain = self.listed.iter().filter(|job| job.batch > batch);
        vain.for_each(|job| job.filling.cancel());
        self.ahead.split_off(&(batch + 1))
    }
}
