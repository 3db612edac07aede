//! What stands for `cuda` in a build without it: no GPU can be opened.

use super::{DeviceError, Program};
use crate::batch::RowsMut;
use std::sync::Arc;

/// A GPU. There is none in this build.
#[derive(Debug)]
pub enum Gpu {}

/// What is known of a GPU.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GpuInfo {}

impl Gpu {
    /// Opens a GPU: refuses to.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotBuilt`].
    pub fn open(ordinal: u32) -> Result<Arc<Self>, DeviceError> {
        Err(DeviceError::NotBuilt { ordinal })
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
}
