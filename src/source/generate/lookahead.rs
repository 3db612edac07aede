//! The state of a run's producers: records generated ahead of the workers that ask for them.
//!
//! A *position* is a row of the run; its *ticket* is the row's sample. The next positions are listed, so
//! that the position of a sample that a worker asks for can be looked up:
//!
//! ```text
//!   taken | in work, ready, listed ...   | not yet looked at
//!         base                           listed_to = the furthest position asked for or begun + horizon
//! ```
//!
//! | state of the record | what happens when a worker asks for it                               |
//! |-----------------|--------------------------------------------------------------------------|
//! | ready           | the worker takes it                                                      |
//! | in progress     | the worker waits for it                                                  |
//! | only listed     | the next free producer begins it, before all others and whatever the capacity |
//! | none of these   | the worker generates it: it was taken before, or is not part of this run |
//!
//! A worker therefore only ever waits for a call of the user's function: there is no deadlock, whatever
//! the capacity, the number of workers and the order in which they ask.
//!
//! Positions that no worker will ask for (the loader ended early, or has the sample from elsewhere) are
//! dropped: when a worker asks for one of batch b, the loader is done with all batches before `b + 1 -
//! batches ahead`. If one of those is asked for after all, it is generated again.

use super::producers::{ProducerTask, Product, QueueState, TakeOutcome};
use crate::sample::SampleId;
use crate::source::{Record, RunPlan, Upcoming};
use fuseloop_engine::work_queue::Claim;
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

/// See the top of the file.
pub(super) struct Lookahead {
    upcoming: Arc<dyn Upcoming>,
    /// The number of positions of the run.
    len: u64,
    /// The largest number of records in progress or ready, not counting those that were asked for while
    /// only listed.
    bound: usize,
    batch_size: u64,
    batches_ahead: u64,
    horizon: u64,
    /// The position of `listed[0]`.
    base: u64,
    listed: VecDeque<Entry>,
    /// The listed positions that no worker has asked for, by sample, in order.
    unasked: HashMap<SampleId, VecDeque<u64>>,
    /// All positions before this one are begun.
    cursor: u64,
    /// The furthest position asked for or begun.
    furthest: u64,
    /// Positions that were asked for before they were begun.
    urgent: VecDeque<u64>,
    /// The number of records in progress or ready.
    held: usize,
    ready: usize,
}

struct Entry {
    sample: SampleId,
    state: State,
    /// True if a worker has asked for it.
    is_asked_for: bool,
}

enum State {
    Listed,
    Making,
    Ready(Product<Record>),
    Taken,
}

/// The number of positions that are listed in one call: asking the order for each alone would be slower.
const LISTED_AT_ONCE: u64 = 256;

impl Lookahead {
    pub(super) fn new(run: &RunPlan, bound: usize) -> Self {
        let (batch_size, batches_ahead) =
            (run.batch_size.max(1) as u64, run.batches_ahead.max(1) as u64);
        Self {
            upcoming: Arc::clone(&run.upcoming),
            len: run.upcoming.samples(),
            bound,
            batch_size,
            batches_ahead,
            // The loader's next request is always within its batches ahead.
            horizon: batch_size.saturating_mul(batches_ahead.saturating_add(1)),
            base: 0,
            listed: VecDeque::new(),
            unasked: HashMap::new(),
            cursor: 0,
            furthest: 0,
            urgent: VecDeque::new(),
            held: 0,
            ready: 0,
        }
    }

    /// Returns the position that a worker that asks for this sample is to take; `None` if it must
    /// generate the record itself. Adds results that are no longer needed to `surplus`.
    pub(super) fn ask(
        &mut self,
        sample: SampleId,
        surplus: &mut Vec<Product<Record>>,
    ) -> Option<u64> {
        self.list();
        let position = self.unlist(sample)?;
        self.furthest = self.furthest.max(position);
        let entry = self.entry(position)?;
        entry.is_asked_for = true;
        if matches!(entry.state, State::Listed) {
            self.urgent.push_back(position);
        }
        self.forget_before(position, surplus);
        Some(position)
    }

    /// The record of a position that was [asked](Self::ask) for.
    pub(super) fn take(&mut self, position: u64) -> TakeOutcome<Option<Product<Record>>> {
        let Some(entry) = self.entry(position) else { return TakeOutcome::None(None) };
        match mem::replace(&mut entry.state, State::Taken) {
            State::Ready(product) => {
                self.held -= 1;
                self.ready -= 1;
                self.drop_taken();
                TakeOutcome::Item(Some(product))
            }
            State::Taken => TakeOutcome::None(None),
            waiting => {
                entry.state = waiting;
                TakeOutcome::Wait
            }
        }
    }

    /// Lists the positions up to the horizon.
    fn list(&mut self) {
        let listed_to = self.base + self.listed.len() as u64;
        let wanted = self.furthest.saturating_add(self.horizon).min(self.len);
        if listed_to >= wanted {
            return;
        }
        let wanted = wanted.saturating_add(LISTED_AT_ONCE).min(self.len);
        let mut samples = vec![];
        self.upcoming.at(listed_to..wanted, &mut samples);
        for (position, sample) in (listed_to..wanted).zip(samples) {
            self.unasked.entry(sample).or_default().push_back(position);
            let (state, is_asked_for) = (State::Listed, false);
            self.listed.push_back(Entry { sample, state, is_asked_for });
        }
    }

    /// Removes and returns the first position of `sample` that no worker has asked for.
    fn unlist(&mut self, sample: SampleId) -> Option<u64> {
        let positions = self.unasked.get_mut(&sample)?;
        let position = positions.pop_front();
        if positions.is_empty() {
            self.unasked.remove(&sample);
        }
        position
    }

    fn entry(&mut self, position: u64) -> Option<&mut Entry> {
        let at = usize::try_from(position.checked_sub(self.base)?).ok()?;
        self.listed.get_mut(at)
    }

    /// Drops the positions that the loader is done with when it asks for `position`.
    fn forget_before(&mut self, position: u64, surplus: &mut Vec<Product<Record>>) {
        let done = (position / self.batch_size + 1).saturating_sub(self.batches_ahead);
        let kept_from = done * self.batch_size;
        self.drop_taken();
        while self.base < kept_from && self.listed.front().is_some_and(|e| !e.is_asked_for) {
            if let Some(Entry { sample, state, .. }) = self.listed.pop_front() {
                // The position dropped is the first of this sample: all earlier ones are gone already.
                self.unlist(sample);
                self.base += 1;
                if let State::Ready(product) = state {
                    self.held -= 1;
                    self.ready -= 1;
                    surplus.push(product);
                }
            }
            self.drop_taken();
        }
    }

    fn drop_taken(&mut self) {
        while self.listed.front().is_some_and(|entry| matches!(entry.state, State::Taken)) {
            self.listed.pop_front();
            self.base += 1;
        }
    }

    /// Marks a position as begun, if it is only listed.
    fn begin(&mut self, position: u64) -> Option<ProducerTask> {
        let entry = self.entry(position)?;
        if !matches!(entry.state, State::Listed) {
            return None;
        }
        entry.state = State::Making;
        let ticket = entry.sample.0;
        self.held += 1;
        self.furthest = self.furthest.max(position);
        Some(ProducerTask { position, ticket })
    }

    fn is_over(&self) -> bool {
        self.cursor >= self.len && self.urgent.is_empty()
    }
}

impl QueueState for Lookahead {
    type Item = Record;

    fn claim(&mut self) -> Claim<ProducerTask> {
        while let Some(position) = self.urgent.pop_front() {
            if let Some(job) = self.begin(position) {
                return Claim::Task(job);
            }
        }
        if self.held >= self.bound && !self.is_over() {
            return Claim::Full;
        }
        self.list();
        self.cursor = self.cursor.max(self.base);
        let listed_to = self.base + self.listed.len() as u64;
        while self.cursor < listed_to {
            let position = self.cursor;
            self.cursor += 1;
            if let Some(job) = self.begin(position) {
                return Claim::Task(job);
            }
        }
        Claim::Over
    }

    fn openings(&self) -> usize {
        if self.is_over() {
            return usize::MAX;
        }
        self.urgent.len() + self.bound.saturating_sub(self.held)
    }

    fn enter(&mut self, job: ProducerTask, product: Product<Record>) -> Vec<Product<Record>> {
        let Some(entry) = self.entry(job.position) else {
            self.held -= 1;
            return vec![product];
        };
        entry.state = State::Ready(product);
        self.ready += 1;
        vec![]
    }

    fn depth(&self) -> usize {
        self.ready
    }

    fn clear(&mut self) -> Vec<Product<Record>> {
        self.base += self.listed.len() as u64;
        self.unasked.clear();
        self.urgent.clear();
        self.held -= mem::take(&mut self.ready);
        let states = self.listed.drain(..).map(|entry| entry.state);
        let ready = states.filter_map(|state| match state {
            State::Ready(product) => Some(product),
            _ => None,
        });
        ready.collect()
    }
}
