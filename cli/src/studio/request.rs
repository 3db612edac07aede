//! The values of a call, and locks that survive the panic of another call.

use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns the text of the pipeline in a call.
pub(super) fn text_of(body: &Value) -> &str {
    body["text"].as_str().unwrap_or_default()
}

/// Returns a number of a call, or its default, at most `most`.
pub(super) fn number(body: &Value, name: &str, default: u32, most: u32) -> u32 {
    let given = body[name].as_u64().map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    given.unwrap_or(default).min(most)
}

/// Locks, also after a panic of another call: what is held is replaced as a whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
