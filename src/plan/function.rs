//! Errors of ops in plain Rust, which call functions of the user.

use fuseloop_ops::author::{BoxError, Op};
use fuseloop_ops::internals::memory::NoMemory;

/// The error that an op in plain Rust returned. It ends the epoch.
#[derive(Debug, thiserror::Error)]
#[error("{op} failed in epoch {epoch}: {error}")]
pub struct FunctionError {
    /// The op.
    pub op: &'static str,
    /// The epoch, from 0.
    pub epoch: u32,
    /// The error that the op returned.
    pub error: BoxError,
}

impl FunctionError {
    /// Adds the op and the epoch to its error.
    pub fn of(op: &dyn Op, epoch: u32) -> impl Fn(BoxError) -> Self {
        let op = op.name();
        move |error| Self { op, epoch, error }
    }
}

/// Why the ops of an image did not run to the end.
#[derive(Debug, thiserror::Error)]
pub enum RunOpsError {
    /// The system has no memory for an image between two ops.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// An op in plain Rust returned an error.
    #[error(transparent)]
    Function(#[from] FunctionError),
}
