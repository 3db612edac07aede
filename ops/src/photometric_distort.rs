//! Photometric distortion: brightness, contrast, saturation, hue and channel order, each by a coin
//! of its own.
//!
//! ```text
//! brightness, [contrast], saturation, hue, [contrast], channel order
//! ```
//!
//! | | |
//! |--------|--------------------------------------------------------------------------------|
//! | input  | u8 image                                                                       |
//! | output | as the input                                                                   |
//! | random | whether contrast comes before or after, half and half; for each part a coin `p` and its number |
//! | cost   | the parts' own                                                                 |
//!
//! torchvision's `RandomPhotometricDistort`, of SSD (Liu et al., arXiv:1512.02325).

use crate::factor::Factor;
use crate::op::on_u8_image;
use crate::{
    ChoiceOp, Class, Member, Op, ParamError, RandomBrightness, RandomChannelPermutation,
    RandomContrast, RandomHue, RandomSaturation, Rng, Type, TypeError, ops,
};

const NAME: &str = "RandomPhotometricDistort";

/// Outcomes of the draw, as bits.
const BEFORE: u128 = 1;
const AFTER: u128 = 2;

/// Distorts the colours of images in up to five ways.
#[derive(Clone, Debug)]
pub struct RandomPhotometricDistort {
    members: Vec<Member>,
}

impl RandomPhotometricDistort {
    /// torchvision's ranges: brightness 0.875..1.125, contrast and saturation 0.5..1.5, hue
    /// -0.05..0.05. Its default for `p` is 0.5.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn new(p: f64) -> Result<Self, ParamError> {
        Self::ranges((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05), p)
    }

    /// Factors of brightness, contrast and saturation and a hue, each in a range `low..high` and
    /// for a share `p` of the images, as the channel order is.
    ///
    /// # Errors
    ///
    /// If not `0 <= low <= high < infinity`, for the hue `-0.5 <= low <= high <= 0.5`, or `p` is
    /// not in `0.0..=1.0`.
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
            Member { ops: ops![brightness], when: BEFORE | AFTER },
            Member { ops: ops![contrast], when: BEFORE },
            Member { ops: ops![saturation, hue], when: BEFORE | AFTER },
            Member { ops: ops![contrast], when: AFTER },
            Member { ops: ops![order], when: BEFORE | AFTER },
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

    fn class(&self) -> Class<'_> {
        Class::Choice(self)
    }
}

impl ChoiceOp for RandomPhotometricDistort {
    fn outcomes(&self) -> usize {
        2
    }

    fn members(&self) -> &[Member] {
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
        let op = RandomPhotometricDistort::new(0.5).unwrap();
        for (outcome, place) in [(0, 1), (1, 3)] {
            let runs = op.members().iter().filter(|member| member.when >> outcome & 1 == 1);
            let names: Vec<_> = runs.flat_map(|member| &member.ops).map(|op| op.name()).collect();
            assert_eq!(names.len(), 5);
            assert_eq!(names.iter().position(|name| *name == "RandomContrast"), Some(place));
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
