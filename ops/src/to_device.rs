//! ToDevice: the ops after it are computed on a device, with one kernel for a whole batch.

use crate::author::Type;
use crate::author::{ImageType, Rng};
use crate::op::{Op, class};
use crate::registry::BuiltOp;
use crate::registry::{ParamKind, built};
use crate::{Device, ParamError, TypeError};

/// Computes the ops after it on a device, with one kernel for a whole batch.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ToDevice.md"))]
///
/// ```text
/// out = in        an image that more ops follow: each value rounded half to even to u8
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | anything; a u8 image of one size, channels last, if more ops than MixUp and CutMix follow |
/// | output | as the input                                                                |
/// | random | nothing                                                                     |
/// | cost   | a copy over the bus: a quarter of the bytes of f32, if the op stands before Normalize |
///
/// FFCV's `ToDevice`, but the ops after it are fused: each batch is copied once and written once.
/// The bytes before the op cross the bus, so `Normalize`, `Convert` and `ToChannelsFirst` belong
/// after it. In a loader without a device, the list computes the same result, bit for bit.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomResizedCrop::new(224)?, ToDevice::new("auto")?, Normalize::imagenet()];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(VALUES, "runs the ops after it, on images and labels, on a device", constructor = new, golden = "the same values, rounded where the list changes devices", build = |args| Ok(built(ToDevice::new(&args.text("device")?)?)), draw = random)]
pub struct ToDevice {
    #[param("auto takes the first GPU if there is one, and the CPU if not", example = "auto", kind = ParamKind::Word(DEVICES))]
    device: Device,
}

impl ToDevice {
    /// Selects a device by name: `cuda:N`, `auto` (the first GPU if there is one, else the CPU), or
    /// `cpu` (no device). A loader can override the device for all its lists.
    ///
    /// # Errors
    ///
    /// If `device` is not one of these names.
    pub fn new(device: &str) -> Result<Self, ParamError> {
        device.parse().map(Self::to)
    }

    /// Selects this device.
    #[must_use]
    pub const fn to(device: Device) -> Self {
        Self { device }
    }
}

fn random(_: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    Ok(built(ToDevice::to(Device::Auto)))
}

#[class(Device(self.device))]
impl Op for ToDevice {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }
}

/// The devices that a list can name; a loader accepts any other as well.
const DEVICES: &[&str] = &[
    "auto", "cpu", "cuda", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6",
    "cuda:7",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::author::OpClass;

    #[test]
    fn it_changes_no_type() {
        let label = Type::Tensor { dtype: DType::I64, shape: vec![1] };
        assert_eq!(ToDevice::new("cuda:1").unwrap().output(&label), Ok(label));
    }

    #[test]
    fn its_class_names_the_device() {
        let op = ToDevice::new("auto").unwrap();
        assert!(matches!(op.class(), OpClass::Device(Device::Auto)));
        assert!(ToDevice::new("cuda0").is_err());
    }
}
