//! Errors of devices that several places return, each in one line that names the fix.

use crate::error::{Error, fail};

#[cfg(not(feature = "cuda"))]
pub(super) fn not_built(ordinal: u32) -> Error {
    fail!(
        Device,
        "cuda:{ordinal} was requested, but this build lacks CUDA: build with the feature `cuda`, or use the device \
         \"cpu\""
    )
}

#[cfg(feature = "cuda")]
pub(super) fn forked() -> Error {
    fail!(
        Device,
        "this process was forked after its parent used the GPU, which CUDA does not support: start workers by spawn, \
         or open the loader after the fork"
    )
}

#[cfg(feature = "cuda")]
pub(super) fn no_memory(bytes: u64, what: &str) -> Error {
    fail!(
        Device,
        "cannot allocate {bytes} bytes of GPU memory for {what}: use smaller batches, or lower `device_batches`"
    )
}

pub(crate) fn all_in_use(batches: usize) -> Error {
    fail!(
        Device,
        "all {batches} device buffers are in use: drop or copy the batches you hold, or raise `device_batches`"
    )
}

/// Returns the error of an op that a device can't run; the reason says what to do.
pub(super) fn cannot_run(op_index: usize, op: &str, reason: &str) -> Error {
    fail!(Device, "op {op_index} of the list, {op}, can't run on a device: {reason}")
        .of_op(op_index)
}
