//! Why a run ended before its last batch.

use std::error::Error;
use std::io;
use std::time::Duration;

use super::WorkerActivity;
use crate::batch::SlotError;
use crate::sample::SampleId;
use crate::threads::ThreadsError;

/// Why the engine could not start, or a run ended early.
///
/// A run yields nothing after an error; the engine can start another run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The stage refused a sample.
    #[error("batch {batch}: sample {sample}: {source}")]
    Fill {
        /// The batch, from 0 in its epoch.
        batch: u64,
        /// The first sample of the batch that failed.
        sample: SampleId,
        /// The stage's error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The stage panicked: a bug in the stage.
    #[error("batch {batch}: sample {sample}: panic: {message}")]
    Panicked {
        /// The batch, from 0 in its epoch.
        batch: u64,
        /// The sample at which the stage panicked.
        sample: SampleId,
        /// The panic's message.
        message: String,
    },
    /// The stage refused a complete batch.
    #[error("batch {batch}: {source}")]
    Finish {
        /// The batch, from 0 in its epoch.
        batch: u64,
        /// The stage's error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The stage panicked at a complete batch: a bug in the stage.
    #[error("batch {batch}: panic after its last sample: {message}")]
    FinishPanicked {
        /// The batch, from 0 in its epoch.
        batch: u64,
        /// The panic's message.
        message: String,
    },
    /// The order panicked, or returned a wrong number of samples: a bug in the order.
    #[error("batch {batch}: the order of samples: {message}")]
    Schedule {
        /// The batch, from 0 in its epoch.
        batch: u64,
        /// The reason.
        message: String,
    },
    /// The memory of a batch can't be allocated.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// All slots that the options allow are held, and none was returned in time: drop batches and shared
    /// tensors, or allow more.
    #[error(
        "no slot for batch {batch} in {waited:?}: all {max_slots} are held by batches and shared tensors in use; drop some of them, or allow more memory"
    )]
    SlotsHeld {
        /// The batch that got no slot.
        batch: u64,
        /// The maximum number of slots.
        max_slots: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// The budget is smaller than the minimum number of slots that a run needs.
    #[error(
        "the budget is {max_bytes} bytes, but {needed} batches of {slot_bytes} bytes must fit: raise it, or use smaller batches"
    )]
    Budget {
        /// Bytes of one slot.
        slot_bytes: u64,
        /// Slots needed: 2, so that one is filled while another is in use, or 1 if no batch is started
        /// ahead.
        needed: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// A batch took longer than the options allow.
    #[error("batch {batch} is not ready after {waited:?}; being filled: {}", list(filling))]
    Stalled {
        /// The batch.
        batch: u64,
        /// How long the call waited.
        waited: Duration,
        /// The activity of each worker.
        filling: Vec<WorkerActivity>,
    },
    /// A thread of the engine waits for a batch of it: a stage that asks for batches of its own engine.
    #[error(
        "a function that runs on a loader's threads requests a batch of the same loader, which would wait forever: use another loader in the function, or take samples from the dataset"
    )]
    OwnThread,
    /// The engine was dropped.
    #[error("the engine has stopped")]
    Stopped,
    /// Too many workers, or the threads belong to a process that this one was forked from.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// The system could not create a thread.
    #[error("cannot start a thread for worker {worker}: {source}")]
    Spawn {
        /// The worker, from 0.
        worker: usize,
        /// The system's error.
        source: io::Error,
    },
}

fn list(filling: &[WorkerActivity]) -> String {
    if filling.is_empty() {
        return "nothing".to_owned();
    }
    filling.iter().map(WorkerActivity::to_string).collect::<Vec<_>>().join(", ")
}

impl RunError {
    /// Returns the sample at which the error occurred, if there is one.
    #[must_use]
    pub fn sample(&self) -> Option<SampleId> {
        match self {
            Self::Fill { sample, .. } | Self::Panicked { sample, .. } => Some(*sample),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Phase;

    #[test]
    fn messages_say_what_happened_where() {
        let waited = Duration::from_millis(1500);
        let sample = SampleId(7);
        let assert_text = |error: RunError, text: &str| assert_eq!(error.to_string(), text);
        assert_text(
            RunError::Fill { batch: 2, sample, source: "bad JPEG".into() },
            "batch 2: sample 7: bad JPEG",
        );
        assert_text(
            RunError::Panicked { batch: 2, sample, message: "oh".into() },
            "batch 2: sample 7: panic: oh",
        );
        let source = "sizes differ".into();
        assert_text(RunError::Finish { batch: 2, source }, "batch 2: sizes differ");
        let message = "oh".into();
        assert_text(
            RunError::FinishPanicked { batch: 2, message },
            "batch 2: panic after its last sample: oh",
        );
        assert_text(
            RunError::Schedule { batch: 3, message: "returned 1 of 2 samples".into() },
            "batch 3: the order of samples: returned 1 of 2 samples",
        );
        assert_text(
            RunError::SlotsHeld { batch: 4, max_slots: 2, waited },
            "no slot for batch 4 in 1.5s: all 2 are held by batches and shared tensors in use; drop some of them, or allow more memory",
        );
        let filling = vec![
            WorkerActivity { sample, phase: Phase::Read },
            WorkerActivity { sample: SampleId(9), phase: Phase::Decode },
        ];
        assert_text(
            RunError::Stalled { batch: 4, waited, filling },
            "batch 4 is not ready after 1.5s; being filled: sample 7: read, sample 9: decode",
        );
        assert_text(
            RunError::Budget { slot_bytes: 600, needed: 2, max_bytes: 1000 },
            "the budget is 1000 bytes, but 2 batches of 600 bytes must fit: raise it, or use smaller batches",
        );
        assert_text(RunError::Stopped, "the engine has stopped");
        let error = RunError::from(SlotError::NoMemory { bytes: 12 });
        assert_text(error, "no memory for a tensor of 12 bytes");
        let source = io::Error::other("too many");
        assert_text(
            RunError::Spawn { worker: 3, source },
            "cannot start a thread for worker 3: too many",
        );
    }
}
