//! The kernels of GPUs: on a GPU, by their host build, and as they are shipped.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "cuda")]
mod device;
mod kernels;
#[cfg(feature = "cuda")]
mod shipped;
