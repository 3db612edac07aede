//! What threads spend their time on, for the user to read.

use std::fmt;
use std::time::Duration;

use crate::sample::SampleId;

/// What a thread does. A thread is in one phase at any time, so the phases of a worker add up to
/// the time since its engine was made.
///
/// [`Read`](Self::Read), [`Decode`](Self::Decode) and [`Kernel`](Self::Kernel) are told by the
/// stage, through its [`Watch`](super::Watch); the engine tells the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Asleep, and there is nothing to fill.
    Idle,
    /// Asleep: the batches ahead of the consumer are as many as they may be.
    Room,
    /// Asleep: every slot that the options allow is in use or held by the user.
    Slot,
    /// Making the slot of a batch ready, and asking for its samples.
    Open,
    /// Filling rows, as far as the stage says nothing more exact.
    Fill,
    /// Fetching a sample's bytes.
    Read,
    /// Turning them into pixels.
    Decode,
    /// Running the ops, and writing the row.
    Kernel,
    /// Changing a batch whose rows are all filled.
    Finish,
    /// The consumer waits for a batch.
    Consumer,
}

impl Phase {
    /// All of them.
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

    /// Whether a thread in this phase sleeps.
    #[must_use]
    pub const fn is_wait(self) -> bool {
        matches!(self, Self::Idle | Self::Room | Self::Slot | Self::Consumer)
    }

    /// Its name in a table.
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

    /// The phase of this number in [`ALL`](Self::ALL).
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
    /// The time in `phase`.
    #[must_use]
    pub fn of(&self, phase: Phase) -> Duration {
        self.0[phase as usize]
    }

    /// The time awake.
    #[must_use]
    pub fn busy(&self) -> Duration {
        Phase::ALL.into_iter().filter(|phase| !phase.is_wait()).map(|phase| self.of(phase)).sum()
    }

    /// The time in all phases.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }
}

/// What a worker was busy with when a consumer lost patience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doing {
    /// The sample: the first of a chunk, or the one the stage named last.
    pub sample: SampleId,
    /// What was done with it.
    pub phase: Phase,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sample {}: {}", self.sample, self.phase)
    }
}

/// Where the time of an engine went, since it was made. Wall-clock time, not processor time.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Headroom {
    /// How long each worker was in each phase.
    pub workers: Vec<Times>,
    /// Time the consumer waited for batches: the workers are slower.
    pub consumer_waited: Duration,
    /// Batches delivered.
    pub batches: u64,
    /// Samples delivered.
    pub samples: u64,
    /// Slots there are now, of the tensors last asked for: in use, held and free.
    pub slots: usize,
    /// Slots allocated so far for these tensors. It stands still once the ring is warm.
    pub slots_allocated: u64,
    /// Bytes of the slots there are now.
    pub slot_bytes: u64,
}

impl Headroom {
    /// The time that all workers together were in `phase`.
    ///
    /// Much of [`Phase::Room`] says that the consumer is slower than the workers.
    #[must_use]
    pub fn time(&self, phase: Phase) -> Duration {
        self.workers.iter().map(|times| times.of(phase)).sum()
    }

    /// The time that all workers together were awake.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.workers.iter().map(Times::busy).sum()
    }

    /// Worker time a delivered sample took on average; zero before the first.
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
