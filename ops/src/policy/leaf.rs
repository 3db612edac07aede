//! The ops that implement actions: an effect, whose argument is drawn for each sample.
//!
//! Each op has the usual class ([`tone`](super::tone) changes values, [`warp`](super::warp) moves
//! pixels), so the planner treats it like an op of a user's list.

use super::WarpOptions;
use super::tone::{Tone, ToneKind};
use super::warp::{Filter, FilterKind, Shift};
use crate::author::{Op, Rng};
use crate::{RandomAutocontrast, RandomEqualize, RandomInvert, Size};
use std::fmt;
use std::sync::Arc;

/// The effect of an action; each variant's comment says what the argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A shear: `x_source = x + argument * (y + 1/2)`.
    ShearX,
    /// A shear: `y_source = y + argument * (x + 1/2)`.
    ShearY,
    /// The number of whole pixels to the right.
    ShiftX,
    /// The number of whole pixels down.
    ShiftY,
    /// The number of pixels to the right, which may have a fraction.
    MoveX,
    /// The number of pixels down, which may have a fraction.
    MoveY,
    /// The angle in degrees, counter-clockwise.
    Rotate,
    /// The factor.
    Brightness,
    /// The factor.
    Saturation,
    /// The factor.
    Contrast,
    /// The factor.
    Sharpness,
    /// The standard deviation in pixels.
    Blur,
    /// The number of bits that are kept; none if negative.
    Posterize,
    /// The threshold.
    Solarize,
    /// The number that is added to values below 128.
    SolarizeAdd,
    /// No argument.
    Autocontrast,
    /// No argument.
    Equalize,
    /// No argument.
    Invert,
}

/// How the argument of an effect is drawn.
pub(crate) trait Argument: fmt::Debug + Send + Sync {
    /// Draws the argument for an image of `size`.
    fn draw(&self, rng: &mut Rng, size: Size) -> f64;
}

/// Returns the op of an effect.
pub(crate) fn leaf(
    name: &'static str,
    effect: Effect,
    argument: Arc<dyn Argument>,
    look: WarpOptions,
) -> Arc<dyn Op> {
    let tone = |kind, argument| Arc::new(Tone::new(name, kind, argument));
    let filter = |kind, argument| Arc::new(Filter { name, kind, argument, look });
    match effect {
        Effect::ShiftX => Arc::new(Shift { name, is_vertical: false, argument, look }),
        Effect::ShiftY => Arc::new(Shift { name, is_vertical: true, argument, look }),
        Effect::ShearX => filter(FilterKind::ShearX, argument),
        Effect::ShearY => filter(FilterKind::ShearY, argument),
        Effect::MoveX => filter(FilterKind::MoveX, argument),
        Effect::MoveY => filter(FilterKind::MoveY, argument),
        Effect::Rotate => filter(FilterKind::Rotate, argument),
        Effect::Sharpness => filter(FilterKind::Sharpness, argument),
        Effect::Blur => filter(FilterKind::Blur, argument),
        Effect::Brightness => tone(ToneKind::Brightness, argument),
        Effect::Saturation => tone(ToneKind::Saturation, argument),
        Effect::Contrast => tone(ToneKind::Contrast, argument),
        Effect::Posterize => tone(ToneKind::Posterize, argument),
        Effect::Solarize => tone(ToneKind::Solarize, argument),
        Effect::SolarizeAdd => tone(ToneKind::SolarizeAdd, argument),
        Effect::Autocontrast => Arc::new(RandomAutocontrast::always()),
        Effect::Equalize => Arc::new(RandomEqualize::always()),
        Effect::Invert => Arc::new(RandomInvert::always()),
    }
}
