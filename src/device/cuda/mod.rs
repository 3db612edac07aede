//! GPUs, through CUDA.
//!
//! | file | content |
//! |---|---|
//! | `driver` | the driver's functions |
//! | `context` | a GPU's primary context, current only during our calls |
//! | `handles` | streams, events, memory, locked pages |
//! | `module` | loaded kernels |
//! | `gpu` | the list of GPUs, and an open GPU |
//! | `nvrtc` | the run-time compiler |
//! | `search` | where NVRTC may be installed |
//! | `cache` | compiled kernels, cached in files |
//! | `kernels` | a program's kernels, from memory, cache, compiler or prebuilt |
//! | `device_buffer` | the memory of batches, and the streams that read it |
//! | `pinned_slot` | the device's data of a slot: page locks and the batch on the device; page locks alone for batches on the host |
//! | `uploader` | the upload of batches, which uses all of the above |
//! | `clock` | device time, and copies that only benchmarks need |
//! | `bench` | for tests and benchmarks: runs on a real GPU, checked and timed |
//!
//! No context is created unless a GPU is opened, and none is left current on a caller's thread.

#[doc(hidden)]
pub mod bench;
mod cache;
mod clock;
mod context;
mod device_buffer;
mod driver;
mod gpu;
mod handles;
mod kernels;
mod module;
mod nvrtc;
mod pinned_slot;
mod search;
mod uploader;

use cudarc::driver::sys;

pub use gpu::Gpu;

pub(crate) use device_buffer::ReaderGuard;
pub(crate) use pinned_slot::{LocatedTensor, PageLocker, PinnedSlot};
pub(crate) use uploader::Uploader;

#[cfg(test)]
mod tests;
