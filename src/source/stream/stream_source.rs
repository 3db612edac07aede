//! A stream as a loader's source: a sample's number is its position in a pass.
//!
//! ```text
//! pass     0 1 2 3 4 5 6 7 8 9 | not pulled yet
//! of this rank:  * . * . * . * . * .   the others are passed over
//! pulled           2   4   6   8     until their batches are surely past
//! ```
//!
//! A thread that asks for a position pulls the items up to it, under a lock. That is cheap: an item is a
//! reference to a sample of another source, or the result of a sequential read. The thread then reads
//! the item without the lock. This module starts no threads.
//!
//! A position may be asked for twice, because a chunk of rows that failed is filled again row by row.
//! Items are therefore stored until the loader is done with their batch: when the loader asks for an
//! item of batch b, it is done with all items before batch `b + 1 - batches ahead` that it has asked
//! for. An earlier position that is asked for after that (the first positions of a padded rank, an
//! inspector) is read from a second pass, begun from its start.
//!
//! The end of the stream is an answer like an item: [`StreamEnd::End`] at its position and at every later
//! one. An error of the stream itself is returned the same way.

use super::pass_cursor::PassCursor;
use super::{Item, Pass, SharedError, Stream};
use crate::error::{Cause, Details, Error, ErrorKind};
use crate::sample::{Epoch, SampleId, UNKNOWN};
use crate::source::{BoxError, Buffer, Facts, Record, Run, RunPlan, SampleLocation, Source, Value};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The reason why a stream has no item at a position, nor at any later one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum StreamEnd {
    /// The stream has ended.
    #[error("the stream has ended after {items} items")]
    End {
        /// The number of items of the stream.
        items: u64,
    },
    /// The stream can't continue.
    #[error("item {item} of the stream: {error}")]
    Broke {
        /// The number of items that came before the error.
        item: u64,
        /// The cause.
        error: SharedError,
    },
}

impl Cause for StreamEnd {
    fn details(&self) -> Details<'_> {
        match self {
            Self::End { .. } => Details::of(ErrorKind::Parameter),
            Self::Broke { error, .. } => Details::of(ErrorKind::Damaged).custom(&error.0),
        }
    }
}

/// A stream as a source; see the top of the file.
pub(crate) struct StreamSource {
    facts: Facts,
    stream: Stream,
    pass: Pass,
    state: Mutex<PlayedState>,
}

/// The number of rows of a run that are listed in one call: asking the order for each row alone would be
/// slower.
const LISTED_AT_ONCE: u64 = 256;

struct PlayedState {
    plan: Option<RunPlan>,
    cursor: PassCursor,
    /// The number of rows of the run that are, or were, listed in `wanted`.
    listed: u64,
    wanted: VecDeque<u64>,
    /// The pulled items of the run in order, from row `base` on.
    pulled: VecDeque<PulledItem>,
    base: u64,
    /// A second pass, for positions behind the first.
    again: Option<PassCursor>,
    halt: Option<(u64, StreamEnd)>,
}

struct PulledItem {
    position: u64,
    item: Item,
    is_asked_for: bool,
}

impl StreamSource {
    /// The stream outside of a run: its pass in epoch 0 with seed 0.
    pub(crate) fn new(stream: Stream) -> Self {
        Self::begun(stream, Pass { seed: 0, epoch: Epoch(0), turn: 0 }, None)
    }

    fn begun(stream: Stream, pass: Pass, plan: Option<RunPlan>) -> Self {
        let books = PlayedState {
            plan,
            cursor: PassCursor::default(),
            listed: 0,
            wanted: VecDeque::new(),
            pulled: VecDeque::new(),
            base: 0,
            again: None,
            halt: None,
        };
        let samples = stream.known_len().unwrap_or(UNKNOWN);
        let facts = Facts { samples, ..stream.facts().clone() };
        Self { facts, stream, pass, state: Mutex::new(books) }
    }

    fn item(&self, position: u64) -> Result<Item, BoxError> {
        let mut books = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let item = books.item(&self.stream, &self.pass, position).map_err(Error::from)?;
        drop(books);
        item.check(self.stream.fields())?;
        Ok(item)
    }
}

impl PlayedState {
    fn item(&mut self, stream: &Stream, pass: &Pass, position: u64) -> Result<Item, StreamEnd> {
        self.list();
        while self.wanted.front().is_some_and(|&wanted| wanted <= position) {
            self.pull(stream, pass)?;
            self.list();
        }
        if let Some(item) = self.take(position) {
            return Ok(item);
        }
        match &self.halt {
            Some((from, halt)) if position >= *from => Err(halt.clone()),
            _ => self.once_more(stream, pass, position),
        }
    }

    /// Lists the next rows of the run in `wanted`.
    fn list(&mut self) {
        let Some(plan) = self.plan.as_ref().filter(|_| self.wanted.is_empty()) else { return };
        let upto = self.listed.saturating_add(LISTED_AT_ONCE).min(plan.upcoming.samples());
        if self.listed >= upto || self.halt.is_some() {
            return;
        }
        let mut samples = vec![];
        plan.upcoming.at(self.listed..upto, &mut samples);
        self.listed = upto;
        let last = self.pulled.back().map_or(self.cursor.next(), |pulled| pulled.position + 1);
        // A padded rank repeats its first positions at its end: they come from the second pass.
        let mut next = last.max(self.cursor.next());
        for SampleId(position) in samples {
            if position < next {
                self.listed = plan.upcoming.samples();
                break;
            }
            next = position + 1;
            self.wanted.push_back(position);
        }
    }

    /// Pulls the next item of the run.
    fn pull(&mut self, stream: &Stream, pass: &Pass) -> Result<(), StreamEnd> {
        let Some(position) = self.wanted.pop_front() else { return Ok(()) };
        let is_first = self.cursor.next() == 0;
        let pulled = self.cursor.at(stream, pass, position);
        match if is_first { self.check_begin(position, pulled) } else { pulled } {
            Ok(item) => {
                self.pulled.push_back(PulledItem { position, item, is_asked_for: false });
                Ok(())
            }
            Err(halt) => {
                self.wanted.clear();
                self.halt = Some((self.cursor.next(), halt.clone()));
                self.cursor.close();
                Err(halt)
            }
        }
    }

    /// Refuses a run that begins beyond the stream's last batch: the stream had more items when the
    /// cursor was saved.
    fn check_begin(
        &self,
        position: u64,
        pulled: Result<Item, StreamEnd>,
    ) -> Result<Item, StreamEnd> {
        let batch = self.plan.as_ref().map_or(1, |plan| plan.batch_size.max(1) as u64);
        match pulled {
            // A position inside the last batch is valid: that batch was short.
            Err(StreamEnd::End { items: item })
                if position > 0 && position - item.min(position) >= batch =>
            {
                let message = format!(
                    "the cursor is at row {position}, but the stream ends after {item} items: it belongs to another dataset or is damaged; start the epoch again"
                );
                Err(StreamEnd::Broke { item, error: message.into() })
            }
            pulled => pulled,
        }
    }

    /// Returns the stored item of a position, and drops the items that the loader is done with.
    fn take(&mut self, position: u64) -> Option<Item> {
        let at = self.pulled.binary_search_by_key(&position, |pulled| pulled.position).ok()?;
        let pulled = &mut self.pulled[at];
        pulled.is_asked_for = true;
        let item = pulled.item.clone();
        if let Some(RunPlan { batch_size, batches_ahead, .. }) = &self.plan {
            let (batch_size, ahead) = ((*batch_size).max(1) as u64, (*batches_ahead).max(1) as u64);
            let batch = (self.base + at as u64) / batch_size;
            let done = (batch + 1).saturating_sub(ahead) * batch_size;
            while self.base < done && self.pulled.front().is_some_and(|pulled| pulled.is_asked_for)
            {
                self.pulled.pop_front();
                self.base += 1;
            }
        }
        Some(item)
    }

    /// Reads an item behind the run's position from the second pass.
    fn once_more(
        &mut self,
        stream: &Stream,
        pass: &Pass,
        position: u64,
    ) -> Result<Item, StreamEnd> {
        if !stream.facts().is_exact {
            let message = "it can't be read again: the interleave is not deterministic".to_owned();
            return Err(StreamEnd::Broke { item: position, error: message.into() });
        }
        let mut cursor =
            self.again.take().filter(|cursor| cursor.next() <= position).unwrap_or_default();
        let item = cursor.at(stream, pass, position)?;
        self.again = Some(cursor);
        Ok(item)
    }
}

impl Source for StreamSource {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.item(sample.0)?.read()
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        buffer.store_item(sample, || self.item(sample.0))?;
        buffer.item_value(field)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.item(sample.0).ok()?.locate(field)
    }

    fn component(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        buffer.store_item(sample, || self.item(sample.0))?;
        buffer.item_component()
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Run>, BoxError> {
        let pass = Pass { seed: run.seed, epoch: run.epoch, turn: 0 };
        let begun = Self::begun(self.stream.clone(), pass, Some(run.clone()));
        Ok(Some(Run::new(Arc::new(begun))))
    }
}
