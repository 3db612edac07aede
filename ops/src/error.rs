//! Why an op can't be made, and why it can't stand where it stands.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// A parameter outside what its op accepts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {param} is {found}, expected {expected}")]
pub struct ParamError {
    /// The op, by the name a user writes.
    pub op: &'static str,
    /// The parameter.
    pub param: &'static str,
    /// What was given.
    pub found: String,
    /// What is accepted.
    pub expected: &'static str,
}

impl ParamError {
    /// An error about one parameter.
    pub fn new(
        op: &'static str,
        param: &'static str,
        found: impl Display,
        expected: &'static str,
    ) -> Self {
        Self { op, param, found: found.to_string(), expected }
    }
}

/// An op that does not fit the value the ops before it give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{op} takes {expected}, but gets {found}")]
pub struct TypeError {
    /// The op, by the name a user writes.
    pub op: &'static str,
    /// What the op works on, and often where to put it.
    pub expected: &'static str,
    /// What stands before it.
    pub found: String,
}

/// Checks a probability: in `0..=1`, not NaN.
pub(crate) fn probability(op: &'static str, p: f64) -> Result<f64, ParamError> {
    if (0.0..=1.0).contains(&p) { Ok(p) } else { Err(ParamError::new(op, "p", p, "0.0..=1.0")) }
}

/// Checks a side in pixels: `1..=65535`.
pub(crate) fn side(op: &'static str, param: &'static str, side: u32) -> Result<u32, ParamError> {
    if (1..=65_535).contains(&side) {
        Ok(side)
    } else {
        Err(ParamError::new(op, param, side, "1..=65535"))
    }
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

/// Checks a number that is above 0, not infinite, not NaN.
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

/// Checks a range of numbers of any sign with `low <= high` that stay finite as the `f32` that an op
/// draws between.
pub(crate) fn finite_range(
    op: &'static str,
    param: &'static str,
    low: f64,
    high: f64,
) -> Result<(f64, f64), ParamError> {
    #[expect(clippy::cast_possible_truncation, reason = "what is checked is what it becomes")]
    let stays_finite = [low, high].iter().all(|end| (*end as f32).is_finite());
    if low <= high && stays_finite {
        Ok((low, high))
    } else {
        let found = format!("{low}..={high}");
        Err(ParamError::new(op, param, found, "low <= high, both finite as f32"))
    }
}

/// Checks a range that lies in another one, and may be a single number; gives its ends.
pub(crate) fn range_in(
    op: &'static str,
    param: &'static str,
    (low, high): (f64, f64),
    limits: RangeInclusive<f64>,
    expected: &'static str,
) -> Result<[f32; 2], ParamError> {
    if low <= high && limits.contains(&low) && limits.contains(&high) {
        Ok([low as f32, high as f32])
    } else {
        Err(ParamError::new(op, param, format!("{low}..={high}"), expected))
    }
}

/// Checks a range of numbers that may be 0 but not negative, and that `f32` can hold.
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
