//! One run over samples: what to run, and the iterator over its batches.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::RunError;
use super::shared::Shared;
use super::stage::{Schedule, Stage};
use crate::batch::Batch;
use crate::sample::Epoch;

/// What to do with the samples left over when the batch size does not divide them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LastBatch {
    /// A last batch with fewer samples.
    #[default]
    Keep,
    /// Leave them out.
    Drop,
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
}

impl<S> Pass<S> {
    /// Samples that will be delivered.
    #[must_use]
    pub fn samples(&self) -> u64 {
        let all = self.schedule.samples();
        match self.last {
            LastBatch::Keep => all,
            LastBatch::Drop => all - all % self.batch_size.get() as u64,
        }
    }
}

/// The batches of one run, in order. The workers run ahead of it.
///
/// After an error it gives nothing more. Dropping it early stops its work: chunks in work are
/// finished, nothing else is begun, and the engine can be used for the next run.
pub struct EpochRun<S: Stage> {
    shared: Arc<Shared<S>>,
    id: u64,
    /// Batches not yet delivered; 0 when it is over.
    left: u64,
    closed: bool,
}

/// How long an early drop waits for chunks in work. It needs not: it only saves slots, since
/// those that are still in work can't be used by the next run.
const DRAIN: Duration = Duration::from_secs(1);

impl<S: Stage> EpochRun<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, id: u64, batches: u64) -> Self {
        Self { shared, id, left: batches, closed: false }
    }

    /// Batches still to come if no error ends the run.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.left
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.left = 0;
            self.shared.close(self.id, DRAIN);
        }
    }

    fn count(&mut self, batch: &Batch) {
        self.left = self.left.saturating_sub(1);
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
        let delivered = self.shared.deliver(self.id);
        match &delivered {
            Some(Ok(batch)) => self.count(batch),
            Some(Err(_)) | None => self.close(),
        }
        delivered
    }

    /// An error may end it at any time, but never empty-handed while batches are left.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left > 0), usize::try_from(self.left).ok())
    }
}

impl<S: Stage> std::iter::FusedIterator for EpochRun<S> {}

impl<S: Stage> Drop for EpochRun<S> {
    fn drop(&mut self) {
        self.close();
    }
}
