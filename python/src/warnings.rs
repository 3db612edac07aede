//! Warnings of the library as Python's: `fuseloop.FuseloopWarning`.
//!
//! The library warns on any thread, also on one that must not wait for the interpreter. The warnings of a call come when
//! it returns, at the line of the user's that made it. Those of other threads are queued, and come with the next call.

use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static QUEUE: Mutex<Vec<String>> = Mutex::new(vec![]);
/// True if the queue may hold warnings, so that most calls take no lock.
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The warnings of the call that runs on this thread.
    static OWN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

fn queue() -> MutexGuard<'static, Vec<String>> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the library's warnings from now on.
pub(crate) fn install() {
    fuseloop::set_warning_handler(|warning| {
        let is_own = OWN.with_borrow_mut(|own| match own {
            Some(own) => {
                own.push(warning.to_owned());
                true
            }
            None => false,
        });
        if !is_own {
            queue().push(warning.to_owned());
            ANY.store(true, Ordering::Release);
        }
    });
}

/// Returns the result of `work`, and the warnings that came on this thread.
pub(crate) fn collected<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    // The call that this one is in, by a function of Python.
    let outer = OWN.replace(Some(vec![]));
    let done = work();
    (done, OWN.replace(outer).unwrap_or_default())
}

/// Raises the warnings of a call, and then those that are queued.
pub(crate) fn raise_own(py: Python<'_>, own: Vec<String>) -> PyResult<()> {
    if !own.is_empty() {
        raise_all(py, own)?;
    }
    raise(py)
}

/// Raises the queued warnings.
pub(crate) fn raise(py: Python<'_>) -> PyResult<()> {
    if !ANY.swap(false, Ordering::Acquire) {
        return Ok(());
    }
    let queued = std::mem::take(&mut *queue());
    raise_all(py, queued)
}

/// Raises warnings. The error is the exception of a filter that turns warnings into errors; those behind it are dropped.
fn raise_all(py: Python<'_>, warnings: Vec<String>) -> PyResult<()> {
    let module = py.import("fuseloop.errors")?;
    for warning in warnings {
        module.call_method1("_warn", (warning,))?;
    }
    Ok(())
}
