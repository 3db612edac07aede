//! GPUs: what there are, and one that is opened.

use std::fmt;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::sys::CUdevice_attribute::{
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as MULTIPROCESSORS,
};

use super::cache::Folder;
use super::context::Context;
use super::driver::Driver;
use super::nvrtc::Nvrtc;
use crate::device::{Compiler, DeviceError, GpuInfo};

/// A GPU, opened: its primary context, which PyTorch and others in the process share.
pub struct Gpu {
    info: GpuInfo,
    pub(super) context: Arc<Context>,
}

/// Those that are open, by their numbers.
static OPEN: Mutex<Vec<(u32, Weak<Gpu>)>> = Mutex::new(Vec::new());

impl Gpu {
    /// Opens GPU number `ordinal`; all who do so share one.
    ///
    /// # Errors
    ///
    /// If there is no driver, no such GPU, or the process is the fork of one that used GPUs.
    pub fn open(ordinal: u32) -> Result<Arc<Self>, DeviceError> {
        let (driver, version) = begun()?;
        let have = driver.count()?;
        if ordinal >= have {
            return Err(DeviceError::NoSuchDevice { asked: ordinal, have });
        }
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, gpu)| gpu.strong_count() > 0);
        let found = open.iter().find(|(number, _)| *number == ordinal);
        if let Some(gpu) = found.and_then(|(_, gpu)| gpu.upgrade()) {
            return Ok(gpu);
        }
        let info = describe(driver, ordinal, version)?;
        let context = Arc::new(Context::retain(driver, driver.device(ordinal)?)?);
        let gpu = Arc::new(Self { info, context });
        open.push((ordinal, Arc::downgrade(&gpu)));
        Ok(gpu)
    }

    /// What GPUs this process sees. Makes no context: no memory of theirs is taken. But the driver
    /// begins, and what is forked from this process after can't use it.
    ///
    /// # Errors
    ///
    /// If there is no driver, or no GPU.
    pub fn all() -> Result<Vec<GpuInfo>, DeviceError> {
        let (driver, version) = begun()?;
        (0..driver.count()?).map(|ordinal| describe(driver, ordinal, version)).collect()
    }

    /// The compiler of kernels that would be used: it needs no GPU.
    ///
    /// # Errors
    ///
    /// If there is none: then only what is [shipped](crate::device::KernelOrigin)
    /// can be run.
    pub fn compiler() -> Result<Compiler, DeviceError> {
        let version = begun().map_or(OLDEST, |(_, version)| version.0);
        Nvrtc::get(version).map(Nvrtc::describe)
    }

    /// Where compiled kernels are kept, and how many bytes of them; `None` if they are not.
    #[must_use]
    pub fn kernel_cache() -> Option<(PathBuf, u64)> {
        Folder::of_environment().map(Folder::size)
    }

    /// What is known of it.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        &self.info
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gpu").field(&self.info).finish()
    }
}

/// The major version of the oldest CUDA that is taken.
const OLDEST: u32 = 12;

/// The driver, begun in this process and not in one that it was forked from.
fn begun() -> Result<(&'static Driver, (u32, u32)), DeviceError> {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    let driver = Driver::get()?;
    let (here, there) = (process::id(), PROCESS.load(Ordering::Relaxed));
    if there != 0 && there != here {
        return Err(DeviceError::Forked);
    }
    let version = driver.begin()?;
    PROCESS.store(here, Ordering::Relaxed);
    Ok((driver, version))
}

fn describe(driver: &Driver, ordinal: u32, version: (u32, u32)) -> Result<GpuInfo, DeviceError> {
    let device = driver.device(ordinal)?;
    let number = |attribute| driver.attribute(device, attribute);
    Ok(GpuInfo {
        ordinal,
        name: driver.name(device)?,
        capability: (number(MAJOR)?, number(MINOR)?),
        memory: driver.memory(device)?,
        multiprocessors: number(MULTIPROCESSORS)?,
        pci_bus_id: driver.pci_bus_id(device)?,
        driver: version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where there is a driver, a fake one or a real one, other tests ask more of it.
    #[test]
    fn without_a_driver_there_is_an_error_and_no_panic() {
        if let Err(DeviceError::NoDriver) = Driver::get().map(|_| ()) {
            assert_eq!(Gpu::open(0).err(), Some(DeviceError::NoDriver));
            assert_eq!(Gpu::all().err(), Some(DeviceError::NoDriver));
        }
    }
}
