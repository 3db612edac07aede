//! YOLO's colour jitter: hue turned, saturation and value multiplied by random numbers.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::hsv;
use crate::op::{Op, class, on_colors};
use crate::{Size, TypeError};

/// Turns the hue, and multiplies saturation and value, of every image: YOLO's colour jitter.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomHSV.md"))]
///
/// ```text
/// h' = h + hgain * x1 mod 1      s' = clamp(s * (1 + sgain * x2))      v' = clamp(v * (1 + vgain * x3))
/// out = rgb of (h', s', v')      with x1, x2, x3 uniform in -1..1
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------|
/// | input  | image of levels with 3 channels, or 1                         |
/// | output | as the input                                                  |
/// | random | the numbers of hue, saturation and value                      |
/// | cost   | about sixty operations per pixel, two of them divisions       |
///
/// The `RandomHSV` of ultralytics and `augment_hsv` of YOLOv5, which round images to OpenCV's 180 hues and 256
/// saturations before and after; here nothing is rounded between the spaces.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomHSV::new().hgain(0.05)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    COLOR,
    "turns the hue and scales saturation and value, as YOLO does",
    new = "Builds the op with YOLO's defaults: 0.015, 0.7 and 0.4."
)]
pub struct RandomHSV {
    /// Sets the largest turn of the hue, as a share of a full turn.
    #[param("largest turn of the hue, as a share of a full turn", 0.0..=1.0, default = 0.015)]
    hgain: f32,
    /// Sets the largest change of the saturation, as a share of it.
    #[param("largest change of the saturation, as a share of it", 0.0..=1.0, default = 0.7)]
    sgain: f32,
    /// Sets the largest change of the value, as a share of it.
    #[param("largest change of the value, as a share of it", 0.0..=1.0, default = 0.4)]
    vgain: f32,
}

#[class(Pixel)]
impl Op for RandomHSV {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
    }
}

impl PixelOp for RandomHSV {
    fn param_count(&self) -> usize {
        hsv::PARAMS
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["hue", "saturation", "-", "value", "-"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let [hue, saturation, value] =
            [self.hgain, self.sgain, self.vgain].map(|gain| rng.uniform(-1.0, 1.0) * gain);
        hsv::set(params, hue, [1.0 + saturation, 0.0], [1.0 + value, 0.0]);
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        hsv::eval(cx, pixel);
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        hsv::emit(e, pixels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;

    #[test]
    fn saturation_and_value_are_multiplied() {
        let mut params = [0.0; hsv::PARAMS];
        hsv::set(&mut params, 0.0, [0.5, 0.0], [1.2, 0.0]);
        let cx = Eval::new(NumberRule::Exact, &params);
        assert_eq!(evaluated(&RandomHSV::new(), &cx, [200.0, 100.0, 100.0]), [240.0, 180.0, 180.0]);
    }
}
