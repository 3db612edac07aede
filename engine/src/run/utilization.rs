//! Utilization: what the threads of an engine spend their time on.

use std::fmt;
use std::time::Duration;

use super::waits::WaitHistogram;
use crate::sample::SampleId;

/// The activity of a thread. A thread is in one phase at any time, so the phases of a worker add up to
/// the time since its engine was created.
///
/// The stage reports [`Read`](Self::Read), [`Decode`](Self::Decode) and [`Kernel`](Self::Kernel) through
/// its [`Progress`](super::Progress); the engine sets the others.
///
/// ```
/// # use fuseloop_engine::run::Phase;
/// assert_eq!(Phase::ALL.len(), 10);
/// assert_eq!(Phase::Decode.name(), "decode");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Asleep: there is nothing to fill.
    Idle,
    /// Asleep: the maximum number of batches ahead of the consumer is reached.
    Room,
    /// Asleep: every slot that the options allow is in use or held by the user.
    Slot,
    /// Preparing the slot of a batch, and looking up its samples.
    Open,
    /// Filling rows, if the stage reports nothing more specific.
    Fill,
    /// Reading a sample's bytes.
    Read,
    /// Decoding the bytes into pixels.
    Decode,
    /// Running the ops and writing the row.
    Kernel,
    /// Finishing a batch whose rows are all filled.
    Finish,
    /// The consumer waits for a batch.
    Consumer,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 10] = [
        Self::Idle,
        Self::Room,
        Self::Slot,
        Self::Open,
        Self::Fill,
        Self::Read,
        Self::Decode,
        Self::Kernel,
        Self::Finish,
        Self::Consumer,
    ];

    /// Returns true if a thread in this phase sleeps.
    #[must_use]
    #[doc(hidden)]
    pub const fn is_wait(self) -> bool {
        matches!(self, Self::Idle | Self::Room | Self::Slot | Self::Consumer)
    }

    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Room => "wait for room",
            Self::Slot => "wait for a slot",
            Self::Open => "open",
            Self::Fill => "fill",
            Self::Read => "read",
            Self::Decode => "decode",
            Self::Kernel => "kernel",
            Self::Finish => "finish",
            Self::Consumer => "wait for a batch",
        }
    }

    /// Returns the phase of this index in [`ALL`](Self::ALL).
    pub(super) fn of(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Idle)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How long a thread was in each phase. Wall-clock time, not processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Times(pub(super) [Duration; Phase::ALL.len()]);

impl Times {
    /// Returns the time in `phase`.
    #[must_use]
    pub fn of(&self, phase: Phase) -> Duration {
        self.0[phase as usize]
    }

    /// Returns the time awake.
    #[must_use]
    pub fn busy(&self) -> Duration {
        Phase::ALL.into_iter().filter(|phase| !phase.is_wait()).map(|phase| self.of(phase)).sum()
    }

    /// Returns the time in all phases.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }
}

/// The activity of a worker when a consumer's wait timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerActivity {
    /// The sample: the first of a chunk, or the last one that the stage reported.
    pub sample: SampleId,
    /// The phase of the worker.
    pub phase: Phase,
}

impl fmt::Display for WorkerActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sample {}: {}", self.sample, self.phase)
    }
}

/// The activity of a worker at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The phase of the worker.
    pub phase: Phase,
    /// How long it has been in this phase.
    pub lasts: Duration,
    /// The batch that it fills; `None` for a waiting worker.
    pub batch: Option<u64>,
    /// The sample, as in [`WorkerActivity`].
    pub sample: Option<SampleId>,
}

/// Where the time of an engine went since it was created. Wall-clock time, not processor time.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Utilization {
    /// How long each worker was in each phase.
    pub workers: Vec<Times>,
    /// The time the consumer waited for batches: the workers are slower.
    pub consumer_waited: Duration,
    /// The lengths of these waits.
    pub waits: WaitHistogram,
    /// The number of batches delivered.
    pub batches: u64,
    /// The number of samples delivered.
    pub samples: u64,
    /// The number of batches that are finished and not yet delivered.
    pub ready: usize,
    /// The current number of slots, for the tensors of the last run: in use, held and free.
    pub slots: usize,
    /// The number of slots allocated so far for these tensors; constant once the ring is warm.
    pub slots_allocated: u64,
    /// The bytes of the current slots.
    pub slot_bytes: u64,
}

impl Utilization {
    /// Returns the total time of all workers in `phase`.
    ///
    /// A large share of [`Phase::Room`] means that the consumer is slower than the workers.
    #[must_use]
    pub fn time(&self, phase: Phase) -> Duration {
        self.workers.iter().map(|times| times.of(phase)).sum()
    }

    /// Returns the total time that all workers were awake.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.workers.iter().map(Times::busy).sum()
    }

    /// Returns the average worker time per delivered sample; zero before the first.
    #[must_use]
    pub fn busy_per_sample(&self) -> Duration {
        let total = self.busy().as_nanos();
        Duration::from_nanos((total / u128::from(self.samples.max(1))) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_own_number() {
        for (number, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!((phase as usize, Phase::of(number as u8)), (number, phase));
        }
    }

    #[test]
    fn waiting_is_not_being_busy() {
        let mut times = Times::default();
        for (i, time) in times.0.iter_mut().enumerate() {
            *time = Duration::from_millis(1 << i);
        }
        assert_eq!(times.of(Phase::Read), Duration::from_millis(1 << 5));
        assert_eq!(times.busy(), Duration::from_millis(0b01_1111_1000));
        assert_eq!(times.total(), Duration::from_millis(0b11_1111_1111));
    }
}
