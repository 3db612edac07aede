//! The shape of the repository: its modules, its unsafe code, the crates that it depends on, the counts of its tests,
//! and the words of its texts.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod counts;
mod dependencies;
mod errors;
mod layers;
mod settings;
mod thread_modes;
mod words;
