//! Text from outside, escaped so that a terminal can show it safely.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// The most characters of a text that [`shown`] leaves.
const MOST_SHOWN: usize = 80;

/// Shortens a text for an error.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MOST_SHOWN) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}

/// Shows text with those characters escaped that a terminal would obey or would not show: control
/// characters, and characters that change the direction of the text. Quotes and backslashes are not
/// escaped.
///
/// ```
/// use fuseloop::internals::source::Escaped;
/// assert_eq!(Escaped("größe \u{1b}[31m\n").to_string(), "größe \\u{1b}[31m\\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\'' | '\\' => f.write_char(c),
            _ => c.escape_debug().try_for_each(|c| f.write_char(c)),
        })
    }
}
