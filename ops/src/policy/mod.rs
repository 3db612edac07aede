//! What the automatic policies share: their actions, how strong each is, and the ops they become.
//!
//! A policy ([`AutoAugment`](crate::AutoAugment), [`RandAugment`](crate::RandAugment),
//! [`TrivialAugmentWide`](crate::TrivialAugmentWide)) is a container: it draws which *actions* run,
//! and each action is an op of its own that draws how strong it is. So the planner puts an action
//! where it would put that op in a user's list.
//!
//! | action                     | what it does at magnitude `m`                                   |
//! |----------------------------|-----------------------------------------------------------------|
//! | Identity                   | nothing                                                         |
//! | ShearX, ShearY             | row `y` is moved by `m * (y + 1/2)` columns to the left; likewise down |
//! | TranslateX, TranslateY     | moved by `trunc(m)` pixels to the right; likewise down          |
//! | Rotate                     | turned by `m` degrees, counter-clockwise, about the middle      |
//! | Brightness, Color, Contrast, Sharpness | the factor is `1 + m`; Color is the saturation      |
//! | Posterize                  | `m` bits are kept                                               |
//! | Solarize                   | values from `255 * m` on are inverted                           |
//! | AutoContrast, Equalize, Invert | no magnitude                                                |
//!
//! Source: `_apply_image_or_video_transform` of torchvision's `transforms.v2.AutoAugment`.

mod leaf;
pub(crate) mod magnitude;
mod pick;
mod tone;
mod warp;

pub(crate) use leaf::{Argument, Effect, leaf};
pub use magnitude::{Space, Strength};
pub(crate) use pick::Pick;
pub use warp::{Look, Sampling};

use crate::Ops;
use std::fmt;
use std::sync::Arc;

/// One of the things that policies do to a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Nothing.
    Identity,
    /// Slants columns.
    ShearX,
    /// Slants rows.
    ShearY,
    /// Moves to the side.
    TranslateX,
    /// Moves up or down.
    TranslateY,
    /// Turns.
    Rotate,
    /// Brighter or darker.
    Brightness,
    /// More or less colourful.
    Color,
    /// More or less contrast.
    Contrast,
    /// Sharper or blurred.
    Sharpness,
    /// Fewer levels.
    Posterize,
    /// Bright values are inverted.
    Solarize,
    /// Each channel stretched to the full range.
    AutoContrast,
    /// Each channel's histogram made flat.
    Equalize,
    /// The negative.
    Invert,
}

impl Action {
    /// Its name, as torchvision writes it.
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

    /// Whether a coin turns its magnitude round.
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

    /// The action as an op, at a strength drawn for each sample; no op for the identity.
    #[must_use]
    pub fn ops(self, strength: Strength, look: Look) -> Ops {
        let argument = Arc::new(magnitude::Drawn { action: self, strength });
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
