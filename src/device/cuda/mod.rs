//! GPUs by CUDA.
//!
//! | file | |
//! |---|---|
//! | `driver` | the driver's functions |
//! | `context` | a GPU's primary context, current only while we call |
//! | `handles` | streams, events, memory, locked pages |
//! | `module` | kernels, loaded |
//! | `gpu` | what GPUs there are, and one opened |
//! | `nvrtc` | the run-time compiler |
//! | `search` | where that may lie |
//! | `cache` | what it compiled, kept in files |
//! | `kernels` | a program's kernels, from wherever they can be had |
//! | `held` | the memory of batches, and who reads it |
//! | `freight` | what is kept beside the host's slot |
//! | `lane` | all together: the way of a batch |
//! | `clock` | the device's own time, and copies that only benchmarks ask for |
//! | `bench` | for tests and benchmarks: trials on a real GPU, checked and timed |
//!
//! No context is made unless a GPU is opened, and none of ours is left current on a caller's thread.

#[doc(hidden)]
pub mod bench;
mod cache;
mod clock;
mod context;
mod driver;
mod freight;
mod gpu;
mod handles;
mod held;
mod kernels;
mod lane;
mod module;
mod nvrtc;
mod search;

pub use gpu::Gpu;

pub(crate) use freight::{Found, Freight};
pub(crate) use held::Use;
pub(crate) use lane::Lane;

#[cfg(test)]
mod tests;
