//! One run over an epoch: its batches, and the place it has come to.

use super::LoadError;
use super::cursor::{Cursor, CursorError};
use super::stage::LoaderStage;
use crate::batch::Batch;
use crate::order::EpochOrder;
use crate::run::{Delivery, EpochRun, RunError, Schedule};
use crate::sample::{Epoch, SampleId, Visit};
use crate::source::{Source, Upcoming};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The batches of one epoch, in order; see [`Loader::epoch`](super::Loader::epoch).
///
/// After an error it gives nothing more. Dropping it early stops its work.
pub struct Batches {
    run: EpochRun<LoaderStage>,
    place: Arc<Place>,
    /// Dropped after the run.
    _view: View,
}

/// The source as the run reads it, where that is another. Its end ends what reads ahead.
struct View(Option<Arc<dyn Source>>);

impl Drop for View {
    fn drop(&mut self) {
        if let Some(source) = &self.0 {
            source.end();
        }
    }
}

impl Batches {
    pub(super) fn new(
        run: EpochRun<LoaderStage>,
        place: Arc<Place>,
        view: Option<Arc<dyn Source>>,
    ) -> Self {
        Self { run, place, _view: View(view) }
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.place.begin.epoch)
    }

    /// Batches still to come if no error ends the epoch; [`UNKNOWN`](crate::sample::UNKNOWN) of a
    /// stream whose end is not known.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.run.remaining()
    }

    /// The first batch that was not delivered.
    pub(super) fn next_batch(&self) -> u64 {
        self.place.next_batch()
    }

    /// Where the run is: after the batches taken so far. To go on from there, in this process or
    /// another: [`Loader::resume`](super::Loader::resume).
    ///
    /// # Errors
    ///
    /// If batches are delivered unordered.
    pub fn cursor(&self) -> Result<Cursor, LoadError> {
        self.place.cursor()
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, RunError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.run.next();
        match &next {
            Some(Ok(batch)) => self.place.delivered(batch.index() + 1),
            Some(Err(_)) => self.place.failed(),
            None => self.place.ended(),
        }
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.run.size_hint()
    }
}

/// How far a run has come, for the loader and its batches to know.
#[derive(Debug)]
pub(super) struct Place {
    /// The cursor at the epoch's beginning.
    begin: Cursor,
    delivery: Delivery,
    /// Whether the same samples come again.
    is_exact: bool,
    /// Rows of a batch on all ranks together, and of the epoch.
    rows: u64,
    total: u64,
    /// Batches delivered, from the epoch's beginning; `FAILED` added after an error.
    batches: AtomicU64,
}

/// More than there are batches: marks a run that ended with an error, which stays where it is.
const FAILED: u64 = 1 << 63;

/// As many batches as there never are: marks a run that came to its end.
const ENDED: u64 = FAILED - 1;

impl Place {
    pub(super) fn new(
        begin: Cursor,
        delivery: Delivery,
        is_exact: bool,
        rows: u64,
        total: u64,
        first: u64,
    ) -> Self {
        Self { begin, delivery, is_exact, rows, total, batches: AtomicU64::new(first) }
    }

    fn delivered(&self, batches: u64) {
        self.batches.store(batches, Ordering::Relaxed);
    }

    fn failed(&self) {
        self.batches.fetch_or(FAILED, Ordering::Relaxed);
    }

    /// The last batches may have lost all their rows: then none of them told.
    fn ended(&self) {
        if self.batches.load(Ordering::Relaxed) & FAILED == 0 {
            self.delivered(ENDED);
        }
    }

    /// The first batch that was not delivered.
    fn next_batch(&self) -> u64 {
        self.batches.load(Ordering::Relaxed) & !FAILED
    }

    pub(super) fn cursor(&self) -> Result<Cursor, LoadError> {
        if self.delivery == Delivery::Unordered {
            return Err(CursorError::Unordered.into());
        }
        if !self.is_exact {
            return Err(CursorError::Inexact.into());
        }
        let position = match self.next_batch() {
            // Also where the total is not known.
            ENDED => self.total,
            batches => batches.saturating_mul(self.rows).min(self.total),
        };
        Ok(Cursor { position, ..self.begin })
    }
}

impl Schedule for EpochOrder {
    fn samples(&self) -> u64 {
        self.samples()
    }

    fn visits(&self, places: Range<u64>, visits: &mut Vec<Visit>) {
        self.visits(places, visits);
    }
}

/// An epoch's order from some place on, for sources that read ahead.
pub(super) struct Rest {
    pub(super) order: EpochOrder,
    pub(super) first: u64,
}

impl Upcoming for Rest {
    fn samples(&self) -> u64 {
        self.order.samples().saturating_sub(self.first)
    }

    fn at(&self, places: Range<u64>, samples: &mut Vec<SampleId>) {
        let mut visits = vec![];
        self.order.visits(self.first + places.start..self.first + places.end, &mut visits);
        samples.extend(visits.iter().map(|visit| visit.sample));
    }
}
