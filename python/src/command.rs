//! The command `fuseloop`, which `python -m fuseloop` runs.

use crate::call::calling;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command of these arguments, the first of which is the name of the program, and returns its exit code. For
/// the whole of a process: see [`fuseloop_cli::run`].
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    calling(py, || fuseloop_cli::run(arguments))
}
