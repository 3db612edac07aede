//! Replaces `cuda` in a build without that feature: no GPU can be opened.

use super::{Compiler, DeviceProgram, DeviceStats, DeviceStream, GpuInfo};
use crate::batch::RowsMut;
use crate::device::error::not_built;
use crate::error::Error;
use fuseloop_engine::batch::SlotExtension;
use fuseloop_ops::DType;
use std::path::PathBuf;
use std::sync::Arc;

/// A GPU. This build has none.
#[derive(Debug)]
pub enum Gpu {}

impl Gpu {
    /// Opens a GPU; always fails in this build.
    ///
    /// # Errors
    ///
    /// Always: this build lacks CUDA.
    pub fn open(ordinal: u32) -> Result<Arc<Self>, Error> {
        Err(not_built(ordinal))
    }

    /// Lists the GPUs; always fails in this build.
    ///
    /// # Errors
    ///
    /// Always: this build lacks CUDA.
    pub fn all() -> Result<Vec<GpuInfo>, Error> {
        Err(not_built(0))
    }

    /// Returns the compiler of kernels; always fails in this build.
    ///
    /// # Errors
    ///
    /// Always: this build lacks CUDA.
    pub fn compiler() -> Result<Compiler, Error> {
        Err(not_built(0))
    }

    /// Returns the folder of compiled kernels; this build has none.
    #[must_use]
    pub fn kernel_cache() -> Option<(PathBuf, u64)> {
        None
    }

    /// Returns the GPU's properties.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        match *self {}
    }
}

/// Sends batches to a GPU.
#[derive(Debug)]
pub(crate) enum Uploader {}

impl Uploader {
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        _: DeviceProgram,
        _: usize,
        _: usize,
    ) -> Result<Arc<Self>, Error> {
        match **gpu {}
    }

    pub(crate) fn rows(&self) -> usize {
        match *self {}
    }

    pub(crate) fn batches_held(&self) -> usize {
        match *self {}
    }

    pub(crate) fn submit(
        self: &Arc<Self>,
        rows: &mut RowsMut<'_>,
        _: &[usize],
    ) -> Result<(), Error> {
        let _ = rows.extension();
        match **self {}
    }

    pub(crate) fn stats(&self) -> DeviceStats {
        match *self {}
    }
}

/// A guard that is held while a stream reads a batch.
pub(crate) enum ReaderGuard {}

/// A tensor on a device.
#[derive(Clone, Debug)]
pub(crate) struct LocatedTensor {
    pub(crate) address: u64,
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
    pub(crate) device: u32,
}

/// Locks the pages of batches that stay on the host: never in this build.
pub(crate) struct PageLocker(u32);

impl PageLocker {
    pub(crate) fn new(ordinal: u32) -> Self {
        Self(ordinal)
    }

    pub(crate) fn lock(&self, _: &mut RowsMut<'_>, _: usize) {}

    pub(crate) fn failure(&self) -> Option<String> {
        Some(not_built(self.0).to_string())
    }
}

/// The device's data of a slot.
pub(crate) enum PinnedSlot {}

impl PinnedSlot {
    pub(crate) fn of(_: &dyn SlotExtension) -> Option<&Self> {
        None
    }

    pub(crate) fn ordinal(&self) -> u32 {
        match *self {}
    }

    pub(crate) fn find(&self, _: usize) -> Option<LocatedTensor> {
        match *self {}
    }

    pub(crate) fn make_ready_on(&self, _: DeviceStream) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn guard_for(&self, _: DeviceStream) -> Option<Result<ReaderGuard, Error>> {
        match *self {}
    }

    pub(crate) fn read(&self, _: &LocatedTensor) -> Result<Vec<u8>, Error> {
        match *self {}
    }
}
