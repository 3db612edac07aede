//! The amount of work of a test: its number of rounds, and its slice of a long list of cases.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each binary uses its own part")]

use std::env;
use std::fmt::Debug;
use std::str::FromStr;

/// Returns the number in the environment variable `name`, or `default` if the variable is not set.
///
/// # Panics
///
/// If the variable is set to anything but a number of type `T`: a misspelt count must not pass as the default.
pub fn rounds<T: FromStr<Err: Debug>>(name: &str, default: T) -> T {
    let Some(text) = env::var_os(name) else { return default };
    let text = text.into_string().unwrap();
    text.parse().unwrap_or_else(|error| panic!("{name} is {text}, expected a number: {error:?}"))
}

/// Returns the slice that this process tests and the number of slices, from `FUSELOOP_SLICE`: `1/5` is the
/// second of the slices 0/5 to 4/5, which together are all cases. Without the variable, one slice has all.
pub fn slice() -> (usize, usize) {
    let Some(text) = env::var_os("FUSELOOP_SLICE") else { return (0, 1) };
    let text = text.into_string().unwrap();
    let numbers = text.split_once('/').map(|(slice, of)| (slice.parse(), of.parse()));
    match numbers {
        Some((Ok(slice), Ok(of))) if slice < of => (slice, of),
        _ => {
            panic!("FUSELOOP_SLICE is {text}, expected SLICE/COUNT with SLICE from 0 to COUNT - 1")
        }
    }
}
