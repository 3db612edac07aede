//! One batch in flight: opened by a worker, filled by many, finished by the last.

use std::num::NonZeroUsize;

use super::meter::WorkerTimer;
use super::row_fixes::{RowFixes, StageFailure};
use super::spans::{BatchSpan, EpochSpan};
use super::stage::{FillError, RunOrder, Stage};
use super::{Delivery, LastBatch, Phase, Progress, RunError};
use crate::batch::{FillingSlot, HostBatch, Lease, RowsMut, SlotPool};
use crate::panicked::caught;
use crate::sample::{Epoch, SampleRef};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, PoisonError};

/// The state shared by all batches of a run.
pub(super) struct RunContext<S> {
    pub(super) id: u64,
    pub(super) stage: Arc<S>,
    pub(super) epoch: Epoch,
    /// The part of the batches' fingerprints that all share.
    pub(super) origin: u64,
    pub(super) schedule: Box<dyn RunOrder>,
    /// The number of samples delivered in total, or unknown; the order may have more, which an
    /// incomplete last batch would hold.
    pub(super) samples: u64,
    pub(super) batch_size: u64,
    pub(super) first_batch: u64,
    pub(super) last: LastBatch,
    pub(super) delivery: Delivery,
    pub(super) pool: Arc<SlotPool>,
    /// The number of threads that may share a batch.
    pub(super) workers: usize,
    /// The oldest batch with unclaimed chunks, as last seen by the ring; `u64::MAX` for none. This is
    /// only a hint: a worker that is misled looks into the ring once more.
    pub(super) oldest: AtomicU64,
    pub(super) span: EpochSpan,
}

impl<S> RunContext<S> {
    /// Returns the number of the first batch to deliver, and one past the last.
    pub(super) fn batches(&self) -> (u64, u64) {
        let end = self.samples.div_ceil(self.batch_size);
        (self.first_batch.min(end), end)
    }

    /// Appends the samples of `batch`.
    fn visits(&self, batch: u64, visits: &mut Vec<SampleRef>) -> Result<(), RunError> {
        // `batch` is below the end of `batches()`, so the product is below `samples`.
        let first = batch * self.batch_size;
        let last = self.samples.min(first.saturating_add(self.batch_size));
        let asked = caught(|| self.schedule.visits(first..last, visits));
        asked.map_err(|message| RunError::Schedule { batch, message })?;
        let (found, positions) = (visits.len() as u64, last - first);
        let is_short = found > 0 && found < positions && self.schedule.may_be_short();
        if found != positions && !is_short {
            let message = format!("returned {found} of {positions} samples");
            return Err(RunError::Schedule { batch, message });
        }
        Ok(())
    }
}

/// A batch that workers share while they fill it.
pub(super) struct BatchInFlight<S> {
    pub(super) run: Arc<RunContext<S>>,
    pub(super) batch: u64,
    pub(super) filling: FillingSlot,
    /// The failure of the lowest row so far that ends the run.
    failure: Mutex<Option<RunFailure>>,
    row_fixes: RowFixes,
    span: BatchSpan,
}

/// The row of the batch at which the run ends, and the reason.
pub(super) struct RunFailure {
    pub(super) row: usize,
    pub(super) reason: EndReason,
}

/// The reason why a run ends at a row.
pub(super) enum EndReason {
    Error(RunError),
    /// There is no sample for the row.
    End,
}

/// A batch that no worker holds any more.
pub(super) struct FinishedBatch {
    pub(super) run: u64,
    pub(super) batch: u64,
    pub(super) outcome: BatchOutcome,
    /// No batch follows.
    pub(super) is_last: bool,
}

impl FinishedBatch {
    /// Describes a failed batch, which ends the run.
    pub(super) fn failed(run: u64, batch: u64, error: RunError) -> Self {
        Self { run, batch, outcome: BatchOutcome::Error(error), is_last: true }
    }
}

/// How a batch ended.
pub(super) enum BatchOutcome {
    Batch(HostBatch),
    /// The batch lost all its rows; their number.
    Empty(u64),
    Error(RunError),
}

impl<S: Stage> BatchInFlight<S> {
    /// Opens `batch`: prepares its slot and looks up its samples.
    pub(super) fn open(
        run: Arc<RunContext<S>>,
        batch: u64,
        lease: Lease,
    ) -> Result<Self, RunError> {
        let mut slot = run.pool.redeem(lease)?;
        if let Err(error) = run.visits(batch, slot.visits_mut()) {
            slot.visits_mut().clear();
            run.pool.give(slot);
            return Err(error);
        }
        // At least one chunk for each worker, so that the first batch is ready soon.
        let share = slot.visits().len().div_ceil(run.workers);
        let chunk = run.stage.chunk().get().min(share);
        let chunk = NonZeroUsize::new(chunk).unwrap_or(NonZeroUsize::MIN);
        let filling = FillingSlot::new(slot, chunk);
        let (failure, row_fixes) = (Mutex::new(None), RowFixes::default());
        let span = run.span.batch(batch);
        Ok(Self { run, batch, filling, failure, row_fixes, span })
    }

    /// Fills chunks until none is left, or an older batch has unclaimed ones: two workers that look for
    /// work at the same time open one batch each, and the later batch must not be finished first.
    pub(super) fn work(&self, worker_state: &mut WorkerState<S>) {
        let _in_batch = self.span.enter();
        while let Some((visits, mut rows)) = self.filling.claim() {
            worker_state.meter.phase(Phase::Fill);
            worker_state.meter.at(self.batch, visits.first().map(|visit| visit.sample));
            if let Err(failure) = self.fill_chunk(worker_state, visits, &mut rows) {
                self.fail(failure);
            }
            if self.run.oldest.load(Ordering::Relaxed) < self.batch {
                break;
            }
        }
        worker_state.meter.phase(Phase::Fill);
        worker_state.meter.at(self.batch, None);
    }

    /// Fills one chunk; if that fails, row by row, to find the row that failed.
    fn fill_chunk(
        &self,
        worker_state: &mut WorkerState<S>,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), RunFailure> {
        let Err(trouble) = worker_state.fill(&self.run, visits, rows) else { return Ok(()) };
        if let [visit] = visits {
            return self.row_fixes.handle_failure(self, worker_state, *visit, rows, trouble);
        }
        for (i, visit) in visits.iter().enumerate() {
            let mut row = rows.row(i);
            if let Err(trouble) = worker_state.fill(&self.run, &[*visit], &mut row) {
                self.row_fixes.handle_failure(self, worker_state, *visit, &mut row, trouble)?;
            }
        }
        match trouble {
            StageFailure::Refused(_) => Ok(()),
            // No row alone panics, but the stage still has a bug.
            StageFailure::Panicked(message) => {
                let (row, sample) = (rows.first_row(), visits[0].sample);
                let error = RunError::Panicked { batch: self.batch, sample, message };
                Err(RunFailure { row, reason: EndReason::Error(error) })
            }
        }
    }

    /// Records a failure, if its row is the lowest so far. Chunks are claimed in order, so all lower
    /// rows are already being filled: any failure among them is recorded before the batch is finished.
    fn fail(&self, failure: RunFailure) {
        self.filling.cancel();
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|first| failure.row < first.row) {
            *first = Some(failure);
        }
    }

    /// Finishes the batch. If the batch failed, its slot returns to the pool.
    pub(super) fn finish(self, worker_state: &mut WorkerState<S>) -> FinishedBatch {
        let Self { run, batch, filling, failure, row_fixes, span } = self;
        let _in_batch = span.enter();
        let is_whole = filling.is_whole();
        let mut slot = filling.into_slot();
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        // All rows before the end are filled, even if later chunks were not claimed.
        let (end, error) = match failure {
            None if !is_whole => (usize::MAX, Some(RunError::Stopped)),
            None => (usize::MAX, None),
            Some(RunFailure { reason: EndReason::Error(error), .. }) => (usize::MAX, Some(error)),
            Some(RunFailure { .. }) if run.last == LastBatch::Drop => (0, None),
            Some(RunFailure { row, reason: EndReason::End }) => (row, None),
        };
        let is_last = end < usize::MAX || error.is_some();
        let damage = row_fixes.apply(&mut slot, end);
        let is_empty = slot.visits().is_empty();
        let finished = match error {
            Some(error) => Err(error),
            None if is_empty => Ok(()),
            None => {
                worker_state.meter.phase(Phase::Finish);
                worker_state.meter.at(batch, slot.visits().first().map(|visit| visit.sample));
                let finished = worker_state.finish(&run, batch, &mut slot.rows_mut());
                worker_state.meter.phase(Phase::Fill);
                worker_state.meter.at(batch, None);
                finished
            }
        };
        // Created in any case: dropping it returns the slot.
        let leased = HostBatch::new(slot, &run.pool, run.epoch, batch);
        let leased = leased.with_damage(damage).with_origin(run.origin);
        span.record_fingerprint(|| leased.fingerprint());
        let outcome = match finished {
            Err(error) => BatchOutcome::Error(error),
            Ok(()) if is_empty => BatchOutcome::Empty(leased.skipped().len() as u64),
            Ok(()) => BatchOutcome::Batch(leased),
        };
        FinishedBatch { run: run.id, batch, outcome, is_last }
    }

    /// Abandons a batch whose run is closed.
    pub(super) fn abandon(self) -> FinishedBatch {
        let Self { run, batch, filling, .. } = self;
        drop(HostBatch::new(filling.into_slot(), &run.pool, run.epoch, batch));
        FinishedBatch::failed(run.id, batch, RunError::Stopped)
    }
}

/// The state that a thread keeps between chunks: the stage's worker, as long as the stage is the same.
pub(super) struct WorkerState<S: Stage> {
    worker: Option<(Arc<S>, S::Worker)>,
    pub(super) meter: Arc<WorkerTimer>,
}

impl<S: Stage> WorkerState<S> {
    pub(super) fn new(meter: Arc<WorkerTimer>) -> Self {
        Self { worker: None, meter }
    }

    pub(super) fn fill(
        &mut self,
        run: &RunContext<S>,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), StageFailure<FillError<S::Error>>> {
        self.call(&run.stage, |worker| run.stage.fill(worker, run.epoch, visits, rows))
    }

    fn finish(
        &mut self,
        run: &RunContext<S>,
        batch: u64,
        rows: &mut RowsMut<'_>,
    ) -> Result<(), RunError> {
        let finished =
            self.call(&run.stage, |worker| run.stage.finish(worker, run.epoch, batch, rows));
        finished.map_err(|trouble| match trouble {
            StageFailure::Refused(source) => RunError::Finish { batch, source },
            StageFailure::Panicked(message) => RunError::FinishPanicked { batch, message },
        })
    }

    /// Calls the stage. A panic is turned into its message, and the stage's worker is dropped.
    fn call<E>(
        &mut self,
        stage: &Arc<S>,
        call: impl FnOnce(&mut S::Worker) -> Result<(), E>,
    ) -> Result<(), StageFailure<E>> {
        match caught(|| call(self.worker(stage))) {
            Ok(done) => done.map_err(StageFailure::Refused),
            Err(message) => {
                let broken = self.worker.take();
                // A second panic, in the drop, adds no information.
                let _ = caught(|| drop(broken));
                Err(StageFailure::Panicked(message))
            }
        }
    }

    fn worker(&mut self, stage: &Arc<S>) -> &mut S::Worker {
        let worker = self.worker.take().filter(|(last, _)| Arc::ptr_eq(last, stage));
        let worker =
            worker.unwrap_or_else(|| (Arc::clone(stage), stage.worker(Progress::on(&self.meter))));
        &mut self.worker.insert(worker).1
    }
}
