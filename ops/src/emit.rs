//! The interface of an op to compiled code: arithmetic on several pixels at a time.
//!
//! An op receives [`Pixels`], a vector of `f32` for each channel, and the parameters drawn for its sample, and
//! returns `Pixels`. Vectors have four lanes, or 8 or 16 where loops have vectors of 256 or 512 bits, so no result may
//! depend on their number. Its calls are recorded as a [`Program`], a list of
//! instructions. Loads, stores, addresses and loops belong to the block compiler; no instruction names
//! one. A program is checked as a whole before it is compiled, so any program that an op records is
//! safe to run.
//!
//! An op cannot reach the code that is compiled around its own:
//!
//! ```compile_fail
//! # use fuseloop_ops::author::Emit;
//! fn values_that_are_not_defined(e: &mut Emit) {
//!     e.values = 1 << 24;
//! }
//! ```
//!
//! ```compile_fail
//! # use fuseloop_ops::author::Emit;
//! fn a_position_that_was_not_asked_for(e: &mut Emit) {
//!     let _ = &mut e.grant;
//! }
//! ```
//!
//! ```compile_fail
//! # use fuseloop_ops::author::Emit;
//! fn other_record(e: &mut Emit) {
//!     e.record = e.table;
//! }
//! ```
//!
//! ```compile_fail
//! # use fuseloop_ops::author::Emit;
//! fn earlier_code(e: &mut Emit) {
//!     e.builder.func.dfg.clear_block_params(e.builder.current_block().unwrap());
//! }
//! ```
//!
//! ```compile_fail
//! # use fuseloop_ops::author::{Emit, F32x4};
//! fn a_value_of_its_own(e: &mut Emit) {
//!     e.sqrt(F32x4(7));
//! }
//! ```
//!
//! ```compile_fail
//! # use fuseloop_ops::author::Emit;
//! fn a_recorder_of_its_own() {
//!     let _ = Emit::new;
//! }
//! ```

use crate::NumberRule;
use crate::program::{Binary, ChannelValues, Grant, Instruction, Program, ShiftDirection, Unary};
use crate::shape::{MAX_CHANNELS, RGB};

/// The number of a value that no [`Program`] defines. An op gets it as the position if it did not ask
/// for one.
const UNDEFINED: u32 = u32::MAX;

/// A vector of `f32`, with a lane for each pixel. With vectors of 128 bits, these are four.
///
/// ```
/// # use fuseloop_ops::author::*;
/// /// Records the mean of three vectors.
/// fn mean(e: &mut Emit, [a, b, c]: [F32x4; 3]) -> F32x4 {
///     let sum = e.add(a, b);
///     let sum = e.add(sum, c);
///     let third = e.splat(1.0 / 3.0);
///     e.mul(sum, third)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F32x4(pub(crate) u32);

/// A vector of `i32`, with as many lanes as [`F32x4`].
///
/// ```
/// # use fuseloop_ops::author::*;
/// /// Records the number of the checkerboard's colour at each pixel: 0 or 1.
/// fn checkerboard(e: &mut Emit) -> I32x4 {
///     let [row, column] = e.position();
///     let (sum, one) = (e.add_i32(row, column), e.splat_i32(1));
///     e.and_i32(sum, one)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct I32x4(pub(crate) u32);

/// A truth value for each lane.
///
/// ```
/// # use fuseloop_ops::author::*;
/// /// Records white for levels above 128, and the level itself for all others.
/// fn blown_out(e: &mut Emit, level: F32x4) -> F32x4 {
///     let (limit, white) = (e.splat(128.0), e.splat(255.0));
///     let is_bright: Mask = e.less(limit, level);
///     e.select(is_bright, white, level)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub(crate) u32);

/// The pixels of all lanes: a vector of `f32` for each of 1 to 4 channels.
///
/// Pixels of a known number of channels are made from an array: `Pixels::from([red, green, blue])`.
///
/// ```
/// # use fuseloop_ops::author::*;
/// /// Swaps red and blue, and leaves images that have no colours as they are.
/// fn swapped(pixels: Pixels) -> Pixels {
///     pixels.rgb().map_or(pixels, |[red, green, blue]| Pixels::from([blue, green, red]))
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pixels {
    vectors: [F32x4; MAX_CHANNELS],
    count: usize,
}

impl Pixels {
    /// Returns the vector of each channel.
    #[must_use]
    pub fn channels(&self) -> &[F32x4] {
        &self.vectors[..self.count]
    }

    /// Returns the vectors of red, green and blue; `None` if the image does not have three channels. An op
    /// that needs colours refuses such images in [`output`](crate::author::Op::output), or leaves them as they
    /// are.
    #[must_use]
    pub fn rgb(&self) -> Option<[F32x4; RGB]> {
        self.channels().try_into().ok()
    }

    /// Returns pixels of as many channels, which all have the same values.
    #[must_use]
    pub fn filled(self, value: F32x4) -> Self {
        Self { vectors: [value; MAX_CHANNELS], ..self }
    }

    /// Returns pixels whose channels are these, by index: 1 to 4.
    pub(crate) fn selected(self, channels: &[u16]) -> Self {
        let values: Vec<u32> =
            channels.iter().map(|c| self.channels()[usize::from(*c)].0).collect();
        Self::of_values(&values)
    }

    /// Builds pixels from the indices of their values: 1 to 4.
    pub(crate) fn of_values(values: &[u32]) -> Self {
        let mut vectors = [F32x4(0); MAX_CHANNELS];
        for (vector, value) in vectors.iter_mut().zip(values) {
            *vector = F32x4(*value);
        }
        Self { vectors, count: values.len() }
    }

    /// Returns the indices of the values.
    pub(crate) fn values(&self) -> ChannelValues {
        let mut values = [0; MAX_CHANNELS];
        for (value, vector) in values.iter_mut().zip(self.channels()) {
            *value = vector.0;
        }
        ChannelValues::new(&values[..self.count])
    }
}

impl<const N: usize> From<[F32x4; N]> for Pixels {
    fn from(channels: [F32x4; N]) -> Self {
        const { assert!(1 <= N && N <= MAX_CHANNELS, "an image has 1 to 4 channels") };
        let mut vectors = [channels[0]; MAX_CHANNELS];
        vectors[..N].copy_from_slice(&channels);
        Self { vectors, count: N }
    }
}

/// Records the instructions of an op. See [`Program`].
///
/// ```
/// # use fuseloop_ops::author::*;
/// /// The compiled form of an op that doubles each value and adds 1.
/// fn emit(e: &mut Emit, pixels: Pixels) -> Pixels {
///     let (two, one) = (e.splat(2.0), e.splat(1.0));
///     e.each(pixels, |e, _channel, value| {
///         let value = e.mul(value, two);
///         let value = e.apply_rule(value);
///         let value = e.add(value, one);
///         e.apply_rule(value)
///     })
/// }
/// ```
#[derive(Debug)]
pub struct Emit {
    instructions: Vec<Instruction>,
    /// The number of the next value.
    values: u32,
    grant: Grant,
}

/// Methods that record instructions.
impl Emit {
    /// Builds a recorder whose first values are the pixels and, if the op asked for it, their position.
    pub(crate) fn new(grant: Grant) -> Self {
        Self { instructions: vec![], values: grant.inputs(), grant }
    }

    /// Returns the recorded instructions.
    pub(crate) fn into_instructions(self) -> Vec<Instruction> {
        self.instructions
    }

    /// Records an instruction, and returns the number of its first result.
    ///
    /// # Panics
    ///
    /// If the program has more than [`Program::MAX_INSTRUCTIONS`] instructions, which no sensible op
    /// needs.
    fn push(&mut self, instruction: Instruction) -> u32 {
        let most = Program::MAX_INSTRUCTIONS;
        assert!(self.instructions.len() < most, "an op recorded more than {most} instructions");
        let first = self.values;
        self.values += instruction.results();
        self.instructions.push(instruction);
        first
    }

    fn unary(&mut self, operation: Unary, a: u32) -> u32 {
        self.push(Instruction::Unary(operation, a))
    }

    fn binary(&mut self, operation: Binary, a: u32, b: u32) -> u32 {
        self.push(Instruction::Binary(operation, [a, b]))
    }
}

/// Drawn parameters, constants, and the position of the pixels.
impl Emit {
    /// Returns the rule by which values are rounded between ops.
    #[must_use]
    pub fn rule(&self) -> NumberRule {
        self.grant.rule
    }

    /// Returns the op's drawn parameter `index`, in all lanes. A list of ops is rejected if the op
    /// has no such parameter.
    pub fn param(&mut self, index: usize) -> F32x4 {
        F32x4(self.push(Instruction::Param(number(index))))
    }

    /// Returns the bits of the op's drawn parameter `index`, in all lanes. A list of ops is
    /// rejected if the op has no such parameter.
    pub fn param_bits(&mut self, index: usize) -> I32x4 {
        I32x4(self.push(Instruction::ParamBits(number(index))))
    }

    /// Returns a constant in all lanes.
    pub fn splat(&mut self, value: f32) -> F32x4 {
        F32x4(self.push(Instruction::Splat(value.to_bits())))
    }

    /// Returns an integer constant in all lanes.
    pub fn splat_i32(&mut self, value: i32) -> I32x4 {
        I32x4(self.push(Instruction::SplatI32(value)))
    }

    /// Returns the row and column of the pixels in the image that the op receives, for an op that
    /// [uses the position](crate::author::PixelOp::uses_position). A list of ops is rejected if any other op uses
    /// these values.
    #[must_use]
    pub fn position(&self) -> [I32x4; 2] {
        let first = number(self.grant.channels);
        let [row, column] =
            if self.grant.uses_position { [first, first + 1] } else { [UNDEFINED; 2] };
        [I32x4(row), I32x4(column)]
    }
}

/// Arithmetic on `f32`.
impl Emit {
    /// Returns `a + b`.
    pub fn add(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.binary(Binary::Add, a.0, b.0))
    }

    /// Returns `a - b`.
    pub fn sub(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.binary(Binary::Sub, a.0, b.0))
    }

    /// Returns `a * b`.
    pub fn mul(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.binary(Binary::Mul, a.0, b.0))
    }

    /// Returns `a / b`.
    pub fn div(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.binary(Binary::Div, a.0, b.0))
    }

    /// Returns `a * b + c`, rounded once.
    pub fn fma(&mut self, a: F32x4, b: F32x4, c: F32x4) -> F32x4 {
        F32x4(self.push(Instruction::Fma([a.0, b.0, c.0])))
    }

    /// Returns the square root.
    pub fn sqrt(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.unary(Unary::Sqrt, a.0))
    }

    /// Rounds towards zero to an integer.
    pub fn trunc(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.unary(Unary::Trunc, a.0))
    }

    /// Rounds down to an integer.
    pub fn floor(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.unary(Unary::Floor, a.0))
    }

    /// Rounds to the nearest integer, ties to even.
    pub fn round(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.unary(Unary::Nearest, a.0))
    }

    /// Returns the smaller value, with the semantics of [`min`]. The code generator turns this pattern
    /// into one `minps`.
    pub fn min(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        let below = self.less(a, b);
        self.select(below, a, b)
    }

    /// Returns the larger value, with the semantics of [`max`]. The code generator turns this pattern
    /// into one `maxps`.
    pub fn max(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        let above = self.less(b, a);
        self.select(above, a, b)
    }

    /// Clamps to `0.0..=255.0`, with the semantics of [`clamp`].
    pub fn clamp(&mut self, a: F32x4) -> F32x4 {
        let (low, high) = (self.splat(0.0), self.splat(255.0));
        let a = self.min(a, high);
        self.max(a, low)
    }

    /// Rounds an op's result for the next op: see [`NumberRule`] and [`apply_rule`].
    pub fn apply_rule(&mut self, a: F32x4) -> F32x4 {
        match self.rule() {
            NumberRule::Fused | NumberRule::Relaxed => a,
            NumberRule::Exact => self.trunc(a),
        }
    }

    /// Rounds an op's result for the next op as [`apply_rule`](Self::apply_rule) does, but to the nearest whole
    /// number, ties to even.
    pub(crate) fn apply_nearest(&mut self, a: F32x4) -> F32x4 {
        match self.rule() {
            NumberRule::Fused | NumberRule::Relaxed => a,
            NumberRule::Exact => self.round(a),
        }
    }
}

/// Comparisons and choices.
impl Emit {
    /// Returns `a < b`, which is false where either is NaN.
    pub fn less(&mut self, a: F32x4, b: F32x4) -> Mask {
        Mask(self.binary(Binary::Less, a.0, b.0))
    }

    /// Returns `a == b`, which is false where either is NaN.
    pub fn equal(&mut self, a: F32x4, b: F32x4) -> Mask {
        Mask(self.binary(Binary::Equal, a.0, b.0))
    }

    /// Returns `a < b` for signed integers.
    pub fn less_i32(&mut self, a: I32x4, b: I32x4) -> Mask {
        Mask(self.binary(Binary::LessI32, a.0, b.0))
    }

    /// Returns `a == b`.
    pub fn equal_i32(&mut self, a: I32x4, b: I32x4) -> Mask {
        Mask(self.binary(Binary::EqualI32, a.0, b.0))
    }

    /// Returns true where both masks are true.
    pub fn both(&mut self, a: Mask, b: Mask) -> Mask {
        Mask(self.binary(Binary::Both, a.0, b.0))
    }

    /// Returns true where either mask is true.
    pub fn either(&mut self, a: Mask, b: Mask) -> Mask {
        Mask(self.binary(Binary::Either, a.0, b.0))
    }

    /// Returns, lane by lane, `a` where `mask` is true and `b` where it is false.
    pub fn select(&mut self, mask: Mask, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.push(Instruction::Select([mask.0, a.0, b.0])))
    }

    /// Does the same as [`select`](Self::select) for all channels. Both pixels must have as many.
    pub fn select_pixels(&mut self, mask: Mask, a: Pixels, b: Pixels) -> Pixels {
        self.each(b, |e, c, v| e.select(mask, a.channels()[c], v))
    }

    /// Returns `change` applied to `otherwise` if `mask` is true in any lane, and
    /// `otherwise` if it is true in none: the code of `change` is then skipped. This suits changes that
    /// are expensive and rarely needed. `change` itself must leave the lanes where `mask` is false
    /// unchanged.
    pub fn where_any(
        &mut self,
        mask: Mask,
        otherwise: Pixels,
        change: impl FnOnce(&mut Self, Pixels) -> Pixels,
    ) -> Pixels {
        self.push(Instruction::Begin { mask: mask.0, otherwise: otherwise.values() });
        let changed = change(self, otherwise).values();
        let first = self.push(Instruction::End { changed });
        let results: Vec<u32> = (first..).take(changed.len()).collect();
        Pixels::of_values(&results)
    }
}

/// Arithmetic on `i32`, which wraps around, and conversions.
impl Emit {
    /// Returns `a + b`.
    pub fn add_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.binary(Binary::AddI32, a.0, b.0))
    }

    /// Returns `a * b`.
    pub fn mul_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.binary(Binary::MulI32, a.0, b.0))
    }

    /// Returns the bitwise AND.
    pub fn and_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.binary(Binary::AndI32, a.0, b.0))
    }

    /// Returns the bitwise XOR.
    pub fn xor_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.binary(Binary::XorI32, a.0, b.0))
    }

    /// Returns `a << bits`.
    pub fn shift_left(&mut self, a: I32x4, bits: u8) -> I32x4 {
        I32x4(self.push(Instruction::Shift(ShiftDirection::Left, a.0, bits)))
    }

    /// Returns `a >> bits`, shifting in zeros.
    pub fn shift_right(&mut self, a: I32x4, bits: u8) -> I32x4 {
        I32x4(self.push(Instruction::Shift(ShiftDirection::Right, a.0, bits)))
    }

    /// Rounds towards zero to `i32`. The numbers must be in the range of `i32`.
    pub fn to_i32(&mut self, a: F32x4) -> I32x4 {
        I32x4(self.unary(Unary::ToI32, a.0))
    }

    /// Rounds to the nearest `f32`.
    pub fn to_f32(&mut self, a: I32x4) -> F32x4 {
        F32x4(self.unary(Unary::ToF32, a.0))
    }

    /// Returns the bits of `f32` values.
    pub fn bits(&mut self, a: F32x4) -> I32x4 {
        I32x4(self.unary(Unary::Bits, a.0))
    }

    /// Returns the `f32` with these bits.
    pub fn from_bits(&mut self, a: I32x4) -> F32x4 {
        F32x4(self.unary(Unary::FromBits, a.0))
    }
}

/// Code that several ops share.
impl Emit {
    /// Multiplies each channel by the factor in parameter 0, adds `other * rest` and clamps, under any
    /// rule. Contrast and saturation blend in this way.
    pub(crate) fn blend(&mut self, pixels: Pixels, other: F32x4, rest: F32x4) -> Pixels {
        let product = match self.rule() {
            NumberRule::Fused | NumberRule::Relaxed => Some(self.mul(other, rest)),
            NumberRule::Exact => None,
        };
        self.each(pixels, |e, _, v| {
            let factor = e.param(0);
            let v = match product {
                Some(product) => e.fma(v, factor, product),
                None => {
                    let v = e.mul(v, factor);
                    e.fma(other, rest, v)
                }
            };
            let v = e.clamp(v);
            e.apply_rule(v)
        })
    }

    /// Returns the grey of the pixels, as [`grey`] computes it.
    pub fn grey(&mut self, pixels: Pixels) -> F32x4 {
        let Some([r, g, b]) = pixels.rgb() else { return pixels.channels()[0] };
        let weights = GREY.map(|w| self.splat(w));
        let sum = self.mul(r, weights[0]);
        let sum = self.fma(g, weights[1], sum);
        self.fma(b, weights[2], sum)
    }

    /// Applies `f` to each channel.
    pub fn each(
        &mut self,
        pixels: Pixels,
        mut f: impl FnMut(&mut Self, usize, F32x4) -> F32x4,
    ) -> Pixels {
        let mut changed = pixels;
        for (c, value) in changed.vectors[..pixels.count].iter_mut().enumerate() {
            *value = f(self, c, *value);
        }
        changed
    }
}

/// torchvision's weights of red, green and blue in grey. They sum to 0.9999.
pub(crate) const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

/// Returns the grey of a pixel as torchvision computes it on tensors: of red, green and blue,
/// `fma(b, 0.114, fma(g, 0.587, r * 0.2989))` in `f32`; of other numbers of channels, the first.
#[must_use]
pub fn grey(pixel: &[f32]) -> f32 {
    match *pixel {
        [r, g, b] => b.mul_add(GREY[2], g.mul_add(GREY[1], r * GREY[0])),
        _ => pixel[0],
    }
}

/// Returns the mean of the greys, each truncated to an integer, as torchvision's `adjust_contrast`
/// does. The sum is exact, so the order of the pixels does not matter.
#[must_use]
pub fn grey_mean<'a>(pixels: impl ExactSizeIterator<Item = &'a [f32]>) -> f32 {
    let count = pixels.len();
    let sum: i64 = pixels.map(|pixel| grey(pixel) as i64).sum();
    sum as f32 / count as f32
}

/// The number of partial sums of [`root_mean_square`].
const PARTIAL_SUMS: usize = 8;

/// Returns the root of the mean of all values' squares, given the values of rows of `width` pixels.
///
/// ```text
/// sum_k = the sum of the squares of the pixels of lane k, row by row, column by column, channel by channel
/// out   = sqrt((sum_0 + sum_1 + .. + sum_7) / count)
/// ```
///
/// All of it is `f64` up to the root, which is rounded to `f32`; so no square of an `f32` overflows, and none is
/// rounded. Lane k has columns k, k + 8, k + 16 and so on; but if the width is no multiple of 8, its last columns
/// belong to the last lanes: the last column to lane 7, the one before to lane 6. Compiled code adds eight columns
/// at a time, the last eight of a row together.
#[must_use]
pub fn root_mean_square(values: &[f32], width: usize, channels: usize) -> f32 {
    let mut sums = [0f64; PARTIAL_SUMS];
    let whole = width / PARTIAL_SUMS * PARTIAL_SUMS;
    for row in values.chunks_exact(width * channels) {
        for (column, pixel) in row.chunks_exact(channels).enumerate() {
            let lane = match column < whole {
                true => column % PARTIAL_SUMS,
                false => column + PARTIAL_SUMS - width,
            };
            for v in pixel {
                sums[lane] += f64::from(*v) * f64::from(*v);
            }
        }
    }
    let sum: f64 = sums.iter().sum();
    (sum / values.len() as f64).sqrt() as f32
}

/// Returns the smaller of two numbers, or `b` if neither is smaller, as `minps` does.
#[must_use]
pub fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// Returns the larger of two numbers, or `b` if neither is larger, as `maxps` does.
#[must_use]
pub fn max(a: f32, b: f32) -> f32 {
    if b < a { a } else { b }
}

/// Clamps a value to `0.0..=255.0`.
#[must_use]
pub fn clamp(a: f32) -> f32 {
    max(min(a, 255.0), 0.0)
}

/// Rounds an op's result for the next op: truncates it under [`NumberRule::Exact`], and keeps it
/// unchanged otherwise.
#[must_use]
pub fn apply_rule(rule: NumberRule, a: f32) -> f32 {
    match rule {
        NumberRule::Fused | NumberRule::Relaxed => a,
        NumberRule::Exact => a.trunc(),
    }
}

/// Rounds an op's result for the next op as [`apply_rule`] does, but to the nearest whole number, ties to even.
pub(crate) fn apply_nearest(rule: NumberRule, a: f32) -> f32 {
    match rule {
        NumberRule::Fused | NumberRule::Relaxed => a,
        NumberRule::Exact => a.round_ties_even(),
    }
}

/// Converts an index to the form that instructions store. An index that is too large becomes one that
/// no op has.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
