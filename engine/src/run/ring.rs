//! The state of the ring: which batches are opened, filled, ready, delivered. No threads, no waiting.
//!
//! The invariants are listed at the top of [`run`](super). Every method is called with the lock held and
//! is short; returned values must be dropped after the lock is released.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

use super::job::{BatchInFlight, BatchOutcome, FinishedBatch, RunContext};
use super::stage::Stage;
use super::{Delivery, Phase};
use crate::batch::Lease;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

/// The batches started and not yet delivered, each with its outcome once finished.
type Ahead = BTreeMap<u64, Option<BatchOutcome>>;

/// The state of all runs.
pub(super) struct Ring<S> {
    runs: Vec<RunState<S>>,
    next_id: u64,
    /// The maximum number of batches of a run that are opened and not delivered.
    most_ahead: u64,
}

/// The state of one run.
pub(super) struct RunState<S> {
    run: Arc<RunContext<S>>,
    /// Batches before this one have been opened.
    opened: u64,
    /// Batches from this one on are not delivered.
    limit: u64,
    /// The number of batches opened and not yet finished.
    under_way: u64,
    /// The batches with unclaimed chunks, the oldest first.
    listed: VecDeque<Arc<BatchInFlight<S>>>,
    ahead: Ahead,
    /// The consumer has dropped the run.
    closed: bool,
}

/// The next work for a worker.
pub(super) enum WorkItem<S> {
    /// Fill chunks of a batch.
    Fill(Arc<BatchInFlight<S>>),
    /// Open a batch; its room and its slot are reserved.
    Open { run: Arc<RunContext<S>>, batch: u64, lease: Lease },
    /// Nothing to do: sleep, in this phase.
    Nothing(Phase),
}

/// The next batch for the consumer.
pub(super) enum NextBatch {
    Ready(BatchOutcome),
    /// All batches are delivered.
    End,
    /// Batch `batch` is not ready. If it can't be opened because no slot is free, `no_slot` is the
    /// maximum number of slots.
    Wait {
        batch: u64,
        no_slot: Option<usize>,
    },
}

/// The effect of finishing a batch.
pub(super) struct Settled<S> {
    /// A batch became deliverable, or the run is gone: wake the waiting consumers.
    pub(super) news: bool,
    /// No longer needed: to be dropped after the lock is released.
    pub(super) surplus: (Ahead, Option<RunState<S>>),
}

/// The rest of a closed run, to be settled without the lock.
pub(super) struct Leftovers<S> {
    pub(super) jobs: VecDeque<Arc<BatchInFlight<S>>>,
    pub(super) ahead: Ahead,
}

impl<S: Stage> Ring<S> {
    pub(super) fn new(most_ahead: u64) -> Self {
        Self { runs: Vec::new(), next_id: 0, most_ahead }
    }

    /// Returns the number of the next run.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn add(&mut self, run: Arc<RunContext<S>>) {
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

    /// Returns the most urgent work: a chunk of the oldest batch, otherwise a new batch.
    pub(super) fn find(&mut self) -> WorkItem<S> {
        let open = || self.runs.iter().filter(|state| !state.closed);
        let mut listed = open().flat_map(|state| &state.listed);
        if let Some(job) = listed.find(|job| !job.filling.is_exhausted()) {
            return WorkItem::Fill(Arc::clone(job));
        }
        let mut lack = Phase::Idle;
        for state in self.runs.iter_mut().filter(|state| state.wants_to_open()) {
            match state.reserve(self.most_ahead) {
                WorkItem::Nothing(phase) => lack = lack.max(phase),
                work => return work,
            }
        }
        WorkItem::Nothing(lack)
    }

    /// Lists an opened batch for other workers. Returns the number of workers that could help.
    pub(super) fn publish(&mut self, job: &Arc<BatchInFlight<S>>) -> usize {
        let Some(state) = self.state(job.run.id) else { return 0 };
        if state.closed || job.batch >= state.limit {
            job.filling.cancel();
            return 0;
        }
        let index = state.listed.partition_point(|before| before.batch < job.batch);
        state.listed.insert(index, Arc::clone(job));
        state.note_oldest();
        job.filling.chunks() - 1
    }

    /// Removes a batch from the list if it has no unclaimed chunk. The caller holds a reference to the
    /// batch, so this drops no last one.
    pub(super) fn unlist(&mut self, job: &Arc<BatchInFlight<S>>) {
        if let Some(state) = self.state(job.run.id) {
            state.listed.retain(|listed| !Arc::ptr_eq(listed, job) || !job.filling.is_exhausted());
            state.note_oldest();
        }
    }

    /// Records how a batch ended.
    pub(super) fn finish(&mut self, finished: FinishedBatch) -> Settled<S> {
        let FinishedBatch { run, batch, outcome, is_last } = finished;
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
        // A batch after an error or after the end has no entry.
        match state.ahead.entry(batch) {
            Entry::Occupied(mut entry) => {
                entry.insert(Some(outcome));
                settled.news = state.deliverable().is_some();
            }
            Entry::Vacant(_) => {
                settled.surplus.0.insert(batch, Some(outcome));
            }
        }
        settled
    }

    /// Returns the next batch of run `id`, if it is ready.
    pub(super) fn deliver(&mut self, id: u64) -> NextBatch {
        let Some(state) = self.state(id) else { return NextBatch::End };
        if let Some(outcome) = state.take_ready() {
            return NextBatch::Ready(outcome);
        }
        match state.ahead.first_key_value() {
            Some((&batch, _)) => NextBatch::Wait { batch, no_slot: None },
            None if state.opened >= state.limit => NextBatch::End,
            None => {
                let pool = &state.run.pool;
                let no_slot = pool.cap().filter(|_| pool.is_exhausted());
                NextBatch::Wait { batch: state.opened, no_slot }
            }
        }
    }

    /// Closes run `id`: no batch of it is opened, filled or delivered any more.
    pub(super) fn close(&mut self, id: u64) -> Leftovers<S> {
        let Some(state) = self.state(id) else {
            return Leftovers { jobs: VecDeque::new(), ahead: Ahead::new() };
        };
        state.closed = true;
        let jobs = std::mem::take(&mut state.listed);
        jobs.iter().for_each(|job| job.filling.cancel());
        Leftovers { jobs, ahead: std::mem::take(&mut state.ahead) }
    }

    /// Removes run `id`, if it is closed and no worker holds a batch of it.
    pub(super) fn forget(&mut self, id: u64) -> Option<RunState<S>> {
        let index = self.runs.iter().position(|state| state.run.id == id)?;
        let state = &self.runs[index];
        (state.closed && state.under_way == 0).then(|| self.runs.remove(index))
    }

    /// Returns true if run `id` is in the ring.
    pub(super) fn knows(&self, id: u64) -> bool {
        self.runs.iter().any(|state| state.run.id == id)
    }

    /// Returns the number of batches that are finished and not delivered.
    pub(super) fn ready(&self) -> usize {
        let ahead = self.runs.iter().flat_map(|state| state.ahead.values());
        ahead.filter(|outcome| matches!(outcome, Some(BatchOutcome::Batch(_)))).count()
    }

    /// Stops handing out chunks of all runs.
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

    /// Reserves room and a slot for the next batch, if available.
    fn reserve(&mut self, most: u64) -> WorkItem<S> {
        if self.ahead.len() as u64 >= most {
            return WorkItem::Nothing(Phase::Room);
        }
        let Some(lease) = self.run.pool.take() else { return WorkItem::Nothing(Phase::Slot) };
        let batch = self.opened;
        self.opened += 1;
        self.under_way += 1;
        self.ahead.insert(batch, None);
        WorkItem::Open { run: Arc::clone(&self.run), batch, lease }
    }

    /// Returns the number of the batch that can be delivered now. An error is delivered only when no
    /// batch before it is left, in either delivery order.
    fn deliverable(&self) -> Option<u64> {
        let mut ahead = self.ahead.iter();
        let (&oldest, outcome) = ahead.next()?;
        match (outcome, self.run.delivery) {
            (Some(_), _) => Some(oldest),
            (None, Delivery::InOrder) => None,
            (None, Delivery::Unordered) => {
                let is_batch = |outcome: &Option<BatchOutcome>| {
                    matches!(outcome, Some(BatchOutcome::Batch(_) | BatchOutcome::Empty(_)))
                };
                ahead.find(|(_, outcome)| is_batch(outcome)).map(|(&batch, _)| batch)
            }
        }
    }

    fn take_ready(&mut self) -> Option<BatchOutcome> {
        let batch = self.deliverable()?;
        self.ahead.remove(&batch).flatten()
    }

    /// Updates the hint that tells workers whether an older batch has unclaimed chunks.
    fn note_oldest(&self) {
        let left = self.listed.iter().find(|job| !job.filling.is_exhausted());
        self.run.oldest.store(left.map_or(u64::MAX, |job| job.batch), Ordering::Relaxed);
    }

    /// Opens no batch after `batch`, and stops handing out chunks of opened ones. Returns their
    /// outcomes, which are no longer needed.
    fn stop_after(&mut self, batch: u64) -> Ahead {
        self.limit = self.limit.min(batch + 1);
        let vain = self.listed.iter().filter(|job| job.batch > batch);
        vain.for_each(|job| job.filling.cancel());
        self.ahead.split_off(&(batch + 1))
    }
}
