//! Stand-ins for the CUDA driver and for NVRTC, and the test support to run on them.
//!
//! ```text
//! test ──on_fake_gpu──▶ the same test binary again, with LD_LIBRARY_PATH set to a folder of links
//!                         libcuda.so.1, libnvrtc.so.12 ──▶ libfuseloop_fakecuda.so, this crate
//! ```
//!
//! One crate, built twice: as a library for C that exports the names of `libcuda` and of
//! `libnvrtc`, and as a Rust library for tests. A test reads the state of the C library through
//! [`Report`]: the two libraries share no memory.
//!
//! | module   | replaces                                                                     |
//! |----------|------------------------------------------------------------------------------|
//! | `driver` | the driver: memory, streams that run late, events, modules, launches         |
//! | `nvrtc`  | the run-time compiler: `g++` compiles kernels to code of the host            |
//! | [`ptx`]  | a GPU: reads PTX as the real NVRTC writes it and runs it, each access checked |

// `libcuda.so.1` exists only on Linux; elsewhere this crate is empty.
#![cfg(target_os = "linux")]

mod abi;
mod driver;
mod host_build;
mod image;
mod install;
mod memory;
mod nvrtc;
pub mod ptx;
mod report;

pub use install::{Install, has_host_compiler, on_fake_gpu};
pub use report::{Report, calls};
