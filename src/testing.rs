//! Assertions of tests in all modules, and of those in `tests/`.

use std::fmt::Display;

/// Asserts that an error has all of these words.
#[track_caller]
pub fn assert_says<'a>(error: impl Display, words: impl IntoIterator<Item = &'a str>) {
    let error = error.to_string();
    words
        .into_iter()
        .for_each(|words| assert!(error.contains(words), "{words:?} is not in: {error}"));
}
