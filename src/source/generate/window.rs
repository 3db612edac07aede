//! The books of a run: records made ahead of the workers that ask for them.
//!
//! A *place* is a row of the run, its *ticket* the row's sample. The next places are listed, so that
//! a sample that is asked for is found:
//!
//! ```text
//!   taken | in work, ready, listed ...   | not yet looked at
//!         base                           listed_to = the furthest place asked for or begun + horizon
//! ```
//!
//! | asked for       | what happens                                                             |
//! |-----------------|--------------------------------------------------------------------------|
//! | ready           | taken                                                                    |
//! | in work         | waited for                                                               |
//! | only listed     | begun by the next free producer, before all others and whatever the room |
//! | none of these   | made by who asks: it was taken before, or never was of this run          |
//!
//! So whoever waits, waits for a call of the user's function and nothing else: there is no deadlock,
//! whatever the capacity, the number of workers and the order in which they ask.
//!
//! Places that are never asked for (a loader that ended early, or has the sample from elsewhere)
//! are forgotten: when one of batch b is asked for, the loader is done with all batches before
//! `b + 1 - batches ahead`. If one of them is asked for after all, it is made again.

use super::crew::{Books, Claim, Job, Product, Taken};
use crate::sample::SampleId;
use crate::source::{Record, RunPlan, Upcoming};
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

/// See the top of the file.
pub(super) struct Window {
    upcoming: Arc<dyn Upcoming>,
    /// Places of the run.
    places: u64,
    /// Most records in work or ready, those asked for aside.
    bound: usize,
    batch_size: u64,
    batches_ahead: u64,
    horizon: u64,
    /// The place of `listed[0]`.
    base: u64,
    listed: VecDeque<Entry>,
    /// Listed places nobody has asked for, by their sample, in order.
    unasked: HashMap<SampleId, VecDeque<u64>>,
    /// Places before this one are begun.
    cursor: u64,
    /// The furthest place asked for or begun.
    furthest: u64,
    /// Asked for before they were begun.
    urgent: VecDeque<u64>,
    /// Records in work or ready.
    held: usize,
    ready: usize,
}

struct Entry {
    sample: SampleId,
    state: State,
    /// Somebody waits for it.
    is_asked_for: bool,
}

enum State {
    Listed,
    Making,
    Ready(Product<Record>),
    Taken,
}

/// Places listed at once, so that the order is not asked for each.
const LISTED_AT_ONCE: u64 = 256;

impl Window {
    pub(super) fn new(run: &RunPlan, bound: usize) -> Self {
        let (batch_size, batches_ahead) =
            (run.batch_size.max(1) as u64, run.batches_ahead.max(1) as u64);
        Self {
            upcoming: Arc::clone(&run.upcoming),
            places: run.upcoming.samples(),
            bound,
            batch_size,
            batches_ahead,
            // Whatever the loader asks for next lies within its batches ahead.
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

    /// The place that a worker who asks for this sample is to take; `None` if it must make the
    /// record itself. Adds what is of no use any more to `surplus`.
    pub(super) fn ask(
        &mut self,
        sample: SampleId,
        surplus: &mut Vec<Product<Record>>,
    ) -> Option<u64> {
        self.list();
        let place = self.unlist(sample)?;
        self.furthest = self.furthest.max(place);
        let entry = self.entry(place)?;
        entry.is_asked_for = true;
        if matches!(entry.state, State::Listed) {
            self.urgent.push_back(place);
        }
        self.forget_before(place, surplus);
        Some(place)
    }

    /// The record of a place that was [asked](Self::ask) for.
    pub(super) fn take(&mut self, place: u64) -> Taken<Option<Product<Record>>> {
        let Some(entry) = self.entry(place) else { return Taken::None(None) };
        match mem::replace(&mut entry.state, State::Taken) {
            State::Ready(product) => {
                self.held -= 1;
                self.ready -= 1;
                self.drop_taken();
                Taken::Item(Some(product))
            }
            State::Taken => Taken::None(None),
            waiting => {
                entry.state = waiting;
                Taken::Wait
            }
        }
    }

    /// Lists the places up to the horizon.
    fn list(&mut self) {
        let listed_to = self.base + self.listed.len() as u64;
        let wanted = self.furthest.saturating_add(self.horizon).min(self.places);
        if listed_to >= wanted {
            return;
        }
        let wanted = wanted.saturating_add(LISTED_AT_ONCE).min(self.places);
        let mut samples = vec![];
        self.upcoming.at(listed_to..wanted, &mut samples);
        for (place, sample) in (listed_to..wanted).zip(samples) {
            self.unasked.entry(sample).or_default().push_back(place);
            let (state, is_asked_for) = (State::Listed, false);
            self.listed.push_back(Entry { sample, state, is_asked_for });
        }
    }

    /// The first place of `sample` that nobody has asked for, which it then is no more.
    fn unlist(&mut self, sample: SampleId) -> Option<u64> {
        let places = self.unasked.get_mut(&sample)?;
        let place = places.pop_front();
        if places.is_empty() {
            self.unasked.remove(&sample);
        }
        place
    }

    fn entry(&mut self, place: u64) -> Option<&mut Entry> {
        let at = usize::try_from(place.checked_sub(self.base)?).ok()?;
        self.listed.get_mut(at)
    }

    /// Forgets what the loader is done with when it asks for `place`.
    fn forget_before(&mut self, place: u64, surplus: &mut Vec<Product<Record>>) {
        let done = (place / self.batch_size + 1).saturating_sub(self.batches_ahead);
        let kept_from = done * self.batch_size;
        self.drop_taken();
        while self.base < kept_from && self.listed.front().is_some_and(|e| !e.is_asked_for) {
            if let Some(Entry { sample, state, .. }) = self.listed.pop_front() {
                // Its place is the first of the sample's: all before it are gone.
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

    /// Enters a place as begun, if it is only listed.
    fn begin(&mut self, place: u64) -> Option<Job> {
        let entry = self.entry(place)?;
        if !matches!(entry.state, State::Listed) {
            return None;
        }
        entry.state = State::Making;
        let ticket = entry.sample.0;
        self.held += 1;
        self.furthest = self.furthest.max(place);
        Some(Job { place, ticket })
    }

    fn is_over(&self) -> bool {
        self.cursor >= self.places && self.urgent.is_empty()
    }
}

impl Books for Window {
    type Item = Record;

    fn claim(&mut self) -> Claim {
        while let Some(place) = self.urgent.pop_front() {
            if let Some(job) = self.begin(place) {
                return Claim::Job(job);
            }
        }
        if self.held >= self.bound && !self.is_over() {
            return Claim::Full;
        }
        self.list();
        self.cursor = self.cursor.max(self.base);
        let listed_to = self.base + self.listed.len() as u64;
        while self.cursor < listed_to {
            let place = self.cursor;
            self.cursor += 1;
            if let Some(job) = self.begin(place) {
                return Claim::Job(job);
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

    fn enter(&mut self, job: Job, product: Product<Record>) -> Vec<Product<Record>> {
        let Some(entry) = self.entry(job.place) else {
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
