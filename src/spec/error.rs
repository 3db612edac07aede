//! Why a text is not a pipeline file, and where.

use super::MAX_BYTES;
use crate::error::{Cause, Details, ErrorKind};
use fuseloop_ops::internals::registry::SpecCause;
use std::io;
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
    /// The file can't be read.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file is a folder, a FIFO or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The file is too long.
    #[error("more than {MAX_BYTES} bytes")]
    TooLong,
    /// The file is not TOML.
    #[error("not TOML: {0}")]
    Toml(String),
    /// A value is neither number, text, list nor table.
    #[error("{found}: dates are not supported; expected a number, text, list or table")]
    Date {
        /// The text of the value.
        found: String,
    },
    /// A number is too large.
    #[error("{found} is too large a number")]
    Number {
        /// The text of the number.
        found: String,
    },
    /// An op, a parameter or a setting is wrong.
    #[error(transparent)]
    Spec(SpecCause),
}

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
            ParseCause::Io(error) => Details::of_io(error.kind()),
            ParseCause::Spec(_) => Details::of(ErrorKind::Parameter),
            _ => Details::of(ErrorKind::Format),
        };
        let details = details.path(&self.path);
        self.position.iter().fold(details, |details, at| details.offset(at.offset as u64))
    }
}
