//! One batch in the making: opened by a worker, filled by many, finished by the last.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::meter::Meter;
use super::repair::{Repairs, Trouble};
use super::spans::{BatchSpan, EpochSpan};
use super::stage::{FillError, Schedule, Stage};
use super::{Delivery, LastBatch, Phase, RunError, Watch};
use crate::batch::{Batch, Filling, Lease, Pool, RowsMut};
use crate::panicked::message;
use crate::sample::{Epoch, Visit};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, PoisonError};

/// What all batches of a run share.
pub(super) struct Run<S> {
    pub(super) id: u64,
    pub(super) stage: Arc<S>,
    pub(super) epoch: Epoch,
    pub(super) schedule: Box<dyn Schedule>,
    /// Samples delivered in all, or unknown; the schedule may have more, which the last batch would.
    pub(super) samples: u64,
    pub(super) batch_size: u64,
    pub(super) first_batch: u64,
    pub(super) last: LastBatch,
    pub(super) delivery: Delivery,
    pub(super) pool: Arc<Pool>,
    /// Threads that may share a batch.
    pub(super) workers: usize,
    /// The oldest batch with chunks to claim, as the ring last saw it; `u64::MAX` for none.
    /// Only a hint: a worker that is misled looks into the ring once more.
    pub(super) oldest: AtomicU64,
    pub(super) span: EpochSpan,
}

impl<S> Run<S> {
    /// The number of the first batch to deliver, and the one after the last.
    pub(super) fn batches(&self) -> (u64, u64) {
        let end = self.samples.div_ceil(self.batch_size);
        (self.first_batch.min(end), end)
    }

    /// Appends the rows of `batch`.
    fn visits(&self, batch: u64, visits: &mut Vec<Visit>) -> Result<(), RunError> {
        // `batch` is below the end of `batches()`, so the product is below `samples`.
        let first = batch * self.batch_size;
        let last = self.samples.min(first.saturating_add(self.batch_size));
        let asked = catch_unwind(AssertUnwindSafe(|| self.schedule.visits(first..last, visits)));
        if let Err(panic) = asked {
            return Err(RunError::Schedule { batch, message: message(&*panic) });
        }
        if visits.len() as u64 != last - first {
            let message = format!("gave {} of {} samples", visits.len(), last - first);
            return Err(RunError::Schedule { batch, message });
        }
        Ok(())
    }
}

/// A batch that workers share while they fill it.
pub(super) struct Job<S> {
    pub(super) run: Arc<Run<S>>,
    pub(super) batch: u64,
    pub(super) filling: Filling,
    /// The lowest row so far that ends the run.
    failure: Mutex<Option<Failure>>,
    repairs: Repairs,
    span: BatchSpan,
}

/// At which row of the batch the run ends, and why.
pub(super) struct Failure {
    pub(super) row: usize,
    pub(super) reason: Reason,
}

/// Why a run ends at a row.
pub(super) enum Reason {
    Error(RunError),
    /// There is no sample for it.
    End,
}

/// A batch nobody works at any more.
pub(super) struct Finished {
    pub(super) run: u64,
    pub(super) batch: u64,
    pub(super) outcome: Outcome,
    /// There are no samples after it.
    pub(super) is_last: bool,
}

impl Finished {
    /// It failed, with no other after it.
    pub(super) fn failed(run: u64, batch: u64, error: RunError) -> Self {
        Self { run, batch, outcome: Outcome::Error(error), is_last: true }
    }
}

/// How a batch ended.
pub(super) enum Outcome {
    Batch(Batch),
    /// It lost all its rows: so many.
    Empty(u64),
    Error(RunError),
}

impl<S: Stage> Job<S> {
    /// Opens `batch`: makes its slot ready and learns its samples.
    pub(super) fn open(run: Arc<Run<S>>, batch: u64, lease: Lease) -> Result<Self, RunError> {
        let mut slot = run.pool.redeem(lease)?;
        if let Err(error) = run.visits(batch, slot.visits_mut()) {
            slot.visits_mut().clear();
            run.pool.give(slot);
            return Err(error);
        }
        // A chunk for each worker at least, so that the first batch is soon there.
        let share = slot.visits().len().div_ceil(run.workers);
        let chunk = run.stage.chunk().get().min(share);
        let chunk = NonZeroUsize::new(chunk).unwrap_or(NonZeroUsize::MIN);
        let filling = Filling::new(slot, chunk);
        let (failure, repairs) = (Mutex::new(None), Repairs::default());
        let span = run.span.batch(batch);
        Ok(Self { run, batch, filling, failure, repairs, span })
    }

    /// Fills chunks until none is left, or an older batch has some: two workers that look for work
    /// at one time open a batch each, and the later one is not to be finished first.
    pub(super) fn work(&self, desk: &mut Desk<S>) {
        let _in_batch = self.span.enter();
        while let Some((visits, mut rows)) = self.filling.claim() {
            desk.meter.phase(Phase::Fill);
            desk.meter.at(self.batch, visits.first().map(|visit| visit.sample));
            if let Err(failure) = self.fill_chunk(desk, visits, &mut rows) {
                self.fail(failure);
            }
            if self.run.oldest.load(Ordering::Relaxed) < self.batch {
                break;
            }
        }
        desk.meter.phase(Phase::Fill);
        desk.meter.at(self.batch, None);
    }

    /// Fills one chunk; if that goes wrong, row by row, to learn which row it is.
    fn fill_chunk(
        &self,
        desk: &mut Desk<S>,
        visits: &[Visit],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), Failure> {
        let Err(trouble) = desk.fill(&self.run, visits, rows) else { return Ok(()) };
        if let [visit] = visits {
            return self.repairs.mend(self, desk, *visit, rows, trouble);
        }
        for (i, visit) in visits.iter().enumerate() {
            let mut row = rows.row(i);
            if let Err(trouble) = desk.fill(&self.run, &[*visit], &mut row) {
                self.repairs.mend(self, desk, *visit, &mut row, trouble)?;
            }
        }
        match trouble {
            Trouble::Refused(_) => Ok(()),
            // None of them alone does it: a bug in the stage all the same.
            Trouble::Panicked(message) => {
                let (row, sample) = (rows.first_row(), visits[0].sample);
                let error = RunError::Panicked { batch: self.batch, sample, message };
                Err(Failure { row, reason: Reason::Error(error) })
            }
        }
    }

    /// Keeps the failure of the lowest row. Chunks go out in order, so all lower rows are in
    /// work already: whoever else fails below still comes here before the batch is finished.
    fn fail(&self, failure: Failure) {
        self.filling.cancel();
        let mut kept = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| failure.row < kept.row) {
            *kept = Some(failure);
        }
    }

    /// The batch, or why there is none; its slot goes back to the pool then.
    pub(super) fn finish(self, desk: &mut Desk<S>) -> Finished {
        let Self { run, batch, filling, failure, repairs, span } = self;
        let _in_batch = span.enter();
        let is_whole = filling.is_whole();
        let mut slot = filling.into_slot();
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        // All rows before the end are filled, whether or not the others were begun.
        let (end, error) = match failure {
            None if !is_whole => (usize::MAX, Some(RunError::Stopped)),
            None => (usize::MAX, None),
            Some(Failure { reason: Reason::Error(error), .. }) => (usize::MAX, Some(error)),
            Some(Failure { .. }) if run.last == LastBatch::Drop => (0, None),
            Some(Failure { row, reason: Reason::End }) => (row, None),
        };
        let is_last = end < usize::MAX || error.is_some();
        let damage = repairs.apply(&mut slot, end);
        let is_empty = slot.visits().is_empty();
        let finished = match error {
            Some(error) => Err(error),
            None if is_empty => Ok(()),
            None => {
                desk.meter.phase(Phase::Finish);
                desk.meter.at(batch, slot.visits().first().map(|visit| visit.sample));
                let finished = desk.finish(&run, batch, &mut slot.rows_mut());
                desk.meter.phase(Phase::Fill);
                desk.meter.at(batch, None);
                finished
            }
        };
        // Made in any case: dropping it gives the slot back.
        let leased = Batch::new(slot, &run.pool, run.epoch, batch).with_damage(damage);
        let outcome = match finished {
            Err(error) => Outcome::Error(error),
            Ok(()) if is_empty => Outcome::Empty(leased.skipped().len() as u64),
            Ok(()) => Outcome::Batch(leased),
        };
        Finished { run: run.id, batch, outcome, is_last }
    }

    /// A batch that nobody wants any more.
    pub(super) fn abandon(self) -> Finished {
        let Self { run, batch, filling, .. } = self;
        drop(Batch::new(filling.into_slot(), &run.pool, run.epoch, batch));
        Finished::failed(run.id, batch, RunError::Stopped)
    }
}

/// What a thread keeps from chunk to chunk: the stage's worker, as long as the stage is the same.
pub(super) struct Desk<S: Stage> {
    kept: Option<(Arc<S>, S::Worker)>,
    pub(super) meter: Arc<Meter>,
}

impl<S: Stage> Desk<S> {
    pub(super) fn new(meter: Arc<Meter>) -> Self {
        Self { kept: None, meter }
    }

    pub(super) fn fill(
        &mut self,
        run: &Run<S>,
        visits: &[Visit],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), Trouble<FillError>> {
        self.call(&run.stage, |worker| run.stage.fill(worker, run.epoch, visits, rows))
    }

    fn finish(&mut self, run: &Run<S>, batch: u64, rows: &mut RowsMut<'_>) -> Result<(), RunError> {
        let finished =
            self.call(&run.stage, |worker| run.stage.finish(worker, run.epoch, batch, rows));
        finished.map_err(|trouble| match trouble {
            Trouble::Refused(source) => RunError::Finish { batch, source },
            Trouble::Panicked(message) => RunError::FinishPanicked { batch, message },
        })
    }

    /// Calls the stage. A panic becomes its message, and what it left of the worker is dropped.
    fn call<E>(
        &mut self,
        stage: &Arc<S>,
        call: impl FnOnce(&mut S::Worker) -> Result<(), E>,
    ) -> Result<(), Trouble<E>> {
        match catch_unwind(AssertUnwindSafe(|| call(self.worker(stage)))) {
            Ok(done) => done.map_err(Trouble::Refused),
            Err(panic) => {
                let broken = self.kept.take();
                // A second panic, in its drop, says nothing new.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(broken)));
                Err(Trouble::Panicked(message(&*panic)))
            }
        }
    }

    fn worker(&mut self, stage: &Arc<S>) -> &mut S::Worker {
        let kept = self.kept.take().filter(|(kept, _)| Arc::ptr_eq(kept, stage));
        let kept =
            kept.unwrap_or_else(|| (Arc::clone(stage), stage.worker(Watch::on(&self.meter))));
        &mut self.kept.insert(kept).1
    }
}
