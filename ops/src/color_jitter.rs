//! Colour jitter: brightness, contrast, saturation and hue, in an order drawn for each sample.
//!
//! torchvision's `ColorJitter`: first the order, one of all permutations, then the factors in the
//! fixed order brightness, contrast, saturation, hue. Each factor is uniform in
//! `max(0, 1 - value)..1 + value`, the hue in `-value..value`; a value of 0, or a range that is the
//! neutral number alone, switches its part off.
//!
//! | | |
//! |--------|--------------------------------------------------------------------|
//! | input  | u8 image                                                           |
//! | output | as the input                                                       |
//! | random | an order, a factor for each part                                   |
//! | cost   | the parts' own; the order is a jump a sample, not a test a pixel   |

use crate::factor::Factor;
use crate::op::on_u8_image;
use crate::{Class, Op, ParamError, PixelOp, Type, TypeError};
use crate::{RandomBrightness, RandomContrast, RandomHue, RandomSaturation};

const NAME: &str = "ColorJitter";

/// Randomly changes brightness, contrast, saturation and hue, in random order.
#[derive(Debug)]
pub struct ColorJitter {
    /// Of brightness, contrast and saturation.
    factors: [Factor; 3],
    /// Those that are on.
    parts: Vec<Box<dyn PixelOp>>,
}

impl ColorJitter {
    /// Factors in `max(0, 1 - value)..1 + value` for each of the three; 0 switches one off. The
    /// hue stays as it is: see [`hue`](Self::hue).
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
        Ok(Self { factors, parts: parts(factors, None) })
    }

    /// Factors of brightness, contrast and saturation and a hue, each in a range `low..high`. A
    /// factor of 1 alone, or a hue of 0 alone, switches its part off.
    ///
    /// # Errors
    ///
    /// If not `0 <= low <= high < infinity`, or for the hue `-0.5 <= low <= high <= 0.5`.
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
        Ok(Self { factors, parts: parts(factors, Some(RandomHue::of(NAME, hue, 1.0)?)) })
    }

    /// The same with a hue in `-hue..hue`; 0 switches it off.
    ///
    /// # Errors
    ///
    /// If `hue` is not in `0.0..=0.5`.
    pub fn hue(self, hue: f64) -> Result<Self, ParamError> {
        if !(0.0..=0.5).contains(&hue) {
            return Err(ParamError::new(NAME, "hue", hue, "0.0..=0.5"));
        }
        let hue = RandomHue::of(NAME, (-hue, hue), 1.0)?;
        Ok(Self { parts: parts(self.factors, Some(hue)), ..self })
    }
}

/// The parts that are on.
fn parts(
    [brightness, contrast, saturation]: [Factor; 3],
    hue: Option<RandomHue>,
) -> Vec<Box<dyn PixelOp>> {
    let mut parts: Vec<Box<dyn PixelOp>> = vec![];
    if !brightness.is_one() {
        parts.push(Box::new(RandomBrightness::from_factor(brightness)));
    }
    if !contrast.is_one() {
        parts.push(Box::new(RandomContrast::from_factor(contrast)));
    }
    if !saturation.is_one() {
        parts.push(Box::new(RandomSaturation::from_factor(saturation)));
    }
    if let Some(hue) = hue.filter(|hue| !hue.is_zero()) {
        parts.push(Box::new(hue));
    }
    parts
}

impl Op for ColorJitter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), input, |image| image)
    }

    fn class(&self) -> Class<'_> {
        Class::Shuffled(&self.parts)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.parts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_zero_switches_its_part_off() {
        assert_eq!(ColorJitter::new(0.4, 0.0, 0.4).unwrap().parts.len(), 2);
        assert!(ColorJitter::new(0.0, 0.0, 0.0).unwrap().parts.is_empty());
        assert!(ColorJitter::new(0.0, 0.0, 0.0).unwrap().hue(0.0).unwrap().parts.is_empty());
        let one = (1.0, 1.0);
        assert!(ColorJitter::ranges(one, one, one, (0.0, 0.0)).unwrap().parts.is_empty());
        assert_eq!(ColorJitter::ranges((1.3, 1.3), one, one, (0.1, 0.1)).unwrap().parts.len(), 2);
    }

    #[test]
    fn the_last_hue_counts() {
        let jitter = ColorJitter::new(0.4, 0.4, 0.4).unwrap().hue(0.3).unwrap();
        assert_eq!(jitter.parts.len(), 4);
        assert_eq!(jitter.hue(0.1).unwrap().parts.len(), 4);
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
