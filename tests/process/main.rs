//! Promises about a whole process: its threads, open files and memory, its forks and its subscriber of spans.
//!
//! Each test runs alone in a process of its own, one after another: see [`passed_alone`].

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../common/mod.rs"]
mod common;
#[cfg(all(feature = "tar", feature = "write"))]
mod fork;
mod generator_threads;
mod jit_memory;
mod no_executable_pages;
#[cfg(feature = "tar")]
mod open_files;
mod run_memory;
mod run_threads;
#[cfg(feature = "tracing")]
mod tracing;
#[cfg(feature = "write")]
mod write_ends;

use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The environment variable that tells a process to run its test itself.
const ALONE: &str = "FUSELOOP_TEST_ALONE";

/// Runs the test `name` in a new process, and returns true; returns false in that process.
///
/// # Panics
///
/// If the test fails there.
fn passed_alone(name: &str) -> bool {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name, "--nocapture"]).env(ALONE, "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}", output.status);
    assert!(said.contains("1 passed"), "no test is called {name}");
    true
}
