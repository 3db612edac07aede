//! Hue: every colour rotated around the hue circle by one angle.

use crate::author::{Emit, Eval, F32x4, PixelOp, Pixels, Rng, Type};
use crate::emit::{max, min};
use crate::op::{Op, class, is_gray, on_colors};
use crate::registry::recipe;
use crate::registry::{Checked, ParamLimits};
use crate::{NumberOrRange, NumberRule, ParamError, Size, TypeError};
use std::ops::RangeInclusive;

/// Rotates every colour around the hue circle by one random angle, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomHue.md"))]
///
/// ```text
/// out = rgb of (h + hue mod 1, s, v)       with (h, s, v) of in;  hue 1 is the full circle
/// ```
///
/// | | |
/// |--------|-----------------------------------------------|
/// | input  | image of levels                                      |
/// | output | as the input                                  |
/// | random | a coin `p`, then `hue` uniform in `low..high` |
/// | cost   | about forty operations per pixel, one of them a division; under the Exact rule about seventy with four divisions |
///
/// Under the Exact rule this is torchvision's `adjust_hue` on u8 tensors, to the bit: values in
/// `0..=1`, all arithmetic in `f32` without fma, and `trunc(v * 255.999)` at the end. Even a hue of 0
/// is converted to HSV and back, and may be off by one level.
///
/// Under the Fused rule the same colour is computed in units of 0..=255, and not truncated. With `h` in
/// sixths of the circle, red falls from the largest of the three values to the smallest by the share
/// `2 - |h - 3|`, green by `|h - 2| - 1` and blue by `|h - 4| - 1`, each clamped to 0..=1. Grey pixels
/// stay unchanged.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomHue::new(0.1)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(COLOR, "turns the hues of a share p of the images")]
pub struct RandomHue {
    /// Builds the op with a hue in `-hue..hue`, or in a range, for half of the images; in shares of a full
    /// turn. If the bounds are equal, the hue is fixed. Hues of 0.5 and -0.5 both turn a colour into its
    /// opposite.
    #[param("by -hue..hue, or by low..high, of a full turn", example = 0.1, given = NumberOrRange, check = hue_range,
        errors = "If `hue` is not in `0.0..=0.5`, or a range is not `-0.5 <= low <= high <= 0.5`", draw = random(rng))]
    hue: (f32, f32),
    #[param(share)]
    p: f64,
}

/// Checks a hue, one number or a range.
fn hue_range(
    op: &'static str,
    param: &'static str,
    hue: NumberOrRange,
) -> Result<(f32, f32), ParamError> {
    if let NumberOrRange::Number(hue) = hue
        && !(0.0..=0.5).contains(&hue)
    {
        return Err(ParamError::new(op, param, hue, "0.0..=0.5"));
    }
    let (low, high) = hue.around_zero();
    let limits = ParamLimits::new(-0.5, 0.5, "-0.5 <= low <= high <= 0.5");
    (low..=high).checked(op, param, limits)
}

/// Draws a range of hues.
fn random(rng: &mut Rng) -> RangeInclusive<f64> {
    let low = recipe::number(rng, -0.5, 0.5);
    low..=(low + recipe::number(rng, 0.0, 1.0)).min(0.5)
}

impl RandomHue {
    /// Builds the hue of another op, for all images, from bounds that need no check.
    pub(crate) const fn always(low: f32, high: f32) -> Self {
        Self { p: 1.0, hue: (low, high) }
    }

    /// Sets a share that was checked before.
    pub(crate) const fn with_share(self, p: f64) -> Self {
        Self { p, ..self }
    }

    /// Builds the hue of another op, for all images.
    pub(crate) fn of(op: &'static str, hue: NumberOrRange) -> Result<Self, ParamError> {
        Ok(Self { p: 1.0, hue: hue_range(op, "hue", hue)? })
    }

    /// Returns true if the range is only 0, in which case [`ColorJitter`](crate::ColorJitter) leaves
    /// the hue out.
    pub(crate) fn is_zero(&self) -> bool {
        self.hue == (0.0, 0.0)
    }
}

#[class(Pixel)]
impl Op for RandomHue {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_colors(self.name(), input)
    }

    fn does_nothing(&self, input: &Type) -> bool {
        self.p == 0.0 || is_gray(input)
    }
}

/// Drawn parameters: the hue.
impl PixelOp for RandomHue {
    fn param_count(&self) -> usize {
        1
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        params[0] = rng.uniform(self.hue.0, self.hue.1);
        runs
    }

    fn may_skip(&self) -> bool {
        self.p < 1.0
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let Ok(pixel) = <&mut [f32; 3]>::try_from(pixel) else { return };
        *pixel = match cx.rule {
            NumberRule::Exact => exact(*pixel, cx.params[0]),
            NumberRule::Fused | NumberRule::Relaxed => fused(*pixel, cx.params[0]),
        };
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        match (pixels.rgb(), e.rule()) {
            (None, _) => pixels,
            (Some(rgb), NumberRule::Exact) => emit_exact(e, rgb),
            (Some(rgb), NumberRule::Fused | NumberRule::Relaxed) => emit_fused(e, rgb),
        }
    }
}

/// torchvision's factors from u8 to `0..=1`, and back.
const TO_UNIT: f32 = 1.0 / 255.0;
const FROM_UNIT: f32 = 255.999;
const SIXTH: f32 = 1.0 / 6.0;

/// Computes torchvision's `_rgb_to_hsv` and `_hsv_to_rgb`, except for its clamps of `p`, `q` and `t`:
/// they cut off at most an ulp above 1, which does not change the result of `trunc`.
fn exact(pixel: [f32; 3], hue: f32) -> [f32; 3] {
    let [r, g, b] = pixel.map(|v| v * TO_UNIT);
    let (high, low) = (max(max(r, g), b), min(min(r, g), b));
    let range = high - low;
    let is_grey = range == 0.0;
    let s = range / if is_grey { 1.0 } else { high };
    let divisor = if is_grey { 1.0 } else { range };
    let [rc, gc, bc] = [r, g, b].map(|v| (high - v) / divisor);
    let h = if high == r {
        bc - gc
    } else if high == g {
        (rc + 2.0) - bc
    } else {
        (gc + 4.0) - rc
    };
    let h = h * SIXTH + 1.0;
    let h = h - h.floor() + hue;
    let h = (h - h.floor()) * 6.0;
    let f = h - h.floor();
    let (keep, part) = (1.0 - s, s * f);
    let (p, q, t) = (keep * high, (1.0 - part) * high, (part + keep) * high);
    // h is in 0..=6, where 6 is equivalent to 0: there f is 0, so t equals p.
    let sixth = |end: f32, below: f32, above: f32| if h < end { below } else { above };
    let red = sixth(1.0, high, sixth(2.0, q, sixth(4.0, p, sixth(5.0, t, high))));
    let green = sixth(1.0, t, sixth(3.0, high, sixth(4.0, q, p)));
    let blue = sixth(2.0, p, sixth(3.0, t, sixth(5.0, high, sixth(6.0, q, p))));
    [red, green, blue].map(|v| (v * FROM_UNIT).trunc())
}

fn emit_exact(e: &mut Emit, pixels: [F32x4; 3]) -> Pixels {
    let one = e.splat(1.0);
    let unit = pixels.map(|v| {
        let to_unit = e.splat(TO_UNIT);
        e.mul(v, to_unit)
    });
    let [r, g, _] = unit;
    let (high, low) = extremes(e, unit);
    let range = e.sub(high, low);
    let zero = e.splat(0.0);
    let is_grey = e.equal(range, zero);
    let whole = e.select(is_grey, one, high);
    let s = e.div(range, whole);
    let divisor = e.select(is_grey, one, range);
    let [rc, gc, bc] = unit.map(|v| {
        let below = e.sub(high, v);
        e.div(below, divisor)
    });
    let near_red = e.sub(bc, gc);
    let near_green = offset_difference(e, rc, 2.0, bc);
    let near_blue = offset_difference(e, gc, 4.0, rc);
    let (is_red, is_green) = (e.equal(high, r), e.equal(high, g));
    let h = e.select(is_green, near_green, near_blue);
    let h = e.select(is_red, near_red, h);

    let sixth = e.splat(SIXTH);
    let h = e.mul(h, sixth);
    let h = e.add(h, one);
    let h = fraction(e, h);
    let hue = e.param(0);
    let h = e.add(h, hue);
    let h = fraction(e, h);
    let six = e.splat(6.0);
    let h = e.mul(h, six);
    let f = fraction(e, h);
    let (keep, part) = (e.sub(one, s), e.mul(s, f));
    let (rest, rising) = (e.sub(one, part), e.add(part, keep));
    let (p, q, t) = (e.mul(keep, high), e.mul(rest, high), e.mul(rising, high));
    let red = piecewise(e, h, &[(1.0, high), (2.0, q), (4.0, p), (5.0, t)], high);
    let green = piecewise(e, h, &[(1.0, t), (3.0, high), (4.0, q)], p);
    let blue = piecewise(e, h, &[(2.0, p), (3.0, t), (5.0, high), (6.0, q)], p);
    e.each(Pixels::from([red, green, blue]), |e, _, v| {
        let from_unit = e.splat(FROM_UNIT);
        let v = e.mul(v, from_unit);
        e.trunc(v)
    })
}

/// Computes the colour on the same hue circle with one division, in the units of the values.
fn fused(pixel: [f32; 3], hue: f32) -> [f32; 3] {
    turned(pixel, hue, |ends| ends)
}

/// Turns a hue by a share of a full turn. Each value of the result is its share of the fall below the highest value;
/// `change` gets this fall, which is negative, and the highest value, and returns other ones.
pub(crate) fn turned(
    [r, g, b]: [f32; 3],
    hue: f32,
    change: impl FnOnce([f32; 2]) -> [f32; 2],
) -> [f32; 3] {
    let (high, low) = (max(max(r, g), b), min(min(r, g), b));
    let fall = low - high;
    let (difference, centre) = if high == r {
        (b - g, 0.0)
    } else if high == g {
        (r - b, 2.0)
    } else {
        (g - r, 4.0)
    };
    let h = difference / min(fall, -f32::MIN_POSITIVE) + centre; // grey: 0 / nonzero
    let h = hue.mul_add(6.0, h);
    let h = (h * SIXTH).floor().mul_add(-6.0, h);
    let shares = [2.0 - (h - 3.0).abs(), (h - 2.0).abs() - 1.0, (h - 4.0).abs() - 1.0];
    let [fall, high] = change([fall, high]);
    shares.map(|share| max(min(share, 1.0), 0.0).mul_add(fall, high))
}

fn emit_fused(e: &mut Emit, pixels: [F32x4; 3]) -> Pixels {
    emit_turned(e, pixels, 0, |_, ends| ends)
}

/// Records the computation of [`turned`], by the turn in drawn parameter `hue_param`.
pub(crate) fn emit_turned(
    e: &mut Emit,
    pixels: [F32x4; 3],
    hue_param: usize,
    change: impl FnOnce(&mut Emit, [F32x4; 2]) -> [F32x4; 2],
) -> Pixels {
    let [r, g, b] = pixels;
    let (high, low) = extremes(e, pixels);
    let fall = e.sub(low, high);
    let (is_red, is_green) = (e.equal(high, r), e.equal(high, g));
    let (from_red, from_green, from_blue) = (e.sub(b, g), e.sub(r, b), e.sub(g, r));
    let difference = e.select(is_green, from_green, from_blue);
    let difference = e.select(is_red, from_red, difference);
    let centres = [0.0, 2.0, 4.0].map(|centre| e.splat(centre));
    let centre = e.select(is_green, centres[1], centres[2]);
    let centre = e.select(is_red, centres[0], centre);
    let least = e.splat(-f32::MIN_POSITIVE);
    let divisor = e.min(fall, least);
    let h = e.div(difference, divisor);
    let h = e.add(h, centre);
    let (hue, six) = (e.param(hue_param), e.splat(6.0));
    let h = e.fma(hue, six, h);
    let (sixth, minus_six) = (e.splat(SIXTH), e.splat(-6.0));
    let turns = e.mul(h, sixth);
    let turns = e.floor(turns);
    let h = e.fma(turns, minus_six, h);
    let away = [3.0, 2.0, 4.0].map(|hue| distance(e, h, hue));
    let (one, two) = (e.splat(1.0), e.splat(2.0));
    let shares = [e.sub(two, away[0]), e.sub(away[1], one), e.sub(away[2], one)];
    let [fall, high] = change(e, [fall, high]);
    e.each(Pixels::from(shares), |e, _, share| {
        let zero = e.splat(0.0);
        let share = e.min(share, one);
        let share = e.max(share, zero);
        e.fma(share, fall, high)
    })
}

/// Returns the largest and the smallest of the three values.
fn extremes(e: &mut Emit, pixels: [F32x4; 3]) -> (F32x4, F32x4) {
    let [r, g, b] = pixels;
    let (high, low) = (e.max(r, g), e.min(r, g));
    (e.max(high, b), e.min(low, b))
}

/// Returns `(a + offset) - b`.
fn offset_difference(e: &mut Emit, a: F32x4, offset: f32, b: F32x4) -> F32x4 {
    let offset = e.splat(offset);
    let sum = e.add(a, offset);
    e.sub(sum, b)
}

/// Returns `a - floor(a)`.
fn fraction(e: &mut Emit, a: F32x4) -> F32x4 {
    let floor = e.floor(a);
    e.sub(a, floor)
}

/// Returns the value of the first step whose end is above `h`, or `last` if there is none.
fn piecewise(e: &mut Emit, h: F32x4, steps: &[(f32, F32x4)], last: F32x4) -> F32x4 {
    steps.iter().rev().fold(last, |above, &(end, below)| {
        let end = e.splat(end);
        let is_below = e.less(h, end);
        e.select(is_below, below, above)
    })
}

/// Returns `|h - hue|`.
fn distance(e: &mut Emit, h: F32x4, hue: f32) -> F32x4 {
    let (hue, magnitude) = (e.splat(hue), e.splat_i32(i32::MAX));
    let difference = e.sub(h, hue);
    let bits = e.bits(difference);
    let bits = e.and_i32(bits, magnitude);
    e.from_bits(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    #[test]
    fn as_torchvision_turns_hues() {
        assert_eq!(exact([10.0, 200.0, 77.0], 0.1), [10.0, 200.0, 191.0]);
        assert_eq!(exact([250.0, 3.0, 129.0], 0.1), [250.0, 25.0, 3.0]);
        assert_eq!(exact([10.0, 200.0, 77.0], -0.5), [200.0, 10.0, 133.0]);
    }

    #[test]
    fn both_rules_mean_the_same_colour() {
        let mut rng = SampleKey::new(3, 0, 0).op(0);
        for _ in 0..200_000 {
            let pixel = [0; 3].map(|_| rng.below(256) as f32);
            let hue = rng.uniform(-0.5, 0.5);
            let (whole, real) = (exact(pixel, hue), fused(pixel, hue));
            for c in 0..3 {
                let off = (real[c] - whole[c]).abs();
                assert!(off < 1.001, "{pixel:?} {hue}: {whole:?} {real:?}");
                assert!((0.0..=255.0).contains(&real[c]) && whole[c].fract() == 0.0);
            }
        }
    }

    #[test]
    fn no_turn_and_a_whole_turn_change_nothing_but_roundings() {
        let pixel = [12.0, 250.0, 99.0];
        for hue in [0.0, 1.0, -1.0] {
            let turned = fused(pixel, hue);
            assert!((0..3).all(|c| (turned[c] - pixel[c]).abs() < 1e-3), "{hue}: {turned:?}");
        }
        for v in [0.0, 0.3, 77.0, 255.0] {
            assert_eq!(fused([v; 3], 0.3), [v; 3]);
        }
    }

    #[test]
    fn bad_ranges_are_refused() {
        for (low, high) in [(-0.6, 0.0), (0.0, 0.6), (0.1, 0.0), (f64::NAN, 0.0)] {
            assert!(RandomHue::new(low..=high).and_then(|op| op.p(1.0)).is_err(), "{low} {high}");
        }
        assert!(RandomHue::new(0.5).and_then(|op| op.p(1.1)).is_err());
    }
}
