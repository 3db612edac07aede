//! Kernels compiled for the host: `KERNEL` of kernels/cuda/host_cuda.h, called.
//!
//! ```text
//! u32 name_bytes()                                                        bytes of the arguments
//! int name(arguments, u32 rows, u32 parts, u32 threads, u32 backwards)    accesses not aligned
//! ```
#![allow(unsafe_code, reason = "a library's functions, by name")]

use libloading::Library;
use std::ffi::c_void;
use std::fs;
use std::sync::Arc;

type Run = unsafe extern "C" fn(*const c_void, u32, u32, u32, u32) -> i32;

/// A shared object of the fake NVRTC.
#[derive(Debug)]
pub(crate) struct HostBuild(Arc<Library>);

/// One kernel of it.
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
        // SAFETY: compiled by the fake NVRTC out of kernels alone; nothing in it runs when it is
        // loaded. The file may go: what is loaded stays.
        let library = unsafe { Library::new(&path) }.map_err(|error| error.to_string())?;
        Ok(Self(Arc::new(library)))
    }

    pub(crate) fn entry(&self, name: &str) -> Option<HostEntry> {
        // SAFETY: `KERNEL` gives both names these types.
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
    /// Runs all threads, one after another, and counts accesses that a device would not do.
    ///
    /// The kernel reads and writes where its arguments say: who launches it answers for that, as on
    /// a device.
    pub(crate) fn run(
        &self,
        arguments: &[u8],
        grid: [u32; 2],
        threads: u32,
        backwards: bool,
    ) -> i32 {
        assert_eq!(arguments.len(), self.bytes, "as long as the kernel's arguments");
        let backwards = u32::from(backwards);
        // SAFETY: `KERNEL` copies `bytes` bytes of arguments first. `_library` keeps the code.
        unsafe { (self.run)(arguments.as_ptr().cast(), grid[0], grid[1], threads, backwards) }
    }
}
