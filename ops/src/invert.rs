//! Invert: the negative of an image.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::op::{Op, class, on_levels};
use crate::{Size, TypeError};

/// Turns a share `p` of the images into their negatives.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomInvert.md"))]
///
/// ```text
/// out = 255 - in
/// ```
///
/// | | |
/// |--------|-------------------------|
/// | input  | image of levels                |
/// | output | as the input            |
/// | random | a coin `p`              |
/// | cost   | one operation per value |
///
/// The op is torchvision's `RandomInvert`.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomInvert::new(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "inverts a share p of the images")]
pub struct RandomInvert {
    /// Builds the op for a share `p` of the images. torchvision's default is 0.5.
    #[param(share, new)]
    p: f64,
}

impl RandomInvert {
    /// Builds the op for all images, as a policy uses it.
    pub(crate) const fn always() -> Self {
        Self { p: 1.0 }
    }
}

#[class(Pixel)]
impl Op for RandomInvert {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

/// Drawn parameters: a factor and a summand, which are -1 and 255 if the coin is heads, else 1 and 0.
impl PixelOp for RandomInvert {
    fn param_count(&self) -> usize {
        2
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["-", "-"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let numbers = if rng.coin(self.p) { [-1.0, 255.0] } else { [1.0, 0.0] };
        params.copy_from_slice(&numbers);
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
            *v = v.mul_add(cx.params[0], cx.params[1]);
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let (factor, add) = (e.param(0), e.param(1));
            e.fma(v, factor, add)
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
    fn heads_inverts_and_tails_does_not() {
        for (p, want) in [(1.0, [245.0, 0.0, 177.75]), (0.0, [10.0, 255.0, 77.25])] {
            let op = RandomInvert::new(p).unwrap();
            let mut params = [0.0; 2];
            op.draw(&mut SampleKey::new(0, 0, 0).op(0), Size::new(1, 1), &mut params);
            let cx = Eval::new(NumberRule::Fused, &params);
            assert_eq!(evaluated(&op, &cx, [10.0, 255.0, 77.25]), want);
        }
        assert!(RandomInvert::new(f64::NAN).is_err());
    }
}
