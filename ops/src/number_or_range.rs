//! A parameter that is one number or a range of numbers.

use crate::ParamError;
use crate::registry::{Checked, ParamLimits};
use std::ops::RangeInclusive;

/// One number, or a range `low..=high` to draw from: torchvision's "float or tuple". Each op states what
/// one number stands for.
///
/// ```
/// use fuseloop_ops::{ColorJitter, RandomRotation};
///
/// let jitter = ColorJitter::new(0.4, 0.9..=1.1, 0.4)?; // 0.4 is the range 0.6..=1.4
/// let rotation = RandomRotation::new(15.0)?; // 15.0 is the range -15.0..=15.0
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum NumberOrRange {
    /// One number.
    Number(f64),
    /// A range, with both ends.
    Range(RangeInclusive<f64>),
}

impl From<f64> for NumberOrRange {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<RangeInclusive<f64>> for NumberOrRange {
    fn from(range: RangeInclusive<f64>) -> Self {
        Self::Range(range)
    }
}

impl NumberOrRange {
    /// Returns the two ends; one number stands for `-number..=number`.
    pub(crate) fn around_zero(self) -> (f64, f64) {
        match self {
            Self::Number(number) => (-number, number),
            Self::Range(range) => range.into_inner(),
        }
    }

    /// Returns the two ends, which are equal for one number.
    pub(crate) fn ends(self) -> (f64, f64) {
        match self {
            Self::Number(number) => (number, number),
            Self::Range(range) => range.into_inner(),
        }
    }
}

/// Checks a range of finite numbers: one number stands for a range around 0.
pub(crate) fn around_zero(
    op: &'static str,
    param: &'static str,
    range: NumberOrRange,
) -> Result<(f32, f32), ParamError> {
    let (low, high) = range.around_zero();
    (low..=high).checked(op, param, ParamLimits::FINITE_RANGE)
}
