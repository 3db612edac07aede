//! Passes tensors to other libraries by DLPack.
//!
//! ```text
//! ManagedTensor          {                                 tensor, context, deleter }
//! ManagedTensorVersioned { version, context, deleter, flags, tensor }
//! tensor = { data, device, ndim, dtype, shape, strides, byte_offset }
//! ```
//!
//! These are the ABIs of `DLManagedTensor`, which every consumer accepts, and of `DLManagedTensorVersioned`
//! (dlpack.h, from 1.0 on), from which NumPy makes arrays that can be written to. Both stand beside the shape
//! and the owner of the batch's memory; the receiver takes one of them. A deleter may be called on any thread,
//! once; it does not panic.

#![allow(unsafe_code, reason = "a structure of C that others own")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{fmt, mem, ptr};

use fuseloop_ops::DType;

use super::cuda::{LocatedTensor, ReaderGuard};
use crate::batch::SharedBytes;

/// `kDLCPU`.
const CPU: i32 = 1;

/// `kDLCUDA`.
const CUDA: i32 = 2;

/// The device of a tensor.
///
/// ```
/// use fuseloop::device::{DlpackDevice, DlpackTensor};
///
/// /// Returns true if the elements can be read without a GPU.
/// fn is_on_host(tensor: &DlpackTensor) -> bool {
///     tensor.device == DlpackDevice { kind: 1, ordinal: 0 }
/// }
/// ```
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlpackDevice {
    /// The kind of device: 1 is host memory, 2 CUDA.
    pub kind: i32,
    /// The number of the device.
    pub ordinal: i32,
}

/// The type of an element.
///
/// ```
/// use fuseloop::device::{DlpackTensor, ElementType};
///
/// /// Returns true if the elements are numbers of the type `f32`.
/// fn is_f32(tensor: &DlpackTensor) -> bool {
///     tensor.dtype == ElementType { code: 2, bits: 32, lanes: 1 }
/// }
/// ```
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

/// `DLTensor`: where a tensor is, and how it is laid out.
///
/// ```
/// use fuseloop::device::DeviceStream;
///
/// # use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedValue};
/// # let fields = vec![FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
/// # let number = |_, sample| Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)]);
/// # let source = Generator::new(1, 8).source(fields, 16, number)?;
/// # let loader = fuseloop::Loader::from_source(source).batch_size(4).build()?;
/// let batch = loader.epoch(0)?.next().ok_or("an epoch has batches")??;
/// let capsule = batch.dlpack("label", DeviceStream::Legacy)?;
/// // SAFETY: the capsule owns the tensor, whose shape has `ndim` sizes.
/// let shape = unsafe {
///     let tensor = &(*capsule.as_ptr()).tensor;
///     std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize)
/// };
/// assert_eq!(shape, [4]);
/// # Ok::<(), BoxError>(())
/// ```
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DlpackTensor {
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
}

/// `DLManagedTensor`.
///
/// ```
/// use fuseloop::device::ManagedTensor;
///
/// /// Gives a tensor back, as its receiver does after the last use.
/// ///
/// /// # Safety
/// ///
/// /// The caller owns the tensor, and does not use it again.
/// unsafe fn delete(tensor: *mut ManagedTensor) {
///     // SAFETY: the caller's promise.
///     unsafe { (*tensor).deleter.inspect(|deleter| deleter(tensor)) };
/// }
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensor {
    /// The tensor.
    pub tensor: DlpackTensor,
    /// The producer's pointer.
    pub context: *mut c_void,
    /// The function that the last owner calls, once.
    pub deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

/// `DLManagedTensorVersioned`, version 1.0.
///
/// ```
/// use fuseloop::device::ManagedTensorVersioned;
///
/// /// Returns true if the receiver knows the fields that follow the version.
/// fn is_known(tensor: &ManagedTensorVersioned) -> bool {
///     tensor.version[0] == 1
/// }
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensorVersioned {
    /// The major and the minor version of the structure.
    pub version: [u32; 2],
    /// The producer's pointer.
    pub context: *mut c_void,
    /// The function that the last owner calls, once.
    pub deleter: Option<unsafe extern "C" fn(*mut ManagedTensorVersioned)>,
    /// 0: the tensor may be written to, and is not a copy.
    pub flags: u64,
    /// The tensor.
    pub tensor: DlpackTensor,
}

/// Both structures of one tensor, and the memory they point to.
struct CapsuleOwner {
    tensor: ManagedTensor,
    versioned: ManagedTensorVersioned,
    /// The shape, then the strides.
    sizes: Vec<i64>,
    /// When dropped, allows the memory to be used again.
    _memory: Box<dyn Send>,
}

/// A tensor for another library, deleted when dropped unless its ownership was passed on.
///
/// ```
/// use fuseloop::device::DeviceStream;
///
/// # use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedValue};
/// # let fields = vec![FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
/// # let number = |_, sample| Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)]);
/// # let source = Generator::new(1, 8).source(fields, 16, number)?;
/// # let loader = fuseloop::Loader::from_source(source).batch_size(4).build()?;
/// let batch = loader.epoch(0)?.next().ok_or("an epoch has batches")??;
/// let tensor = batch.dlpack("label", DeviceStream::Legacy)?.into_raw();
/// // The memory stays for as long as the other library holds the tensor.
/// drop(batch);
/// // SAFETY: this is the owner of the tensor, which calls its deleter once.
/// unsafe {
///     assert_eq!((*tensor).tensor.dtype.bits, 64);
///     (*tensor).deleter.inspect(|delete| delete(tensor));
/// }
/// # Ok::<(), BoxError>(())
/// ```
pub struct DlpackCapsule {
    owner: ptr::NonNull<CapsuleOwner>,
}

// SAFETY: it is the only pointer to its `CapsuleOwner`, whose fields may all be dropped on any thread.
unsafe impl Send for DlpackCapsule {}

impl DlpackCapsule {
    /// Wraps a tensor on a device.
    pub(super) fn on_device(found: &LocatedTensor, guard: ReaderGuard) -> Self {
        let data = ptr::without_provenance_mut(found.address as usize);
        let device = DlpackDevice { kind: CUDA, ordinal: found.device as i32 };
        Self::new(data, device, found.dtype, &found.shape, Box::new(guard))
    }

    /// Wraps a tensor of `shape` in host memory.
    pub(super) fn on_host(bytes: SharedBytes, dtype: DType, shape: &[usize]) -> Self {
        Self::within(bytes, 0, dtype, shape)
    }

    /// Wraps a tensor of `shape` that begins `start` bytes after the first of `bytes`.
    ///
    /// # Panics
    ///
    /// If the tensor does not lie within `bytes`.
    pub(crate) fn within(bytes: SharedBytes, start: usize, dtype: DType, shape: &[usize]) -> Self {
        let end = shape.iter().try_fold(dtype.bytes(), |bytes, &n| bytes.checked_mul(n));
        let end = end.and_then(|len| start.checked_add(len));
        let len = bytes.as_slice().len();
        assert!(end.is_some_and(|end| end <= len), "a tensor beyond the memory of its batch");
        let device = DlpackDevice { kind: CPU, ordinal: 0 };
        let first = bytes.start().wrapping_add(start);
        Self::new(first.cast(), device, dtype, shape, Box::new(bytes))
    }

    fn new(
        data: *mut c_void,
        device: DlpackDevice,
        dtype: DType,
        shape: &[usize],
        memory: Box<dyn Send>,
    ) -> Self {
        let (ndim, sizes) = (shape.len(), sizes(shape));
        let null = ptr::null_mut();
        let tensor = DlpackTensor {
            data,
            device,
            ndim: ndim as i32,
            dtype: element_type(dtype),
            shape: null,
            strides: null,
            byte_offset: 0,
        };
        let context = ptr::null_mut();
        let owner = Box::new(CapsuleOwner {
            tensor: ManagedTensor { tensor, context, deleter: Some(delete) },
            versioned: ManagedTensorVersioned {
                version: [1, 0],
                context,
                deleter: Some(delete_versioned),
                flags: 0,
                tensor,
            },
            sizes,
            _memory: memory,
        });
        let owner = ptr::NonNull::from(Box::leak(owner));
        // SAFETY: the box was just leaked, and nothing else refers to it yet.
        let whole = unsafe { &mut *owner.as_ptr() };
        let (shape, strides) = whole.sizes.split_at_mut(ndim);
        for tensor in [&mut whole.tensor.tensor, &mut whole.versioned.tensor] {
            (tensor.shape, tensor.strides) = (shape.as_mut_ptr(), strides.as_mut_ptr());
        }
        whole.tensor.context = owner.as_ptr().cast();
        whole.versioned.context = owner.as_ptr().cast();
        Self { owner }
    }

    /// Returns the tensor without passing on its ownership.
    #[must_use]
    pub fn as_ptr(&self) -> *const ManagedTensor {
        // SAFETY: the capsule owns the structure, so the field is inside a live allocation.
        unsafe { &raw const (*self.owner.as_ptr()).tensor }
    }

    /// Passes on the ownership of the tensor: the receiver calls its deleter once.
    #[must_use]
    pub fn into_raw(self) -> *mut ManagedTensor {
        let owner = mem::ManuallyDrop::new(self).owner;
        // SAFETY: as in `as_ptr`; the ownership passes on to the receiver.
        unsafe { &raw mut (*owner.as_ptr()).tensor }
    }

    /// Passes on the ownership of the tensor in the structure that DLPack has from version 1.0 on: the
    /// receiver calls its deleter once.
    #[must_use]
    pub fn into_raw_versioned(self) -> *mut ManagedTensorVersioned {
        let owner = mem::ManuallyDrop::new(self).owner;
        // SAFETY: as in `as_ptr`; the ownership passes on to the receiver.
        unsafe { &raw mut (*owner.as_ptr()).versioned }
    }
}

impl Drop for DlpackCapsule {
    fn drop(&mut self) {
        // SAFETY: `new` created the owner, and its ownership was not passed on.
        unsafe { delete_owner(self.owner.as_ptr().cast()) };
    }
}

impl fmt::Debug for DlpackCapsule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DlpackCapsule").field(&self.as_ptr()).finish()
    }
}

/// # Safety
///
/// `tensor` was created by [`DlpackCapsule::new`], and its owner was not deleted before.
unsafe extern "C" fn delete(tensor: *mut ManagedTensor) {
    // SAFETY: the caller's promise; `new` set the context to the owner.
    unsafe { delete_owner((*tensor).context) };
}

/// # Safety
///
/// See [`delete`].
unsafe extern "C" fn delete_versioned(tensor: *mut ManagedTensorVersioned) {
    // SAFETY: the caller's promise; `new` set the context to the owner.
    unsafe { delete_owner((*tensor).context) };
}

/// # Safety
///
/// `owner` is a `CapsuleOwner` that [`DlpackCapsule::new`] created, and this function was not called for it
/// before.
unsafe fn delete_owner(owner: *mut c_void) {
    // SAFETY: the owner was created in a box; the caller promises that nothing else refers to it.
    let owner = unsafe { Box::from_raw(owner.cast::<CapsuleOwner>()) };
    // No panic may unwind into C.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(owner)));
}

/// Returns a shape, then the strides of a tensor of that shape without gaps.
fn sizes(shape: &[usize]) -> Vec<i64> {
    let strides = (1..=shape.len()).map(|k| shape[k..].iter().product::<usize>());
    // The sizes of allocated memory are below 2^63.
    shape.iter().copied().chain(strides).map(|n| n as i64).collect()
}

fn element_type(dtype: DType) -> ElementType {
    let code = match dtype {
        DType::U8 | DType::U16 => 1,
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
    use crate::batch::{Batch, TensorSpec};
    use crate::device::DeviceStream;
    use crate::sample::{Epoch, SampleId, SampleRef};
    use fuseloop_engine::batch::{BatchSpec, HostBatch, Lease, SlotPool};
    use std::mem::offset_of;
    use std::num::NonZeroUsize;
    use std::slice;
    use std::sync::Arc;

    /// The offsets that dlpack.h has on 64-bit machines.
    #[test]
    fn the_layout_is_that_of_dlpack() {
        assert_eq!(offset_of!(DlpackTensor, device), 8);
        assert_eq!(offset_of!(DlpackTensor, ndim), 16);
        assert_eq!(offset_of!(DlpackTensor, dtype), 20);
        assert_eq!(offset_of!(DlpackTensor, shape), 24);
        assert_eq!(offset_of!(DlpackTensor, strides), 32);
        assert_eq!(offset_of!(DlpackTensor, byte_offset), 40);
        assert_eq!(offset_of!(ManagedTensor, context), 48);
        assert_eq!(offset_of!(ManagedTensor, deleter), 56);
        assert_eq!(size_of::<ManagedTensor>(), 64);
        assert_eq!(offset_of!(ManagedTensorVersioned, context), 8);
        assert_eq!(offset_of!(ManagedTensorVersioned, deleter), 16);
        assert_eq!(offset_of!(ManagedTensorVersioned, flags), 24);
        assert_eq!(offset_of!(ManagedTensorVersioned, tensor), 32);
        assert_eq!(size_of::<ManagedTensorVersioned>(), 80);
    }

    fn batch(pool: &Arc<SlotPool>) -> Batch {
        let mut slot = pool.redeem(pool.take().unwrap()).unwrap();
        slot.visits_mut().extend([3, 4].map(|id| SampleRef::once(SampleId(id))));
        slot.rows_mut().output(0).copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        HostBatch::new(slot, pool, Epoch(0), 0).into()
    }

    fn pool() -> Arc<SlotPool> {
        let spec = [TensorSpec::new("x", DType::U8, [3])];
        let spec = BatchSpec::new(&spec, NonZeroUsize::new(2).unwrap()).unwrap();
        Arc::new(SlotPool::new(Arc::new(spec), None, 1, Box::new(|| {})))
    }

    #[test]
    fn a_tensor_in_host_memory_is_passed_on_in_both_structures() {
        let pool = pool();
        let batch = batch(&pool);
        let address = batch.bytes("x").unwrap().as_ptr();
        let host = DlpackDevice { kind: 1, ordinal: 0 };
        let old = batch.dlpack("x", DeviceStream::Legacy).unwrap().into_raw();
        let new = batch.dlpack("x", DeviceStream::Legacy).unwrap().into_raw_versioned();
        drop(batch);
        // SAFETY: the ownership of both structures was passed on to this test.
        unsafe {
            assert_eq!((*new).version, [1, 0]);
            for tensor in [(*old).tensor, (*new).tensor] {
                assert_eq!((tensor.data.cast_const().cast(), tensor.device), (address, host));
                let dtype = ElementType { code: 1, bits: 8, lanes: 1 };
                assert_eq!((tensor.ndim, tensor.dtype), (2, dtype));
                assert_eq!(slice::from_raw_parts(tensor.shape, 2), [2, 3]);
                assert_eq!(slice::from_raw_parts(tensor.strides, 2), [3, 1]);
            }
            tensor_bytes(&(*new).tensor)[5] = 60;
            assert_eq!(tensor_bytes(&(*old).tensor), [1, 2, 3, 4, 5, 60]);
            ((*old).deleter.unwrap())(old);
            assert!(pool.take().is_some_and(|lease| matches!(lease, Lease::New)));
            ((*new).deleter.unwrap())(new);
        }
        assert!(pool.take().is_some_and(|lease| matches!(lease, Lease::Free(_))));
    }

    /// # Safety
    ///
    /// `tensor` has six bytes, which nothing else reads or writes while the returned slice is used.
    unsafe fn tensor_bytes<'a>(tensor: *const DlpackTensor) -> &'a mut [u8] {
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts_mut((*tensor).data.cast(), 6) }
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
        assert_eq!(of(DType::U16), (1, 16, 1));
        assert_eq!(of(DType::I16), (0, 16, 1));
        assert_eq!(of(DType::I32), (0, 32, 1));
        assert_eq!(of(DType::I64), (0, 64, 1));
        assert_eq!(of(DType::F16), (2, 16, 1));
        assert_eq!(of(DType::Bf16), (4, 16, 1));
        assert_eq!(of(DType::F32), (2, 32, 1));
        assert_eq!(of(DType::F64), (2, 64, 1));
    }
}
