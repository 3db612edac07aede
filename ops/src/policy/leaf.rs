//! The ops that actions become: an effect, whose argument is drawn for each sample.
//!
//! Each has its class of an op ([`tone`](super::tone) changes values, [`warp`](super::warp) moves
//! pixels), so the planner sees no difference to an op of a user's list.

use super::Look;
use super::tone::{Tone, ToneKind};
use super::warp::{Filter, FilterKind, Shift};
use crate::{Op, RandomAutocontrast, RandomEqualize, RandomInvert, Rng, Size};
use std::fmt;
use std::sync::Arc;

/// What is done to a picture, and what the argument says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// `x_source = x + argument * (y + 1/2)`.
    ShearX,
    /// `y_source = y + argument * (x + 1/2)`.
    ShearY,
    /// Whole pixels to the right.
    ShiftX,
    /// Whole pixels down.
    ShiftY,
    /// Pixels to the right.
    MoveX,
    /// Pixels down.
    MoveY,
    /// Degrees, counter-clockwise.
    Rotate,
    /// A factor.
    Brightness,
    /// A factor.
    Saturation,
    /// A factor.
    Contrast,
    /// A factor.
    Sharpness,
    /// The standard deviation in pixels.
    Blur,
    /// Bits that are kept; none if negative.
    Posterize,
    /// The threshold.
    Solarize,
    /// What is added to values below 128.
    SolarizeAdd,
    /// None.
    Autocontrast,
    /// None.
    Equalize,
    /// None.
    Invert,
}

/// How the argument of an effect is drawn.
pub(crate) trait Argument: fmt::Debug + Send + Sync {
    /// Draws it for a picture of `size`.
    fn draw(&self, rng: &mut Rng, size: Size) -> f64;
}

/// The op of an effect.
pub(crate) fn leaf(
    name: &'static str,
    effect: Effect,
    argument: Arc<dyn Argument>,
    look: Look,
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
