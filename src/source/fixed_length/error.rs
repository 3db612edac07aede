//! Why the files of MNIST or CIFAR give no dataset, or no sample.

use crate::error::{Cause, Details, ErrorKind};
use crate::source::{Escaped, ReadCause};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why the files of MNIST or CIFAR can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FixedLengthError {
    /// The system reported an error, or a `.gz` file is damaged.
    #[error("{}: {error}", Shown(path))]
    Io { path: PathBuf, error: io::Error },
    /// A file is not what its name says, was cut, or has bytes too many.
    #[error("{}: byte {at}: {reason}", Shown(path))]
    Damaged { path: PathBuf, at: u64, reason: String },
    /// The dataset exceeds the limits.
    #[error("{}: {what}, the limit is {max}", Shown(path))]
    Limit { path: PathBuf, what: String, max: u64 },
    /// A file is missing.
    #[error("{}: the file is missing: {reason}", Shown(path))]
    Missing { path: PathBuf, reason: String },
    /// The path names no dataset, or more than one.
    #[error("{}: {reason}", Shown(path))]
    Named { path: PathBuf, reason: String },
    /// The dataset is stored in a form that is not read.
    #[error("{}: {reason}", Shown(path))]
    Unsupported { path: PathBuf, reason: String },
    /// The bytes of a sample can't be read.
    #[error("{}: {cause}", Shown(path))]
    Read { path: PathBuf, cause: ReadCause },
    /// A label is not the number of a class.
    #[error("{}: byte {at}: label {label}, expected 0 to {}{cure}", Shown(path), classes - 1)]
    Label { path: PathBuf, at: u64, label: u8, classes: u8, cure: &'static str },
}

impl FixedLengthError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.to_owned(), error }
    }

    pub(super) fn damaged(path: &Path, at: u64, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), at, reason: reason.into() }
    }

    pub(super) fn missing(path: PathBuf, reason: impl Into<String>) -> Self {
        Self::Missing { path, reason: reason.into() }
    }

    pub(super) fn named(path: &Path, reason: impl Into<String>) -> Self {
        Self::Named { path: path.to_owned(), reason: reason.into() }
    }

    pub(super) fn unsupported(path: &Path, reason: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), reason: reason.into() }
    }

    pub(super) fn read(path: &Path) -> impl FnOnce(ReadCause) -> Self {
        move |cause| Self::Read { path: path.to_owned(), cause }
    }
}

/// A path with control characters escaped.
struct Shown<'a>(&'a Path);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.0.to_string_lossy()).fmt(f)
    }
}

impl Cause for FixedLengthError {
    fn details(&self) -> Details<'_> {
        match self {
            Self::Io { path, error } => Details::of_io(error.kind()).path(path),
            Self::Damaged { path, at, .. } => Details::of(ErrorKind::Format).path(path).offset(*at),
            Self::Limit { path, .. } => Details::of(ErrorKind::Memory).path(path),
            Self::Missing { path, .. } => Details::of(ErrorKind::NotFound).path(path),
            Self::Named { path, .. } => Details::of(ErrorKind::Parameter).path(path),
            Self::Unsupported { path, .. } => Details::of(ErrorKind::Unsupported).path(path),
            Self::Read { path, cause } => cause.details().path(path),
            Self::Label { path, at, .. } => Details::of(ErrorKind::Damaged).path(path).offset(*at),
        }
    }
}
