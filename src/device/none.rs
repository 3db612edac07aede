//! What stands for `cuda` in a build without it: no GPU can be opened.

use super::{DeviceError, Program};
use crate::batch::RowsMut;
use std::path::PathBuf;
use std::sync::Arc;

/// A GPU. There is none in this build.
#[derive(Debug)]
pub enum Gpu {}

/// What is known of a GPU.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GpuInfo {
    /// Its number, from 0.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// What it can run, as major and minor.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub memory: u64,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Where it is plugged in.
    pub pci_bus_id: String,
    /// The CUDA version that its driver supports.
    pub driver: (u32, u32),
}

impl Gpu {
    /// Opens a GPU: refuses to.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotBuilt`].
    pub fn open(ordinal: u32) -> Result<Arc<Self>, DeviceError> {
        Err(DeviceError::NotBuilt { ordinal })
    }

    /// What GPUs this process sees. Makes no context: no memory of theirs is taken.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotBuilt`].
    pub fn all() -> Result<Vec<GpuInfo>, DeviceError> {
        Err(DeviceError::NotBuilt { ordinal: 0 })
    }

    /// What is known of it.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        match *self {}
    }
}

/// The run-time compiler that was found: its version and where it lies.
///
/// # Errors
///
/// [`DeviceError::NotBuilt`].
pub fn compiler() -> Result<String, DeviceError> {
    Err(DeviceError::NotBuilt { ordinal: 0 })
}

/// Where compiled kernels are kept, and how many bytes of them; `None` if they are not.
#[must_use]
pub fn kernel_cache() -> Option<(PathBuf, u64)> {
    None
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
}
