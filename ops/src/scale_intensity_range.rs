//! Intensity scaling: maps one range of values linearly to another.

use crate::author::Rng;
use crate::author::{Emit, Eval, PixelOp, Pixels, Type};
use crate::clip::{clip, emit_clip};
use crate::default_floats::{DefaultFloats, nearest_f32};
use crate::op::{ImageType, Op, class, is_whole, on_numbers};
use crate::registry::{BuiltOp, OpArgs, SpecError};
use crate::registry::{built, recipe};
use crate::{DType, ParamError, TypeError};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Maps the values `a_min..=a_max` linearly to `b_min..=b_max`.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ScaleIntensityRange.md"))]
///
/// ```text
/// out = (in - a_min) / (a_max - a_min) * (b_max - b_min) + b_min
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                 |
/// | output | f32                                                                       |
/// | random | nothing                                                                   |
/// | cost   | two operations per float, three per integer; two more with `clip`         |
///
/// MONAI's `ScaleIntensityRange`, whose defaults are 0 and 1 for `b_min` and `b_max`. As there, values outside
/// `a_min..=a_max` go outside `b_min..=b_max` unless `clip` is set. With it, the op is the window of a CT image:
/// what is below the window is black, what is above is white. A window is often given by its level and width:
/// `a_min` is `level - width / 2`, and `a_max` is `level + width / 2`.
///
/// Integers are scaled as [`Normalize`](crate::Normalize) scales, by constants split in two: for those of up to 16 bits
/// the result is the exact one, rounded once, but for a few values whose last bit differs. The relative error of
/// floats is below 2^-22, or their error is below 2^-32 of `b_max - b_min`; infinities stay infinite. MONAI rounds
/// after each of the four operations, so its results differ in the last places.
///
/// ```
/// # use fuseloop_ops::*;
/// // A window for soft tissue: Hounsfield units -160 to 240.
/// let list = ops![ScaleIntensityRange::new(-160.0..=240.0, 0.0..=1.0)?.clip(true)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(VALUES, "maps a range of values linearly to another; with clip, the window of a CT image", constructor = new, build = build, draw = random)]
#[param(a_min: f64, "the value that becomes b_min", example = 0)]
#[param(a_max: f64, "the value that becomes b_max", example = 255)]
#[param(b_min: f64, "the lower bound of the results", default = 0.0)]
#[param(b_max: f64, "the upper bound of the results", default = 1.0)]
#[param(clip: bool, "whether results are limited to their bounds", default = false)]
pub struct ScaleIntensityRange {
    /// `m1, s1, s0, bias`, where `d` is `in - m1`:
    ///
    /// ```text
    /// out = fma(d, s1, fma(d, s0, bias))      of integers
    /// out = fma(d, s1, bias)                  of floats: s0 may be negative, and infinity - infinity is NaN
    /// ```
    numbers: [f32; 4],
    to: [f32; 2],
    clip: bool,
    /// True if values are those of an integer type.
    whole: bool,
}

const NAME: &str = "ScaleIntensityRange";

impl ScaleIntensityRange {
    /// Builds the op for values of the range `from`, which become those of the range `to`.
    ///
    /// # Errors
    ///
    /// If a bound is not finite, or an upper bound is not above its lower one (MONAI warns if `a_min` and `a_max`
    /// are equal), or the factor or the summand of the scaling is too large or too small for f32.
    pub fn new(from: RangeInclusive<f64>, to: RangeInclusive<f64>) -> Result<Self, ParamError> {
        let (a_min, a_max) = bounds(["a_min", "a_max"], from)?;
        let (b_min, b_max) = bounds(["b_min", "b_max"], to)?;
        let numbers = DefaultFloats::during(|| numbers([a_min, a_max], [b_min, b_max]));
        let [_, factor, ..] = numbers;
        if !factor.is_normal() || numbers.iter().any(|number| !number.is_finite()) {
            let expected = "a bound with which the factor and the summand of the scaling fit f32";
            return Err(ParamError::new(NAME, "b_max", b_max, expected));
        }
        Ok(Self {
            numbers,
            to: [nearest_f32(b_min), nearest_f32(b_max)],
            clip: false,
            whole: false,
        })
    }

    /// Sets whether results are limited to `b_min..=b_max`. Default false.
    #[must_use]
    pub const fn clip(self, clip: bool) -> Self {
        Self { clip, ..self }
    }
}

/// Returns the bounds of a range, which must be finite and not equal.
fn bounds(
    [min, max]: [&'static str; 2],
    range: RangeInclusive<f64>,
) -> Result<(f64, f64), ParamError> {
    let (low, high) = range.into_inner();
    if !nearest_f32(low).is_finite() {
        return Err(ParamError::new(NAME, min, low, "a finite number"));
    }
    if !(nearest_f32(high).is_finite() && low < high) {
        return Err(ParamError::new(NAME, max, high, "a finite number above the lower bound"));
    }
    Ok((low, high))
}

/// Returns `m1, s1, s0, bias`: the factor is `s1 + s0`, and the value that becomes 0 is `m1 + m0`, where `bias`
/// is `-m0` times the factor.
fn numbers([a_min, a_max]: [f64; 2], [b_min, b_max]: [f64; 2]) -> [f32; 4] {
    let width = a_max - a_min;
    let factor = (b_max - b_min) / width;
    let zero = a_min - b_min / factor;
    let m1 = if width < 2.0 {
        zero as f32
    } else {
        // `in - m1` is exact for integers of 16 bits: it is a multiple of 1 / steps, and less than 2^24 of these.
        let reach = (zero + 32_768.0).abs().max((65_535.0 - zero).abs());
        let steps = 2f64.powi(23 - libm::log2(reach).floor() as i32);
        ((zero * steps).round() / steps) as f32
    };
    let s1 = factor as f32;
    let s0 = (factor - f64::from(s1)) as f32;
    let bias = (-(zero - f64::from(m1)) * factor) as f32;
    [m1, s1, s0, bias]
}

#[class(Pixel)]
impl Op for ScaleIntensityRange {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(NAME, input, |image| ImageType { dtype: DType::F32, is_levels: false, ..image })
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        is_whole(input).then(|| Arc::new(Self { whole: true, ..*self }) as Arc<dyn Op>)
    }
}

impl PixelOp for ScaleIntensityRange {
    fn is_per_channel(&self) -> bool {
        true
    }

    fn normalizes(&self) -> Option<Vec<[f32; 4]>> {
        (self.whole && !self.clip).then(|| vec![self.numbers])
    }

    fn eval(&self, _: &Eval<'_>, pixel: &mut [f32]) {
        let [m1, s1, s0, bias] = self.numbers;
        for v in pixel {
            let d = *v - m1;
            let low = if self.whole { d.mul_add(s0, bias) } else { bias };
            *v = d.mul_add(s1, low);
            if self.clip {
                *v = clip(*v, self.to);
            }
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let [m1, s1, s0, bias] = self.numbers.map(|number| e.splat(number));
        e.each(pixels, |e, _, v| {
            let d = e.sub(v, m1);
            let low = if self.whole { e.fma(d, s0, bias) } else { bias };
            let v = e.fma(d, s1, low);
            if !self.clip {
                return v;
            }
            let to = self.to.map(|bound| e.splat(bound));
            emit_clip(e, v, to)
        })
    }
}

fn build(args: &OpArgs<'_>) -> Result<BuiltOp, SpecError> {
    let from = args.float("a_min")?..=args.float("a_max")?;
    let to = args.float("b_min")?..=args.float("b_max")?;
    Ok(built(ScaleIntensityRange::new(from, to)?.clip(args.bool("clip")?)))
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let from = recipe::number(rng, -100.0, 150.0);
    let to = recipe::number(rng, -2.0, 2.0);
    let width = if rng.coin(0.7) { 200.0 } else { 1.5 };
    let from = from..=from + recipe::number(rng, 0.1, width);
    let to = to..=to + recipe::number(rng, 0.1, 300.0);
    Ok(built(ScaleIntensityRange::new(from, to)?.clip(rng.coin(0.5))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::author::Rng;
    use crate::op::{Dim, evaluated};

    const RANGES: [([f64; 2], [f64; 2]); 9] = [
        ([0.0, 255.0], [0.0, 1.0]),
        ([-160.0, 240.0], [0.0, 1.0]),
        ([-1000.0, 400.0], [-1.0, 1.0]),
        ([-57.3, 164.9], [0.0, 1.0]),
        ([0.0, 65_535.0], [-0.5, 0.5]),
        ([-1024.0, 3071.0], [1000.0, 1001.0]),
        ([0.1, 0.9], [0.0, 255.0]),
        ([-80.0, 0.0], [0.1, 0.3]),
        ([1e-4, 1e-3], [-1.0, 1.0]),
    ];

    fn exact(v: f32, [a_min, a_max]: [f64; 2], [b_min, b_max]: [f64; 2]) -> f64 {
        (f64::from(v) - a_min) / (a_max - a_min) * (b_max - b_min) + b_min
    }

    fn scale([a_min, a_max]: [f64; 2], [b_min, b_max]: [f64; 2]) -> ScaleIntensityRange {
        ScaleIntensityRange::new(a_min..=a_max, b_min..=b_max).unwrap()
    }

    fn scaled(op: &ScaleIntensityRange, v: f32) -> f32 {
        evaluated(op, &Eval::new(NumberRule::Exact, &[]), [v])[0]
    }

    #[test]
    fn integers_are_scaled_with_one_rounding() {
        for (from, to) in RANGES.into_iter().filter(|(from, _)| from[1] - from[0] > 2.0) {
            let op = ScaleIntensityRange { whole: true, ..scale(from, to) };
            let (mut differ, mut seen) = (0, 0);
            for v in (-32_768..=65_535).map(|v| v as f32) {
                let (found, want) = (scaled(&op, v), exact(v, from, to));
                // Where the exact result is 0, so is ours; else f64 has enough bits to be the yardstick.
                let nearest = if want.abs() < 1e-12 * (to[1] - to[0]) { 0.0 } else { want as f32 };
                seen += 1;
                if found != nearest {
                    differ += 1;
                    let ulp = f64::from(nearest.abs().next_up() - nearest.abs());
                    let error = (f64::from(found) - want).abs();
                    assert!(
                        error <= 0.51 * ulp || error < 1e-12,
                        "{v}, {from:?}, {to:?}: {found}, {want}"
                    );
                }
            }
            assert!(differ * 1000 <= seen, "{differ} of {seen} differ: {from:?}, {to:?}");
        }
    }

    #[test]
    fn floats_are_scaled_within_2_to_the_minus_22() {
        let mut rng = Rng::new(5);
        for (from, to) in RANGES {
            let op = scale(from, to);
            let (width, reach) = (from[1] - from[0], to[1] - to[0]);
            for _ in 0..20_000 {
                let v = (from[0] + width * f64::from(rng.uniform(-0.5, 1.5))) as f32;
                let (found, want) = (scaled(&op, v), exact(v, from, to));
                let error = (f64::from(found) - want).abs();
                let most = (want.abs() * 2f64.powi(-22)).max(reach * 2f64.powi(-32));
                assert!(error <= most, "{v}, {from:?}, {to:?}: {found}, {want}");
            }
        }
    }

    #[test]
    fn results_outside_are_clipped_on_request_and_nan_stays() {
        let window = scale([-160.0, 240.0], [0.0, 1.0]);
        assert_eq!(scaled(&window, 440.0), 1.5);
        assert_eq!(scaled(&window, -360.0), -0.5);
        let window = window.clip(true);
        assert_eq!(
            [-1000.0, -160.0, 40.0, 240.0, 3000.0].map(|v| scaled(&window, v)),
            [0.0, 0.0, 0.5, 1.0, 1.0]
        );
        assert_eq!([f32::NEG_INFINITY, f32::INFINITY].map(|v| scaled(&window, v)), [0.0, 1.0]);
        assert!(scaled(&window, f32::NAN).is_nan());
    }

    #[test]
    fn infinities_stay_infinite() {
        for (from, to) in RANGES {
            let op = scale(from, to);
            let ends = [f32::NEG_INFINITY, f32::INFINITY];
            assert_eq!(ends.map(|v| scaled(&op, v)), ends, "{from:?}, {to:?}");
        }
    }

    #[test]
    fn row_functions_scale_integers_that_are_not_clipped() {
        let op = scale([0.0, 255.0], [0.0, 1.0]);
        let on = |dtype| {
            let image = ImageType { dtype, ..ImageType::decoded(Dim::fixed(2), Dim::fixed(3)) };
            op.for_input(&Type::Image(image)).is_some()
        };
        assert_eq!([DType::U8, DType::I16, DType::F32].map(on), [true, true, false]);
        let whole = ScaleIntensityRange { whole: true, ..op };
        assert_eq!(whole.normalizes(), Some(vec![whole.numbers]));
        assert!(op.normalizes().is_none() && whole.clip(true).normalizes().is_none());
    }

    #[test]
    fn an_image_of_any_type_that_loops_read_becomes_f32_without_levels() {
        let op = scale([0.0, 255.0], [0.0, 1.0]);
        for dtype in crate::shape::DTYPES.into_iter().filter(|dtype| crate::op::is_loaded(*dtype)) {
            let image = ImageType { dtype, ..ImageType::decoded(Dim::fixed(2), Dim::fixed(3)) };
            let floats = ImageType { dtype: DType::F32, is_levels: false, ..image };
            assert_eq!(op.output(&Type::Image(image)), Ok(Type::Image(floats)));
        }
    }

    #[test]
    fn bad_ranges_are_refused_by_the_name_of_the_bound() {
        let param = |from, to| ScaleIntensityRange::new(from, to).unwrap_err().param;
        assert_eq!(param(5.0..=5.0, 0.0..=1.0), "a_max");
        assert_eq!(param(f64::NAN..=5.0, 0.0..=1.0), "a_min");
        assert_eq!(param(0.0..=f64::INFINITY, 0.0..=1.0), "a_max");
        assert_eq!(param(0.0..=5.0, 1.0..=1.0), "b_max");
        assert_eq!(param(0.0..=5.0, 1.0..=0.0), "b_max");
        assert_eq!(param(0.0..=1e-30, 0.0..=1e30), "b_max");
        assert_eq!(param(0.0..=1e38, 0.0..=1e-20), "b_max");
        assert_eq!(param(0.0..=1e-20, 1e30..=1.1e30), "b_max");
    }
}
