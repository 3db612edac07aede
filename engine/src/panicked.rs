//! Panics as errors: the message of one in a user's code or in ours, and those of crates that decode files.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the message of a panic.
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

/// Calls a function. What it changed may be in any state after a panic, and must not be used again.
///
/// # Errors
///
/// Returns the message of a panic.
pub fn caught<T>(function: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| message(&*panic))
}

/// Calls a function of the crate `name` that decodes a file. Damaged files may make such a crate panic, which is an error
/// as any other damage; see [`caught`].
///
/// # Errors
///
/// Returns the message of the function's error, or of its panic.
pub fn call_decoder<T, E: ToString>(
    name: &str,
    function: impl FnOnce() -> Result<T, E>,
) -> Result<T, String> {
    match caught(function) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(message) => Err(format!("{name} panicked: {message}")),
    }
}
