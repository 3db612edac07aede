//! RGB shift: a random number added to each channel.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::emit::{apply_rule, clamp};
use crate::number_or_range::around_zero;
use crate::op::{Op, class, on_rgb};
use crate::{NumberOrRange, Size, TypeError};

/// Adds a random number to each channel of a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RGBShift.md"))]
///
/// ```text
/// out[c] = clamp(in[c] + shift[c])
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------|
/// | input  | RGB image of levels                                           |
/// | output | as the input                                                  |
/// | random | a coin `p`, then the shifts of red, green and blue, uniform   |
/// | cost   | three operations per value                                    |
///
/// Albumentations' `RGBShift`. Under the Exact rule the shift is truncated, as there for images of u8. There, limits in
/// -1..=1 are shares of 255; here all limits are levels.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RGBShift::new().r_shift_limit(30.0)?.b_shift_limit(-10.0..=0.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    COLOR,
    "adds a random number to each channel of a share p of the images",
    new = "Builds the op with Albumentations' defaults: at most 20 levels, for half of the images."
)]
pub struct RGBShift {
    /// Sets the range of the shift of red in levels. A number n is `-n..=n`.
    #[param("range of the shift of red in levels; a number n is -n..n", given = NumberOrRange, check = around_zero,
        default = -20.0..=20.0, draw = recipe::range(rng, -150.0, 100.0, 100.0),
        errors = "If the range is empty or not finite")]
    r_shift_limit: (f32, f32),
    /// Sets the range of the shift of green in levels. A number n is `-n..=n`.
    #[param("range of the shift of green in levels; a number n is -n..n", given = NumberOrRange, check = around_zero,
        default = -20.0..=20.0, draw = recipe::range(rng, -150.0, 100.0, 100.0),
        errors = "If the range is empty or not finite")]
    g_shift_limit: (f32, f32),
    /// Sets the range of the shift of blue in levels. A number n is `-n..=n`.
    #[param("range of the shift of blue in levels; a number n is -n..n", given = NumberOrRange, check = around_zero,
        default = -20.0..=20.0, draw = recipe::range(rng, -150.0, 100.0, 100.0),
        errors = "If the range is empty or not finite")]
    b_shift_limit: (f32, f32),
    #[param(share)]
    p: f64,
}

#[class(Pixel)]
impl Op for RGBShift {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_rgb(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl PixelOp for RGBShift {
    fn param_count(&self) -> usize {
        3
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["red", "green", "blue"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        let limits = [self.r_shift_limit, self.g_shift_limit, self.b_shift_limit];
        for (param, (low, high)) in params.iter_mut().zip(limits) {
            let shift = rng.uniform(low, high);
            *param = if runs { shift } else { 0.0 };
        }
        true
    }

    fn is_per_channel(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        for (v, shift) in pixel.iter_mut().zip(cx.params) {
            *v = clamp(*v + apply_rule(cx.rule, *shift));
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, c, v| {
            let shift = e.param(c);
            let shift = e.apply_rule(shift);
            let v = e.add(v, shift);
            e.clamp(v)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;

    #[test]
    fn each_channel_is_shifted_and_clamped() {
        let params = [10.7, -20.7, 90.0];
        let shifted =
            |rule| evaluated(&RGBShift::new(), &Eval::new(rule, &params), [1.0, 9.0, 200.0]);
        assert_eq!(shifted(NumberRule::Exact), [11.0, 0.0, 255.0]);
        assert_eq!(shifted(NumberRule::Fused), [11.7, 0.0, 255.0]);
    }
}
