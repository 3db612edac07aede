//! Fuseloop's batches as tensors of [candle].
//!
//! [`to_tensor`] copies a tensor of a batch once, to a device; [`tensors`] does so for some tensors of each batch
//! of an epoch.
//!
//! ```no_run
//! use candle_core::Device;
//! use fuseloop::prelude::*;
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
//! let device = Device::Cpu;
//! for batch in fuseloop_candle::tensors(loader.epoch(0)?, ["image", "label"], &device) {
//!     let [images, labels] = batch?; // f32 [64, 3, 224, 224], i64 [64]
//! }
//! # Ok(())
//! # }
//! ```
//!
//! candle's CPU tensors own a `Vec`, so a batch, whose memory is used again, has to be copied once.
//!
//! [candle]: https://github.com/huggingface/candle

use candle_core::{Device, Tensor, WithDType};
use fuseloop::batch::Element;
use fuseloop::ops::DType;
use fuseloop::source::BoxError;
use fuseloop::{Batch, Batches, Error, Result};

/// Copies the tensor `name` of a batch, of shape `[len, shape of a sample...]`, to `device`. Elements keep their
/// type.
///
/// # Errors
///
/// If there is no tensor of this name, it is on a device, or its samples differ in size; if candle has no such element
/// type, as for u16, or can't store the tensor on `device`.
pub fn to_tensor(batch: &Batch, name: &str, device: &Device) -> Result<Tensor> {
    match batch.dtype(name)? {
        DType::U8 => copied::<u8>(batch, name, device),
        DType::I16 => copied::<i16>(batch, name, device),
        DType::I32 => copied::<i32>(batch, name, device),
        DType::I64 => copied::<i64>(batch, name, device),
        DType::F16 => copied::<half::f16>(batch, name, device),
        DType::Bf16 => copied::<half::bf16>(batch, name, device),
        DType::F32 => copied::<f32>(batch, name, device),
        DType::F64 => copied::<f64>(batch, name, device),
        dtype => {
            let text = format!(
                "tensor '{name}' holds {dtype}, which candle has not: convert it, for example with \
                 Convert::to(DType::I32)"
            );
            Err(Error::from(BoxError::from(text)))
        }
    }
}

fn copied<T: Element + WithDType>(batch: &Batch, name: &str, device: &Device) -> Result<Tensor> {
    let tensor = batch.tensor::<T>(name)?;
    let copied = Tensor::from_slice(tensor.as_slice(), tensor.shape(), device);
    copied.map_err(|error| Error::from(BoxError::from(error)))
}

/// Yields the tensors `names` of each batch of an epoch, on `device`.
pub fn tensors<const N: usize>(
    batches: Batches,
    names: [&str; N],
    device: &Device,
) -> impl Iterator<Item = Result<[Tensor; N]>> {
    batches.map(move |batch| {
        let batch = batch?;
        let tensors = names.iter().map(|name| to_tensor(&batch, name, device));
        let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        Ok(tensors.try_into().expect("one tensor for each name"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::DType as Stored;
    use fuseloop::Loader;
    use fuseloop::ops::{Convert, Normalize, ToChannelsFirst, ops};
    use fuseloop_digits as digits;

    fn loader() -> Loader {
        let dir =
            std::env::temp_dir().join(format!("fuseloop-candle-{:?}", std::thread::current().id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("digits.beton");
        digits::write(&path, 20, 1).unwrap();
        let converted = |to: DType| ops![Normalize::imagenet(), Convert::to(to)];
        let loader = Loader::open(&path)
            .unwrap()
            .batch_size(8)
            .pipeline("image", ops![Normalize::imagenet(), ToChannelsFirst])
            .view("bytes", "image", ops![])
            .view("f16", "image", converted(DType::F16))
            .view("bf16", "image", converted(DType::Bf16))
            .view("i32", "label", ops![Convert::to(DType::I32)])
            .view("u16", "label", ops![Convert::to(DType::U16)])
            .build()
            .unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        loader
    }

    #[test]
    fn tensors_have_the_types_and_the_values_of_the_batch() {
        let batch = loader().epoch(0).unwrap().next().unwrap().unwrap();
        let of = |name: &str| to_tensor(&batch, name, &Device::Cpu).unwrap();
        let image = of("image");
        assert_eq!((image.dims(), image.dtype()), (&[8, 3, 40, 40][..], Stored::F32));
        let want = batch.tensor::<f32>("image").unwrap().as_slice().to_vec();
        assert_eq!(image.flatten_all().unwrap().to_vec1::<f32>().unwrap(), want);
        assert_eq!(of("label").to_vec1::<i64>().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        for (name, dtype) in [
            ("bytes", Stored::U8),
            ("f16", Stored::F16),
            ("bf16", Stored::BF16),
            ("i32", Stored::I32),
        ] {
            assert_eq!(of(name).dtype(), dtype, "{name}");
        }
        let refused = to_tensor(&batch, "u16", &Device::Cpu).unwrap_err().to_string();
        assert_eq!(
            refused,
            "tensor 'u16' holds u16, which candle has not: convert it, for example with Convert::to(DType::I32)"
        );
        let bytes = batch.bytes("bytes").unwrap();
        assert_eq!(of("bytes").flatten_all().unwrap().to_vec1::<u8>().unwrap(), bytes);
    }

    #[test]
    fn an_epoch_yields_the_tensors_asked_for() {
        let loader = loader();
        let epoch = loader.epoch(0).unwrap();
        let batches = tensors(epoch, ["label", "image"], &Device::Cpu);
        let sizes: Vec<_> = batches
            .map(|batch| batch.unwrap())
            .map(|[l, i]| (l.dims1().unwrap(), i.rank()))
            .collect();
        assert_eq!(sizes, [(8, 4), (8, 4), (4, 4)]);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        let batch = loader().epoch(0).unwrap().next().unwrap().unwrap();
        let error = to_tensor(&batch, "picture", &Device::Cpu).unwrap_err();
        assert!(error.to_string().starts_with("no tensor named 'picture'"), "{error}");
    }
}
