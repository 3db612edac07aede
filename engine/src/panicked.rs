//! Panics as errors: the message of one in a user's code or in ours, and those of crates that decode files.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the message of a panic.
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

/// Calls a function of the crate `name` that reads the bytes of a file. Damaged files may make such a crate panic, which
/// is an error as any other damage. What the function changed must not be used after an error.
///
/// # Errors
///
/// Returns the message of the function's error, or of its panic.
pub fn caught<T, E: ToString>(
    name: &str,
    function: impl FnOnce() -> Result<T, E>,
) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("{name} panicked: {}", message(&*panic))),
    }
}
