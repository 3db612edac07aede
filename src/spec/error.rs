//! Why a text is no pipeline file, and where.

use super::MAX_BYTES;
use fuseloop_ops::registry::SpecCause;
use std::io;
use std::path::Path;

/// Why a file is no pipeline file.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {cause}", .path.display(), suffix(.place))]
pub struct ParseError {
    /// The file, as it was called.
    pub path: Box<Path>,
    /// Where in it, if the error has a place.
    pub place: Option<Place>,
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
    /// It is a folder, a FIFO or a device.
    #[error("not a regular file")]
    NotAFile,
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

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1.
    pub line: u32,
    /// The character in the line, from 1.
    pub column: u32,
}

/// `:7:14`, or nothing.
fn suffix(place: &Option<Place>) -> String {
    place.map_or_else(String::new, |Place { line, column }| format!(":{line}:{column}"))
}
