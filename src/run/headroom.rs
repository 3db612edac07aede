//! Counters that say who waits for whom.
//!
//! A worker reads the clock twice a batch and keeps its own counters, so counting costs nothing
//! that could be measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::sample::SampleId;

/// Where the time of an engine went, since it was made. Wall-clock time, not processor time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// Time each worker spent filling rows and finishing batches.
    pub busy: Vec<Duration>,
    /// Time the workers together had samples to fill but no room ahead: the consumer is slower.
    pub waited_for_room: Duration,
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
}

impl Headroom {
    /// Worker time a delivered sample took on average; zero before the first.
    #[must_use]
    pub fn busy_per_sample(&self) -> Duration {
        let total: Duration = self.busy.iter().sum();
        Duration::from_nanos((total.as_nanos() / u128::from(self.samples.max(1))) as u64)
    }
}

/// Time added up by several threads, in nanoseconds.
#[derive(Default)]
pub(super) struct Clock(AtomicU64);

impl Clock {
    /// Adds the time since `start`.
    pub(super) fn add_since(&self, start: Instant) {
        self.0.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// One worker's counters, on a cache line of their own.
#[repr(align(64))]
pub(super) struct Meter {
    pub(super) busy: Clock,
    /// The first sample of the chunk in work; `IDLE` for none.
    at: AtomicU64,
}

/// No sample has this number: there are at most 2^40.
const IDLE: u64 = u64::MAX;

impl Meter {
    pub(super) fn new() -> Self {
        Self { busy: Clock::default(), at: AtomicU64::new(IDLE) }
    }

    /// Notes that a chunk beginning with `sample` is begun, or that none is.
    pub(super) fn note(&self, sample: Option<SampleId>) {
        self.at.store(sample.map_or(IDLE, |s| s.0), Ordering::Relaxed);
    }

    /// What was noted last.
    pub(super) fn at(&self) -> Option<SampleId> {
        let at = self.at.load(Ordering::Relaxed);
        (at != IDLE).then_some(SampleId(at))
    }
}
