//! The types of the driver's interface (cuda.h), as far as they are used: opaque handles and numbers.

#![allow(non_camel_case_types, reason = "names of cuda.h")]
#![cfg_attr(test, allow(dead_code, reason = "tests use cudarc's types and compare the numbers"))]

use std::ffi::c_void;

pub(super) type CUcontext = *mut c_void;
pub(super) type CUevent = *mut c_void;
pub(super) type CUfunction = *mut c_void;
pub(super) type CUmodule = *mut c_void;
pub(super) type CUstream = *mut c_void;

/// A property of a GPU. Only passed to the driver, never returned by it.
#[repr(u32)]
#[derive(Clone, Copy)]
pub(super) enum CUdevice_attribute {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
}

/// An option of loading a module. Only passed to the driver, never returned by it.
#[repr(u32)]
#[derive(Clone, Copy)]
pub(super) enum CUjit_option {
    CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
}
