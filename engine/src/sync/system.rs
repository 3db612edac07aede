//! The operating system's threads, locks and clocks.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak, mpsc};
pub(crate) use std::thread;
pub(crate) use std::time::Instant;

/// Atomics whose values threads act on.
pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}
