//! The shape of the repository: its modules, its unsafe code, and the crates that it depends on.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod dependencies;
mod layers;
