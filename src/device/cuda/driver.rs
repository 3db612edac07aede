//! CUDA's driver: the functions that we call, each looked up once.
//!
//! | purpose | functions of libcuda |
//! |---|---|
//! | discovery | `cuInit`, `cuDriverGetVersion`, `cuDeviceGet`, `cuDeviceGetCount`, `cuDeviceGetName`, `cuDeviceGetAttribute`, `cuDeviceGetPCIBusId`, `cuDeviceTotalMem_v2` |
//! | contexts | `cuDevicePrimaryCtxRetain`, `cuDevicePrimaryCtxRelease_v2`, `cuCtxPushCurrent_v2`, `cuCtxPopCurrent_v2`, `cuCtxSynchronize` |
//! | memory | `cuMemAlloc_v2`, `cuMemFree_v2`, `cuMemHostAlloc`, `cuMemFreeHost`, `cuMemHostRegister_v2`, `cuMemHostUnregister`, `cuMemcpyHtoDAsync_v2`, `cuMemcpyDtoHAsync_v2`, `cuMemcpyDtoDAsync_v2`, `cuMemsetD8Async` |
//! | order | `cuStreamCreate`, `cuStreamDestroy_v2`, `cuStreamSynchronize`, `cuStreamWaitEvent`, `cuEventCreate`, `cuEventDestroy_v2`, `cuEventRecord`, `cuEventSynchronize`, `cuEventElapsedTime` |
//! | kernels | `cuModuleLoadDataEx`, `cuModuleUnload`, `cuModuleGetFunction`, `cuLaunchKernel` |
//! | errors | `cuGetErrorName`, `cuGetErrorString` |
//!
//! cudarc declares the types. Its functions are not called: another crate of the same program, such as candle, may
//! choose how they are linked; they panic where a symbol is missing; and they return an enum, where a newer driver
//! may return a number that is none of its variants, which is undefined behaviour in Rust. The library is loaded
//! when a GPU is asked for. In tests the signatures are compared with cudarc's, which come from NVIDIA's header.

#![allow(unsafe_code, reason = "functions of a C library")]

use crate::device::error::forked;
use crate::error::{Error, fail};
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::OnceLock;

use libloading::Library;

use super::sys;

/// The code of no error.
const SUCCESS: c_int = 0;
/// The code of an allocation that the device has no memory for.
pub(super) const OUT_OF_MEMORY: c_int = 2;
/// The code of any call before `cuInit`, and of `cuInit` itself in the fork of a process that called it.
const NOT_INITIALIZED: c_int = 3;
/// The code of every function of a toolkit's stub library.
const STUB_LIBRARY: c_int = 34;
/// The oldest supported driver: CUDA 12.0.
const OLDEST: c_int = 12_000;

macro_rules! functions {
    (
        as_bound { $($name:ident($($argument:ty),*);)* }
        by_number { $($number:ident($($taken:ty),*);)* }
    ) => {
        /// The driver's functions, by their names.
        #[allow(non_snake_case, reason = "names of the library")]
        pub(super) struct Driver {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
            $($number: unsafe extern "C" fn($($taken),*) -> c_int,)*
        }

        // The argument types must equal those of the bindings.
        $(#[cfg(test)] const _: unsafe fn($($argument),*) -> sys::CUresult = sys::$name;)*

        impl Driver {
            fn find(library: &'static Library) -> Result<Self, Error> {
                // SAFETY: the arguments are those of cudarc's bindings, compared above in tests, except for
                // an enum that is passed as its number. The return type is a C enum, an int.
                unsafe {
                    Ok(Self {
                        $($name: symbol(library, stringify!($name))?,)*
                        $($number: symbol(library, stringify!($number))?,)*
                    })
                }
            }
        }
    };
}

functions! {
    as_bound {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGetName(*mut c_char, c_int, c_int);
    cuDeviceGetAttribute(*mut c_int, sys::CUdevice_attribute, c_int);
    cuDeviceGetPCIBusId(*mut c_char, c_int, c_int);
    cuDeviceTotalMem_v2(*mut usize, c_int);
    cuDevicePrimaryCtxRetain(*mut sys::CUcontext, c_int);
    cuDevicePrimaryCtxRelease_v2(c_int);
    cuCtxPushCurrent_v2(sys::CUcontext);
    cuCtxPopCurrent_v2(*mut sys::CUcontext);
    cuCtxSynchronize();
    cuMemAlloc_v2(*mut u64, usize);
    cuMemFree_v2(u64);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, sys::CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, sys::CUstream);
    cuMemcpyDtoDAsync_v2(u64, u64, usize, sys::CUstream);
    cuMemsetD8Async(u64, c_uchar, usize, sys::CUstream);
    cuStreamCreate(*mut sys::CUstream, c_uint);
    cuStreamDestroy_v2(sys::CUstream);
    cuStreamSynchronize(sys::CUstream);
    cuStreamWaitEvent(sys::CUstream, sys::CUevent, c_uint);
    cuEventCreate(*mut sys::CUevent, c_uint);
    cuEventDestroy_v2(sys::CUevent);
    cuEventRecord(sys::CUevent, sys::CUstream);
    cuEventSynchronize(sys::CUevent);
    cuEventElapsedTime(*mut f32, sys::CUevent, sys::CUevent);
    cuModuleLoadDataEx(*mut sys::CUmodule, *const c_void, c_uint, *mut sys::CUjit_option, *mut *mut c_void);
    cuModuleUnload(sys::CUmodule);
    cuModuleGetFunction(*mut sys::CUfunction, sys::CUmodule, *const c_char);
    cuLaunchKernel(
        sys::CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint,
        sys::CUstream, *mut *mut c_void, *mut *mut c_void
    );
    }
    by_number {
    cuGetErrorName(c_int, *mut *const c_char);
    cuGetErrorString(c_int, *mut *const c_char);
    }
}

/// Calls a function of the driver, and converts what it returns to a `Result`.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $driver.check(stringify!($name), ($driver.$name)($($argument),*))
    };
}
pub(super) use call;

/// Looks up the function called `name`.
///
/// # Safety
///
/// `T` is the type of a pointer to the function.
unsafe fn symbol<T: Copy>(library: &'static Library, name: &'static str) -> Result<T, Error> {
    // SAFETY: the caller's promise. The library is never unloaded, so the pointer stays valid.
    match unsafe { library.get::<T>(name) } {
        Ok(found) => Ok(*found),
        Err(_) => Err(fail!(
            Device,
            "CUDA: {name}: the driver's library has no such function: update the driver"
        )),
    }
}

impl Driver {
    /// Returns the driver, searched for once.
    ///
    /// # Errors
    ///
    /// If there is no driver, or it lacks a function.
    pub(super) fn get() -> Result<&'static Self, Error> {
        static DRIVER: OnceLock<Result<Driver, Error>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref().map_err(Error::copy)
    }

    fn load() -> Result<Self, Error> {
        let names: &[&str] =
            if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };
        // SAFETY: loads libcuda, whose initialisation may run in any process.
        let library = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        // Leaked, because the library is never unloaded.
        let library = library.ok_or_else(|| {
            fail!(
                Device,
                "a GPU was requested, but the NVIDIA driver's library (libcuda.so.1) is not on this machine: install \
                 the driver, or use the device \"cpu\" or \"auto\""
            )
        })?;
        Self::find(Box::leak(Box::new(library)))
    }

    /// Initializes the driver and returns the CUDA version that it supports.
    ///
    /// # Errors
    ///
    /// If the driver is too old, a stub, or sees no GPU.
    pub(super) fn begin(&self) -> Result<(u32, u32), Error> {
        let mut version = 0;
        // SAFETY: writes one int.
        unsafe { call!(self, cuDriverGetVersion(&raw mut version)) }?;
        let (major, minor) = ((version / 1000) as u32, (version % 1000 / 10) as u32);
        if version < OLDEST {
            return Err(fail!(
                Device,
                "the NVIDIA driver supports CUDA {major}.{minor}, and 12.0 or newer is needed: update it to 525 or \
                 newer"
            ));
        }
        // SAFETY: takes flags, of which there are none.
        let code = unsafe { (self.cuInit)(0) };
        match code {
            SUCCESS | STUB_LIBRARY => self.check("cuInit", code).map(|()| (major, minor)),
            NOT_INITIALIZED => Err(forked()),
            code => Err(fail!(
                Device,
                "the NVIDIA driver offers no usable GPU ({}): look at CUDA_VISIBLE_DEVICES and nvidia-smi",
                self.reason(code)
            )),
        }
    }

    /// Returns the number of GPUs.
    pub(super) fn count(&self) -> Result<u32, Error> {
        let mut count = 0;
        // SAFETY: writes one int.
        unsafe { call!(self, cuDeviceGetCount(&raw mut count)) }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Returns the driver's number of GPU `ordinal`.
    pub(super) fn device(&self, ordinal: u32) -> Result<c_int, Error> {
        let mut device = 0;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: writes one int.
        unsafe { call!(self, cuDeviceGet(&raw mut device, ordinal)) }?;
        Ok(device)
    }

    /// Returns an attribute of a GPU.
    pub(super) fn attribute(
        &self,
        device: c_int,
        attribute: sys::CUdevice_attribute,
    ) -> Result<u32, Error> {
        let mut value = 0;
        // SAFETY: writes one int.
        unsafe { call!(self, cuDeviceGetAttribute(&raw mut value, attribute, device)) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Returns the bytes of a GPU's memory.
    pub(super) fn memory(&self, device: c_int) -> Result<u64, Error> {
        let mut bytes = 0;
        // SAFETY: writes one size.
        unsafe { call!(self, cuDeviceTotalMem_v2(&raw mut bytes, device)) }?;
        Ok(bytes as u64)
    }

    /// Returns a GPU's product name.
    pub(super) fn name(&self, device: c_int) -> Result<String, Error> {
        // SAFETY: writes at most `room` bytes.
        text(|to, room| unsafe { call!(self, cuDeviceGetName(to, room, device)) })
    }

    /// Returns a GPU's PCI bus address.
    pub(super) fn pci_bus_id(&self, device: c_int) -> Result<String, Error> {
        // SAFETY: writes at most `room` bytes.
        text(|to, room| unsafe { call!(self, cuDeviceGetPCIBusId(to, room, device)) })
    }

    /// Converts what `call` returned to an error, if it is one.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<(), Error> {
        match code {
            SUCCESS => Ok(()),
            STUB_LIBRARY => Err(fail!(
                Device,
                "libcuda.so is the CUDA toolkit's stub, not a driver: remove its `stubs` folder from LD_LIBRARY_PATH"
            )),
            code => Err(fail!(Device, "CUDA: {call}: {}", self.reason(code))),
        }
    }

    /// Returns an error's name and description.
    pub(super) fn reason(&self, code: c_int) -> String {
        let words = |describe: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = std::ptr::null();
            // SAFETY: writes one pointer, to text inside the library, or null.
            unsafe {
                let found = describe(code, &raw mut text) == SUCCESS && !text.is_null();
                found.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        match (words(self.cuGetErrorName), words(self.cuGetErrorString)) {
            (Some(name), Some(meaning)) => format!("{name}, {meaning}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => format!("error {code}"),
        }
    }
}

/// Returns the text that `write` writes to a buffer.
fn text(write: impl FnOnce(*mut c_char, c_int) -> Result<(), Error>) -> Result<String, Error> {
    let mut buffer = [0u8; 256];
    // One byte less than the buffer has: the last byte stays 0.
    write(buffer.as_mut_ptr().cast(), 255)?;
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}
