//! The shape of the repository: its modules, its unsafe code, the crates that it depends on, and the counts of its tests.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod counts;
mod dependencies;
mod layers;
mod thread_modes;
