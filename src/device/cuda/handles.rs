//! The objects of a context: streams, events, memory, locked pages.
//!
//! | type | content | released |
//! |---|---|---|
//! | [`OwnedStream`] | a stream of ours, which waits for no other | when dropped; enqueued work still runs |
//! | [`CudaEvent`] | a point of a stream, to wait for | when dropped; enqueued waits still work |
//! | [`DeviceMemory`] | memory of the device | when dropped, after all work that uses it |
//! | [`PageLock`] | locked pages of the host, whose copies run asynchronously | when dropped |
//!
//! Each object enters its context for each call and stores a handle as a number, so that any thread may
//! use it. If the context can't be entered any more, in the fork of a process, the object is leaked.

#![allow(unsafe_code, reason = "the driver's calls")]

use crate::device::error::no_memory;
use crate::error::Error;
use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use super::context::Context;
use super::driver::{OUT_OF_MEMORY, call};
use super::module::KernelFunction;

/// The flag of streams that are not ordered with the default stream.
const NON_BLOCKING: c_uint = 1;
/// The flag of events whose waiters sleep.
const BLOCKING_SYNC: c_uint = 1;
/// The flag of events without timestamps, which are faster.
const DISABLE_TIMING: c_uint = 2;
/// The flag of pages that are locked for all contexts.
const PORTABLE: c_uint = 1;

/// A point of a stream: the last [recorded](Self::record) one. An event that was never recorded counts
/// as complete.
pub(super) struct CudaEvent {
    context: Arc<Context>,
    handle: usize,
}

impl CudaEvent {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, Error> {
        let _scope = context.enter()?;
        let mut handle = ptr::null_mut();
        let flags = BLOCKING_SYNC | DISABLE_TIMING;
        // SAFETY: writes one pointer.
        unsafe { call!(context.driver, cuEventCreate(&raw mut handle, flags)) }?;
        Ok(Self { context: Arc::clone(context), handle: handle as usize })
    }

    /// Records the work enqueued on `queue` up to now.
    pub(super) fn record(&self, queue: &OwnedStream) -> Result<(), Error> {
        // SAFETY: the stream lives as long as `queue`.
        unsafe { self.record_on(queue.handle) }
    }

    /// Records the work enqueued on `stream` up to now.
    ///
    /// # Safety
    ///
    /// `stream` is the handle of a live stream, or one of CUDA's own numbers.
    pub(super) unsafe fn record_on(&self, stream: usize) -> Result<(), Error> {
        let _scope = self.context.enter()?;
        // SAFETY: the event is ours, the stream is valid by the caller's promise.
        unsafe { call!(self.context.driver, cuEventRecord(self.handle as _, stream as _)) }
    }

    /// Makes `stream` wait for the event; this thread does not wait.
    ///
    /// # Safety
    ///
    /// See [`record_on`](Self::record_on).
    pub(super) unsafe fn make_wait(&self, stream: usize) -> Result<(), Error> {
        let _scope = self.context.enter()?;
        // SAFETY: the event is ours, the stream is valid by the caller's promise.
        unsafe { call!(self.context.driver, cuStreamWaitEvent(stream as _, self.handle as _, 0)) }
    }

    /// Blocks this thread until the event.
    pub(super) fn synchronize(&self) -> Result<(), Error> {
        let _scope = self.context.enter()?;
        // SAFETY: the event is ours.
        unsafe { call!(self.context.driver, cuEventSynchronize(self.handle as _)) }
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if let Ok(_scope) = self.context.enter() {
            // SAFETY: the event is ours, and not used after.
            let _ = unsafe { call!(self.context.driver, cuEventDestroy_v2(self.handle as _)) };
        }
    }
}

/// A stream of ours.
pub(super) struct OwnedStream {
    pub(super) context: Arc<Context>,
    pub(super) handle: usize,
}

impl OwnedStream {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, Error> {
        let _scope = context.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: writes one pointer.
        unsafe { call!(context.driver, cuStreamCreate(&raw mut handle, NON_BLOCKING)) }?;
        Ok(Self { context: Arc::clone(context), handle: handle as usize })
    }

    /// Makes later work on this stream wait for `event`.
    pub(super) fn wait(&self, event: &CudaEvent) -> Result<(), Error> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { event.make_wait(self.handle) }
    }

    /// Blocks this thread until all enqueued work is done.
    pub(super) fn synchronize(&self) -> Result<(), Error> {
        let _scope = self.context.enter()?;
        // SAFETY: the stream is ours.
        unsafe { call!(self.context.driver, cuStreamSynchronize(self.handle as _)) }
    }

    /// Enqueues a copy of `from` to byte `at` of `to`.
    ///
    /// # Safety
    ///
    /// Until the copy is done, `from` stays mapped and is not written.
    pub(super) unsafe fn upload(
        &self,
        from: &[u8],
        to: &DeviceMemory,
        at: usize,
    ) -> Result<(), Error> {
        let (target, source) = (to.span(at, from.len()), from.as_ptr().cast());
        let _scope = self.context.enter()?;
        // SAFETY: `span` checked the target; it is freed only after this is done. The source is valid by
        // the caller's promise.
        unsafe {
            let stream = self.handle as _;
            call!(self.context.driver, cuMemcpyHtoDAsync_v2(target, source, from.len(), stream))
        }
    }

    /// Copies the bytes of `from` from byte `at` on, and waits for the copy.
    pub(super) fn download(
        &self,
        from: &DeviceMemory,
        at: usize,
        to: &mut [u8],
    ) -> Result<(), Error> {
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

    /// Enqueues zeroing `len` bytes from byte `at` of `memory` on.
    pub(super) fn zero(&self, memory: &DeviceMemory, at: usize, len: usize) -> Result<(), Error> {
        let target = memory.span(at, len);
        let _scope = self.context.enter()?;
        // SAFETY: `span` checked the target; it is freed only after this is done.
        unsafe { call!(self.context.driver, cuMemsetD8Async(target, 0, len, self.handle as _)) }
    }

    /// Enqueues a kernel that takes one struct of the bytes `arguments`.
    ///
    /// # Safety
    ///
    /// The kernel takes exactly this struct, and accesses only memory that lives until it is done.
    pub(super) unsafe fn launch(
        &self,
        function: &KernelFunction,
        grid: (u32, u32),
        threads: u32,
        arguments: &[u8],
    ) -> Result<(), Error> {
        // The driver copies the struct before it returns, and only reads it.
        let mut parameters = [arguments.as_ptr().cast_mut().cast::<c_void>()];
        let parameters = parameters.as_mut_ptr();
        let (kernel, stream) = (function.handle as _, self.handle as _);
        let _scope = self.context.enter()?;
        // SAFETY: the function holds its loaded module. The caller promises the rest.
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

impl Drop for OwnedStream {
    fn drop(&mut self) {
        if let Ok(_scope) = self.context.enter() {
            // SAFETY: the stream is ours, and not used after.
            let _ = unsafe { call!(self.context.driver, cuStreamDestroy_v2(self.handle as _)) };
        }
    }
}

/// Memory of the device.
pub(super) struct DeviceMemory {
    context: Arc<Context>,
    address: u64,
    bytes: usize,
}

impl DeviceMemory {
    /// Allocates at least one byte of uninitialized memory.
    pub(super) fn new(
        context: &Arc<Context>,
        bytes: usize,
        what: &'static str,
    ) -> Result<Self, Error> {
        let (driver, bytes) = (context.driver, bytes.max(1));
        let _scope = context.enter()?;
        let mut address = 0;
        // SAFETY: writes one address.
        let code = unsafe { (driver.cuMemAlloc_v2)(&raw mut address, bytes) };
        if code == OUT_OF_MEMORY {
            return Err(no_memory(bytes as u64, what));
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

    /// Returns the address of byte `at`, if `len` bytes from there on are in this memory.
    ///
    /// # Panics
    ///
    /// If they are not in this memory.
    pub(super) fn span(&self, at: usize, len: usize) -> u64 {
        let end = at.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.bytes), "bytes {at}+{len} of {}", self.bytes);
        self.address + at as u64
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Ok(_scope) = self.context.enter() {
            // SAFETY: the memory is ours, and not used after. The driver waits for enqueued work that
            // uses it.
            let _ = unsafe { call!(self.context.driver, cuMemFree_v2(self.address)) };
        }
    }
}

/// Locked memory of the host, which the device reads directly.
pub(super) struct PageLock {
    context: Arc<Context>,
    start: usize,
    bytes: usize,
}

impl PageLock {
    /// A divisor of the page size of every machine.
    const PAGE: usize = 4096;

    /// Locks the pages of `memory`.
    ///
    /// # Errors
    ///
    /// If the system allows no more locked pages, or does not support them.
    ///
    /// # Safety
    ///
    /// `memory` starts at a page of a mapping, and is mapped until this is dropped.
    pub(super) unsafe fn new(context: &Arc<Context>, memory: &[u8]) -> Result<Self, Error> {
        let (start, bytes) = (memory.as_ptr(), memory.len().next_multiple_of(Self::PAGE));
        let _scope = context.enter()?;
        // SAFETY: the pages are mapped, by the caller's promise: a mapping has whole pages.
        unsafe {
            let start = start.cast_mut().cast();
            call!(context.driver, cuMemHostRegister_v2(start, bytes, PORTABLE))
        }?;
        Ok(Self { context: Arc::clone(context), start: start as usize, bytes })
    }

    /// Returns true if all of `memory` is locked.
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
