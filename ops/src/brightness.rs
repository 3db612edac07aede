//! Brightness: every value multiplied by one factor.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::emit::{apply_rule, min};
use crate::factor::Factor;
use crate::op::{Op, class, on_levels};
use crate::registry::{Recipe, built, recipe};
use crate::{NumberOrRange, Size, TypeError};

/// Multiplies every value by one random factor, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomBrightness.md"))]
///
/// ```text
/// out = clamp(in * factor)
/// ```
///
/// | | |
/// |--------|-------------------------------------------------|
/// | input  | image of levels                                        |
/// | output | as the input                                    |
/// | random | a coin `p`, then `factor` uniform in `max(0, 1 - magnitude)..1 + magnitude`, or in a given range |
/// | cost   | one multiplication and one comparison per value |
///
/// The formula is torchvision's `adjust_brightness` on tensors; the draws are FFCV's
/// `RandomBrightness`.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomBrightness::new(0.4)?.p(0.8)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "makes a share p of the images brighter or darker", recipes = RECIPES)]
pub struct RandomBrightness {
    /// A factor in `max(0, 1 - magnitude)..1 + magnitude`, or in a range, for half of the images.
    #[param("the factor is in max(0, 1 - magnitude)..1 + magnitude, or in low..high", example = 0.4,
        given = NumberOrRange, check = Factor::new,
        errors = "If `magnitude` is negative or not finite, or a range is not `0 <= low <= high < infinity`")]
    magnitude: Factor,
    #[param(share)]
    p: f64,
}

const RECIPES: [Recipe; 2] = [
    Recipe {
        name: "RandomBrightness",
        draw: |rng, _| {
            let op = RandomBrightness::new(recipe::number(rng, 0.0, 1.5))?;
            Ok(built(op.p(recipe::share(rng))?))
        },
    },
    Recipe {
        name: "RandomBrightness(range)",
        draw: |rng, _| {
            let op = RandomBrightness::new(recipe::range(rng, 0.0, 2.0, 1.0))?;
            Ok(built(op.p(recipe::share(rng))?))
        },
    },
];

impl RandomBrightness {
    /// Builds the op as a step of another, from a factor and a share that were checked before.
    pub(crate) const fn of(magnitude: Factor, p: f64) -> Self {
        Self { magnitude, p }
    }
}

#[class(Pixel)]
impl Op for RandomBrightness {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.magnitude.is_one()
    }
}

impl PixelOp for RandomBrightness {
    fn param_count(&self) -> usize {
        1
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params[0] = self.magnitude.draw(rng, self.p);
        true
    }

    fn is_per_channel(&self) -> bool {
        true
    }

    fn matrix(&self, params: &[f32]) -> Option<[[f32; 4]; 3]> {
        let f = params[0];
        Some([[f, 0.0, 0.0, 0.0], [0.0, f, 0.0, 0.0], [0.0, 0.0, f, 0.0]])
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        for v in pixel {
            *v = apply_rule(cx.rule, min(*v * cx.params[0], 255.0));
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let factor = e.param(0);
            let white = e.splat(255.0);
            let v = e.mul(v, factor);
            let v = e.min(v, white);
            e.apply_rule(v)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;

    #[test]
    fn as_torchvision_brightens() {
        let op = RandomBrightness::new(0.4).unwrap().p(1.0).unwrap();
        let eval = |pixel: [f32; 3]| evaluated(&op, &Eval::new(NumberRule::Exact, &[1.3]), pixel);
        assert_eq!(eval([10.0, 200.0, 77.0]), [13.0, 255.0, 100.0]);
        assert_eq!(eval([250.0, 3.0, 129.0]), [255.0, 3.0, 167.0]);
    }
}
