//! Rows whose samples can't be had: what the stage says becomes of them, and what is left of a batch.
//!
//! ```text
//!   filled          a b X d Y f       X: substitute x, Y: skip
//!   as delivered    a b x d f         rows move up, in order; the batch's visits say so
//!
//!   filled          a b X | . .       X: there is no such sample, the samples end here
//!   as delivered    a b               and no batch after it
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::RunError;
use super::job::{Desk, Failure, Job, Reason};
use super::stage::{Damaged, FillError, Stage};
use crate::batch::{Damage, RowsMut, Slot};
use crate::panicked::message;
use crate::sample::Visit;
use crate::sync::{Mutex, PoisonError};

/// How often a stage is asked about one row before the row fails: a stage that names substitutes
/// for ever would never end.
pub const MOST_ATTEMPTS: u32 = 100;

/// Why a call of a stage gave nothing.
pub(super) enum Trouble<E> {
    Refused(E),
    Panicked(String),
}

/// The rows of a batch that are not as its order would have them.
#[derive(Default)]
pub(super) struct Repairs(Mutex<Vec<Repair>>);

struct Repair {
    row: usize,
    /// What the row holds; `None` if it is to be left out.
    with: Option<Visit>,
}

impl Repairs {
    /// Does with the row of `visit` what the stage says.
    pub(super) fn mend<S: Stage>(
        &self,
        job: &Job<S>,
        desk: &mut Desk<S>,
        visit: Visit,
        row: &mut RowsMut<'_>,
        mut trouble: Trouble<FillError>,
    ) -> Result<(), Failure> {
        let (place, mut tried) = (row.first_row(), visit);
        let failed = |error| Err(Failure { row: place, reason: Reason::Error(error) });
        let panicked = |sample, message| RunError::Panicked { batch: job.batch, sample, message };
        for attempt in 0.. {
            let error = match trouble {
                Trouble::Refused(error) => error,
                Trouble::Panicked(message) => return failed(panicked(tried.sample, message)),
            };
            match ask(job, visit, attempt, &error) {
                Ok(Damaged::Skip) => {
                    self.note(place, None);
                    break;
                }
                Ok(Damaged::End) => return Err(Failure { row: place, reason: Reason::End }),
                Ok(Damaged::Substitute(other)) if attempt + 1 < MOST_ATTEMPTS => tried = other,
                Ok(Damaged::Fail | Damaged::Substitute(_)) => {
                    let FillError { sample, source } = error;
                    return failed(RunError::Fill { batch: job.batch, sample, source });
                }
                Err(message) => return failed(panicked(visit.sample, message)),
            }
            match desk.fill(&job.run, &[tried], row) {
                Ok(()) => {
                    self.note(place, Some(tried));
                    break;
                }
                Err(again) => trouble = again,
            }
        }
        Ok(())
    }

    fn note(&self, row: usize, with: Option<Visit>) {
        let mut repairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        repairs.push(Repair { row, with });
    }

    /// Has the visits of `slot` say what its rows are, and closes up those left out; rows from `end`
    /// on are none.
    pub(super) fn apply(self, slot: &mut Slot, end: usize) -> Damage {
        let mut repairs = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Workers note them in no order.
        repairs.sort_unstable_by_key(|repair| repair.row);
        repairs.retain(|repair| repair.row < end);
        slot.visits_mut().truncate(end);
        let (mut damage, mut gone) = (Damage::default(), Vec::new());
        for Repair { row, with } in repairs {
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
            slot.leave_out(&gone);
        }
        damage
    }
}

/// Asks the stage; a panic becomes its message.
fn ask<S: Stage>(
    job: &Job<S>,
    visit: Visit,
    attempt: u32,
    error: &FillError,
) -> Result<Damaged, String> {
    let (stage, epoch) = (&job.run.stage, job.run.epoch);
    let asked = catch_unwind(AssertUnwindSafe(|| stage.damaged(epoch, visit, attempt, error)));
    asked.map_err(|panic| message(&*panic))
}
