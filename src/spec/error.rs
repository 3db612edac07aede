//! Why a text is not a pipeline file, and where.

use super::MAX_BYTES;
use crate::error::{Cause, Details, Error, ErrorKind, fail};
use fuseloop_ops::internals::registry::SpecCause;
use std::path::Path;

/// Why a file is not a pipeline file.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {cause}", .path.display(), suffix(.position))]
pub struct ParseError {
    /// The path of the file, as given.
    pub path: Box<Path>,
    /// The position in the file, if the error has one.
    pub position: Option<TextPosition>,
    /// The reason.
    pub cause: ParseCause,
}

/// The reason why a file is not a pipeline file.
#[derive(Debug, thiserror::Error)]
pub enum ParseCause {
    /// The file can't be read, or is not TOML that can be a pipeline.
    #[error(transparent)]
    Text(#[from] Error),
    /// An op, a parameter or a setting is wrong.
    #[error(transparent)]
    Spec(SpecCause),
}

/// Returns the error of a file that is not TOML.
pub(super) fn not_toml(reason: &str) -> Error {
    fail!(Format, "not TOML: {reason}").help(TOML)
}

/// Returns the error of a file that is too long.
pub(super) fn too_long() -> Error {
    fail!(Format, "more than {MAX_BYTES} bytes").help(TOML)
}

/// Returns the error of a number that is too large.
pub(super) fn too_large(found: &str) -> Error {
    fail!(Format, "{found} is too large a number")
}

/// The advice for a text that is not TOML.
pub(super) const TOML: &str =
    "a pipeline file is TOML: `fuseloop ops NAME` shows an example of each op";

/// A position in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPosition {
    /// The offset in bytes.
    pub offset: usize,
    /// The line, from 1.
    pub line: u32,
    /// The character in the line, from 1.
    pub column: u32,
}

/// Formats `:7:14`, or nothing.
pub(super) fn suffix(position: &Option<TextPosition>) -> String {
    position
        .map_or_else(String::new, |TextPosition { line, column, .. }| format!(":{line}:{column}"))
}

impl Cause for ParseError {
    fn details(&self) -> Details<'_> {
        let details = match &self.cause {
            ParseCause::Text(error) => error.details(),
            ParseCause::Spec(_) => Details::of(ErrorKind::Parameter),
        };
        let details = details.path(&self.path);
        self.position.iter().fold(details, |details, at| details.offset(at.offset as u64))
    }
}
