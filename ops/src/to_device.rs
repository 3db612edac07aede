//! ToDevice: what stands after it is computed on a device, one kernel for a whole batch.
//!
//! ```text
//! out = in        an image that more ops follow: each value rounded half to even to u8
//! ```
//!
//! | | |
//! |--------|-----------------------------------------------------------------------------|
//! | input  | anything; a u8 image of one size, channels last, if more ops than MixUp and CutMix follow |
//! | output | as the input                                                                |
//! | random | nothing                                                                     |
//! | cost   | a copy over the bus: a quarter of what f32 would be, if it stands before Normalize |
//!
//! FFCV's `ToDevice`, but the ops after it are fused: each batch is copied once and written once.
//! On a device the bytes before it are what crosses the bus, so `Normalize`, `Convert` and
//! `ToChannelsFirst` belong after it. Where the loader runs without a device the list means the
//! same, bit for bit.

use crate::{Class, Device, Op, ParamError, Type, TypeError};

/// What stands after it is computed on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToDevice {
    device: Device,
}

impl ToDevice {
    /// To `cuda:N`, or the first GPU if there is one and the CPU if not (`auto`), or nowhere
    /// (`cpu`). A loader may be told another device for all its lists.
    ///
    /// # Errors
    ///
    /// If there is no such name.
    pub fn new(device: &str) -> Result<Self, ParamError> {
        device.parse().map(Self::to)
    }

    /// To this device.
    #[must_use]
    pub const fn to(device: Device) -> Self {
        Self { device }
    }
}

impl Op for ToDevice {
    fn name(&self) -> &'static str {
        "ToDevice"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }

    fn class(&self) -> Class<'_> {
        Class::Device(self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn it_changes_no_type() {
        let label = Type::Tensor { dtype: DType::I64, shape: vec![1] };
        assert_eq!(ToDevice::new("cuda:1").unwrap().output(&label), Ok(label));
    }

    #[test]
    fn its_class_names_the_device() {
        let op = ToDevice::new("auto").unwrap();
        assert!(matches!(op.class(), Class::Device(Device::Auto)));
        assert!(ToDevice::new("cuda0").is_err());
    }
}
