//! Shared code of the fake's tests: its driver and an NVRTC, called the way a program calls them.
#![allow(dead_code, reason = "each test takes what it needs")]
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

pub(crate) mod gpu;
pub(crate) mod nvrtc;
pub(crate) mod training;
