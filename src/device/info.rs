//! Descriptions of devices, and statistics of what was sent to them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The properties of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuInfo {
    /// The GPU's number, as in `cuda:0`. `CUDA_VISIBLE_DEVICES` selects and orders the GPUs.
    pub ordinal: u32,
    /// The product name.
    pub name: String,
    /// The compute capability: 9 and 0 is `sm_90`.
    pub capability: (u32, u32),
    /// The bytes of its memory.
    pub memory: u64,
    /// The number of its multiprocessors.
    pub multiprocessors: u32,
    /// The PCI bus address.
    pub pci_bus_id: String,
    /// The newest CUDA that the driver supports.
    pub driver: (u32, u32),
}

impl fmt::Display for GpuInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ordinal, name, multiprocessors, pci_bus_id, .. } = self;
        let (sm, driver) = (self.capability, self.driver);
        let gib = self.memory as f64 / f64::from(1 << 30);
        write!(f, "cuda:{ordinal}  {name}, sm_{}{}, {gib:.1} GiB, ", sm.0, sm.1)?;
        write!(f, "{multiprocessors} multiprocessors, at {pci_bus_id}, ")?;
        write!(f, "driver for CUDA {}.{}", driver.0, driver.1)
    }
}

/// The compiler of kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compiler {
    /// The CUDA version of the compiler.
    pub version: (i32, i32),
    /// The path that the library was loaded from.
    pub path: PathBuf,
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {}.{}, {}", self.version.0, self.version.1, self.path.display())
    }
}

/// The origin of a kernel's code.
///
/// ```no_run
/// use fuseloop::device::KernelOrigin;
///
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// let kernels = loader.device_stats().and_then(|stats| stats.kernels);
/// if kernels == Some(KernelOrigin::Nvrtc) {
///     println!("the kernels were compiled for this GPU");
/// }
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelOrigin {
    /// This process compiled the kernel before.
    Memory,
    /// An earlier process compiled the kernel.
    Disk,
    /// The kernel was compiled now.
    Nvrtc,
    /// The kernel was compiled when this library was built.
    Shipped,
}

impl fmt::Display for KernelOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "compiled before by this process",
            Self::Disk => "from the cache of kernels",
            Self::Nvrtc => "compiled by NVRTC",
            Self::Shipped => "shipped",
        })
    }
}

/// Statistics of what was sent to a device since its uploader was created.
///
/// ```no_run
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// if let Some(stats) = loader.device_stats() {
///     println!("{} batches, {} bytes copied", stats.batches, stats.bytes_copied);
/// }
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStats {
    /// The number of batches sent.
    pub batches: u64,
    /// The bytes copied to the device.
    pub bytes_copied: u64,
    /// The number of copies from memory that the system would not lock: such copies take about three
    /// times as long.
    pub pageable_copies: u64,
    /// The time it took to load the kernels' code, including compilation if needed.
    pub kernels_took: Duration,
    /// The origin of that code; `None` if there is no kernel.
    pub kernels: Option<KernelOrigin>,
    /// The number of batches that memory is allocated for now, at most `device_batches`.
    pub buffers: usize,
    /// The bytes of device memory allocated for all of this.
    pub device_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_one_line() {
        let info = GpuInfo {
            ordinal: 1,
            name: "NVIDIA H100".to_owned(),
            capability: (9, 0),
            memory: 80 << 30,
            multiprocessors: 132,
            pci_bus_id: "0000:1B:00.0".to_owned(),
            driver: (12, 4),
        };
        let line = "cuda:1  NVIDIA H100, sm_90, 80.0 GiB, 132 multiprocessors, at 0000:1B:00.0, \
                    driver for CUDA 12.4";
        assert_eq!(info.to_string(), line);
    }
}
