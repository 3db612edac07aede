//! The interfaces of the engine: the stage that fills rows, and the order of the samples.

use std::error::Error;
use std::num::NonZeroUsize;
use std::ops::Range;

use super::Progress;
use crate::batch::{RowsMut, TensorSpec};
use crate::sample::{Epoch, SampleId, SampleRef};

/// Fills rows of batches with samples.
///
/// The bytes that [`fill`](Self::fill) writes may depend only on the epoch and the sample: not on
/// earlier calls of the worker, the thread, the time, or the other samples of the call.
pub trait Stage: Send + Sync + 'static {
    /// The state that one thread keeps between calls: scratch memory, open files.
    ///
    /// Created and dropped on the thread that uses it; kept while runs use the same stage.
    type Worker;
    /// The reason why the stage refuses a sample. It is boxed when it ends a run.
    type Error: Into<Box<dyn Error + Send + Sync>>;

    /// Returns the tensors of a batch, in the order of [`RowsMut::output`].
    fn outputs(&self) -> &[TensorSpec];

    /// Returns the preferred number of samples per call: 1 where a sample takes long, more where the
    /// call would cost as much as the sample. The engine may pass fewer.
    fn chunk(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    /// Creates a worker. The worker may keep `watch` and report the phases of [`fill`](Self::fill) and
    /// [`finish`](Self::finish) to it.
    fn worker(&self, watch: Progress) -> Self::Worker;

    /// Writes sample `visits[i]` to row `i` of every output, every byte of the row.
    ///
    /// After an error or a panic with several samples, the written bytes are discarded: the samples are
    /// passed again one by one, to find the one that failed. After a panic the worker is dropped and
    /// replaced.
    ///
    /// # Errors
    ///
    /// The first sample of `visits` that can't be read, and the reason.
    fn fill(
        &self,
        worker: &mut Self::Worker,
        epoch: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>>;

    /// Decides what becomes of the row of `visit`, which [`fill`](Self::fill) refused with `error`.
    ///
    /// `attempt` starts at 0 and grows by one whenever the substitute for this row is refused too;
    /// `visit` is always the row's own sample, and `error` is the substitute's. After
    /// [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS) calls for one row, the row fails. Panics always fail.
    ///
    /// The result may depend only on the arguments; otherwise batches depend on the threads. This is
    /// also called for batches that are started ahead and never requested.
    fn on_failure(
        &self,
        epoch: Epoch,
        visit: SampleRef,
        attempt: u32,
        error: &FillError<Self::Error>,
    ) -> OnFailure {
        let _ = (epoch, visit, attempt, error);
        OnFailure::Fail
    }

    /// Modifies a complete batch before it is delivered. Called once per batch, on a thread that filled
    /// some of its rows; not called for a batch that failed, was abandoned, or lost all its rows.
    ///
    /// `batch` is the number of the batch in the epoch. The result may depend only on the rows, the
    /// epoch and this number.
    ///
    /// # Errors
    ///
    /// The reason why the batch can't be delivered. A panic drops the worker, as in
    /// [`fill`](Self::fill).
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

/// Determines what becomes of a row whose sample can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The run ends with the sample's error, at its batch.
    Fail,
    /// The row is left out: its batch has one row less; a batch with no row left is not delivered.
    Skip,
    /// The row is filled with this sample instead.
    Substitute(SampleRef),
    /// The order ends before this row: there is no such sample and none after it, whatever the length of
    /// the order. A stage that returns this must return it for all later rows too.
    End,
}

/// A sample that a stage could not write.
#[derive(Debug)]
pub struct FillError<E> {
    /// The sample.
    pub sample: SampleId,
    /// The reason.
    pub source: E,
}

/// The samples of one run, in order. A pure function, called by several workers at the same time.
pub trait RunOrder: Send + Sync + 'static {
    /// Returns the number of samples of the run; [`UNKNOWN`](crate::sample::UNKNOWN) if only the stage
    /// finds the end, by [`OnFailure::End`].
    fn samples(&self) -> u64;

    /// Appends the samples at `positions` to `visits`, one for each. `positions` ends at or before `samples()`.
    fn visits(&self, positions: Range<u64>, visits: &mut Vec<SampleRef>);

    /// Returns true if [`visits`](Self::visits) may append fewer samples than positions, but at least one: the batch is
    /// shorter then. Default: false.
    fn may_be_short(&self) -> bool {
        false
    }
}

/// Each sample once.
impl RunOrder for Vec<SampleId> {
    fn samples(&self) -> u64 {
        self.len() as u64
    }

    fn visits(&self, positions: Range<u64>, visits: &mut Vec<SampleRef>) {
        let positions = positions.start as usize..positions.end as usize;
        visits.extend(self[positions].iter().map(|&sample| SampleRef::once(sample)));
    }
}
