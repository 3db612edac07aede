//! Owns the pages of the functions of one block and frees them.
//!
//! `cranelift-jit` maps pages read-write, fills them, and makes them read-execute when a function is
//! finished: never both writable and executable. It leaks the pages when a module is dropped, since it
//! can't know whether the code still runs; this type does know.

#![allow(unsafe_code, reason = "frees code pages; everything else about them is safe")]

use cranelift_jit::JITModule;
use std::mem::ManuallyDrop;
use std::sync::Mutex;

/// One module with a finished function, and the loops that it calls.
pub(crate) struct CodeModule {
    module: ManuallyDrop<Mutex<JITModule>>,
    entry: *const u8,
    bytes: usize,
}

// SAFETY: `entry` is the address of finished code, which is never written again, and is only returned as
// an address. `JITModule` is Send, and the Mutex makes it Sync.
unsafe impl Send for CodeModule {}
// SAFETY: as above.
unsafe impl Sync for CodeModule {}

impl CodeModule {
    /// Takes a finished module whose function starts at `entry` and is `bytes` long.
    pub(crate) fn new(module: JITModule, entry: *const u8, bytes: usize) -> Self {
        Self { module: ManuallyDrop::new(Mutex::new(module)), entry, bytes }
    }

    /// Returns the address of the function, valid for as long as this value lives.
    pub(crate) fn entry(&self) -> *const u8 {
        self.entry
    }

    /// The bytes of code.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for CodeModule {
    fn drop(&mut self) {
        // SAFETY: `module` is taken here and nowhere else, and not used afterwards.
        let module = unsafe { ManuallyDrop::take(&mut self.module) };
        let module = module.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: the entry is only called through a `&CodeModule` (see `call`), so nothing runs it now.
        unsafe { module.free_memory() };
    }
}

impl std::fmt::Debug for CodeModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of code", self.bytes)
    }
}
