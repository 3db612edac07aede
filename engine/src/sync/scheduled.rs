//! The counterpart of `system.rs`, built on shuttle.
//!
//! Shuttle runs all threads of a test on one OS thread, and asks a seeded generator which thread
//! continues whenever one touches a lock, a condition variable or an atomic. So a test sees thousands of
//! orders of events that real threads might produce once a year, and a failure is reported with the order
//! that led to it.
//!
//! Two things are out of reach: time (nothing times out here; `tests/run` covers timeouts), and effects
//! of weak memory order (here all threads always see the latest value of an atomic).

use std::sync::LockResult;
use std::time::Duration;

pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};

use super::faults;

/// Threads that shuttle schedules.
pub(crate) mod thread {
    pub(crate) use shuttle::thread::{Builder, JoinHandle, ThreadId, current};
    pub(crate) use std::thread::available_parallelism;
}

/// A clock that stands still: the order of threads must depend on the scheduler alone.
#[derive(Clone, Copy)]
pub(crate) struct Instant;

impl Instant {
    pub(crate) fn now() -> Self {
        Self
    }

    #[allow(clippy::unused_self, reason = "std's has one")]
    pub(crate) fn elapsed(self) -> Duration {
        Duration::ZERO
    }
}

/// A condition variable, which never times out.
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        longest: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, shuttle::sync::WaitTimeoutResult)> {
        self.0.wait_timeout(guard, longest)
    }

    pub(crate) fn notify_one(&self) {
        if !faults::loses_wake_up() {
            self.0.notify_one();
        }
    }

    pub(crate) fn notify_all(&self) {
        if !faults::loses_wake_up() {
            self.0.notify_all();
        }
    }
}

/// Atomics that affect what threads do.
pub(crate) mod atomic {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use crate::sync::faults::{self, Fault};

    /// An atomic number, whose additions can be made faulty.
    pub(crate) struct AtomicUsize(shuttle::sync::atomic::AtomicUsize);

    impl AtomicUsize {
        pub(crate) fn new(value: usize) -> Self {
            Self(shuttle::sync::atomic::AtomicUsize::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> usize {
            self.0.load(order)
        }

        pub(crate) fn fetch_add(&self, more: usize, order: Ordering) -> usize {
            if faults::is_planted(Fault::TornAdd) {
                let before = self.0.load(order);
                self.0.store(before + more, order);
                return before;
            }
            self.0.fetch_add(more, order)
        }

        pub(crate) fn fetch_max(&self, least: usize, order: Ordering) -> usize {
            self.0.fetch_max(least, order)
        }
    }
}
