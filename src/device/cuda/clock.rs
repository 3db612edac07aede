//! Driver calls that only benchmarks use: timing on the device, copies inside the device's memory, and
//! host memory that the driver allocates.
//!
//! ```text
//! stream ──begin──▶ work ──end──▶      millis: the time between the two on the device
//! ```

#![allow(unsafe_code, reason = "the driver's calls")]

use crate::device::error::no_memory;
use crate::error::Error;
use std::ffi::c_uint;
use std::ptr;
use std::slice;
use std::sync::Arc;

use super::context::Context;
use super::driver::call;
use super::handles::{DeviceMemory, OwnedStream};

/// The flag of events whose waiters sleep, and which record timestamps.
const BLOCKING_SYNC: c_uint = 1;
/// The flag of pages that are locked for all contexts.
const PORTABLE: c_uint = 1;

/// Two points of a stream, and the time between them.
pub(super) struct Clock {
    context: Arc<Context>,
    begun: usize,
    ended: usize,
}

impl Clock {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, Error> {
        let mut clock = Self { context: Arc::clone(context), begun: 0, ended: 0 };
        let _scope = context.enter()?;
        for handle in [&mut clock.begun, &mut clock.ended] {
            let mut event = ptr::null_mut();
            // SAFETY: writes one pointer.
            unsafe { call!(context.driver, cuEventCreate(&raw mut event, BLOCKING_SYNC)) }?;
            *handle = event as usize;
        }
        Ok(clock)
    }

    pub(super) fn begin(&self, queue: &OwnedStream) -> Result<(), Error> {
        self.record(self.begun, queue)
    }

    pub(super) fn end(&self, queue: &OwnedStream) -> Result<(), Error> {
        self.record(self.ended, queue)
    }

    fn record(&self, event: usize, queue: &OwnedStream) -> Result<(), Error> {
        let _scope = self.context.enter()?;
        // SAFETY: the event is ours, and the stream lives as long as `queue`.
        unsafe { call!(self.context.driver, cuEventRecord(event as _, queue.handle as _)) }
    }

    /// Waits for the second point and returns the milliseconds between the two.
    pub(super) fn millis(&self) -> Result<f64, Error> {
        let (driver, mut millis) = (self.context.driver, 0.0);
        let _scope = self.context.enter()?;
        // SAFETY: the events are ours; writes one float.
        unsafe {
            let (begun, ended) = (self.begun as _, self.ended as _);
            call!(driver, cuEventSynchronize(ended))?;
            call!(driver, cuEventElapsedTime(&raw mut millis, begun, ended))?;
        }
        Ok(f64::from(millis))
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let Ok(_scope) = self.context.enter() else { return };
        for event in [self.begun, self.ended].into_iter().filter(|event| *event != 0) {
            // SAFETY: the event is ours, and not used after.
            let _ = unsafe { call!(self.context.driver, cuEventDestroy_v2(event as _)) };
        }
    }
}

/// Enqueues a copy of `len` bytes from one memory of the device to another.
pub(super) fn copy_across(
    queue: &OwnedStream,
    from: &DeviceMemory,
    to: &DeviceMemory,
    len: usize,
) -> Result<(), Error> {
    let (source, target) = (from.span(0, len), to.span(0, len));
    let _scope = queue.context.enter()?;
    // SAFETY: `span` checked both; they are freed only after this is done.
    unsafe {
        let stream = queue.handle as _;
        call!(queue.context.driver, cuMemcpyDtoDAsync_v2(target, source, len, stream))
    }
}

/// Page-locked host memory that the driver allocated, zeroed.
pub(super) struct HostMemory {
    context: Arc<Context>,
    start: ptr::NonNull<u8>,
    bytes: usize,
}

impl HostMemory {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Error> {
        let mut start = ptr::null_mut();
        let _scope = context.enter()?;
        // SAFETY: writes one pointer.
        unsafe { call!(context.driver, cuMemHostAlloc(&raw mut start, bytes, PORTABLE)) }?;
        let none = || no_memory(bytes as u64, "page-locked memory");
        let start = ptr::NonNull::new(start.cast::<u8>()).ok_or_else(none)?;
        // SAFETY: `bytes` bytes were just allocated.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self { context: Arc::clone(context), start, bytes })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `new` allocated this many bytes and wrote all of them; nothing writes to them any
        // more.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Ok(_scope) = self.context.enter() {
            let start = self.start.as_ptr().cast();
            // SAFETY: `new` allocated the memory, and it is not used after: the code that enqueued
            // copies waited for them.
            let _ = unsafe { call!(self.context.driver, cuMemFreeHost(start)) };
        }
    }
}
