//! What the engine is given: who fills rows, and which samples in which order.

use std::error::Error;
use std::num::NonZeroUsize;
use std::ops::Range;

use super::Watch;
use crate::batch::{RowsMut, TensorSpec};
use crate::sample::{Epoch, SampleId, Visit};

/// Fills rows of batches with samples.
///
/// To decide what [`fill`](Self::fill) writes it may use nothing but the epoch and the visit: not
/// the worker's past, the thread, the time, or which samples come along in one call.
pub trait Stage: Send + Sync + 'static {
    /// What one thread keeps from call to call: scratch memory, open files.
    ///
    /// Made and dropped on the thread that uses it; kept while runs use the same stage.
    type Worker;

    /// The tensors of a batch, in the order of [`RowsMut::output`].
    fn outputs(&self) -> &[TensorSpec];

    /// How many samples it likes to be given at once: 1 where a sample takes long, more where
    /// the call would cost as much as the sample. The engine may give fewer.
    fn chunk(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    /// A fresh worker. It may keep `watch`, and tell it what [`fill`](Self::fill) and
    /// [`finish`](Self::finish) are about.
    fn worker(&self, watch: Watch) -> Self::Worker;

    /// Writes `visits[i]` to row `i` of every output, every byte of it.
    ///
    /// After an error or a panic at several visits, what was written is of no account: the visits
    /// are given again one by one, to learn which of them it was. After a panic the worker is
    /// thrown away, and a fresh one goes on.
    ///
    /// # Errors
    ///
    /// The first of `visits` whose sample can't be had, and why.
    fn fill(
        &self,
        worker: &mut Self::Worker,
        epoch: Epoch,
        visits: &[Visit],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError>;

    /// What to do about `visit`, which [`fill`](Self::fill) refused with `error`.
    ///
    /// `attempt` is 0 at first, and one more whenever the substitute for this row is refused too;
    /// `visit` stays the row's own, `error` is that of the substitute. A row is asked about
    /// [`MOST_ATTEMPTS`](super::MOST_ATTEMPTS) times at most, then it fails. Panics always fail.
    ///
    /// The answer may depend on what is asked alone, or batches depend on the threads. Batches
    /// that are begun ahead and never asked for are asked about as well.
    fn damaged(&self, epoch: Epoch, visit: Visit, attempt: u32, error: &FillError) -> Damaged {
        let _ = (epoch, visit, attempt, error);
        Damaged::Fail
    }

    /// Changes a batch whose every row is filled, before it is delivered. Once for each batch, on
    /// a thread that filled some of it; never for one that failed, was given up half filled, or
    /// lost all its rows.
    ///
    /// `batch` is its number in the epoch. Beside what the rows hold it may use the epoch and this
    /// number.
    ///
    /// # Errors
    ///
    /// Why the batch can't be had. A panic throws the worker away, as in [`fill`](Self::fill).
    fn finish(
        &self,
        worker: &mut Self::Worker,
        epoch: Epoch,
        batch: u64,
        rows: &mut RowsMut<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let _ = (worker, epoch, batch, rows);
        Ok(())
    }
}

/// What becomes of a row whose sample can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// The run ends with the sample's error, at its batch.
    Fail,
    /// The row is left out: its batch has one row less, and if it has none left, it is not
    /// delivered.
    Skip,
    /// The row is filled with this visit in its place.
    Substitute(Visit),
    /// There is no such sample, and none after it in the order: the run ends before this row,
    /// however many samples its schedule has. Who says so says it of all rows from there on.
    End,
}

/// A sample that a stage could not fill a row with.
#[derive(Debug, thiserror::Error)]
#[error("sample {sample}: {source}")]
pub struct FillError {
    /// The sample.
    pub sample: SampleId,
    /// Why.
    pub source: Box<dyn Error + Send + Sync>,
}

/// The samples of one run, in order. A pure function: several workers ask at once.
pub trait Schedule: Send + Sync + 'static {
    /// How many samples the run has; [`UNKNOWN`](crate::sample::UNKNOWN) if only the stage can
    /// tell, by [`Damaged::End`].
    fn samples(&self) -> u64;

    /// Appends what comes at `places` to `visits`. `places` ends at or before `samples()`.
    fn visits(&self, places: Range<u64>, visits: &mut Vec<Visit>);
}

/// Each sample once.
impl Schedule for Vec<SampleId> {
    fn samples(&self) -> u64 {
        self.len() as u64
    }

    fn visits(&self, places: Range<u64>, visits: &mut Vec<Visit>) {
        let places = places.start as usize..places.end as usize;
        visits.extend(self[places].iter().map(|&sample| Visit::once(sample)));
    }
}
