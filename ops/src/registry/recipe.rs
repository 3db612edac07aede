//! Recipes: how the project's tests draw random instances of an op.
//!
//! Tests run random lists of ops compiled and evaluated, and compare every bit. The recipes of an op
//! say which instances the lists contain; their parameters are such that images stay small.

use super::BuiltOp;
use crate::author::Rng;
use crate::op::ImageType;
use crate::{DType, Interpolation, ParamError, WarpInterpolation};
use std::ops::RangeInclusive;

/// Draws a random instance of an op for images of a type.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// The op's name, followed by the variant in brackets if there are several: `Resize(bounded)`.
    pub name: &'static str,
    /// Draws the instance.
    pub draw: fn(&mut Rng, &ImageType) -> Result<BuiltOp, ParamError>,
}

/// The recipes of an op.
#[derive(Clone, Copy, Debug)]
pub enum Recipes {
    /// At least one recipe.
    Drawn(&'static [Recipe]),
    /// No recipe, for this reason.
    None(&'static str),
}

impl Recipes {
    /// Returns the recipes; none if there is a reason for having none.
    #[must_use]
    pub const fn all(self) -> &'static [Recipe] {
        match self {
            Self::Drawn(recipes) => recipes,
            Self::None(_) => &[],
        }
    }
}

/// States if a test compares an op with the output of the library that it follows.
#[derive(Clone, Copy, Debug)]
pub enum Golden {
    /// A test in `tests/` does.
    Tested,
    /// No test does, for this reason.
    None(&'static str),
}

/// Draws an item.
pub(crate) fn pick<T: Copy, const N: usize>(rng: &mut Rng, items: [T; N]) -> T {
    items[rng.below(N as u32) as usize]
}

/// Draws a number in `low..high`.
pub(crate) fn number(rng: &mut Rng, low: f32, high: f32) -> f64 {
    f64::from(rng.uniform(low, high))
}

/// Draws a range that begins in `low..high` and is at most `width` wide.
pub(crate) fn range(rng: &mut Rng, low: f32, high: f32, width: f32) -> RangeInclusive<f64> {
    let low = number(rng, low, high);
    low..=low + number(rng, 0.0, width)
}

/// Draws a share of the samples: often 0 or 1, which plans treat differently from other shares.
pub(crate) fn share(rng: &mut Rng) -> f64 {
    number(rng, -0.2, 1.4).clamp(0.0, 1.0)
}

/// Draws a colour.
pub(crate) fn color(rng: &mut Rng) -> [u8; 3] {
    let [red, green, blue, _] = rng.word().to_le_bytes();
    [red, green, blue]
}

/// Draws a value that fills images of a type, in the units of their values.
pub(crate) fn fill(rng: &mut Rng, before: &ImageType) -> f32 {
    match before.dtype {
        DType::U8 => rng.uniform(0.0, 256.0),
        _ => rng.uniform(-3.0, 3.0),
    }
}

/// Draws a height and a width, sometimes below the 8 pixels that compiled code processes at a time.
pub(crate) fn size(rng: &mut Rng) -> (u32, u32) {
    let mut side = |most: u32| if rng.coin(0.1) { 1 + rng.below(9) } else { 8 + rng.below(most) };
    (side(60), side(90))
}

/// Draws an interpolation of a resize. The compiled one is drawn more often than the others.
pub(crate) fn interpolation(rng: &mut Rng) -> Interpolation {
    use Interpolation::{
        Area, Bicubic, BicubicAliased, Bilinear, BilinearAliased, Nearest, NearestExact,
    };
    let others = [Area, Nearest, NearestExact, BilinearAliased, BicubicAliased, Bicubic];
    if rng.below(9) < 3 { Bilinear } else { pick(rng, others) }
}

/// Draws an interpolation of a warp.
pub(crate) fn warp_interpolation(rng: &mut Rng) -> WarpInterpolation {
    use WarpInterpolation::{Bicubic, Bilinear, Nearest};
    pick(rng, [Nearest, Bilinear, Bicubic])
}
