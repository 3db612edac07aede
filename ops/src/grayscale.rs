//! Grayscale: all three channels become the grey of the pixel.

use crate::author::{Emit, Eval, Op, OpClass, PixelOp, Pixels, Rng, Type};
use crate::emit::{GREY, apply_rule, grey};
use crate::error::probability;
use crate::op::{is_gray, on_colors};
use crate::registry::{
    COLOR, Golden, OpInfo, ParamKind, ParamValue, Recipe, Recipes, built, recipe, with_default,
};
use crate::{ParamError, Size, TypeError};

/// Converts every image to grey.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Grayscale.md"))]
///
/// ```text
/// out = grey = 0.2989 R + 0.587 G + 0.114 B      truncated where the rule is Exact
/// ```
///
/// | | |
/// |--------|--------------------------------------------|
/// | input  | image of levels                                   |
/// | output | as the input: channels of one value; an image of one channel stays as it is |
/// | random | nothing                                    |
/// | cost   | three operations per pixel                 |
///
/// The formula is torchvision's `rgb_to_grayscale` on tensors with three output channels: fmas in
/// `f32`, then truncation. The weights sum to 0.9999, so white becomes 254.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Grayscale];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grayscale;

impl Op for Grayscale {
    fn name(&self) -> &'static str {
        "Grayscale"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }

    fn does_nothing(&self, input: &Type) -> bool {
        is_gray(input)
    }
}

impl PixelOp for Grayscale {
    fn matrix(&self, _: &[f32]) -> Option<[[f32; 4]; 3]> {
        let [r, g, b] = GREY;
        Some([[r, g, b, 0.0]; 3])
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        pixel.fill(apply_rule(cx.rule, grey(pixel)));
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let grey = e.grey(pixels);
        let grey = e.apply_rule(grey);
        pixels.filled(grey)
    }
}

/// Converts a share `p` of the images to grey.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomGrayscale.md"))]
///
/// ```text
/// out = grey = 0.2989 R + 0.587 G + 0.114 B      for a sample whose coin is heads
/// out = in                                       otherwise
/// ```
///
/// | | |
/// |--------|--------------------------------------------|
/// | input  | image of levels                                   |
/// | output | as the input: channels of one value; an image of one channel stays as it is |
/// | random | a coin `p`                                 |
/// | cost   | four operations per pixel and one per value |
///
/// The grey is the one of [`Grayscale`].
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomGrayscale::new(0.1)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomGrayscale {
    p: f64,
}

impl RandomGrayscale {
    /// Builds the op for a share `p` of the images. torchvision's default is 0.1.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn new(p: f64) -> Result<Self, ParamError> {
        Ok(Self { p: probability("RandomGrayscale", p)? })
    }
}

impl Op for RandomGrayscale {
    fn name(&self) -> &'static str {
        "RandomGrayscale"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }

    fn does_nothing(&self, input: &Type) -> bool {
        self.p == 0.0 || is_gray(input)
    }
}

/// Drawn parameters: the weight of the pixel and the weight of its grey, which are 0 and 1 if the coin
/// is heads, else 1 and 0.
impl PixelOp for RandomGrayscale {
    fn param_count(&self) -> usize {
        2
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let numbers = if rng.coin(self.p) { [0.0, 1.0] } else { [1.0, 0.0] };
        params.copy_from_slice(&numbers);
        true
    }

    fn matrix(&self, params: &[f32]) -> Option<[[f32; 4]; 3]> {
        let keep = params[0];
        let [r, g, b] = GREY.map(|weight| weight * params[1]);
        Some([[r + keep, g, b, 0.0], [r, g + keep, b, 0.0], [r, g, b + keep, 0.0]])
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let grey = apply_rule(cx.rule, grey(pixel)) * cx.params[1];
        for v in pixel {
            *v = v.mul_add(cx.params[0], grey);
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let grey = e.grey(pixels);
        let grey = e.apply_rule(grey);
        let take = e.param(1);
        let grey = e.mul(grey, take);
        e.each(pixels, |e, _, v| {
            let keep = e.param(0);
            e.fma(v, keep, grey)
        })
    }
}

impl Grayscale {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "Grayscale",
        class: COLOR,
        summary: "makes every image grey, in three channels",
        params: &[],
        aliases: &[],
        build: |_| Ok(built(Grayscale)),
        recipes: Recipes::Drawn(&[Recipe { name: "Grayscale", draw: |_, _| Ok(built(Grayscale)) }]),
        golden: Golden::Tested,
    };
}

impl RandomGrayscale {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomGrayscale",
        class: COLOR,
        summary: "makes a share p of the images grey",
        params: &[with_default(
            "p",
            ParamKind::Number,
            ParamValue::Float(0.1),
            "share of the images",
        )],
        aliases: &[],
        build: |args| Ok(built(RandomGrayscale::new(args.float("p")?)?)),
        recipes: Recipes::Drawn(&[Recipe {
            name: "RandomGrayscale",
            draw: |rng, _| Ok(built(RandomGrayscale::new(recipe::share(rng))?)),
        }]),
        golden: Golden::Tested,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    #[test]
    fn as_torchvision_makes_grey() {
        let eval = |pixel| evaluated(&Grayscale, &Eval::new(NumberRule::Exact, &[]), pixel);
        assert_eq!(eval([10.0, 200.0, 77.0]), [129.0; 3]);
        assert_eq!(eval([250.0, 3.0, 129.0]), [91.0; 3]);
        assert_eq!(eval([255.0; 3]), [254.0; 3]);
    }

    #[test]
    fn heads_is_grey_and_tails_is_the_pixel() {
        let pixel = [10.25, 200.5, 77.0];
        for (p, want) in [(1.0, [grey(&pixel); 3]), (0.0, pixel)] {
            let op = RandomGrayscale::new(p).unwrap();
            let mut params = [0.0; 2];
            op.draw(&mut SampleKey::new(0, 0, 0).op(0), Size::new(1, 1), &mut params);
            assert_eq!(evaluated(&op, &Eval::new(NumberRule::Fused, &params), pixel), want);
        }
        assert!(RandomGrayscale::new(-0.1).is_err());
    }
}
