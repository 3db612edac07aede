//! Jitter: moves the coordinates of points by small random distances.

use crate::author::{Emit, Eval, ImageType, PixelOp, Pixels, Rng, Type};
use crate::noise::{self, SEEDS};
use crate::op::{Op, class, on_image};
use crate::registry::BuiltOp;
use crate::registry::{built, recipe};
use crate::{Convert, DType, ParamError, RandomChoice, Size, TypeError, ops};

/// Adds a uniform number in `-translate..translate` to every value.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomJitter.md"))]
///
/// ```text
/// out = in + translate * x        x uniform in (-1, 1), for each value by itself
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------------------------|
/// | input  | image of f16, bf16 or f32: a point cloud `[points, coordinates]`, or any array         |
/// | output | as the input; its values are no levels                                                 |
/// | random | two words per sample; `x` is a hash of them and of the value's row, column and channel |
/// | cost   | about fifteen operations per value, for the hash                                       |
///
/// PyTorch Geometric's `RandomJitter(translate)`, in the units of the values. There, `translate` may also be a
/// sequence with a number for each coordinate; here it is one number. Every column is moved: if a point cloud has
/// columns that are no coordinates, store them in a field of their own.
///
/// Integers are refused, because a jitter below 1 would be lost: list `Convert::to(DType::F32)` before it.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Convert::to(DType::F32), RandomJitter::new(0.01)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(POINTS, "adds a small uniform number to every value", draw = random, golden = "numbers from this crate's generator: their distribution is tested")]
pub struct RandomJitter {
    /// Builds the op for numbers of magnitude below `translate`.
    #[param("the largest distance, in units of the values", not_negative, example = 0.01)]
    translate: f32,
}

const NAME: &str = "RandomJitter";

/// The index of the drawn parameter after the seeds.
const TRANSLATE: usize = SEEDS;

fn random(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    let op = RandomJitter::new(recipe::number(rng, -1.0, 9.0).max(0.0))?;
    if matches!(before.dtype, DType::F16 | DType::Bf16 | DType::F32) {
        return Ok(built(op));
    }
    // The op takes floats: it follows an op that makes them.
    Ok(built(RandomChoice::new(vec![ops![Convert::to(DType::F32), op]])?))
}

#[class(Pixel)]
impl Op for RandomJitter {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        let refused = |expected| TypeError { op: NAME, expected, found: input.to_string() };
        match input {
            Type::Image(image) => match image.dtype {
                DType::F16 | DType::Bf16 | DType::F32 => {
                    on_image(NAME, input, |image| ImageType { is_levels: false, ..image })
                }
                DType::U8 | DType::U16 | DType::I16 => Err(refused(
                    "an image of f16, bf16 or f32, which have fractions (put Convert::to(DType::F32) before it)",
                )),
                DType::I32 | DType::I64 | DType::F64 => {
                    Err(refused("an image of f16, bf16 or f32 (put it before Convert)"))
                }
            },
            Type::Tensor { .. } => on_image(NAME, input, |image| image),
        }
    }
}

/// Parameters: two seeds, and the largest distance.
impl PixelOp for RandomJitter {
    fn param_count(&self) -> usize {
        SEEDS + 1
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["-", "-", "translate"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params[..SEEDS].copy_from_slice(&noise::seeds(rng));
        params[TRANSLATE] = self.translate;
        true
    }

    fn uses_position(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let uniforms = noise::uniforms([cx.params[0], cx.params[1]], cx.at);
        for (v, uniform) in pixel.iter_mut().zip(uniforms) {
            *v += uniform * cx.params[TRANSLATE];
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let uniforms = noise::emit_uniforms(e, 0, pixels);
        e.each(pixels, |e, c, v| {
            let translate = e.param(TRANSLATE);
            let distance = e.mul(uniforms.channels()[c], translate);
            e.add(v, distance)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    fn image(dtype: DType, is_levels: bool) -> Type {
        let image = ImageType::array(Size::new(100, 3), 1, dtype);
        Type::Image(ImageType { is_levels, ..image })
    }

    fn drawn(op: &RandomJitter, sample: u64) -> [f32; SEEDS + 1] {
        let mut params = [9.0; SEEDS + 1];
        assert!(op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(1, 1), &mut params));
        params
    }

    /// The distances of the 1000 x 3 coordinates of a sample.
    fn distances(op: &RandomJitter, sample: u64) -> Vec<f64> {
        let params = drawn(op, sample);
        let at = (0..1000).flat_map(|y| (0..3).map(move |x| [y, x]));
        at.map(|at| {
            let cx = Eval { rule: NumberRule::Exact, params: &params, at };
            f64::from(evaluated(op, &cx, [0.0])[0])
        })
        .collect()
    }

    #[test]
    fn distances_are_uniform_and_differ_from_value_to_value_and_sample_to_sample() {
        let op = RandomJitter::new(0.25).unwrap();
        let (one, other) = (distances(&op, 1), distances(&op, 2));
        let mut sorted = one.clone();
        sorted.sort_by(f64::total_cmp);
        // Kolmogorov and Smirnov: 2 / sqrt(3000) is exceeded in 7 of 10,000 tests.
        for (k, distance) in sorted.iter().enumerate() {
            let below = (distance / 0.25 + 1.0) / 2.0;
            assert!((below - k as f64 / 3000.0).abs() < 2.0 / 3000f64.sqrt(), "{k}: {distance}");
        }
        assert!(sorted[0] > -0.25 && sorted[2999] < 0.25);
        for (a, b) in [(&one[..], &other[..]), (&one, &one[1..]), (&one, &one[3..])] {
            let products = a.iter().zip(b).map(|(a, b)| a * b * 16.0);
            let correlation = products.sum::<f64>() / (3000.0 / 3.0);
            assert!(correlation.abs() < 5.0 / 3000f64.sqrt(), "{correlation}");
        }
    }

    #[test]
    fn values_are_moved_in_their_own_units_under_any_rule() {
        let op = RandomJitter::new(0.5).unwrap();
        let params = drawn(&op, 7);
        let at = [5, 2];
        let [first, second, ..] = noise::uniforms([params[0], params[1]], at);
        for rule in [NumberRule::Exact, NumberRule::Fused] {
            let cx = Eval { rule, params: &params, at };
            let found = evaluated(&op, &cx, [1000.0, -3.25]);
            assert_eq!(found, [1000.0 + first * 0.5, -3.25 + second * 0.5]);
        }
    }

    #[test]
    fn floats_are_taken_and_others_are_refused_with_the_cure() {
        let op = RandomJitter::new(0.5).unwrap();
        for dtype in [DType::F16, DType::Bf16, DType::F32] {
            assert_eq!(op.output(&image(dtype, true)), Ok(image(dtype, false)));
        }
        for (dtype, cure) in [
            (DType::U8, "(put Convert::to(DType::F32) before it)"),
            (DType::I16, "(put Convert::to(DType::F32) before it)"),
            (DType::I64, "(put it before Convert)"),
        ] {
            let error = op.output(&image(dtype, false)).unwrap_err().to_string();
            assert!(error.contains(cure), "{error}");
        }
    }

    #[test]
    fn a_distance_of_0_changes_the_sign_of_0_and_bad_ones_are_refused() {
        assert!(!RandomJitter::new(0.0).unwrap().does_nothing(&image(DType::F32, false)));
        assert!(RandomJitter::new(1e39).is_err());
    }
}
