//! Bounds how far encoding may run ahead of placing, and so the writer's memory.
//!
//! ```text
//! ahead            bytes that are encoded but not yet placed
//! a sample starts  if ahead <= budget, or if it is the next to be placed
//! ```
//!
//! So at most `budget` bytes and one sample per thread wait, however much the sizes of samples differ.
//! Samples are handed out in order and each thread takes its own in order, so the next sample to be
//! placed is always some thread's current one. Since that sample never waits, there is no deadlock.

use crate::sample::SampleId;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The gate between the encoding threads and the placing thread.
pub(super) struct EncodeGate {
    budget: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    ahead: usize,
    next: u64,
    stopped: bool,
}

impl EncodeGate {
    pub(super) fn new(budget: usize) -> Self {
        let state = Mutex::new(State { ahead: 0, next: 0, stopped: false });
        Self { budget, state, changed: Condvar::new() }
    }

    /// Waits until `sample` may be encoded. Returns false if the work was stopped.
    pub(super) fn enter(&self, sample: SampleId) -> bool {
        let must_wait = |s: &mut State| !s.stopped && s.ahead > self.budget && s.next != sample.0;
        let state = self.changed.wait_while(self.lock(), must_wait);
        !state.unwrap_or_else(PoisonError::into_inner).stopped
    }

    /// Records that a sample of `bytes` bytes was encoded.
    pub(super) fn encoded(&self, bytes: usize) {
        self.lock().ahead += bytes;
    }

    /// Records that the next sample, of `bytes` bytes, was placed.
    pub(super) fn placed(&self, bytes: usize) {
        let mut state = self.lock();
        state.ahead -= bytes;
        state.next += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Stops the work: `enter` returns false from now on.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Returns true if the work was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Returns a guard that stops the work if its thread panics, because the other threads would wait
    /// for that thread.
    pub(super) fn stop_on_panic(&self) -> StopOnPanic<'_> {
        StopOnPanic(self)
    }

    /// Locks the state. No code that can panic runs under the lock, so a poisoned state is still
    /// consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`EncodeGate::stop_on_panic`].
pub(super) struct StopOnPanic<'a>(&'a EncodeGate);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn over_the_budget_only_the_next_sample_enters() {
        let flow = EncodeGate::new(10);
        assert!(flow.enter(SampleId(1)));
        flow.encoded(11);
        assert!(flow.enter(SampleId(0)), "the next to be placed");
        let entered = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(flow.enter(SampleId(2)));
                entered.store(true, Ordering::SeqCst);
            });
            thread::sleep(Duration::from_millis(20));
            assert!(!entered.load(Ordering::SeqCst), "entered over the budget");
            flow.placed(0);
            flow.placed(11);
        });
        assert!(entered.load(Ordering::SeqCst));
    }

    #[test]
    fn stopping_wakes_those_who_wait() {
        let flow = EncodeGate::new(0);
        flow.encoded(1);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| flow.enter(SampleId(5)));
            let panicking = scope.spawn(|| {
                let _stop = flow.stop_on_panic();
                panic!("on purpose");
            });
            assert!(panicking.join().is_err());
            assert!(!waiting.join().unwrap());
        });
    }
}
