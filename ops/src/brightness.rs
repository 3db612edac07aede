//! Brightness: every value multiplied by one factor.

use crate::author::{Emit, Eval, Op, OpClass, PixelOp, Pixels, Rng, Type};
use crate::emit::{apply_rule, min};
use crate::factor::{self, Factor};
use crate::op::on_levels;
use crate::registry::{COLOR, Golden, OpInfo, Recipe, Recipes, built, recipe};
use crate::{NumberOrRange, ParamError, Size, TypeError};

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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomBrightness {
    factor: Factor,
}

impl RandomBrightness {
    /// A factor in `max(0, 1 - magnitude)..1 + magnitude`, or in a range, for half of the images.
    ///
    /// # Errors
    ///
    /// If `magnitude` is negative or not finite, or a range is not `0 <= low <= high < infinity`.
    pub fn new(magnitude: impl Into<NumberOrRange>) -> Result<Self, ParamError> {
        Ok(Self {
            factor: Factor::new("RandomBrightness", "magnitude", magnitude.into())?
                .p("RandomBrightness", 0.5)?,
        })
    }

    /// Sets the share of the images that the op changes. Default 0.5.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn p(self, p: f64) -> Result<Self, ParamError> {
        Ok(Self { factor: self.factor.p("RandomBrightness", p)? })
    }

    /// Builds the op from a checked factor, as [`ColorJitter`](crate::ColorJitter) uses it.
    pub(crate) const fn from_factor(factor: Factor) -> Self {
        Self { factor }
    }
}

impl Op for RandomBrightness {
    fn name(&self) -> &'static str {
        "RandomBrightness"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.factor.is_one()
    }
}

impl PixelOp for RandomBrightness {
    fn param_count(&self) -> usize {
        1
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params[0] = self.factor.draw(rng);
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

impl RandomBrightness {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomBrightness",
        class: COLOR,
        summary: "makes a share p of the images brighter or darker",
        params: factor::MAGNITUDE_AND_P,
        aliases: &[],
        build: |args| {
            factor::by_magnitude(args, RandomBrightness::new, RandomBrightness::p).map(built)
        },
        recipes: Recipes::Drawn(&[
            Recipe {
                name: "RandomBrightness",
                draw: |rng, _| {
                    Ok(built(
                        RandomBrightness::new(recipe::number(rng, 0.0, 1.5))?
                            .p(recipe::share(rng))?,
                    ))
                },
            },
            Recipe {
                name: "RandomBrightness(range)",
                draw: |rng, _| {
                    let low = recipe::number(rng, 0.0, 2.0);
                    let high = low + recipe::number(rng, 0.0, 1.0);
                    Ok(built(RandomBrightness::new(low..=high)?.p(recipe::share(rng))?))
                },
            },
        ]),
        golden: Golden::Tested,
    };
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
