//! Fuseloop: a training-data runtime that compiles the augmentation.
//!
//! A user lists ops; they are checked, fused and compiled into one native loop per batch, in
//! milliseconds; a loader reads, decodes and augments on all cores and gives batches in order.
//! See [`LoaderBuilder`] for a whole example.
//!
//! | module | what it is |
//! |---|---|
//! | [`sample`] | the words every stage shares |
//! | [`source`] | what samples there are and where their bytes lie: `.beton` files, folders, tar and TFRecord shards, streams |
//! | [`decode`] | bytes and a wanted window to pixels |
//! | [`order`] | which sample next: pure functions of seed and epoch |
//! | [`plan`] | a list of ops, checked and split into blocks |
//! | [`jit`] | a plan as native code, and the oracle it must equal |
//! | [`batch`] | memory of batches, and leases on it |
//! | [`run`] | threads and the ring: the only module that knows there are any |
//! | [`loader`] | all of it together |
//! | [`spec`] | pipelines as data: TOML files |
//! | [`recut`] | JPEGs re-cut without loss, so that windows of them are cheap to decode |
//! | [`mod@write`] | a folder, a list or an iterator to a `.beton` file; any source to any format |
//! | [`mod@verify`] | a whole dataset, checked for damage |
//! | [`workload`] | the usual lists of ops, by name |

pub mod batch;
pub mod decode;
pub mod device;
#[doc(hidden)]
pub mod fuzzing;
pub mod jit;
pub mod loader;
pub mod order;
mod panicked;
mod parallel;
pub mod plan;
pub mod recut;
pub mod run;
pub mod sample;
pub mod source;
pub mod spec;
mod sync;
mod threads;
pub mod verify;
pub mod workload;
pub mod write;

pub use batch::Batch;
pub use loader::{Batches, Cursor, LoadError, Loader, LoaderBuilder, OnDamaged};
pub use order::Order;
pub use sample::{Epoch, Limits, SampleId, Visit};
pub use spec::Spec;
pub use threads::ThreadsError;

/// The ops, and what a list of them is made with.
pub use fuseloop_ops as ops;
