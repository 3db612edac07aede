//! Division that rounds down, and its remainder: the bits of NumPy's `floor_divide` and `remainder` for float32.
//!
//! ```text
//! rest       the remainder of |a| / |b|, with the sign of a: exact, for all numbers
//! added      rest and b have different signs
//! remainder  rest, with b if added; 0 with the sign of b if rest is 0
//! whole      (a - rest) / b, less 1 if added
//! floor_div  the whole number below `whole`, or above if it is nearer; 0 with the sign of a / b if `whole` is 0
//! b = 0      the remainder is NaN, and floor_div a / b
//! ```
//!
//! Each operation but the rest is rounded to f32, as NumPy does it. Compiled code has no instruction for the rest:
//!
//! ```text
//! q = |a| / |b|,  t = trunc(q),  r = |a| - t * |b|, rounded once;  r + |b| if r < 0
//! ```
//!
//! For q < 2^24, t is the quotient's whole part, or 1 more if q was rounded up to a whole number: |r| < |b|, and r is a
//! multiple of the last bit of b, so that f32 has it, and nothing is rounded. For a larger quotient, the divisors
//! `|b| * 2^(24 * j)` for j of 11 to 0 are taken one after another: each quotient is at most 2^24, and what is left is
//! a multiple of the last bit of the divisor, or of a. Such code runs only if a pixel of the vector needs it.

use super::code::{absolute, sign_of, with_sign};
use crate::author::{Emit, Pixels};
use crate::emit::{F32x4, Mask};

/// Returns the remainder.
pub(super) fn remainder(a: f32, b: f32) -> f32 {
    let rest = a % b;
    if rest == 0.0 {
        0.0_f32.copysign(b)
    } else if is_added(rest, b) {
        rest + b
    } else {
        rest
    }
}

/// Returns the quotient, rounded down.
pub(super) fn floor_div(a: f32, b: f32) -> f32 {
    if b == 0.0 {
        return a / b;
    }
    let rest = a % b;
    let quotient = (a - rest) / b;
    let whole = if is_added(rest, b) { quotient - 1.0 } else { quotient };
    if whole == 0.0 {
        return 0.0_f32.copysign(a / b);
    }
    let floor = whole.floor();
    if whole - floor > 0.5 { floor + 1.0 } else { floor }
}

fn is_added(rest: f32, b: f32) -> bool {
    (rest < 0.0 && 0.0 < b) || (0.0 < rest && b < 0.0)
}

/// Records [`remainder`].
pub(super) fn emit_remainder(e: &mut Emit, a: F32x4, b: F32x4) -> F32x4 {
    let rest = emit_rest(e, a, b);
    let is_added = emit_is_added(e, rest, b);
    let sum = e.add(rest, b);
    let moved = e.select(is_added, sum, rest);
    let zero = e.splat(0.0);
    let is_zero = e.equal(rest, zero);
    let zero = sign_of(e, b);
    let zero = e.from_bits(zero);
    e.select(is_zero, zero, moved)
}

/// Records [`floor_div`].
pub(super) fn emit_floor_div(e: &mut Emit, a: F32x4, b: F32x4) -> F32x4 {
    let rest = emit_rest(e, a, b);
    let is_added = emit_is_added(e, rest, b);
    let multiple = e.sub(a, rest);
    let quotient = e.div(multiple, b);
    let (one, half, zero) = (e.splat(1.0), e.splat(0.5), e.splat(0.0));
    let less = e.sub(quotient, one);
    let whole = e.select(is_added, less, quotient);
    let floor = e.floor(whole);
    let fraction = e.sub(whole, floor);
    let is_above = e.less(half, fraction);
    let above = e.add(floor, one);
    let nearest = e.select(is_above, above, floor);
    let ratio = e.div(a, b);
    let sign = sign_of(e, ratio);
    let signed_zero = e.from_bits(sign);
    let is_zero = e.equal(whole, zero);
    let result = e.select(is_zero, signed_zero, nearest);
    let by_zero = e.equal(b, zero);
    e.select(by_zero, ratio, result)
}

fn emit_is_added(e: &mut Emit, rest: F32x4, b: F32x4) -> Mask {
    let zero = e.splat(0.0);
    let (below, b_above) = (e.less(rest, zero), e.less(zero, b));
    let (above, b_below) = (e.less(zero, rest), e.less(b, zero));
    let (one, other) = (e.both(below, b_above), e.both(above, b_below));
    e.either(one, other)
}

/// Records `a % b`.
fn emit_rest(e: &mut Emit, a: F32x4, b: F32x4) -> F32x4 {
    /// The largest quotient whose rest one step gives.
    const NEAR: f32 = 16_777_215.0;
    let sign = sign_of(e, a);
    let (a, b) = (absolute(e, a), absolute(e, b));
    let (quotient, near) = emit_step(e, a, b);
    let near = raised(e, near, b);
    // The product of an infinite b and 0 is NaN.
    let is_less = e.less(a, b);
    let near = e.select(is_less, a, near);
    let most = e.splat(NEAR);
    let is_far = e.less(most, quotient);
    let rest = e.where_any(is_far, Pixels::of_values(&[near.0]), |e, near| {
        let far = emit_far_rest(e, a, b);
        e.each(near, |e, _, near| e.select(is_far, far, near))
    });
    with_sign(e, rest.channels()[0], sign)
}

/// Records the rest of a quotient of any size.
fn emit_far_rest(e: &mut Emit, a: F32x4, b: F32x4) -> F32x4 {
    let (shift, infinity) = (e.splat(2f32.powi(120)), e.splat(f32::INFINITY));
    let b5 = e.mul(b, shift);
    let b10 = e.mul(b5, shift);
    let mut rest = a;
    for j in (1..=11).rev() {
        let (from, shifts) = match j {
            10.. => (b10, j - 10),
            5.. => (b5, j - 5),
            _ => (b, j),
        };
        let shift = e.splat(2f32.powi(24 * shifts));
        let divisor = e.mul(from, shift);
        let (_, next) = emit_step(e, rest, divisor);
        let is_finite = e.less(divisor, infinity);
        rest = e.select(is_finite, next, rest);
    }
    let (_, rest) = emit_step(e, rest, b);
    raised(e, rest, b)
}

/// Records a quotient, and what is left of a number without the whole multiples of the divisor.
fn emit_step(e: &mut Emit, a: F32x4, divisor: F32x4) -> (F32x4, F32x4) {
    let quotient = e.div(a, divisor);
    let (zero, whole) = (e.splat(0.0), e.trunc(quotient));
    let less = e.sub(zero, whole);
    (quotient, e.fma(less, divisor, a))
}

/// Records `rest + b` where a rest is below 0.
fn raised(e: &mut Emit, rest: F32x4, b: F32x4) -> F32x4 {
    let zero = e.splat(0.0);
    let is_below = e.less(rest, zero);
    let sum = e.add(rest, b);
    e.select(is_below, sum, rest)
}
