//! What stands for `cuda` in a build without it: no GPU can be opened.

use super::{Compiler, DeviceError, DeviceStats, GpuInfo, Program, Stream};
use crate::batch::{Companion, RowsMut};
use fuseloop_ops::DType;
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
    /// [`DeviceError::NotBuilt`].
    pub fn open(ordinal: u32) -> Result<Arc<Self>, DeviceError> {
        Err(DeviceError::NotBuilt { ordinal })
    }

    /// What GPUs there are: nobody knows.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotBuilt`].
    pub fn all() -> Result<Vec<GpuInfo>, DeviceError> {
        Err(DeviceError::NotBuilt { ordinal: 0 })
    }

    /// The compiler of kernels: there is none.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotBuilt`].
    pub fn compiler() -> Result<Compiler, DeviceError> {
        Err(DeviceError::NotBuilt { ordinal: 0 })
    }

    /// Where compiled kernels are kept: nowhere.
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
        rows: &mut RowsMut<'_>,
        _: &[usize],
    ) -> Result<(), DeviceError> {
        let _ = rows.companion();
        match **self {}
    }

    pub(crate) fn stats(&self) -> DeviceStats {
        match *self {}
    }
}

/// A stream's hold on a batch.
pub(crate) enum Use {}

/// A tensor on a device.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) address: u64,
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
    pub(crate) device: u32,
}

/// What is kept beside a slot.
pub(crate) enum Freight {}

impl Freight {
    pub(crate) fn of(_: &dyn Companion) -> Option<&Self> {
        None
    }

    pub(crate) fn ordinal(&self) -> u32 {
        match *self {}
    }

    pub(crate) fn find(&self, _: usize) -> Option<Found> {
        match *self {}
    }

    pub(crate) fn hand_over(&self, _: Stream) -> Result<(), DeviceError> {
        match *self {}
    }

    pub(crate) fn lend(&self, _: Stream) -> Option<Result<Use, DeviceError>> {
        match *self {}
    }

    pub(crate) fn read(&self, _: &Found) -> Result<Vec<u8>, DeviceError> {
        match *self {}
    }
}
