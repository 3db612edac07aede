//! One run over samples: what to run, and the iterator over its batches.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::RunError;
use super::shared::{Passed, Shared};
use super::stage::{Schedule, Stage};
use crate::batch::Batch;
use crate::sample::{Epoch, UNKNOWN};
use crate::sync::Arc;
use crate::sync::counter::Ordering;
use crate::threads::Process;

/// What to do with the samples left over when the batch size does not divide them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LastBatch {
    /// A last batch with fewer samples.
    #[default]
    Keep,
    /// Leave them out.
    Drop,
}

/// Which of the finished batches comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Delivery {
    /// Batch after batch.
    #[default]
    InOrder,
    /// Whichever is finished: a slow batch holds up no other. Each has the rows it would have in
    /// order; only which comes when is left to chance.
    Unordered,
}

/// What [`Engine::start`](super::Engine::start) runs.
pub struct Pass<S> {
    /// Who fills the rows.
    pub stage: Arc<S>,
    /// Given to the stage.
    pub epoch: Epoch,
    /// Which samples, in order.
    pub schedule: Box<dyn Schedule>,
    /// Samples of a batch.
    pub batch_size: NonZeroUsize,
    /// What to do with the rest.
    pub last: LastBatch,
    /// Where to begin: the batches before it are left out. Batches keep their numbers in the
    /// epoch, so this gives what the rest of the whole run would have been. Beyond the end, nothing.
    pub first_batch: u64,
    /// Which batch comes next.
    pub delivery: Delivery,
}

impl<S> Pass<S> {
    /// All batches of `schedule`, in order, a short last one included.
    #[must_use]
    pub fn new(
        stage: Arc<S>,
        epoch: Epoch,
        schedule: Box<dyn Schedule>,
        batch_size: NonZeroUsize,
    ) -> Self {
        let (last, delivery) = (LastBatch::Keep, Delivery::InOrder);
        Self { stage, epoch, schedule, batch_size, last, first_batch: 0, delivery }
    }

    /// Samples of the whole epoch, from its first batch on, or [`UNKNOWN`].
    #[must_use]
    pub fn samples(&self) -> u64 {
        let all = self.schedule.samples();
        match self.last {
            _ if all == UNKNOWN => all,
            LastBatch::Keep => all,
            LastBatch::Drop => all - all % self.batch_size.get() as u64,
        }
    }
}

/// The batches of one run. The workers run ahead of it.
///
/// After an error it gives nothing more. Dropping it early stops its work: chunks in work are
/// finished, nothing else is begun, and the engine can be used for the next run.
pub struct EpochRun<S: Stage> {
    shared: Arc<Shared<S>>,
    /// The process that has the threads.
    process: Process,
    id: u64,
    /// Batches not yet delivered, or unknown; 0 when it is over.
    left: u64,
    skipped: u64,
    replaced: u64,
    closed: bool,
}

/// How long an early drop waits for chunks in work. It needs not: it only saves slots, since
/// those that are still in work can't be used by the next run.
const DRAIN: Duration = Duration::from_secs(1);

impl<S: Stage> EpochRun<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, process: Process, id: u64, batches: u64) -> Self {
        Self { shared, process, id, left: batches, skipped: 0, replaced: 0, closed: false }
    }

    /// Batches still to come, if no error ends the run and none loses all its rows;
    /// [`UNKNOWN`] where only the end will tell.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// Rows [left out](super::Damaged::Skip) so far: of the batches delivered, and of those between
    /// them that lost all their rows.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Rows of the batches delivered so far that hold [another sample](super::Damaged::Substitute).
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.left = 0;
            if !self.process.is_forked() {
                self.shared.close(self.id, DRAIN);
            }
        }
    }

    fn pass_over(&mut self, batches: u64) {
        if self.left != UNKNOWN {
            self.left = self.left.saturating_sub(batches);
        }
    }

    fn count(&mut self, batch: &Batch) {
        self.pass_over(1);
        self.skipped += batch.skipped().len() as u64;
        self.replaced += batch.replaced().len() as u64;
        self.shared.batches.fetch_add(1, Ordering::Relaxed);
        self.shared.samples.fetch_add(batch.len() as u64, Ordering::Relaxed);
    }
}

impl<S: Stage> Iterator for EpochRun<S> {
    type Item = Result<Batch, RunError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.closed {
            return None;
        }
        let mut passed = Passed::default();
        let delivered = match self.process.check() {
            Ok(()) => self.shared.deliver(self.id, &mut passed),
            Err(error) => Some(Err(error.into())),
        };
        self.pass_over(passed.batches);
        self.skipped += passed.skipped;
        match &delivered {
            Some(Ok(batch)) => self.count(batch),
            Some(Err(_)) | None => self.close(),
        }
        delivered
    }

    /// An error may end it at any time, and batches may lose all their rows.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let most = Some(self.left).filter(|&left| left != UNKNOWN);
        (0, most.and_then(|most| usize::try_from(most).ok()))
    }
}

impl<S: Stage> std::iter::FusedIterator for EpochRun<S> {}

impl<S: Stage> Drop for EpochRun<S> {
    fn drop(&mut self) {
        self.close();
    }
}
