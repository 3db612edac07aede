//! Why annotations give no dataset, or no sample.

use crate::error::{Cause, Details, ErrorKind};
use crate::source::{Escaped, ReadCause};
use crate::threads::ThreadsError;
use std::collections::BTreeMap;
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

/// The most problems of one sample that are described.
const MOST_DESCRIBED: usize = 8;

/// What the annotations of a sample have wrong: the first problems, and the number of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Problems {
    first: Vec<String>,
    more: u64,
}

impl Problems {
    pub(super) fn add(&mut self, problem: String) {
        if self.first.len() < MOST_DESCRIBED {
            self.first.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Returns the number of problems.
    pub(super) fn count(&self) -> u64 {
        self.first.len() as u64 + self.more
    }

    /// Returns the description of the first problem, if there is one.
    pub(super) fn first(&self) -> Option<&str> {
        self.first.first().map(String::as_str)
    }
}

impl From<String> for Problems {
    fn from(problem: String) -> Self {
        Self { first: vec![problem], more: 0 }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first.join("; "))?;
        if self.more > 0 { write!(f, "; and {} more", self.more) } else { Ok(()) }
    }
}

/// Returns what was read of each sample, empty for those that are damaged, and what these have wrong. `file` names the file
/// of a sample.
///
/// # Errors
///
/// If all files of annotations are damaged: then it is not one sample that is.
pub(super) fn split_damaged<'a, T: Default>(
    read: Vec<Result<T, Problems>>,
    file: impl Fn(usize) -> &'a Path,
) -> Result<(Vec<T>, BTreeMap<u64, Problems>), AnnotationError> {
    let (mut values, mut damaged) = (vec![], BTreeMap::new());
    for (sample, value) in (0..).zip(read) {
        values.push(match value {
            Ok(value) => value,
            Err(problems) => {
                damaged.insert(sample, problems);
                T::default()
            }
        });
    }
    match damaged.first_key_value() {
        Some((&first, problems)) if damaged.len() == values.len() => {
            Err(AnnotationError::damaged(file(first as usize), problems.to_string()))
        }
        _ => Ok((values, damaged)),
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
