//! Tensors of a batch on a device, for code that computes there.
//!
//! ```text
//! device_tensor(name, stream)   an address; `stream` waits for the batch, this thread does not
//! dlpack(name, stream)          a tensor, also in host memory, for other libraries; outlives the batch
//! to_host(name)                 a copy, for inspection; this thread waits
//! ```
//!
//! Work that is enqueued on `stream` before the batch is dropped, or the capsule deleted, completes
//! before another batch is written to the same memory. A tensor that is also used on another stream must
//! be requested for that stream too.

use std::marker::PhantomData;

use fuseloop_ops::DType;

use super::cuda::{LocatedTensor, PinnedSlot};
use super::{DeviceStream, DlpackCapsule};
use crate::batch::{Batch, TensorError};
use crate::error::Error;

/// A tensor on a device, valid until its batch is dropped.
///
/// ```no_run
/// use fuseloop::device::DeviceStream;
///
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// let batch = loader.get(&[0, 1], 0)?;
/// let images = batch.device_tensor("image", DeviceStream::PerThread)?;
/// println!("{:?} of {:?} at {:#x} on GPU {}", images.shape(), images.dtype(), images.ptr(), images.device());
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeviceTensor<'a> {
    found: LocatedTensor,
    batch: PhantomData<&'a Batch>,
}

impl DeviceTensor<'_> {
    /// Returns the address of the first element on the device, a multiple of 256.
    #[must_use]
    pub fn ptr(&self) -> u64 {
        self.found.address
    }

    /// Returns the elements along each dimension, the batch first. The tensor is row-major, without
    /// gaps.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.found.shape
    }

    /// Returns the type of an element.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.found.dtype
    }

    /// Returns the GPU's number.
    #[must_use]
    pub fn device(&self) -> u32 {
        self.found.device
    }
}

impl Batch {
    /// Returns the GPU that some of the batch's tensors are on; `None` if all are in the host's memory.
    #[must_use]
    pub fn device(&self) -> Option<u32> {
        let name = self.names().next()?;
        let (_, beside) = self.tensor_extension(name).ok()?;
        beside.and_then(PinnedSlot::of).map(PinnedSlot::ordinal)
    }

    /// Returns the tensor called `name`, which is on a device. `stream` waits until the batch is there.
    ///
    /// # Errors
    ///
    /// If no tensor has this name, or it is not on a device; or if the device fails, or has no such
    /// stream.
    pub fn device_tensor(
        &self,
        name: &str,
        stream: DeviceStream,
    ) -> Result<DeviceTensor<'_>, Error> {
        let (pinned, found) = self.find_on_device(name)?;
        pinned.make_ready_on(stream)?;
        Ok(DeviceTensor { found, batch: PhantomData })
    }

    /// Returns the address of the tensor called `name`.
    ///
    /// # Errors
    ///
    /// See [`device_tensor`](Self::device_tensor).
    pub fn device_ptr(&self, name: &str, stream: DeviceStream) -> Result<u64, Error> {
        self.device_tensor(name, stream).map(|tensor| tensor.ptr())
    }

    /// Returns the tensor called `name` for another library, by DLPack. The capsule may outlive the
    /// batch and the loader. For a tensor in host memory, `stream` has no meaning, and nothing is copied;
    /// the receiver may write to the tensor while none of its slices is read.
    ///
    /// # Errors
    ///
    /// If no tensor has this name, or its samples differ in size; or if the device fails, or has no such
    /// stream.
    pub fn dlpack(&self, name: &str, stream: DeviceStream) -> Result<DlpackCapsule, Error> {
        let (pinned, found) = match self.find_on_device(name) {
            Err(TensorError::OnHost { .. }) => {
                let (dtype, shape) = (self.dtype(name)?, self.shape(name)?);
                return Ok(DlpackCapsule::on_host(self.share_bytes(name)?, dtype, &shape));
            }
            found => found?,
        };
        let guard = pinned.guard_for(stream).ok_or_else(|| on_host(name))??;
        Ok(DlpackCapsule::on_device(&found, guard))
    }

    /// Returns a copy of the tensor called `name`, which is on a device, in the host's memory: `len`
    /// rows, without gaps. Waits for the device.
    ///
    /// # Errors
    ///
    /// See [`device_tensor`](Self::device_tensor).
    pub fn to_host(&self, name: &str) -> Result<Vec<u8>, Error> {
        let (pinned, found) = self.find_on_device(name)?;
        pinned.read(&found)
    }

    fn find_on_device(&self, name: &str) -> Result<(&PinnedSlot, LocatedTensor), TensorError> {
        let (output, beside) = self.tensor_extension(name)?;
        let pinned = beside.and_then(PinnedSlot::of);
        pinned.and_then(|pinned| Some((pinned, pinned.find(output)?))).ok_or_else(|| on_host(name))
    }
}

fn on_host(name: &str) -> TensorError {
    TensorError::OnHost { name: name.to_owned() }
}
