//! Devices: GPUs that training reads batches on, and what is computed there.
//!
//! ```text
//! rows of a batch ──copy stream──▶ staged bytes ──compute stream: one kernel──▶ tensors ──event──▶ your stream
//! (page-locked slot)               (a ring of 3)                                (a pool)
//! ```
//!
//! A `DeviceProgram` describes what is done with a batch, and uses no GPU: it is generated from plans,
//! and tests run it in other ways. The code that uses a GPU is in `cuda`, behind the feature of that
//! name.
//!
//! The ops after `ToDevice` share no block with those before it, so the image between them is stored: these bytes are
//! sent. The same kernels serve all samples, because the choices that a sample drew are bits in its record. A loader
//! that uses no device plans the list without that border, but rounds values there, so that it returns the same bits.

#[doc(hidden)]
pub mod check;
mod codegen;
#[cfg_attr(not(feature = "cuda"), path = "none.rs")]
pub(crate) mod cuda;
mod device_output;
mod dlpack;
pub(crate) mod error;
pub(crate) mod info;
mod prebuilt;
mod program;
mod record;
mod stream;
mod tensor;

#[cfg(feature = "cuda")]
#[doc(hidden)]
pub use cuda::bench;
pub(crate) use cuda::{Gpu, PageLocker, Uploader};
pub(crate) use device_output::{DeviceImage, DeviceOneHot, DeviceOutput};
pub use dlpack::{
    DlpackCapsule, DlpackDevice, DlpackTensor, ElementType, ManagedTensor, ManagedTensorVersioned,
};
pub(crate) use info::{Compiler, GpuInfo};
pub use info::{DeviceStats, KernelOrigin};
#[doc(hidden)]
pub use prebuilt::prebuilt;
pub(crate) use program::{Addresses, DeviceProgram};
pub use stream::{DeviceStream, StreamHandle};
pub use tensor::DeviceTensor;
