//! What an op may say in compiled code: arithmetic on four pixels at a time.
//!
//! An op sees [`Pixels`], three vectors of four `f32` (one a channel), and the numbers drawn for
//! its sample, and gives `Pixels` back. It touches no memory and takes no branch, so whatever it
//! says is safe to run; loads, stores and loops belong to the block compiler.
//!
//! Constants and slots are plain loads beside their use, which x86-64 folds into the instruction
//! that needs them: with sixteen vector registers that beats keeping them in registers, where
//! they would be spilled.

use crate::NumberRule;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32X4, I32X4};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FunctionBuilder;

/// Four `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F32x4(pub Value);

/// Four `i32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct I32x4(pub Value);

/// Four lanes that are all ones (true) or all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub Value);

/// Four pixels: a vector of four `f32` for each channel.
#[derive(Clone, Copy, Debug)]
pub struct Pixels {
    /// Red, green, blue.
    pub channels: [F32x4; 3],
}

/// The 16-byte constants of one kernel, each once unless [`distinct`](Self::distinct).
#[derive(Clone, Debug, Default)]
pub struct Constants {
    table: Vec<[u8; 16]>,
    distinct: bool,
}

impl Constants {
    /// Constants that are kept once for each time they are asked for: then their number and their
    /// order don't depend on which are equal.
    #[must_use]
    pub fn distinct() -> Self {
        Self { table: vec![], distinct: true }
    }

    /// The constants, in the order the code reads them.
    #[must_use]
    pub fn table(&self) -> &[[u8; 16]] {
        &self.table
    }

    /// The byte offset of the first of some constants that lie one behind the other.
    fn run(&mut self, run: &[[u8; 16]]) -> i32 {
        let found = self.table.windows(run.len()).position(|kept| kept == run);
        let index = found.unwrap_or_else(|| {
            self.table.extend_from_slice(run);
            self.table.len() - run.len()
        });
        16 * index as i32
    }

    /// The byte offset of a constant.
    fn offset(&mut self, bytes: [u8; 16]) -> i32 {
        let same = |kept: &[u8; 16]| !self.distinct && *kept == bytes;
        let found = self.table.iter().position(same);
        let index = found.unwrap_or_else(|| {
            self.table.push(bytes);
            self.table.len() - 1
        });
        16 * index as i32
    }
}

/// Writes the IR of one block.
pub struct Emit<'a, 'b> {
    /// The function being written. For the block compiler; an op has no need of it.
    pub builder: &'a mut FunctionBuilder<'b>,
    /// The constants met so far.
    pub constants: &'a mut Constants,
    /// Address of the constants.
    pub table: Value,
    /// Address of the sample's record.
    pub record: Value,
    /// Where the current op's slots begin in the record, in bytes.
    pub slots: i32,
    /// How many slots it has.
    pub slot_count: usize,
    /// How values are rounded between ops.
    pub rule: NumberRule,
    /// Row and column of the four pixels, as the current op sees them, if it asked.
    pub place: Option<[I32x4; 2]>,
    /// Whether the code is for x86-64, so that its own instructions may be used.
    pub x86: bool,
}

/// Numbers of the sample, constants and places.
impl Emit<'_, '_> {
    /// The number in the op's slot `index`, in all four lanes.
    ///
    /// # Panics
    ///
    /// If the op has no such slot.
    pub fn slot(&mut self, index: usize) -> F32x4 {
        let offset = self.slot_offset(index);
        F32x4(self.builder.ins().load(F32X4, aligned(), self.record, offset))
    }

    /// The bits of the number in the op's slot `index`, in all four lanes.
    ///
    /// # Panics
    ///
    /// If the op has no such slot.
    pub fn slot_bits(&mut self, index: usize) -> I32x4 {
        let offset = self.slot_offset(index);
        I32x4(self.builder.ins().load(I32X4, aligned(), self.record, offset))
    }

    fn slot_offset(&self, index: usize) -> i32 {
        assert!(index < self.slot_count, "slot {index} of an op that has {}", self.slot_count);
        self.slots + 16 * index as i32
    }

    /// A constant in all four lanes.
    pub fn splat(&mut self, value: f32) -> F32x4 {
        F32x4(self.constant(F32X4, splat_bytes(value.to_le_bytes())))
    }

    /// A whole number in all four lanes.
    pub fn splat_i32(&mut self, value: i32) -> I32x4 {
        I32x4(self.constant(I32X4, splat_bytes(value.to_le_bytes())))
    }

    /// Sixteen bytes as a vector of type `ty`. For the block compiler.
    pub fn constant(&mut self, ty: Type, bytes: [u8; 16]) -> Value {
        let offset = self.constants.offset(bytes);
        self.builder.ins().load(ty, aligned(), self.table, offset)
    }

    /// The address of constants that lie one behind the other. For the block compiler.
    pub fn constants_at(&mut self, run: &[[u8; 16]]) -> Value {
        let offset = self.constants.run(run);
        self.builder.ins().iadd_imm_s(self.table, i64::from(offset))
    }

    /// Row and column of the four pixels in the picture that the op gets, for an op that
    /// [uses its place](crate::PixelOp::uses_place).
    ///
    /// # Panics
    ///
    /// For any other op.
    pub fn place(&self) -> [I32x4; 2] {
        self.place.expect("only an op that says so knows its place")
    }
}

/// Arithmetic on `f32`.
impl Emit<'_, '_> {
    /// `a + b`.
    pub fn add(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.builder.ins().fadd(a.0, b.0))
    }

    /// `a - b`.
    pub fn sub(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.builder.ins().fsub(a.0, b.0))
    }

    /// `a * b`.
    pub fn mul(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.builder.ins().fmul(a.0, b.0))
    }

    /// `a / b`.
    pub fn div(&mut self, a: F32x4, b: F32x4) -> F32x4 {
        F32x4(self.builder.ins().fdiv(a.0, b.0))
    }

    /// `a * b + c`, rounded once.
    pub fn fma(&mut self, a: F32x4, b: F32x4, c: F32x4) -> F32x4 {
        F32x4(self.builder.ins().fma(a.0, b.0, c.0))
    }

    /// The square root.
    pub fn sqrt(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.builder.ins().sqrt(a.0))
    }

    /// Towards zero to a whole number.
    pub fn trunc(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.builder.ins().trunc(a.0))
    }

    /// Down to a whole number.
    pub fn floor(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.builder.ins().floor(a.0))
    }

    /// To the nearest whole number, ties to even.
    pub fn round(&mut self, a: F32x4) -> F32x4 {
        F32x4(self.builder.ins().nearest(a.0))
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
impl Emit<'_, '_> {
    /// `a < b`; false where either is not a number.
    pub fn less(&mut self, a: F32x4, b: F32x4) -> Mask {
        Mask(self.builder.ins().fcmp(FloatCC::LessThan, a.0, b.0))
    }

    /// `a == b`; false where either is not a number.
    pub fn equal(&mut self, a: F32x4, b: F32x4) -> Mask {
        Mask(self.builder.ins().fcmp(FloatCC::Equal, a.0, b.0))
    }

    /// `a < b`, signed.
    pub fn less_i32(&mut self, a: I32x4, b: I32x4) -> Mask {
        Mask(self.builder.ins().icmp(IntCC::SignedLessThan, a.0, b.0))
    }

    /// `a == b`.
    pub fn equal_i32(&mut self, a: I32x4, b: I32x4) -> Mask {
        Mask(self.builder.ins().icmp(IntCC::Equal, a.0, b.0))
    }

    /// True where both are.
    pub fn both(&mut self, a: Mask, b: Mask) -> Mask {
        let (a, b) = (self.cast(I32X4, a.0), self.cast(I32X4, b.0));
        Mask(self.builder.ins().band(a, b))
    }

    /// True where either is.
    pub fn either(&mut self, a: Mask, b: Mask) -> Mask {
        let (a, b) = (self.cast(I32X4, a.0), self.cast(I32X4, b.0));
        Mask(self.builder.ins().bor(a, b))
    }

    /// Lane by lane `a` where `mask` is true, `b` where it is false.
    pub fn select(&mut self, mask: Mask, a: F32x4, b: F32x4) -> F32x4 {
        let mask = self.cast(F32X4, mask.0);
        F32x4(self.builder.ins().bitselect(mask, a.0, b.0))
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
        let (run, done) = (self.builder.create_block(), self.builder.create_block());
        let result = [0; 3].map(|_| self.builder.append_block_param(done, F32X4));
        let mask = self.cast(I32X4, mask.0);
        let any = self.builder.ins().vany_true(mask);
        let unchanged = otherwise.channels.map(|v| v.0.into());
        self.builder.ins().brif(any, run, &[], done, &unchanged);
        self.builder.switch_to_block(run);
        let changed = change(self, otherwise).channels.map(|v| v.0.into());
        self.builder.ins().jump(done, &changed);
        self.builder.switch_to_block(done);
        Pixels { channels: result.map(F32x4) }
    }
}

/// Arithmetic on `i32`, which wraps, and conversions.
impl Emit<'_, '_> {
    /// `a + b`.
    pub fn add_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.builder.ins().iadd(a.0, b.0))
    }

    /// `a * b`.
    pub fn mul_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.builder.ins().imul(a.0, b.0))
    }

    /// Bits of both.
    pub fn and_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.builder.ins().band(a.0, b.0))
    }

    /// Bits of one of the two.
    pub fn xor_i32(&mut self, a: I32x4, b: I32x4) -> I32x4 {
        I32x4(self.builder.ins().bxor(a.0, b.0))
    }

    /// `a << bits`.
    pub fn shift_left(&mut self, a: I32x4, bits: u8) -> I32x4 {
        I32x4(self.builder.ins().ishl_imm_u(a.0, i64::from(bits)))
    }

    /// `a >> bits`, with zeros from above.
    pub fn shift_right(&mut self, a: I32x4, bits: u8) -> I32x4 {
        I32x4(self.builder.ins().ushr_imm_u(a.0, i64::from(bits)))
    }

    /// Towards zero to `i32`, for numbers that it can hold.
    pub fn to_i32(&mut self, a: F32x4) -> I32x4 {
        I32x4(if self.x86 {
            self.builder.ins().x86_cvtt2dq(I32X4, a.0)
        } else {
            self.builder.ins().fcvt_to_sint_sat(I32X4, a.0)
        })
    }

    /// The nearest `f32`.
    pub fn to_f32(&mut self, a: I32x4) -> F32x4 {
        F32x4(self.builder.ins().fcvt_from_sint(F32X4, a.0))
    }

    /// The bits of four `f32`.
    pub fn bits(&mut self, a: F32x4) -> I32x4 {
        I32x4(self.cast(I32X4, a.0))
    }

    /// The `f32` with these bits.
    pub fn from_bits(&mut self, a: I32x4) -> F32x4 {
        F32x4(self.cast(F32X4, a.0))
    }

    /// The same sixteen bytes as another vector type. For the block compiler.
    pub fn cast(&mut self, ty: Type, a: Value) -> Value {
        if self.builder.func.dfg.value_type(a) == ty {
            return a;
        }
        let little = MemFlagsData::new().with_endianness(Endianness::Little);
        self.builder.ins().bitcast(ty, little, a)
    }
}

/// What several ops share.
impl Emit<'_, '_> {
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

/// A load or store that can't trap, from an address that is a multiple of 16.
fn aligned() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_aligned()
}

fn splat_bytes(lane: [u8; 4]) -> [u8; 16] {
    std::array::from_fn(|i| lane[i % 4])
}
