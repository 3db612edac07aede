//! One run over samples: what to run, and the iterator over its batches.

use std::num::NonZeroUsize;
use std::task::Poll;
use std::time::Duration;

use super::RunError;
use super::shared::{EngineShared, Passed};
use super::stage::{RunOrder, Stage};
use crate::batch::HostBatch;
use crate::sample::{Epoch, UNKNOWN};
use crate::sync::counter::Ordering;
use crate::sync::{Arc, Instant};
use crate::threads::Process;

/// Determines what happens to the samples left over when the batch size does not divide them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LastBatch {
    /// Deliver a last batch with fewer samples.
    #[default]
    Keep,
    /// Drop them.
    Drop,
}

/// Which of the finished batches is delivered next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Delivery {
    /// The next batch in order.
    #[default]
    InOrder,
    /// Any finished batch: a slow batch delays no other. Each batch has the same rows as with ordered
    /// delivery; only the order of delivery is undetermined.
    Unordered,
}

/// The argument of [`Engine::start`](super::Engine::start).
pub struct RunRequest<S> {
    /// The stage that fills the rows.
    pub stage: Arc<S>,
    /// The epoch passed to the stage.
    pub epoch: Epoch,
    /// Stands for what decides the bits of rows besides the samples, the epoch and the batch: a part of the
    /// [fingerprints](HostBatch::fingerprint).
    pub origin: u64,
    /// The samples, in order.
    pub schedule: Box<dyn RunOrder>,
    /// The number of samples of a batch.
    pub batch_size: NonZeroUsize,
    /// Determines what happens to an incomplete last batch.
    pub last: LastBatch,
    /// The first batch to deliver. Batches keep their numbers in the epoch, so this delivers the rest of
    /// the whole run. Beyond the end, nothing is delivered.
    pub first_batch: u64,
    /// The order of delivery.
    pub delivery: Delivery,
}

impl<S> RunRequest<S> {
    /// Creates a request for all batches of `schedule`, in order, including a short last one.
    #[must_use]
    pub fn new(
        stage: Arc<S>,
        epoch: Epoch,
        schedule: Box<dyn RunOrder>,
        batch_size: NonZeroUsize,
    ) -> Self {
        let (last, delivery) = (LastBatch::Keep, Delivery::InOrder);
        Self { stage, epoch, origin: 0, schedule, batch_size, last, first_batch: 0, delivery }
    }

    /// Returns the number of samples of the whole epoch, from its first batch on, or [`UNKNOWN`].
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

/// The batches of one run, filled ahead by the workers.
///
/// Yields nothing after an error. Dropping the run early stops its work: chunks being filled are
/// completed, no others are started, and the engine is free for the next run.
pub struct EpochRun<S: Stage> {
    shared: Arc<EngineShared<S>>,
    /// The process that the threads belong to.
    process: Process,
    id: u64,
    /// The number of batches not yet delivered, or unknown; 0 after the end.
    left: u64,
    skipped: u64,
    replaced: u64,
    closed: bool,
    /// When the consumer began to wait for the next batch, if it has waited in vain.
    waiting_since: Option<Instant>,
    /// How long the consumer has waited for the next batch so far.
    waited: Duration,
    /// How long it waited for the batch before.
    last_wait: Duration,
}

/// How long dropping a run early waits for chunks in flight. The wait is optional: it only lets the next
/// run reuse their slots.
const DRAIN: Duration = Duration::from_secs(1);

impl<S: Stage> EpochRun<S> {
    pub(super) fn new(
        shared: Arc<EngineShared<S>>,
        process: Process,
        id: u64,
        batches: u64,
    ) -> Self {
        Self {
            shared,
            process,
            id,
            left: batches,
            skipped: 0,
            replaced: 0,
            closed: false,
            waiting_since: None,
            waited: Duration::ZERO,
            last_wait: Duration::ZERO,
        }
    }

    /// Returns the number of batches left, if no error ends the run and no batch loses all its rows;
    /// [`UNKNOWN`] if the length of the run is not known.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// Returns the number of rows [left out](super::OnFailure::Skip) so far: of the batches delivered,
    /// and of batches that lost all their rows.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the number of rows delivered so far that hold [another
    /// sample](super::OnFailure::Substitute).
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Returns how long the consumer has waited for the next batch, in the calls since the last batch.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns how long the consumer waited for the batch that was delivered last.
    #[must_use]
    pub fn last_wait(&self) -> Duration {
        self.last_wait
    }

    /// Waits for the next batch, but at most `longest`: pending if it is not ready then. This ends nothing:
    /// the batch comes with a later call. The [limits](super::EngineOptions) of a wait count from the first of
    /// these calls.
    pub fn next_within(&mut self, longest: Duration) -> Poll<Option<Result<HostBatch, RunError>>> {
        self.poll(Some(longest))
    }

    fn poll(&mut self, longest: Option<Duration>) -> Poll<Option<Result<HostBatch, RunError>>> {
        if self.closed {
            return Poll::Ready(None);
        }
        let begun = Instant::now();
        let mut passed = Passed::default();
        let delivered = match self.process.check() {
            Ok(()) => self.shared.deliver(self.id, &mut passed, self.waiting_since, longest),
            Err(error) => Poll::Ready(Some(Err(error.into()))),
        };
        self.pass_over(passed.batches);
        self.skipped += passed.skipped;
        self.waited += passed.waited;
        match &delivered {
            Poll::Ready(Some(Ok(batch))) => self.count(batch),
            Poll::Ready(Some(Err(_)) | None) => self.close(),
            Poll::Pending => {}
        }
        self.waiting_since = match delivered {
            Poll::Ready(_) => None,
            Poll::Pending => self.waiting_since.or(Some(begun)),
        };
        delivered
    }

    /// Ends the run: no batch is delivered any more.
    pub fn close(&mut self) {
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

    fn count(&mut self, batch: &HostBatch) {
        self.last_wait = std::mem::take(&mut self.waited);
        self.shared.consumer.delivered(self.last_wait);
        self.pass_over(1);
        self.skipped += batch.skipped().len() as u64;
        self.replaced += batch.replaced().len() as u64;
        self.shared.batches.fetch_add(1, Ordering::Relaxed);
        self.shared.samples.fetch_add(batch.len() as u64, Ordering::Relaxed);
    }
}

impl<S: Stage> Iterator for EpochRun<S> {
    type Item = Result<HostBatch, RunError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.poll(None) {
            Poll::Ready(delivered) => delivered,
            Poll::Pending => unreachable!("a call without a limit waits until there is an answer"),
        }
    }

    /// The lower bound is 0: an error may end the run at any time, and batches may lose all their rows.
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
