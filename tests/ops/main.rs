//! The ops against the libraries that they follow, what they claim about themselves, and the same pixels on every
//! machine.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod claims;
#[path = "../common/mod.rs"]
mod common;
mod ffcv_vectors;
mod golden;
mod registry_signoff;
mod same_pixels;
mod targets;
