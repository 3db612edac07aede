//! Batches: their contents, the layout of their memory, and its lifetime.
//!
//! ```text
//! tensor k of a batch:  [len, shape_k...], rows side by side, first byte at a multiple of 64
//! row i of tensor k  =  sample ids()[i]
//! ```
//!
//! A [`Batch`] is a lease on memory that is reused over batches and epochs: while the batch lives, nothing
//! writes to its memory.
//!
//! Numbers are stored in native byte order.

use crate::error::{Cause, Details, ErrorKind};
use std::fmt;
use std::ops::Deref;

use fuseloop_engine::batch::HostBatch;
pub(crate) use fuseloop_engine::batch::RowsMut;
#[doc(inline)]
pub use fuseloop_engine::batch::{
    Element, Ragged, SharedBytes, SharedTensor, TensorError, TensorRows, TensorSpec, TensorView,
};

/// A batch of samples: a lease on the memory they were written to.
///
/// The contents do not change while the batch lives, whatever the loader does, and the batch may outlive
/// its loader. Held batches cost memory: the loader continues in other slots.
///
/// The methods below read tensors on a device. What a [`HostBatch`] offers, such as
/// [`ids`](HostBatch::ids) and [`tensor`](HostBatch::tensor), reads those in host memory.
///
/// ```no_run
/// use fuseloop::Loader;
///
/// let loader = Loader::open("photos")?.batch_size(64).build()?;
/// for batch in loader.epoch(0)? {
///     let batch = batch?;
///     let (images, labels) = (batch.tensor::<u8>("image")?, batch.tensor::<i64>("label")?);
///     println!("{:?}, {:?}", images.shape(), labels.as_slice());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batch(HostBatch);

impl From<HostBatch> for Batch {
    fn from(batch: HostBatch) -> Self {
        Self(batch)
    }
}

impl Deref for Batch {
    type Target = HostBatch;

    #[inline]
    fn deref(&self) -> &HostBatch {
        &self.0
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Cause for TensorError {
    fn details(&self) -> Details<'_> {
        let field = Details::of(ErrorKind::Field);
        match self {
            Self::NoSuchTensor { name, .. }
            | Self::WrongType { name, .. }
            | Self::Uneven { name, .. }
            | Self::OnDevice { name }
            | Self::OnHost { name }
            | Self::Even { name } => field.field(name),
            _ => field,
        }
    }
}
