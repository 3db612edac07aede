//! Passes tensors on a device to other libraries by DLPack.
//!
//! ```text
//! ManagedTensor { tensor { data, device, ndim, dtype, shape, strides, byte_offset }, context, deleter }
//! ```
//!
//! This is the ABI of `DLManagedTensor` (dlpack.h, before 1.0), which every consumer accepts. The shape
//! and the handle that keeps the batch's memory alive are stored next to it. A deleter may be called on
//! any thread, once; it does not panic.

#![allow(unsafe_code, reason = "a structure of C that others own")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{fmt, mem, ptr};

use fuseloop_ops::DType;

use super::cuda::{LocatedTensor, ReaderGuard};

/// `kDLCUDA`.
const CUDA: i32 = 2;

/// The device of a tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlpackDevice {
    /// The kind of device: 2 is CUDA.
    pub kind: i32,
    /// The number of the device.
    pub ordinal: i32,
}

/// The type of an element.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementType {
    /// The type class: 0 is signed, 1 unsigned, 2 IEEE floats, 4 bfloat16.
    pub code: u8,
    /// The bits of one lane.
    pub bits: u8,
    /// The number of lanes in one element: 1.
    pub lanes: u16,
}

/// `DLManagedTensor`.
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensor {
    /// The address of the first element.
    pub data: *mut c_void,
    /// The device of the tensor.
    pub device: DlpackDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of an element.
    pub dtype: ElementType,
    /// The elements along each dimension.
    pub shape: *mut i64,
    /// The elements from one index to the next along each dimension: row-major, without gaps.
    pub strides: *mut i64,
    /// Always 0.
    pub byte_offset: u64,
    /// The producer's pointer, unused.
    pub context: *mut c_void,
    /// The function that the last owner calls, once.
    pub deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

/// The tensor, and the memory it points to.
#[repr(C)]
struct CapsuleOwner {
    /// The first field, so that its address is also the owner's.
    tensor: ManagedTensor,
    /// The shape, then the strides.
    sizes: Vec<i64>,
    /// When dropped, allows the memory to be used again.
    _guard: ReaderGuard,
}

/// A tensor for another library, deleted when dropped unless its ownership was passed on.
pub struct DlpackCapsule {
    tensor: ptr::NonNull<ManagedTensor>,
}

// SAFETY: it is the only pointer to its `CapsuleOwner`, whose fields may all be dropped on any thread.
unsafe impl Send for DlpackCapsule {}

impl DlpackCapsule {
    pub(super) fn new(found: &LocatedTensor, guard: ReaderGuard) -> Self {
        let sizes = sizes(&found.shape);
        let tensor = ManagedTensor {
            data: ptr::without_provenance_mut(found.address as usize),
            device: DlpackDevice { kind: CUDA, ordinal: found.device as i32 },
            ndim: found.shape.len() as i32,
            dtype: element_type(found.dtype),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
            context: ptr::null_mut(),
            deleter: Some(delete),
        };
        let whole = Box::leak(Box::new(CapsuleOwner { tensor, sizes, _guard: guard }));
        let (shape, strides) = whole.sizes.split_at_mut(found.shape.len());
        (whole.tensor.shape, whole.tensor.strides) = (shape.as_mut_ptr(), strides.as_mut_ptr());
        Self { tensor: ptr::NonNull::from(whole).cast() }
    }

    /// Returns the tensor without passing on its ownership.
    #[must_use]
    pub fn as_ptr(&self) -> *const ManagedTensor {
        self.tensor.as_ptr()
    }

    /// Passes on the ownership of the tensor: the receiver calls its deleter once.
    #[must_use]
    pub fn into_raw(self) -> *mut ManagedTensor {
        let tensor = self.tensor.as_ptr();
        mem::forget(self);
        tensor
    }
}

impl Drop for DlpackCapsule {
    fn drop(&mut self) {
        // SAFETY: `new` created the tensor, and its ownership was not passed on.
        unsafe { delete(self.tensor.as_ptr()) };
    }
}

impl fmt::Debug for DlpackCapsule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DlpackCapsule").field(&self.as_ptr()).finish()
    }
}

/// # Safety
///
/// `tensor` was created by [`DlpackCapsule::new`], and this function was not called for it before.
unsafe extern "C" fn delete(tensor: *mut ManagedTensor) {
    // SAFETY: the tensor is the first field of a `CapsuleOwner` in a box, by `repr(C)`; the caller
    // promises that nothing else refers to it.
    let whole = unsafe { Box::from_raw(tensor.cast::<CapsuleOwner>()) };
    // No panic may unwind into C.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(whole)));
}

/// Returns a shape, then the strides of a tensor of that shape without gaps.
fn sizes(shape: &[usize]) -> Vec<i64> {
    let strides = (1..=shape.len()).map(|k| shape[k..].iter().product::<usize>());
    // The sizes of allocated memory are below 2^63.
    shape.iter().copied().chain(strides).map(|n| n as i64).collect()
}

fn element_type(dtype: DType) -> ElementType {
    let code = match dtype {
        DType::U8 => 1,
        DType::I16 | DType::I32 | DType::I64 => 0,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::Bf16 => 4,
        // DLPack has no code for other types: opaque.
        _ => 3,
    };
    ElementType { code, bits: dtype.bytes() as u8 * 8, lanes: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The offsets that dlpack.h has on 64-bit machines.
    #[test]
    fn the_layout_is_that_of_dlpack() {
        assert_eq!(offset_of!(ManagedTensor, device), 8);
        assert_eq!(offset_of!(ManagedTensor, ndim), 16);
        assert_eq!(offset_of!(ManagedTensor, dtype), 20);
        assert_eq!(offset_of!(ManagedTensor, shape), 24);
        assert_eq!(offset_of!(ManagedTensor, strides), 32);
        assert_eq!(offset_of!(ManagedTensor, byte_offset), 40);
        assert_eq!(offset_of!(ManagedTensor, context), 48);
        assert_eq!(offset_of!(ManagedTensor, deleter), 56);
        assert_eq!(size_of::<ManagedTensor>(), 64);
        assert_eq!(offset_of!(CapsuleOwner, tensor), 0);
    }

    #[test]
    fn strides_are_those_of_rows_without_gaps() {
        assert_eq!(sizes(&[8, 3, 4, 5]), [8, 3, 4, 5, 60, 20, 5, 1]);
        assert_eq!(sizes(&[8]), [8, 1]);
    }

    #[test]
    fn elements_are_those_of_dlpack() {
        let of = |dtype| {
            let found = element_type(dtype);
            (found.code, found.bits, found.lanes)
        };
        assert_eq!(of(DType::U8), (1, 8, 1));
        assert_eq!(of(DType::I16), (0, 16, 1));
        assert_eq!(of(DType::I32), (0, 32, 1));
        assert_eq!(of(DType::I64), (0, 64, 1));
        assert_eq!(of(DType::F16), (2, 16, 1));
        assert_eq!(of(DType::Bf16), (4, 16, 1));
        assert_eq!(of(DType::F32), (2, 32, 1));
        assert_eq!(of(DType::F64), (2, 64, 1));
    }
}
