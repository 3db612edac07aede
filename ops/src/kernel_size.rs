//! The size of the kernel of a blur.

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
