//! Lists and opens GPUs.

use crate::device::error::forked;
use crate::error::{Error, fail};
use std::fmt;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::cache::CubinCache;
use super::context::Context;
use super::driver::Driver;
use super::nvrtc::Nvrtc;
use super::sys::CUdevice_attribute::{
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as MULTIPROCESSORS,
};
use crate::device::{Compiler, GpuInfo};

/// An open GPU. Its primary context is shared with PyTorch and other users in the process.
pub struct Gpu {
    info: GpuInfo,
    pub(super) context: Arc<Context>,
}

/// The open GPUs, by their numbers.
static OPEN: Mutex<Vec<(u32, Weak<Gpu>)>> = Mutex::new(Vec::new());

impl Gpu {
    /// Opens GPU number `ordinal`; all callers share one `Gpu`.
    ///
    /// # Errors
    ///
    /// If there is no driver, no such GPU, or the process is the fork of one that used GPUs.
    pub fn open(ordinal: u32) -> Result<Arc<Self>, Error> {
        let (driver, version) = initialized_driver()?;
        let have = driver.count()?;
        if ordinal >= have {
            return Err(fail!(
                Device,
                "cuda:{ordinal} was requested, but this process sees {have} GPU(s): CUDA_VISIBLE_DEVICES decides which"
            ));
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

    /// Lists the GPUs that this process sees. Creates no context, so it takes none of the GPUs' memory.
    /// But it initializes the driver, and processes forked from this one afterwards can't use it.
    ///
    /// # Errors
    ///
    /// If there is no driver, or no GPU.
    pub fn all() -> Result<Vec<GpuInfo>, Error> {
        let (driver, version) = initialized_driver()?;
        (0..driver.count()?).map(|ordinal| describe(driver, ordinal, version)).collect()
    }

    /// Returns the compiler of kernels that would be used; no GPU is needed for this.
    ///
    /// # Errors
    ///
    /// If there is none: then only [prebuilt](crate::device::KernelOrigin) kernels can run.
    pub fn compiler() -> Result<Compiler, Error> {
        let version = initialized_driver().map_or(OLDEST, |(_, version)| version.0);
        Nvrtc::get(version).map(Nvrtc::describe)
    }

    /// Returns the folder of cached kernels and the bytes of its files; `None` if kernels are not
    /// cached.
    #[must_use]
    pub fn kernel_cache() -> Option<(PathBuf, u64)> {
        CubinCache::of_environment().map(CubinCache::size)
    }

    /// Returns the GPU's properties.
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

/// The major version of the oldest supported CUDA.
const OLDEST: u32 = 12;

/// Returns the driver, initialized in this process and not in a process that it was forked from.
fn initialized_driver() -> Result<(&'static Driver, (u32, u32)), Error> {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    let driver = Driver::get()?;
    let (here, there) = (process::id(), PROCESS.load(Ordering::Relaxed));
    if there != 0 && there != here {
        return Err(forked());
    }
    let version = driver.begin()?;
    PROCESS.store(here, Ordering::Relaxed);
    Ok((driver, version))
}

fn describe(driver: &Driver, ordinal: u32, version: (u32, u32)) -> Result<GpuInfo, Error> {
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

    /// Other tests cover machines with a driver, a fake or a real one.
    #[test]
    fn without_a_driver_there_is_an_error_and_no_panic() {
        let Err(error) = Driver::get().map(|_| ()) else { return };
        if error.to_string().contains("(libcuda.so.1) is not on this machine") {
            assert_eq!(error.kind(), crate::error::ErrorKind::Device);
            assert_eq!(Gpu::open(0).err(), Some(error.copy()));
            assert_eq!(Gpu::all().err(), Some(error));
        }
    }
}
