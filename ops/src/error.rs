//! The errors of building an op and of its input type.

use crate::Size;
use crate::default_floats::nearest_f32;
use std::error::Error;
use std::fmt::Display;
use std::ops::RangeInclusive;

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

/// Checks that a probability is in `0..=1` and not NaN.
pub(crate) fn probability(op: &'static str, p: f64) -> Result<f64, ParamError> {
    if (0.0..=1.0).contains(&p) { Ok(p) } else { Err(ParamError::new(op, "p", p, "0.0..=1.0")) }
}

/// Checks that a side is in `1..=65535` pixels.
pub(crate) fn side(op: &'static str, param: &'static str, side: u32) -> Result<u32, ParamError> {
    if (1..=65_535).contains(&side) {
        Ok(side)
    } else {
        Err(ParamError::new(op, param, side, "1..=65535"))
    }
}

/// The longest side of an image: the limit of `.beton` files.
pub(crate) const LONGEST: u32 = 65_535;

/// Limits a side that is computed for a sample to `1..=65535`.
pub(crate) fn within_longest(side: u32) -> u32 {
    side.clamp(1, LONGEST)
}

/// Checks that both sides of an output are in `1..=65535` pixels.
pub(crate) fn output_size(op: &'static str, size: Size) -> Result<Size, ParamError> {
    Ok(Size::new(side(op, "height", size.height)?, side(op, "width", size.width)?))
}

/// Checks a range of positive, finite numbers with `low <= high`.
pub(crate) fn positive_range(
    op: &'static str,
    param: &'static str,
    low: f64,
    high: f64,
) -> Result<(f64, f64), ParamError> {
    if low > 0.0 && low <= high && high.is_finite() {
        Ok((low, high))
    } else {
        let found = format!("{low}..={high}");
        Err(ParamError::new(op, param, found, "0 < low <= high < infinity"))
    }
}

/// Checks that a number is above 0, not infinite and not NaN.
pub(crate) fn positive(
    op: &'static str,
    param: &'static str,
    value: f64,
) -> Result<f64, ParamError> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ParamError::new(op, param, value, "a finite number above 0"))
    }
}

/// Checks a range of numbers of any sign with `low <= high` whose bounds are finite as `f32`, the type
/// in which ops draw.
pub(crate) fn finite_range(
    op: &'static str,
    param: &'static str,
    low: f64,
    high: f64,
) -> Result<(f64, f64), ParamError> {
    let stays_finite = [low, high].iter().all(|end| nearest_f32(*end).is_finite());
    if low <= high && stays_finite {
        Ok((low, high))
    } else {
        let found = format!("{low}..={high}");
        Err(ParamError::new(op, param, found, "low <= high, both finite as f32"))
    }
}

/// Checks a range that is inside another one and may be a single number. Returns its bounds.
pub(crate) fn range_in(
    op: &'static str,
    param: &'static str,
    (low, high): (f64, f64),
    limits: RangeInclusive<f64>,
    expected: &'static str,
) -> Result<[f32; 2], ParamError> {
    if low <= high && limits.contains(&low) && limits.contains(&high) {
        Ok([nearest_f32(low), nearest_f32(high)])
    } else {
        Err(ParamError::new(op, param, format!("{low}..={high}"), expected))
    }
}

/// Checks a range of numbers that may be 0 but not negative, and that are finite as `f32`.
pub(crate) fn range_from_zero(
    op: &'static str,
    param: &'static str,
    range: (f64, f64),
) -> Result<[f32; 2], ParamError> {
    range_in(op, param, range, 0.0..=f64::from(f32::MAX), "0 <= low <= high < infinity")
}

/// Checks a number that may be 0 but not negative, infinite or NaN.
pub(crate) fn positive_or_zero(
    op: &'static str,
    param: &'static str,
    value: f64,
) -> Result<f64, ParamError> {
    if value >= 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ParamError::new(op, param, value, "a finite number, 0 or more"))
    }
}
