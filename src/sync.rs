//! The threads, locks and clocks that [`batch`](crate::batch) and [`run`](crate::run) use.
//!
//! They name nothing of `std::sync`, `std::thread` and `std::time::Instant` themselves: the crate
//! in `tests/interleavings` builds the same files on a scheduler of its own in this module's place
//! and so runs them in thousands of orders.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
pub(crate) use std::thread;
pub(crate) use std::time::Instant;

/// Atomics that threads decide by.
pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

/// Atomics that nothing is decided by, such as counters: their order is of no interest.
pub(crate) mod counter {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
}
