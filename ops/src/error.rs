//! The errors of building an op and of its input type.

use crate::Size;
use crate::registry::{Checked, ParamLimits};
use std::error::Error;
use std::fmt::Display;

/// Any error, with its message: what closures and ops of users return.
///
/// ```
/// # use fuseloop_ops::author::*;
/// fn parse(text: &str) -> Result<i64, BoxError> {
///     Ok(text.parse::<i64>()?)
/// }
/// assert!(parse("ten").is_err());
/// ```
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A parameter outside what its op accepts.
///
/// ```
/// # use fuseloop_ops::*;
/// let error = RandomHorizontalFlip::new(1.5).unwrap_err();
/// assert_eq!((error.op, error.param, error.found.as_str()), ("RandomHorizontalFlip", "p", "1.5"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {param} is {found}, expected {expected}")]
pub struct ParamError {
    /// The op, by the name a user writes.
    pub op: &'static str,
    /// The parameter.
    pub param: &'static str,
    /// The value that was given.
    pub found: String,
    /// The values that are accepted.
    pub expected: &'static str,
}

impl ParamError {
    /// Builds an error about one parameter.
    pub fn new(
        op: &'static str,
        param: &'static str,
        found: impl Display,
        expected: &'static str,
    ) -> Self {
        Self { op, param, found: found.to_string(), expected }
    }
}

/// An op that does not accept the output of the ops before it.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let image = Type::Image(ImageType::decoded(Dim::fixed(8), Dim::fixed(8)));
/// let error = OneHot::new(10).unwrap().output(&image).unwrap_err();
/// assert_eq!(error.op, "OneHot");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{op} takes {expected}, but gets {found}")]
pub struct TypeError {
    /// The op, by the name a user writes.
    pub op: &'static str,
    /// The type that the op accepts, and often where to put the op.
    pub expected: &'static str,
    /// The type that the op gets.
    pub found: String,
}

/// Checks that a side is in `1..=65535` pixels.
pub(crate) fn side(op: &'static str, param: &'static str, side: u32) -> Result<u32, ParamError> {
    side.checked(op, param, ParamLimits::SIDE)
}

/// The longest side of an image: the limit of `.beton` files.
pub(crate) const LONGEST: u32 = 65_535;

/// Limits a side that is computed for a sample to `1..=65535`.
pub(crate) fn within_longest(side: u32) -> u32 {
    side.clamp(1, LONGEST)
}

/// Checks that both sides of an output are in `1..=65535` pixels.
pub(crate) fn output_size(op: &'static str, size: Size) -> Result<Size, ParamError> {
    size.checked(op, "size", ParamLimits::SIDE)
}
