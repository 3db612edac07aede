//! Solarize: inverts the values at or above a threshold.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::op::{Op, class, on_levels};
use crate::{Size, TypeError};

/// Inverts the values at or above a threshold, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomSolarize.md"))]
///
/// ```text
/// out = 255 - in    where in >= threshold
/// out = in          elsewhere
/// ```
///
/// | | |
/// |--------|------------------------------------|
/// | input  | image of levels                           |
/// | output | as the input                       |
/// | random | a coin `p`                         |
/// | cost   | three operations a value           |
///
/// torchvision's `RandomSolarize`: the threshold is rounded to `f32` and may have a fraction.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomSolarize::new(128.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "inverts what is bright, in a share p of the images")]
pub struct RandomSolarize {
    /// Inverts values at or above `threshold`, in half of the images. No value is above 255, so 256
    /// changes nothing, as in Pillow; torchvision's largest threshold is 255.
    #[param("values from it on are inverted", 0.0..=256.0, example = 128)]
    threshold: f32,
    #[param(share)]
    p: f64,
}

impl RandomSolarize {
    /// The op as an action of a policy: for all images.
    pub(crate) const fn always(threshold: f32) -> Self {
        Self { threshold, p: 1.0 }
    }
}

#[class(Pixel)]
impl Op for RandomSolarize {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.threshold > 255.0
    }
}

/// Parameters: the threshold; if the coin is tails, a threshold that no value reaches.
impl PixelOp for RandomSolarize {
    fn param_count(&self) -> usize {
        1
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params[0] = if rng.coin(self.p) { self.threshold } else { f32::INFINITY };
        true
    }

    fn is_per_channel(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        for v in pixel {
            *v = if *v < cx.params[0] { *v } else { 255.0 - *v };
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let (threshold, white) = (e.param(0), e.splat(255.0));
            let is_below = e.less(v, threshold);
            let inverted = e.sub(white, v);
            e.select(is_below, v, inverted)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    fn solarized(threshold: f64, p: f64, pixel: [f32; 3]) -> [f32; 3] {
        let op = RandomSolarize::new(threshold).unwrap().p(p).unwrap();
        let mut params = [0.0];
        op.draw(&mut SampleKey::new(0, 0, 0).op(0), Size::new(1, 1), &mut params);
        evaluated(&op, &Eval::new(NumberRule::Exact, &params), pixel)
    }

    #[test]
    fn as_torchvision_solarizes() {
        assert_eq!(solarized(128.0, 1.0, [250.0, 129.0, 77.0]), [5.0, 126.0, 77.0]);
        assert_eq!(solarized(128.0, 1.0, [128.0, 127.0, 0.0]), [127.0, 127.0, 0.0]);
        assert_eq!(solarized(77.25, 1.0, [77.0, 78.0, 255.0]), [77.0, 177.0, 0.0]);
        assert_eq!(solarized(0.0, 0.0, [77.0, 78.0, 255.0]), [77.0, 78.0, 255.0]);
    }
}
