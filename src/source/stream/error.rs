//! Errors of combining streams.

use super::Stream;
use crate::error::{Error, fail};
use crate::parallel;
use crate::source::{BoxError, Escaped, FieldSpec, classes};
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// An error that every later read of a stream returns.
#[derive(Clone, Debug)]
pub(crate) struct SharedError(pub(super) Arc<BoxError>);

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

/// Refuses streams whose fields differ, or in which one number means different classes. Names of classes that can't be read
/// are an error where they are asked for.
pub(in crate::source) fn check_equal(what: &'static str, parts: &[Stream]) -> Result<(), Error> {
    let Some(first) = parts.first() else {
        return Err(fail!(Parameter, "{what}: no streams, expected at least 1"));
    };
    let other = parts.iter().enumerate().find(|(_, part)| part.fields() != first.fields());
    if let Some((index, part)) = other {
        let (found, wanted) = (listed(part.fields()), listed(first.fields()));
        return Err(fail!(
            Field,
            "{what}: stream {index} ({name}) has {found}, stream 0 has {wanted}",
            name = part.facts().name
        ));
    }
    if parts.len() > 1 {
        let named = |part: &Stream| {
            let facts = part.facts();
            (facts.name.clone(), facts.class_names().ok().flatten())
        };
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
