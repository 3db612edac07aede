//! Rows whose samples can't be read: the stage's decision for each, and its effect on the batch.
//!
//! ```text
//!   filled          a b X d Y f       X: substitute x, Y: skip
//!   as delivered    a b x d f         rows move up, in order, and so do the batch's samples
//!
//!   filled          a b X | . .       X: no such sample, the order ends here
//!   as delivered    a b               and no batch after it
//! ```

use super::RunError;
use super::job::{BatchInFlight, EndReason, RunFailure, WorkerState};
use super::stage::{FillError, OnFailure, Stage};
use crate::batch::{RowDamage, RowsMut, Slot};
use crate::panicked::caught;
use crate::sample::SampleRef;
use crate::sync::{Mutex, PoisonError};

/// How often a stage is asked about one row before the row fails: a stage that always returned a
/// substitute would never end.
pub const MAX_ATTEMPTS: u32 = 100;

/// Why a call of a stage failed.
pub(super) enum StageFailure<E> {
    Refused(E),
    Panicked(String),
}

/// The rows of a batch that are left out or replaced.
#[derive(Default)]
pub(super) struct RowFixes(Mutex<Vec<RowFix>>);

struct RowFix {
    row: usize,
    /// The sample that the row holds instead; `None` if the row is left out.
    with: Option<SampleRef>,
}

impl RowFixes {
    /// Applies the stage's decision to the row of `visit`.
    pub(super) fn handle_failure<S: Stage>(
        &self,
        job: &BatchInFlight<S>,
        worker_state: &mut WorkerState<S>,
        visit: SampleRef,
        row: &mut RowsMut<'_>,
        mut trouble: StageFailure<FillError<S::Error>>,
    ) -> Result<(), RunFailure> {
        let (first_row, mut tried) = (row.first_row(), visit);
        let failed = |error| Err(RunFailure { row: first_row, reason: EndReason::Error(error) });
        let panicked = |sample, message| RunError::Panicked { batch: job.batch, sample, message };
        for attempt in 0.. {
            let error = match trouble {
                StageFailure::Refused(error) => error,
                StageFailure::Panicked(message) => return failed(panicked(tried.sample, message)),
            };
            match ask(job, visit, attempt, &error) {
                Ok(OnFailure::Skip) => {
                    self.note(first_row, None);
                    break;
                }
                Ok(OnFailure::End) => {
                    return Err(RunFailure { row: first_row, reason: EndReason::End });
                }
                Ok(OnFailure::Substitute(other)) if attempt + 1 < MAX_ATTEMPTS => tried = other,
                Ok(OnFailure::Fail | OnFailure::Substitute(_)) => {
                    let (sample, source) = (error.sample, error.source.into());
                    return failed(RunError::Fill { batch: job.batch, sample, source });
                }
                Err(message) => return failed(panicked(visit.sample, message)),
            }
            match worker_state.fill(&job.run, &[tried], row) {
                Ok(()) => {
                    self.note(first_row, Some(tried));
                    break;
                }
                Err(again) => trouble = again,
            }
        }
        Ok(())
    }

    fn note(&self, row: usize, with: Option<SampleRef>) {
        let mut repairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        repairs.push(RowFix { row, with });
    }

    /// Updates the samples of `slot` and removes the rows left out; rows from `end` on are dropped.
    pub(super) fn apply(self, slot: &mut Slot, end: usize) -> RowDamage {
        let mut repairs = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Workers add them in any order.
        repairs.sort_unstable_by_key(|repair| repair.row);
        repairs.retain(|repair| repair.row < end);
        slot.visits_mut().truncate(end);
        let (mut damage, mut gone) = (RowDamage::default(), Vec::new());
        for RowFix { row, with } in repairs {
            match with {
                None => {
                    damage.skipped.push(slot.visits()[row]);
                    gone.push(row);
                }
                Some(visit) => {
                    damage.replaced.push(std::mem::replace(&mut slot.visits_mut()[row], visit));
                }
            }
        }
        if !gone.is_empty() {
            slot.remove_rows(&gone);
        }
        damage
    }
}

/// Asks the stage. A panic is turned into its message.
fn ask<S: Stage>(
    job: &BatchInFlight<S>,
    visit: SampleRef,
    attempt: u32,
    error: &FillError<S::Error>,
) -> Result<OnFailure, String> {
    let (stage, epoch) = (&job.run.stage, job.run.epoch);
    caught(|| stage.on_failure(epoch, visit, attempt, error))
}
