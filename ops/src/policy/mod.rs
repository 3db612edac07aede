//! The actions of the automatic policies, their strengths, and the ops that implement them.
//!
//! A policy is a container: it draws which *actions* run, and each action is an op that draws its own
//! strength. So the planner treats an action like the same op in a user's list. The actions are listed in
//! the documentation of [`AutoAugment`](crate::AutoAugment#actions).

mod leaf;
pub(crate) mod magnitude;
mod pick;
mod tone;
mod warp;

pub(crate) use leaf::{Argument, Effect, leaf};
pub use magnitude::{Space, Strength};
pub(crate) use pick::Pick;
pub use warp::{Sampling, WarpOptions};

use crate::Ops;
use std::fmt;
use std::sync::Arc;

/// An action that policies apply to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Nothing.
    Identity,
    /// Shears along x: slants columns.
    ShearX,
    /// Shears along y: slants rows.
    ShearY,
    /// Moves horizontally.
    TranslateX,
    /// Moves vertically.
    TranslateY,
    /// Rotates.
    Rotate,
    /// Changes the brightness.
    Brightness,
    /// Changes the saturation.
    Color,
    /// Changes the contrast.
    Contrast,
    /// Sharpens or blurs.
    Sharpness,
    /// Reduces the number of levels.
    Posterize,
    /// Inverts bright values.
    Solarize,
    /// Stretches each channel to the full range.
    AutoContrast,
    /// Flattens each channel's histogram.
    Equalize,
    /// Inverts all values.
    Invert,
}

impl Action {
    /// Returns torchvision's name of the action.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "Identity",
            Self::ShearX => "ShearX",
            Self::ShearY => "ShearY",
            Self::TranslateX => "TranslateX",
            Self::TranslateY => "TranslateY",
            Self::Rotate => "Rotate",
            Self::Brightness => "Brightness",
            Self::Color => "Color",
            Self::Contrast => "Contrast",
            Self::Sharpness => "Sharpness",
            Self::Posterize => "Posterize",
            Self::Solarize => "Solarize",
            Self::AutoContrast => "AutoContrast",
            Self::Equalize => "Equalize",
            Self::Invert => "Invert",
        }
    }

    /// Returns true if a coin may negate the magnitude.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(
            self,
            Self::ShearX
                | Self::ShearY
                | Self::TranslateX
                | Self::TranslateY
                | Self::Rotate
                | Self::Brightness
                | Self::Color
                | Self::Contrast
                | Self::Sharpness
        )
    }

    /// Returns the op of the action, with a strength drawn for each sample; no op for the identity.
    #[must_use]
    pub fn ops(self, strength: Strength, look: WarpOptions) -> Ops {
        let argument = Arc::new(magnitude::DrawnArgument { action: self, strength });
        self.effect().map(|effect| leaf(self.name(), effect, argument, look)).into_iter().collect()
    }

    const fn effect(self) -> Option<Effect> {
        Some(match self {
            Self::Identity => return None,
            Self::ShearX => Effect::ShearX,
            Self::ShearY => Effect::ShearY,
            Self::TranslateX => Effect::ShiftX,
            Self::TranslateY => Effect::ShiftY,
            Self::Rotate => Effect::Rotate,
            Self::Brightness => Effect::Brightness,
            Self::Color => Effect::Saturation,
            Self::Contrast => Effect::Contrast,
            Self::Sharpness => Effect::Sharpness,
            Self::Posterize => Effect::Posterize,
            Self::Solarize => Effect::Solarize,
            Self::AutoContrast => Effect::Autocontrast,
            Self::Equalize => Effect::Equalize,
            Self::Invert => Effect::Invert,
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
