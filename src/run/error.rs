//! Why a run ended before its last batch.

use std::error::Error;
use std::io;
use std::time::Duration;

use super::Doing;
use crate::batch::SlotError;
use crate::sample::SampleId;
use crate::threads::ThreadsError;

/// Why the engine could not start, or a run ended early.
///
/// A run that gave an error gives nothing after it; the engine can start another.
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
        /// What the stage said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The stage panicked: a bug in it.
    #[error("batch {batch}: sample {sample}: panic: {message}")]
    Panicked {
        /// The batch, from 0 in its epoch.
        batch: u64,
        /// The sample it panicked at.
        sample: SampleId,
        /// The panic's message.
        message: String,
    },
    /// The stage refused a batch whose samples are all there.
    #[error("batch {batch}: {source}")]
    Finish {
        /// The batch, from 0 in its epoch.
        batch: u64,
        /// What the stage said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The stage panicked at a batch whose samples are all there: a bug in it.
    #[error("batch {batch}: panic after its last sample: {message}")]
    FinishPanicked {
        /// The batch, from 0 in its epoch.
        batch: u64,
        /// The panic's message.
        message: String,
    },
    /// The schedule panicked or gave another number of samples than asked for: a bug in it.
    #[error("batch {batch}: the order of samples: {message}")]
    Schedule {
        /// The batch, from 0 in its epoch.
        batch: u64,
        /// What went wrong.
        message: String,
    },
    /// The memory of a batch can't be had.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// All slots the options allow are held, and none came back in time: drop batches, or
    /// allow more.
    #[error("no slot for batch {batch} in {waited:?}: all {max_slots} are held by batches in use")]
    SlotsHeld {
        /// The batch there was no room for.
        batch: u64,
        /// The limit.
        max_slots: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// The budget is smaller than the fewest slots that a run needs.
    #[error(
        "a batch takes {slot_bytes} bytes and {needed} must fit, the budget is {max_bytes} bytes"
    )]
    Budget {
        /// Bytes of one slot.
        slot_bytes: u64,
        /// Slots needed: 2, so that one is filled while another is in use, or 1 if no batch more
        /// is to be begun ahead.
        needed: u64,
        /// What the options allow.
        max_bytes: u64,
    },
    /// A batch took longer than the options allow.
    #[error("batch {batch} is not ready after {waited:?}; being filled: {}", list(filling))]
    Stalled {
        /// The batch.
        batch: u64,
        /// How long the call waited.
        waited: Duration,
        /// What each worker is busy with.
        filling: Vec<Doing>,
    },
    /// The engine was dropped.
    #[error("the engine has stopped")]
    Stopped,
    /// More workers than may be asked for, or those of a process that this one was forked from.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// The system gave no thread.
    #[error("no thread for worker {worker}: {source}")]
    Spawn {
        /// Which, from 0.
        worker: usize,
        /// What the system said.
        source: io::Error,
    },
}

fn list(filling: &[Doing]) -> String {
    if filling.is_empty() {
        return "nothing".to_owned();
    }
    filling.iter().map(Doing::to_string).collect::<Vec<_>>().join(", ")
}

impl RunError {
    /// The sample it happened at, where there is one.
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
        let told = |error: RunError, text: &str| assert_eq!(error.to_string(), text);
        told(
            RunError::Fill { batch: 2, sample, source: "bad JPEG".into() },
            "batch 2: sample 7: bad JPEG",
        );
        told(
            RunError::Panicked { batch: 2, sample, message: "oh".into() },
            "batch 2: sample 7: panic: oh",
        );
        let source = "sizes differ".into();
        told(RunError::Finish { batch: 2, source }, "batch 2: sizes differ");
        let message = "oh".into();
        told(
            RunError::FinishPanicked { batch: 2, message },
            "batch 2: panic after its last sample: oh",
        );
        told(
            RunError::Schedule { batch: 3, message: "gave 1 of 2 samples".into() },
            "batch 3: the order of samples: gave 1 of 2 samples",
        );
        told(
            RunError::SlotsHeld { batch: 4, max_slots: 2, waited },
            "no slot for batch 4 in 1.5s: all 2 are held by batches in use",
        );
        let filling = vec![
            Doing { sample, phase: Phase::Read },
            Doing { sample: SampleId(9), phase: Phase::Decode },
        ];
        told(
            RunError::Stalled { batch: 4, waited, filling },
            "batch 4 is not ready after 1.5s; being filled: sample 7: read, sample 9: decode",
        );
        told(
            RunError::Budget { slot_bytes: 600, needed: 2, max_bytes: 1000 },
            "a batch takes 600 bytes and 2 must fit, the budget is 1000 bytes",
        );
        told(RunError::Stopped, "the engine has stopped");
        let error = RunError::from(SlotError::NoMemory { bytes: 12 });
        told(error, "no memory for a tensor of 12 bytes");
        let source = io::Error::other("too many");
        told(RunError::Spawn { worker: 3, source }, "no thread for worker 3: too many");
    }
}
