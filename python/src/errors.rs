//! Errors of the library as exceptions of `fuseloop.errors`.

use fuseloop::ErrorKind;
use fuseloop::ops::internals::registry::{SpecCause, SpecError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
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
    let attributes = Attributes {
        path: error.path().map(|path| path.to_string_lossy().into_owned()),
        sample: error.sample().map(|sample| sample.0),
        field: error.field(),
        offset: error.offset(),
        ..Attributes::default()
    };
    exception(py, kind(error.kind()), &error.to_string(), attributes)
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
    let attributes = Attributes { op: Some(owner), param, expected, hint, ..Attributes::default() };
    exception(py, "op", &error.to_string(), attributes)
}

/// Returns the exception for a setting that is not valid.
pub(crate) fn setting(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "parameter", message, Attributes::default())
}

/// Returns the exception for ops that do not do what their list says.
pub(crate) fn pipeline(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "pipeline", message, Attributes::default())
}

/// Returns the exception for a panic.
pub(crate) fn internal(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "panic", message, Attributes::default())
}

/// Returns the exception for the use of an object in a process that was forked from its own.
pub(crate) fn forked(py: Python<'_>, what: &str) -> PyErr {
    let message = format!(
        "this {what} belongs to the process that this one was forked from, which has its threads: \
         iterate over the loader anew in this process"
    );
    exception(py, "threads", &message, Attributes::default())
}

/// The attributes of an exception besides its message; see `fuseloop/errors.py`.
#[derive(Default, IntoPyObject)]
struct Attributes<'a> {
    path: Option<String>,
    sample: Option<u64>,
    field: Option<&'a str>,
    offset: Option<u64>,
    op: Option<&'a str>,
    param: Option<&'a str>,
    expected: Option<String>,
    hint: Option<&'a str>,
}

/// Makes an exception. If that fails, the result is the exception that says why.
fn exception(py: Python<'_>, kind: &str, message: &str, attributes: Attributes<'_>) -> PyErr {
    let made = || {
        let attributes = attributes.into_pyobject(py)?;
        module(py)?.getattr("_of_kind")?.call((kind, message), Some(&attributes))
    };
    made().map_or_else(|failed| failed, PyErr::from_value)
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
    let attributes = Attributes { sample: Some(sample), ..Attributes::default() };
    exception(py, "damaged", message, attributes)
}
