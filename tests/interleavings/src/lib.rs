//! The engine, built from the same files, on a scheduler that runs its threads in random orders.
//!
//! ```text
//!   src/sample.rs  src/threads.rs  src/batch/  src/run/     the files of `fuseloop`
//!                |
//!          crate::sync                      there: std. Here: `sync.rs`, over shuttle
//! ```
//!
//! Shuttle runs all threads of a test on one OS thread, and asks a seeded generator which thread
//! continues whenever one touches a lock, a condition variable or an atomic. So a test sees
//! thousands of orders of events that real threads might produce once a year, and a failure is
//! reported with the order that led to it.
//!
//! Two things are out of reach: time (nothing times out here; `tests/run` covers timeouts), and
//! effects of weak memory order (here all threads always see the latest value of an atomic).

// `batch` needs only the element types from the crate of ops.
extern crate self as fuseloop_ops;

#[path = "../../../ops/src/shape.rs"]
pub mod shape;

#[path = "../../../src/batch/mod.rs"]
#[allow(dead_code, unused_imports, reason = "only the loader packs rows of differing sizes")]
pub mod batch;
pub mod faults;
#[path = "../../../src/panicked.rs"]
mod panicked;
#[path = "../../../src/run/mod.rs"]
pub mod run;
#[path = "../../../src/sample.rs"]
pub mod sample;
mod sync;
#[path = "../../../src/threads.rs"]
pub mod threads;

pub use shape::DType;
