//! The command, as a user runs it; limits of a process; and the documents.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod accounting;
mod annotated;
mod capacity;
mod cli_files;
mod command;
#[cfg(feature = "object")]
mod compile;
mod costly;
#[path = "../../../tests/common/dataset.rs"]
#[allow(dead_code, unreachable_pub, reason = "tests of the library share it")]
mod dataset;
mod device;
mod docs;
#[path = "../../../tests/common/files.rs"]
mod files;
mod misuse;
mod process_limits;
mod running;
mod showing;
mod sources;
mod strangers;
#[cfg(all(feature = "studio", unix))]
mod studio;
mod targets;
mod threads;
mod writing;
