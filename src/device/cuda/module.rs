//! A loaded module of kernels on a device, and its functions.
//!
//! The module is unloaded with the last of its functions. If the driver rejects the code, its log is in
//! the error.

#![allow(unsafe_code, reason = "the driver's calls")]

use crate::error::{Error, fail};
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;

use super::context::Context;
use super::driver::call;
use super::sys;

/// Code loaded to a device.
pub(super) struct Module {
    context: Arc<Context>,
    handle: usize,
}

impl Module {
    /// The bytes of the buffer for the driver's log.
    const LOG: usize = 4096;

    /// Loads a CUBIN, or PTX.
    ///
    /// # Errors
    ///
    /// If the driver rejects the code, with the driver's log.
    pub(super) fn load(context: &Arc<Context>, image: &[u8]) -> Result<Arc<Self>, Error> {
        // PTX must end in a zero byte; a CUBIN contains its own length.
        let image: Vec<u8> = image.iter().copied().chain([0]).collect();
        let mut log = vec![0u8; Self::LOG];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The second value is a number in place of a pointer. One byte of the log stays 0.
        let room = ptr::without_provenance_mut(Self::LOG - 1);
        let mut values = [log.as_mut_ptr().cast::<c_void>(), room];
        let (driver, mut handle) = (context.driver, ptr::null_mut());
        let _scope = context.enter()?;
        // SAFETY: writes one pointer, and at most `room` bytes to the log; both options have a value.
        // The image is a whole CUBIN, or text that ends in a zero byte.
        let code = unsafe {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            let image = image.as_ptr().cast();
            (driver.cuModuleLoadDataEx)(&raw mut handle, image, 2, options, values)
        };
        if code != 0 {
            return Err(refused(&with_log(driver.reason(code), &log)));
        }
        Ok(Arc::new(Self { context: Arc::clone(context), handle: handle as usize }))
    }

    /// Returns the kernel called `name`.
    pub(super) fn function(self: &Arc<Self>, name: &str) -> Result<KernelFunction, Error> {
        let none = || refused(&format!("it has no function '{name}'"));
        let text = CString::new(name).map_err(|_| none())?;
        let mut handle = ptr::null_mut();
        let _scope = self.context.enter()?;
        // SAFETY: writes one pointer; the module is loaded, the name ends in a zero byte.
        unsafe {
            let module = self.handle as _;
            call!(self.context.driver, cuModuleGetFunction(&raw mut handle, module, text.as_ptr()))
        }
        .map_err(|_| none())?;
        Ok(KernelFunction { handle: handle as usize, _module: Arc::clone(self) })
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

/// Returns the reason of the driver's error, together with the driver's log.
fn with_log(reason: String, log: &[u8]) -> String {
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    match String::from_utf8_lossy(text).trim() {
        "" => reason,
        said => format!("{reason}: {said}"),
    }
}

fn refused(log: &str) -> Error {
    fail!(
        Device,
        "the driver refused a kernel ({log}): update the driver, or name an NVRTC no newer than it in FUSELOOP_NVRTC"
    )
}

/// A kernel.
pub(super) struct KernelFunction {
    pub(super) handle: usize,
    _module: Arc<Module>,
}
