//! Colour jitter: brightness, contrast, saturation and hue, in an order drawn for each sample.

use crate::author::{Op, OpClass, PixelOp, Type};
use crate::factor::Factor;
use crate::hue;
use crate::op::on_u8_image;
use crate::registry::{
    COLOR, Golden, OpArgs, OpInfo, ParamInfo, ParamKind, ParamValue, Recipe, Recipes, SpecError,
    built, recipe, with_default,
};
use crate::{ParamError, TypeError};
use crate::{RandomBrightness, RandomContrast, RandomHue, RandomSaturation};

const NAME: &str = "ColorJitter";

/// Changes brightness, contrast, saturation and hue, in an order drawn for each sample.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ColorJitter.md"))]
///
/// This is torchvision's `ColorJitter`. The order, one of all permutations, is drawn first, then the
/// factors in the fixed order brightness, contrast, saturation, hue. Each factor is uniform in
/// `max(0, 1 - value)..1 + value`, the hue in `-value..value`. A value of 0, or a range of only the
/// neutral number, switches an adjustment off.
///
/// ```text
/// out = a(b(c(d(in))))      a, b, c, d: the four adjustments in the order drawn
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------------------------|
/// | input  | u8 image                                                                        |
/// | output | as the input                                                                    |
/// | random | an order, a factor for each adjustment                                          |
/// | cost   | that of the adjustments; the order costs one jump per sample, no test per pixel |
#[derive(Debug)]
pub struct ColorJitter {
    /// The factors of brightness, contrast and saturation.
    factors: [Factor; 3],
    /// The adjustments that are switched on.
    adjustments: Vec<Box<dyn PixelOp>>,
}

impl ColorJitter {
    /// Builds the op with a factor in `max(0, 1 - value)..1 + value` for each of the three adjustments;
    /// 0 switches one off. The hue stays unchanged: see [`hue`](Self::hue).
    ///
    /// # Errors
    ///
    /// If a value is negative or not finite.
    pub fn new(brightness: f64, contrast: f64, saturation: f64) -> Result<Self, ParamError> {
        let factor = |param, value| Factor::new(NAME, param, value, 1.0);
        let factors = [
            factor("brightness", brightness)?,
            factor("contrast", contrast)?,
            factor("saturation", saturation)?,
        ];
        Ok(Self { factors, adjustments: enabled_adjustments(factors, None) })
    }

    /// Builds the op with factors of brightness, contrast and saturation and a hue, each in a range
    /// `low..high`. A range of only 1, or of only 0 for the hue, switches an adjustment off.
    ///
    /// # Errors
    ///
    /// If a range is not `0 <= low <= high < infinity`, or for the hue `-0.5 <= low <= high <= 0.5`.
    pub fn ranges(
        brightness: (f64, f64),
        contrast: (f64, f64),
        saturation: (f64, f64),
        hue: (f64, f64),
    ) -> Result<Self, ParamError> {
        let factor = |param, range| Factor::range(NAME, param, range, 1.0);
        let factors = [
            factor("brightness", brightness)?,
            factor("contrast", contrast)?,
            factor("saturation", saturation)?,
        ];
        Ok(Self {
            factors,
            adjustments: enabled_adjustments(factors, Some(RandomHue::of(NAME, hue, 1.0)?)),
        })
    }

    /// Adds a hue in `-hue..hue`; 0 switches it off.
    ///
    /// # Errors
    ///
    /// If `hue` is not in `0.0..=0.5`.
    pub fn hue(self, hue: f64) -> Result<Self, ParamError> {
        if !(0.0..=0.5).contains(&hue) {
            return Err(ParamError::new(NAME, "hue", hue, "0.0..=0.5"));
        }
        let hue = RandomHue::of(NAME, (-hue, hue), 1.0)?;
        Ok(Self { adjustments: enabled_adjustments(self.factors, Some(hue)), ..self })
    }
}

/// Returns the adjustments that are switched on.
fn enabled_adjustments(
    [brightness, contrast, saturation]: [Factor; 3],
    hue: Option<RandomHue>,
) -> Vec<Box<dyn PixelOp>> {
    let mut enabled: Vec<Box<dyn PixelOp>> = vec![];
    if !brightness.is_one() {
        enabled.push(Box::new(RandomBrightness::from_factor(brightness)));
    }
    if !contrast.is_one() {
        enabled.push(Box::new(RandomContrast::from_factor(contrast)));
    }
    if !saturation.is_one() {
        enabled.push(Box::new(RandomSaturation::from_factor(saturation)));
    }
    if let Some(hue) = hue.filter(|hue| !hue.is_zero()) {
        enabled.push(Box::new(hue));
    }
    enabled
}

impl Op for ColorJitter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Shuffled(&self.adjustments)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.adjustments.is_empty()
    }
}

impl ColorJitter {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "ColorJitter",
        class: COLOR,
        summary: "changes brightness, contrast, saturation and hue, in random order",
        params: &[
            factor("brightness"),
            factor("contrast"),
            factor("saturation"),
            with_default(
                "hue",
                ParamKind::NumberOrRange,
                ParamValue::Float(0.0),
                "the hue turns by -value..value, or by low..high, of a full turn; 0 is off",
            ),
        ],
        aliases: &[],
        build: |args| {
            let [brightness, contrast] = [factors(args, "brightness")?, factors(args, "contrast")?];
            let (saturation, hue) = (factors(args, "saturation")?, hue::read_range(args)?);
            Ok(built(ColorJitter::ranges(brightness, contrast, saturation, hue)?))
        },
        recipes: Recipes::Drawn(&[
            Recipe {
                name: "ColorJitter",
                draw: |rng, _| {
                    let [b, c, s] = [0; 3].map(|_| recipe::number(rng, -0.2, 1.0).max(0.0));
                    Ok(built(ColorJitter::new(b, c, s)?))
                },
            },
            Recipe {
                name: "ColorJitter(hue)",
                draw: |rng, _| {
                    let [b, c, s] = [0; 3].map(|_| recipe::number(rng, -0.5, 1.0).max(0.0));
                    Ok(built(
                        ColorJitter::new(b, c, s)?.hue(recipe::number(rng, -0.1, 0.5).max(0.0))?,
                    ))
                },
            },
        ]),
        golden: Golden::Tested,
    };
}

/// Returns the parameter of a factor: off by default.
const fn factor(name: &'static str) -> ParamInfo {
    const DOC: &str = "the factor is in max(0, 1 - value)..1 + value, or in low..high; 0 is off";
    with_default(name, ParamKind::NumberOrRange, ParamValue::Float(0.0), DOC)
}

/// Reads a range of factors; as in torchvision, one number is a range around 1.
fn factors(args: &OpArgs<'_>, name: &str) -> Result<(f64, f64), SpecError> {
    Ok(args.range_or(name, |value| (1.0 - value).max(0.0)..=1.0 + value)?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_zero_switches_its_part_off() {
        assert_eq!(ColorJitter::new(0.4, 0.0, 0.4).unwrap().adjustments.len(), 2);
        assert!(ColorJitter::new(0.0, 0.0, 0.0).unwrap().adjustments.is_empty());
        assert!(ColorJitter::new(0.0, 0.0, 0.0).unwrap().hue(0.0).unwrap().adjustments.is_empty());
        let one = (1.0, 1.0);
        assert!(ColorJitter::ranges(one, one, one, (0.0, 0.0)).unwrap().adjustments.is_empty());
        assert_eq!(
            ColorJitter::ranges((1.3, 1.3), one, one, (0.1, 0.1)).unwrap().adjustments.len(),
            2
        );
    }

    #[test]
    fn the_last_hue_counts() {
        let jitter = ColorJitter::new(0.4, 0.4, 0.4).unwrap().hue(0.3).unwrap();
        assert_eq!(jitter.adjustments.len(), 4);
        assert_eq!(jitter.hue(0.1).unwrap().adjustments.len(), 4);
    }

    #[test]
    fn bad_values_are_refused() {
        assert!(ColorJitter::new(-0.1, 0.0, 0.0).is_err());
        assert!(ColorJitter::new(0.0, f64::NAN, 0.0).is_err());
        assert!(ColorJitter::new(0.0, 0.0, f64::INFINITY).is_err());
        for hue in [-0.1, 0.6, f64::NAN] {
            assert!(ColorJitter::new(0.4, 0.4, 0.4).unwrap().hue(hue).is_err(), "{hue}");
        }
        let one = (1.0, 1.0);
        assert!(ColorJitter::ranges((1.2, 1.1), one, one, (0.0, 0.0)).is_err());
        assert!(ColorJitter::ranges(one, one, one, (-0.6, 0.0)).is_err());
    }
}
