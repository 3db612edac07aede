//! The usual workloads, by name: the ones that peers are measured on and the command line runs.
//!
//! | name          | images   | ops                                                              |
//! |---------------|----------|------------------------------------------------------------------|
//! | W1 `imagenet` | any      | RandomResizedCrop 224, flip, normalize                           |
//! | W2 `val`      | any      | CenterCrop 224 of ratio 224/256, normalize                       |
//! | W3 `jitter`   | any      | RandomResizedCrop 224, flip, ColorJitter 0.4 0.4 0.4, normalize  |
//! | W4 `cifar`    | one size | flip, translate 4, cutout 8, normalize                           |
//! | W5 `crop`     | any; small ones are padded with black | RandomCrop 224, flip, normalize       |
//!
//! All produce `f32 [3, height, width]`. Labels need no ops: they are `i64 [1]`.
//!
//! ```
//! use fuseloop::internals::workload::Workload;
//!
//! let workload: Workload = "imagenet".parse()?;
//! assert_eq!(workload, Workload::ImageNet);
//! assert_eq!(workload.ops()?.len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::error::{Error, fail};
use fuseloop_ops::author::OpClass;
use fuseloop_ops::internals::registry::nearest;
use fuseloop_ops::{
    CenterCrop, ColorJitter, Cutout, Device, Normalize, Ops, ParamError, RandomCrop,
    RandomHorizontalFlip, RandomResizedCrop, RandomTranslate, ToChannelsFirst, ToDevice, ops,
};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A list of ops with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Workload {
    /// W1: training on ImageNet.
    ImageNet,
    /// W2: validation on ImageNet.
    Validation,
    /// W3: training on ImageNet with jittered colours.
    Jitter,
    /// W4: training on CIFAR-10.
    Cifar,
    /// W5: crops that are not resized.
    Crop,
}

/// The side of the images that W1, W2, W3 and W5 produce.
const SIDE: u32 = 224;

/// The mean colour of CIFAR-10 in whole levels: the fill colour of FFCV's example.
const CIFAR_MEAN: [u8; 3] = [125, 122, 113];

impl Workload {
    /// All workloads, W1 first.
    pub const ALL: [Self; 5] =
        [Self::ImageNet, Self::Validation, Self::Jitter, Self::Cifar, Self::Crop];

    /// Returns the short name: `W1`.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::ImageNet => "W1",
            Self::Validation => "W2",
            Self::Jitter => "W3",
            Self::Cifar => "W4",
            Self::Crop => "W5",
        }
    }

    /// Returns the long name: `imagenet`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ImageNet => "imagenet",
            Self::Validation => "val",
            Self::Jitter => "jitter",
            Self::Cifar => "cifar",
            Self::Crop => "crop",
        }
    }

    /// Describes the workload in one line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::ImageNet => "RandomResizedCrop 224, flip, normalize, f32 NCHW",
            Self::Validation => "CenterCrop 224 (ratio 224/256), normalize, f32 NCHW",
            Self::Jitter => "RandomResizedCrop 224, flip, ColorJitter 0.4, normalize, f32 NCHW",
            Self::Cifar => "flip, translate 4, cutout 8, normalize, f32 NCHW",
            Self::Crop => "RandomCrop 224, flip, normalize, f32 NCHW",
        }
    }

    /// Returns the ops for an image field.
    ///
    /// # Errors
    ///
    /// Never: the parameters are in range. A pipeline closure can return the result unchanged.
    pub fn ops(self) -> Result<Ops, ParamError> {
        match self {
            Self::ImageNet => imagenet(SIDE),
            Self::Validation => validation(),
            Self::Jitter => jitter(SIDE),
            Self::Cifar => cifar(),
            Self::Crop => crop(),
        }
    }
}

/// Returns the same list with the conversion from bytes to floats left to a device: inserts `ToDevice`
/// before the first `Normalize`, `Convert` or `ToChannelsFirst`. A list that has a `ToDevice` stays
/// unchanged.
///
/// ```
/// use fuseloop::ops::Device;
/// use fuseloop::internals::workload::{Workload, on_device};
///
/// let ops = on_device(Workload::ImageNet.ops()?, Device::Auto);
/// assert_eq!(ops.iter().position(|op| op.name() == "ToDevice"), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn on_device(mut ops: Ops, device: Device) -> Ops {
    const LAST: [&str; 3] = ["Normalize", "Convert", "ToChannelsFirst"];
    if !ops.iter().any(|op| matches!(op.class(), OpClass::Device(_))) {
        let index = ops.iter().position(|op| LAST.contains(&op.name())).unwrap_or(ops.len());
        ops.insert(index, Arc::new(ToDevice::to(device)));
    }
    ops
}

/// Returns the ops of W1 for images of `side` pixels.
///
/// # Errors
///
/// If `side` is not in `1..=65535`.
pub fn imagenet(side: u32) -> Result<Ops, ParamError> {
    Ok(ops![
        RandomResizedCrop::new(side)?,
        RandomHorizontalFlip::new(0.5)?,
        Normalize::imagenet(),
        ToChannelsFirst,
    ])
}

/// Returns the ops of W3 for images of `side` pixels.
///
/// # Errors
///
/// If `side` is not in `1..=65535`.
pub fn jitter(side: u32) -> Result<Ops, ParamError> {
    Ok(ops![
        RandomResizedCrop::new(side)?,
        RandomHorizontalFlip::new(0.5)?,
        ColorJitter::new(0.4, 0.4, 0.4)?,
        Normalize::imagenet(),
        ToChannelsFirst,
    ])
}

fn validation() -> Result<Ops, ParamError> {
    Ok(ops![CenterCrop::new(SIDE)?.ratio(224.0 / 256.0)?, Normalize::imagenet(), ToChannelsFirst,])
}

fn cifar() -> Result<Ops, ParamError> {
    Ok(ops![
        RandomHorizontalFlip::new(0.5)?,
        RandomTranslate::new(4)?.fill(CIFAR_MEAN),
        Cutout::new(8)?.fill(CIFAR_MEAN),
        Normalize::cifar10(),
        ToChannelsFirst,
    ])
}

fn crop() -> Result<Ops, ParamError> {
    Ok(ops![
        RandomCrop::new(SIDE)?,
        RandomHorizontalFlip::new(0.5)?,
        Normalize::imagenet(),
        ToChannelsFirst,
    ])
}

/// Writes `W1 (imagenet)`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id(), self.name())
    }
}

/// Returns the error for a name that no workload has.
fn unknown(name: &str) -> Error {
    let known = Workload::ALL.map(|workload| workload.to_string()).join(", ");
    match nearest(name, Workload::ALL.iter().map(|workload| workload.name())) {
        Some(near) => fail!(
            Parameter,
            "no workload named `{name}`, did you mean `{near}`? Available: {known}"
        ),
        None => fail!(Parameter, "no workload named `{name}`; available: {known}"),
    }
}

/// Parses either name, in upper or lower case.
impl FromStr for Workload {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let named = |workload: &Self| {
            name.eq_ignore_ascii_case(workload.id()) || name.eq_ignore_ascii_case(workload.name())
        };
        let found = Self::ALL.into_iter().find(named);
        found.ok_or_else(|| unknown(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_found_by_both_names_and_has_ops() {
        for workload in Workload::ALL {
            assert_eq!(workload.id().parse(), Ok(workload));
            assert_eq!(workload.name().to_uppercase().parse(), Ok(workload));
            assert!(!workload.ops().unwrap().is_empty());
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "W9".parse::<Workload>().unwrap_err().to_string();
        assert!(error.contains("W1 (imagenet)") && error.contains("W5 (crop)"), "{error}");
        assert!(!error.contains("did you mean"), "{error}");
        let error = "imagnet".parse::<Workload>().unwrap_err().to_string();
        let want = "no workload named `imagnet`, did you mean `imagenet`? Available: W1 (imagenet)";
        assert!(error.starts_with(want), "{error}");
    }
}
