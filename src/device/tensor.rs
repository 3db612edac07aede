//! Tensors of a batch that lie on a device, for whoever computes there.
//!
//! ```text
//! device_tensor(name, stream)   an address; `stream` waits for the batch, this thread does not
//! dlpack(name, stream)          the same, for other libraries; outlives the batch
//! to_host(name)                 a copy, to look at; this thread waits
//! ```
//!
//! What is asked of `stream` before the batch is dropped, or the capsule deleted, is done with the
//! tensor before another batch is written there. A tensor that is also used on another stream must
//! be asked for with that one too.

use std::marker::PhantomData;

use fuseloop_ops::DType;

use super::cuda::{Found, Freight};
use super::{DeviceError, DlpackCapsule, Stream};
use crate::batch::{Batch, TensorError};

/// A tensor on a device, for as long as its batch is not dropped.
#[derive(Clone, Debug)]
pub struct DeviceTensor<'a> {
    found: Found,
    batch: PhantomData<&'a Batch>,
}

impl DeviceTensor<'_> {
    /// The address of the first element on the device; a multiple of 256.
    #[must_use]
    pub fn ptr(&self) -> u64 {
        self.found.address
    }

    /// Elements along each dimension, the batch first. Row-major, without gaps.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.found.shape
    }

    /// The type of an element.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.found.dtype
    }

    /// The GPU's number.
    #[must_use]
    pub fn device(&self) -> u32 {
        self.found.device
    }
}

/// Why a tensor could not be had from a device.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceTensorError {
    /// There is no such tensor there.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl Batch {
    /// The GPU that some of its tensors lie on; `None` if they are all in the host's memory.
    #[must_use]
    pub fn device(&self) -> Option<u32> {
        let name = self.names().next()?;
        let (_, beside) = self.beside(name).ok()?;
        beside.and_then(Freight::of).map(Freight::ordinal)
    }

    /// The tensor called `name`, which lies on a device: `stream` waits until it is there.
    ///
    /// # Errors
    ///
    /// If there is none of this name, or it is not on a device; or the device fails, or has no such
    /// stream.
    pub fn device_tensor(
        &self,
        name: &str,
        stream: Stream,
    ) -> Result<DeviceTensor<'_>, DeviceTensorError> {
        let (freight, found) = self.find_on_device(name)?;
        freight.hand_over(stream)?;
        Ok(DeviceTensor { found, batch: PhantomData })
    }

    /// Its address alone.
    ///
    /// # Errors
    ///
    /// As [`device_tensor`](Self::device_tensor).
    pub fn device_ptr(&self, name: &str, stream: Stream) -> Result<u64, DeviceTensorError> {
        self.device_tensor(name, stream).map(|tensor| tensor.ptr())
    }

    /// The tensor called `name` for another library, by DLPack. It outlives the batch and the loader.
    ///
    /// # Errors
    ///
    /// As [`device_tensor`](Self::device_tensor).
    pub fn dlpack(&self, name: &str, stream: Stream) -> Result<DlpackCapsule, DeviceTensorError> {
        let (freight, found) = self.find_on_device(name)?;
        let lent = freight.lend(stream).ok_or_else(|| on_host(name))??;
        Ok(DlpackCapsule::new(&found, lent))
    }

    /// A copy of the tensor called `name`, which lies on a device, in the host's memory: `len` rows,
    /// without gaps. Waits for the device.
    ///
    /// # Errors
    ///
    /// As [`device_tensor`](Self::device_tensor).
    pub fn to_host(&self, name: &str) -> Result<Vec<u8>, DeviceTensorError> {
        let (freight, found) = self.find_on_device(name)?;
        Ok(freight.read(&found)?)
    }

    fn find_on_device(&self, name: &str) -> Result<(&Freight, Found), TensorError> {
        let (output, beside) = self.beside(name)?;
        let freight = beside.and_then(Freight::of);
        freight
            .and_then(|freight| Some((freight, freight.find(output)?)))
            .ok_or_else(|| on_host(name))
    }
}

fn on_host(name: &str) -> TensorError {
    TensorError::OnHost { name: name.to_owned() }
}
