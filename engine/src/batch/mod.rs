//! Batches: their contents, the layout of their memory, and its lifetime.
//!
//! ```text
//! tensor k of a batch:  [len, shape_k...], rows side by side, first byte at a multiple of 64
//! row i of tensor k  =  sample ids()[i]
//! ```
//!
//! A **slot** is the memory of all tensors of one batch. A slot is allocated once and reused over
//! batches and epochs. A [`HostBatch`] is a lease on a slot: while the batch lives, nothing writes to the
//! slot. A [`SharedTensor`] is one more owner of the lease. Dropping the last owner returns the slot to its
//! pool, or frees the slot if the pool is gone.
//!
//! Numbers are stored in native byte order.

#[cfg(feature = "ndarray")]
mod arrays;
mod fingerprint;
mod pool;
mod ragged;
mod shared_tensor;
mod slot;

use std::fmt;
use std::num::NonZeroUsize;

use fuseloop_ops::DType;

pub use self::fingerprint::fingerprint;
pub use self::pool::{Lease, SlotPool};
pub use self::ragged::{ImagePadding, Ragged, TensorRows, pack};
use self::shared_tensor::LeasedSlot;
pub use self::shared_tensor::{SharedBytes, SharedTensor};
pub(crate) use self::slot::FillingSlot;
pub use self::slot::{Element, RowsMut, Slot, SlotExtension, bytes_of, bytes_of_mut, elements_of};
use crate::sample::{Epoch, SampleId, SampleRef};
use crate::sync::Arc;

/// One output of a pipeline: its name, element type and shape.
///
/// ```no_run
/// # use fuseloop_engine::batch::{HostBatch as Batch, TensorError};
/// # fn example(batch: &Batch) -> Result<(), TensorError> {
/// for tensor in batch.specs() {
///     println!("{}: {:?} {:?}", tensor.name, tensor.dtype, tensor.shape);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// The name of the tensor.
    pub name: String,
    /// The type of an element.
    pub dtype: DType,
    /// Elements along each dimension **of one sample**, slowest first; empty for a scalar.
    pub shape: Vec<usize>,
    /// How the rows are laid out: whether every sample has this shape, or at most this shape.
    pub rows: TensorRows,
    /// A second name of the tensor: the name that its field is stored under.
    #[doc(hidden)]
    pub alias: Option<String>,
    /// The bytes of host memory that a sample needs while its batch is filled, if they are more than those of its shape:
    /// [`pack`] closes the gaps.
    #[doc(hidden)]
    pub room: usize,
}

impl TensorSpec {
    /// Describes a tensor whose samples all have one size.
    #[doc(hidden)]
    pub fn new(name: impl Into<String>, dtype: DType, shape: impl Into<Vec<usize>>) -> Self {
        let (name, shape, rows) = (name.into(), shape.into(), TensorRows::Even);
        Self { name, dtype, shape, rows, alias: None, room: 0 }
    }

    /// Returns the bytes of one sample in the batch's host memory while it is filled; `None` if the product overflows.
    #[must_use]
    #[doc(hidden)]
    pub fn row_bytes(&self) -> Option<usize> {
        if let TensorRows::Device { staged } = self.rows {
            return Some(staged);
        }
        Some(self.shape_bytes()?.max(self.room))
    }

    /// Returns the bytes of a sample of the tensor's shape; `None` if the product overflows.
    fn shape_bytes(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.dtype.bytes(), |bytes, &n| bytes.checked_mul(n))
    }
}

/// The tensors of a batch and its maximum number of rows: everything that determines a slot's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSpec {
    tensors: Vec<TensorSpec>,
    row_bytes: Vec<usize>,
    rows: usize,
}

impl BatchSpec {
    /// Checks names and sizes, so that no later computation can overflow.
    ///
    /// # Errors
    ///
    /// If two tensors have one name, the batch is too large to address, or the sizes of rows are not
    /// available.
    pub fn new(tensors: &[TensorSpec], rows: NonZeroUsize) -> Result<Self, SlotError> {
        let mut row_bytes = Vec::with_capacity(tensors.len());
        for (k, tensor) in tensors.iter().enumerate() {
            if tensors[..k].iter().any(|before| before.name == tensor.name) {
                return Err(SlotError::DuplicateName { name: tensor.name.clone() });
            }
            let too_large = || SlotError::TooLarge { name: tensor.name.clone(), rows: rows.get() };
            let bytes = tensor.row_bytes().ok_or_else(too_large)?;
            let total = bytes.checked_mul(rows.get()).ok_or_else(too_large)?;
            if total > Slot::MAX_TENSOR_BYTES {
                return Err(too_large());
            }
            row_bytes.push(bytes);
        }
        ragged::check(tensors)?;
        Ok(Self { tensors: tensors.to_vec(), row_bytes, rows: rows.get() })
    }

    /// Returns the maximum number of samples of a batch.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the bytes of a slot.
    pub(crate) fn bytes(&self) -> u64 {
        // Each product was checked. The sum can only overflow if there is no such amount of memory.
        self.row_bytes.iter().fold(0, |sum, &row| sum.saturating_add((row * self.rows) as u64))
    }

    /// Returns the bytes of one sample in each tensor.
    pub(crate) fn row_bytes(&self) -> &[usize] {
        &self.row_bytes
    }

    fn find(&self, name: &str) -> Result<usize, TensorError> {
        let named = self.tensors.iter().position(|tensor| tensor.name == name);
        let is_called = |tensor: &TensorSpec| tensor.alias.as_deref() == Some(name);
        named.or_else(|| self.tensors.iter().position(is_called)).ok_or_else(|| {
            let known = self.tensors.iter().map(|t| t.name.as_str()).collect::<Vec<_>>();
            TensorError::NoSuchTensor { name: name.to_owned(), known: known.join(", ") }
        })
    }
}

/// A batch of samples: a lease on the memory they were written to.
///
/// The contents do not change while the batch lives, whatever the loader does, and the batch may outlive
/// its loader. Held batches cost memory: the loader continues in other slots. [`share`](Self::share) returns
/// a tensor that holds the memory by itself.
pub struct HostBatch {
    lease: Arc<LeasedSlot>,
    epoch: Epoch,
    index: u64,
    /// Stands for what decides the bits of the rows besides the samples, the epoch and the index.
    origin: u64,
    damage: RowDamage,
}

/// The samples of a batch that could not be read.
#[derive(Debug, Default)]
pub(crate) struct RowDamage {
    /// The samples that were left out.
    pub(crate) skipped: Vec<SampleRef>,
    /// The samples that were replaced by others.
    pub(crate) replaced: Vec<SampleRef>,
}

impl HostBatch {
    /// Creates the lease on `slot`, which holds batch `index` of its epoch.
    pub fn new(mut slot: Slot, pool: &Arc<SlotPool>, epoch: Epoch, index: u64) -> Self {
        slot.update_ids();
        let lease = Arc::new(LeasedSlot::new(slot, pool));
        Self { lease, epoch, index, origin: 0, damage: RowDamage::default() }
    }

    /// Sets the part of the [`fingerprint`](Self::fingerprint) that all batches of a run share.
    pub(crate) fn with_origin(self, origin: u64) -> Self {
        Self { origin, ..self }
    }

    /// Sets the samples that were left out or replaced.
    pub(crate) fn with_damage(mut self, damage: RowDamage) -> Self {
        self.damage = damage;
        self
    }

    fn slot(&self) -> &Slot {
        self.lease.slot()
    }

    fn spec(&self) -> &BatchSpec {
        &self.lease.spec
    }

    /// Returns the number of samples. It is smaller than the batch size only in the last batch of an
    /// epoch, and where rows were [left out](Self::skipped).
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids().len()
    }

    /// Returns true if the batch has no sample. The engine delivers no such batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sample of each row.
    #[must_use]
    pub fn ids(&self) -> &[SampleId] {
        self.slot().ids()
    }

    /// Returns for each row its sample, how often that sample came before in the epoch, and whether the
    /// row only pads the batch.
    #[must_use]
    pub fn visits(&self) -> &[SampleRef] {
        self.slot().visits()
    }

    /// Returns the samples that were left out because they could not be read, in the order of the rows.
    #[must_use]
    pub fn skipped(&self) -> &[SampleRef] {
        &self.damage.skipped
    }

    /// Returns the samples that could not be read and were replaced by others, in the order of the rows.
    #[must_use]
    pub fn replaced(&self) -> &[SampleRef] {
        &self.damage.replaced
    }

    /// Yields for each row true if the row counts, and false if it only pads the batch. An evaluation
    /// must leave padding rows out.
    pub fn mask(&self) -> impl ExactSizeIterator<Item = bool> + '_ {
        self.visits().iter().map(|visit| !visit.is_padding)
    }

    /// Returns the epoch of the batch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the index of the batch in its epoch, from 0.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Returns the batch's fingerprint: a hash of what decides its bits. These are the dataset, the plan, the seed, the
    /// epoch, the index and the samples of the rows in their order, after damaged ones were left out or replaced. The
    /// draws are functions of these. Threads, read-ahead and the machine change nothing, and no pixel is read:
    /// the hash takes one or two nanoseconds a row.
    ///
    /// Two runs on the same files that print the same fingerprints have trained on the same bits; whether labels or files were
    /// changed in place is not seen in all formats. `{:016x}` is the form of logs, spans and
    /// cursors.
    ///
    /// ```no_run
    /// # use fuseloop_engine::batch::HostBatch as Batch;
    /// # fn example(batch: &Batch) {
    /// println!("epoch {} batch {}: {:016x}", batch.epoch().0, batch.index(), batch.fingerprint());
    /// # }
    /// ```
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        fingerprint(self.origin, self.epoch, self.index, self.visits())
    }

    /// Returns the names of the tensors, in the order of the outputs.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.spec().tensors.iter().map(|t| t.name.as_str())
    }

    /// Returns the tensors, in the order of the outputs. The shapes are those of one sample.
    #[must_use]
    pub fn specs(&self) -> &[TensorSpec] {
        &self.spec().tensors
    }

    /// Returns the tensor `name`, of shape `[len, shape of a sample...]`.
    ///
    /// # Errors
    ///
    /// If there is no tensor of this name, its elements are not `T`, or its samples differ in size.
    pub fn tensor<T: Element>(&self, name: &str) -> Result<TensorView<'_, T>, TensorError> {
        let (k, _) = self.typed::<T>(name)?;
        let shape = self.shape(name)?;
        let elements = shape.iter().product();
        Ok(TensorView { elements: &self.slot().elements(k)[..elements], shape })
    }

    /// Returns the bytes of the tensor `name`: `len` rows without gaps.
    ///
    /// # Errors
    ///
    /// If there is no tensor of this name, or there are [gaps](TensorRows::List) between its rows.
    pub fn bytes(&self, name: &str) -> Result<&[u8], TensorError> {
        let k = self.spec().find(name)?;
        let spec = &self.spec().tensors[k];
        match spec.rows {
            TensorRows::Even | TensorRows::Padded { .. } => {
                let of_sample: usize = self.sample_shape(k).into_iter().flatten().product();
                Ok(&self.slot().bytes(k)[..self.len() * of_sample * spec.dtype.bytes()])
            }
            TensorRows::Ragged { sizes } => Ok(self.packed_bytes(k, sizes)),
            TensorRows::List { .. } | TensorRows::Device { .. } => Err(TensorError::uneven(spec)),
        }
    }

    /// Returns the index of the tensor `name`, and what the stage stores with the slot.
    ///
    /// # Errors
    ///
    /// If there is no tensor of this name.
    #[doc(hidden)]
    pub fn tensor_extension(
        &self,
        name: &str,
    ) -> Result<(usize, Option<&dyn SlotExtension>), TensorError> {
        Ok((self.spec().find(name)?, self.slot().extension()))
    }

    /// Returns the tensor `name`, if its elements are `T`.
    fn typed<T: Element>(&self, name: &str) -> Result<(usize, &TensorSpec), TensorError> {
        let k = self.spec().find(name)?;
        let spec = &self.spec().tensors[k];
        if spec.dtype == T::DTYPE {
            return Ok((k, spec));
        }
        let (name, stored, asked) = (name.to_owned(), spec.dtype, T::DTYPE);
        Err(TensorError::WrongType { name, stored, asked })
    }
}

impl fmt::Debug for HostBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("epoch", &self.epoch.0)
            .field("index", &self.index)
            .field("len", &self.len())
            .field("tensors", &self.spec().tensors)
            .finish_non_exhaustive()
    }
}

/// A borrowed tensor of a batch, row-major, without gaps.
///
/// ```no_run
/// # use fuseloop_engine::batch::{HostBatch as Batch, TensorError};
/// # fn example(batch: &Batch) -> Result<(), TensorError> {
/// let images = batch.tensor::<f32>("image")?;
/// assert_eq!(images.shape()[1..], [3, 224, 224]);
/// if let Some(first) = images.row(0) {
///     println!("mean of the first image: {}", first.iter().sum::<f32>() / first.len() as f32);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TensorView<'a, T> {
    elements: &'a [T],
    shape: Vec<usize>,
}

impl<'a, T: Element> TensorView<'a, T> {
    /// Returns the number of elements along each dimension; the first is the batch.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns all elements: `shape().iter().product()` of them.
    #[must_use]
    pub fn as_slice(&self) -> &'a [T] {
        self.elements
    }

    /// Returns the elements of sample `i` of the batch; `None` past the last.
    #[must_use]
    pub fn row(&self, i: usize) -> Option<&'a [T]> {
        let row: usize = self.shape[1..].iter().product();
        (i < self.shape[0]).then(|| &self.elements[i * row..(i + 1) * row])
    }
}

impl<T> AsRef<[T]> for TensorView<'_, T> {
    fn as_ref(&self) -> &[T] {
        self.elements
    }
}

/// Why a tensor could not be read from a batch.
///
/// ```no_run
/// # use fuseloop_engine::batch::{HostBatch as Batch, TensorError};
/// # fn example(batch: &Batch) -> Result<(), TensorError> {
/// match batch.tensor::<f32>("image") {
///     Ok(images) => println!("{:?}", images.shape()),
///     Err(TensorError::WrongType { stored, .. }) => println!("the images are {stored:?}"),
///     Err(other) => return Err(other),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorError {
    /// The pipeline has no output of this name.
    #[error("no tensor named '{name}'; available: {known}")]
    NoSuchTensor {
        /// The name asked for.
        name: String,
        /// The names of the tensors.
        known: String,
    },
    /// The elements are of another type.
    #[error("tensor '{name}' holds {stored}, but was requested as {asked}")]
    WrongType {
        /// The tensor.
        name: String,
        /// The element type of the tensor.
        stored: DType,
        /// The element type asked for.
        asked: DType,
    },
    /// The samples differ in size, so they have no common shape.
    #[error("the samples of '{name}' differ in size: use `{with}`")]
    Uneven {
        /// The tensor.
        name: String,
        /// The method of [`HostBatch`] that returns the samples.
        with: &'static str,
    },
    /// The tensor is on a device.
    #[error("'{name}' is on a device: use `device_tensor`, or `to_host` for a copy")]
    OnDevice {
        /// The tensor.
        name: String,
    },
    /// The tensor is in host memory.
    #[error(
        "'{name}' is in host memory: use `tensor` (only the output of the ops after ToDevice is on a device)"
    )]
    OnHost {
        /// The tensor.
        name: String,
    },
    /// The samples all have one size.
    #[error("the samples of '{name}' all have one size: use `tensor`")]
    Even {
        /// The tensor.
        name: String,
    },
}

impl TensorError {
    fn uneven(spec: &TensorSpec) -> Self {
        let name = spec.name.clone();
        match spec.rows {
            TensorRows::Device { .. } => Self::OnDevice { name },
            TensorRows::Ragged { .. } => Self::Uneven { name, with: "ragged" },
            TensorRows::Even | TensorRows::Padded { .. } | TensorRows::List { .. } => {
                Self::Uneven { name, with: "list" }
            }
        }
    }
}

/// Why the memory of a batch can't be allocated.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotError {
    /// Two outputs have one name.
    #[error("two outputs are named '{name}'")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// More bytes than can be addressed.
    #[error("output '{name}' is too large for a batch of {rows}")]
    TooLarge {
        /// The output.
        name: String,
        /// The batch size.
        rows: usize,
    },
    /// No tensor holds the sizes of the rows.
    #[error("output '{name}': no i64 tensor has the sizes of its rows")]
    Sizes {
        /// The output.
        name: String,
    },
    /// The system can't allocate the memory.
    #[error("no memory for a tensor of {bytes} bytes")]
    NoMemory {
        /// The bytes of one tensor of the batch.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs() -> Vec<TensorSpec> {
        vec![TensorSpec::new("image", DType::F32, [2, 3]), TensorSpec::new("label", DType::I64, [])]
    }

    pub(super) fn pool(rows: usize) -> Arc<SlotPool> {
        let spec = BatchSpec::new(&specs(), NonZeroUsize::new(rows).unwrap()).unwrap();
        Arc::new(SlotPool::new(Arc::new(spec), None, 1, Box::new(|| {})))
    }

    pub(super) fn filled(pool: &Arc<SlotPool>, ids: &[u64]) -> HostBatch {
        let Some(lease) = pool.take() else { panic!("no slot") };
        let mut slot = pool.redeem(lease).unwrap();
        slot.visits_mut().extend(ids.iter().map(|&id| SampleRef::once(SampleId(id))));
        let filling = FillingSlot::new(slot, NonZeroUsize::MIN);
        while let Some((samples, mut rows)) = filling.claim() {
            let mut outputs = rows.outputs();
            let image = outputs.next().unwrap();
            for (i, element) in image.chunks_exact_mut(4).enumerate() {
                element
                    .copy_from_slice(&((samples[0].sample.0 * 6 + i as u64) as f32).to_ne_bytes());
            }
            outputs.next().unwrap().copy_from_slice(&samples[0].sample.0.to_ne_bytes());
        }
        HostBatch::new(filling.into_slot(), pool, Epoch(3), 7)
    }

    #[test]
    fn a_tensor_has_the_batch_as_its_first_dimension() {
        let pool = pool(4);
        let batch = filled(&pool, &[5, 9]);
        let image = batch.tensor::<f32>("image").unwrap();
        assert_eq!(image.shape(), [2, 2, 3]);
        assert_eq!(image.row(1).unwrap(), [54.0, 55.0, 56.0, 57.0, 58.0, 59.0]);
        assert_eq!(image.row(2), None);
        let label = batch.tensor::<i64>("label").unwrap();
        assert_eq!((label.shape(), label.as_slice()), (&[2][..], &[5, 9][..]));
        assert_eq!(batch.bytes("label").unwrap().len(), 16);
        assert_eq!(batch.names().collect::<Vec<_>>(), ["image", "label"]);
        assert_eq!((batch.len(), batch.epoch(), batch.index()), (2, Epoch(3), 7));
    }

    #[test]
    fn tensors_begin_at_multiples_of_64_bytes() {
        let pool = pool(3);
        let batch = filled(&pool, &[0, 1, 2]);
        for name in ["image", "label"] {
            assert_eq!(batch.bytes(name).unwrap().as_ptr() as usize % 64, 0, "{name}");
        }
    }

    #[test]
    fn wrong_names_and_types_are_told() {
        let pool = pool(1);
        let batch = filled(&pool, &[0]);
        let error = batch.tensor::<f32>("picture").unwrap_err();
        assert_eq!(error.to_string(), "no tensor named 'picture'; available: image, label");
        let error = batch.tensor::<half::f16>("image").unwrap_err();
        assert_eq!(error.to_string(), "tensor 'image' holds f32, but was requested as f16");
    }

    #[test]
    fn a_batch_too_large_to_address_is_refused() {
        let huge = |shape: Vec<usize>| TensorSpec::new("x", DType::F64, shape);
        for shape in [vec![usize::MAX], vec![1 << 40, 1 << 40], vec![usize::MAX / 16]] {
            let error = BatchSpec::new(&[huge(shape)], NonZeroUsize::new(2).unwrap()).unwrap_err();
            assert_eq!(error.to_string(), "output 'x' is too large for a batch of 2");
        }
        let twice = [huge(vec![1]), huge(vec![2])];
        let error = BatchSpec::new(&twice, NonZeroUsize::MIN).unwrap_err();
        assert_eq!(error.to_string(), "two outputs are named 'x'");
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let spec = TensorSpec::new("x", DType::U8, [1 << 62]);
        let spec = BatchSpec::new(&[spec], NonZeroUsize::MIN).unwrap();
        let pool = SlotPool::new(Arc::new(spec), None, 1, Box::new(|| {}));
        let lease = pool.take().unwrap();
        assert_eq!(pool.redeem(lease).err(), Some(SlotError::NoMemory { bytes: 1 << 62 }));
        assert_eq!(pool.slots(), (0, 0));
    }

    #[test]
    fn a_batch_outlives_its_pool() {
        let pool = pool(1);
        let batch = filled(&pool, &[8]);
        drop(pool);
        assert_eq!(batch.tensor::<i64>("label").unwrap().as_slice(), [8]);
    }

    #[test]
    fn a_sample_of_no_bytes_is_a_row_of_nothing() {
        let spec = TensorSpec::new("x", DType::U8, [0]);
        let spec = BatchSpec::new(&[spec], NonZeroUsize::new(2).unwrap()).unwrap();
        let pool = Arc::new(SlotPool::new(Arc::new(spec), None, 1, Box::new(|| {})));
        let mut slot = pool.redeem(pool.take().unwrap()).unwrap();
        slot.visits_mut().extend([0, 1].map(|id| SampleRef::once(SampleId(id))));
        let batch = HostBatch::new(slot, &pool, Epoch(0), 0);
        assert_eq!(batch.tensor::<u8>("x").unwrap().shape(), [2, 0]);
        assert_eq!(batch.tensor::<u8>("x").unwrap().row(1), Some(&[][..]));
    }
}
