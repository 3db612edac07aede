//! Photometric distortion: brightness, contrast, saturation, hue and channel order, each with its own coin.

use crate::author::{ChoiceBranch, ChoiceOp, Rng, Type};
use crate::factor::Factor;
use crate::op::{Op, class, on_colors};
use crate::registry::{Checked, ParamLimits};
use crate::{
    ParamError, RandomBrightness, RandomChannelPermutation, RandomContrast, RandomHue,
    RandomSaturation, TypeError, ops,
};
use std::ops::RangeInclusive;

const NAME: &str = "RandomPhotometricDistort";

/// The masks of the two outcomes: contrast before or after the other steps.
const BEFORE: u128 = 1;
const AFTER: u128 = 2;

/// Changes brightness, contrast, saturation, hue and channel order, each with its own coin.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomPhotometricDistort.md"))]
///
/// ```text
/// brightness, [contrast], saturation, hue, [contrast], channel order
/// ```
///
/// | | |
/// |--------|--------------------------------------------------------------------------------|
/// | input  | image of levels                                                                       |
/// | output | as the input                                                                   |
/// | random | a fair coin: contrast before or after; for each step a coin `p` and its number |
/// | cost   | the cost of the steps                                                          |
///
/// torchvision's `RandomPhotometricDistort`, from SSD (Liu et al., arXiv:1512.02325).
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomPhotometricDistort::new().contrast(0.8..=1.2)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug)]
#[op(COLOR, "changes colours in up to five ways, each in a share p of the images", constructor = new, golden = "the ops of a ColorJitter, which has goldens, each with a coin")]
#[param(brightness: RangeInclusive<f64>, "range of the factor", default = 0.875..=1.125)]
#[param(contrast: RangeInclusive<f64>, "range of the factor", default = 0.5..=1.5)]
#[param(saturation: RangeInclusive<f64>, "range of the factor", default = 0.5..=1.5)]
#[param(hue: RangeInclusive<f64>, "range of what the hue turns by, of a full turn", default = -0.05..=0.05)]
#[param(p: f64, "share of the images, for each way", share)]
pub struct RandomPhotometricDistort {
    /// The factors of brightness, contrast and saturation.
    factors: [Factor; 3],
    hue: RandomHue,
    p: f64,
    members: Vec<ChoiceBranch>,
}

impl RandomPhotometricDistort {
    /// Builds the op with torchvision's ranges: factors of brightness in 0.875..1.125, of contrast and
    /// saturation in 0.5..1.5, a hue in -0.05..0.05; each step runs for half of the images.
    #[must_use]
    pub fn new() -> Self {
        let factors = [(0.875, 1.125), (0.5, 1.5), (0.5, 1.5)].map(Factor::always);
        Self { factors, hue: RandomHue::always(-0.05, 0.05), p: 0.5, members: vec![] }
            .with_members()
    }

    /// Sets the range of the factor of brightness. Default `0.875..=1.125`.
    ///
    /// # Errors
    ///
    /// If the range is not `0 <= low <= high < infinity`.
    pub fn brightness(self, range: RangeInclusive<f64>) -> Result<Self, ParamError> {
        self.with_factor(0, "brightness", range)
    }

    /// Sets the range of the factor of contrast. Default `0.5..=1.5`.
    ///
    /// # Errors
    ///
    /// If the range is not `0 <= low <= high < infinity`.
    pub fn contrast(self, range: RangeInclusive<f64>) -> Result<Self, ParamError> {
        self.with_factor(1, "contrast", range)
    }

    /// Sets the range of the factor of saturation. Default `0.5..=1.5`.
    ///
    /// # Errors
    ///
    /// If the range is not `0 <= low <= high < infinity`.
    pub fn saturation(self, range: RangeInclusive<f64>) -> Result<Self, ParamError> {
        self.with_factor(2, "saturation", range)
    }

    /// Sets the range of the hue, in shares of a full turn. Default `-0.05..=0.05`.
    ///
    /// # Errors
    ///
    /// If the range is not `-0.5 <= low <= high <= 0.5`.
    pub fn hue(self, range: RangeInclusive<f64>) -> Result<Self, ParamError> {
        Ok(Self { hue: RandomHue::of(NAME, range.into())?, ..self }.with_members())
    }

    /// Sets the share of the images that each step, including the channel order, runs for. Default 0.5.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn p(self, p: f64) -> Result<Self, ParamError> {
        Ok(Self { p: p.checked(NAME, "p", ParamLimits::SHARE)?, ..self }.with_members())
    }

    fn with_factor(
        mut self,
        index: usize,
        param: &'static str,
        range: RangeInclusive<f64>,
    ) -> Result<Self, ParamError> {
        self.factors[index] = Factor::new(NAME, param, range.into())?;
        Ok(self.with_members())
    }

    /// Builds the steps from the parameters.
    fn with_members(self) -> Self {
        let [brightness, contrast, saturation] = self.factors;
        let brightness = RandomBrightness::of(brightness, self.p);
        let contrast = RandomContrast::of(contrast, self.p);
        let saturation = RandomSaturation::of(saturation, self.p);
        let hue = self.hue.with_share(self.p);
        let order = RandomChannelPermutation::with_share(self.p);
        let members = vec![
            ChoiceBranch { ops: ops![brightness], when: BEFORE | AFTER },
            ChoiceBranch { ops: ops![contrast], when: BEFORE },
            ChoiceBranch { ops: ops![saturation, hue], when: BEFORE | AFTER },
            ChoiceBranch { ops: ops![contrast], when: AFTER },
            ChoiceBranch { ops: ops![order], when: BEFORE | AFTER },
        ];
        Self { members, ..self }
    }
}

impl Default for RandomPhotometricDistort {
    fn default() -> Self {
        Self::new()
    }
}

#[class(Choice)]
impl Op for RandomPhotometricDistort {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
    }
}

impl ChoiceOp for RandomPhotometricDistort {
    fn outcomes(&self) -> usize {
        2
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.members
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        usize::from(!rng.coin(0.5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrast_is_there_once_for_either_outcome() {
        let op = RandomPhotometricDistort::new();
        for (outcome, index) in [(0, 1), (1, 3)] {
            let runs = op.branches().iter().filter(|member| member.when >> outcome & 1 == 1);
            let names: Vec<_> = runs.flat_map(|member| &member.ops).map(|op| op.name()).collect();
            assert_eq!(names.len(), 5);
            assert_eq!(names.iter().position(|name| *name == "RandomContrast"), Some(index));
            assert_eq!(names[4], "RandomChannelPermutation");
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        let op = RandomPhotometricDistort::new;
        assert!(op().p(1.5).is_err() && op().hue(0.0..=0.7).is_err());
        assert!(op().contrast(-0.1..=1.0).is_err());
    }
}
