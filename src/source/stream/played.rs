//! A stream as a source: the samples of a pass, by their places in it.
//!
//! ```text
//! pass     0 1 2 3 4 5 6 7 8 9 | not pulled yet
//! of this rank:  * . * . * . * . * .   the others are passed over
//! kept             2   4   6   8     until their batches are surely past
//! ```
//!
//! Whoever asks for a place pulls the items up to it, under a lock: an item is a place in another
//! source, or what a sequential read gives, so that is cheap. It is read without the lock, by each
//! thread its own. There are no threads here.
//!
//! A place may be asked for again (a chunk of rows that failed is filled again, row by row), so items
//! are kept until the loader is done with their batch: when one of batch b is asked for, it is done
//! with all before `b + 1 - batches ahead`, if it has asked for them. What is asked for after that all
//! the same (a padded rank's first places, an inspector) comes from another pass, begun anew.
//!
//! The end is an answer like an item, [`Halt::End`], at its place and at all after it; so is an error
//! of the stream itself.

use super::tape::Tape;
use super::{Item, Pass, Stream};
use crate::sample::{Epoch, SampleId, UNKNOWN};
use crate::source::{
    BoxError, Buffer, ClassNames, FieldSpec, ImageStats, Record, RunPlan, SampleLocation, Source,
    Value,
};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Why a stream gives nothing at a place, nor at any after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Halt {
    /// It has ended.
    #[error("the stream has ended after {items} items")]
    End {
        /// Items that it has.
        items: u64,
    },
    /// It can't go on.
    #[error("item {item} of the stream: {message}")]
    Broke {
        /// Items that came before.
        item: u64,
        /// Why not.
        message: String,
    },
}

/// A stream as a source; see the top of the file.
pub(crate) struct Played {
    stream: Stream,
    pass: Pass,
    books: Mutex<Books>,
}

/// Places of a run that are listed at once, so that the order is not asked for each.
const LISTED_AT_ONCE: u64 = 256;

struct Books {
    plan: Option<RunPlan>,
    tape: Tape,
    /// Rows of the run that are listed in `wanted` or were.
    listed: u64,
    wanted: VecDeque<u64>,
    /// Items of the run in order, from row `base` on.
    kept: VecDeque<Kept>,
    base: u64,
    /// Another pass, for places that are not ahead.
    again: Option<Tape>,
    halt: Option<(u64, Halt)>,
}

struct Kept {
    place: u64,
    item: Item,
    is_asked_for: bool,
}

impl Played {
    /// The stream as it is outside of a run: its pass in epoch 0, of seed 0.
    pub(crate) fn new(stream: Stream) -> Self {
        Self::begun(stream, Pass { seed: 0, epoch: Epoch(0), turn: 0 }, None)
    }

    fn begun(stream: Stream, pass: Pass, plan: Option<RunPlan>) -> Self {
        let books = Books {
            plan,
            tape: Tape::default(),
            listed: 0,
            wanted: VecDeque::new(),
            kept: VecDeque::new(),
            base: 0,
            again: None,
            halt: None,
        };
        Self { stream, pass, books: Mutex::new(books) }
    }

    fn item(&self, place: u64) -> Result<Item, BoxError> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let item = books.item(&self.stream, &self.pass, place)?;
        drop(books);
        item.check(self.stream.fields())?;
        Ok(item)
    }
}

impl Books {
    fn item(&mut self, stream: &Stream, pass: &Pass, place: u64) -> Result<Item, Halt> {
        self.list();
        while self.wanted.front().is_some_and(|&wanted| wanted <= place) {
            self.pull(stream, pass)?;
            self.list();
        }
        if let Some(item) = self.take(place) {
            return Ok(item);
        }
        match &self.halt {
            Some((from, halt)) if place >= *from => Err(halt.clone()),
            _ => self.once_more(stream, pass, place),
        }
    }

    /// Lists what the run wants next.
    fn list(&mut self) {
        let Some(plan) = self.plan.as_ref().filter(|_| self.wanted.is_empty()) else { return };
        let upto = self.listed.saturating_add(LISTED_AT_ONCE).min(plan.upcoming.samples());
        if self.listed >= upto || self.halt.is_some() {
            return;
        }
        let mut samples = vec![];
        plan.upcoming.at(self.listed..upto, &mut samples);
        self.listed = upto;
        let last = self.kept.back().map_or(self.tape.next(), |kept| kept.place + 1);
        // A padded rank begins anew at its end: that comes from another pass.
        let mut next = last.max(self.tape.next());
        for SampleId(place) in samples {
            if place < next {
                self.listed = plan.upcoming.samples();
                break;
            }
            next = place + 1;
            self.wanted.push_back(place);
        }
    }

    /// Pulls the next item that the run wants.
    fn pull(&mut self, stream: &Stream, pass: &Pass) -> Result<(), Halt> {
        let Some(place) = self.wanted.pop_front() else { return Ok(()) };
        let is_first = self.tape.next() == 0;
        let pulled = self.tape.at(stream, pass, place);
        match if is_first { self.check_begin(place, pulled) } else { pulled } {
            Ok(item) => {
                self.kept.push_back(Kept { place, item, is_asked_for: false });
                Ok(())
            }
            Err(halt) => {
                self.wanted.clear();
                self.halt = Some((self.tape.next(), halt.clone()));
                self.tape.close();
                Err(halt)
            }
        }
    }

    /// Refuses a run that begins at a place behind the last batch that the stream has: whoever noted
    /// that place had more items.
    fn check_begin(&self, place: u64, pulled: Result<Item, Halt>) -> Result<Item, Halt> {
        let batch = self.plan.as_ref().map_or(1, |plan| plan.batch_size.max(1) as u64);
        match pulled {
            // Inside the last batch is its end: that batch came short.
            Err(Halt::End { items: item }) if place > 0 && place - item.min(place) >= batch => {
                let message = format!(
                    "the cursor stands at row {place}, and the stream ends after {item}: it is of another dataset or damaged; begin the epoch anew"
                );
                Err(Halt::Broke { item, message })
            }
            pulled => pulled,
        }
    }

    /// The item kept of this place; forgets what the loader is done with when it asks for it.
    fn take(&mut self, place: u64) -> Option<Item> {
        let at = self.kept.binary_search_by_key(&place, |kept| kept.place).ok()?;
        let kept = &mut self.kept[at];
        kept.is_asked_for = true;
        let item = kept.item.clone();
        if let Some(RunPlan { batch_size, batches_ahead, .. }) = &self.plan {
            let (batch_size, ahead) = ((*batch_size).max(1) as u64, (*batches_ahead).max(1) as u64);
            let batch = (self.base + at as u64) / batch_size;
            let done = (batch + 1).saturating_sub(ahead) * batch_size;
            while self.base < done && self.kept.front().is_some_and(|kept| kept.is_asked_for) {
                self.kept.pop_front();
                self.base += 1;
            }
        }
        Some(item)
    }

    /// An item that is not ahead of the run.
    fn once_more(&mut self, stream: &Stream, pass: &Pass, place: u64) -> Result<Item, Halt> {
        if !stream.is_exact() {
            let message = "it can't be had again: items come as they are ready".to_owned();
            return Err(Halt::Broke { item: place, message });
        }
        let mut tape = self.again.take().filter(|tape| tape.next() <= place).unwrap_or_default();
        let item = tape.at(stream, pass, place)?;
        self.again = Some(tape);
        Ok(item)
    }
}

impl Source for Played {
    fn fields(&self) -> &[FieldSpec] {
        self.stream.fields()
    }

    fn len(&self) -> u64 {
        self.stream.known_len().unwrap_or(UNKNOWN)
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.item(sample.0)?.read()
    }

    fn name(&self) -> String {
        self.stream.name()
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        buffer.of_item(sample, || self.item(sample.0))?;
        buffer.of_its_item(field)
    }

    fn parts(&self) -> usize {
        self.stream.part_count()
    }

    fn part(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        buffer.of_item(sample, || self.item(sample.0))?;
        buffer.part_of_its_item()
    }

    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        self.stream.image_stats(field)
    }

    fn longest(&self, field: usize) -> Option<u64> {
        self.stream.longest(field)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.item(sample.0).ok()?.locate(field)
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        self.stream.paths()
    }

    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        self.stream.class_names()
    }

    fn fingerprint(&self) -> u64 {
        self.stream.fingerprint()
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Arc<dyn Source>>, BoxError> {
        let pass = Pass { seed: run.seed, epoch: run.epoch, turn: 0 };
        Ok(Some(Arc::new(Self::begun(self.stream.clone(), pass, Some(run.clone())))))
    }
}
