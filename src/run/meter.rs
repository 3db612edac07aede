//! The clocks of a thread: what it does, since when, and how long it did what before.
//!
//! ```text
//!            phase(Read)   phase(Decode)   phase(Kernel)          <- switches: one look at the clock
//!   --- Fill ---|--- Read ---|--- Decode ---|--- Kernel -- ..
//!               `totals[Fill] += now - since; since = now; phase = Read`
//! ```
//!
//! Only its own thread writes to a meter, so there is nothing to lock. A switch costs a look at the
//! clock (some 25 ns), so it is meant for what takes microseconds. Switching to the phase that it
//! is in already costs nothing, unless a trace is taken.

use std::time::Duration;

use super::headroom::{Doing, Phase, Times};
use super::spans;
use super::trace::{Event, Tape};
use crate::sample::SampleId;
use crate::sync::counter::{AtomicU8, AtomicU64, Ordering};
use crate::sync::{Arc, Instant};

/// No sample has this number: there are at most 2^40.
const NONE: u64 = u64::MAX;

/// One thread's clocks, on cache lines of their own.
#[repr(align(64))]
pub(super) struct Meter {
    /// When the engine was made: all times are since then.
    born: Instant,
    /// Nanoseconds in each phase, up to `since`.
    totals: [AtomicU64; Phase::ALL.len()],
    phase: AtomicU8,
    since: AtomicU64,
    batch: AtomicU64,
    sample: AtomicU64,
    tape: Tape,
}

impl Meter {
    pub(super) fn new(born: Instant) -> Self {
        Self {
            born,
            totals: std::array::from_fn(|_| AtomicU64::new(0)),
            phase: AtomicU8::new(Phase::Idle as u8),
            since: AtomicU64::new(nanos(born)),
            batch: AtomicU64::new(0),
            sample: AtomicU64::new(NONE),
            tape: Tape::default(),
        }
    }

    /// Notes that from now on the thread is in `phase`.
    pub(super) fn phase(&self, phase: Phase) {
        self.switch(phase, self.sample.load(Ordering::Relaxed));
    }

    /// Ends the last phase, which was at the sample before, and begins one at `sample`.
    fn switch(&self, phase: Phase, sample: u64) {
        let last = self.current();
        if last == phase && !self.tape.is_on() && !spans::are_on() {
            self.sample.store(sample, Ordering::Relaxed);
            return;
        }
        let (start, now) = (self.since.load(Ordering::Relaxed), nanos(self.born));
        // Before the total, so that who reads in between sees too little and never too much.
        self.since.store(now, Ordering::Release);
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.totals[last as usize].fetch_add(now.saturating_sub(start), Ordering::Relaxed);
        if self.tape.is_on() {
            self.tape.push(self.event(last, start, now));
        }
        self.sample.store(sample, Ordering::Relaxed);
        spans::phase(phase, self.batch.load(Ordering::Relaxed), self.sample());
    }

    fn event(&self, phase: Phase, start: u64, end: u64) -> Event {
        Event {
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

    /// Notes what is in work from now on: call it after the phase before has ended.
    pub(super) fn at(&self, batch: u64, sample: Option<SampleId>) {
        self.batch.store(batch, Ordering::Relaxed);
        self.sample.store(sample.map_or(NONE, |sample| sample.0), Ordering::Relaxed);
    }

    /// What the thread is busy with.
    pub(super) fn doing(&self) -> Option<Doing> {
        self.sample().map(|sample| Doing { sample, phase: self.current() })
    }

    fn current(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Relaxed))
    }

    /// How long it was in each phase, up to now.
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

    /// Where its phases are noted while a trace is taken.
    pub(super) fn tape(&self) -> &Tape {
        &self.tape
    }
}

/// The waits of the consumers: several may wait at a time.
pub(super) struct Consumer {
    born: Instant,
    waited: AtomicU64,
    tape: Tape,
}

impl Consumer {
    pub(super) fn new(born: Instant) -> Self {
        Self { born, waited: AtomicU64::new(0), tape: Tape::default() }
    }

    /// Notes that one has waited for `batch` since `start`.
    pub(super) fn note(&self, start: Instant, batch: u64) {
        let waited = start.elapsed();
        self.waited.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
        if self.tape.is_on() {
            let end = self.born.elapsed();
            let (phase, start) = (Phase::Consumer, end.saturating_sub(waited));
            self.tape.push(Event { phase, start, end, batch: Some(batch), sample: None });
        }
    }

    /// Time since the engine was made.
    pub(super) fn clock(&self) -> Duration {
        self.born.elapsed()
    }

    /// How long they waited in all.
    pub(super) fn total(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    /// Where waits are noted while a trace is taken.
    pub(super) fn tape(&self) -> &Tape {
        &self.tape
    }
}

fn nanos(born: Instant) -> u64 {
    born.elapsed().as_nanos() as u64
}

/// What a stage tells the engine through: which phase it is in, with which sample.
///
/// One belongs to each worker; it is for use on that worker's thread alone, or its times mean
/// nothing. Cloning it gives another handle on the same clocks.
#[derive(Clone)]
pub struct Watch(Option<Arc<Meter>>);

impl Watch {
    pub(super) fn on(meter: &Arc<Meter>) -> Self {
        Self(Some(Arc::clone(meter)))
    }

    /// One that nobody reads, for a worker outside an engine.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Says that from now on this thread is in `phase`. It costs a look at the clock, unless it is
    /// in that phase already.
    pub fn phase(&self, phase: Phase) {
        if let Some(meter) = &self.0 {
            meter.phase(phase);
        }
    }

    /// Says that from now on this thread is in `phase` with `sample`. Of use where a chunk has
    /// several samples: the engine only knows its first.
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
        let meter = Meter::new(born);
        // It counts from where it was made, which may be a while after its times begin.
        let made = Instant::now();
        for phase in [Phase::Open, Phase::Read, Phase::Decode, Phase::Read] {
            meter.phase(phase);
            std::thread::sleep(Duration::from_millis(2));
        }
        let before = made.elapsed();
        let times = meter.times();
        assert!(times.total() >= before && times.total() <= born.elapsed(), "{times:?}");
        assert!(times.of(Phase::Read) >= Duration::from_millis(4));
        assert!(times.of(Phase::Decode) >= Duration::from_millis(2));
        assert_eq!(times.of(Phase::Kernel), Duration::ZERO);
    }

    #[test]
    fn what_is_in_work_is_told() {
        let meter = Arc::new(Meter::new(Instant::now()));
        assert_eq!(meter.doing(), None);
        meter.phase(Phase::Fill);
        meter.at(3, Some(SampleId(7)));
        let watch = Watch::on(&meter);
        watch.phase(Phase::Decode);
        assert_eq!(meter.doing().unwrap().to_string(), "sample 7: decode");
        watch.start(SampleId(8), Phase::Read);
        assert_eq!(meter.doing().unwrap().to_string(), "sample 8: read");
        Watch::off().phase(Phase::Read);
    }
}
