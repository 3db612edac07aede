//! One run over an epoch: its batches and its position.

use super::cursor::Cursor;
use super::damaged::{DamageLog, OnDamaged};
use super::error::all_skipped;
use super::fingerprint_log::{LogSlot, LoggedRun};
use super::metrics::LoaderMetrics;
use super::stage::LoaderStage;
use super::stalls::{self, Stall, StallLog};
use crate::batch::Batch;
use crate::error::{Error, fail};
use crate::order::EpochOrder;
use crate::run::{Delivery, Engine, EpochRun, LastBatch, RunError, RunOrder, RunRequest};
use crate::sample::{Epoch, SampleId, SampleRef, UNKNOWN};
use crate::source::{Run, RunPlan, Source, Upcoming};
use crate::warnings::warn;
use fuseloop_engine::batch::{HostBatch, fingerprint};
use std::fmt;
use std::iter::FusedIterator;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// The batches of one epoch, in order; see [`Loader::epoch`](super::Loader::epoch).
///
/// Yields nothing after an error. Dropping it early stops its work. It may outlive its loader, whose threads end
/// with the last of both.
pub struct Batches {
    run: EpochRun<LoaderStage>,
    position: Arc<RunPosition>,
    damage: Arc<DamageLog>,
    log: Arc<LogSlot>,
    /// The source that the run reads from, if that is not the loader's own. Dropped after the run, which ends reading
    /// ahead.
    view: Option<Run>,
    /// Starts the run at another batch. Keeps the threads of a loader that was dropped.
    start: RunStart,
    wait: WaitState,
}

/// How the wait for the next batch is judged.
#[derive(Clone, Copy)]
enum WaitState {
    /// The batch is the first that the workers fill for this run.
    First,
    Usual,
    /// The batch is late, which was noted.
    Stalled,
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
    /// Starts the run at the first batch of its position.
    pub(super) fn new(
        start: RunStart,
        position: Arc<RunPosition>,
        (damage, log): (Arc<DamageLog>, Arc<LogSlot>),
    ) -> Result<Self, Error> {
        let (run, view) = start.at(position.next_batch())?;
        Ok(Self { run, position, damage, log, view, start, wait: WaitState::First })
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

    /// Steps over the next `batches` batches of the epoch without reading or decoding their samples, for example after a
    /// loss spike. What follows, the [`cursor`](Self::cursor) included, is what a run has that takes these batches and
    /// throws them away, on every rank by itself; only a batch that would lose all of its rows counts here, too.
    /// Beyond the end, no batch is left.
    ///
    /// Batches that were prepared ahead are discarded. After an error this does nothing.
    ///
    /// ```no_run
    /// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
    /// # let cursor = loader.epoch(3)?.cursor()?;
    /// let mut batches = loader.resume(&cursor)?;      // of a checkpoint before the spike
    /// batches.skip_batches(200)?;
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    ///
    /// The fingerprint of the cursor is that of the last batch that was skipped, unless damaged samples are
    /// [left out or replaced](super::OnDamaged): then it is not known without decoding, and `None`.
    ///
    /// # Errors
    ///
    /// If batches are delivered unordered; and see [`Loader::epoch`](super::Loader::epoch).
    pub fn skip_batches(&mut self, batches: u64) -> Result<(), Error> {
        // Refuses runs without a position.
        self.position.cursor()?;
        if batches == 0 || self.position.is_over() {
            return Ok(());
        }
        let remaining = self.remaining();
        let first = self.position.next_batch().saturating_add(batches.min(remaining));
        // First, so that two runs do not read ahead, or hold slots, at the same time.
        self.run.close();
        self.view = None;
        let started = self.start.at(first);
        let (run, view) = started.inspect_err(|_| self.position.failed())?;
        (self.run, self.view, self.wait) = (run, view, WaitState::First);
        self.position.skipped(first, self.start.planned_fingerprint(first));
        if batches > remaining {
            self.position.ended();
        }
        Ok(())
    }

    /// Moves the position back to the beginning of `batch`, the last that was taken:
    /// [`Loader::renew`](super::Loader::renew) then continues with its samples.
    #[doc(hidden)]
    pub fn take_back(&self, batch: &Batch) {
        self.position.taken_back(batch.index());
    }

    /// Returns the fingerprint of the last batch that was delivered, or before the run's first batch that of its cursor.
    pub(super) fn last_fingerprint(&self) -> Option<u64> {
        self.position.fingerprint()
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
        let begun = Instant::now();
        loop {
            let left = longest.saturating_sub(begun.elapsed());
            let patience = self.patience().map_or(left, |patience| patience.min(left));
            match self.run.next_within(patience) {
                Poll::Ready(next) => return Poll::Ready(self.delivered(next)),
                Poll::Pending if self.patience().is_some_and(|patience| patience.is_zero()) => {
                    self.note_stall();
                }
                Poll::Pending => {}
            }
            if begun.elapsed() >= longest {
                return Poll::Pending;
            }
        }
    }

    /// Returns how much longer the wait for the next batch is no stall; `None` if it is one already.
    fn patience(&self) -> Option<Duration> {
        let is_first = match self.wait {
            WaitState::First => true,
            WaitState::Usual => false,
            WaitState::Stalled => return None,
        };
        let shortest = stalls::shortest(&self.start.engine.waits(), is_first);
        Some(shortest.saturating_sub(self.run.waited()))
    }

    /// Notes that the next batch is late, and warns of it with the cause.
    fn note_stall(&mut self) {
        self.wait = WaitState::Stalled;
        let RunStart { engine, source, stage, stalls, .. } = &self.start;
        if let Some(unsaid) = stalls.note(Instant::now()) {
            let stall = Stall {
                source: &**source,
                field: stage.fields().next(),
                epoch: self.epoch().0,
                batch: self.position.next_batch(),
                waited: self.run.waited(),
                waits: engine.waits(),
                workers: engine.activities(),
                unsaid,
            };
            warn(stall.warning());
        }
        self.record(false);
    }

    /// Records the metrics that are not counted by batch.
    fn record(&self, is_end: bool) {
        let RunStart { engine, stalls, metrics, .. } = &self.start;
        metrics.record(is_end, || (engine.utilization(), self.damage.rows(), stalls.count()));
    }

    /// Notes what the run answered.
    fn delivered(
        &mut self,
        next: Option<Result<HostBatch, RunError>>,
    ) -> Option<Result<Batch, Error>> {
        let next = next.map(|batch| batch.map(Batch::from));
        self.wait = WaitState::Usual;
        if let Some(Ok(batch)) = &next {
            self.start.metrics.delivered(batch.len(), self.run.last_wait());
        }
        self.record(!matches!(&next, Some(Ok(_))));
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
            Some(Ok(batch)) => {
                self.position.delivered(batch);
                if let Err(error) = self.logged(batch) {
                    self.run.close();
                    self.position.failed();
                    return Some(Err(error));
                }
            }
            Some(Err(_)) => self.position.failed(),
            None => self.position.ended(),
        }
        next.map(|batch| Ok(batch?))
    }

    /// Writes the batch's line, if the loader has a log.
    fn logged(&self, batch: &Batch) -> Result<(), Error> {
        let (position, start) = (&self.position, &self.start);
        let (begin, ops) = (&position.begin, start.stage.prints());
        let first_row = batch.index().saturating_mul(position.rows).min(position.total);
        self.log.write(batch, first_row, &LoggedRun { begin, ops, ranked: start.ranked() })
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Poll::Ready(next) = self.next_within(Duration::MAX) {
                return next;
            }
        }
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

/// The parts of a run over an epoch, to start it at any batch.
pub(super) struct RunStart {
    pub(super) engine: Arc<Engine<LoaderStage>>,
    pub(super) source: Arc<dyn Source>,
    pub(super) stage: Arc<LoaderStage>,
    pub(super) order: EpochOrder,
    pub(super) seed: u64,
    pub(super) epoch: Epoch,
    pub(super) batch_size: NonZeroUsize,
    pub(super) last: LastBatch,
    pub(super) delivery: Delivery,
    pub(super) on_damaged: OnDamaged,
    /// The rank and the number of ranks.
    pub(super) rank: [u64; 2],
    /// The part of the batches' fingerprints that all share: see [`Loader::origin`](super::Loader).
    pub(super) origin: u64,
    pub(super) stalls: Arc<StallLog>,
    pub(super) metrics: Arc<LoaderMetrics>,
}

impl RunStart {
    /// Starts the run at batch `first`, and the source for it. Returns the source's own run, if it reads that.
    fn at(&self, first: u64) -> Result<(EpochRun<LoaderStage>, Option<Run>), Error> {
        let first_row = first.saturating_mul(self.batch_size.get() as u64);
        let upcoming = RemainingOrder { order: self.order.clone(), first: first_row };
        let view = self.reading_ahead(Arc::new(upcoming))?;
        let stage = match &view {
            None => Arc::clone(&self.stage),
            Some(view) => Arc::new(self.stage.over(Arc::clone(view))),
        };
        let order = Box::new(self.order.clone());
        let mut pass = RunRequest::new(stage, self.epoch, order, self.batch_size);
        (pass.last, pass.first_batch, pass.delivery) = (self.last, first, self.delivery);
        pass.origin = self.origin;
        Ok((self.engine.start(pass)?, view))
    }

    /// Starts the source for a run that reads `upcoming`. Returns the run if it does not read the loader's own source.
    pub(super) fn reading_ahead(&self, upcoming: Arc<dyn Upcoming>) -> Result<Option<Run>, Error> {
        let run = RunPlan {
            seed: self.seed,
            epoch: self.epoch,
            upcoming,
            batch_size: self.batch_size.get(),
            batches_ahead: self.engine.options().batches_ahead.get(),
            fields: self.stage.fields().collect(),
        };
        let begun = Arc::clone(&self.source).begin(&run);
        begun.map_err(|error| Error::from(error).context(format_args!("{}", self.source.name())))
    }

    /// Returns the fingerprint of the batch before `next` as the order has it, if no sample of it can be left out or
    /// replaced.
    fn planned_fingerprint(&self, next: u64) -> Option<u64> {
        let (batch, size) = (next.checked_sub(1)?, self.batch_size.get() as u64);
        if self.on_damaged != OnDamaged::Fail || self.order.samples() == UNKNOWN {
            return None;
        }
        let first = batch.checked_mul(size)?;
        let mut visits = vec![];
        self.order.visits(first..first.saturating_add(size), &mut visits);
        (!visits.is_empty()).then(|| fingerprint(self.origin, self.epoch, batch, &visits))
    }

    /// Returns the batch size, the rank and the number of ranks.
    fn ranked(&self) -> [u64; 3] {
        let [rank, world] = self.rank;
        [self.batch_size.get() as u64, rank, world]
    }
}

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
    reached: Mutex<Reached>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    /// The number of batches delivered or skipped, from the beginning of the epoch.
    batches: u64,
    end: RunEnd,
    /// The fingerprint of the last of these batches; `before` is that of the batch before it.
    fingerprint: Option<u64>,
    before: Option<u64>,
}

/// The way in which a run ended, if it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RunEnd {
    #[default]
    None,
    /// The position is the end of the epoch.
    Reached,
    /// An error ended the run, and its position stays.
    Failed,
}

impl RunPosition {
    /// Returns the position of a run that starts at batch `first`; `fingerprint` is that of the batch before it.
    pub(super) fn new(
        begin: Cursor,
        (delivery, is_exact): (Delivery, bool),
        (rows, total): (u64, u64),
        (first, fingerprint): (u64, Option<u64>),
    ) -> Self {
        let reached = Reached { batches: first, fingerprint, ..Reached::default() };
        Self { begin, delivery, is_exact, rows, total, reached: Mutex::new(reached) }
    }

    fn reached(&self) -> MutexGuard<'_, Reached> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn delivered(&self, batch: &Batch) {
        let mut reached = self.reached();
        let (fingerprint, before) = (Some(batch.fingerprint()), reached.fingerprint);
        *reached = Reached { batches: batch.index() + 1, end: RunEnd::None, fingerprint, before };
    }

    /// Moves to batch `next`, before which that of the fingerprint was skipped.
    fn skipped(&self, next: u64, fingerprint: Option<u64>) {
        *self.reached() = Reached { batches: next, fingerprint, ..Reached::default() };
    }

    /// Moves back to the beginning of the last batch that was delivered.
    fn taken_back(&self, batch: u64) {
        let mut reached = self.reached();
        let fingerprint = reached.before;
        *reached = Reached { batches: batch, fingerprint, ..Reached::default() };
    }

    fn failed(&self) {
        self.reached().end = RunEnd::Failed;
    }

    /// Returns true if the run is a whole epoch of which nothing was delivered.
    fn is_at_start(&self) -> bool {
        let reached = self.reached();
        reached.batches == 0 && reached.end == RunEnd::None
    }

    /// Returns true if the run is a whole epoch of a stream of unknown length, and nothing was delivered.
    fn is_without_batches(&self) -> bool {
        self.total == UNKNOWN && self.is_at_start()
    }

    fn is_over(&self) -> bool {
        self.reached().end != RunEnd::None
    }

    /// Moves to the end of the epoch: the last batches may have lost all their rows and were not
    /// delivered.
    fn ended(&self) {
        let mut reached = self.reached();
        if reached.end == RunEnd::None {
            reached.end = RunEnd::Reached;
        }
    }

    /// Returns the first batch that was not delivered; a number beyond all batches at the end.
    fn next_batch(&self) -> u64 {
        let reached = self.reached();
        if reached.end == RunEnd::Reached { u64::MAX } else { reached.batches }
    }

    pub(super) fn fingerprint(&self) -> Option<u64> {
        self.reached().fingerprint
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
        let Reached { batches, end, fingerprint, .. } = *self.reached();
        let position = match end {
            // Also correct if the total is not known.
            RunEnd::Reached => self.total,
            _ => batches.saturating_mul(self.rows).min(self.total),
        };
        Ok(Cursor { position, fingerprint, ..self.begin })
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
struct RemainingOrder {
    order: EpochOrder,
    first: u64,
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
