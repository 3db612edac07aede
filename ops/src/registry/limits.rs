//! The numbers that a parameter accepts, and the check of a value against them.

use crate::default_floats::nearest_f32;
use crate::{KernelSize, NumberOrRange, ParamError, Size};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The numbers that a parameter accepts: each number of a value, and of a range no lower end above its upper one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamLimits {
    /// The least number.
    pub low: f64,
    /// The largest number. It is finite: infinity and NaN are always refused.
    pub high: f64,
    /// True if the least number itself is refused.
    pub is_above: bool,
    /// The accepted values in words, for messages.
    pub expected: &'static str,
}

impl ParamLimits {
    /// Shares.
    pub const SHARE: Self = Self::new(0.0, 1.0, "0.0..=1.0");
    /// The sides of images, in pixels.
    pub const SIDE: Self = Self::new(1.0, 65_535.0, "1..=65535");
    /// Finite numbers above 0.
    pub const POSITIVE: Self = Self::above(0.0, f64::MAX, "a finite number above 0");
    /// Finite numbers that are not negative.
    pub const NOT_NEGATIVE: Self = Self::new(0.0, f64::MAX, "a finite number, 0 or more");
    /// Finite numbers.
    pub const FINITE: Self = Self::new(f64::MIN, f64::MAX, "a finite number");
    /// Ranges of finite numbers above 0.
    pub const POSITIVE_RANGE: Self = Self::above(0.0, f64::MAX, "0 < low <= high < infinity");
    /// Ranges of finite numbers that are not negative.
    pub const NOT_NEGATIVE_RANGE: Self = Self::new(0.0, f64::MAX, "0 <= low <= high < infinity");
    /// Ranges of finite numbers.
    pub const FINITE_RANGE: Self = Self::new(f64::MIN, f64::MAX, "low <= high, both finite as f32");

    /// Numbers in `low..=high`.
    #[must_use]
    pub const fn new(low: f64, high: f64, expected: &'static str) -> Self {
        Self { low, high, is_above: false, expected }
    }

    /// Numbers above `low`, to `high`.
    #[must_use]
    pub const fn above(low: f64, high: f64, expected: &'static str) -> Self {
        Self { low, high, is_above: true, expected }
    }

    /// Returns true if a number is accepted.
    #[must_use]
    pub fn contains(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number) && !(self.is_above && number == self.low)
    }

    fn refused(&self, op: &'static str, param: &'static str, found: impl Display) -> ParamError {
        ParamError::new(op, param, found, self.expected)
    }

    /// Returns the bounds of a range that is accepted.
    fn range<T: Copy + Display + Into<f64>>(
        &self,
        op: &'static str,
        param: &'static str,
        (low, high): (T, T),
    ) -> Result<(T, T), ParamError> {
        let [least, most] = [low.into(), high.into()];
        if least <= most && self.contains(least) && self.contains(most) {
            Ok((low, high))
        } else {
            Err(self.refused(op, param, format!("{low}..={high}")))
        }
    }
}

/// A value as it is given to a constructor or a method, which checks it and keeps it as a `Kept`.
pub(crate) trait Checked<Kept> {
    /// Returns the value as an op keeps it.
    fn checked(
        self,
        op: &'static str,
        param: &'static str,
        limits: ParamLimits,
    ) -> Result<Kept, ParamError>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Checked<Self> for $number {
            fn checked(self, op: &'static str, param: &'static str, limits: ParamLimits) -> Result<Self, ParamError> {
                if limits.contains(self.into()) { Ok(self) } else { Err(limits.refused(op, param, self)) }
            }
        }
    )*};
}

numbers!(u32, f32, f64);

impl Checked<f32> for f64 {
    fn checked(
        self,
        op: &'static str,
        param: &'static str,
        limits: ParamLimits,
    ) -> Result<f32, ParamError> {
        let single = nearest_f32(self);
        if limits.contains(self) && single.is_finite() {
            Ok(single)
        } else {
            Err(limits.refused(op, param, self))
        }
    }
}

impl<T: Copy + Display + Into<f64>> Checked<(T, T)> for RangeInclusive<T> {
    fn checked(
        self,
        op: &'static str,
        param: &'static str,
        limits: ParamLimits,
    ) -> Result<(T, T), ParamError> {
        limits.range(op, param, self.into_inner())
    }
}

impl<T: Copy + Display + Into<f64>> Checked<Self> for RangeInclusive<T> {
    fn checked(
        self,
        op: &'static str,
        param: &'static str,
        limits: ParamLimits,
    ) -> Result<Self, ParamError> {
        limits.range(op, param, self.into_inner()).map(|(low, high)| low..=high)
    }
}

impl Checked<(f32, f32)> for RangeInclusive<f64> {
    fn checked(
        self,
        op: &'static str,
        param: &'static str,
        limits: ParamLimits,
    ) -> Result<(f32, f32), ParamError> {
        let (low, high) = limits.range(op, param, self.into_inner())?;
        let [single_low, single_high] = [low, high].map(nearest_f32);
        if single_low.is_finite() && single_high.is_finite() {
            Ok((single_low, single_high))
        } else {
            Err(limits.refused(op, param, format!("{low}..={high}")))
        }
    }
}

impl Checked<[f32; 2]> for RangeInclusive<f64> {
    fn checked(
        self,
        op: &'static str,
        param: &'static str,
        limits: ParamLimits,
    ) -> Result<[f32; 2], ParamError> {
        let (low, high) = self.checked(op, param, limits)?;
        Ok([low, high])
    }
}

/// One number is a range of this number alone.
impl Checked<(f32, f32)> for NumberOrRange {
    fn checked(
        self,
        op: &'static str,
        param: &'static str,
        limits: ParamLimits,
    ) -> Result<(f32, f32), ParamError> {
        let (low, high) = self.ends();
        (low..=high).checked(op, param, limits)
    }
}

impl Checked<Self> for Size {
    fn checked(
        self,
        op: &'static str,
        _: &'static str,
        limits: ParamLimits,
    ) -> Result<Self, ParamError> {
        let height = self.height.checked(op, "height", limits)?;
        Ok(Self { height, width: self.width.checked(op, "width", limits)? })
    }
}

/// A width and a height.
impl Checked<Self> for (u32, u32) {
    fn checked(
        self,
        op: &'static str,
        param: &'static str,
        limits: ParamLimits,
    ) -> Result<Self, ParamError> {
        let (width, height) = self;
        Size { height, width }.checked(op, param, limits).map(|_: Size| self)
    }
}

impl Checked<[u32; 2]> for KernelSize {
    fn checked(
        self,
        op: &'static str,
        param: &'static str,
        limits: ParamLimits,
    ) -> Result<[u32; 2], ParamError> {
        let width: u32 = self.width.checked(op, param, limits)?;
        Ok([width, self.height.checked(op, param, limits)?])
    }
}
