//! Errors of building ops from data.

use super::{MAX_DEPTH, MAX_OPS};
use crate::ParamError;

/// The reason why ops can't be built from data, and the offset of the value that caused it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct SpecError {
    /// The offset of the value's first byte in the source text, if known.
    pub at: Option<usize>,
    /// The reason.
    pub cause: SpecCause,
}

/// The reason why ops can't be built from data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecCause {
    /// No op has this name.
    #[error("no op named `{name}`{}", mean(.nearest))]
    UnknownOp {
        /// The given name.
        name: String,
        /// The nearest known name, if one is near enough.
        nearest: Option<&'static str>,
    },
    /// The op has no parameter of this name.
    #[error("{owner} has no parameter `{name}`{}", mean_or_known(.nearest, .known))]
    UnknownParam {
        /// The op.
        owner: &'static str,
        /// The given name.
        name: String,
        /// The nearest known name, if one is near enough.
        nearest: Option<&'static str>,
        /// All parameters of the op.
        known: Vec<&'static str>,
    },
    /// A parameter without a default was not given.
    #[error("{owner}: `{param}` is missing, expected {expected}")]
    Missing {
        /// The op.
        owner: &'static str,
        /// The parameter.
        param: String,
        /// The expected kind of value.
        expected: String,
    },
    /// A value is not of its parameter's kind.
    #[error("{owner}: {param} is {found}, expected {expected}")]
    Kind {
        /// The op.
        owner: &'static str,
        /// The parameter.
        param: String,
        /// The given value.
        found: String,
        /// The expected kind of value.
        expected: String,
    },
    /// The op does not accept the value.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// An item of a list of ops is not an op.
    #[error("expected an op (a name, or a table with the key `op`), found {found}")]
    NotAnOp {
        /// The value found.
        found: String,
    },
    /// A value that should be a list of ops is not a list.
    #[error("expected a list of ops, found {found}")]
    NotAList {
        /// The value found.
        found: String,
    },
    /// The list is too long.
    #[error("more than {MAX_OPS} ops in one list")]
    TooMany,
    /// Lists are nested too deep.
    #[error("lists of ops nested more than {MAX_DEPTH} deep")]
    TooDeep,
}

impl From<SpecCause> for SpecError {
    fn from(cause: SpecCause) -> Self {
        Self { at: None, cause }
    }
}

impl From<ParamError> for SpecError {
    fn from(error: ParamError) -> Self {
        SpecCause::Param(error).into()
    }
}

impl SpecError {
    /// Sets the offset, unless the error already has one.
    #[must_use]
    pub fn at(self, at: Option<usize>) -> Self {
        Self { at: self.at.or(at), ..self }
    }
}

fn mean(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}

fn mean_or_known(nearest: &Option<&'static str>, known: &[&'static str]) -> String {
    match (nearest, known) {
        (Some(_), _) => mean(nearest),
        (None, []) => "; it has no parameters".to_owned(),
        (None, known) => format!("; its parameters: `{}`", known.join("`, `")),
    }
}

/// Shortens an unknown name for use in a message.
pub(super) fn short(name: &str) -> String {
    const MOST: usize = 60;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}
