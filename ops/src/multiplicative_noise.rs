//! Multiplicative noise: values multiplied by a random factor near 1.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::emit::{apply_rule, clamp};
use crate::noise::{self, SEEDS};
use crate::op::{Op, class, on_levels};
use crate::shape::MAX_CHANNELS;
use crate::{Size, TypeError};

/// Multiplies the values of a share `p` of the images by a random factor: one, one for each channel, pixel or value.
///
#[cfg_attr(doc, doc = include_str!("../pictures/MultiplicativeNoise.md"))]
///
/// ```text
/// out = clamp(in * m)        m uniform in multiplier
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------------------------------------|
/// | input  | image of levels with 1 to 4 channels                                                        |
/// | output | as the input                                                                                |
/// | random | a coin `p`, then a factor for each of 4 channels, or two words, of which and of the pixel's row, column and channel the factor is a hash |
/// | cost   | three operations per value; about twenty more per factor if `elementwise`                   |
///
/// Albumentations' `MultiplicativeNoise`, to the bit for the same factors: under the Exact rule the product is
/// truncated.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![MultiplicativeNoise::new().multiplier(0.8..=1.2)?.elementwise(true)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    OVERWRITE,
    "multiplies the values of a share p of the images by random factors",
    new = "Builds the op with Albumentations' defaults: a factor in 0.9..=1.1, for half of the images."
)]
pub struct MultiplicativeNoise {
    /// Sets the range of the factor.
    #[param("range of the factor", not_negative, default = 0.9..=1.1, draw = recipe::range(rng, 0.0, 1.5, 1.0))]
    multiplier: (f32, f32),
    /// Sets whether each channel has a factor of its own.
    #[param("whether each channel has a factor of its own", default = false, draw = rng.coin(0.5))]
    per_channel: bool,
    /// Sets whether each pixel has a factor of its own.
    #[param("whether each pixel has a factor of its own", default = false, draw = rng.coin(0.5))]
    elementwise: bool,
    #[param(share)]
    p: f64,
}

#[class(Pixel)]
impl Op for MultiplicativeNoise {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match on_levels(self.name(), input)? {
            Type::Image(image) if usize::from(image.channels) > MAX_CHANNELS => Err(TypeError {
                op: self.name(),
                expected: "an image of 1 to 4 channels",
                found: input.to_string(),
            }),
            image => Ok(image),
        }
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.multiplier == (1.0, 1.0)
    }
}

/// Drawn parameters: the factor of each channel; or two seeds, the middle of the range and half its width.
const MIDDLE: usize = SEEDS;
const HALF: usize = SEEDS + 1;

impl PixelOp for MultiplicativeNoise {
    fn param_count(&self) -> usize {
        if self.elementwise { SEEDS + 2 } else { MAX_CHANNELS }
    }

    fn param_names(&self) -> &'static [&'static str] {
        match (self.elementwise, self.per_channel) {
            (true, _) => &["-", "-", "middle", "half width"],
            (false, true) => &["channel 0:", "channel 1:", "channel 2:", "channel 3:"],
            (false, false) => &["factor", "-", "-", "-"],
        }
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        let (low, high) = self.multiplier;
        if self.elementwise {
            params[..SEEDS].copy_from_slice(&noise::seeds(rng));
            (params[MIDDLE], params[HALF]) = ((low + high) / 2.0, (high - low) / 2.0);
        } else if self.per_channel {
            params.fill_with(|| rng.uniform(low, high));
        } else {
            params.fill(rng.uniform(low, high));
        }
        runs
    }

    fn may_skip(&self) -> bool {
        self.p < 1.0
    }

    fn uses_position(&self) -> bool {
        self.elementwise
    }

    fn is_per_channel(&self) -> bool {
        !self.elementwise
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let mut factors = [0.0; MAX_CHANNELS];
        if self.elementwise {
            let uniforms = noise::uniforms([cx.params[0], cx.params[1]], cx.at);
            for (c, factor) in factors.iter_mut().enumerate() {
                let uniform = uniforms[if self.per_channel { c } else { 0 }];
                *factor = uniform.mul_add(cx.params[HALF], cx.params[MIDDLE]);
            }
        } else {
            factors.copy_from_slice(&cx.params[..MAX_CHANNELS]);
        }
        for (v, factor) in pixel.iter_mut().zip(factors) {
            *v = apply_rule(cx.rule, clamp(*v * factor));
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let factors = match (self.elementwise, self.per_channel) {
            (true, true) => noise::emit_uniforms(e, 0, pixels),
            (true, false) => {
                let first = Pixels::from([pixels.channels()[0]]);
                pixels.filled(noise::emit_uniforms(e, 0, first).channels()[0])
            }
            (false, _) => e.each(pixels, |e, c, _| e.param(c)),
        };
        e.each(pixels, |e, c, v| {
            let mut factor = factors.channels()[c];
            if self.elementwise {
                let (half, middle) = (e.param(HALF), e.param(MIDDLE));
                factor = e.fma(factor, half, middle);
            }
            let v = e.mul(v, factor);
            let v = e.clamp(v);
            e.apply_rule(v)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    fn noisy(op: &MultiplicativeNoise, at: [i32; 2]) -> [f32; 3] {
        let mut params = vec![0.0; op.param_count()];
        op.draw(&mut SampleKey::new(1, 2, 3).op(4), Size::new(9, 9), &mut params);
        evaluated(op, &Eval { rule: NumberRule::Fused, params: &params, at }, [100.0; 3])
    }

    #[test]
    fn factors_are_of_the_image_of_channels_of_pixels_or_of_values() {
        for per_channel in [false, true] {
            for elementwise in [false, true] {
                let op =
                    MultiplicativeNoise::new().per_channel(per_channel).elementwise(elementwise);
                let [one, other] = [[0, 0], [3, 5]].map(|at| noisy(&op, at));
                assert!(one.iter().all(|v| (90.0..110.0).contains(v)), "{one:?}");
                assert_eq!(one[0] != one[1], per_channel, "{op:?}: {one:?}");
                assert_eq!(one != other, elementwise, "{op:?}: {one:?}, {other:?}");
            }
        }
    }

    #[test]
    fn products_are_clamped_and_truncated_under_the_exact_rule() {
        let cx = Eval::new(NumberRule::Exact, &[1.07, 0.93, 3.0, 1.0]);
        let found = evaluated(&MultiplicativeNoise::new(), &cx, [100.0, 99.0, 100.0]);
        assert_eq!(found, [107.0, 92.0, 255.0]);
    }
}
