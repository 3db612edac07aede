//! Kernels on a device: a module, loaded, and its functions.
//!
//! The module goes with the last of its functions. What the driver says of code that it refuses is
//! in the error.

#![allow(unsafe_code, reason = "the driver's calls")]

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;

use super::context::Context;
use super::driver::call;
use crate::device::DeviceError;

/// Code, loaded to a device.
pub(super) struct Module {
    context: Arc<Context>,
    handle: usize,
}

impl Module {
    /// Bytes kept for what the driver says of code that it refuses.
    const LOG: usize = 4096;

    /// Loads a CUBIN, or PTX.
    ///
    /// # Errors
    ///
    /// If the driver refuses it, with what it says.
    pub(super) fn load(context: &Arc<Context>, image: &[u8]) -> Result<Arc<Self>, DeviceError> {
        // PTX ends at a zero; a CUBIN knows where it ends.
        let image: Vec<u8> = image.iter().copied().chain([0]).collect();
        let mut log = vec![0u8; Self::LOG];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The second is a number in a pointer's place. One byte of the log stays 0.
        let room = ptr::without_provenance_mut(Self::LOG - 1);
        let mut values = [log.as_mut_ptr().cast::<c_void>(), room];
        let (driver, mut handle) = (context.driver, ptr::null_mut());
        let _scope = context.enter()?;
        // SAFETY: writes one pointer, and to the log no more than there is room; both options
        // have a value. The image is a whole one, or text that ends at a zero.
        let loaded = unsafe {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            let image = image.as_ptr().cast();
            call!(driver, cuModuleLoadDataEx(&raw mut handle, image, 2, options, values))
        };
        loaded.map_err(|error| refused(error, &log))?;
        Ok(Arc::new(Self { context: Arc::clone(context), handle: handle as usize }))
    }

    /// The kernel called `name`.
    pub(super) fn function(self: &Arc<Self>, name: &str) -> Result<Function, DeviceError> {
        let none = || DeviceError::Module { log: format!("it has no function '{name}'") };
        let text = CString::new(name).map_err(|_| none())?;
        let mut handle = ptr::null_mut();
        let _scope = self.context.enter()?;
        // SAFETY: writes one pointer; the module is loaded, the name ends at a zero.
        unsafe {
            let module = self.handle as _;
            call!(self.context.driver, cuModuleGetFunction(&raw mut handle, module, text.as_ptr()))
        }
        .map_err(|_| none())?;
        Ok(Function { handle: handle as usize, _module: Arc::clone(self) })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok(_scope) = self.context.enter() {
            // SAFETY: the module is ours, and none of its functions is left.
            let _ = unsafe { call!(self.context.driver, cuModuleUnload(self.handle as _)) };
        }
    }
}

/// The driver's error for an image, and what it wrote to the log.
fn refused(error: DeviceError, log: &[u8]) -> DeviceError {
    let DeviceError::Driver { reason, .. } = error else { return error };
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let log = match text.trim() {
        "" => reason,
        said => format!("{reason}: {said}"),
    };
    DeviceError::Module { log }
}

/// A kernel.
pub(super) struct Function {
    pub(super) handle: usize,
    _module: Arc<Module>,
}
