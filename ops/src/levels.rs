//! Levels: states which values of an array are black and white.

use crate::author::Rng;
use crate::author::{Emit, Eval, ImageType, PixelOp, Pixels, Type, max, min};
use crate::default_floats::DefaultFloats;
use crate::normalize::Channel;
use crate::op::{Op, class, on_numbers};
use crate::registry::BuiltOp;
use crate::registry::built;
use crate::registry::recipe;
use crate::{DType, ParamError, TypeError};

/// States which values of an array are black and white, and maps these to the levels 0 and 255, as `f32`.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Levels.md"))]
///
/// Ops that change brightness or colour compute with levels, where 0 is black and 255 is white. Bytes are
/// levels. The values of other arrays are Hounsfield units, metres or counts of a sensor: after this op they are
/// levels, too, and colour ops and [`Normalize`](crate::Normalize) work as on a photograph, but without rounding
/// to bytes.
///
/// ```text
/// out = (clamp(in, black, white) - black) * 255 / (white - black)       NaN becomes 0
/// ```
///
/// | | |
/// |--------|----------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32      |
/// | output | f32, in 0..=255                              |
/// | random | nothing                                      |
/// | cost   | one clamp, one subtraction, one fma a value  |
///
/// ```
/// # use fuseloop_ops::*;
/// // A window of a CT image, in Hounsfield units.
/// let window = ops![Levels::of(-1000.0, 400.0)?, RandomBrightness::new(0.2)?, Normalize::new([0.5], [0.5])?];
/// // The whole range of a 16-bit image.
/// let depth = ops![Levels::of(0.0, 65535.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(VALUES, "maps the values of black and white to 0 and 255, for ops that change colours; gives f32", constructor = of, draw = random, golden = "no library has it; a window is NumPy's clip and a multiplication")]
#[param(black: f64, "the value that becomes 0", example = -1000.0)]
#[param(white: f64, "the value that becomes 255", example = 400.0)]
pub struct Levels {
    low: f32,
    high: f32,
    /// The value that replaces NaN.
    black: f32,
    constants: Channel,
}

impl Levels {
    /// Builds the op from the values of black and white. White may be below black: then the image is inverted.
    ///
    /// # Errors
    ///
    /// If a value is not in `-1e30..=1e30`, or the two are closer than `1e-30`.
    pub fn of(black: f64, white: f64) -> Result<Self, ParamError> {
        for (param, value) in [("black", black), ("white", white)] {
            if !(-1e30..=1e30).contains(&value) {
                return Err(ParamError::new("Levels", param, value, "-1e30..=1e30"));
            }
        }
        let unit = DefaultFloats::during(|| (white - black) / 255.0);
        if unit.abs() < 1e-30 {
            return Err(ParamError::new(
                "Levels",
                "white",
                white,
                "another value than that of black",
            ));
        }
        Ok(DefaultFloats::during(|| {
            let (low, high) = (black.min(white) as f32, black.max(white) as f32);
            Self { low, high, black: black as f32, constants: Channel::single(black, unit) }
        }))
    }
}

#[class(Pixel)]
impl Op for Levels {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| ImageType {
            dtype: DType::F32,
            is_levels: true,
            ..image
        })
    }
}

impl PixelOp for Levels {
    fn is_per_channel(&self) -> bool {
        true
    }

    fn eval(&self, _: &Eval<'_>, pixel: &mut [f32]) {
        for v in pixel {
            let inside = if self.black == self.low {
                min(max(*v, self.low), self.high)
            } else {
                max(min(*v, self.high), self.low)
            };
            *v = self.constants.eval(inside);
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let (low, high) = (e.splat(self.low), e.splat(self.high));
            let inside = if self.black == self.low {
                let v = e.max(v, low);
                e.min(v, high)
            } else {
                let v = e.min(v, high);
                e.max(v, low)
            };
            self.constants.emit(e, inside)
        })
    }
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let black = recipe::number(rng, -1000.0, 100.0);
    Ok(built(Levels::of(black, black + recipe::number(rng, 10.0, 3000.0))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;

    fn levels<const N: usize>(black: f64, white: f64, values: [f32; N]) -> [f32; N] {
        let op = Levels::of(black, white).unwrap();
        values.map(|value| evaluated(&op, &Eval::new(NumberRule::Fused, &[]), [value])[0])
    }

    #[test]
    fn black_becomes_0_and_white_255() {
        let window = levels(-1000.0, 400.0, [-3000.0, -1000.0, -300.0, 400.0, 3000.0]);
        assert_eq!(window, [0.0, 0.0, 127.5, 255.0, 255.0]);
        assert_eq!(levels(0.0, 65535.0, [0.0, 257.0, 65535.0]), [0.0, 1.0, 255.0]);
        assert_eq!(levels(1.0, 0.0, [0.0, 1.0]), [255.0, 0.0], "inverted");
    }

    #[test]
    fn what_is_no_number_is_black() {
        assert_eq!(levels(0.0, 1.0, [f32::NAN, f32::INFINITY, -f32::INFINITY]), [0.0, 255.0, 0.0]);
    }

    #[test]
    fn two_equal_values_are_refused() {
        let error = Levels::of(7.0, 7.0).unwrap_err().to_string();
        assert_eq!(error, "Levels: white is 7, expected another value than that of black");
        assert!(Levels::of(f64::NAN, 1.0).is_err() && Levels::of(0.0, f64::INFINITY).is_err());
    }
}
