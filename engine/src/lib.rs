//! The engine of `fuseloop`: threads that fill the rows of batches, and the memory of the batches.
//!
//! | module | contents |
//! |---|---|
//! | [`run`] | threads, the ring of batches in flight, delivery, errors and panics |
//! | [`batch`] | tensors of a batch, slots, leases |
//! | [`sample`] | sample ids, epochs, limits |
//! | [`work_queue`] | threads that claim tasks and enter results, and consumers that take them |
//! | [`threads`] | limits on numbers of threads; the process that owns threads |
//! | [`panicked`] | panics as errors |
//! | `sync` | locks, conditions, threads and clocks: the operating system's, or those of a test's scheduler |
//!
//! The engine knows neither pixels nor files: a [`Stage`](run::Stage) fills the rows.
//!
//! This crate is internal to `fuseloop`: programs use what `fuseloop` re-exports. What is public here
//! beyond that changes without notice.

pub mod batch;
pub mod panicked;
pub mod run;
pub mod sample;
mod sync;
pub mod threads;
pub mod work_queue;

#[cfg(shuttle)]
pub use sync::faults;
