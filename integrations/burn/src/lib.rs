//! Fuseloop's batches as tensors of [burn], without copies.
//!
//! | function | returns |
//! |---|---|
//! | [`tensor_data`] | a `TensorData` that owns the batch's memory |
//! | [`float_tensor`], [`int_tensor`] | a tensor on a device |
//! | [`BurnLoader`] | burn's `DataLoader`, for a `Learner` and other code that takes one |
//!
//! ```no_run
//! use burn::tensor::Device;
//! use fuseloop::prelude::*;
//! use fuseloop_burn::{float_tensor, int_tensor};
//!
//! # fn main() -> fuseloop::Result<()> {
//! let loader = Loader::open("train.beton")?
//!     .batch_size(64)
//!     .order(Order::Random)
//!     .pipeline("image", ops![
//!         RandomResizedCrop::new(224)?.scale(0.3..=1.0)?,
//!         Normalize::imagenet(),
//!         ToChannelsFirst,
//!     ])
//!     .build()?;
//! let device = Device::default();
//! for batch in loader.epoch(0)? {
//!     let batch = batch?;
//!     let images = float_tensor::<4>(&batch, "image", &device)?; // [64, 3, 224, 224]
//!     let labels = int_tensor::<1>(&batch, "label", &device)?; // [64]
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Memory
//!
//! A `TensorData` of this crate is one more owner of its batch's memory: it may outlive the batch and the
//! loader, and no other batch is written there while it lives. On the CPU (Flex), a tensor is read where the
//! loader wrote it. The first operation that writes into a tensor in place copies it. A GPU gets the bytes from
//! there, too. Elements are converted, which copies, only if the tensor's kind has another element type, such as
//! a float tensor of bytes.
//!
//! [burn]: https://burn.dev

mod loader;

use burn::tensor::{AllocationProperty, Bytes, DType, Device, Int, Tensor, TensorData};
use fuseloop::batch::SharedBytes;
use fuseloop::source::BoxError;
use fuseloop::{Batch, Error, Result};

pub use self::loader::BurnLoader;

/// Returns the tensor `name` of a batch, of shape `[len, shape of a sample...]`. Copies nothing.
///
/// # Errors
///
/// If there is no tensor of this name, it is on a device, or its samples differ in size.
pub fn tensor_data(batch: &Batch, name: &str) -> Result<TensorData> {
    let (shape, dtype) = (batch.shape(name)?, dtype(batch.dtype(name)?));
    let owner = Owner(batch.share_bytes(name)?);
    let bytes = Bytes::from_shared(bytes::Bytes::from_owner(owner), AllocationProperty::Other);
    Ok(TensorData::from_bytes(bytes, shape, dtype))
}

/// Returns the tensor `name` of a batch as a tensor of floats on `device`. Floats keep their element type;
/// integers become the device's default float type.
///
/// # Errors
///
/// See [`tensor_data`]; also if the tensor does not have `D` dimensions.
pub fn float_tensor<const D: usize>(
    batch: &Batch,
    name: &str,
    device: &Device,
) -> Result<Tensor<D>> {
    let data = ranked_data::<D>(batch, name)?;
    Ok(match data.dtype() {
        float @ (DType::F16 | DType::BF16 | DType::F32 | DType::F64) => {
            Tensor::from_data(data, (device, float))
        }
        _ => Tensor::from_data(data, device),
    })
}

/// Returns the tensor `name` of a batch as a tensor of integers on `device`. Integers keep their element type;
/// floats become the device's default integer type.
///
/// # Errors
///
/// See [`float_tensor`].
pub fn int_tensor<const D: usize>(
    batch: &Batch,
    name: &str,
    device: &Device,
) -> Result<Tensor<D, Int>> {
    let data = ranked_data::<D>(batch, name)?;
    Ok(match data.dtype() {
        int @ (DType::U8 | DType::U16 | DType::I16 | DType::I32 | DType::I64) => {
            Tensor::from_data(data, (device, int))
        }
        _ => Tensor::from_data(data, device),
    })
}

fn ranked_data<const D: usize>(batch: &Batch, name: &str) -> Result<TensorData> {
    let data = tensor_data(batch, name)?;
    let shape = data.shape().to_vec();
    if shape.len() == D {
        return Ok(data);
    }
    let found = shape.len();
    let text = format!("tensor '{name}' has {found} dimensions, {shape:?}, but {D} were requested");
    Err(Error::from(BoxError::from(text)))
}

fn dtype(dtype: fuseloop::ops::DType) -> DType {
    use fuseloop::ops::DType as Stored;
    match dtype {
        Stored::U8 => DType::U8,
        Stored::U16 => DType::U16,
        Stored::I16 => DType::I16,
        Stored::I32 => DType::I32,
        Stored::I64 => DType::I64,
        Stored::F16 => DType::F16,
        Stored::Bf16 => DType::BF16,
        Stored::F32 => DType::F32,
        Stored::F64 => DType::F64,
        _ => unreachable!("burn has every element type of this version of Fuseloop"),
    }
}

/// The memory of a tensor, for `bytes::Bytes`.
struct Owner(SharedBytes);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop::Loader;
    use fuseloop::ops::{Normalize, ToChannelsFirst, ops};
    use fuseloop_digits as digits;

    fn batch() -> Batch {
        let dir =
            std::env::temp_dir().join(format!("fuseloop-burn-{:?}", std::thread::current().id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("digits.beton");
        digits::write(&path, 8, 1).unwrap();
        let loader = Loader::open(&path)
            .unwrap()
            .batch_size(8)
            .pipeline("image", ops![Normalize::imagenet(), ToChannelsFirst])
            .view("bytes", "image", ops![])
            .build()
            .unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        loader.epoch(0).unwrap().next().unwrap().unwrap()
    }

    #[test]
    fn a_tensor_is_read_where_the_loader_wrote_it() {
        let batch = batch();
        let data = tensor_data(&batch, "image").unwrap();
        assert_eq!((data.dtype(), data.shape().to_vec()), (DType::F32, vec![8, 3, 40, 40]));
        assert_eq!(data.as_bytes().as_ptr(), batch.bytes("image").unwrap().as_ptr());
        let address = data.as_bytes().as_ptr();
        let tensor = Tensor::<4>::from_data(data, &Device::flex());
        assert_eq!(tensor.into_data().as_bytes().as_ptr(), address, "Flex copied the tensor");
    }

    #[test]
    fn tensors_have_the_values_of_the_batch() {
        let batch = batch();
        let device = Device::flex();
        let images = float_tensor::<4>(&batch, "image", &device).unwrap();
        let bytes = float_tensor::<4>(&batch, "bytes", &device).unwrap();
        let labels = int_tensor::<1>(&batch, "label", &device).unwrap();
        let want = batch.tensor::<f32>("image").unwrap().as_slice().to_vec();
        let changed = images.clone().mul_scalar(2.0).sub(images.clone());
        drop(batch);
        assert_eq!(images.into_data().as_slice::<f32>().unwrap(), want);
        assert_eq!(changed.into_data().as_slice::<f32>().unwrap(), want);
        assert_eq!(labels.into_data().as_slice::<i64>().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((bytes.dims(), bytes.dtype()), ([8, 40, 40, 3], DType::F32));
    }

    #[test]
    fn a_wrong_number_of_dimensions_is_an_error() {
        let error = int_tensor::<2>(&batch(), "label", &Device::flex()).unwrap_err();
        assert_eq!(error.to_string(), "tensor 'label' has 1 dimensions, [8], but 2 were requested");
        let error = float_tensor::<4>(&batch(), "picture", &Device::flex()).unwrap_err();
        assert!(error.to_string().starts_with("no tensor named 'picture'"), "{error}");
    }
}
