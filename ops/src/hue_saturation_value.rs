//! Hue, saturation and value shifted by random numbers.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::hsv;
use crate::number_or_range::around_zero;
use crate::op::{Op, class, on_colors};
use crate::{NumberOrRange, Size, TypeError};

/// Shifts hue, saturation and value of a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/HueSaturationValue.md"))]
///
/// ```text
/// h' = h + hue / 180 mod 1      s' = clamp(s + saturation) if s > 0, else 0      v' = clamp(v + value)
/// out = rgb of (h', s', v')     with h in 0..1, s and v in 0..=255
/// ```
///
/// | | |
/// |--------|-------------------------------------------------------------------------------|
/// | input  | image of levels with 3 channels, or 1                                         |
/// | output | as the input                                                                  |
/// | random | a coin `p`, then the shifts of hue, saturation and value, uniform             |
/// | cost   | about sixty operations per pixel, two of them divisions                       |
///
/// Albumentations' `HueSaturationValue`. Its images of u8 are rounded to OpenCV's 180 hues and 256 saturations before
/// and after the shifts, so that its colours differ by up to 12 levels; the same formula in OpenCV's floats differs by at
/// most 1. An image of one channel has a value alone, which is shifted, as there.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![HueSaturationValue::new().hue_shift_limit(10.0)?.val_shift_limit(-20.0..=5.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    COLOR,
    "shifts hue, saturation and value of a share p of the images",
    new = "Builds the op with Albumentations' defaults: at most 20 of 180 hues, 30 of 255 saturations and 20 levels, for half of the images."
)]
pub struct HueSaturationValue {
    /// Sets the range of the hue's shift in units of 2 degrees: 180 is a full turn. A number n is `-n..=n`.
    #[param("range of the hue's shift, of which 180 are a full turn; a number n is -n..n", given = NumberOrRange,
        check = around_zero, default = -20.0..=20.0, draw = recipe::range(rng, -200.0, 100.0, 200.0),
        errors = "If the range is empty or not finite")]
    hue_shift_limit: (f32, f32),
    /// Sets the range of the saturation's shift, which is of 0 to 255. A number n is `-n..=n`.
    #[param("range of the saturation's shift, of 255; a number n is -n..n", given = NumberOrRange,
        check = around_zero, default = -30.0..=30.0, draw = recipe::range(rng, -150.0, 100.0, 100.0),
        errors = "If the range is empty or not finite")]
    sat_shift_limit: (f32, f32),
    /// Sets the range of the value's shift in levels. A number n is `-n..=n`.
    #[param("range of the value's shift in levels; a number n is -n..n", given = NumberOrRange,
        check = around_zero, default = -20.0..=20.0, draw = recipe::range(rng, -150.0, 100.0, 100.0),
        errors = "If the range is empty or not finite")]
    val_shift_limit: (f32, f32),
    #[param(share)]
    p: f64,
}

#[class(Pixel)]
impl Op for HueSaturationValue {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl PixelOp for HueSaturationValue {
    fn param_count(&self) -> usize {
        hsv::PARAMS
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["hue", "-", "saturation", "-", "value"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        let limits = [self.hue_shift_limit, self.sat_shift_limit, self.val_shift_limit];
        let [hue, saturation, value] = limits.map(|(low, high)| rng.uniform(low, high));
        hsv::set(params, hue / 180.0, [1.0, saturation], [1.0, value]);
        runs
    }

    fn may_skip(&self) -> bool {
        self.p < 1.0
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

    fn shifted<const C: usize>(hue: f32, saturation: f32, value: f32, pixel: [f32; C]) -> [f32; C] {
        let mut params = [0.0; hsv::PARAMS];
        hsv::set(&mut params, hue / 180.0, [1.0, saturation], [1.0, value]);
        let cx = Eval::new(NumberRule::Exact, &params);
        evaluated(&HueSaturationValue::new(), &cx, pixel)
    }

    #[test]
    fn shifts_are_of_hue_saturation_and_value() {
        assert_eq!(shifted(60.0, 0.0, 0.0, [200.0, 50.0, 50.0]), [50.0, 200.0, 50.0]);
        assert_eq!(shifted(0.0, -255.0, 0.0, [200.0, 50.0, 90.0]), [200.0; 3]);
        assert_eq!(shifted(0.0, 0.0, 40.0, [200.0, 100.0, 100.0]), [240.0, 120.0, 120.0]);
    }

    #[test]
    fn gray_and_black_get_no_colour() {
        assert_eq!(shifted(30.0, 90.0, 10.0, [70.0; 3]), [80.0; 3]);
        assert_eq!(shifted(30.0, 90.0, 10.0, [0.0; 3]), [10.0; 3]);
        assert_eq!(shifted(30.0, 90.0, 10.0, [70.0]), [80.0]);
    }

    #[test]
    fn no_shift_changes_nothing() {
        for r in (0..256).step_by(5) {
            for (g, b) in (0..256).step_by(7).zip((0..256).rev().step_by(7)) {
                let pixel = [r, g, b].map(|v| v as f32);
                assert_eq!(shifted(0.0, 0.0, 0.0, pixel), pixel);
            }
        }
    }
}
