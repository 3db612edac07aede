//! What the tests of the fake share: its driver and an NVRTC, called as a program calls them.
#![allow(dead_code, reason = "each test takes what it needs")]
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

pub(crate) mod gpu;
pub(crate) mod nvrtc;
pub(crate) mod training;
