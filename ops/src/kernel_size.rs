//! The size of the kernel of a blur.

use crate::ParamError;
use crate::author::Rng;
use crate::registry::{Checked, ParamLimits};
use std::ops::RangeInclusive;

/// The numbers of columns and rows of a kernel, in torchvision's forms: one number for both, or two.
///
/// ```
/// # use fuseloop_ops::*;
/// assert_eq!(KernelSize::from(5), KernelSize { width: 5, height: 5 });
/// let wide = GaussianBlur::new([9, 3])?;
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSize {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl From<u32> for KernelSize {
    fn from(side: u32) -> Self {
        Self { width: side, height: side }
    }
}

impl From<[u32; 2]> for KernelSize {
    fn from([width, height]: [u32; 2]) -> Self {
        Self { width, height }
    }
}

/// Checks a range of the sides of a kernel, and rounds its ends up to odd numbers.
pub(crate) fn odd_range(
    op: &'static str,
    param: &'static str,
    range: RangeInclusive<u32>,
    limits: ParamLimits,
) -> Result<(u32, u32), ParamError> {
    let range: RangeInclusive<u32> = range.checked(op, param, limits)?;
    Ok((*range.start() | 1, *range.end() | 1))
}

/// Draws an odd number in a range with odd ends.
pub(crate) fn odd_side(rng: &mut Rng, (low, high): (u32, u32)) -> u32 {
    low + 2 * rng.below((high - low) / 2 + 1)
}
