//! Grayscale: the grey of the pixel, in one channel or in three.

use crate::author::{Emit, Eval, OpClass, PixelOp, Pixels, Rng, Type};
use crate::emit::{GREY, apply_rule, grey};
use crate::op::{Op, class, is_gray, on_colors};
use crate::registry::{Recipe, built};
use crate::{ParamError, Size, TypeError};
use std::sync::Arc;

/// Converts every image to grey.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Grayscale.md"))]
///
/// ```text
/// out = grey = 0.2989 R + 0.587 G + 0.114 B      truncated where the rule is Exact
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------------------|
/// | input  | image of levels, of 3 channels or of 1                                           |
/// | output | as the input, with 1 channel or 3 equal ones; the values of one channel are kept |
/// | random | nothing                                                                          |
/// | cost   | three operations per pixel                                                       |
///
/// torchvision's `Grayscale`, with its default: the output has one channel, `[H, W, 1]`.
/// [`num_output_channels(3)`](Self::num_output_channels) makes three equal ones, for networks that take RGB.
/// [`Squeeze`](crate::Squeeze) drops the axis of the one channel. An image of one channel stays as it is, or is
/// repeated three times.
///
/// The formula is torchvision's `rgb_to_grayscale` on tensors: fmas in `f32`, then truncation. The weights sum to
/// 0.9999, so white becomes 254.
///
/// Every image of a list has the same number of channels, so that containers such as
/// [`RandomApply`](crate::RandomApply) take the op only with `num_output_channels(3)`; [`RandomGrayscale`] keeps
/// three channels.
///
/// ```
/// # use fuseloop_ops::*;
/// let gray = ops![Grayscale::new(), ToChannelsFirst];
/// let three = ops![Grayscale::new().num_output_channels(3)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(COLOR, "makes every image grey, in one channel or in three", new = "Builds the op with torchvision's default: one channel.", recipes = RECIPES)]
pub struct Grayscale {
    /// Sets the number of channels of the output: 1 or 3.
    #[param("channels of the output: 1 or 3", default = 1, check = one_or_three, errors = "If the number is another one")]
    num_output_channels: u16,
}

/// Checks the number of channels of the output.
fn one_or_three(op: &'static str, param: &'static str, channels: u16) -> Result<u16, ParamError> {
    match channels {
        1 | 3 => Ok(channels),
        _ => Err(ParamError::new(op, param, channels, "1 or 3")),
    }
}

const RECIPES: [Recipe; 2] = [
    Recipe { name: "Grayscale", draw: |_, _| Ok(built(Grayscale::new())) },
    Recipe {
        name: "Grayscale(three)",
        draw: |_, _| Ok(built(Grayscale::new().num_output_channels(3)?)),
    },
];

#[class(Pixel)]
impl Op for Grayscale {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match on_colors(self.name(), input)? {
            Type::Image(image) => Ok(Type::Image(image.with_channels(self.num_output_channels))),
            other => Ok(other),
        }
    }

    fn does_nothing(&self, input: &Type) -> bool {
        is_gray(input) && self.num_output_channels == 1
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        is_gray(input).then(|| Arc::new(Repeated(*self)) as _)
    }
}

impl PixelOp for Grayscale {
    fn matrix(&self, _: &[f32]) -> Option<[[f32; 4]; 3]> {
        let [r, g, b] = GREY;
        (self.num_output_channels == 3).then_some([[r, g, b, 0.0]; 3])
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        pixel.fill(apply_rule(cx.rule, grey(pixel)));
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let grey = e.grey(pixels);
        let grey = e.apply_rule(grey);
        if self.num_output_channels == 1 { Pixels::from([grey]) } else { pixels.filled(grey) }
    }
}

/// A [`Grayscale`] of images of one channel, which it repeats.
#[derive(Clone, Copy, Debug)]
struct Repeated(Grayscale);

impl Op for Repeated {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.0.output(input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }

    fn does_nothing(&self, input: &Type) -> bool {
        self.0.does_nothing(input)
    }
}

impl PixelOp for Repeated {
    fn eval(&self, _: &Eval<'_>, pixel: &mut [f32]) {
        pixel.fill(pixel[0]);
    }

    fn emit(&self, _: &mut Emit, pixels: Pixels) -> Pixels {
        pixels.selected(&[0; 3][..usize::from(self.0.num_output_channels)])
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
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "makes a share p of the images grey")]
pub struct RandomGrayscale {
    /// Builds the op for a share `p` of the images. torchvision's default is 0.1.
    #[param(share, new, default = 0.1)]
    p: f64,
}

#[class(Pixel)]
impl Op for RandomGrayscale {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
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

    fn param_names(&self) -> &'static [&'static str] {
        &["-", "-"]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::{ImageType, evaluated};
    use crate::rng::SampleKey;

    #[test]
    fn as_torchvision_makes_grey() {
        let eval = |pixel| evaluated(&Grayscale::new(), &Eval::new(NumberRule::Exact, &[]), pixel);
        assert_eq!(eval([10.0, 200.0, 77.0]), [129.0; 3]);
        assert_eq!(eval([250.0, 3.0, 129.0]), [91.0; 3]);
        assert_eq!(eval([255.0; 3]), [254.0; 3]);
    }

    #[test]
    fn the_output_has_one_channel_or_three() {
        let image = ImageType::from(Size::new(2, 3));
        let three = Grayscale::new().num_output_channels(3).unwrap();
        for channels in [1, 3] {
            let input = Type::Image(image.with_channels(channels));
            let output = |op: Grayscale| op.output(&input).unwrap();
            assert_eq!(output(Grayscale::new()), Type::Image(image.with_channels(1)));
            assert_eq!(output(three), Type::Image(image));
            assert_eq!(Grayscale::new().does_nothing(&input), channels == 1);
            assert!(!three.does_nothing(&input));
        }
        assert!(three.output(&Type::Image(image.with_channels(4))).is_err());
        let error = three.num_output_channels(2).unwrap_err().to_string();
        assert_eq!(error, "Grayscale: num_output_channels is 2, expected 1 or 3");
    }

    #[test]
    fn one_channel_is_repeated() {
        let three = Grayscale::new().num_output_channels(3).unwrap();
        let gray = Type::Image(ImageType::from(Size::new(2, 3)).with_channels(1));
        let op = three.for_input(&gray).unwrap();
        let OpClass::Pixel(op) = op.class() else { panic!("a pixel op") };
        let found = evaluated(op, &Eval::new(NumberRule::Exact, &[]), [77.5, 0.0, 0.0]);
        assert_eq!(found, [77.5; 3], "levels of floats keep their fractions");
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
