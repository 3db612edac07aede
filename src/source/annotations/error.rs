//! Why annotations give no dataset, or no sample.

use crate::error::{Cause, Details, ErrorKind};
use crate::source::{Escaped, ReadCause};
use crate::threads::ThreadsError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why the annotations of images can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnnotationError {
    /// The system reported an error.
    #[error("{}: {error}", Shown(path))]
    Io { path: PathBuf, error: io::Error },
    /// A file of annotations is damaged, or contradicts itself.
    #[error("{}: {}", Shown(path), Escaped(reason))]
    Damaged { path: PathBuf, reason: String },
    /// The dataset exceeds the limits.
    #[error("{}: {what}, the limit is {max}", Shown(path))]
    Limit { path: PathBuf, what: String, max: u64 },
    /// The path names no dataset, or more than one.
    #[error("{}: {}", Shown(path), Escaped(reason))]
    Named { path: PathBuf, reason: String },
    /// The bytes of a sample's annotations can't be read.
    #[error("{}: {cause}", Shown(path))]
    Read { path: PathBuf, cause: ReadCause },
    /// The bytes of a sample's annotations are not what they were when the file was opened.
    #[error("{}: byte {at}: the file has changed since it was opened: open it again", Shown(path))]
    Changed { path: PathBuf, at: u64 },
    /// The system starts no threads to read the files.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
}

impl AnnotationError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.to_owned(), error }
    }

    pub(super) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }

    pub(super) fn limit(path: &Path, what: String, max: u64) -> Self {
        Self::Limit { path: path.to_owned(), what, max }
    }

    pub(super) fn named(path: &Path, reason: impl Into<String>) -> Self {
        Self::Named { path: path.to_owned(), reason: reason.into() }
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

impl Cause for AnnotationError {
    fn details(&self) -> Details<'_> {
        match self {
            Self::Io { path, error } => Details::of_io(error.kind()).path(path),
            Self::Damaged { path, .. } => Details::of(ErrorKind::Format).path(path),
            Self::Limit { path, .. } => Details::of(ErrorKind::Memory).path(path),
            Self::Named { path, .. } => Details::of(ErrorKind::Parameter).path(path),
            Self::Read { path, cause } => cause.details().path(path),
            Self::Changed { path, at } => Details::of(ErrorKind::Damaged).path(path).offset(*at),
            Self::Threads(error) => error.details(),
        }
    }
}
