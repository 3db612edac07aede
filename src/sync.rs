//! The threads, locks and clocks that [`batch`](crate::batch) and [`run`](crate::run) use.
//!
//! Those two modules name nothing of `std::sync`, `std::thread` and `std::time::Instant` themselves. The
//! crate in `tests/interleavings` builds the same files with its own scheduler in place of this module,
//! and so runs them in thousands of thread interleavings.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
pub(crate) use std::thread;
pub(crate) use std::time::Instant;

/// Atomics whose values threads act on.
pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

/// Atomics that no thread acts on, such as counters: their memory order does not matter.
pub(crate) mod counter {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
}
