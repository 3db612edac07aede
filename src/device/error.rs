//! The errors of devices, each in one line that names the fix.

use crate::error::{Cause, Details, ErrorKind};

/// The reason why a device can't be used, or has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// This build lacks the feature `cuda`.
    #[error(
        "cuda:{ordinal} was requested, but this build lacks CUDA: build with the feature `cuda`, or use the device \"cpu\""
    )]
    NotBuilt {
        /// The number of the requested device.
        ordinal: u32,
    },
    /// The driver's library can't be loaded.
    #[error(
        "a GPU was requested, but the NVIDIA driver's library (libcuda.so.1) is not on this machine: install the driver, or use the device \"cpu\" or \"auto\""
    )]
    NoDriver,
    /// A toolkit's stub was loaded in place of the driver.
    #[error(
        "libcuda.so is the CUDA toolkit's stub, not a driver: remove its `stubs` folder from LD_LIBRARY_PATH"
    )]
    StubDriver,
    /// The driver is older than the oldest supported CUDA.
    #[error(
        "the NVIDIA driver supports CUDA {found_major}.{found_minor}, and 12.0 or newer is needed: update it to 525 or newer"
    )]
    DriverTooOld {
        /// The major CUDA version that the driver supports.
        found_major: u32,
        /// The minor CUDA version that the driver supports.
        found_minor: u32,
    },
    /// The driver is installed and offers no GPU.
    #[error(
        "the NVIDIA driver offers no usable GPU ({reason}): look at CUDA_VISIBLE_DEVICES and nvidia-smi"
    )]
    NoDevice {
        /// The driver's reason.
        reason: String,
    },
    /// No GPU has the requested number.
    #[error(
        "cuda:{asked} was requested, but this process sees {have} GPU(s): CUDA_VISIBLE_DEVICES decides which"
    )]
    NoSuchDevice {
        /// The number of the requested device.
        asked: u32,
        /// The number of GPUs.
        have: u32,
    },
    /// The process was forked after a GPU was opened.
    #[error(
        "this process was forked after its parent used the GPU, which CUDA does not support: start workers by spawn, or open the loader after the fork"
    )]
    Forked,
    /// There is no run-time compiler, and the kernel is not a prebuilt one.
    #[error(
        "this pipeline's kernel has to be compiled, and NVRTC was not found: `pip install nvidia-cuda-nvrtc-cu12`, or name the library in FUSELOOP_NVRTC (tried {tried})"
    )]
    NoCompiler {
        /// The paths that were tried.
        tried: String,
    },
    /// The run-time compiler rejected a kernel.
    #[error("NVRTC refused a kernel ({log}): please report it, with the list of ops")]
    Compile {
        /// The first lines of the compiler's log.
        log: String,
    },
    /// The driver rejected a kernel.
    #[error(
        "the driver refused a kernel ({log}): update the driver, or name an NVRTC no newer than it in FUSELOOP_NVRTC"
    )]
    Module {
        /// The driver's log.
        log: String,
    },
    /// The device has not enough memory.
    #[error(
        "cannot allocate {bytes} bytes of GPU memory for {what}: use smaller batches, or lower `device_batches`"
    )]
    NoMemory {
        /// The requested bytes.
        bytes: u64,
        /// The use of the memory.
        what: &'static str,
    },
    /// The user holds all buffers.
    #[error(
        "all {limit} device buffers are in use: drop or copy the batches you hold, or raise `device_batches`"
    )]
    AllHeld {
        /// The number of buffers.
        limit: usize,
    },
    /// A device can't run the pipeline.
    #[error("op {op_index} of the list, {op}, can't run on a device: {reason}")]
    CannotRun {
        /// The op's index in the list, from 0.
        op_index: usize,
        /// The op's name.
        op: &'static str,
        /// The reason, and what to do about it.
        reason: String,
    },
    /// The stream's number is not one that DLPack defines.
    #[error(
        "stream {stream} is not a DLPack stream: expected 1 (legacy), 2 (per thread), -1 (no synchronization) or a handle above 2"
    )]
    BadStream {
        /// The number that was passed.
        stream: i64,
    },
    /// Any other error of the driver.
    #[error("CUDA: {call}: {reason}")]
    Driver {
        /// The driver function that failed.
        call: &'static str,
        /// The driver's reason.
        reason: String,
    },
}

impl Cause for DeviceError {
    fn details(&self) -> Details<'_> {
        Details::of(match self {
            Self::BadStream { .. } => ErrorKind::Parameter,
            _ => ErrorKind::Device,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(error: &DeviceError, text: &str) {
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn each_says_in_one_line_what_to_do() {
        says(
            &DeviceError::NotBuilt { ordinal: 1 },
            "cuda:1 was requested, but this build lacks CUDA: build with the feature `cuda`, or use the device \"cpu\"",
        );
        says(
            &DeviceError::NoDriver,
            "a GPU was requested, but the NVIDIA driver's library (libcuda.so.1) is not on this machine: install the driver, or use the device \"cpu\" or \"auto\"",
        );
        says(
            &DeviceError::StubDriver,
            "libcuda.so is the CUDA toolkit's stub, not a driver: remove its `stubs` folder from LD_LIBRARY_PATH",
        );
        says(
            &DeviceError::DriverTooOld { found_major: 11, found_minor: 8 },
            "the NVIDIA driver supports CUDA 11.8, and 12.0 or newer is needed: update it to 525 or newer",
        );
        says(
            &DeviceError::NoDevice { reason: "CUDA_ERROR_NO_DEVICE".to_owned() },
            "the NVIDIA driver offers no usable GPU (CUDA_ERROR_NO_DEVICE): look at CUDA_VISIBLE_DEVICES and nvidia-smi",
        );
        says(
            &DeviceError::NoSuchDevice { asked: 3, have: 1 },
            "cuda:3 was requested, but this process sees 1 GPU(s): CUDA_VISIBLE_DEVICES decides which",
        );
        says(
            &DeviceError::Forked,
            "this process was forked after its parent used the GPU, which CUDA does not support: start workers by spawn, or open the loader after the fork",
        );
    }

    #[test]
    fn each_of_a_kernel_or_of_memory_does_too() {
        says(
            &DeviceError::NoCompiler { tried: "libnvrtc.so.12".to_owned() },
            "this pipeline's kernel has to be compiled, and NVRTC was not found: `pip install nvidia-cuda-nvrtc-cu12`, or name the library in FUSELOOP_NVRTC (tried libnvrtc.so.12)",
        );
        says(
            &DeviceError::Compile { log: "line 1".to_owned() },
            "NVRTC refused a kernel (line 1): please report it, with the list of ops",
        );
        says(
            &DeviceError::Module { log: "CUDA_ERROR_INVALID_PTX".to_owned() },
            "the driver refused a kernel (CUDA_ERROR_INVALID_PTX): update the driver, or name an NVRTC no newer than it in FUSELOOP_NVRTC",
        );
        says(
            &DeviceError::NoMemory { bytes: 7, what: "a batch" },
            "cannot allocate 7 bytes of GPU memory for a batch: use smaller batches, or lower `device_batches`",
        );
        says(
            &DeviceError::AllHeld { limit: 4 },
            "all 4 device buffers are in use: drop or copy the batches you hold, or raise `device_batches`",
        );
        says(
            &DeviceError::CannotRun { op_index: 2, op: "Blur", reason: "it is none".to_owned() },
            "op 2 of the list, Blur, can't run on a device: it is none",
        );
        says(
            &DeviceError::BadStream { stream: 0 },
            "stream 0 is not a DLPack stream: expected 1 (legacy), 2 (per thread), -1 (no synchronization) or a handle above 2",
        );
        says(
            &DeviceError::Driver { call: "cuInit", reason: "why".to_owned() },
            "CUDA: cuInit: why",
        );
    }
}
