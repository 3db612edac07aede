//! The driver through cudarc; an error is the driver's error number.
//!
//! Everything that is given to a stream must live until the stream is done: tests wait for their
//! streams.
#![allow(unsafe_code, clippy::missing_safety_doc, reason = "the driver's functions")]

use cudarc::driver::sys;
use std::ffi::{CString, c_void};
use std::ptr;

pub(crate) type Answer<T> = Result<T, i32>;

/// Handles of streams, events, modules and functions.
pub(crate) type Handle = usize;

fn answer(code: sys::CUresult) -> Answer<()> {
    if code as i32 == 0 { Ok(()) } else { Err(code as i32) }
}

/// Returns the value that a function writes through a pointer.
fn made<T: Default>(call: impl FnOnce(*mut T) -> sys::CUresult) -> Answer<T> {
    let mut value = T::default();
    answer(call(&raw mut value))?;
    Ok(value)
}

pub(crate) fn init() -> Answer<()> {
    // SAFETY: takes no pointer.
    answer(unsafe { sys::cuInit(0) })
}

pub(crate) fn devices() -> Answer<i32> {
    // SAFETY: a pointer to the count.
    made(|count| unsafe { sys::cuDeviceGetCount(count) })
}

/// Initializes the driver, and makes a device's context the current one.
pub(crate) fn open(device: i32) -> Answer<()> {
    init()?;
    enter(device)
}

pub(crate) fn enter(device: i32) -> Answer<()> {
    // SAFETY: a pointer to the handle, which has the size of an address.
    let context = made(|context: *mut Handle| unsafe {
        sys::cuDevicePrimaryCtxRetain(context.cast(), device)
    })?;
    // SAFETY: a context that was just retained.
    answer(unsafe { sys::cuCtxSetCurrent(context as _) })
}

pub(crate) fn release(device: i32) -> Answer<()> {
    // SAFETY: takes no pointer.
    answer(unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) })
}

pub(crate) fn alloc(len: usize) -> Answer<u64> {
    // SAFETY: a pointer to the address.
    made(|address| unsafe { sys::cuMemAlloc_v2(address, len) })
}

pub(crate) fn free(address: u64) -> Answer<()> {
    // SAFETY: the driver looks the address up.
    answer(unsafe { sys::cuMemFree_v2(address) })
}

pub(crate) fn stream() -> Answer<Handle> {
    // SAFETY: a pointer to the handle.
    made(|stream: *mut Handle| unsafe { sys::cuStreamCreate(stream.cast(), 1) })
}

pub(crate) fn event() -> Answer<Handle> {
    // SAFETY: a pointer to the handle.
    made(|event: *mut Handle| unsafe { sys::cuEventCreate(event.cast(), 2) })
}

pub(crate) fn destroy_stream(stream: Handle) -> Answer<()> {
    // SAFETY: the fake looks handles up.
    answer(unsafe { sys::cuStreamDestroy_v2(stream as _) })
}

pub(crate) fn destroy_event(event: Handle) -> Answer<()> {
    // SAFETY: the fake looks handles up.
    answer(unsafe { sys::cuEventDestroy_v2(event as _) })
}

pub(crate) fn record(event: Handle, stream: Handle) -> Answer<()> {
    // SAFETY: the fake looks handles up.
    answer(unsafe { sys::cuEventRecord(event as _, stream as _) })
}

pub(crate) fn wait(stream: Handle, event: Handle) -> Answer<()> {
    // SAFETY: the fake looks handles up.
    answer(unsafe { sys::cuStreamWaitEvent(stream as _, event as _, 0) })
}

pub(crate) fn wait_on_host(event: Handle) -> Answer<()> {
    // SAFETY: the fake looks handles up.
    answer(unsafe { sys::cuEventSynchronize(event as _) })
}

pub(crate) fn is_done(event: Handle) -> Answer<()> {
    // SAFETY: the fake looks handles up.
    answer(unsafe { sys::cuEventQuery(event as _) })
}

pub(crate) fn finish(stream: Handle) -> Answer<()> {
    // SAFETY: the fake looks handles up.
    answer(unsafe { sys::cuStreamSynchronize(stream as _) })
}

pub(crate) fn is_idle(stream: Handle) -> Answer<()> {
    // SAFETY: the fake looks handles up.
    answer(unsafe { sys::cuStreamQuery(stream as _) })
}

/// Page-locked memory that the driver allocated.
pub(crate) struct Pinned {
    at: *mut u8,
    len: usize,
}

impl Pinned {
    pub(crate) fn new(len: usize) -> Answer<Self> {
        // SAFETY: a pointer to the address.
        let at = made(|at: *mut usize| unsafe { sys::cuMemHostAlloc(at.cast(), len, 0) })?;
        Ok(Self { at: at as *mut u8, len })
    }

    pub(crate) fn fill(&self, byte: u8) {
        // SAFETY: `len` bytes; tests let a copy read them at the same time on purpose.
        unsafe { ptr::write_bytes(self.at, byte, self.len) };
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: `len` bytes; tests read them after the stream is done.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }.to_vec()
    }

    pub(crate) fn upload(&self, to: u64, stream: Handle) -> Answer<()> {
        // SAFETY: `len` bytes, which live until `free`.
        answer(unsafe { sys::cuMemcpyHtoDAsync_v2(to, self.at.cast(), self.len, stream as _) })
    }

    pub(crate) fn download(&self, from: u64, stream: Handle) -> Answer<()> {
        // SAFETY: the same as in `upload`.
        answer(unsafe { sys::cuMemcpyDtoHAsync_v2(self.at.cast(), from, self.len, stream as _) })
    }

    pub(crate) fn free(self) -> Answer<()> {
        // SAFETY: the driver's own memory.
        answer(unsafe { sys::cuMemFreeHost(self.at.cast()) })
    }
}

pub(crate) fn upload(to: u64, bytes: &[u8], stream: Handle) -> Answer<()> {
    // SAFETY: bytes that are not page-locked are read before the call returns.
    answer(unsafe {
        sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), stream as _)
    })
}

pub(crate) fn download(from: u64, len: usize) -> Answer<Vec<u8>> {
    let mut bytes = vec![0; len];
    // SAFETY: `bytes` has `len` bytes, and the call waits.
    answer(unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), from, len) })?;
    Ok(bytes)
}

pub(crate) fn copy(to: u64, from: u64, len: usize, stream: Handle) -> Answer<()> {
    // SAFETY: the driver checks both ranges.
    answer(unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, len, stream as _) })
}

pub(crate) fn fill(to: u64, byte: u8, len: usize, stream: Handle) -> Answer<()> {
    // SAFETY: the driver checks the range.
    answer(unsafe { sys::cuMemsetD8Async(to, byte, len, stream as _) })
}

pub(crate) fn register(bytes: &[u8]) -> Answer<()> {
    // SAFETY: valid bytes.
    answer(unsafe { sys::cuMemHostRegister_v2(bytes.as_ptr().cast_mut().cast(), bytes.len(), 0) })
}

pub(crate) fn unregister(bytes: &[u8]) -> Answer<()> {
    // SAFETY: the driver looks the address up.
    answer(unsafe { sys::cuMemHostUnregister(bytes.as_ptr().cast_mut().cast()) })
}

/// Loads an image; an error contains the driver's log.
pub(crate) fn load(image: &[u8]) -> Result<Handle, (i32, String)> {
    let image = [image, &[0]].concat();
    let mut log = vec![0u8; 512];
    use sys::CUjit_option_enum::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr() as *mut c_void, log.len() as *mut c_void];
    // SAFETY: a NUL-terminated image, two options, and as much room for the log as they say.
    let module = made(|module: *mut Handle| unsafe {
        let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
        sys::cuModuleLoadDataEx(module.cast(), image.as_ptr().cast(), 2, options, values)
    });
    module.map_err(|code| {
        let text = String::from_utf8_lossy(&log);
        (code, text.trim_end_matches('\0').to_owned())
    })
}

pub(crate) fn unload(module: Handle) -> Answer<()> {
    // SAFETY: the fake looks handles up.
    answer(unsafe { sys::cuModuleUnload(module as _) })
}

pub(crate) fn function(module: Handle, name: &str) -> Answer<Handle> {
    let name = CString::new(name).unwrap();
    // SAFETY: a pointer to the handle, and a string.
    made(|function: *mut Handle| unsafe {
        sys::cuModuleGetFunction(function.cast(), module as _, name.as_ptr())
    })
}

/// Launches a kernel of one argument, with as many threads per block as our kernels have.
pub(crate) fn launch(
    function: Handle,
    blocks: [u32; 2],
    argument: &[u8],
    stream: Handle,
) -> Answer<()> {
    let mut argument = argument.to_vec();
    let mut arguments = [argument.as_mut_ptr().cast::<c_void>()];
    let [x, y] = blocks;
    // SAFETY: one argument, as long as the test says: the fake copies it during the call.
    answer(unsafe {
        let arguments = arguments.as_mut_ptr();
        sys::cuLaunchKernel(
            function as _,
            x,
            y,
            1,
            256,
            1,
            1,
            0,
            stream as _,
            arguments,
            ptr::null_mut(),
        )
    })
}
