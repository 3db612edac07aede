//! Colour jitter: brightness, contrast and saturation, in an order drawn for each sample.
//!
//! torchvision's `ColorJitter`: first the order, one of all permutations, then the factors in the
//! fixed order brightness, contrast, saturation. Each factor is uniform in
//! `max(0, 1 - value)..1 + value`; a value of 0 switches its part off.
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
use crate::{RandomBrightness, RandomContrast, RandomSaturation};

/// Randomly changes brightness, contrast and saturation, in random order.
#[derive(Debug)]
pub struct ColorJitter {
    parts: Vec<Box<dyn PixelOp>>,
}

impl ColorJitter {
    /// Factors in `max(0, 1 - value)..1 + value` for each of the three; 0 switches one off.
    ///
    /// # Errors
    ///
    /// If a value is negative or not finite.
    pub fn new(brightness: f64, contrast: f64, saturation: f64) -> Result<Self, ParamError> {
        let factor = |param, value| Factor::new("ColorJitter", param, value, 1.0);
        let mut parts: Vec<Box<dyn PixelOp>> = vec![];
        let brightness = (brightness, factor("brightness", brightness)?);
        let contrast = (contrast, factor("contrast", contrast)?);
        let saturation = (saturation, factor("saturation", saturation)?);
        if brightness.0 > 0.0 {
            parts.push(Box::new(RandomBrightness::from_factor(brightness.1)));
        }
        if contrast.0 > 0.0 {
            parts.push(Box::new(RandomContrast::from_factor(contrast.1)));
        }
        if saturation.0 > 0.0 {
            parts.push(Box::new(RandomSaturation::from_factor(saturation.1)));
        }
        Ok(Self { parts })
    }
}

impl Op for ColorJitter {
    fn name(&self) -> &'static str {
        "ColorJitter"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), input, |image| image)
    }

    fn class(&self) -> Class<'_> {
        Class::Shuffled(&self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_zero_switches_its_part_off() {
        assert_eq!(ColorJitter::new(0.4, 0.0, 0.4).unwrap().parts.len(), 2);
        assert!(ColorJitter::new(0.0, 0.0, 0.0).unwrap().parts.is_empty());
    }

    #[test]
    fn bad_values_are_refused() {
        assert!(ColorJitter::new(-0.1, 0.0, 0.0).is_err());
        assert!(ColorJitter::new(0.0, f64::NAN, 0.0).is_err());
        assert!(ColorJitter::new(0.0, 0.0, f64::INFINITY).is_err());
    }
}
