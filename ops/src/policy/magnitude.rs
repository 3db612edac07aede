//! The strengths of actions: the tables of torchvision's policies.
//!
//! With `n` bins, `lin(low, high)[i]` is computed in f32 as in `torch.linspace`, with
//! `step = (high - low) / (n - 1)`:
//!
//! ```text
//! i < n/2:  fma(step, i, low)          else:  fma(-step, n - 1 - i, high)
//! ```
//!
//! | action               | AutoAugment, RandAugment | TrivialAugmentWide | AugMix       |
//! |----------------------|--------------------------|--------------------|--------------|
//! | ShearX, ShearY       | lin(0, 0.3)              | lin(0, 0.99)       | lin(0, 0.3)  |
//! | TranslateX (Y: rows) | lin(0, 150/331 columns)  | lin(0, 32)         | lin(0, columns/3) |
//! | Rotate               | lin(0, 30)               | lin(0, 135)        | lin(0, 30)   |
//! | Brightness, Color, Contrast, Sharpness | lin(0, 0.9) | lin(0, 0.99)  | lin(0, 0.9)  |
//! | Posterize            | rint(8 - i/((n-1)/4))    | rint(8 - i/((n-1)/6)) | rint(4 - i/((n-1)/4)) |
//! | Solarize             | lin(1, 0)                | lin(1, 0)          | lin(1, 0)    |
//!
//! The other actions have no table. The magnitude of a signed action is negated if a uniform number
//! is at most 1/2.

use super::{Action, Argument};
use crate::author::Rng;
use crate::{ParamError, Size};

/// The policy that defines the actions and magnitudes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// torchvision's `AutoAugment`.
    AutoAugment,
    /// torchvision's `RandAugment`.
    RandAugment,
    /// torchvision's `TrivialAugmentWide`.
    TrivialAugmentWide,
    /// torchvision's `AugMix`.
    AugMix,
}

/// How the strength of an action is drawn for a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strength {
    /// This magnitude, including its sign.
    Exactly(f32),
    /// An entry of a table, negated by a coin if the action is signed.
    Entry {
        /// The policy of the table.
        space: Space,
        /// The table's length.
        bins: u32,
        /// The index of the entry.
        index: u32,
    },
    /// One of the first entries of a table, negated by a coin if the action is signed.
    AnyEntry {
        /// The policy of the table.
        space: Space,
        /// The table's length.
        bins: u32,
        /// The number of entries that are drawn from.
        below: u32,
    },
}

impl Space {
    /// Returns the default length of a table.
    #[must_use]
    pub const fn default_bins(self) -> u32 {
        match self {
            Self::AutoAugment | Self::AugMix => 10,
            Self::RandAugment | Self::TrivialAugmentWide => 31,
        }
    }

    /// Returns the actions, in the order in which they are numbered.
    #[must_use]
    pub const fn actions(self) -> &'static [Action] {
        use Action::{
            AutoContrast, Brightness, Color, Contrast, Equalize, Identity, Invert, Posterize,
            Rotate, Sharpness, ShearX, ShearY, Solarize, TranslateX, TranslateY,
        };
        match self {
            Self::AutoAugment => &[
                ShearX,
                ShearY,
                TranslateX,
                TranslateY,
                Rotate,
                Brightness,
                Color,
                Contrast,
                Sharpness,
                Posterize,
                Solarize,
                AutoContrast,
                Equalize,
                Invert,
            ],
            Self::RandAugment | Self::TrivialAugmentWide => &[
                Identity,
                ShearX,
                ShearY,
                TranslateX,
                TranslateY,
                Rotate,
                Brightness,
                Color,
                Contrast,
                Sharpness,
                Posterize,
                Solarize,
                AutoContrast,
                Equalize,
            ],
            Self::AugMix => &[
                ShearX,
                ShearY,
                TranslateX,
                TranslateY,
                Rotate,
                Posterize,
                Solarize,
                AutoContrast,
                Equalize,
                Brightness,
                Color,
                Contrast,
                Sharpness,
            ],
        }
    }

    /// Returns entry `index` of an action's table of `bins` entries, for images of `size`; `None`
    /// if the action has no table.
    #[must_use]
    pub fn magnitude(self, action: Action, bins: u32, index: u32, size: Size) -> Option<f32> {
        let linear = |low, high| Some(linspace(low, high, bins, index));
        let wide = self == Self::TrivialAugmentWide;
        match action {
            Action::ShearX | Action::ShearY => linear(0.0, if wide { 0.99 } else { 0.3 }),
            Action::TranslateX => linear(0.0, self.farthest(size.width)),
            Action::TranslateY => linear(0.0, self.farthest(size.height)),
            Action::Rotate => linear(0.0, if wide { 135.0 } else { 30.0 }),
            Action::Brightness | Action::Color | Action::Contrast | Action::Sharpness => {
                linear(0.0, if wide { 0.99 } else { 0.9 })
            }
            Action::Posterize => Some(self.bits(bins, index)),
            Action::Solarize => linear(1.0, 0.0),
            Action::Identity | Action::AutoContrast | Action::Equalize | Action::Invert => None,
        }
    }

    /// Returns the largest translation along an axis of `side` pixels.
    fn farthest(self, side: u32) -> f64 {
        match self {
            Self::AutoAugment | Self::RandAugment => 150.0 / 331.0 * f64::from(side),
            Self::TrivialAugmentWide => 32.0,
            Self::AugMix => f64::from(side) / 3.0,
        }
    }

    /// Returns the number of bits that posterize keeps.
    fn bits(self, bins: u32, index: u32) -> f32 {
        let (most, fewer) = match self {
            Self::AutoAugment | Self::RandAugment => (8.0, 4.0),
            Self::TrivialAugmentWide => (8.0, 6.0),
            Self::AugMix => (4.0, 4.0),
        };
        let entries_a_bit = (f64::from(bins - 1) / fewer) as f32;
        (most - index as f32 / entries_a_bit).round_ties_even()
    }
}

/// The maximum length of a table.
const MOST_BINS: u32 = 1000;

/// Checks the length of a table.
pub(crate) fn checked_bins(op: &'static str, bins: u32) -> Result<u32, ParamError> {
    if (2..=MOST_BINS).contains(&bins) {
        Ok(bins)
    } else {
        Err(ParamError::new(op, "num_magnitude_bins", bins, "2..=1000"))
    }
}

/// `torch.linspace(low, high, bins)[index]`.
fn linspace(low: f64, high: f64, bins: u32, index: u32) -> f32 {
    let (low, high) = (low as f32, high as f32);
    let step = (high - low) / (bins - 1) as f32;
    if index < bins / 2 {
        step.mul_add(index as f32, low)
    } else {
        (-step).mul_add((bins - 1 - index) as f32, high)
    }
}

/// Draws an action's magnitude and converts it to the argument of the action's effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrawnArgument {
    pub(super) action: Action,
    pub(super) strength: Strength,
}

impl Argument for DrawnArgument {
    fn draw(&self, rng: &mut Rng, size: Size) -> f64 {
        let magnitude = f64::from(self.strength.draw(self.action, rng, size));
        match self.action {
            Action::TranslateX | Action::TranslateY => magnitude.trunc(),
            Action::Brightness | Action::Color | Action::Contrast | Action::Sharpness => {
                1.0 + magnitude
            }
            Action::Solarize => 255.0 * magnitude,
            _ => magnitude,
        }
    }
}

impl Strength {
    /// Draws the entry first, then the sign.
    fn draw(self, action: Action, rng: &mut Rng, size: Size) -> f32 {
        let (space, bins, index) = match self {
            Self::Exactly(magnitude) => return magnitude,
            Self::Entry { space, bins, index } => (space, bins, index),
            Self::AnyEntry { space, bins, below } => (space, bins, rng.below(below)),
        };
        let magnitude = space.magnitude(action, bins, index, size).unwrap_or_default();
        if action.is_signed() && rng.unit() <= 0.5 { -magnitude } else { magnitude }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    const SIZE: Size = Size::new(224, 331);

    fn table(space: Space, action: Action) -> Vec<f32> {
        let bins = space.default_bins();
        (0..bins).map(|i| space.magnitude(action, bins, i, SIZE).unwrap()).collect()
    }

    #[test]
    fn posterize_keeps_the_bits_that_torchvision_prints() {
        let runs = |space, bits: &[(f32, usize)]| {
            let bits: Vec<f32> = bits.iter().flat_map(|&(b, n)| vec![b; n]).collect();
            assert_eq!(table(space, Action::Posterize), bits, "{space:?}");
        };
        runs(Space::AutoAugment, &[(8.0, 2), (7.0, 2), (6.0, 2), (5.0, 2), (4.0, 2)]);
        runs(Space::AugMix, &[(4.0, 2), (3.0, 2), (2.0, 2), (1.0, 2), (0.0, 2)]);
        runs(Space::RandAugment, &[(8.0, 4), (7.0, 8), (6.0, 7), (5.0, 8), (4.0, 4)]);
        runs(
            Space::TrivialAugmentWide,
            &[(8.0, 3), (7.0, 5), (6.0, 5), (5.0, 5), (4.0, 5), (3.0, 5), (2.0, 3)],
        );
    }

    #[test]
    fn tables_end_where_they_should() {
        let ends = |space, action| {
            let table = table(space, action);
            [table[0], table[table.len() - 1]]
        };
        assert_eq!(ends(Space::RandAugment, Action::TranslateX), [0.0, 150.0]);
        assert_eq!(ends(Space::TrivialAugmentWide, Action::TranslateY), [0.0, 32.0]);
        assert_eq!(ends(Space::AutoAugment, Action::Solarize), [1.0, 0.0]);
        assert_eq!(ends(Space::AugMix, Action::Rotate), [0.0, 30.0]);
    }

    #[test]
    fn half_of_the_signed_magnitudes_are_negative_and_no_others() {
        let entry = Strength::Entry { space: Space::RandAugment, bins: 31, index: 9 };
        let negative = |action| {
            let drawn = DrawnArgument { action, strength: entry };
            let draw = |sample| drawn.draw(&mut SampleKey::new(1, 2, sample).op(3), SIZE);
            (0..2000).filter(|sample| draw(*sample) < 0.0).count()
        };
        assert!((900..1100).contains(&negative(Action::Rotate)));
        assert_eq!(negative(Action::Posterize), 0);
    }
}
