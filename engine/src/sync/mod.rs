//! The threads, locks and clocks of the engine.
//!
//! No other module of this crate names anything of `std::sync`, `std::thread` and `std::time::Instant`.
//! The package in `tests/interleavings` builds the same crate with the cfg `shuttle`, which replaces the
//! operating system's primitives by those of a scheduler, and so runs the engine in thousands of thread
//! interleavings.

#[cfg(shuttle)]
pub mod faults;
#[cfg(shuttle)]
mod scheduled;
#[cfg(not(shuttle))]
mod system;

#[cfg(shuttle)]
pub(crate) use scheduled::*;
#[cfg(not(shuttle))]
pub(crate) use system::*;

/// Atomics that no thread acts on, such as counters: their memory order does not matter, and a scheduler
/// need not try orders for them.
pub(crate) mod counter {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
}
