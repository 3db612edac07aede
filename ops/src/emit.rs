//! What an op may say in compiled code: arithmetic on four pixels at a time.
//!
//! An op sees [`Pixels`], three vectors of four `f32` (one a channel), and the numbers drawn for
//! its sample, and gives `Pixels` back. What it says is recorded as a [`Program`], a list of
//! instructions; loads, stores, addresses and loops belong to the block compiler, and no
//! instruction names any. A program is checked as a whole before it is compiled, so whatever an op
//! says is safe to run.
//!
//! An op can't reach what is compiled around its own code:
//!
//! ```compile_fail
//! # use fuseloop_ops::Emit;
//! fn more_slots(e: &mut Emit) {
//!     e.slot_count = 1 << 24;
//! }
//! ```
//!
//! ```compile_fail
//! # use fuseloop_ops::Emit;
//! fn other_slots(e: &mut Emit) {
//!     e.slots = -(1 << 26);
//! }
//! ```
//!
//! ```compile_fail
//! # use fuseloop_ops::Emit;
//! fn other_record(e: &mut Emit) {
//!     e.record = e.table;
//! }
//! ```
//!
//! ```compile_fail
//! # use fuseloop_ops::Emit;
//! fn earlier_code(e: &mut Emit) {
//!     e.builder.func.dfg.clear_block_params(e.builder.current_block().unwrap());
//! }
//! ```
//!
//! ```compile_fail
//! # use fuseloop_ops::{Emit, F32x4};
//! fn a_value_of_its_own(e: &mut Emit) {
//!     e.sqrt(F32x4(7));
//! }
//! ```
//!
//! ```compile_fail
//! # use fuseloop_ops::{Emit, NumberRule, PixelOp};
//! fn a_recorder_of_its_own() {
//!     Emit::new(1 << 24, NumberRule::Fused, false);
//! }
//! ```

use crate::NumberRule;
use crate::program::{Binary, Instruction, Program, Shift, Unary};

/// A value of a [`Program`] that nothing defines: what an op gets for a place it did not ask for.
const UNDEFINED: u32 = u32::MAX;

/// Four `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F32x4(pub(crate) u32);

/// Four `i32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct I32x4(pub(crate) u32);

/// Four lanes that are all ones (true) or all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub(crate) u32);

/// Four pixels: a vector of four `f32` for each channel.
#[derive(Clone, Copy, Debug)]
pub struct Pixels {
    /// Red, green, blue.
    pub channels: [F32x4; 3],
}

/// Records what an op says. See [`Program`].
#[derive(Debug)]
pub struct Emit {
    instructions: Vec<Instruction>,
    /// Number of the next value.
    values: u32,
    rule: NumberRule,
    uses_place: bool,
}

/// Recording.
impl Emit {
    /// A recorder whose first values are the pixels and, if the op asked for it, the place.
    pub(crate) fn new(rule: NumberRule, uses_place: bool) -> Self {
        Self { instructions: vec![], values: Program::inputs(uses_place), rule, uses_place }
    }

    /// The instructions so far.
    pub(crate) fn into_instructions(self) -> Vec<Instruction> {
        self.instructions
    }

    /// Records an instruction, and returns the number of its first result.
    ///
    /// # Panics
    ///
    /// If the program is longer than any op needs.
    fn push(&mut self, instruction: Instruction) -> u32 {
        let most = Program::MAX_INSTRUCTIONS;
        assert!(self.instructions.len() < most, "an op's code has more than {most} instructions");
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

/// Numbers of the sample, constants and places.
impl Emit {
    /// How values are rounded between ops.
    #[must_use]
    pub fn rule(&self) -> NumberRule {
        self.rule
    }

    /// The number in the op's slot `index`, in all four lanes. A list whose op has no such slot is
    /// refused.
    pub fn slot(&mut self, index: usize) -> F32x4 {
        F32x4(self.push(Instruction::Slot(number(index))))
    }

    /// The bits of the number in the op's slot `index`, in all four lanes. A list whose op has no
    /// such slot is refused.
    pub fn slot_bits(&mut self, index: usize) -> I32x4 {
        I32x4(self.push(Instruction::SlotBits(number(index))))
    }

    /// A constant in all four lanes.
    pub fn splat(&mut self, value: f32) -> F32x4 {
        F32x4(self.push(Instruction::Splat(value.to_bits())))
    }

    /// A whole number in all four lanes.
    pub fn splat_i32(&mut self, value: i32) -> I32x4 {
        I32x4(self.push(Instruction::SplatI32(value)))
    }

    /// Row and column of the four pixels in the picture that the op gets, for an op that
    /// [uses its place](crate::PixelOp::uses_place). A list is refused if any other op uses them.
    #[must_use]
    pub fn place(&self) -> [I32x4; 2] {
        let first = Program::inputs(false);
        if self.uses_place { [first, first + 1].map(I32x4) } else { [I32x4(UNDEFINED); 2] }
    }
}

/// Arithmetic on `f32`.
impl Emit {
    /// `a + b`.
    pub fn add(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.binary(Binary::Add, a.0, b.0))
    }

    /// `a - b`.
    pub fn sub(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.binary(Binary::Sub, a.0, b.0))
    }

    /// `a * b`.
    pub fn mul(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.binary(Binary::Mul, a.0, b.0))
    }

    /// `a / b`.
    pub fn div(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.binary(Binary::Div, a.0, b.0))
    }

    /// `a * b + c`, rounded once.
    pub fn fma(&mut self, a: F32x4, b: F32x4, c: F32x4) -> F32x4 {
        F32x4(self.push(Instruction::Fma([a.0, b.0, c.0])))
    }

    /// The square root.
    pub fn sqrt(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.unary(Unary::Sqrt, a.0))
    }

    /// Towards zero to a whole number.
    pub fn trunc(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.unary(Unary::Trunc, a.0))
    }

    /// Down to a whole number.
    pub fn floor(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.unary(Unary::Floor, a.0))
    }

    /// To the nearest whole number, ties to even.
    pub fn round(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.unary(Unary::Nearest, a.0))
    }

    /// The smaller, as [`min`] has it: the pattern that becomes one `minps`.
    pub fn min(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        let below = self.less(a, b);
        self.select(below, a, b)
    }

    /// The larger, as [`max`] has it: the pattern that becomes one `maxps`.
    pub fn max(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        let above = self.less(b, a);
        self.select(above, a, b)
    }

    /// `0.0..=255.0`, as [`clamp`] has it.
    pub fn clamp(&mut self, a: F32x4) -> F32x4 {
        let (low, high) = (self.splat(0.0), self.splat(255.0));
        let a = self.min(a, high);
        self.max(a, low)
    }

    /// What an op's result becomes before the next op: see [`NumberRule`] and [`settle`].
    pub fn settle(&mut self, a: F32x4) -> F32x4 {
        match self.rule {
            NumberRule::Fused | NumberRule::Relaxed => a,
            NumberRule::Exact => self.trunc(a),
        }
    }
}

/// Comparisons and choices.
impl Emit {
    /// `a < b`; false where either is not a number.
    pub fn less(&mut self, a: F32x4, b: F32x4) -> Mask {
        Mask(self.binary(Binary::Less, a.0, b.0))
    }

    /// `a == b`; false where either is not a number.
    pub fn equal(&mut self, a: F32x4, b: F32x4) -> Mask {
        Mask(self.binary(Binary::Equal, a.0, b.0))
    }

    /// `a < b`, signed.
    pub fn less_i32(&mut self, a: I32x4, b: I32x4) -> Mask {
        Mask(self.binary(Binary::LessI32, a.0, b.0))
    }

    /// `a == b`.
    pub fn equal_i32(&mut self, a: I32x4, b: I32x4) -> Mask {
        Mask(self.binary(Binary::EqualI32, a.0, b.0))
    }

    /// True where both are.
    pub fn both(&mut self, a: Mask, b: Mask) -> Mask {
        Mask(self.binary(Binary::Both, a.0, b.0))
    }

    /// True where either is.
    pub fn either(&mut self, a: Mask, b: Mask) -> Mask {
        Mask(self.binary(Binary::Either, a.0, b.0))
    }

    /// Lane by lane `a` where `mask` is true, `b` where it is false.
    pub fn select(&mut self, mask: Mask, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.push(Instruction::Select([mask.0, a.0, b.0])))
    }

    /// `select` for all three channels.
    pub fn select_pixels(&mut self, mask: Mask, a: Pixels, b: Pixels) -> Pixels {
        self.each(b, |e, c, v| e.select(mask, a.channels[c], v))
    }

    /// What `otherwise` becomes by `change` where `mask` is true in any of the four lanes; where
    /// it is true in none, the code of `change` is jumped over. For what costs much and happens in
    /// few places; the lanes that `mask` leaves out are for `change` to keep.
    pub fn where_any(
        &mut self,
        mask: Mask,
        otherwise: Pixels,
        change: impl FnOnce(&mut Self, Pixels) -> Pixels,
    ) -> Pixels {
        let otherwise_values = otherwise.channels.map(|v| v.0);
        self.push(Instruction::Begin { mask: mask.0, otherwise: otherwise_values });
        let changed = change(self, otherwise).channels.map(|v| v.0);
        let first = self.push(Instruction::End { changed });
        Pixels { channels: [first, first + 1, first + 2].map(F32x4) }
    }
}

/// Arithmetic on `i32`, which wraps, and conversions.
impl Emit {
    /// `a + b`.
    pub fn add_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.binary(Binary::AddI32, a.0, b.0))
    }

    /// `a * b`.
    pub fn mul_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.binary(Binary::MulI32, a.0, b.0))
    }

    /// Bits of both.
    pub fn and_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.binary(Binary::AndI32, a.0, b.0))
    }

    /// Bits of one of the two.
    pub fn xor_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.binary(Binary::XorI32, a.0, b.0))
    }

    /// `a << bits`.
    pub fn shift_left(&mut self, a: I32x4, bits: u8) -> I32x4 {
        I32x4(self.push(Instruction::Shift(Shift::Left, a.0, bits)))
    }

    /// `a >> bits`, with zeros from above.
    pub fn shift_right(&mut self, a: I32x4, bits: u8) -> I32x4 {
        I32x4(self.push(Instruction::Shift(Shift::Right, a.0, bits)))
    }

    /// Towards zero to `i32`, for numbers that it can hold.
    pub fn to_i32(&mut self, a: F32x4) -> I32x4 {
        I32x4(self.unary(Unary::ToI32, a.0))
    }

    /// The nearest `f32`.
    pub fn to_f32(&mut self, a: I32x4) -> F32x4 {
        F32x4(self.unary(Unary::ToF32, a.0))
    }

    /// The bits of four `f32`.
    pub fn bits(&mut self, a: F32x4) -> I32x4 {
        I32x4(self.unary(Unary::Bits, a.0))
    }

    /// The `f32` with these bits.
    pub fn from_bits(&mut self, a: I32x4) -> F32x4 {
        F32x4(self.unary(Unary::FromBits, a.0))
    }
}

/// What several ops share.
impl Emit {
    /// Each channel times the factor in slot 0, plus `other * rest`, clamped: how contrast and
    /// saturation blend, under any rule.
    pub(crate) fn blend(&mut self, pixels: Pixels, other: F32x4, rest: F32x4) -> Pixels {
        let product = match self.rule {
            NumberRule::Fused | NumberRule::Relaxed => Some(self.mul(other, rest)),
            NumberRule::Exact => None,
        };
        self.each(pixels, |e, _, v| {
            let factor = e.slot(0);
            let v = match product {
                Some(product) => e.fma(v, factor, product),
                None => {
                    let v = e.mul(v, factor);
                    e.fma(other, rest, v)
                }
            };
            let v = e.clamp(v);
            e.settle(v)
        })
    }

    /// The grey of four pixels, as [`grey`] has it.
    pub fn grey(&mut self, pixels: Pixels) -> F32x4 {
        let [r, g, b] = pixels.channels;
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
        let mut channels = pixels.channels;
        for (c, value) in channels.iter_mut().enumerate() {
            *value = f(self, c, *value);
        }
        Pixels { channels }
    }
}

/// torchvision's weights of red, green and blue in grey. They sum to 0.9999.
pub(crate) const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

/// The grey of a pixel, as torchvision computes it on tensors:
/// `fma(b, 0.114, fma(g, 0.587, r * 0.2989))` in `f32`.
#[must_use]
pub fn grey([r, g, b]: [f32; 3]) -> f32 {
    b.mul_add(GREY[2], g.mul_add(GREY[1], r * GREY[0]))
}

/// The mean of the greys, each truncated to a whole number, as torchvision's `adjust_contrast`
/// has it. The sum is exact, so the order of the pixels does not matter.
#[must_use]
pub fn grey_mean(pixels: &[[f32; 3]]) -> f32 {
    let sum: i64 = pixels.iter().map(|p| grey(*p) as i64).sum();
    sum as f32 / pixels.len() as f32
}

/// The smaller of two numbers; `b` if neither is. What `minps` gives.
#[must_use]
pub fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// The larger of two numbers; `b` if neither is. What `maxps` gives.
#[must_use]
pub fn max(a: f32, b: f32) -> f32 {
    if b < a { a } else { b }
}

/// A value brought into `0.0..=255.0`.
#[must_use]
pub fn clamp(a: f32) -> f32 {
    max(min(a, 255.0), 0.0)
}

/// What an op's result becomes before the next op.
#[must_use]
pub fn settle(rule: NumberRule, a: f32) -> f32 {
    match rule {
        NumberRule::Fused | NumberRule::Relaxed => a,
        NumberRule::Exact => a.trunc(),
    }
}

/// An index as an instruction holds it. One that is too large is no slot of any op.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
