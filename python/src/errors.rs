//! Errors of the library as exceptions of `fuseloop.errors`.

use fuseloop::ops::ParamError;
use fuseloop::ops::internals::registry::{SpecCause, SpecError};
use fuseloop::source::{BoxError, Source};
use fuseloop::{ErrorKind, SampleId};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::error::Error as StdError;
use std::path::Path;
use std::{fmt, io};

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
    of_error(py, error, &error.to_string(), Attributes::of(error))
}

/// Returns the exception for `error` in a file.
pub(crate) fn of_path(py: Python<'_>, path: &Path, error: &fuseloop::Error) -> PyErr {
    let path = path.to_string_lossy();
    let attributes = Attributes { path: Some(path.to_string()), ..Attributes::of(error) };
    of_error(py, error, &format!("{path}: {error}"), attributes)
}

/// Returns the exception for a file that can't be read.
pub(crate) fn of_file(py: Python<'_>, path: &Path, error: &io::Error) -> PyErr {
    let kind = if error.kind() == io::ErrorKind::NotFound { "not_found" } else { "io" };
    let path = path.to_string_lossy();
    let attributes = Attributes { path: Some(path.to_string()), ..Attributes::default() };
    exception(py, kind, &format!("{path}: {error}"), attributes)
}

/// Returns the exception for a sample of a dataset that can't be read, or for one field of it: see [`raised`].
pub(crate) fn of_sample(
    py: Python<'_>,
    source: &dyn Source,
    (sample, field): (SampleId, Option<usize>),
    error: BoxError,
) -> PyErr {
    let error = fuseloop::Error::from(error);
    let location = source.locate(sample, field.unwrap_or(0)).unwrap_or_default();
    let field = field.and_then(|field| source.fields().get(field)).map(|spec| &*spec.name);
    let cause = error.to_string();
    let of_field = field.map(|name| format!(" ({name})")).unwrap_or_default();
    let message = match location.file.as_deref() {
        Some(file) if cause.starts_with(file) => format!("sample {sample}{of_field}: {cause}"),
        Some(_) => format!("sample {sample}: {location}{of_field}: {cause}"),
        None => format!("sample {sample}: {}{of_field}: {cause}", source.name()),
    };
    let known = Attributes::of(&error);
    let attributes = Attributes {
        path: known.path.or(location.file.map(|file| file.to_string())),
        sample: Some(sample.0),
        field: known.field.or(field),
        offset: known
            .offset
            .or(location.bytes.filter(|_| field.is_some()).map(|bytes| bytes.start)),
        ..known
    };
    of_error(py, &error, &message, attributes)
}

fn of_error(
    py: Python<'_>,
    error: &fuseloop::Error,
    message: &str,
    attributes: Attributes<'_>,
) -> PyErr {
    let Some(Raised(own)) = error.get_ref().and_then(|custom| raised_within(custom)) else {
        return exception(py, kind(error.kind()), message, attributes);
    };
    let own = own.clone_ref(py);
    noted(py, own, message)
}

/// Returns an exception with a note that says where it happened.
pub(crate) fn noted(py: Python<'_>, error: PyErr, location: &str) -> PyErr {
    // An exception that takes no note is raised without.
    let _ = error.value(py).call_method1("add_note", (format!("fuseloop: {location}"),));
    error
}

/// Returns what is raised instead of an exception of the user's code: itself, or a RuntimeError if it would end a loop
/// as if there were no more.
pub(crate) fn of_function(py: Python<'_>, error: PyErr) -> PyErr {
    // This sets the traceback of the exception, which is the cause of another.
    let own = error.clone_ref(py).into_value(py);
    match module(py).and_then(|module| module.getattr("_not_an_end")?.call1((&own,))) {
        Ok(raised) if raised.is(&own) => error,
        Ok(raised) => PyErr::from_value(raised),
        Err(failed) => failed,
    }
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

/// Returns the exception for a parameter that is not valid.
pub(crate) fn of_param(py: Python<'_>, error: &ParamError) -> PyErr {
    let (op, param) = (Some(error.op), Some(error.param));
    let expected = Some(error.expected.to_string());
    let attributes = Attributes { op, param, expected, ..Attributes::default() };
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
        "this {what} belongs to the parent of this forked process, which has its threads: iterate over the loader again in this process"
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

impl<'a> Attributes<'a> {
    fn of(error: &'a fuseloop::Error) -> Self {
        Self {
            path: error.path().map(|path| path.to_string_lossy().into_owned()),
            sample: error.sample().map(|sample| sample.0),
            field: error.field(),
            offset: error.offset(),
            ..Self::default()
        }
    }
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
