//! What lives in a context: streams, events, memory, locked pages.
//!
//! | | made | given back |
//! |---|---|---|
//! | [`Queue`] | a stream of ours, which waits for no other | when dropped; what it was asked for is done still |
//! | [`Event`] | a point of a stream, to wait for | when dropped; waits that were asked for go on |
//! | [`Memory`] | of the device | when dropped, which waits for whoever uses it |
//! | [`PageLock`] | of the host: copies from there run beside everything else | when dropped |
//!
//! Each enters its context for each call, and is known by a number, so that any thread may use it.
//! Where the context can't be entered any more, in the fork of a process, it is left as it is.

#![allow(unsafe_code, reason = "the driver's calls")]

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use super::context::Context;
use super::driver::{OUT_OF_MEMORY, call};
use super::module::Function;
use crate::device::DeviceError;

/// Streams that are not ordered with the default one.
const NON_BLOCKING: c_uint = 1;
/// Events whose waiters sleep.
const BLOCKING_SYNC: c_uint = 1;
/// Events that note no time: faster.
const DISABLE_TIMING: c_uint = 2;
/// Pages that are locked for all contexts.
const PORTABLE: c_uint = 1;

/// A point of a stream: the last that was [recorded](Self::record). Before that, one long past.
pub(super) struct Event {
    context: Arc<Context>,
    handle: usize,
}

impl Event {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, DeviceError> {
        let _scope = context.enter()?;
        let mut handle = ptr::null_mut();
        let flags = BLOCKING_SYNC | DISABLE_TIMING;
        // SAFETY: writes one pointer.
        unsafe { call!(context.driver, cuEventCreate(&raw mut handle, flags)) }?;
        Ok(Self { context: Arc::clone(context), handle: handle as usize })
    }

    /// What `queue` was asked for up to now.
    pub(super) fn record(&self, queue: &Queue) -> Result<(), DeviceError> {
        // SAFETY: the stream lives as long as `queue`.
        unsafe { self.record_on(queue.handle) }
    }

    /// What `stream` was asked for up to now.
    ///
    /// # Safety
    ///
    /// `stream` is the handle of a stream that lives, or one of CUDA's own numbers.
    pub(super) unsafe fn record_on(&self, stream: usize) -> Result<(), DeviceError> {
        let _scope = self.context.enter()?;
        // SAFETY: the event is ours, the stream is as promised.
        unsafe { call!(self.context.driver, cuEventRecord(self.handle as _, stream as _)) }
    }

    /// Has `stream` wait for it; this thread does not.
    ///
    /// # Safety
    ///
    /// As [`record_on`](Self::record_on).
    pub(super) unsafe fn hold_up(&self, stream: usize) -> Result<(), DeviceError> {
        let _scope = self.context.enter()?;
        // SAFETY: the event is ours, the stream is as promised.
        unsafe { call!(self.context.driver, cuStreamWaitEvent(stream as _, self.handle as _, 0)) }
    }

    /// Waits for it, asleep.
    pub(super) fn synchronize(&self) -> Result<(), DeviceError> {
        let _scope = self.context.enter()?;
        // SAFETY: the event is ours.
        unsafe { call!(self.context.driver, cuEventSynchronize(self.handle as _)) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_scope) = self.context.enter() {
            // SAFETY: the event is ours, and not used after.
            let _ = unsafe { call!(self.context.driver, cuEventDestroy_v2(self.handle as _)) };
        }
    }
}

/// A stream of ours.
pub(super) struct Queue {
    pub(super) context: Arc<Context>,
    pub(super) handle: usize,
}

impl Queue {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, DeviceError> {
        let _scope = context.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: writes one pointer.
        unsafe { call!(context.driver, cuStreamCreate(&raw mut handle, NON_BLOCKING)) }?;
        Ok(Self { context: Arc::clone(context), handle: handle as usize })
    }

    /// Goes on only after `event`.
    pub(super) fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { event.hold_up(self.handle) }
    }

    /// Waits until all is done.
    pub(super) fn synchronize(&self) -> Result<(), DeviceError> {
        let _scope = self.context.enter()?;
        // SAFETY: the stream is ours.
        unsafe { call!(self.context.driver, cuStreamSynchronize(self.handle as _)) }
    }

    /// Copies `from` to byte `at` of `to`, later.
    ///
    /// # Safety
    ///
    /// Until this queue has come so far, `from` stays where it is and nobody writes to it.
    pub(super) unsafe fn upload(
        &self,
        from: &[u8],
        to: &Memory,
        at: usize,
    ) -> Result<(), DeviceError> {
        let (target, source) = (to.span(at, from.len()), from.as_ptr().cast());
        let _scope = self.context.enter()?;
        // SAFETY: `span` checked the target; it is freed only after this is done. The source is
        // as promised.
        unsafe {
            let stream = self.handle as _;
            call!(self.context.driver, cuMemcpyHtoDAsync_v2(target, source, from.len(), stream))
        }
    }

    /// Copies what lies from byte `at` of `from` on, and waits for that.
    pub(super) fn download(
        &self,
        from: &Memory,
        at: usize,
        to: &mut [u8],
    ) -> Result<(), DeviceError> {
        let (source, target) = (from.span(at, to.len()), to.as_mut_ptr().cast());
        let _scope = self.context.enter()?;
        // SAFETY: `span` checked the source. `to` is borrowed until the copy is done: the next
        // call waits for it.
        unsafe {
            let stream = self.handle as _;
            call!(self.context.driver, cuMemcpyDtoHAsync_v2(target, source, to.len(), stream))
        }?;
        self.synchronize()
    }

    /// Zeroes `len` bytes from byte `at` of `memory` on, later.
    pub(super) fn zero(&self, memory: &Memory, at: usize, len: usize) -> Result<(), DeviceError> {
        let target = memory.span(at, len);
        let _scope = self.context.enter()?;
        // SAFETY: `span` checked the target; it is freed only after this is done.
        unsafe { call!(self.context.driver, cuMemsetD8Async(target, 0, len, self.handle as _)) }
    }

    /// Runs a kernel that takes one struct, of the bytes `arguments`, later.
    ///
    /// # Safety
    ///
    /// The kernel takes just that, and reads and writes only what lives until it is done.
    pub(super) unsafe fn launch(
        &self,
        function: &Function,
        grid: (u32, u32),
        threads: u32,
        arguments: &[u8],
    ) -> Result<(), DeviceError> {
        // The driver copies the struct before it returns, and only reads it.
        let mut parameters = [arguments.as_ptr().cast_mut().cast::<c_void>()];
        let parameters = parameters.as_mut_ptr();
        let (kernel, stream) = (function.handle as _, self.handle as _);
        let _scope = self.context.enter()?;
        // SAFETY: the function's module is loaded: it holds it. The rest is as promised.
        unsafe {
            let driver = self.context.driver;
            let none = ptr::null_mut();
            call!(
                driver,
                cuLaunchKernel(
                    kernel, grid.0, grid.1, 1, threads, 1, 1, 0, stream, parameters, none
                )
            )
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Ok(_scope) = self.context.enter() {
            // SAFETY: the stream is ours, and not used after.
            let _ = unsafe { call!(self.context.driver, cuStreamDestroy_v2(self.handle as _)) };
        }
    }
}

/// Memory of the device.
pub(super) struct Memory {
    context: Arc<Context>,
    address: u64,
    bytes: usize,
}

impl Memory {
    /// Memory of at least one byte; what lies there is anything.
    pub(super) fn new(
        context: &Arc<Context>,
        bytes: usize,
        what: &'static str,
    ) -> Result<Self, DeviceError> {
        let (driver, bytes) = (context.driver, bytes.max(1));
        let _scope = context.enter()?;
        let mut address = 0;
        // SAFETY: writes one address.
        let code = unsafe { (driver.cuMemAlloc_v2)(&raw mut address, bytes) };
        if code == OUT_OF_MEMORY {
            return Err(DeviceError::NoMemory { bytes: bytes as u64, what });
        }
        driver.check("cuMemAlloc_v2", code)?;
        Ok(Self { context: Arc::clone(context), address, bytes })
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of byte `at`, if `len` bytes from there on are of this memory.
    ///
    /// # Panics
    ///
    /// If they are not.
    pub(super) fn span(&self, at: usize, len: usize) -> u64 {
        let end = at.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.bytes), "bytes {at}+{len} of {}", self.bytes);
        self.address + at as u64
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Ok(_scope) = self.context.enter() {
            // SAFETY: the memory is ours, and not used after. The driver waits for what it was
            // asked to do with it.
            let _ = unsafe { call!(self.context.driver, cuMemFree_v2(self.address)) };
        }
    }
}

/// Memory of the host whose pages stay where they are, so that the device itself reads them.
pub(super) struct PageLock {
    context: Arc<Context>,
    start: usize,
    bytes: usize,
}

impl PageLock {
    /// Divides the size of a page on every machine.
    const PAGE: usize = 4096;

    /// Locks the pages of `memory`.
    ///
    /// # Errors
    ///
    /// If the system allows no more locked pages, or has no such thing.
    ///
    /// # Safety
    ///
    /// `memory` begins at a page of a mapping, and is mapped until this is dropped.
    pub(super) unsafe fn new(context: &Arc<Context>, memory: &[u8]) -> Result<Self, DeviceError> {
        let (start, bytes) = (memory.as_ptr(), memory.len().next_multiple_of(Self::PAGE));
        let _scope = context.enter()?;
        // SAFETY: the pages are mapped, as promised: a mapping has whole pages.
        unsafe {
            let start = start.cast_mut().cast();
            call!(context.driver, cuMemHostRegister_v2(start, bytes, PORTABLE))
        }?;
        Ok(Self { context: Arc::clone(context), start: start as usize, bytes })
    }

    /// Whether all of `memory` is locked.
    pub(super) fn covers(&self, memory: &[u8]) -> bool {
        self.start == memory.as_ptr() as usize && memory.len() <= self.bytes
    }
}

impl Drop for PageLock {
    fn drop(&mut self) {
        if let Ok(_scope) = self.context.enter() {
            // SAFETY: undoes what `new` did.
            let _ = unsafe { call!(self.context.driver, cuMemHostUnregister(self.start as _)) };
        }
    }
}
