//! Tensors on a device for other libraries: DLPack.
//!
//! ```text
//! ManagedTensor { tensor { data, device, ndim, dtype, shape, strides, byte_offset }, context, deleter }
//! ```
//!
//! The ABI of `DLManagedTensor` (dlpack.h, before 1.0), which every consumer takes. The shape and
//! the hold on the batch's memory lie beside it. A deleter may be called on any thread, once; it
//! does not panic.

#![allow(unsafe_code, reason = "a structure of C that others own")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{fmt, mem, ptr};

use fuseloop_ops::DType;

use super::cuda::{Found, Use};

/// `kDLCUDA`.
const CUDA: i32 = 2;

/// Where a tensor lies.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// The kind: 2 is CUDA.
    pub kind: i32,
    /// Which of them.
    pub ordinal: i32,
}

/// What an element is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementType {
    /// 0 is signed, 1 unsigned, 2 IEEE's floats, 4 bfloat16.
    pub code: u8,
    /// Bits of one.
    pub bits: u8,
    /// Elements in one: 1.
    pub lanes: u16,
}

/// `DLManagedTensor`.
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensor {
    /// The first element's address.
    pub data: *mut c_void,
    /// Where it lies.
    pub device: Device,
    /// Dimensions.
    pub ndim: i32,
    /// What an element is.
    pub dtype: ElementType,
    /// Elements along each dimension.
    pub shape: *mut i64,
    /// Elements from one to the next along each dimension: row-major, without gaps.
    pub strides: *mut i64,
    /// 0.
    pub byte_offset: u64,
    /// Ours.
    pub context: *mut c_void,
    /// To be called once, by whoever has it last.
    pub deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

/// The tensor, and what it needs.
#[repr(C)]
struct Whole {
    /// First, so that its address is the whole's.
    tensor: ManagedTensor,
    /// The shape, then the strides.
    sizes: Vec<i64>,
    /// Says when the memory may be used again.
    _lent: Use,
}

/// A tensor for another library. Deleted when dropped, unless it was given away.
pub struct DlpackCapsule {
    tensor: ptr::NonNull<ManagedTensor>,
}

// SAFETY: it is the only pointer to what it points to, of which all parts may be dropped by any
// thread.
unsafe impl Send for DlpackCapsule {}

impl DlpackCapsule {
    pub(super) fn new(found: &Found, lent: Use) -> Self {
        let sizes = sizes(&found.shape);
        let tensor = ManagedTensor {
            data: ptr::without_provenance_mut(found.address as usize),
            device: Device { kind: CUDA, ordinal: found.device as i32 },
            ndim: found.shape.len() as i32,
            dtype: element_type(found.dtype),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
            context: ptr::null_mut(),
            deleter: Some(delete),
        };
        let whole = Box::leak(Box::new(Whole { tensor, sizes, _lent: lent }));
        let (shape, strides) = whole.sizes.split_at_mut(found.shape.len());
        (whole.tensor.shape, whole.tensor.strides) = (shape.as_mut_ptr(), strides.as_mut_ptr());
        Self { tensor: ptr::NonNull::from(whole).cast() }
    }

    /// The tensor, still ours.
    #[must_use]
    pub fn as_ptr(&self) -> *const ManagedTensor {
        self.tensor.as_ptr()
    }

    /// Gives it away: whoever takes it calls its deleter once.
    #[must_use]
    pub fn into_raw(self) -> *mut ManagedTensor {
        let tensor = self.tensor.as_ptr();
        mem::forget(self);
        tensor
    }
}

impl Drop for DlpackCapsule {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and not given away.
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
/// `tensor` was made by [`DlpackCapsule::new`], and this was not called before.
unsafe extern "C" fn delete(tensor: *mut ManagedTensor) {
    // SAFETY: the tensor is the first part of a `Whole` in a box, by `repr(C)`; as promised,
    // nobody else has it.
    let whole = unsafe { Box::from_raw(tensor.cast::<Whole>()) };
    // Into C nothing may unwind.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(whole)));
}

/// A shape, and the strides of what lies without gaps.
fn sizes(shape: &[usize]) -> Vec<i64> {
    let strides = (1..=shape.len()).map(|k| shape[k..].iter().product::<usize>());
    // Sizes of memory that there is: they are below 2^63.
    shape.iter().copied().chain(strides).map(|n| n as i64).collect()
}

fn element_type(dtype: DType) -> ElementType {
    let code = match dtype {
        DType::U8 => 1,
        DType::I16 | DType::I32 | DType::I64 => 0,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::Bf16 => 4,
        // One that DLPack has no word for: opaque.
        _ => 3,
    };
    ElementType { code, bits: dtype.bytes() as u8 * 8, lanes: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Offsets of dlpack.h on 64-bit machines.
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
        assert_eq!(offset_of!(Whole, tensor), 0);
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
