//! Errors of combining streams.

use super::{Stream, Streamed};
use crate::error::{Cause, Details, Error, ErrorKind};
use crate::parallel;
use crate::source::{BoxError, Escaped, FieldSpec, classes};
use crate::threads::MOST;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// The reason why streams can't be combined.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum StreamError {
    /// No streams: their fields would be unknown.
    #[error("{what}: no streams, expected at least 1")]
    None {
        /// The combinator.
        what: &'static str,
    },
    /// The streams have different fields, and one is to follow or replace another.
    #[error("{what}: stream {index} ({}) has {found}, stream 0 has {wanted}", Escaped(name))]
    Fields {
        /// The combinator.
        what: &'static str,
        /// The index of the stream, from 0.
        index: usize,
        /// The name of the stream.
        name: String,
        /// The fields of the stream.
        found: String,
        /// The fields of the first stream.
        wanted: String,
    },
    /// Two streams that are to be zipped have a field of the same name.
    #[error("zip: two of the streams have a field {}", Escaped(name))]
    SameField {
        /// The name of the field.
        name: String,
    },
    /// A weight is negative or not finite, or all are 0.
    #[error(
        "mix: stream {index} has weight {weight}: weights must be finite, at least 0 and not all 0"
    )]
    Weight {
        /// The index of the stream, from 0.
        index: usize,
        /// The weight of the stream.
        weight: f64,
    },
    /// Too many threads that read ahead.
    #[error("{what}: {found} threads that read ahead, the limit is {MOST}")]
    Threads {
        /// The combinator.
        what: &'static str,
        /// The number of threads asked for.
        found: usize,
    },
    /// A number that must be greater than 0.
    #[error("{what}: {param} is 0: give 1 or more")]
    Zero {
        /// The combinator.
        what: &'static str,
        /// The name of the parameter.
        param: &'static str,
    },
}

/// An error that every later read of a stream returns.
#[derive(Clone, Debug)]
pub struct SharedError(pub(super) Arc<BoxError>);

impl From<BoxError> for SharedError {
    fn from(error: BoxError) -> Self {
        Self(Arc::new(error))
    }
}

impl From<String> for SharedError {
    fn from(message: String) -> Self {
        BoxError::from(message).into()
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for SharedError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&**self.0)
    }
}

impl PartialEq for SharedError {
    /// Compares the messages.
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for SharedError {}

impl Cause for StreamError {
    fn details(&self) -> Details<'_> {
        match self {
            Self::Fields { .. } => Details::of(ErrorKind::Field),
            Self::SameField { name } => Details::of(ErrorKind::Field).field(name),
            _ => Details::of(ErrorKind::Parameter),
        }
    }
}

/// Refuses streams whose fields differ, or in which one number means different classes. Names of classes that can't be read
/// are an error where they are asked for.
pub(in crate::source) fn check_equal(what: &'static str, parts: &[Stream]) -> Result<(), Error> {
    let Some(first) = parts.first() else { return Err(StreamError::None { what }.into()) };
    let other = parts.iter().enumerate().find(|(_, part)| part.fields() != first.fields());
    if let Some((index, part)) = other {
        let (found, wanted) = (listed(part.fields()), listed(first.fields()));
        return Err(StreamError::Fields { what, index, name: part.name(), found, wanted }.into());
    }
    if parts.len() > 1 {
        let named = |part: &Stream| (part.name(), part.class_names().ok().flatten());
        classes::joined(parallel::map(parts, named)?)?;
    }
    Ok(())
}

fn listed(fields: &[FieldSpec]) -> String {
    let words = fields
        .iter()
        .map(|FieldSpec { name, kind }| format!("{}: {}", Escaped(name), kind.described()));
    format!("[{}]", words.collect::<Vec<_>>().join(", "))
}
