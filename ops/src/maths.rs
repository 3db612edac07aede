//! The exponential, the logarithm, powers, the sine and the cosine, with the same bits on every device.
//!
//! They consist of the operations of [`Emit`], which every backend rounds in the same way, so the functions
//! here and the methods of `Emit` return the same bits, too.
//!
//! | function           | computed as                                                             | largest error |
//! |--------------------|-------------------------------------------------------------------------|---------------|
//! | `exp(x)`           | `2^n exp(r)`, `r = x - n ln 2`, `abs(r) <= ln 2 / 2`                    | 1.1 ulp       |
//! | `log(x)`           | `e ln 2 + log(m)`, `x = m 2^e`, `m` in `sqrt(1/2)..sqrt(2)`             | 1 ulp         |
//! | `pow(x, y)`        | `exp(y log(x))`, with the logarithm and the product in two `f32` each   | 2 ulp         |
//! | `sin(x)`, `cos(x)` | `sin(r)` or `cos(r)`, `r = x - n pi / 2`, `abs(r) <= pi / 4`            | 2 ulp         |
//!
//! An error is the distance from the exact result in units of the distance of two neighbouring `f32` at this
//! result. The bounds hold for all arguments. The polynomials are our own minimax fits.
//!
//! | function           | special values                                                          |
//! |--------------------|-------------------------------------------------------------------------|
//! | `exp(x)`           | infinity above 88.72284, and 0 below -103.97208                         |
//! | `log(x)`           | `log(0)` and `log(-0)` are -infinity; NaN for `x < 0`                   |
//! | `pow(x, y)`        | those of C: `pow(x, 0)` and `pow(1, y)` are 1, also for NaN; for a finite `x < 0`, NaN unless `y` is an integer |
//! | `sin(x)`, `cos(x)` | NaN for `abs(x) >= 131072`; `sin(-0)` is -0                             |
//!
//! Otherwise NaN gives NaN. Every NaN has the bits of `f32::NAN`.

use crate::emit::{Emit, F32x4, I32x4, Mask, max, min};
use std::f32::consts::{FRAC_2_PI, LOG2_E};

/// The coefficients, lowest first, of a polynomial for `(exp(r) - 1 - r) / r^2`. Its error is 4e-9 of `exp(r)`.
const EXP: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_71, 0.001_381_461_3];

/// The coefficients, lowest first, of a polynomial for `(log(1 + f) - f + f^2 / 2) / f^3`. Its error is 7e-9 of
/// `log(1 + f)`.
const LOG: [f32; 8] = [
    0.333_333_3,
    -0.250_008_2,
    0.200_012_27,
    -0.166_233_57,
    0.142_017_56,
    -0.131_601_84,
    0.127_615_93,
    -0.076_345_13,
];

/// The coefficients, lowest first, of a polynomial in `q^2` for `(log((1 + q) / (1 - q)) - 2 q) / q^3`. Its error
/// is 1e-9 of the logarithm.
const ATANH: [f32; 4] = [0.666_666_7, 0.400_001_23, 0.285_506_84, 0.233_337_83];

/// The coefficients, lowest first, of a polynomial in `r^2` for `(sin(r) - r) / r^3`. Its error is 6e-9 of
/// `sin(r)`.
const SIN: [f32; 3] = [-0.166_666_55, 0.008_332_178, -0.000_195_172_35];

/// The coefficients, lowest first, of a polynomial in `r^2` for `(cos(r) - 1 + r^2 / 2) / r^4`. Its error is
/// 1e-9 of `cos(r)`.
const COS: [f32; 3] = [0.041_666_646, -0.001_388_736_6, 2.443_838e-5];

/// The sum of these is `ln 2`. The first one has 15 bits, so its product with an exponent is exact.
const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];

/// The sum of these is `pi / 2`.
const HALF_PI: [f32; 3] = [1.570_796_4, -4.371_139e-8, -1.715_124_5e-15];

/// `sin` and `cos` are defined below this absolute value.
const FAR: f32 = 131_072.0;

/// `exp` is 0 for the first number and infinity for the second.
const EXP_RANGE: [f32; 2] = [-104.0, 89.0];

/// The bit of the sign of an `f32`.
const SIGN: u32 = 1 << 31;

/// The bits of `sqrt(1/2)`.
const SQRT_HALF: u32 = 0x3f35_04f3;

/// The bits of 1, less those of `sqrt(1/2)`.
const ONE_ABOVE: u32 = 0x3f80_0000 - SQRT_HALF;

/// The bits of a mantissa.
const MANTISSA: u32 = 0x7f_ffff;

/// Returns `e` to the power of `x`, as [`Emit::exp`] does: within 1.1 ulp.
#[must_use]
pub fn exp(x: f32) -> f32 {
    let (n, r) = whole_and_rest(in_exp_range(x));
    if x.is_nan() { f32::NAN } else { scaled_exp(n, r) }
}

/// Returns the natural logarithm, as [`Emit::log`] does: within 1 ulp.
#[must_use]
pub fn log(x: f32) -> f32 {
    let (exponent, f) = exponent_and_fraction(x);
    let curve = polynomial(&LOG, f).mul_add(f, -0.5) * (f * f);
    let sum = f + exponent.mul_add(LN_2[1], curve);
    let sum = exponent.mul_add(LN_2[0], sum);
    let positive = if x < f32::INFINITY { sum } else { x };
    let other = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    if 0.0 < x { positive } else { other }
}

/// Returns `x` to the power of `y`, as [`Emit::pow`] does: within 2 ulp.
#[must_use]
pub fn pow(x: f32, y: f32) -> f32 {
    let size = without_sign(x);
    let [high, low] = log_in_two(size);
    let product = y * high;
    let rest = y.mul_add(low, low_of_product(y, high, product));
    let inside = in_exp_range(product);
    let rest = if inside == product { rest } else { 0.0 };
    let (n, r) = whole_and_rest(inside);
    let power = scaled_exp(n, r + rest);
    let power = if size == 1.0 { 1.0 } else { power };
    // An odd y keeps the sign of x; a y with a fraction has no result for a negative x.
    let half = y * 0.5;
    let of_integer = if half.trunc() == half { power } else { with_sign(power, x) };
    let of_fraction = if x < 0.0 && f32::NEG_INFINITY < x { f32::NAN } else { power };
    let power = if y.trunc() == y { of_integer } else { of_fraction };
    let power = if x.is_nan() || y.is_nan() { f32::NAN } else { power };
    if y == 0.0 || x == 1.0 { 1.0 } else { power }
}

/// Returns the sine of `x` radians, as [`Emit::sin`] does: within 2 ulp.
#[must_use]
pub fn sin(x: f32) -> f32 {
    let size = without_sign(x);
    let (quadrant, r) = quadrant_and_rest(size);
    let wave = with_sign(wave(quadrant, r), x);
    if size < FAR { wave } else { f32::NAN }
}

/// Returns the cosine of `x` radians, as [`Emit::cos`] does: within 2 ulp.
#[must_use]
pub fn cos(x: f32) -> f32 {
    let size = without_sign(x);
    let (quadrant, r) = quadrant_and_rest(size);
    let wave = wave(quadrant + 1, r);
    if size < FAR { wave } else { f32::NAN }
}

fn without_sign(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & !SIGN)
}

/// Returns `value`, negated if `x` is negative.
fn with_sign(value: f32, x: f32) -> f32 {
    f32::from_bits(value.to_bits() ^ (x.to_bits() & SIGN))
}

fn in_exp_range(x: f32) -> f32 {
    max(min(x, EXP_RANGE[1]), EXP_RANGE[0])
}

/// Returns `n` and `r` with `x = n ln 2 + r`.
fn whole_and_rest(x: f32) -> (f32, f32) {
    let n = (x * LOG2_E).round_ties_even();
    (n, n.mul_add(-LN_2[1], n.mul_add(-LN_2[0], x)))
}

/// Returns `2^n exp(r)`. The power of two is multiplied in two steps: it can be out of range.
fn scaled_exp(n: f32, r: f32) -> f32 {
    let power = 1.0 + polynomial(&EXP, r).mul_add(r * r, r);
    let half = (n * 0.5).floor();
    power * power_of_two(half) * power_of_two(n - half)
}

fn power_of_two(n: f32) -> f32 {
    f32::from_bits((n as i32 + 127).cast_unsigned() << 23)
}

/// Returns `e` and `f` with `x = (1 + f) 2^e`.
fn exponent_and_fraction(x: f32) -> (f32, f32) {
    let is_subnormal = x < f32::MIN_POSITIVE;
    let normal = if is_subnormal { x * 8_388_608.0 } else { x };
    let bias = if is_subnormal { 150.0 } else { 127.0 };
    let bits = normal.to_bits().wrapping_add(ONE_ABOVE);
    let exponent = (bits >> 23) as f32 - bias;
    (exponent, f32::from_bits((bits & MANTISSA) + SQRT_HALF) - 1.0)
}

/// Returns two numbers whose sum is the logarithm, to 45 bits: `log(1 + f)` is `2 atanh(q)` with
/// `q = f / (2 + f)`.
fn log_in_two(x: f32) -> [f32; 2] {
    let (exponent, f) = exponent_and_fraction(x);
    let sum = f + 2.0;
    let sum_low = f - (sum - 2.0);
    let q = f / sum;
    let minus_q = 0.0 - q;
    let q_low = minus_q.mul_add(sum_low, minus_q.mul_add(sum, f)) / sum;
    let square = q * q;
    let square_low = (q + q).mul_add(q_low, low_of_product(q, q, square));
    let cube = square * q;
    let cube_low = q_low.mul_add(square, low_of_product(q, square, cube));
    let cube_low = q.mul_add(square_low, cube_low);
    let factor = polynomial(&ATANH, square);
    let curve = cube * factor;
    let curve_low = cube_low.mul_add(factor, low_of_product(cube, factor, curve));
    let [sum, first_low] = sum_in_two(exponent * LN_2[0], q + q);
    let [sum, second_low] = sum_in_two(sum, curve);
    let low = q_low.mul_add(2.0, first_low + second_low) + curve_low;
    let [high, low] = sum_in_two(sum, exponent.mul_add(LN_2[1], low));
    let high = if x == 0.0 { f32::NEG_INFINITY } else { high };
    [if x == f32::INFINITY { x } else { high }, low]
}

/// Returns the exact difference of `a * b` and `product`, which is `a * b` rounded.
fn low_of_product(a: f32, b: f32, product: f32) -> f32 {
    a.mul_add(b, 0.0 - product)
}

/// Returns the sum of two numbers, rounded, and the rest of the sum. The first number is 0 or the larger one.
fn sum_in_two(a: f32, b: f32) -> [f32; 2] {
    let sum = a + b;
    [sum, b - (sum - a)]
}

/// Returns `n` and `r` with `size = n pi / 2 + r`.
fn quadrant_and_rest(size: f32) -> (i32, f32) {
    let size = min(size, FAR);
    let n = (size * FRAC_2_PI).round_ties_even();
    let r = HALF_PI.iter().fold(size, |r, &part| n.mul_add(-part, r));
    (n as i32, r)
}

/// Returns `sin(r)` turned by a number of right angles.
fn wave(quadrant: i32, r: f32) -> f32 {
    let square = r * r;
    let sine = polynomial(&SIN, square).mul_add(square * r, r);
    let cosine = polynomial(&COS, square).mul_add(square, -0.5).mul_add(square, 1.0);
    let wave = if quadrant & 1 == 0 { sine } else { cosine };
    f32::from_bits(wave.to_bits() ^ ((quadrant & 2) << 30).cast_unsigned())
}

/// Returns the sum of `coefficients[k] * x^k`, computed from the highest coefficient down.
pub(crate) fn polynomial<const N: usize>(coefficients: &[f32; N], x: f32) -> f32 {
    let highest = coefficients[N - 1];
    coefficients[..N - 1].iter().rev().fold(highest, |sum, &c| sum.mul_add(x, c))
}

pub(crate) fn emit_polynomial<const N: usize>(
    e: &mut Emit,
    coefficients: &[f32; N],
    x: F32x4,
) -> F32x4 {
    let highest = e.splat(coefficients[N - 1]);
    coefficients[..N - 1].iter().rev().fold(highest, |sum, &c| {
        let c = e.splat(c);
        e.fma(sum, x, c)
    })
}

/// Exponential, logarithm, powers, sine and cosine, with the same bits on every device and as the functions of
/// the same names in [`author`](crate::author), for `eval`.
///
/// | function           | largest error | special values                                                    |
/// |--------------------|---------------|-------------------------------------------------------------------|
/// | `exp(x)`           | 1.1 ulp       | infinity above 88.72284, and 0 below -103.97208                   |
/// | `log(x)`           | 1 ulp         | `log(0)` and `log(-0)` are -infinity; NaN for `x < 0`             |
/// | `pow(x, y)`        | 2 ulp         | those of C: `pow(x, 0)` and `pow(1, y)` are 1, also for NaN; for a finite `x < 0`, NaN unless `y` is an integer |
/// | `sin(x)`, `cos(x)` | 2 ulp         | NaN for `abs(x) >= 131072`; `sin(-0)` is -0                       |
///
/// Otherwise NaN gives NaN. A logarithm or an exponential takes about 25 instructions for four numbers, a sine 30
/// and a power 110.
impl Emit {
    /// Returns `e` to the power of `x`.
    pub fn exp(&mut self, x: F32x4) -> F32x4 {
        let inside = self.in_exp_range(x);
        let [n, r] = self.whole_and_rest(inside);
        let power = self.scaled_exp(n, r);
        let is_number = self.equal(x, x);
        let nan = self.splat(f32::NAN);
        self.select(is_number, power, nan)
    }

    /// Returns the natural logarithm.
    pub fn log(&mut self, x: F32x4) -> F32x4 {
        let [exponent, f] = self.exponent_and_fraction(x);
        let [zero, minus_half, infinity, minus_infinity, nan] =
            [0.0, -0.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN].map(|v| self.splat(v));
        let ln_2 = LN_2.map(|v| self.splat(v));
        let curve = emit_polynomial(self, &LOG, f);
        let curve = self.fma(curve, f, minus_half);
        let square = self.mul(f, f);
        let curve = self.mul(curve, square);
        let sum = self.fma(exponent, ln_2[1], curve);
        let sum = self.add(f, sum);
        let sum = self.fma(exponent, ln_2[0], sum);
        let is_finite = self.less(x, infinity);
        let positive = self.select(is_finite, sum, x);
        let is_zero = self.equal(x, zero);
        let other = self.select(is_zero, minus_infinity, nan);
        let is_positive = self.less(zero, x);
        self.select(is_positive, positive, other)
    }

    /// Returns `x` to the power of `y`.
    pub fn pow(&mut self, x: F32x4, y: F32x4) -> F32x4 {
        let [zero, one, half, minus_infinity, nan] =
            [0.0, 1.0, 0.5, f32::NEG_INFINITY, f32::NAN].map(|v| self.splat(v));
        let size = self.without_sign(x);
        let [high, low] = self.log_in_two(size);
        let product = self.mul(y, high);
        let rest = self.low_of_product(y, high, product);
        let rest = self.fma(y, low, rest);
        let inside = self.in_exp_range(product);
        let is_inside = self.equal(inside, product);
        let rest = self.select(is_inside, rest, zero);
        let [n, r] = self.whole_and_rest(inside);
        let r = self.add(r, rest);
        let power = self.scaled_exp(n, r);
        let is_one = self.equal(size, one);
        let power = self.select(is_one, one, power);
        // An odd y keeps the sign of x; a y with a fraction has no result for a negative x.
        let half = self.mul(y, half);
        let is_even = self.is_integer(half);
        let signed = self.with_sign(power, x);
        let of_integer = self.select(is_even, power, signed);
        let (is_negative, is_finite) = (self.less(x, zero), self.less(minus_infinity, x));
        let has_none = self.both(is_negative, is_finite);
        let of_fraction = self.select(has_none, nan, power);
        let is_integer = self.is_integer(y);
        let power = self.select(is_integer, of_integer, of_fraction);
        let (x_is_number, y_is_number) = (self.equal(x, x), self.equal(y, y));
        let are_numbers = self.both(x_is_number, y_is_number);
        let power = self.select(are_numbers, power, nan);
        let (y_is_zero, x_is_one) = (self.equal(y, zero), self.equal(x, one));
        let is_one = self.either(y_is_zero, x_is_one);
        self.select(is_one, one, power)
    }

    /// Returns the sine of `x` radians.
    pub fn sin(&mut self, x: F32x4) -> F32x4 {
        let size = self.without_sign(x);
        let (quadrant, r) = self.quadrant_and_rest(size);
        let wave = self.wave(quadrant, r);
        let wave = self.with_sign(wave, x);
        self.nan_if_far(size, wave)
    }

    /// Returns the cosine of `x` radians.
    pub fn cos(&mut self, x: F32x4) -> F32x4 {
        let size = self.without_sign(x);
        let (quadrant, r) = self.quadrant_and_rest(size);
        let one = self.splat_i32(1);
        let quadrant = self.add_i32(quadrant, one);
        let wave = self.wave(quadrant, r);
        self.nan_if_far(size, wave)
    }
}

/// The steps of the functions: see the functions of the same names.
impl Emit {
    fn splat_bits(&mut self, bits: u32) -> I32x4 {
        self.splat_i32(bits.cast_signed())
    }

    fn without_sign(&mut self, x: F32x4) -> F32x4 {
        let (bits, others) = (self.bits(x), self.splat_bits(!SIGN));
        let bits = self.and_i32(bits, others);
        self.from_bits(bits)
    }

    fn with_sign(&mut self, value: F32x4, x: F32x4) -> F32x4 {
        let (value, x, sign) = (self.bits(value), self.bits(x), self.splat_bits(SIGN));
        let sign = self.and_i32(x, sign);
        let bits = self.xor_i32(value, sign);
        self.from_bits(bits)
    }

    fn is_integer(&mut self, x: F32x4) -> Mask {
        let whole = self.trunc(x);
        self.equal(whole, x)
    }

    fn in_exp_range(&mut self, x: F32x4) -> F32x4 {
        let [low, high] = EXP_RANGE.map(|v| self.splat(v));
        let x = self.min(x, high);
        self.max(x, low)
    }

    fn whole_and_rest(&mut self, x: F32x4) -> [F32x4; 2] {
        let log_2_e = self.splat(LOG2_E);
        let n = self.mul(x, log_2_e);
        let n = self.round(n);
        let r = LN_2.iter().fold(x, |r, &part| {
            let part = self.splat(-part);
            self.fma(n, part, r)
        });
        [n, r]
    }

    fn scaled_exp(&mut self, n: F32x4, r: F32x4) -> F32x4 {
        let [half, one] = [0.5, 1.0].map(|v| self.splat(v));
        let curve = emit_polynomial(self, &EXP, r);
        let square = self.mul(r, r);
        let power = self.fma(curve, square, r);
        let power = self.add(one, power);
        let half = self.mul(n, half);
        let half = self.floor(half);
        let other = self.sub(n, half);
        let (half, other) = (self.power_of_two(half), self.power_of_two(other));
        let power = self.mul(power, half);
        self.mul(power, other)
    }

    fn power_of_two(&mut self, n: F32x4) -> F32x4 {
        let (n, bias) = (self.to_i32(n), self.splat_i32(127));
        let bits = self.add_i32(n, bias);
        let bits = self.shift_left(bits, 23);
        self.from_bits(bits)
    }

    fn exponent_and_fraction(&mut self, x: F32x4) -> [F32x4; 2] {
        let [smallest, up, one, subnormal_bias, bias] =
            [f32::MIN_POSITIVE, 8_388_608.0, 1.0, 150.0, 127.0].map(|v| self.splat(v));
        let [one_above, mantissa, sqrt_half] =
            [ONE_ABOVE, MANTISSA, SQRT_HALF].map(|bits| self.splat_bits(bits));
        let is_subnormal = self.less(x, smallest);
        let normal = self.mul(x, up);
        let normal = self.select(is_subnormal, normal, x);
        let bias = self.select(is_subnormal, subnormal_bias, bias);
        let bits = self.bits(normal);
        let bits = self.add_i32(bits, one_above);
        let exponent = self.shift_right(bits, 23);
        let exponent = self.to_f32(exponent);
        let exponent = self.sub(exponent, bias);
        let bits = self.and_i32(bits, mantissa);
        let bits = self.add_i32(bits, sqrt_half);
        let fraction = self.from_bits(bits);
        [exponent, self.sub(fraction, one)]
    }

    fn low_of_product(&mut self, a: F32x4, b: F32x4, product: F32x4) -> F32x4 {
        let zero = self.splat(0.0);
        let minus = self.sub(zero, product);
        self.fma(a, b, minus)
    }

    fn log_in_two(&mut self, x: F32x4) -> [F32x4; 2] {
        let [zero, two, infinity, minus_infinity] =
            [0.0, 2.0, f32::INFINITY, f32::NEG_INFINITY].map(|v| self.splat(v));
        let ln_2 = LN_2.map(|v| self.splat(v));
        let [exponent, f] = self.exponent_and_fraction(x);
        let sum = self.add(f, two);
        let sum_low = self.sub(sum, two);
        let sum_low = self.sub(f, sum_low);
        let q = self.div(f, sum);
        let minus_q = self.sub(zero, q);
        let q_low = self.fma(minus_q, sum, f);
        let q_low = self.fma(minus_q, sum_low, q_low);
        let q_low = self.div(q_low, sum);
        let twice = self.add(q, q);
        let square = self.mul(q, q);
        let square_low = self.low_of_product(q, q, square);
        let square_low = self.fma(twice, q_low, square_low);
        let cube = self.mul(square, q);
        let cube_low = self.low_of_product(q, square, cube);
        let cube_low = self.fma(q_low, square, cube_low);
        let cube_low = self.fma(q, square_low, cube_low);
        let factor = emit_polynomial(self, &ATANH, square);
        let curve = self.mul(cube, factor);
        let curve_low = self.low_of_product(cube, factor, curve);
        let curve_low = self.fma(cube_low, factor, curve_low);
        let whole = self.mul(exponent, ln_2[0]);
        let [sum, first_low] = self.sum_in_two(whole, twice);
        let [sum, second_low] = self.sum_in_two(sum, curve);
        let low = self.add(first_low, second_low);
        let low = self.fma(q_low, two, low);
        let low = self.add(low, curve_low);
        let low = self.fma(exponent, ln_2[1], low);
        let [high, low] = self.sum_in_two(sum, low);
        let is_zero = self.equal(x, zero);
        let high = self.select(is_zero, minus_infinity, high);
        let is_infinite = self.equal(x, infinity);
        [self.select(is_infinite, x, high), low]
    }

    fn sum_in_two(&mut self, a: F32x4, b: F32x4) -> [F32x4; 2] {
        let sum = self.add(a, b);
        let low = self.sub(sum, a);
        [sum, self.sub(b, low)]
    }

    fn quadrant_and_rest(&mut self, size: F32x4) -> (I32x4, F32x4) {
        let [far, per_radian] = [FAR, FRAC_2_PI].map(|v| self.splat(v));
        let size = self.min(size, far);
        let n = self.mul(size, per_radian);
        let n = self.round(n);
        let r = HALF_PI.iter().fold(size, |r, &part| {
            let part = self.splat(-part);
            self.fma(n, part, r)
        });
        (self.to_i32(n), r)
    }

    fn wave(&mut self, quadrant: I32x4, r: F32x4) -> F32x4 {
        let [one, minus_half] = [1.0, -0.5].map(|v| self.splat(v));
        let [none, first, second] = [0, 1, 2].map(|bit| self.splat_i32(bit));
        let square = self.mul(r, r);
        let sine = emit_polynomial(self, &SIN, square);
        let cube = self.mul(square, r);
        let sine = self.fma(sine, cube, r);
        let cosine = emit_polynomial(self, &COS, square);
        let cosine = self.fma(cosine, square, minus_half);
        let cosine = self.fma(cosine, square, one);
        let is_odd = self.and_i32(quadrant, first);
        let is_even = self.equal_i32(is_odd, none);
        let wave = self.select(is_even, sine, cosine);
        let sign = self.and_i32(quadrant, second);
        let sign = self.shift_left(sign, 30);
        let wave = self.bits(wave);
        let wave = self.xor_i32(wave, sign);
        self.from_bits(wave)
    }

    fn nan_if_far(&mut self, size: F32x4, value: F32x4) -> F32x4 {
        let [far, nan] = [FAR, f32::NAN].map(|v| self.splat(v));
        let is_near = self.less(size, far);
        self.select(is_near, value, nan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the distance of `found` from `exact`, in units of the distance of two `f32` at `exact`.
    fn error(found: f32, exact: f64) -> f64 {
        /// The smallest number that is rounded to infinity.
        const INFINITE: f64 = 3.402_823_567_797_336_6e38;
        if f64::from(found) == exact || (found.is_nan() && exact.is_nan()) {
            return 0.0;
        }
        let exponent = exact.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
        let unit = (exponent.min(127.0) - 23.0).exp2();
        let bounded = exact.clamp(-INFINITE, INFINITE);
        let found =
            if found.is_infinite() { INFINITE.copysign(found.into()) } else { found.into() };
        let error = (found - bounded).abs() / unit;
        if error.is_nan() { f64::INFINITY } else { error }
    }

    /// Checks `function` for one in 20,000 of all `f32`.
    fn check(name: &str, bound: f64, function: fn(f32) -> f32, exact: fn(f64) -> f64) {
        for bits in (0..=u32::MAX).step_by(19_997) {
            let x = f32::from_bits(bits);
            let error = error(function(x), exact(f64::from(x)));
            assert!(error <= bound, "{name}({x:e}) = {:e}: {error} ulp", function(x));
        }
    }

    /// Returns `exact(x)` where the sine and the cosine are defined.
    fn near(x: f64, exact: fn(f64) -> f64) -> f64 {
        if x.abs() < f64::from(FAR) { exact(x) } else { f64::NAN }
    }

    #[test]
    fn every_function_of_one_number_is_as_exact_as_it_says() {
        check("exp", 1.1, exp, f64::exp);
        check("log", 1.0, log, f64::ln);
        check("sin", 2.0, sin, |x| near(x, f64::sin));
        check("cos", 2.0, cos, |x| near(x, f64::cos));
    }

    #[test]
    fn powers_are_as_exact_as_they_say() {
        let mut rng = crate::rng::SampleKey::new(0, 0, 0).op(0);
        for k in 0..100_000 {
            let x = match k % 2 {
                0 => f32::from_bits(rng.word() >> 1),
                // The logarithm is the least exact between powers of two.
                _ => 0.5 + rng.word() as f32 / u32::MAX as f32,
            };
            // Half of the results are within the range of f32, however large x is.
            let y = match k % 4 {
                0 => f32::from_bits(rng.word()),
                _ => (f64::from(rng.word() as i32) / 2e7 / f64::from(x).ln()) as f32,
            };
            let error = error(pow(x, y), f64::from(x).powf(f64::from(y)));
            assert!(error <= 2.0, "pow({x:e}, {y:e}) = {:e}: {error} ulp", pow(x, y));
        }
    }

    #[test]
    fn powers_of_special_values_are_those_of_c() {
        let sizes = [0.0, 1e-45, 1e-38, 0.5, 1.0, 1.5, 2.0, 3.0, 8_388_609.0, 1e38, f32::INFINITY];
        let values = sizes.into_iter().flat_map(|v| [v, -v]).chain([f32::NAN]);
        for x in values.clone() {
            for y in values.clone() {
                let (found, exact) = (pow(x, y), f64::from(x).powf(f64::from(y)));
                assert!(error(found, exact) <= 2.0, "pow({x:e}, {y:e}) = {found:e} for {exact:e}");
                assert!(found.is_nan() || found.is_sign_negative() == exact.is_sign_negative());
            }
        }
    }

    #[test]
    fn special_values_are_those_that_the_docs_state() {
        const INFINITY: f32 = f32::INFINITY;
        const NAN: f32 = f32::NAN;
        type Cases = (fn(f32) -> f32, &'static [(f32, f32)]);
        let cases: [Cases; 4] = [
            (
                exp,
                &[(0.0, 1.0), (-0.0, 1.0), (88.722_84, INFINITY), (-103.972_09, 0.0), (NAN, NAN)],
            ),
            (log, &[(0.0, -INFINITY), (-0.0, -INFINITY), (1.0, 0.0), (-1.0, NAN), (NAN, NAN)]),
            (
                sin,
                &[(0.0, 0.0), (-0.0, -0.0), (FAR, NAN), (-FAR, NAN), (INFINITY, NAN), (NAN, NAN)],
            ),
            (cos, &[(0.0, 1.0), (-0.0, 1.0), (FAR, NAN), (-FAR, NAN), (INFINITY, NAN), (NAN, NAN)]),
        ];
        for (function, cases) in cases {
            for &(x, wanted) in cases {
                assert_eq!(function(x).to_bits(), wanted.to_bits(), "{x:e}: {:e}", function(x));
            }
        }
        assert!(exp(88.722_83).is_finite() && exp(-103.972_07) > 0.0);
        assert_eq!((exp(INFINITY), exp(-INFINITY), log(INFINITY)), (INFINITY, 0.0, INFINITY));
        assert_eq!((pow(-2.0, 3.0), pow(-2.0, 2.0)), (-8.0, 4.0));
        assert_eq!(pow(-2.0, 0.5).to_bits(), NAN.to_bits());
    }
}
