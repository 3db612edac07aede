//! Clip: limits values to a range.

use crate::author::ImageType;
use crate::author::Rng;
use crate::author::{Emit, Eval, F32x4, PixelOp, Pixels, Type, max, min};
use crate::default_floats::nearest_f32;
use crate::op::{Op, class, on_numbers};
use crate::registry::BuiltOp;
use crate::registry::{built, recipe};
use crate::{DType, NumberRule, ParamError, TypeError};
use std::sync::Arc;

/// Limits values to a range.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Clip.md"))]
///
/// ```text
/// out = low     if in < low
/// out = high    if in > high
/// out = in      otherwise, also where it is NaN
/// ```
///
/// | | |
/// |--------|---------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32 |
/// | output | as the input              |
/// | random | nothing                   |
/// | cost   | two operations per value  |
///
/// NumPy's `clip`. The range is in the units of the values: levels on u8, numbers after Normalize. An infinite
/// `low` or `high` is no limit.
///
/// The type of the elements stays the same. If it is an integer type and `low` or `high` has a fraction, so
/// does the result: it is rounded half to even when it is stored. Under the
/// [Exact](crate::NumberRule::Exact) rule, `low` and `high` are truncated instead, as all results are.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Normalize::imagenet(), Clip::new(-2.0, 2.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(VALUES, "limits values to a range", constructor = new, draw = random)]
pub struct Clip {
    #[param("the least value", example = 16)]
    low: f32,
    #[param("the largest value", example = 235)]
    high: f32,
    /// True if values are those of an integer type.
    whole: bool,
}

impl Clip {
    /// Builds the op for the range from `low` to `high`, which are rounded to f32.
    ///
    /// # Errors
    ///
    /// If `low` or `high` is NaN, or `low` is above `high`.
    pub fn new(low: f64, high: f64) -> Result<Self, ParamError> {
        if low.is_nan() {
            return Err(ParamError::new("Clip", "low", low, "a number"));
        }
        if high.is_nan() || low > high {
            return Err(ParamError::new("Clip", "high", high, "a number that is not below low"));
        }
        Ok(Self { low: nearest_f32(low), high: nearest_f32(high), whole: false })
    }

    /// Returns the range under a rounding rule.
    fn bounds(&self, rule: NumberRule) -> [f32; 2] {
        match (self.whole, rule) {
            (true, NumberRule::Exact) => [self.low.trunc(), self.high.trunc()],
            _ => [self.low, self.high],
        }
    }
}

fn random(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    let (least, most) = match before.dtype {
        DType::U8 => (-50.0, 300.0),
        _ => (-3.0, 3.0),
    };
    let (low, high) = recipe::range(rng, least, most, most).into_inner();
    Ok(built(match rng.below(4) {
        0 => Clip::new(low.round(), high.round())?,
        1 => Clip::new(f64::NEG_INFINITY, high)?,
        _ => Clip::new(low, high)?,
    }))
}

#[class(Pixel)]
impl Op for Clip {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, input: &Type) -> bool {
        let covers = |[low, high]: [f32; 2]| self.low <= low && high <= self.high;
        match input {
            // The values of a u8 image are always within 0..=255.
            Type::Image(image) if image.dtype == DType::U8 => covers([0.0, 255.0]),
            _ => covers([f32::NEG_INFINITY, f32::INFINITY]),
        }
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        let Type::Image(image) = input else { return None };
        let [least, largest] = image.dtype.integer_range()?;
        let [low, high] = [self.low, self.high].map(|bound| bound.clamp(least, largest));
        Some(Arc::new(Self { low, high, whole: true }))
    }
}

impl PixelOp for Clip {
    fn is_per_channel(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let bounds = self.bounds(cx.rule);
        pixel.iter_mut().for_each(|v| *v = clip(*v, bounds));
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let bounds = self.bounds(e.rule()).map(|bound| e.splat(bound));
        e.each(pixels, |e, _, v| emit_clip(e, v, bounds))
    }
}

/// Limits a value to a range. NaN stays NaN: `min` and `max` return their second argument for it.
pub(crate) fn clip(v: f32, [low, high]: [f32; 2]) -> f32 {
    max(low, min(high, v))
}

/// Records [`clip`].
pub(crate) fn emit_clip(e: &mut Emit, v: F32x4, [low, high]: [F32x4; 2]) -> F32x4 {
    let v = e.min(high, v);
    e.max(low, v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::author::OpClass;
    use crate::op::{Dim, ImageType, evaluated};

    fn image(dtype: DType) -> Type {
        Type::Image(ImageType { dtype, ..ImageType::decoded(Dim::fixed(2), Dim::fixed(3)) })
    }

    #[test]
    fn values_outside_become_the_nearest_bound_and_nan_stays() {
        let clip = Clip::new(-1.5, 2.25).unwrap();
        let cx = Eval::new(NumberRule::Exact, &[]);
        let values = [-7.0, -1.5, 0.1, 2.25, 2.5, f32::INFINITY, f32::NEG_INFINITY];
        assert_eq!(evaluated(&clip, &cx, values), [-1.5, -1.5, 0.1, 2.25, 2.25, 2.25, -1.5]);
        let nan = f32::from_bits(0xffc0_1234);
        assert_eq!(evaluated(&clip, &cx, [nan])[0].to_bits(), nan.to_bits());
    }

    #[test]
    fn bounds_of_integers_are_truncated_under_the_exact_rule() {
        let clip = Clip::new(-10.5, 200.5).unwrap();
        let on = |dtype, rule| {
            let replaced = clip.for_input(&image(dtype));
            let OpClass::Pixel(op) =
                replaced.as_ref().map_or_else(|| clip.class(), |op| op.class())
            else {
                panic!("it is a pixel op")
            };
            evaluated(op, &Eval::new(rule, &[]), [-20.0, 7.0, 255.0])
        };
        assert_eq!(on(DType::I16, NumberRule::Exact), [-10.0, 7.0, 200.0]);
        assert_eq!(on(DType::I16, NumberRule::Fused), [-10.5, 7.0, 200.5]);
        assert_eq!(on(DType::F32, NumberRule::Exact), [-10.5, 7.0, 200.5]);
        // The values of a u8 image stay within 0..=255.
        assert_eq!(on(DType::U8, NumberRule::Fused), [0.0, 7.0, 200.5]);
    }

    #[test]
    fn a_range_of_all_values_does_nothing() {
        let clip = |low, high| Clip::new(low, high).unwrap();
        assert!(clip(-1.0, 255.0).does_nothing(&image(DType::U8)));
        assert!(!clip(-1.0, 254.0).does_nothing(&image(DType::U8)));
        assert!(!clip(-1.0, 255.0).does_nothing(&image(DType::F32)));
        assert!(clip(f64::NEG_INFINITY, f64::INFINITY).does_nothing(&image(DType::F32)));
    }

    #[test]
    fn bad_ranges_are_refused() {
        for (low, high) in [(f64::NAN, 1.0), (0.0, f64::NAN), (1.0, 0.5)] {
            assert!(Clip::new(low, high).is_err(), "{low}, {high}");
        }
        assert!(Clip::new(0.5, 0.5).is_ok());
    }
}
