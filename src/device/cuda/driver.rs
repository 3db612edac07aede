//! CUDA's driver: the functions that are called, each looked up once.
//!
//! | what for | functions of libcuda |
//! |---|---|
//! | what there is | `cuInit`, `cuDriverGetVersion`, `cuDeviceGet`, `cuDeviceGetCount`, `cuDeviceGetName`, `cuDeviceGetAttribute`, `cuDeviceGetPCIBusId`, `cuDeviceTotalMem_v2` |
//! | contexts | `cuDevicePrimaryCtxRetain`, `cuDevicePrimaryCtxRelease_v2`, `cuCtxPushCurrent_v2`, `cuCtxPopCurrent_v2`, `cuCtxSynchronize` |
//! | memory | `cuMemAlloc_v2`, `cuMemFree_v2`, `cuMemHostAlloc`, `cuMemFreeHost`, `cuMemHostRegister_v2`, `cuMemHostUnregister`, `cuMemcpyHtoDAsync_v2`, `cuMemcpyDtoHAsync_v2`, `cuMemcpyDtoDAsync_v2`, `cuMemsetD8Async` |
//! | order | `cuStreamCreate`, `cuStreamDestroy_v2`, `cuStreamSynchronize`, `cuStreamWaitEvent`, `cuEventCreate`, `cuEventDestroy_v2`, `cuEventRecord`, `cuEventSynchronize`, `cuEventElapsedTime` |
//! | kernels | `cuModuleLoadDataEx`, `cuModuleUnload`, `cuModuleGetFunction`, `cuLaunchKernel` |
//! | errors | `cuGetErrorName`, `cuGetErrorString` |
//!
//! cudarc finds the library and knows the types; its own functions are not called. They panic
//! where a symbol is missing, and what they return is an enum: a newer driver may return a number
//! that is none of it, which no Rust may see.

#![allow(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;
use libloading::Library;

use crate::device::DeviceError;

/// No error.
const SUCCESS: c_int = 0;
/// Memory of the device is used up.
pub(super) const OUT_OF_MEMORY: c_int = 2;
/// Before `cuInit`; from it, in the fork of a process that called it.
const NOT_INITIALIZED: c_int = 3;
/// A toolkit's stub stands in the driver's place.
const STUB_LIBRARY: c_int = 34;
/// The oldest driver that is called: CUDA 12.0.
const OLDEST: c_int = 12_000;

macro_rules! functions {
    (
        as_bound { $($name:ident($($argument:ty),*);)* }
        by_number { $($number:ident($($taken:ty),*);)* }
    ) => {
        /// The functions, by their names.
        #[allow(non_snake_case, reason = "names of the library")]
        pub(super) struct Driver {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
            $($number: unsafe extern "C" fn($($taken),*) -> c_int,)*
        }

        // What they take is what the bindings say.
        $(const _: unsafe fn($($argument),*) -> sys::CUresult = sys::$name;)*

        impl Driver {
            fn find(library: &'static Library) -> Result<Self, DeviceError> {
                // SAFETY: the arguments are those of cudarc's bindings: compared above, but for
                // an enum that is passed as its number. What is returned is a C enum, an int.
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

/// Calls a function of the driver, and makes an error of what it returns.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $driver.check(stringify!($name), ($driver.$name)($($argument),*))
    };
}
pub(super) use call;

/// The function called `name`.
///
/// # Safety
///
/// `T` is the type of a pointer to it.
unsafe fn symbol<T: Copy>(library: &'static Library, name: &'static str) -> Result<T, DeviceError> {
    // SAFETY: as promised. The library is never unloaded, so that the pointer stays good.
    match unsafe { library.get::<T>(name) } {
        Ok(found) => Ok(*found),
        Err(_) => Err(DeviceError::Driver {
            call: name,
            reason: "the driver's library has no such function: update the driver".to_owned(),
        }),
    }
}

impl Driver {
    /// The driver, looked for once.
    ///
    /// # Errors
    ///
    /// If there is none, or not a whole one.
    pub(super) fn get() -> Result<&'static Self, DeviceError> {
        static DRIVER: OnceLock<Result<Driver, DeviceError>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, DeviceError> {
        // SAFETY: loads libcuda, whose initialisation is meant to run in any process. It is
        // looked for first, since `culib` panics where it is not.
        let library = unsafe {
            if !sys::is_culib_present() {
                return Err(DeviceError::NoDriver);
            }
            sys::culib()
        };
        Self::find(library)
    }

    /// Has the driver begin, and says which CUDA it supports.
    ///
    /// # Errors
    ///
    /// If it is too old, no real one, or sees no GPU.
    pub(super) fn begin(&self) -> Result<(u32, u32), DeviceError> {
        let mut version = 0;
        // SAFETY: writes one int.
        unsafe { call!(self, cuDriverGetVersion(&raw mut version)) }?;
        let (major, minor) = ((version / 1000) as u32, (version % 1000 / 10) as u32);
        if version < OLDEST {
            return Err(DeviceError::DriverTooOld { found_major: major, found_minor: minor });
        }
        // SAFETY: takes flags, of which there are none.
        let code = unsafe { (self.cuInit)(0) };
        match self.check("cuInit", code) {
            Err(_) if code == NOT_INITIALIZED => Err(DeviceError::Forked),
            Err(DeviceError::Driver { reason, .. }) => Err(DeviceError::NoDevice { reason }),
            other => other.map(|()| (major, minor)),
        }
    }

    /// How many GPUs there are.
    pub(super) fn count(&self) -> Result<u32, DeviceError> {
        let mut count = 0;
        // SAFETY: writes one int.
        unsafe { call!(self, cuDeviceGetCount(&raw mut count)) }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// The driver's number of GPU `ordinal`.
    pub(super) fn device(&self, ordinal: u32) -> Result<c_int, DeviceError> {
        let mut device = 0;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: writes one int.
        unsafe { call!(self, cuDeviceGet(&raw mut device, ordinal)) }?;
        Ok(device)
    }

    /// A number that describes a GPU.
    pub(super) fn attribute(
        &self,
        device: c_int,
        attribute: sys::CUdevice_attribute,
    ) -> Result<u32, DeviceError> {
        let mut value = 0;
        // SAFETY: writes one int.
        unsafe { call!(self, cuDeviceGetAttribute(&raw mut value, attribute, device)) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Bytes of a GPU's memory.
    pub(super) fn memory(&self, device: c_int) -> Result<u64, DeviceError> {
        let mut bytes = 0;
        // SAFETY: writes one size.
        unsafe { call!(self, cuDeviceTotalMem_v2(&raw mut bytes, device)) }?;
        Ok(bytes as u64)
    }

    /// What a GPU is called.
    pub(super) fn name(&self, device: c_int) -> Result<String, DeviceError> {
        // SAFETY: writes at most so many bytes.
        text(|to, room| unsafe { call!(self, cuDeviceGetName(to, room, device)) })
    }

    /// Where a GPU is plugged in.
    pub(super) fn pci_bus_id(&self, device: c_int) -> Result<String, DeviceError> {
        // SAFETY: writes at most so many bytes.
        text(|to, room| unsafe { call!(self, cuDeviceGetPCIBusId(to, room, device)) })
    }

    /// What `call` returned, as an error if it is one.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<(), DeviceError> {
        match code {
            SUCCESS => Ok(()),
            STUB_LIBRARY => Err(DeviceError::StubDriver),
            code => Err(DeviceError::Driver { call, reason: self.reason(code) }),
        }
    }

    /// An error's name, and what it means.
    fn reason(&self, code: c_int) -> String {
        let words = |describe: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = std::ptr::null();
            // SAFETY: writes one pointer, to text that lies in the library, or null.
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

/// The text that `write` leaves in a buffer.
fn text(
    write: impl FnOnce(*mut c_char, c_int) -> Result<(), DeviceError>,
) -> Result<String, DeviceError> {
    let mut buffer = [0u8; 256];
    // One byte less than there is: the last stays 0.
    write(buffer.as_mut_ptr().cast(), 255)?;
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}
