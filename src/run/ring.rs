//! The ring's books: which batches are opened, filled, ready, delivered. No thread, no waiting.
//!
//! The invariants are on top of [`run`](super). Every method is called with the lock held and
//! is short; what it returns to be dropped must be dropped after the lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::RunError;
use super::job::{Finished, Job, Run};
use super::stage::Stage;
use crate::batch::{Batch, Lease};

type Outcome = Result<Batch, RunError>;

/// The books of all runs.
pub(super) struct Ring<S> {
    runs: Vec<RunState<S>>,
    next_id: u64,
    /// Most batches of a run that are opened and not delivered.
    ahead: u64,
}

/// The books of one run.
pub(super) struct RunState<S> {
    run: Arc<Run<S>>,
    /// Batches `0..opened` are begun.
    opened: u64,
    /// Batches `0..delivered` are the user's.
    delivered: u64,
    /// No batch from here on is delivered.
    limit: u64,
    /// Batches opened and not yet finished.
    under_way: u64,
    /// Batches with chunks to claim, the oldest first.
    listed: VecDeque<Arc<Job<S>>>,
    /// How batch `delivered + i` ended, once it has.
    ready: VecDeque<Option<Outcome>>,
    /// Nobody waits for its batches any more.
    closed: bool,
}

/// What a worker can do next.
pub(super) enum Work<S> {
    /// Fill chunks of a batch.
    Fill(Arc<Job<S>>),
    /// Open a batch: the room and the slot are reserved.
    Open { run: Arc<Run<S>>, batch: u64, lease: Lease },
    /// Nothing; `no_room` if only for want of room.
    Nothing { no_room: bool },
}

/// What the consumer gets.
pub(super) enum Delivery {
    Ready(Outcome),
    /// All is delivered.
    End,
    /// Batch `batch` is not ready; `no_slot` if it can't even be opened.
    Wait {
        batch: u64,
        no_slot: bool,
    },
}

/// What finishing a batch leads to.
pub(super) struct Settled<S> {
    /// It is the one the consumer waits for, or the run is gone: wake who waits.
    pub(super) news: bool,
    /// Of no use any more: drop it after the lock.
    pub(super) surplus: (Option<Outcome>, Option<RunState<S>>),
}

/// What is left of a closed run, to be settled without the lock.
pub(super) struct Leftovers<S> {
    pub(super) jobs: VecDeque<Arc<Job<S>>>,
    pub(super) ready: VecDeque<Option<Outcome>>,
}

impl<S: Stage> Ring<S> {
    pub(super) fn new(ahead: u64) -> Self {
        Self { runs: Vec::new(), next_id: 0, ahead }
    }

    /// The number of the next run.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn add(&mut self, run: Arc<Run<S>>) {
        let limit = run.batches();
        self.runs.push(RunState {
            run,
            opened: 0,
            delivered: 0,
            limit,
            under_way: 0,
            listed: VecDeque::new(),
            ready: VecDeque::new(),
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
        let mut no_room = false;
        for state in self.runs.iter_mut().filter(|state| state.wants_to_open()) {
            if let Some(work) = state.reserve(self.ahead) {
                return work;
            }
            no_room = true;
        }
        Work::Nothing { no_room }
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
        let Finished { run, batch, outcome } = finished;
        let mut settled = Settled { news: false, surplus: (None, None) };
        let Some(state) = self.state(run) else {
            settled.surplus.0 = Some(outcome);
            return settled;
        };
        state.under_way -= 1;
        if state.closed {
            settled.surplus = (Some(outcome), self.forget(run));
            settled.news = settled.surplus.1.is_some();
            return settled;
        }
        if outcome.is_err() {
            state.stop_after(batch);
        }
        settled.news = batch == state.delivered;
        // A batch is finished once and before it is delivered, so its place is there.
        let place = (batch - state.delivered) as usize;
        state.ready[place] = Some(outcome);
        settled
    }

    /// The next batch of run `id`, if it is ready.
    pub(super) fn deliver(&mut self, id: u64) -> Delivery {
        let Some(state) = self.state(id) else { return Delivery::End };
        if state.delivered == state.limit {
            return Delivery::End;
        }
        if let Some(outcome) = state.ready.front_mut().and_then(Option::take) {
            state.ready.pop_front();
            state.delivered += 1;
            return Delivery::Ready(outcome);
        }
        let no_slot = state.opened == state.delivered && state.run.pool.is_exhausted();
        Delivery::Wait { batch: state.delivered, no_slot }
    }

    /// Ends run `id`: nothing of it is begun, handed out or delivered any more.
    pub(super) fn close(&mut self, id: u64) -> Leftovers<S> {
        let Some(state) = self.state(id) else {
            return Leftovers { jobs: VecDeque::new(), ready: VecDeque::new() };
        };
        state.closed = true;
        let jobs = std::mem::take(&mut state.listed);
        jobs.iter().for_each(|job| job.filling.cancel());
        Leftovers { jobs, ready: std::mem::take(&mut state.ready) }
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
    fn reserve(&mut self, ahead: u64) -> Option<Work<S>> {
        if self.opened - self.delivered >= ahead {
            return None;
        }
        let lease = self.run.pool.take()?;
        let batch = self.opened;
        self.opened += 1;
        self.under_way += 1;
        self.ready.push_back(None);
        Some(Work::Open { run: Arc::clone(&self.run), batch, lease })
    }

    /// Tells the workers in the midst of a batch whether an older one could use them.
    fn note_oldest(&self) {
        let left = self.listed.iter().find(|job| !job.filling.is_exhausted());
        self.run.oldest.store(left.map_or(u64::MAX, |job| job.batch), Ordering::Relaxed);
    }

    /// Begins nothing after `batch`, and hands out no more of what is begun.
    fn stop_after(&mut self, batch: u64) {
        self.limit = self.limit.min(batch + 1);
        let vain = self.listed.iter().filter(|job| job.batch > batch);
        vain.for_each(|job| job.filling.cancel());
    }
}
