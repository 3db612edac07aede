//! A GPU's primary context, which PyTorch and other users in the process share.
//!
//! ```text
//! caller's context   ──enter──▶   ours   ──Scope dropped──▶   caller's context
//! ```
//!
//! The context is current only inside a [`Scope`]: a thread that uses another GPU finds that GPU's
//! context unchanged. CUDA does not survive a fork, so a forked child can't enter the context, and the
//! objects that it drops are not released: the driver in the child does not know them.

#![allow(unsafe_code, reason = "the driver's calls")]

use crate::device::error::forked;
use crate::error::Error;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::process;

use super::driver::{Driver, call};

/// A context, retained until this is dropped.
pub(super) struct Context {
    pub(super) driver: &'static Driver,
    device: c_int,
    /// The driver's pointer, as a number: any thread may use it.
    handle: usize,
    process: u32,
}

/// Makes a context current on this thread while it lives. It stays on its thread.
pub(super) struct Scope<'a> {
    context: &'a Context,
    thread: PhantomData<*const ()>,
}

impl Context {
    /// Retains the context of a GPU, creating it if the process has none yet.
    pub(super) fn retain(driver: &'static Driver, device: c_int) -> Result<Self, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one pointer. What is retained here is released in `drop`.
        unsafe { call!(driver, cuDevicePrimaryCtxRetain(&raw mut handle, device)) }?;
        Ok(Self { driver, device, handle: handle as usize, process: process::id() })
    }

    /// Makes the context current on this thread.
    ///
    /// # Errors
    ///
    /// In a fork of the process that opened the context, or if the driver is shutting down.
    pub(super) fn enter(&self) -> Result<Scope<'_>, Error> {
        if process::id() != self.process {
            return Err(forked());
        }
        // SAFETY: the context is retained for as long as `self` lives.
        unsafe { call!(self.driver, cuCtxPushCurrent_v2(self.handle as _)) }?;
        Ok(Scope { context: self, thread: PhantomData })
    }

    /// Waits for all work that any code enqueued on the GPU through this context.
    pub(super) fn synchronize(&self) -> Result<(), Error> {
        let _scope = self.enter()?;
        // SAFETY: the context is current.
        unsafe { call!(self.driver, cuCtxSynchronize()) }
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: writes one pointer. The popped context is the one that `enter` pushed: a scope stays
        // on its thread, and scopes on one thread end in the order they nest.
        let _ = unsafe { call!(self.context.driver, cuCtxPopCurrent_v2(&raw mut popped)) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if process::id() == self.process {
            // SAFETY: releases what `retain` retained. All objects created in the context hold it, and
            // are gone. An error is ignored: the driver is shutting down.
            let _ = unsafe { call!(self.driver, cuDevicePrimaryCtxRelease_v2(self.device)) };
        }
    }
}
