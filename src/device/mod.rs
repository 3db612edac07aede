//! Devices: where training reads batches, and what is computed there.
//!
//! ```text
//! rows of a batch ──copy stream──▶ staged bytes ──compute stream: one kernel──▶ tensors ──event──▶ your stream
//! (page-locked slot)               (a ring of 3)                                (a pool)
//! ```
//!
//! A `Program` says what is done with a batch, and touches no GPU: it is generated from plans,
//! and tests run it in other ways. What does touch one is `cuda`, behind the feature of that name.

#[doc(hidden)]
pub mod check;
#[cfg_attr(not(feature = "cuda"), path = "none.rs")]
pub mod cuda;
mod dlpack;
mod error;
mod info;
mod part;
mod program;
mod record;
mod stream;
mod tensor;
mod text;
mod usual;

pub use cuda::Gpu;
pub(crate) use cuda::Lane;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub use cuda::bench;
pub use dlpack::{DlpackCapsule, ManagedTensor};
pub use error::DeviceError;
pub use info::{Compiler, DeviceStats, GpuInfo, KernelOrigin};
pub(crate) use part::{ImagePart, OneHotPart, Part};
pub(crate) use program::{Addresses, Program};
pub use stream::{Stream, StreamHandle};
pub use tensor::{DeviceTensor, DeviceTensorError};
#[doc(hidden)]
pub use usual::usual;
