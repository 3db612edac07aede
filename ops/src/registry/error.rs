//! Why ops can't be made of data.

use super::{MAX_DEPTH, MAX_OPS};
use crate::ParamError;

/// Why ops can't be made of data, and where the value stands that is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct SpecError {
    /// The first byte of the value in the text it is from.
    pub at: Option<usize>,
    /// Why.
    pub cause: SpecCause,
}

/// Why ops can't be made of data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecCause {
    /// No op has this name.
    #[error("there is no op `{name}`{}", mean(.nearest))]
    UnknownOp {
        /// The name given.
        name: String,
        /// One like it.
        nearest: Option<&'static str>,
    },
    /// The op has no parameter of this name.
    #[error("{owner} has no parameter `{name}`{}", mean_or_known(.nearest, .known))]
    UnknownParam {
        /// The op.
        owner: &'static str,
        /// The name given.
        name: String,
        /// One like it.
        nearest: Option<&'static str>,
        /// All there are.
        known: Vec<&'static str>,
    },
    /// A parameter without a default was not given.
    #[error("{owner} needs `{param}`: {expected}")]
    Missing {
        /// The op.
        owner: &'static str,
        /// The parameter.
        param: String,
        /// What may be given.
        expected: String,
    },
    /// A value is not of its parameter's kind.
    #[error("{owner}: {param} is {found}, expected {expected}")]
    Kind {
        /// The op.
        owner: &'static str,
        /// The parameter.
        param: String,
        /// What was given.
        found: String,
        /// What may be given.
        expected: String,
    },
    /// A value is outside what its op accepts.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// What stands in a list of ops is none.
    #[error("an op is a name, or a table with a name as its `op`, not {found}")]
    NotAnOp {
        /// What stands there.
        found: String,
    },
    /// What stands in the place of a list of ops is none.
    #[error("ops are given as a list, not {found}")]
    NotAList {
        /// What stands there.
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
    /// The same at a place, unless it has one.
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
        (None, []) => ", it takes none".to_owned(),
        (None, known) => format!(", it takes `{}`", known.join("`, `")),
    }
}

/// A stranger's name, cut to what a message can hold.
pub(super) fn short(name: &str) -> String {
    const MOST: usize = 60;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}
