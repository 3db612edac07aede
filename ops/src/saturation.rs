//! Saturation: moves every pixel away from, or towards, its own grey.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::emit::{GREY, clamp, grey};
use crate::factor::{Factor, one_minus};
use crate::op::{Op, class, is_gray, on_colors};
use crate::{NumberOrRange, NumberRule, Size, TypeError};

/// Moves every pixel away from its own grey, or towards it, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomSaturation.md"))]
///
/// ```text
/// out  = clamp(in * factor + grey * (1 - factor))
/// grey = 0.2989 R + 0.587 G + 0.114 B      of the pixel; truncated where the rule is Exact
/// ```
///
/// | | |
/// |--------|-------------------------------------------------------------------------|
/// | input  | image of levels                                                                |
/// | output | as the input                                                            |
/// | random | a coin `p`, then `factor`, uniform in `max(0, 1 - magnitude)..1 + magnitude`, or in a given range |
/// | cost   | three operations a pixel for the grey, four a value                     |
///
/// The formula is torchvision's `adjust_saturation` on tensors: under the Exact rule
/// `fma(grey, 1 - factor, in * factor)` in `f32`, to the bit; under the Fused rule
/// `fma(in, factor, grey * (1 - factor))`, which computes the product once for three channels. The
/// draws are those of FFCV's `RandomSaturation`. White stays only nearly white: torchvision's
/// weights sum to 0.9999.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomSaturation::new(0.4)?.p(0.8)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "changes the saturation of a share p of the images")]
pub struct RandomSaturation {
    /// A factor in `max(0, 1 - magnitude)..1 + magnitude`, or in a range, for half of the images.
    #[param("the factor is in max(0, 1 - magnitude)..1 + magnitude, or in low..high", example = 0.4,
        given = NumberOrRange, check = Factor::new, draw = 0.0..=1.5,
        errors = "If `magnitude` is negative or not finite, or a range is not `0 <= low <= high < infinity`")]
    magnitude: Factor,
    #[param(share)]
    p: f64,
}

impl RandomSaturation {
    /// Builds the op as a step of another, from a factor and a share that were checked before.
    pub(crate) const fn of(magnitude: Factor, p: f64) -> Self {
        Self { magnitude, p }
    }
}

#[class(Pixel)]
impl Op for RandomSaturation {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
    }

    fn does_nothing(&self, input: &Type) -> bool {
        self.p == 0.0 || self.magnitude.is_one() || is_gray(input)
    }
}

/// Parameters: the factor, one minus the factor.
impl PixelOp for RandomSaturation {
    fn param_count(&self) -> usize {
        2
    }

    fn param_names(&self) -> &'static [&'static str] {
        &[""] // the factor; the other parameter follows from it and is not shown
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params[0] = self.magnitude.draw(rng, self.p);
        params[1] = one_minus(params[0]);
        true
    }

    fn matrix(&self, params: &[f32]) -> Option<[[f32; 4]; 3]> {
        let [r, g, b] = GREY.map(|weight| weight * params[1]);
        let f = params[0];
        Some([[r + f, g, b, 0.0], [r, g + f, b, 0.0], [r, g, b + f, 0.0]])
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        if pixel.len() == 1 {
            return;
        }
        let (factor, rest, grey) = (cx.params[0], cx.params[1], grey(pixel));
        match cx.rule {
            NumberRule::Exact => {
                let grey = grey.trunc();
                for v in pixel {
                    *v = clamp(grey.mul_add(rest, *v * factor)).trunc();
                }
            }
            NumberRule::Fused | NumberRule::Relaxed => {
                for v in pixel {
                    *v = clamp(v.mul_add(factor, grey * rest));
                }
            }
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        if pixels.channels().len() == 1 {
            return pixels;
        }
        let grey = e.grey(pixels);
        let grey = e.apply_rule(grey);
        let rest = e.param(1);
        e.blend(pixels, grey, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::evaluated;

    #[test]
    fn as_torchvision_saturates() {
        let op = RandomSaturation::new(0.5).unwrap().p(1.0).unwrap();
        let eval = |pixel| evaluated(&op, &Eval::new(NumberRule::Exact, &[1.5, -0.5]), pixel);
        assert_eq!(eval([10.0, 200.0, 77.0]), [0.0, 235.0, 51.0]);
        assert_eq!(eval([250.0, 3.0, 129.0]), [255.0, 0.0, 148.0]);
    }
}
