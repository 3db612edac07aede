//! GPUs by CUDA.

use super::{Compiler, DeviceError, DeviceStats, GpuInfo, Program};
use crate::batch::RowsMut;
use std::path::PathBuf;
use std::sync::Arc;

/// A GPU. There is none in this build.
#[derive(Debug)]
pub enum Gpu {}

impl Gpu {
    /// Opens a GPU: refuses to.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NoDriver`].
    pub fn open(ordinal: u32) -> Result<Arc<Self>, DeviceError> {
        let _ = ordinal;
        Err(DeviceError::NoDriver)
    }

    /// What GPUs this process sees. Makes no context: no memory of theirs is taken.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NoDriver`].
    pub fn all() -> Result<Vec<GpuInfo>, DeviceError> {
        Err(DeviceError::NoDriver)
    }

    /// The compiler of kernels that was found.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NoDriver`].
    pub fn compiler() -> Result<Compiler, DeviceError> {
        Err(DeviceError::NoDriver)
    }

    /// Where compiled kernels are kept, and how many bytes of them; `None` if they are not.
    #[must_use]
    pub fn kernel_cache() -> Option<(PathBuf, u64)> {
        None
    }

    /// What is known of it.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        match *self {}
    }
}

/// The way of batches to a GPU.
#[derive(Debug)]
pub(crate) enum Lane {}

impl Lane {
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        _: Program,
        _: usize,
        _: usize,
    ) -> Result<Arc<Self>, DeviceError> {
        match **gpu {}
    }

    pub(crate) fn submit(
        self: &Arc<Self>,
        _: &mut RowsMut<'_>,
        _: &[usize],
    ) -> Result<(), DeviceError> {
        match **self {}
    }

    pub(crate) fn stats(&self) -> DeviceStats {
        match *self {}
    }
}
