//! Stalls: a batch that is late, and what its workers do meanwhile, as a warning.
//!
//! ```text
//! a stall    a wait for a batch of at least 1 s, and of 10 times the median of the loader's waits or more
//!            a wait of 10 s for the first batch of a run, and before 10 batches were delivered
//! a warning  for the first stall; then for none within a minute, then two, then four, ..
//! ```
//!
//! A stall is found while the consumer waits, so that a batch that never comes is reported, too. A batch that is ready
//! costs nothing but a look at the counts of waits.

use crate::run::{Activity, Phase, WaitHistogram};
use crate::sample::SampleId;
use crate::source::{Escaped, Source};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest wait that is a stall, and how many times as long as the median it is.
const SHORTEST: Duration = Duration::from_secs(1);
const TIMES_THE_MEDIAN: u32 = 10;

/// The shortest wait that is a stall where no median applies: less than that number of batches are known, or the workers
/// have just begun.
const AT_FIRST: Duration = Duration::from_secs(10);
const FEWEST_BATCHES: u64 = 10;

/// The time without another warning after the first one.
const QUIET: Duration = Duration::from_secs(60);

/// The stalls of a loader.
#[derive(Debug, Default)]
pub(super) struct StallLog {
    stalls: AtomicU64,
    warned: Mutex<Option<Warned>>,
}

/// The last warning.
#[derive(Clone, Copy, Debug)]
struct Warned {
    at: Instant,
    /// The time without another one.
    quiet: Duration,
    /// The stalls since then.
    unsaid: u64,
}

impl StallLog {
    /// Returns the number of stalls.
    pub(super) fn count(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// Counts a stall. Returns the number of stalls since the last warning if it is time for another one.
    pub(super) fn note(&self, now: Instant) -> Option<u64> {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let next = match &mut *warned {
            None => Warned { at: now, quiet: QUIET, unsaid: 0 },
            Some(last) if now.saturating_duration_since(last.at) < last.quiet => {
                last.unsaid += 1;
                return None;
            }
            Some(last) => Warned { at: now, quiet: last.quiet.saturating_mul(2), unsaid: 0 },
        };
        let unsaid = warned.replace(next).map_or(0, |last| last.unsaid);
        Some(unsaid)
    }
}

/// Returns the shortest wait that is a stall.
pub(super) fn shortest(waits: &WaitHistogram, is_first: bool) -> Duration {
    if is_first || waits.count() < FEWEST_BATCHES {
        return AT_FIRST;
    }
    let median = waits.median().unwrap_or(Duration::MAX);
    SHORTEST.max(median.saturating_mul(TIMES_THE_MEDIAN))
}

/// A wait that is a stall, as the consumer and the workers are at that moment.
pub(super) struct Stall<'a> {
    pub(super) source: &'a dyn Source,
    /// A field that workers read, by which samples are located.
    pub(super) field: Option<usize>,
    pub(super) epoch: u32,
    pub(super) batch: u64,
    pub(super) waited: Duration,
    pub(super) waits: WaitHistogram,
    pub(super) workers: Vec<Activity>,
    /// The number of stalls without a warning before this one.
    pub(super) unsaid: u64,
}

impl Stall<'_> {
    /// Returns the warning: the batch, the wait, and the cause.
    pub(super) fn warning(&self) -> String {
        let Self { epoch, batch, waited, unsaid, .. } = self;
        let name = Escaped(self.source.name());
        let usual = match self.waits.median() {
            Some(median) if self.waits.count() >= FEWEST_BATCHES => {
                format!(", where at most {} is usual", seconds(median))
            }
            _ => String::new(),
        };
        let more = match unsaid {
            0 => String::new(),
            1 => " (1 batch was late since the last warning)".to_owned(),
            more => format!(" ({more} batches were late since the last warning)"),
        };
        format!(
            "{name}: epoch {epoch}, batch {batch}: the program has waited {} for it{usual}{more}: {}",
            seconds(*waited),
            self.cause()
        )
    }

    fn cause(&self) -> String {
        let is_at_work = |worker: &&Activity| !worker.phase.is_wait();
        let of_batch = |worker: &&Activity| worker.batch == Some(self.batch);
        let at_work = || self.workers.iter().filter(is_at_work);
        let longest = |worker: &&Activity| worker.lasts;
        let Some(worker) =
            at_work().filter(of_batch).max_by_key(longest).or(at_work().max_by_key(longest))
        else {
            return self.idle();
        };
        let Activity { phase, lasts, sample, .. } = *worker;
        let sample = sample.map_or_else(String::new, |sample| self.located(sample));
        let (doing, cure) = self.words(phase);
        let all = self.workers.len();
        let busy = match at_work().count() {
            1 => format!("the only worker of {all} that is not waiting"),
            busy => format!("one of {busy} workers at work"),
        };
        let busy = if all == 1 { "the worker".to_owned() } else { busy };
        format!("{busy} has been {doing}{sample} for {}: {cure}", seconds(lasts))
    }

    /// Says why no worker is at work.
    fn idle(&self) -> String {
        if self.workers.iter().any(|worker| worker.phase == Phase::Slot) {
            return "no memory is free for another batch, because the program holds batches: drop them sooner, or raise \
                    the memory limit"
                .to_owned();
        }
        "no worker has anything to do: please report this".to_owned()
    }

    /// Describes the phase of a worker and what would help.
    fn words(&self, phase: Phase) -> (&'static str, &'static str) {
        match phase {
            Phase::Read if self.source.name().contains("://") => (
                "waiting for the bytes of",
                "the server answers late; a cache on disk spares the next epoch the wait",
            ),
            Phase::Read => (
                "reading",
                "the disk is slow, or the code that the dataset reads samples with waits",
            ),
            Phase::Decode => ("decoding", "the file is large, or slow to decode"),
            Phase::Kernel => {
                ("running the ops on", "a function in the list of ops may wait, or is slow")
            }
            Phase::Finish => (
                "in the ops on the whole batch, from",
                "a function in the list of ops may wait; smaller batches share this work better",
            ),
            Phase::Open => ("looking up the samples of the batch", "the order is slow"),
            _ => ("filling rows, from", "the machine may be short of memory or of processor time"),
        }
    }

    /// Names a sample by its number and its location.
    fn located(&self, sample: SampleId) -> String {
        let location = self.field.and_then(|field| self.source.locate(sample, field));
        match location {
            Some(location) => format!(" sample {sample} ({location})"),
            None => format!(" sample {sample}"),
        }
    }
}

/// Formats a time: `12 ms`, `1.2 s`.
fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        short if short < 0.995 => format!("{:.0} ms", short * 1e3),
        long if long < 99.95 => format!("{long:.1} s"),
        long => format!("{long:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Column, InMemory};

    #[test]
    fn warnings_become_rare() {
        let log = StallLog::default();
        let begin = Instant::now();
        let mut warned = vec![];
        for minute in 0..20_u64 {
            let stall = |second| log.note(begin + Duration::from_secs(60 * minute + second));
            warned.extend(stall(0).map(|unsaid| (minute, unsaid)));
            assert_eq!(stall(1), None);
        }
        assert_eq!(warned, [(0, 0), (1, 1), (3, 3), (7, 7), (15, 15)]);
        assert_eq!(log.count(), 40);
    }

    #[test]
    fn a_stall_is_long_and_unusual() {
        let of = |batches, ms| -> WaitHistogram {
            std::iter::repeat_n(Duration::from_millis(ms), batches).collect()
        };
        let seconds = |waits: WaitHistogram, is_first| shortest(&waits, is_first).as_secs_f64();
        assert_eq!(seconds(of(10, 3), false), 1.0);
        assert_eq!(seconds(of(10, 400), false), 5.0);
        // The first batches have no median yet, and workers that have just begun are behind.
        assert_eq!([seconds(of(9, 3), false), seconds(of(10, 3), true)], [10.0, 10.0]);
        assert_eq!(shortest(&of(10, 200_000), false), Duration::MAX);
    }

    #[test]
    fn a_warning_names_the_batch_the_wait_and_the_cause() {
        let source = InMemory::new([("number", Column::ints(0..32))]).unwrap();
        let at = |phase, ms, batch, sample: Option<u64>| Activity {
            phase,
            lasts: Duration::from_millis(ms),
            batch,
            sample: sample.map(SampleId),
        };
        let stall = |workers: &[Activity]| Stall {
            source: &source,
            field: Some(0),
            epoch: 1,
            batch: 3,
            waited: Duration::from_millis(1520),
            waits: WaitHistogram::default(),
            workers: workers.to_vec(),
            unsaid: 0,
        };
        let said = |workers: &[Activity]| stall(workers).warning();
        let room = at(Phase::Room, 1500, None, None);
        let text = said(&[room, at(Phase::Read, 1400, Some(3), Some(13))]);
        assert!(text.contains("epoch 1, batch 3: the program has waited 1.5 s for it: "), "{text}");
        let cause = "the only worker of 2 that is not waiting has been reading sample 13";
        assert!(text.contains(cause) && text.contains(" for 1.4 s: the disk is slow"), "{text}");
        // The batch that is waited for goes first.
        let other = at(Phase::Decode, 9000, Some(4), Some(16));
        let text = said(&[other, at(Phase::Kernel, 700, Some(3), Some(12))]);
        assert!(text.contains("one of 2 workers at work has been running the ops on"), "{text}");
        assert!(text.contains("for 700 ms: a function in the list of ops"), "{text}");
        let text = said(&[at(Phase::Slot, 1500, None, None), room]);
        assert!(text.contains("because the program holds batches"), "{text}");
        let text = Stall { unsaid: 7, ..stall(&[other]) }.warning();
        assert!(
            text.contains("(7 batches were late since the last warning): the worker"),
            "{text}"
        );
    }
}
