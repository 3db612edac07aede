//! Errors of the library as exceptions of `fuseloop.errors`.

use fuseloop::ErrorKind;
use fuseloop::ops::internals::registry::{SpecCause, SpecError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::error::Error as StdError;
use std::fmt;

/// An exception that Python code raised inside of the library. It is raised again as it is.
pub(crate) struct Raised(pub(crate) PyErr);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Raised {}

fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let import = || PyModule::import(py, "fuseloop.errors").map(Bound::unbind);
    Ok(MODULE.get_or_try_init(py, import)?.bind(py))
}

/// Returns the exception of Python among an error and its causes.
fn raised_within<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Raised> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(raised) = error.downcast_ref() {
            return Some(raised);
        }
        at = error.source();
    }
    None
}

/// Returns the exception for `error`: that of the user's code if there is one, otherwise one of
/// `fuseloop.errors`.
pub(crate) fn raised(py: Python<'_>, error: &fuseloop::Error) -> PyErr {
    if let Some(Raised(own)) = error.get_ref().and_then(|custom| raised_within(custom)) {
        let own = own.clone_ref(py);
        // Where it happened. An exception that takes no note is raised without.
        let _ = own.value(py).call_method1("add_note", (format!("fuseloop: {error}"),));
        return own;
    }
    let details = || {
        let details = PyDict::new(py);
        details.set_item("path", error.path().map(|path| path.to_string_lossy().into_owned()))?;
        details.set_item("sample", error.sample().map(|sample| sample.0))?;
        details.set_item("field", error.field())?;
        details.set_item("offset", error.offset())?;
        Ok(details)
    };
    details()
        .and_then(|details| exception(py, kind(error.kind()), &error.to_string(), &details))
        .unwrap_or_else(|failed| failed)
}

/// Returns the exception for an op that can't be built.
pub(crate) fn of_op(py: Python<'_>, op: &str, error: &SpecError) -> PyErr {
    let (owner, param, expected) = match &error.cause {
        SpecCause::Missing { owner, param, expected } => {
            (*owner, Some(&**param), Some(expected.clone()))
        }
        SpecCause::Kind { owner, param, expected, .. } => {
            (*owner, Some(&**param), Some(expected.clone()))
        }
        SpecCause::UnknownParam { owner, name, .. } => (*owner, Some(&**name), None),
        SpecCause::Param(error) => (error.op, Some(error.param), Some(error.expected.to_string())),
        _ => (op, None, None),
    };
    let hint = match &error.cause {
        SpecCause::UnknownOp { nearest, .. } | SpecCause::UnknownParam { nearest, .. } => *nearest,
        _ => None,
    };
    let details = || {
        let details = PyDict::new(py);
        details.set_item("op", owner)?;
        details.set_item("param", param)?;
        details.set_item("expected", expected)?;
        details.set_item("hint", hint)?;
        Ok(details)
    };
    details()
        .and_then(|details| exception(py, "op", &error.to_string(), &details))
        .unwrap_or_else(|failed| failed)
}

/// Returns the exception for a setting that is not valid.
pub(crate) fn setting(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "parameter", message, &PyDict::new(py)).unwrap_or_else(|failed| failed)
}

/// Returns the exception for ops that do not do what their list says.
pub(crate) fn pipeline(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "pipeline", message, &PyDict::new(py)).unwrap_or_else(|failed| failed)
}

/// Returns the exception for a panic.
pub(crate) fn internal(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "panic", message, &PyDict::new(py)).unwrap_or_else(|failed| failed)
}

/// Returns the exception for the use of an object in a process that was forked from its own.
pub(crate) fn forked(py: Python<'_>, what: &str) -> PyErr {
    let message = format!(
        "this {what} belongs to the process that this one was forked from, which has its threads: \
         iterate over the loader anew in this process"
    );
    exception(py, "threads", &message, &PyDict::new(py)).unwrap_or_else(|failed| failed)
}

fn exception(
    py: Python<'_>,
    kind: &str,
    message: &str,
    details: &Bound<'_, PyDict>,
) -> PyResult<PyErr> {
    let made = module(py)?.getattr("_of_kind")?.call((kind, message), Some(details))?;
    Ok(PyErr::from_value(made))
}

/// Returns the word for a kind in `fuseloop/errors.py`.
fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "not_found",
        ErrorKind::AlreadyExists => "already_exists",
        ErrorKind::Io => "io",
        ErrorKind::Format => "format",
        ErrorKind::Damaged => "damaged",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Parameter => "parameter",
        ErrorKind::Pipeline => "pipeline",
        ErrorKind::Field => "field",
        ErrorKind::Cursor => "cursor",
        ErrorKind::Memory => "memory",
        ErrorKind::BatchesHeld => "batches_held",
        ErrorKind::Device => "device",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Threads => "threads",
        ErrorKind::Panic => "panic",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Custom => "custom",
        _ => "other",
    }
}

/// Returns the exception for a sample that can't be read.
pub(crate) fn damaged(py: Python<'_>, message: &str, sample: u64) -> PyErr {
    let details = PyDict::new(py);
    let set = details.set_item("sample", sample);
    set.and_then(|()| exception(py, "damaged", message, &details)).unwrap_or_else(|failed| failed)
}
