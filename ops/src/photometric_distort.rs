//! Photometric distortion: brightness, contrast, saturation, hue and channel order, each with its own coin.

use crate::author::{ChoiceBranch, ChoiceOp, Op, OpClass, Rng, Type};
use crate::factor::Factor;
use crate::op::on_u8_image;
use crate::registry::{
    COLOR, Golden, OpInfo, ParamInfo, ParamKind, ParamValue, Recipe, Recipes, built, recipe,
    with_default,
};
use crate::{
    ParamError, RandomBrightness, RandomChannelPermutation, RandomContrast, RandomHue,
    RandomSaturation, TypeError, ops,
};

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
/// | input  | u8 image                                                                       |
/// | output | as the input                                                                   |
/// | random | a fair coin: contrast before or after; for each step a coin `p` and its number |
/// | cost   | the cost of the steps                                                          |
///
/// torchvision's `RandomPhotometricDistort`, from SSD (Liu et al., arXiv:1512.02325).
#[derive(Clone, Debug)]
pub struct RandomPhotometricDistort {
    members: Vec<ChoiceBranch>,
}

impl RandomPhotometricDistort {
    /// Uses torchvision's ranges: brightness 0.875..1.125, contrast and saturation 0.5..1.5, hue
    /// -0.05..0.05. torchvision's default for `p` is 0.5.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn new(p: f64) -> Result<Self, ParamError> {
        Self::ranges((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05), p)
    }

    /// Draws factors of brightness, contrast and saturation and a hue, each in a range `low..high`.
    /// Each step, including the channel order, runs for a share `p` of the images.
    ///
    /// # Errors
    ///
    /// If not `0 <= low <= high < infinity` (for the hue `-0.5 <= low <= high <= 0.5`), or if `p`
    /// is not in `0.0..=1.0`.
    pub fn ranges(
        brightness: (f64, f64),
        contrast: (f64, f64),
        saturation: (f64, f64),
        hue: (f64, f64),
        p: f64,
    ) -> Result<Self, ParamError> {
        let factor = |param, range| Factor::range(NAME, param, range, p);
        let brightness = RandomBrightness::from_factor(factor("brightness", brightness)?);
        let contrast = RandomContrast::from_factor(factor("contrast", contrast)?);
        let saturation = RandomSaturation::from_factor(factor("saturation", saturation)?);
        let hue = RandomHue::of(NAME, hue, p)?;
        let order = RandomChannelPermutation::new(p)?;
        let members = vec![
            ChoiceBranch { ops: ops![brightness], when: BEFORE | AFTER },
            ChoiceBranch { ops: ops![contrast], when: BEFORE },
            ChoiceBranch { ops: ops![saturation, hue], when: BEFORE | AFTER },
            ChoiceBranch { ops: ops![contrast], when: AFTER },
            ChoiceBranch { ops: ops![order], when: BEFORE | AFTER },
        ];
        Ok(Self { members })
    }
}

impl Op for RandomPhotometricDistort {
    fn name(&self) -> &'static str {
        NAME
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Choice(self)
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

impl RandomPhotometricDistort {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomPhotometricDistort",
        class: COLOR,
        summary: "changes colours in up to five ways, each in a share p of the images",
        params: &[
            distortion("brightness", &[0.875, 1.125]),
            distortion("contrast", &[0.5, 1.5]),
            distortion("saturation", &[0.5, 1.5]),
            with_default(
                "hue",
                ParamKind::Range,
                ParamValue::Floats(&[-0.05, 0.05]),
                "range of what the hue turns by, of a full turn",
            ),
            with_default(
                "p",
                ParamKind::Number,
                ParamValue::Float(0.5),
                "share of the images, for each way",
            ),
        ],
        aliases: &[],
        build: |args| {
            Ok(built(RandomPhotometricDistort::ranges(
                args.pair("brightness")?,
                args.pair("contrast")?,
                args.pair("saturation")?,
                args.pair("hue")?,
                args.float("p")?,
            )?))
        },
        recipes: Recipes::Drawn(&[Recipe {
            name: "RandomPhotometricDistort",
            draw: |rng, _| Ok(built(RandomPhotometricDistort::new(recipe::share(rng))?)),
        }]),
        golden: Golden::None("the ops of a ColorJitter, which has goldens, each with a coin"),
    };
}

/// Returns the parameter of a factor of the distortion.
const fn distortion(name: &'static str, range: &'static [f64]) -> ParamInfo {
    with_default(name, ParamKind::Range, ParamValue::Floats(range), "range of the factor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrast_is_there_once_for_either_outcome() {
        let op = RandomPhotometricDistort::new(0.5).unwrap();
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
        assert!(RandomPhotometricDistort::new(1.5).is_err());
        let fine = (1.0, 1.0);
        assert!(RandomPhotometricDistort::ranges(fine, fine, fine, (0.0, 0.7), 0.5).is_err());
    }
}
