//! What is known of a device, and what has gone to it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What is known of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuInfo {
    /// Its number, as in `cuda:0`. `CUDA_VISIBLE_DEVICES` decides which is which.
    pub ordinal: u32,
    /// What its maker calls it.
    pub name: String,
    /// What its code is compiled for: 9 and 0 is `sm_90`.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub memory: u64,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Where it is plugged in.
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
    /// The CUDA it is of.
    pub version: (i32, i32),
    /// The library, as it was loaded.
    pub path: PathBuf,
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {}.{}, {}", self.version.0, self.version.1, self.path.display())
    }
}

/// Where the code of a kernel was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelOrigin {
    /// This process compiled it before.
    Memory,
    /// A process before this one compiled it.
    Disk,
    /// Compiled now.
    Nvrtc,
    /// Compiled when this was built.
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

/// What has gone to a device since its lane was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStats {
    /// Batches sent.
    pub batches: u64,
    /// Bytes copied to the device.
    pub bytes_copied: u64,
    /// Copies out of memory that the system would not lock: they take about three times as long.
    pub pageable_copies: u64,
    /// How long it took to have the kernels' code, compiled or not.
    pub kernels_took: Duration,
    /// Where that code was got; `None` if there is no kernel.
    pub kernels: Option<KernelOrigin>,
    /// Batches that there is memory for now, at most `device_batches`.
    pub buffers: usize,
    /// Bytes of the device's memory that are taken for all this.
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
