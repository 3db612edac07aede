//! Posterize: keeps only the highest bits of each value.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::op::{Op, class, on_levels};
use crate::{Size, TypeError};

/// Keeps only the highest bits of each value, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomPosterize.md"))]
///
/// ```text
/// out = floor(in / step) * step,     step = 2^(8 - bits)
/// ```
///
/// | | |
/// |--------|------------------------------------|
/// | input  | image of levels                           |
/// | output | as the input                       |
/// | random | a coin `p`                         |
/// | cost   | three operations a value           |
///
/// torchvision's `RandomPosterize`: for whole values the formula is `in & mask`. With 8 bits
/// nothing changes, even if values have fractions; with 0 bits the image is black.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomPosterize::new(4)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "keeps the highest bits of each value, in a share p of the images")]
pub struct RandomPosterize {
    /// Keeps `bits` bits, in half of the images.
    #[param("how many are kept", 0..=8, example = 4)]
    bits: u32,
    #[param(share)]
    p: f64,
}

impl RandomPosterize {
    /// The op as an action of a policy: for all images, with `bits` at most 8.
    pub(crate) const fn always(bits: u32) -> Self {
        Self { bits, p: 1.0 }
    }
}

#[class(Pixel)]
impl Op for RandomPosterize {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.bits == 8
    }
}

/// A step so small that rounding down to a multiple of it changes nothing.
const NO_STEP: f32 = f32::from_bits((127 - 100) << 23);

/// Parameters: the reciprocal of the step, the step.
impl PixelOp for RandomPosterize {
    fn param_count(&self) -> usize {
        2
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["-", "step"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p) && self.bits < 8;
        let step = if runs { (256 >> self.bits) as f32 } else { NO_STEP };
        params.copy_from_slice(&[1.0 / step, step]);
        true
    }

    fn is_per_channel(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        for v in pixel {
            *v = (*v * cx.params[0]).floor() * cx.params[1];
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let (per_step, step) = (e.param(0), e.param(1));
            let steps = e.mul(v, per_step);
            let steps = e.floor(steps);
            e.mul(steps, step)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    fn posterized(bits: u32, p: f64, pixel: [f32; 3]) -> [f32; 3] {
        let op = RandomPosterize::new(bits).unwrap().p(p).unwrap();
        let mut params = [0.0; 2];
        op.draw(&mut SampleKey::new(0, 0, 0).op(0), Size::new(1, 1), &mut params);
        evaluated(&op, &Eval::new(NumberRule::Fused, &params), pixel)
    }

    #[test]
    fn as_torchvision_masks_bits() {
        assert_eq!(posterized(3, 1.0, [250.0, 129.0, 31.0]), [224.0, 128.0, 0.0]);
        for bits in 0..=8 {
            let mask = 0xFF00u32 >> bits & 0xFF;
            for v in 0..256u32 {
                assert_eq!(posterized(bits, 1.0, [v as f32; 3])[0], (v & mask) as f32);
            }
        }
    }

    #[test]
    fn tails_and_eight_bits_keep_fractions() {
        let pixel = [0.3, 254.999, 1e-9];
        assert_eq!(posterized(3, 0.0, pixel), pixel);
        assert_eq!(posterized(8, 1.0, pixel), pixel);
    }
}
