//! The error of every call of this crate.
//!
//! The causes are private types, each beside the code that it is about. A cause implements [`Cause`], and
//! `?` turns it into an [`Error`].

use crate::sample::SampleId;
use crate::threads::ThreadsError;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::{ParamError, TypeError};
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;

/// Any error, with its message: what closures and sources of users return.
pub use fuseloop_ops::author::BoxError;

/// A result of a call of this crate.
///
/// ```
/// fn classes(path: &str) -> fuseloop::Result<usize> {
///     Ok(fuseloop::Loader::open(path)?.build()?.classes()?.iter().len())
/// }
/// assert!(classes("no/such/folder").is_err());
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// [`Display`](fmt::Display) shows the whole message in one line: what was found, where, what was expected and
/// what to do next. It includes the causes, so [`source`](StdError::source) returns only what the message
/// leaves out: the cause of an error that a function of the user returned. `Debug` shows the message too, so
/// that a `main` that returns a [`Result`] prints it.
///
/// ```
/// use fuseloop::{ErrorKind, Loader};
///
/// let error = Loader::open("missing.beton").err().expect("no such file");
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.path(), Some("missing.beton".as_ref()));
/// assert!(error.to_string().starts_with("missing.beton: "));
/// ```
pub struct Error(Box<dyn Cause>);

/// The kind of an [`Error`], on which a program may branch.
///
/// ```
/// use fuseloop::{ErrorKind, Loader};
///
/// let error = Loader::open("no/such/file.beton").err().unwrap();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file, a folder or an object does not exist.
    NotFound,
    /// The destination exists already.
    AlreadyExists,
    /// The system or the network could not read or write.
    Io,
    /// A file is not in the expected format, or is damaged as a whole.
    Format,
    /// A sample is damaged: it can't be read, decoded or written.
    Damaged,
    /// The build lacks a feature, or the dataset does not offer what was asked for.
    Unsupported,
    /// A parameter or a setting is invalid, or contradicts another one.
    Parameter,
    /// A list of ops does not fit its field.
    Pipeline,
    /// No field or output has this name or type, or the name is taken.
    Field,
    /// A cursor is damaged or belongs to another run.
    Cursor,
    /// More memory is needed than the system has, or than a limit allows.
    Memory,
    /// A GPU is not available or has failed.
    Device,
    /// Nothing was ready in time. The call can be repeated.
    Timeout,
    /// All the memory for batches is held by batches and tensors that the program has kept.
    BatchesHeld,
    /// Threads can't be started, have ended, or belong to the process that this one was forked from.
    Threads,
    /// A function panicked.
    Panic,
    /// The call was cancelled from another thread.
    Cancelled,
    /// A function or a source of the user returned an error.
    Custom,
}

/// The cause of an [`Error`]. Its message includes those of the causes in it.
pub(crate) trait Cause: StdError + Send + Sync + 'static {
    /// Returns what the cause is about.
    fn details(&self) -> Details<'_>;
}

/// The kind of a [`Cause`], and the file, sample, field and offset that it is about.
pub(crate) struct Details<'a> {
    kind: ErrorKind,
    path: Option<&'a Path>,
    sample: Option<SampleId>,
    field: Option<&'a str>,
    offset: Option<u64>,
    custom: Option<&'a (dyn StdError + Send + Sync + 'static)>,
    /// True if the system has no memory: the data may be intact.
    lacks_memory: bool,
}

impl<'a> Details<'a> {
    pub(crate) fn of(kind: ErrorKind) -> Self {
        Self {
            kind,
            path: None,
            sample: None,
            field: None,
            offset: None,
            custom: None,
            lacks_memory: false,
        }
    }

    /// Returns the details of an error of a system without memory.
    pub(crate) fn no_memory() -> Self {
        Self { lacks_memory: true, ..Self::of(ErrorKind::Memory) }
    }

    /// Returns the details of an error of the system.
    pub(crate) fn of_io(kind: io::ErrorKind) -> Self {
        if kind == io::ErrorKind::OutOfMemory {
            return Self::no_memory();
        }
        Self::of(match kind {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        })
    }

    /// Returns the details of an error that a function or a source of the user returned.
    pub(crate) fn of_custom(error: &'a BoxError) -> Self {
        match error.downcast_ref::<Error>() {
            Some(error) => error.details(),
            None => Self { custom: Some(&**error), ..Self::of(ErrorKind::Custom) },
        }
    }

    /// Sets the error of the user among an error and its causes; the kind stays.
    pub(crate) fn custom(self, error: &'a BoxError) -> Self {
        Self { custom: Self::of_custom(error).custom, ..self }
    }

    /// Returns true if the system has no memory, which does not mean that the sample is damaged.
    pub(crate) fn lacks_memory(&self) -> bool {
        self.lacks_memory
    }

    /// Sets the path, unless a cause further inside knows one.
    pub(crate) fn path(self, path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        Self { path: self.path.or(Some(path.as_ref())), ..self }
    }

    pub(crate) fn sample(self, sample: SampleId) -> Self {
        Self { sample: Some(sample), ..self }
    }

    pub(crate) fn field(self, field: &'a str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// Sets the offset, unless a cause further inside knows one.
    pub(crate) fn offset(self, offset: u64) -> Self {
        Self { offset: self.offset.or(Some(offset)), ..self }
    }
}

impl Error {
    /// Returns what the error is about.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.details().kind
    }

    /// Returns the file or folder that the error is about, or the address of an object.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.details().path
    }

    /// Returns the sample that the error is about.
    #[must_use]
    pub fn sample(&self) -> Option<SampleId> {
        self.0.details().sample
    }

    /// Returns the field or output that the error is about.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.0.details().field
    }

    /// Returns the position in the file, in bytes.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.details().offset
    }

    /// Returns the error that a function or a source of the user returned, to downcast it.
    #[must_use]
    pub fn get_ref(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.0.details().custom
    }

    /// Returns what the error is about, for a cause that contains it.
    pub(crate) fn details(&self) -> Details<'_> {
        self.0.details()
    }

    /// Returns the cause, if it has this type.
    pub(crate) fn cause<C: StdError + 'static>(&self) -> Option<&C> {
        let cause: &dyn StdError = &*self.0;
        cause.downcast_ref()
    }

    /// Wraps an error of which only the message is known.
    pub(crate) fn boxed(error: BoxError, kind: ErrorKind) -> Self {
        Self(Box::new(Boxed { error, kind }))
    }
}

/// Converts a cause: also [`ParamError`] and [`TypeError`] of ops,
/// [`TensorError`](crate::batch::TensorError) of batches and [`io::Error`].
impl<C: Cause> From<C> for Error {
    fn from(cause: C) -> Self {
        Self(Box::new(cause))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.details().custom?.source()
    }
}

/// An error of which only the message is known.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
struct Boxed {
    error: BoxError,
    kind: ErrorKind,
}

impl Cause for Boxed {
    fn details(&self) -> Details<'_> {
        match self.kind {
            ErrorKind::Custom => Details::of_custom(&self.error),
            kind => Details::of(kind),
        }
    }
}

impl Cause for ParamError {
    fn details(&self) -> Details<'_> {
        Details::of(ErrorKind::Parameter)
    }
}

impl Cause for TypeError {
    fn details(&self) -> Details<'_> {
        Details::of(ErrorKind::Pipeline)
    }
}

impl Cause for NoMemory {
    fn details(&self) -> Details<'_> {
        Details::no_memory()
    }
}

impl Cause for ThreadsError {
    fn details(&self) -> Details<'_> {
        Details::of(match self {
            Self::TooMany { .. } => ErrorKind::Parameter,
            _ => ErrorKind::Threads,
        })
    }
}

impl Cause for io::Error {
    fn details(&self) -> Details<'_> {
        Details::of_io(self.kind())
    }
}
