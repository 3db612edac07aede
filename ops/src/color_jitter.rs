//! Colour jitter: brightness, contrast, saturation and hue, in an order drawn for each sample.

use crate::author::{PixelOp, Type};
use crate::factor::Factor;
use crate::op::{Op, class, on_colors};
use crate::registry::{Recipe, built, recipe};
use crate::{NumberOrRange, ParamError, TypeError};
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
/// | input  | image of levels                                                                        |
/// | output | as the input                                                                    |
/// | random | an order, a factor for each adjustment                                          |
/// | cost   | that of the adjustments; the order costs one jump per sample, no test per pixel |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ColorJitter::new(0.4, 0.4, 0.4)?.hue(0.1)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Debug)]
#[op(COLOR, "changes brightness, contrast, saturation and hue, in random order", constructor = new, recipes = RECIPES)]
#[param(brightness: NumberOrRange, "the factor is in max(0, 1 - value)..1 + value, or in low..high; 0 is off", new, default = 0.0)]
#[param(contrast: NumberOrRange, "the factor is in max(0, 1 - value)..1 + value, or in low..high; 0 is off", new, default = 0.0)]
#[param(saturation: NumberOrRange, "the factor is in max(0, 1 - value)..1 + value, or in low..high; 0 is off", new, default = 0.0)]
#[param(hue: NumberOrRange, "the hue turns by -value..value, or by low..high, of a full turn; 0 is off", default = 0.0)]
pub struct ColorJitter {
    /// The factors of brightness, contrast and saturation.
    factors: [Factor; 3],
    /// The adjustments that are switched on.
    adjustments: Vec<Box<dyn PixelOp>>,
}

impl ColorJitter {
    /// Builds the op with a factor for each of the three adjustments: in
    /// `max(0, 1 - value)..1 + value`, where 0 switches one off, or in a range `low..=high`. The hue
    /// stays unchanged: see [`hue`](Self::hue).
    ///
    /// # Errors
    ///
    /// If a value is negative or not finite, or a range is not `0 <= low <= high < infinity`.
    pub fn new(
        brightness: impl Into<NumberOrRange>,
        contrast: impl Into<NumberOrRange>,
        saturation: impl Into<NumberOrRange>,
    ) -> Result<Self, ParamError> {
        let factors = [
            Factor::new(NAME, "brightness", brightness.into())?,
            Factor::new(NAME, "contrast", contrast.into())?,
            Factor::new(NAME, "saturation", saturation.into())?,
        ];
        Ok(Self { factors, adjustments: enabled_adjustments(factors, None) })
    }

    /// Adds a hue, in shares of a full turn: in `-hue..hue`, where 0 switches it off, or in a range
    /// `low..=high`.
    ///
    /// # Errors
    ///
    /// If `hue` is not in `0.0..=0.5`, or a range is not `-0.5 <= low <= high <= 0.5`.
    pub fn hue(self, hue: impl Into<NumberOrRange>) -> Result<Self, ParamError> {
        let hue = RandomHue::of(NAME, hue.into())?;
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
        enabled.push(Box::new(RandomBrightness::of(brightness, 1.0)));
    }
    if !contrast.is_one() {
        enabled.push(Box::new(RandomContrast::of(contrast, 1.0)));
    }
    if !saturation.is_one() {
        enabled.push(Box::new(RandomSaturation::of(saturation, 1.0)));
    }
    if let Some(hue) = hue.filter(|hue| !hue.is_zero()) {
        enabled.push(Box::new(hue));
    }
    enabled
}

#[class(Shuffled(&self.adjustments))]
impl Op for ColorJitter {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.adjustments.is_empty()
    }
}

const RECIPES: [Recipe; 2] = [
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
            Ok(built(ColorJitter::new(b, c, s)?.hue(recipe::number(rng, -0.1, 0.5).max(0.0))?))
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_zero_switches_its_part_off() {
        assert_eq!(ColorJitter::new(0.4, 0.0, 0.4).unwrap().adjustments.len(), 2);
        assert!(ColorJitter::new(0.0, 0.0, 0.0).unwrap().adjustments.is_empty());
        assert!(ColorJitter::new(0.0, 0.0, 0.0).unwrap().hue(0.0).unwrap().adjustments.is_empty());
        let brighter = ColorJitter::new(1.3..=1.3, 1.0..=1.0, 1.0..=1.0).unwrap();
        assert_eq!(brighter.hue(0.0..=0.0).unwrap().adjustments.len(), 1);
        assert!(ColorJitter::new(1.0..=1.0, 0.0, 1.0..=1.0).unwrap().adjustments.is_empty());
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
        assert!(ColorJitter::new(1.2..=1.1, 0.0, 0.0).is_err());
        assert!(ColorJitter::new(0.0, 0.0, 0.0).unwrap().hue(-0.6..=0.0).is_err());
    }
}
