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
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::types::{F32X4, I32X4};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FunctionBuilder;

/// Four pixels: a vector of four `f32` for each channel.
#[derive(Clone, Copy, Debug)]
pub struct Pixels {
    /// Red, green, blue.
    pub channels: [Value; 3],
}

/// The 16-byte constants of one kernel, each once.
#[derive(Clone, Debug, Default)]
pub struct Constants {
    table: Vec<[u8; 16]>,
}

impl Constants {
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
        let found = self.table.iter().position(|kept| *kept == bytes);
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
    /// Where the record's slots begin, in bytes.
    pub slots: i32,
    /// How values are rounded between ops.
    pub rule: NumberRule,
}

impl Emit<'_, '_> {
    /// The number in slot `index`, in all four lanes.
    pub fn slot(&mut self, index: usize) -> Value {
        let offset = self.slots + 16 * index as i32;
        self.builder.ins().load(F32X4, aligned(), self.record, offset)
    }

    /// A constant in all four lanes.
    pub fn splat(&mut self, value: f32) -> Value {
        self.constant(F32X4, splat_bytes(value.to_le_bytes()))
    }

    /// A whole number in all four lanes.
    pub fn splat_i32(&mut self, value: i32) -> Value {
        self.constant(I32X4, splat_bytes(value.to_le_bytes()))
    }

    /// Sixteen bytes as a vector of type `ty`.
    pub fn constant(&mut self, ty: Type, bytes: [u8; 16]) -> Value {
        let offset = self.constants.offset(bytes);
        self.builder.ins().load(ty, aligned(), self.table, offset)
    }

    /// The address of constants that lie one behind the other.
    pub fn constants_at(&mut self, run: &[[u8; 16]]) -> Value {
        let offset = self.constants.run(run);
        self.builder.ins().iadd_imm_s(self.table, i64::from(offset))
    }

    /// `a + b`.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().fadd(a, b)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().fsub(a, b)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().fmul(a, b)
    }

    /// `a * b + c`, rounded once.
    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.builder.ins().fma(a, b, c)
    }

    /// Towards zero to a whole number.
    pub fn trunc(&mut self, a: Value) -> Value {
        self.builder.ins().trunc(a)
    }

    /// The smaller, as [`min`] has it: the pattern that becomes one `minps`.
    pub fn min(&mut self, a: Value, b: Value) -> Value {
        let below = self.builder.ins().fcmp(FloatCC::LessThan, a, b);
        self.select(below, a, b)
    }

    /// The larger, as [`max`] has it: the pattern that becomes one `maxps`.
    pub fn max(&mut self, a: Value, b: Value) -> Value {
        let above = self.builder.ins().fcmp(FloatCC::LessThan, b, a);
        self.select(above, a, b)
    }

    /// `0.0..=255.0`, as [`clamp`] has it.
    pub fn clamp(&mut self, a: Value) -> Value {
        let (low, high) = (self.splat(0.0), self.splat(255.0));
        let a = self.min(a, high);
        self.max(a, low)
    }

    /// Lane by lane `a` where `mask` is all ones, `b` where it is zero.
    pub fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        let mask = self.cast(F32X4, mask);
        self.builder.ins().bitselect(mask, a, b)
    }

    /// The same sixteen bytes as another vector type.
    pub fn cast(&mut self, ty: Type, a: Value) -> Value {
        if self.builder.func.dfg.value_type(a) == ty {
            return a;
        }
        let little = MemFlagsData::new().with_endianness(Endianness::Little);
        self.builder.ins().bitcast(ty, little, a)
    }

    /// What an op's result becomes before the next op: see [`NumberRule`] and [`settle`].
    pub fn settle(&mut self, a: Value) -> Value {
        match self.rule {
            NumberRule::Fused => a,
            NumberRule::Exact => self.trunc(a),
        }
    }

    /// Each channel times the factor in `slot`, plus `other * rest`, clamped: how contrast and
    /// saturation blend, under either rule.
    pub(crate) fn blend(
        &mut self,
        pixels: Pixels,
        slot: usize,
        other: Value,
        rest: Value,
    ) -> Pixels {
        let product = match self.rule {
            NumberRule::Fused => Some(self.mul(other, rest)),
            NumberRule::Exact => None,
        };
        self.each(pixels, |e, _, v| {
            let factor = e.slot(slot);
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
    pub fn grey(&mut self, pixels: Pixels) -> Value {
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
        mut f: impl FnMut(&mut Self, usize, Value) -> Value,
    ) -> Pixels {
        let mut channels = pixels.channels;
        for (c, value) in channels.iter_mut().enumerate() {
            *value = f(self, c, *value);
        }
        Pixels { channels }
    }
}

/// torchvision's weights of red, green and blue in grey. They sum to 0.9999.
const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

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
        NumberRule::Fused => a,
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
