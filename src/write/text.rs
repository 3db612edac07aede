//! Names from outside, made fit for a terminal.

use std::ffi::OsStr;

/// A file's name with control bytes, quotes and what is not UTF-8 escaped.
pub(super) fn escaped(name: &OsStr) -> String {
    // `{:?}` keeps the bytes that are not UTF-8 as \xNN, which a lossy conversion would not.
    let quoted = format!("{name:?}");
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(&quoted).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bytes_are_escaped() {
        assert_eq!(escaped(OsStr::new("a\u{1b}[31m\né")), "a\\u{1b}[31m\\né");
    }
}
