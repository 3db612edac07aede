//! Parses the numbers of options, with errors that say the range.

use std::str::FromStr;

/// Parses a whole number of at least 1.
pub(super) fn at_least_one<T: FromStr>(text: &str) -> Result<T, String> {
    let is_positive = text.parse::<u64>().is_ok_and(|number| number > 0);
    let number = text.parse::<T>().ok().filter(|_| is_positive);
    number.ok_or_else(|| "expected a whole number of at least 1".to_owned())
}

/// Parses a whole number that may be 0.
pub(super) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}
