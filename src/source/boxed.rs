//! An error of any type as an [`Error`].

use super::beton::{OpenError, ReadError};
use super::stream::StreamEnd;
use super::{BoxError, ReadCause, SourceError};
use crate::error::{Cause, Error, ErrorKind};
use crate::threads::ThreadsError;
use std::io;

/// Converts an error of a closure or a [`Source`](super::Source).
impl From<BoxError> for Error {
    fn from(error: BoxError) -> Self {
        of(error, ErrorKind::Custom)
    }
}

#[cfg(any(feature = "remote", feature = "tar", feature = "tfrecord"))]
impl Error {
    /// Converts the error of opening or counting a dataset, which may be a text alone.
    pub(super) fn of_dataset(error: BoxError) -> Self {
        of(error, ErrorKind::Format)
    }
}

/// Converts an error; `kind` is that of types unknown to this crate.
fn of(error: BoxError, kind: ErrorKind) -> Error {
    let known = error
        .downcast::<Error>()
        .map(|error| *error)
        .or_else(typed::<ReadCause>)
        .or_else(typed::<ReadError>)
        .or_else(typed::<SourceError>)
        .or_else(typed::<OpenError>)
        .or_else(typed::<StreamEnd>)
        .or_else(typed::<ThreadsError>)
        .or_else(typed::<io::Error>);
    known.unwrap_or_else(|error| Error::boxed(error, kind))
}

fn typed<C: Cause>(error: BoxError) -> Result<Error, BoxError> {
    error.downcast::<C>().map(|cause| (*cause).into())
}
