//! One batch in the making: opened by a worker, filled by many, finished by the last.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::RunError;
use super::error::message;
use super::headroom::Meter;
use super::stage::{FillError, Schedule, Stage};
use crate::batch::{Batch, Filling, Lease, Pool, RowsMut};
use crate::sample::{Epoch, Visit};

/// What all batches of a run share.
pub(super) struct Run<S> {
    pub(super) id: u64,
    pub(super) stage: Arc<S>,
    pub(super) epoch: Epoch,
    pub(super) schedule: Box<dyn Schedule>,
    /// Samples delivered in all; the schedule may have more, which the last batch would.
    pub(super) samples: u64,
    pub(super) batch_size: u64,
    pub(super) pool: Arc<Pool>,
    /// Threads that may share a batch.
    pub(super) workers: usize,
    /// The oldest batch with chunks to claim, as the ring last saw it; `u64::MAX` for none.
    /// Only a hint: a worker that is misled looks into the ring once more.
    pub(super) oldest: AtomicU64,
}

impl<S> Run<S> {
    pub(super) fn batches(&self) -> u64 {
        self.samples.div_ceil(self.batch_size)
    }

    /// Appends the rows of `batch`.
    fn visits(&self, batch: u64, visits: &mut Vec<Visit>) -> Result<(), RunError> {
        // `batch < batches()`, so the product is below `samples`.
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
    /// The failure of the lowest row so far.
    failure: Mutex<Option<Failure>>,
}

struct Failure {
    row: usize,
    error: RunError,
}

/// A batch nobody works at any more.
pub(super) struct Finished {
    pub(super) run: u64,
    pub(super) batch: u64,
    pub(super) outcome: Result<Batch, RunError>,
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
        Ok(Self { run, batch, filling, failure: Mutex::new(None) })
    }

    /// Fills chunks until none is left, or an older batch has some: two workers that look for work
    /// at one time open a batch each, and the later one is not to be finished first.
    pub(super) fn work(&self, desk: &mut Desk<S>, meter: &Meter) {
        while let Some((visits, mut rows)) = self.filling.claim() {
            meter.note(visits.first().map(|visit| visit.sample));
            let filled = self.fill_chunk(desk, visits, &mut rows);
            if let Err((row, error)) = filled {
                self.fail(Failure { row: rows.first_row() + row, error });
            }
            if self.run.oldest.load(Ordering::Relaxed) < self.batch {
                break;
            }
        }
        meter.note(None);
    }

    /// Fills one chunk; on failure says which of its rows it was.
    fn fill_chunk(
        &self,
        desk: &mut Desk<S>,
        visits: &[Visit],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), (usize, RunError)> {
        let panic = match desk.fill(&self.run, visits, rows) {
            Err(Trouble::Panicked(panic)) => panic,
            outcome => return outcome.map_err(|t| self.explain(visits, t)),
        };
        // Which of them was it?
        if visits.len() > 1 {
            for i in 0..visits.len() {
                let one = &visits[i..=i];
                let again = desk.fill(&self.run, one, &mut rows.row(i));
                again.map_err(|trouble| (i, self.explain(one, trouble).1))?;
            }
        }
        Err(self.explain(visits, Trouble::Panicked(panic)))
    }

    /// The row among `visits`, and the error for the caller.
    fn explain(&self, visits: &[Visit], trouble: Trouble<FillError>) -> (usize, RunError) {
        let batch = self.batch;
        match trouble {
            Trouble::Refused(FillError { sample, source }) => {
                let row = visits.iter().position(|visit| visit.sample == sample).unwrap_or(0);
                (row, RunError::Fill { batch, sample, source })
            }
            Trouble::Panicked(message) => {
                (0, RunError::Panicked { batch, sample: visits[0].sample, message })
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
    pub(super) fn finish(self, desk: &mut Desk<S>, meter: &Meter) -> Finished {
        let Self { run, batch, filling, failure } = self;
        let is_whole = filling.is_whole();
        let mut slot = filling.into_slot();
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        let finished = match failure {
            Some(failure) => Err(failure.error),
            None if !is_whole => Err(RunError::Stopped),
            None => {
                meter.note(slot.visits().first().map(|visit| visit.sample));
                let finished = desk.finish(&run, batch, &mut slot.rows_mut());
                meter.note(None);
                finished
            }
        };
        // Made in any case: dropping it gives the slot back.
        let leased = Batch::new(slot, &run.pool, run.epoch, batch);
        Finished { run: run.id, batch, outcome: finished.map(|()| leased) }
    }

    /// A batch that nobody wants any more.
    pub(super) fn abandon(self) -> Finished {
        let Self { run, batch, filling, .. } = self;
        drop(Batch::new(filling.into_slot(), &run.pool, run.epoch, batch));
        Finished { run: run.id, batch, outcome: Err(RunError::Stopped) }
    }
}

/// Why a call of a stage gave nothing.
enum Trouble<E> {
    Refused(E),
    Panicked(String),
}

/// What a thread keeps from chunk to chunk: the stage's worker, as long as the stage is the same.
pub(super) struct Desk<S: Stage> {
    kept: Option<(Arc<S>, S::Worker)>,
}

impl<S: Stage> Desk<S> {
    pub(super) fn new() -> Self {
        Self { kept: None }
    }

    fn fill(
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
        let kept = kept.unwrap_or_else(|| (Arc::clone(stage), stage.worker()));
        &mut self.kept.insert(kept).1
    }
}
