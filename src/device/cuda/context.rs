//! A GPU's primary context: the one that PyTorch and others in the process use too.
//!
//! ```text
//! caller's context   ──enter──▶   ours   ──Scope dropped──▶   caller's context
//! ```
//!
//! It is current only inside a [`Scope`]: a thread that is with another GPU finds that one as it
//! left it. CUDA does not survive a fork, so that the child of one can't enter, and what it drops is
//! not given back to a driver that does not know it.

#![allow(unsafe_code, reason = "the driver's calls")]

use std::ffi::c_int;
use std::marker::PhantomData;
use std::process;

use super::driver::{Driver, call};
use crate::device::DeviceError;

/// A context, kept until this is dropped.
pub(super) struct Context {
    pub(super) driver: &'static Driver,
    device: c_int,
    /// The driver's pointer, as a number: any thread may use it.
    handle: usize,
    process: u32,
}

/// While it lives a context is this thread's. It stays on its thread.
pub(super) struct Scope<'a> {
    context: &'a Context,
    thread: PhantomData<*const ()>,
}

impl Context {
    /// The context of a GPU, made if nobody has it yet.
    pub(super) fn retain(driver: &'static Driver, device: c_int) -> Result<Self, DeviceError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one pointer. What is retained here is released in `drop`.
        unsafe { call!(driver, cuDevicePrimaryCtxRetain(&raw mut handle, device)) }?;
        Ok(Self { driver, device, handle: handle as usize, process: process::id() })
    }

    /// Makes it this thread's.
    ///
    /// # Errors
    ///
    /// In a fork of the process that opened it, or if the driver is going.
    pub(super) fn enter(&self) -> Result<Scope<'_>, DeviceError> {
        if process::id() != self.process {
            return Err(DeviceError::Forked);
        }
        // SAFETY: the context is retained for as long as `self` lives.
        unsafe { call!(self.driver, cuCtxPushCurrent_v2(self.handle as _)) }?;
        Ok(Scope { context: self, thread: PhantomData })
    }

    /// Waits for everything that was asked of the GPU through it, by anybody.
    pub(super) fn synchronize(&self) -> Result<(), DeviceError> {
        let _scope = self.enter()?;
        // SAFETY: the context is current.
        unsafe { call!(self.driver, cuCtxSynchronize()) }
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: writes one pointer. What is popped is what `enter` pushed: a scope stays on its
        // thread, and scopes on one thread end in the order they nest.
        let _ = unsafe { call!(self.context.driver, cuCtxPopCurrent_v2(&raw mut popped)) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if process::id() == self.process {
            // SAFETY: ends what `retain` began. Everything made in it holds it, and is gone.
            // An error is of no use: the driver is going.
            let _ = unsafe { call!(self.driver, cuDevicePrimaryCtxRelease_v2(self.device)) };
        }
    }
}
