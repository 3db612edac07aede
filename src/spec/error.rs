//! Why a text is no pipeline file, and where.

use super::MAX_BYTES;
use fuseloop_ops::registry::SpecCause;
use std::io;
use std::path::PathBuf;

/// Why a file is no pipeline file.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {cause}", .path.display(), place(.line, .column))]
pub struct ParseError {
    /// The file, as it was called.
    pub path: PathBuf,
    /// The line, from 1, if the error has a place.
    pub line: Option<usize>,
    /// The character in the line, from 1.
    pub column: Option<usize>,
    /// Why.
    pub cause: ParseCause,
}

/// Why a file is no pipeline file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseCause {
    /// It can't be read.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// It is too long.
    #[error("more than {MAX_BYTES} bytes")]
    TooLong,
    /// It is not TOML.
    #[error("not TOML: {0}")]
    Toml(String),
    /// It holds something that is neither number, text, list nor table.
    #[error("{found}: a date has no place here")]
    Date {
        /// What stands there.
        found: String,
    },
    /// A number is too large to be held.
    #[error("{found} is too large a number")]
    Number {
        /// What stands there.
        found: String,
    },
    /// An op, a parameter or a setting is wrong.
    #[error(transparent)]
    Spec(SpecCause),
}

/// `:7:14`, or nothing.
fn place(line: &Option<usize>, column: &Option<usize>) -> String {
    [line, column].into_iter().flatten().map(|number| format!(":{number}")).collect()
}
