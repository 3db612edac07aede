//! The code of one loop body: pages that the compiler filled and that are freed, or functions of the program itself.
//!
//! `cranelift-jit` maps pages read-write, fills them, and makes them read-execute when a function is
//! finished: never both writable and executable. It leaks the pages when a module is dropped, since it
//! can't know whether the code still runs; this type does know.

#![allow(unsafe_code, reason = "frees code pages; everything else about them is safe")]

#[cfg(feature = "jit")]
use cranelift_jit::JITModule;
#[cfg(feature = "jit")]
use std::mem::ManuallyDrop;
#[cfg(feature = "jit")]
use std::sync::Mutex;

/// A function for parameter blocks, their number, and the constants of its code.
pub(crate) type BodyFn = unsafe extern "C" fn(*mut u8, u64, *const u8);

/// The code of a loop body.
#[derive(Debug)]
#[cfg_attr(
    feature = "jit",
    expect(
        clippy::large_enum_variant,
        reason = "a process has few, and nearly all are the larger ones"
    )
)]
pub(crate) enum Code {
    /// Compiled by this process.
    #[cfg(feature = "jit")]
    Compiled(CodeModule),
    /// Linked into the program from an object file: the function, and the bytes of its code.
    Linked(BodyFn, usize),
}

impl Code {
    /// Returns the address of the function, valid for as long as this value lives.
    pub(crate) fn entry(&self) -> *const u8 {
        match self {
            #[cfg(feature = "jit")]
            Self::Compiled(module) => module.entry,
            Self::Linked(entry, _) => *entry as *const u8,
        }
    }

    /// The bytes of code.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            #[cfg(feature = "jit")]
            Self::Compiled(module) => module.bytes,
            Self::Linked(_, bytes) => *bytes,
        }
    }
}

/// One module with a finished function, and the loops that it calls.
#[cfg(feature = "jit")]
pub(crate) struct CodeModule {
    module: ManuallyDrop<Mutex<JITModule>>,
    entry: *const u8,
    bytes: usize,
}

// SAFETY: `entry` is the address of finished code, which is never written again, and is only returned as
// an address. `JITModule` is Send, and the Mutex makes it Sync.
#[cfg(feature = "jit")]
unsafe impl Send for CodeModule {}
// SAFETY: as above.
#[cfg(feature = "jit")]
unsafe impl Sync for CodeModule {}

#[cfg(feature = "jit")]
impl CodeModule {
    /// Takes a finished module whose function starts at `entry` and is `bytes` long.
    pub(crate) fn new(module: JITModule, entry: *const u8, bytes: usize) -> Self {
        Self { module: ManuallyDrop::new(Mutex::new(module)), entry, bytes }
    }
}

#[cfg(feature = "jit")]
impl Drop for CodeModule {
    fn drop(&mut self) {
        // SAFETY: `module` is taken here and nowhere else, and not used afterwards.
        let module = unsafe { ManuallyDrop::take(&mut self.module) };
        let module = module.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: the entry is only called through a `&CodeModule` (see `call`), so nothing runs it now.
        unsafe { module.free_memory() };
    }
}

#[cfg(feature = "jit")]
impl std::fmt::Debug for CodeModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of code", self.bytes)
    }
}
