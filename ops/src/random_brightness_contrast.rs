//! Brightness and contrast: every value times a number plus another one.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::emit::{apply_rule, clamp};
use crate::number_or_range::around_zero;
use crate::op::{Op, class, on_levels};
use crate::{NumberOrRange, Size, TypeError};

/// Multiplies every value by a random number and adds another one, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomBrightnessContrast.md"))]
///
/// ```text
/// out = clamp(in * (1 + contrast) + 255 * brightness)
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------------|
/// | input  | image of levels                                                 |
/// | output | as the input                                                    |
/// | random | a coin `p`, then the contrast and the brightness, uniform       |
/// | cost   | four operations per value                                       |
///
/// Albumentations' `RandomBrightnessContrast` with `brightness_by_max`, to the bit under the Exact rule.
/// [`ColorJitter`](crate::ColorJitter) has torchvision's brightness, a factor, and its contrast, which keeps the mean.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomBrightnessContrast::new().brightness_limit(0.3)?.contrast_limit(-0.1..=0.4)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    COLOR,
    "multiplies values by a random number and adds another one, in a share p of the images",
    new = "Builds the op with Albumentations' defaults: both in -0.2..=0.2, for half of the images."
)]
pub struct RandomBrightnessContrast {
    /// Sets the range of what is added, as a share of 255. A number n is `-n..=n`.
    #[param("range of what is added, as a share of 255; a number n is -n..n", given = NumberOrRange, check = around_zero,
        default = -0.2..=0.2, draw = recipe::range(rng, -0.6, 0.5, 0.5),
        errors = "If the range is empty or not finite")]
    brightness_limit: (f32, f32),
    /// Sets the range of the factor, minus 1. A number n is `-n..=n`.
    #[param("range of the factor, minus 1; a number n is -n..n", given = NumberOrRange, check = around_zero,
        default = -0.2..=0.2, draw = recipe::range(rng, -1.5, 1.0, 1.5),
        errors = "If the range is empty or not finite")]
    contrast_limit: (f32, f32),
    #[param(share)]
    p: f64,
}

#[class(Pixel)]
impl Op for RandomBrightnessContrast {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || (self.brightness_limit, self.contrast_limit) == ((0.0, 0.0), (0.0, 0.0))
    }
}

impl PixelOp for RandomBrightnessContrast {
    fn param_count(&self) -> usize {
        2
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["factor", "plus"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        let contrast = rng.uniform(self.contrast_limit.0, self.contrast_limit.1);
        let brightness = rng.uniform(self.brightness_limit.0, self.brightness_limit.1);
        let drawn = if runs { [1.0 + contrast, 255.0 * brightness] } else { [1.0, 0.0] };
        params.copy_from_slice(&drawn);
        true
    }

    fn is_per_channel(&self) -> bool {
        true
    }

    fn matrix(&self, params: &[f32]) -> Option<[[f32; 4]; 3]> {
        let [f, add] = [params[0], params[1]];
        Some([[f, 0.0, 0.0, add], [0.0, f, 0.0, add], [0.0, 0.0, f, add]])
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        for v in pixel {
            *v = apply_rule(cx.rule, clamp(*v * cx.params[0] + cx.params[1]));
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let (factor, add) = (e.param(0), e.param(1));
            let v = e.mul(v, factor);
            let v = e.add(v, add);
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

    #[test]
    fn values_are_multiplied_then_added_to_and_clamped() {
        let op = RandomBrightnessContrast::new();
        let eval = |rule| evaluated(&op, &Eval::new(rule, &[1.5, -25.5]), [10.0, 101.0, 250.0]);
        assert_eq!(eval(NumberRule::Exact), [0.0, 126.0, 255.0]);
        assert_eq!(eval(NumberRule::Fused), [0.0, 126.0, 255.0]);
        let half = Eval::new(NumberRule::Exact, &[1.25, 0.0]);
        assert_eq!(evaluated(&op, &half, [1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn both_numbers_are_drawn_and_tails_change_nothing() {
        let op = RandomBrightnessContrast::new().contrast_limit(0.1..=0.3).unwrap();
        let mut heads = 0;
        for sample in 0..400 {
            let mut params = [9.0; 2];
            op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(1, 1), &mut params);
            if params != [1.0, 0.0] {
                heads += 1;
                assert!((1.1..=1.3).contains(&params[0]) && params[1].abs() <= 51.0, "{params:?}");
            }
        }
        assert!((160..240).contains(&heads), "{heads}");
    }
}
