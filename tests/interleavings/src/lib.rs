//! The engine, built from the same files, on a scheduler that tries random orders of its threads.
//!
//! ```text
//!   src/sample.rs  src/threads.rs  src/batch/  src/run/     the files of `fuseloop`
//!                |
//!          crate::sync                      there: std. Here: `sync.rs`, over shuttle
//! ```
//!
//! Shuttle runs all threads of a test on one, and asks a seeded generator who goes on whenever one
//! touches a lock, a condition or an atomic. So a test sees thousands of orders of events that real
//! threads might show once a year, and a failure comes with the order that led to it.
//!
//! What it can't show: time (nothing times out here; `tests/run` has that), and effects of weak
//! memory order (an atomic here is always seen by all).

// `batch` takes from the crate of ops the types of elements, which are all it needs of it.
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
