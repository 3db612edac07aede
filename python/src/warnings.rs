//! Warnings of the library as Python's: `fuseloop.FuseloopWarning`.
//!
//! The library warns on any thread, also on one that must not wait for the interpreter. So warnings are queued, and
//! the next call that returns to Python raises them, at the line of the user's that made the call.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static QUEUE: Mutex<Vec<String>> = Mutex::new(vec![]);
/// True if the queue may hold warnings, so that most calls take no lock.
static ANY: AtomicBool = AtomicBool::new(false);

fn queue() -> MutexGuard<'static, Vec<String>> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queues the library's warnings from now on.
pub(crate) fn install() {
    fuseloop::set_warning_handler(|warning| {
        queue().push(warning.to_owned());
        ANY.store(true, Ordering::Release);
    });
}

/// Raises the queued warnings. The error is the exception of a filter that turns warnings into errors; those behind
/// it are dropped.
pub(crate) fn raise(py: Python<'_>) -> PyResult<()> {
    if !ANY.swap(false, Ordering::Acquire) {
        return Ok(());
    }
    let warnings = std::mem::take(&mut *queue());
    let module = py.import("fuseloop.errors")?;
    for warning in warnings {
        module.call_method1("_warn", (warning,))?;
    }
    Ok(())
}
