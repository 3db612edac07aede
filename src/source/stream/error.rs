//! Why streams can't be put together.

use super::Stream;
use crate::source::{Escaped, FieldSpec};
use crate::threads::MOST;

/// Why streams can't be put together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Of none there are no fields.
    #[error("{what} of no streams: give 1 or more")]
    None {
        /// What was to be made.
        what: &'static str,
    },
    /// Streams that are to follow or replace each other, of different fields.
    #[error("{what}: stream {place} ({}) has {found}, stream 0 has {wanted}", Escaped(name))]
    Fields {
        /// What was to be made.
        what: &'static str,
        /// Which of the streams, from 0.
        place: usize,
        /// What it is called.
        name: String,
        /// Its fields.
        found: String,
        /// Those of the first.
        wanted: String,
    },
    /// Streams that are to be joined, with a field of one name.
    #[error("zip: two of the streams have a field {}", Escaped(name))]
    SameField {
        /// The name.
        name: String,
    },
    /// A weight that is none.
    #[error(
        "mix: stream {place} has the weight {weight}: weights are 0 or more, and some are more"
    )]
    Weight {
        /// Which of the streams, from 0.
        place: usize,
        /// Its weight.
        weight: f64,
    },
    /// More threads that read ahead than may be asked for.
    #[error("{what}: {found} threads that read ahead: at most {MOST} can be asked for")]
    Threads {
        /// What was to be made.
        what: &'static str,
        /// How many were asked for.
        found: usize,
    },
    /// A number that must be more than 0.
    #[error("{what}: {param} is 0: give 1 or more")]
    Zero {
        /// What was to be made.
        what: &'static str,
        /// The parameter.
        param: &'static str,
    },
}

/// Refuses streams that are not all of the same fields.
pub(in crate::source) fn check_equal(
    what: &'static str,
    parts: &[Stream],
) -> Result<(), StreamError> {
    let Some(first) = parts.first() else { return Err(StreamError::None { what }) };
    match parts.iter().enumerate().find(|(_, part)| part.fields() != first.fields()) {
        None => Ok(()),
        Some((place, part)) => Err(StreamError::Fields {
            what,
            place,
            name: part.name(),
            found: listed(part.fields()),
            wanted: listed(first.fields()),
        }),
    }
}

fn listed(fields: &[FieldSpec]) -> String {
    let words = fields.iter().map(|FieldSpec { name, kind }| format!("{} {kind:?}", Escaped(name)));
    format!("[{}]", words.collect::<Vec<_>>().join(", "))
}
