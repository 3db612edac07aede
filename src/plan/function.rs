//! Errors of ops in plain Rust, which call functions of the user.

use crate::error::Error;
use fuseloop_ops::author::{BoxError, Op};

/// Adds an op and an epoch, from 0, to the error that the op returned. It ends the epoch: the sample is not damaged.
pub(crate) fn failed(op: &dyn Op, epoch: u32) -> impl Fn(BoxError) -> Error {
    let op = op.name();
    move |error| {
        let error = Error::of_user(error).context(format_args!("{op} failed in epoch {epoch}"));
        error.not_damage()
    }
}
