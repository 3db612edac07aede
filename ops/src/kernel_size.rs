//! The size of the kernel of a blur.

use crate::ParamError;

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

impl KernelSize {
    /// Returns the columns and rows, if an op accepts both numbers.
    pub(crate) fn checked(
        self,
        op: &'static str,
        is_accepted: impl Fn(u32) -> bool,
        expected: &'static str,
    ) -> Result<[u32; 2], ParamError> {
        let sides = [self.width, self.height];
        match sides.into_iter().find(|side| !is_accepted(*side)) {
            Some(side) => Err(ParamError::new(op, "kernel_size", side, expected)),
            None => Ok(sides),
        }
    }
}
