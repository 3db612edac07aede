//! Hue, saturation and value: the arithmetic that [`HueSaturationValue`](crate::HueSaturationValue) and
//! [`RandomHSV`](crate::RandomHSV) share.
//!
//! ```text
//! v  = max(r, g, b)         s  = 255 (v - min(r, g, b)) / v
//! h' = h + turn mod 1       s' = clamp(s * s_factor + s_shift) if s > 0, else 0      v' = clamp(v * v_factor + v_shift)
//! out = rgb of (h', s', v')
//! ```
//!
//! All is computed in f32 on unrounded numbers, where OpenCV rounds h to one of 180 numbers and s to one of 256. The
//! result is rounded to nearest under the Exact rule. An image of one channel has a value alone.

use crate::author::{Emit, Eval, F32x4, Pixels};
use crate::emit::{apply_nearest, clamp, max};
use crate::hue::{emit_turned, turned};

/// The drawn parameters: the turn of the hue, and the factor and the shift of saturation and of value.
pub(crate) const PARAMS: usize = 5;
const TURN: usize = 0;
const SATURATION: [usize; 2] = [1, 2];
const VALUE: [usize; 2] = [3, 4];

/// Stores the drawn parameters.
pub(crate) fn set(params: &mut [f32], turn: f32, saturation: [f32; 2], value: [f32; 2]) {
    params[TURN] = turn;
    params[SATURATION[0]..=SATURATION[1]].copy_from_slice(&saturation);
    params[VALUE[0]..=VALUE[1]].copy_from_slice(&value);
}

pub(crate) fn eval(cx: &Eval<'_>, pixel: &mut [f32]) {
    let changed =
        |v: f32, [factor, shift]: [usize; 2]| clamp(v.mul_add(cx.params[factor], cx.params[shift]));
    let Ok(rgb) = <&mut [f32; 3]>::try_from(&mut *pixel) else {
        for v in pixel {
            *v = apply_nearest(cx.rule, changed(*v, VALUE));
        }
        return;
    };
    let turned = turned(*rgb, cx.params[TURN], |[fall, high]| {
        let s = fall * -255.0 / max(high, f32::MIN_POSITIVE);
        let s = if 0.0 < s { changed(s, SATURATION) } else { 0.0 };
        let high = changed(high, VALUE);
        [(high * s) * (-1.0 / 255.0), high]
    });
    *rgb = turned.map(|v| apply_nearest(cx.rule, v));
}

pub(crate) fn emit(e: &mut Emit, pixels: Pixels) -> Pixels {
    let Some(rgb) = pixels.rgb() else {
        return e.each(pixels, |e, _, v| {
            let v = emit_changed(e, v, VALUE);
            e.apply_nearest(v)
        });
    };
    let turned = emit_turned(e, rgb, TURN, |e, [fall, high]| {
        let [scale, back, zero] = [-255.0, -1.0 / 255.0, 0.0].map(|v| e.splat(v));
        let least = e.splat(f32::MIN_POSITIVE);
        let (fall, divisor) = (e.mul(fall, scale), e.max(high, least));
        let s = e.div(fall, divisor);
        let is_coloured = e.less(zero, s);
        let s = emit_changed(e, s, SATURATION);
        let s = e.select(is_coloured, s, zero);
        let high = emit_changed(e, high, VALUE);
        let fall = e.mul(high, s);
        [e.mul(fall, back), high]
    });
    e.each(turned, |e, _, v| e.apply_nearest(v))
}

fn emit_changed(e: &mut Emit, v: F32x4, params: [usize; 2]) -> F32x4 {
    let [factor, shift] = params.map(|param| e.param(param));
    let v = e.fma(v, factor, shift);
    e.clamp(v)
}
