//! The timers of a thread: its current phase, since when, and the total time of each phase.
//!
//! ```text
//!            phase(Read)   phase(Decode)   phase(Kernel)          <- each switch reads the clock
//!   --- Fill ---|--- Read ---|--- Decode ---|--- Kernel -- ..
//!               `totals[Fill] += now - since; since = now; phase = Read`
//! ```
//!
//! Only its own thread writes to a timer, so no lock is needed. A switch reads the clock (some 25 ns),
//! so phases should take microseconds. Switching to the current phase costs nothing, unless a trace is
//! on.

use std::time::Duration;

use super::spans;
use super::trace::{EventBuffer, TraceEvent};
use super::utilization::{Activity, Phase, Times, WorkerActivity};
use super::waits::{WaitCounts, WaitHistogram};
use crate::sample::SampleId;
use crate::sync::counter::{AtomicU8, AtomicU64, Ordering};
use crate::sync::{Arc, Instant};

/// Stands for no sample; sample numbers are below 2^40.
const NONE: u64 = u64::MAX;

/// The timers of one thread, on cache lines of their own.
#[repr(align(64))]
pub(super) struct WorkerTimer {
    /// When the engine was created: all times are relative to this.
    born: Instant,
    /// The nanoseconds in each phase, up to `since`.
    totals: [AtomicU64; Phase::ALL.len()],
    phase: AtomicU8,
    since: AtomicU64,
    batch: AtomicU64,
    sample: AtomicU64,
    event_buffer: EventBuffer,
}

impl WorkerTimer {
    pub(super) fn new(born: Instant) -> Self {
        Self {
            born,
            totals: std::array::from_fn(|_| AtomicU64::new(0)),
            phase: AtomicU8::new(Phase::Idle as u8),
            since: AtomicU64::new(nanos(born)),
            batch: AtomicU64::new(0),
            sample: AtomicU64::new(NONE),
            event_buffer: EventBuffer::default(),
        }
    }

    /// Switches to `phase`.
    #[inline]
    pub(super) fn phase(&self, phase: Phase) {
        self.switch(phase, self.sample.load(Ordering::Relaxed));
    }

    /// Ends the current phase, which belongs to the previous sample, and starts one for `sample`.
    fn switch(&self, phase: Phase, sample: u64) {
        let last = self.current();
        if last == phase && !self.event_buffer.is_on() && !spans::are_on() {
            self.sample.store(sample, Ordering::Relaxed);
            return;
        }
        let (start, now) = (self.since.load(Ordering::Relaxed), nanos(self.born));
        // Stored before the total, so that a concurrent reader sees too little and never too much.
        self.since.store(now, Ordering::Release);
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.totals[last as usize].fetch_add(now.saturating_sub(start), Ordering::Relaxed);
        if self.event_buffer.is_on() {
            self.event_buffer.push(self.event(last, start, now));
        }
        self.sample.store(sample, Ordering::Relaxed);
        spans::phase(phase, self.batch.load(Ordering::Relaxed), self.sample());
    }

    fn event(&self, phase: Phase, start: u64, end: u64) -> TraceEvent {
        TraceEvent {
            phase,
            start: Duration::from_nanos(start),
            end: Duration::from_nanos(end),
            batch: (!phase.is_wait()).then(|| self.batch.load(Ordering::Relaxed)),
            sample: self.sample(),
        }
    }

    fn sample(&self) -> Option<SampleId> {
        let sample = self.sample.load(Ordering::Relaxed);
        (sample != NONE).then_some(SampleId(sample))
    }

    /// Sets the current batch and sample. Must be called after the previous phase has ended.
    #[inline]
    pub(super) fn at(&self, batch: u64, sample: Option<SampleId>) {
        self.batch.store(batch, Ordering::Relaxed);
        self.sample.store(sample.map_or(NONE, |sample| sample.0), Ordering::Relaxed);
    }

    /// Returns what the thread is busy with.
    pub(super) fn doing(&self) -> Option<WorkerActivity> {
        self.sample().map(|sample| WorkerActivity { sample, phase: self.current() })
    }

    /// Returns what the thread does at the moment, and since when.
    pub(super) fn activity(&self) -> Activity {
        let (phase, since) = (self.current(), self.since.load(Ordering::Acquire));
        let lasts = Duration::from_nanos(nanos(self.born).saturating_sub(since));
        let batch = (!phase.is_wait()).then(|| self.batch.load(Ordering::Relaxed));
        Activity { phase, lasts, batch, sample: batch.and_then(|_| self.sample()) }
    }

    fn current(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Relaxed))
    }

    /// Returns the time in each phase, up to now.
    pub(super) fn times(&self) -> Times {
        let (phase, since) = (self.current(), self.since.load(Ordering::Acquire));
        let mut times = Times::default();
        for (time, total) in times.0.iter_mut().zip(&self.totals) {
            *time = Duration::from_nanos(total.load(Ordering::Relaxed));
        }
        let running = nanos(self.born).saturating_sub(since);
        times.0[phase as usize] += Duration::from_nanos(running);
        times
    }

    /// Returns the buffer that records the phases while a trace is on.
    pub(super) fn event_buffer(&self) -> &EventBuffer {
        &self.event_buffer
    }
}

/// The waits of the consumers; several may wait at the same time.
pub(super) struct ConsumerTimer {
    born: Instant,
    waited: AtomicU64,
    counts: WaitCounts,
    event_buffer: EventBuffer,
}

impl ConsumerTimer {
    pub(super) fn new(born: Instant) -> Self {
        let (waited, counts) = (AtomicU64::new(0), WaitCounts::default());
        Self { born, waited, counts, event_buffer: EventBuffer::default() }
    }

    /// Records that a consumer has waited for `batch` since `start`, and returns how long.
    pub(super) fn note(&self, start: Instant, batch: u64) -> Duration {
        let waited = start.elapsed();
        self.waited.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
        if self.event_buffer.is_on() {
            let end = self.born.elapsed();
            let (phase, start) = (Phase::Consumer, end.saturating_sub(waited));
            self.event_buffer.push(TraceEvent {
                phase,
                start,
                end,
                batch: Some(batch),
                sample: None,
            });
        }
        waited
    }

    /// Counts a batch that was delivered after this wait.
    pub(super) fn delivered(&self, waited: Duration) {
        self.counts.add(waited);
    }

    /// Returns how long consumers waited for each batch.
    pub(super) fn waits(&self) -> WaitHistogram {
        self.counts.histogram()
    }

    /// Returns the time since the engine was created.
    pub(super) fn clock(&self) -> Duration {
        self.born.elapsed()
    }

    /// Returns how long all consumers waited.
    pub(super) fn total(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    /// Returns the buffer that records the waits while a trace is on.
    pub(super) fn event_buffer(&self) -> &EventBuffer {
        &self.event_buffer
    }
}

fn nanos(born: Instant) -> u64 {
    born.elapsed().as_nanos() as u64
}

/// The handle by which a stage reports its phase and sample to the engine.
///
/// Each worker has one. It must be used on that worker's thread only; otherwise the times are wrong. A
/// clone is another handle to the same timers.
#[derive(Clone)]
pub struct Progress(Option<Arc<WorkerTimer>>);

impl Progress {
    pub(super) fn on(meter: &Arc<WorkerTimer>) -> Self {
        Self(Some(Arc::clone(meter)))
    }

    /// Returns a handle that records nothing, for a worker outside an engine.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Reports that this thread is in `phase` from now on. This reads the clock, unless the phase is the
    /// current one.
    #[inline]
    pub fn phase(&self, phase: Phase) {
        if let Some(meter) = &self.0 {
            meter.phase(phase);
        }
    }

    /// Reports that this thread is in `phase` with `sample` from now on. Useful where a chunk has
    /// several samples: the engine only knows the first.
    #[inline]
    pub fn start(&self, sample: SampleId, phase: Phase) {
        if let Some(meter) = &self.0 {
            meter.switch(phase, sample.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_of_a_thread_add_up() {
        let born = Instant::now();
        let meter = WorkerTimer::new(born);
        // The timer starts when it is created, which may be some time after `born`.
        let created = Instant::now();
        for phase in [Phase::Open, Phase::Read, Phase::Decode, Phase::Read] {
            meter.phase(phase);
            std::thread::sleep(Duration::from_millis(2));
        }
        let before = created.elapsed();
        let times = meter.times();
        assert!(times.total() >= before && times.total() <= born.elapsed(), "{times:?}");
        assert!(times.of(Phase::Read) >= Duration::from_millis(4));
        assert!(times.of(Phase::Decode) >= Duration::from_millis(2));
        assert_eq!(times.of(Phase::Kernel), Duration::ZERO);
    }

    #[test]
    fn what_is_in_work_is_told() {
        let meter = Arc::new(WorkerTimer::new(Instant::now()));
        assert_eq!(meter.doing(), None);
        meter.phase(Phase::Fill);
        meter.at(3, Some(SampleId(7)));
        let watch = Progress::on(&meter);
        watch.phase(Phase::Decode);
        assert_eq!(meter.doing().unwrap().to_string(), "sample 7: decode");
        watch.start(SampleId(8), Phase::Read);
        assert_eq!(meter.doing().unwrap().to_string(), "sample 8: read");
        std::thread::sleep(Duration::from_millis(2));
        let Activity { phase, lasts, batch, sample } = meter.activity();
        assert_eq!((phase, batch, sample), (Phase::Read, Some(3), Some(SampleId(8))));
        assert!(lasts >= Duration::from_millis(2));
        meter.phase(Phase::Room);
        assert_eq!((meter.activity().batch, meter.activity().sample), (None, None));
        Progress::off().phase(Phase::Read);
    }
}
