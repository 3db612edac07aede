//! Tensors that own the memory of their batch: they may outlive the batch and its loader.
//!
//! ```text
//! HostBatch ──────┐
//! SharedTensor ───┼──▶ LeasedSlot ──last owner dropped──▶ SlotPool, or memory freed if the pool is gone
//! SharedBytes ────┘
//! ```
//!
//! Sharing copies nothing: it counts one more owner of the slot. Until the last owner is dropped, the slot
//! counts as held, and the loader fills others.

use std::fmt;
use std::marker::PhantomData;

use fuseloop_ops::DType;

use super::{BatchSpec, Element, HostBatch, Slot, SlotPool, TensorError, TensorRows, TensorView};
use crate::sync::{Arc, Weak};

/// A slot in use. Dropping it returns the slot to its pool.
pub(super) struct LeasedSlot {
    /// `None` only inside `drop`.
    slot: Option<Slot>,
    pub(super) spec: Arc<BatchSpec>,
    pool: Weak<SlotPool>,
}

impl LeasedSlot {
    pub(super) fn new(slot: Slot, pool: &Arc<SlotPool>) -> Self {
        Self { slot: Some(slot), spec: Arc::clone(pool.spec()), pool: Arc::downgrade(pool) }
    }

    pub(super) fn slot(&self) -> &Slot {
        self.slot.as_ref().expect("a lease has its slot until it is dropped")
    }
}

impl Drop for LeasedSlot {
    fn drop(&mut self) {
        let Some(mut slot) = self.slot.take() else { return };
        if let Some(companion) = slot.extension_mut() {
            companion.batch_dropped();
        }
        if let Some(pool) = self.pool.upgrade() {
            pool.give(slot);
        }
    }
}

/// A tensor of a batch that owns its memory together with the batch, row-major, without gaps.
///
/// It is [`Send`], [`Sync`] and `'static`, and may outlive its batch and the loader. While it lives, no
/// other batch is written to its memory: the slot of its batch counts as held. Cloning copies no element.
///
/// ```no_run
/// # use fuseloop_engine::batch::{HostBatch as Batch, TensorError};
/// # fn example(batch: &Batch) -> Result<(), TensorError> {
/// // The images stay where they are when the batch is gone, and may go to another thread.
/// let images = batch.share::<f32>("image")?;
/// std::thread::spawn(move || println!("{:?}", images.shape()));
/// # Ok(())
/// # }
/// ```
pub struct SharedTensor<T> {
    bytes: SharedBytes,
    shape: Vec<usize>,
    element: PhantomData<T>,
}

impl<T: Element> SharedTensor<T> {
    /// Returns the number of elements along each dimension; the first is the batch.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns all elements: `shape().iter().product()` of them.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        let elements = self.bytes.lease.slot().elements(self.bytes.tensor);
        &elements[..self.shape.iter().product()]
    }

    /// Returns the tensor as a borrowed one.
    #[must_use]
    pub fn view(&self) -> TensorView<'_, T> {
        TensorView { elements: self.as_slice(), shape: self.shape.clone() }
    }

    /// Returns the elements of sample `i` of the batch; `None` past the last.
    #[must_use]
    pub fn row(&self, i: usize) -> Option<&[T]> {
        self.view().row(i)
    }
}

impl<T: Element> AsRef<[T]> for SharedTensor<T> {
    fn as_ref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T> Clone for SharedTensor<T> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), shape: self.shape.clone(), element: PhantomData }
    }
}

impl<T: Element> fmt::Debug for SharedTensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTensor")
            .field("dtype", &T::DTYPE)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

/// The bytes of a tensor of any element type, which own their memory together with the batch.
///
/// See [`SharedTensor`] for how long the memory lives.
///
/// ```no_run
/// # use fuseloop_engine::batch::{HostBatch as Batch, TensorError};
/// # fn example(batch: &Batch) -> Result<(), TensorError> {
/// let bytes = batch.share_bytes("image")?;
/// println!("{} bytes of {:?}", bytes.as_slice().len(), batch.dtype("image")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedBytes {
    lease: Arc<LeasedSlot>,
    tensor: usize,
    len: usize,
}

impl SharedBytes {
    /// Returns the bytes: the rows of the batch without gaps. The first is at a multiple of 64.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.lease.slot().bytes(self.tensor)[..self.len]
    }

    /// Returns the address of the first byte, for code that is not Rust. Such code may also write there
    /// while no slice of the tensor is borrowed.
    #[must_use]
    #[doc(hidden)]
    pub fn start(&self) -> *mut u8 {
        self.lease.slot().start(self.tensor)
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBytes").field("len", &self.len).finish_non_exhaustive()
    }
}

impl HostBatch {
    /// Returns the tensor `name`, of shape `[len, shape of a sample...]`, as an owner of its memory. Copies
    /// nothing.
    ///
    /// # Errors
    ///
    /// See [`tensor`](Self::tensor).
    pub fn share<T: Element>(&self, name: &str) -> Result<SharedTensor<T>, TensorError> {
        let shape = self.tensor::<T>(name)?.shape;
        Ok(SharedTensor { bytes: self.share_bytes(name)?, shape, element: PhantomData })
    }

    /// Returns the bytes of the tensor `name` as an owner of their memory. Copies nothing.
    ///
    /// # Errors
    ///
    /// See [`bytes`](Self::bytes).
    pub fn share_bytes(&self, name: &str) -> Result<SharedBytes, TensorError> {
        let len = self.bytes(name)?.len();
        let tensor = self.spec().find(name)?;
        Ok(SharedBytes { lease: Arc::clone(&self.lease), tensor, len })
    }

    /// Returns the memory of the tensor `name` as an owner of it, with the [gaps](super::TensorRows::List)
    /// between its rows, if there are any.
    ///
    /// # Errors
    ///
    /// If there is no tensor of this name, or it is on a device.
    #[doc(hidden)]
    pub fn share_memory(&self, name: &str) -> Result<SharedBytes, TensorError> {
        let tensor = self.spec().find(name)?;
        if let TensorRows::Device { .. } = self.specs()[tensor].rows {
            return Err(TensorError::OnDevice { name: name.to_owned() });
        }
        let spec = &self.specs()[tensor];
        let has_room = spec.room > 0 && !matches!(spec.rows, TensorRows::Ragged { .. });
        let len = match spec.shape_bytes().filter(|_| has_room) {
            Some(bytes) => bytes * self.len(),
            None => self.slot().bytes(tensor).len(),
        };
        Ok(SharedBytes { lease: Arc::clone(&self.lease), tensor, len })
    }

    /// Returns the number of owners of the batch's memory: the batch, and what it was shared with.
    #[must_use]
    #[doc(hidden)]
    pub fn owners(&self) -> usize {
        Arc::strong_count(&self.lease)
    }

    /// Returns the element type of the tensor `name`.
    ///
    /// # Errors
    ///
    /// If there is no tensor of this name.
    pub fn dtype(&self, name: &str) -> Result<DType, TensorError> {
        Ok(self.specs()[self.spec().find(name)?].dtype)
    }

    /// Returns the shape of the tensor `name`: `[len, shape of a sample...]`.
    ///
    /// # Errors
    ///
    /// If there is no tensor of this name, it is on a device, or its samples differ in size.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>, TensorError> {
        let k = self.spec().find(name)?;
        let of_sample =
            self.sample_shape(k).ok_or_else(|| TensorError::uneven(&self.specs()[k]))?;
        Ok(std::iter::once(self.len()).chain(of_sample).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::{filled, pool};

    #[test]
    fn a_shared_tensor_can_go_anywhere() {
        fn assert_owned<T: Send + Sync + 'static>() {}
        assert_owned::<SharedTensor<f32>>();
        assert_owned::<SharedBytes>();
    }

    #[test]
    fn a_shared_tensor_reads_as_the_batch_does() {
        let pool = pool(4);
        let batch = filled(&pool, &[5, 9]);
        let (image, borrowed) =
            (batch.share::<f32>("image").unwrap(), batch.tensor::<f32>("image").unwrap());
        assert_eq!((image.shape(), image.as_slice()), (borrowed.shape(), borrowed.as_slice()));
        assert_eq!(image.as_ref().as_ptr(), borrowed.as_ref().as_ptr());
        assert_eq!(image.clone().row(1), borrowed.row(1));
        assert_eq!(format!("{image:?}"), "SharedTensor { dtype: F32, shape: [2, 2, 3], .. }");
        let bytes = batch.share_bytes("label").unwrap();
        assert_eq!(bytes.as_ref(), batch.bytes("label").unwrap());
        assert_eq!(bytes.start().cast_const(), bytes.as_slice().as_ptr());
        assert_eq!(batch.dtype("label"), Ok(DType::I64));
        assert_eq!(batch.shape("image").unwrap(), [2, 2, 3]);
    }

    #[test]
    fn the_last_owner_returns_the_slot() {
        let pool = pool(1);
        let batch = filled(&pool, &[8]);
        let label = batch.share::<i64>("label").unwrap();
        let image = batch.share_bytes("image").unwrap();
        drop((batch, image));
        assert_eq!((label.as_slice(), pool.slots()), (&[8][..], (1, 1)));
        // The slot is not free: the pool allocates another.
        drop(filled(&pool, &[9]));
        assert_eq!((label.as_slice(), pool.slots()), (&[8][..], (2, 2)));
        drop(label);
        assert_eq!(pool.slots(), (1, 2));
    }

    #[test]
    fn a_shared_tensor_outlives_its_batch_and_its_pool() {
        let pool = pool(1);
        let label = filled(&pool, &[8]).share::<i64>("label").unwrap();
        drop(pool);
        assert_eq!(std::thread::spawn(move || label.as_slice().to_vec()).join().unwrap(), [8]);
    }

    #[test]
    fn wrong_types_are_refused() {
        let pool = pool(1);
        let error = filled(&pool, &[0]).share::<u8>("image").unwrap_err();
        assert_eq!(error.to_string(), "tensor 'image' holds f32, but was requested as u8");
    }
}
