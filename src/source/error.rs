//! Errors of reading a value that is stored in a file.

use crate::error::{Damage, Error, fail};

/// Returns the error of a sample that the dataset does not have.
pub(super) fn no_such_sample(samples: u64) -> Error {
    fail!(Parameter, "no such sample: the file has {samples}")
        .help("samples are numbered from 0; `fuseloop info FILE` shows how many there are")
}

/// Returns the error of a field that the dataset does not have.
pub(super) fn no_such_field(fields: usize) -> Error {
    fail!(Field, "no such field: the file has {fields}")
}

/// Returns the error of a value that has more bytes than the limit.
pub(super) fn too_long(found: u64, limit: u64) -> Error {
    fail!(Memory, "a value of {found} bytes, the limit is {limit}").damage(Damage::OverLimit)
}

/// Returns the error of `size` bytes at `ptr` of which only `found` exist: the file has become shorter, or the bytes were
/// never in it.
pub(super) fn short(ptr: u64, size: u64, found: u64) -> Error {
    fail!(Damaged, "{size} bytes at byte {ptr}: the file ends after {found} of them")
        .named_byte(ptr)
        .damage(Damage::FileCut)
}

/// Returns the error of bytes that there is no memory to read into.
pub(super) fn no_memory(size: u64) -> Error {
    fail!(Memory, "no memory for {size} bytes").out_of_memory().damage(Damage::Unreadable)
}
