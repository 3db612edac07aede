//! A trace: what each thread did and when. Off by default, and then free of cost.

use std::time::Duration;

use super::utilization::Phase;
use crate::sample::SampleId;
use crate::sync::counter::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, PoisonError};

/// A span of time that a thread spent in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// The phase.
    pub phase: Phase,
    /// The start, since the engine was created.
    pub start: Duration,
    /// The end, since the engine was created.
    pub end: Duration,
    /// The batch worked on or waited for, from 0 in its epoch; `None` for a waiting worker.
    pub batch: Option<u64>,
    /// The sample, if there is one: the first of a chunk, or the last one that the stage reported.
    pub sample: Option<SampleId>,
}

/// The events of all threads while the trace was on.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trace {
    /// The events of each worker, in time order, without gaps.
    pub workers: Vec<Vec<TraceEvent>>,
    /// The consumers' waits for batches.
    pub consumer: Vec<TraceEvent>,
    /// The number of events beyond the limit: the trace ends before them.
    pub lost: u64,
}

/// The events of one thread, up to a limit.
#[derive(Default)]
pub(super) struct EventBuffer {
    on: AtomicBool,
    lost: AtomicU64,
    limit: AtomicU64,
    events: Mutex<Vec<TraceEvent>>,
}

impl EventBuffer {
    /// Clears the buffer and starts recording up to `limit` events; 0 stops recording.
    pub(super) fn start(&self, limit: usize) {
        self.lost.store(0, Ordering::Relaxed);
        self.limit.store(limit as u64, Ordering::Relaxed);
        *self.events.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
        self.on.store(limit > 0, Ordering::Relaxed);
    }

    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Records `event` if there is room.
    pub(super) fn push(&self, event: TraceEvent) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if (events.len() as u64) < self.limit.load(Ordering::Relaxed) {
            events.push(event);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the recorded events and the number of lost ones. Recording continues with an empty buffer.
    pub(super) fn take(&self) -> (Vec<TraceEvent>, u64) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut *events), self.lost.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(start: u64) -> TraceEvent {
        TraceEvent {
            phase: Phase::Read,
            start: Duration::from_micros(start),
            end: Duration::from_micros(start + 1),
            batch: Some(0),
            sample: None,
        }
    }

    #[test]
    fn a_full_tape_counts_what_it_loses() {
        let buffer = EventBuffer::default();
        assert!(!buffer.is_on());
        buffer.start(2);
        (0..5).for_each(|i| buffer.push(event(i)));
        assert_eq!(buffer.take(), (vec![event(0), event(1)], 3));
        buffer.push(event(7));
        assert_eq!(buffer.take(), (vec![event(7)], 0));
        buffer.start(0);
        assert!(!buffer.is_on());
    }
}
