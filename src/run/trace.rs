//! A trace: which thread did what when. Off, and then free of cost, until it is asked for.

use std::time::Duration;

use super::headroom::Phase;
use crate::sample::SampleId;
use crate::sync::counter::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, PoisonError};

/// A stretch of time that a thread spent in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it did.
    pub phase: Phase,
    /// From when, since the engine was made.
    pub start: Duration,
    /// Until when.
    pub end: Duration,
    /// The batch it did it for or waited for, from 0 in its epoch; `None` for a worker that waits.
    pub batch: Option<u64>,
    /// The sample, where it is one: of a chunk the first, or the one the stage named.
    pub sample: Option<SampleId>,
}

/// What all threads did, while a trace was taken.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trace {
    /// The stretches of each worker, in the order of time, without gaps.
    pub workers: Vec<Vec<Event>>,
    /// The consumers' waits for batches.
    pub consumer: Vec<Event>,
    /// Stretches there was no place for: the trace ends before them.
    pub lost: u64,
}

/// The stretches of one thread, up to a limit.
#[derive(Default)]
pub(super) struct Tape {
    on: AtomicBool,
    lost: AtomicU64,
    limit: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl Tape {
    /// Starts anew with place for `limit` events; 0 stops.
    pub(super) fn start(&self, limit: usize) {
        self.lost.store(0, Ordering::Relaxed);
        self.limit.store(limit as u64, Ordering::Relaxed);
        *self.events.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
        self.on.store(limit > 0, Ordering::Relaxed);
    }

    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Keeps `event` if there is place.
    pub(super) fn push(&self, event: Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if (events.len() as u64) < self.limit.load(Ordering::Relaxed) {
            events.push(event);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes out what was kept, and how many were lost. It goes on with all its place.
    pub(super) fn take(&self) -> (Vec<Event>, u64) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut *events), self.lost.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(start: u64) -> Event {
        Event {
            phase: Phase::Read,
            start: Duration::from_micros(start),
            end: Duration::from_micros(start + 1),
            batch: Some(0),
            sample: None,
        }
    }

    #[test]
    fn a_full_tape_counts_what_it_loses() {
        let tape = Tape::default();
        assert!(!tape.is_on());
        tape.start(2);
        (0..5).for_each(|i| tape.push(event(i)));
        assert_eq!(tape.take(), (vec![event(0), event(1)], 3));
        tape.push(event(7));
        assert_eq!(tape.take(), (vec![event(7)], 0));
        tape.start(0);
        assert!(!tape.is_on());
    }
}
