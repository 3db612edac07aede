//! Kernels compiled for the host: calls the functions that `KERNEL` of kernels/cuda/host_cuda.h
//! defines.
//!
//! ```text
//! u32 name_bytes()                                                        bytes of the arguments
//! int name(arguments, u32 rows, u32 parts, u32 threads, u32 backwards)    number of misaligned accesses
//! ```
#![allow(unsafe_code, reason = "a library's functions, by name")]

use libloading::Library;
use std::ffi::c_void;
use std::fs;
use std::sync::Arc;

type Run = unsafe extern "C" fn(*const c_void, u32, u32, u32, u32) -> i32;

/// A shared object that the fake NVRTC built.
#[derive(Debug)]
pub(crate) struct HostBuild(Arc<Library>);

/// One kernel of a shared object.
#[derive(Debug, Clone)]
pub(crate) struct HostEntry {
    pub(crate) bytes: usize,
    run: Run,
    _library: Arc<Library>,
}

impl HostBuild {
    pub(crate) fn load(object: &[u8]) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = folder.path().join("kernels.so");
        fs::write(&path, object).map_err(|error| error.to_string())?;
        // SAFETY: compiled by the fake NVRTC from kernels alone; loading it runs no code. The file
        // may be deleted: the loaded library stays.
        let library = unsafe { Library::new(&path) }.map_err(|error| error.to_string())?;
        Ok(Self(Arc::new(library)))
    }

    pub(crate) fn entry(&self, name: &str) -> Option<HostEntry> {
        // SAFETY: `KERNEL` defines both names with these types.
        let (run, bytes) = unsafe {
            let run = *self.0.get::<Run>(name.as_bytes()).ok()?;
            let bytes = *self
                .0
                .get::<unsafe extern "C" fn() -> u32>(format!("{name}_bytes").as_bytes())
                .ok()?;
            (run, bytes())
        };
        Some(HostEntry { bytes: bytes as usize, run, _library: Arc::clone(&self.0) })
    }
}

impl HostEntry {
    /// Runs all threads, one after another, and returns the number of accesses that a device would
    /// refuse.
    ///
    /// The kernel reads and writes at the addresses in its arguments: the code that launches the
    /// kernel is responsible for them, as on a device.
    pub(crate) fn run(
        &self,
        arguments: &[u8],
        grid: [u32; 2],
        threads: u32,
        backwards: bool,
    ) -> i32 {
        assert_eq!(arguments.len(), self.bytes, "as long as the kernel's arguments");
        let backwards = u32::from(backwards);
        // SAFETY: `KERNEL` first copies `bytes` bytes of arguments. `_library` keeps the code
        // loaded.
        unsafe { (self.run)(arguments.as_ptr().cast(), grid[0], grid[1], threads, backwards) }
    }
}
