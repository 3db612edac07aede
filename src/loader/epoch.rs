//! One run over an epoch: its batches and its position.

use super::cursor::Cursor;
use super::damaged::DamageLog;
use super::error::all_skipped;
use super::stage::LoaderStage;
use crate::batch::Batch;
use crate::error::{Error, fail};
use crate::order::EpochOrder;
use crate::run::{Delivery, Engine, EpochRun, RunError, RunOrder};
use crate::sample::{Epoch, SampleId, SampleRef, UNKNOWN};
use crate::source::{Run, Upcoming};
use fuseloop_engine::batch::HostBatch;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

/// The batches of one epoch, in order; see [`Loader::epoch`](super::Loader::epoch).
///
/// Yields nothing after an error. Dropping it early stops its work. It may outlive its loader, whose threads end
/// with the last of both.
pub struct Batches {
    run: EpochRun<LoaderStage>,
    position: Arc<RunPosition>,
    damage: Arc<DamageLog>,
    /// The source that the run reads from, if that is not the loader's own. Dropped after the run, which ends reading
    /// ahead.
    _view: Option<Run>,
    /// Keeps the threads of a loader that was dropped.
    _engine: Arc<Engine<LoaderStage>>,
}

/// Shows the epoch, and how many batches are left if that is known.
impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remaining = Some(self.remaining()).filter(|&batches| batches != UNKNOWN);
        f.debug_struct("Batches")
            .field("epoch", &self.epoch())
            .field("remaining", &remaining)
            .finish_non_exhaustive()
    }
}

impl Batches {
    pub(super) fn new(
        run: EpochRun<LoaderStage>,
        (position, damage): (Arc<RunPosition>, Arc<DamageLog>),
        view: Option<Run>,
        engine: Arc<Engine<LoaderStage>>,
    ) -> Self {
        Self { run, position, damage, _view: view, _engine: engine }
    }

    /// Returns the epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.position.begin.epoch)
    }

    /// Returns the number of batches left, if no error ends the epoch;
    /// [`UNKNOWN`](crate::sample::UNKNOWN) for a stream of unknown length.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.run.remaining()
    }

    /// Returns the first batch that was not delivered.
    pub(super) fn next_batch(&self) -> u64 {
        self.position.next_batch()
    }

    /// Returns the position of the run, after the batches taken so far, for
    /// [`Loader::resume`](super::Loader::resume) in this process or another.
    ///
    /// # Errors
    ///
    /// If batches are delivered unordered.
    pub fn cursor(&self) -> Result<Cursor, Error> {
        self.position.cursor()
    }

    /// Moves the position back to the beginning of `batch`, the last that was taken:
    /// [`Loader::renew`](super::Loader::renew) then continues with its samples.
    #[doc(hidden)]
    pub fn take_back(&self, batch: &Batch) {
        self.position.delivered(batch.index());
    }

    /// Waits for the next batch, but at most `longest`: pending if it is not ready then. No batch is lost by
    /// that: it comes with the next call. A program can look at signals in between, or stop.
    ///
    /// ```no_run
    /// # use fuseloop::Loader;
    /// # fn is_cancelled() -> bool { false }
    /// use std::task::Poll;
    /// use std::time::Duration;
    ///
    /// let mut batches = Loader::open("train.beton")?.build()?.epoch(0)?;
    /// while !is_cancelled() {
    ///     match batches.next_within(Duration::from_millis(50)) {
    ///         Poll::Ready(Some(batch)) => println!("{:?}", batch?.ids()),
    ///         Poll::Ready(None) => break,
    ///         Poll::Pending => {}
    ///     }
    /// }
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    pub fn next_within(&mut self, longest: Duration) -> Poll<Option<Result<Batch, Error>>> {
        self.run.next_within(longest).map(|next| self.delivered(next))
    }

    /// Notes what the run answered.
    fn delivered(&self, next: Option<Result<HostBatch, RunError>>) -> Option<Result<Batch, Error>> {
        let next = next.map(|batch| batch.map(Batch::from));
        match &next {
            None if self.position.is_without_batches() && self.run.skipped() == 0 => {
                self.position.failed();
                let (epoch, rows) = (self.epoch(), self.position.rows);
                return Some(Err(fail!(
                    Parameter,
                    "epoch {} has no batch: the stream has no samples, or with `drop_last` fewer than {rows}",
                    epoch.0
                )));
            }
            None if self.position.is_at_start() && self.run.skipped() > 0 => {
                self.position.failed();
                let (epoch, skipped) = (self.epoch(), self.run.skipped());
                let first = self.damage.first_error();
                return Some(Err(all_skipped(epoch, skipped, &first)));
            }
            Some(Ok(batch)) => self.position.delivered(batch.index() + 1),
            Some(Err(_)) => self.position.failed(),
            None => self.position.ended(),
        }
        next.map(|batch| Ok(batch?))
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.run.next();
        self.delivered(next)
    }

    /// The upper bound is [`remaining`](Self::remaining). The lower bound is 0, because an error ends the
    /// epoch early, and damaged samples that are skipped may be all of a batch's, so that it is not delivered (if they
    /// are all of an epoch's, the epoch is an error): the iterator is not an
    /// [`ExactSizeIterator`].
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.run.size_hint()
    }
}

impl FusedIterator for Batches {}

/// The position of a run, shared by the loader and its batches.
#[derive(Debug)]
pub(super) struct RunPosition {
    /// The cursor of the beginning of the epoch.
    begin: Cursor,
    delivery: Delivery,
    /// True if another run over the epoch has the same samples.
    is_exact: bool,
    /// The rows of a batch over all ranks; `total` is that of the epoch.
    rows: u64,
    total: u64,
    /// The number of batches delivered, from the beginning of the epoch; `FAILED` is added after an
    /// error.
    batches: AtomicU64,
}

/// Marks a run that ended with an error, whose position stays; more than any number of batches.
const FAILED: u64 = 1 << 63;

/// Marks a run that came to its end; more than any number of batches.
const ENDED: u64 = FAILED - 1;

impl RunPosition {
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

    /// Returns true if the run is a whole epoch of which nothing was delivered.
    fn is_at_start(&self) -> bool {
        self.batches.load(Ordering::Relaxed) == 0
    }

    /// Returns true if the run is a whole epoch of a stream of unknown length, and nothing was delivered.
    fn is_without_batches(&self) -> bool {
        self.total == UNKNOWN && self.is_at_start()
    }

    /// Moves to the end of the epoch: the last batches may have lost all their rows and were not
    /// delivered.
    fn ended(&self) {
        if self.batches.load(Ordering::Relaxed) & FAILED == 0 {
            self.delivered(ENDED);
        }
    }

    /// Returns the first batch that was not delivered.
    fn next_batch(&self) -> u64 {
        self.batches.load(Ordering::Relaxed) & !FAILED
    }

    pub(super) fn cursor(&self) -> Result<Cursor, Error> {
        if self.delivery == Delivery::Unordered {
            return Err(fail!(
                Cursor,
                "batches are delivered unordered: a cursor needs them in order"
            ));
        }
        if !self.is_exact {
            return Err(fail!(
                Cursor,
                "the stream delivers items as they become ready (`deterministic: false`), so its epochs can't be \
                 resumed"
            ));
        }
        let position = match self.next_batch() {
            // Also correct if the total is not known.
            ENDED => self.total,
            batches => batches.saturating_mul(self.rows).min(self.total),
        };
        Ok(Cursor { position, ..self.begin })
    }
}

impl RunOrder for EpochOrder {
    fn samples(&self) -> u64 {
        self.samples()
    }

    fn visits(&self, positions: Range<u64>, visits: &mut Vec<SampleRef>) {
        self.visits(positions, visits);
    }

    fn may_be_short(&self) -> bool {
        self.may_be_short()
    }
}

/// Samples that were asked for by their numbers, in this order.
pub(super) struct ListedOrder(pub(super) Vec<SampleId>);

impl RunOrder for ListedOrder {
    fn samples(&self) -> u64 {
        self.0.len() as u64
    }

    fn visits(&self, positions: Range<u64>, visits: &mut Vec<SampleRef>) {
        // The engine asks for positions below `samples`, which is the length of a list in memory.
        let listed = &self.0[positions.start as usize..positions.end as usize];
        visits.extend(listed.iter().map(|&sample| SampleRef::once(sample)));
    }
}

/// An epoch's order from position `first` on, for sources that read ahead.
pub(super) struct RemainingOrder {
    pub(super) order: EpochOrder,
    pub(super) first: u64,
}

impl Upcoming for RemainingOrder {
    fn samples(&self) -> u64 {
        self.order.samples().saturating_sub(self.first)
    }

    fn at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
        let positions = self.first + positions.start..self.first + positions.end;
        self.order.samples_at(positions, samples);
    }
}
