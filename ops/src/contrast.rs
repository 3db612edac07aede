//! Contrast: every value moved away from the image's mean grey, or towards it.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Statistic, Type};
use crate::emit::clamp;
use crate::factor::{Factor, one_minus};
use crate::op::{Op, class, on_colors};
use crate::{NumberOrRange, NumberRule, Size, TypeError};

/// Moves every value away from the image's mean grey, or towards it, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomContrast.md"))]
///
/// ```text
/// out  = clamp(in * factor + mean * (1 - factor))
/// mean = the mean over the image of trunc(0.2989 R + 0.587 G + 0.114 B)
/// ```
///
/// | | |
/// |--------|--------------|
/// | input  | image of levels     |
/// | output | as the input |
/// | random | a coin `p`, then `factor` uniform in `max(0, 1 - magnitude)..1 + magnitude`, or in a given range |
/// | cost   | one more pass over the image for the mean, unless the coin was tails; then a multiplication, an fma and two comparisons per value |
///
/// The formula is torchvision's `adjust_contrast` on tensors. The Exact rule computes
/// `fma(mean, 1 - factor, in * factor)` in `f32`, to the bit; the Fused rule computes
/// `fma(in, factor, mean * (1 - factor))`, whose product is shared by the channels. The draws are
/// FFCV's `RandomContrast`.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomContrast::new(0.4)?.p(0.8)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "changes the contrast of a share p of the images")]
pub struct RandomContrast {
    /// A factor in `max(0, 1 - magnitude)..1 + magnitude`, or in a range, for half of the images.
    #[param("the factor is in max(0, 1 - magnitude)..1 + magnitude, or in low..high", example = 0.4,
        given = NumberOrRange, check = Factor::new, draw = 0.0..=1.5,
        errors = "If `magnitude` is negative or not finite, or a range is not `0 <= low <= high < infinity`")]
    magnitude: Factor,
    #[param(share)]
    p: f64,
}

impl RandomContrast {
    /// Builds the op as a step of another, from a factor and a share that were checked before.
    pub(crate) const fn of(magnitude: Factor, p: f64) -> Self {
        Self { magnitude, p }
    }
}

#[class(Pixel)]
impl Op for RandomContrast {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.magnitude.is_one()
    }
}

/// Drawn parameters: the factor, one minus the factor, the mean.
impl PixelOp for RandomContrast {
    fn param_count(&self) -> usize {
        3
    }

    fn param_names(&self) -> &'static [&'static str] {
        &[""] // the factor; the numbers derived from it are not shown
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params[0] = self.magnitude.draw(rng, self.p);
        params[1] = one_minus(params[0]);
        true
    }

    fn statistic(&self) -> Option<Statistic> {
        Some(Statistic::GreyMean)
    }

    fn is_identity(&self, params: &[f32]) -> bool {
        params[0] == 1.0
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let [factor, rest, mean] = [cx.params[0], cx.params[1], cx.params[2]];
        match cx.rule {
            NumberRule::Exact => {
                for v in pixel {
                    *v = clamp(mean.mul_add(rest, *v * factor)).trunc();
                }
            }
            NumberRule::Fused | NumberRule::Relaxed => {
                for v in pixel {
                    *v = clamp(v.mul_add(factor, mean * rest));
                }
            }
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let (rest, mean) = (e.param(1), e.param(2));
        e.blend(pixels, mean, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::grey_mean;
    use crate::op::evaluated;

    #[test]
    fn as_torchvision_changes_contrast() {
        let op = RandomContrast::new(0.5).unwrap().p(1.0).unwrap();
        let picture = [[10.0, 200.0, 77.0], [250.0, 3.0, 129.0]];
        let params = [0.5, 0.5, grey_mean(picture.iter().map(|pixel| &pixel[..]))];
        let out =
            picture.map(|pixel| evaluated(&op, &Eval::new(NumberRule::Exact, &params), pixel));
        assert_eq!(out, [[60.0, 155.0, 93.0], [180.0, 56.0, 119.0]]);
    }
}
