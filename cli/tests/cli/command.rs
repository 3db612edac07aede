//! The command, run as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the command in a folder.
pub(crate) fn fuseloop(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.args(args).current_dir(dir).output().unwrap()
}

/// Runs the command and returns its stdout.
pub(crate) fn stdout_of(dir: &Path, args: &[&str]) -> String {
    let output = fuseloop(dir, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {:?}\n{errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
