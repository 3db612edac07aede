//! Helpers that several test binaries share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each binary uses its own part")]

pub mod counted;
#[cfg(feature = "write")]
pub mod dataset;
#[cfg(feature = "jit")]
pub mod emulator;
pub mod files;
#[cfg(target_arch = "x86_64")]
pub mod float_mode;
pub mod guarded;
pub mod hub;
#[cfg(feature = "jit")]
pub mod interpreter;
pub mod jpegs;
pub mod lists;
pub mod paged;
pub mod photographs;
pub mod random_ops;
pub mod server;
pub mod trials;
