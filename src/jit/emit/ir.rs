//! Loops, loads and stores, in the words the other files use.

use super::super::record::{Header, Pass};
use super::constants::Constants;
use super::hoist::{entered_from, hoist};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32X4, I8X16, I16X8, I32X4, I64};
use cranelift_codegen::ir::{Block, Endianness, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FunctionBuilder;

/// A block's function as it is written. Ops never see it: what they record is lowered into it.
pub(crate) struct Code<'a, 'b> {
    pub(crate) builder: &'a mut FunctionBuilder<'b>,
    /// The constants met so far.
    pub(crate) constants: &'a mut Constants,
    /// Address of the constants.
    pub(crate) table: Value,
    /// Address of the sample's record.
    pub(crate) record: Value,
    /// Whether the code is for x86-64, so that its own instructions may be used.
    pub(crate) x86: bool,
}

/// May be anywhere, can't trap.
fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// A load that can't trap, from an address that is a multiple of 16.
fn aligned() -> MemFlagsData {
    plain().with_aligned()
}

/// What every address and counter needs. All loads and stores are `notrap`: the host checked
/// every address before the call.
impl Code<'_, '_> {
    pub(super) fn int(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(I64, value)
    }

    pub(super) fn offset(&mut self, address: Value, bytes: i64) -> Value {
        self.builder.ins().iadd_imm_s(address, bytes)
    }

    pub(super) fn plus(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().iadd(a, b)
    }

    pub(super) fn times(&mut self, a: Value, factor: i64) -> Value {
        match factor {
            1 => a,
            2 | 4 | 8 | 16 => self.builder.ins().ishl_imm_u(a, i64::from(factor.trailing_zeros())),
            _ => self.builder.ins().imul_imm_s(a, factor),
        }
    }

    pub(super) fn equals(&mut self, a: Value, value: i64) -> Value {
        let value = self.int(value);
        self.builder.ins().icmp(IntCC::Equal, a, value)
    }

    pub(super) fn load(&mut self, ty: Type, address: Value, offset: i32) -> Value {
        self.builder.ins().load(ty, plain(), address, offset)
    }

    /// A shuffle, which never changes: may be loaded once for many turns.
    pub(super) fn load_mask(&mut self, address: Value, offset: i32) -> Value {
        self.builder.ins().load(I8X16, plain().with_readonly(), address, offset)
    }

    pub(super) fn load_i32(&mut self, address: Value, offset: i32) -> Value {
        self.builder.ins().sload32(plain(), address, offset)
    }

    pub(super) fn store(&mut self, value: Value, address: Value, offset: i32) {
        self.builder.ins().store(plain(), value, address, offset);
    }

    pub(super) fn header(&mut self, word: Header) -> Value {
        self.builder.ins().load(I64, plain(), self.record, 8 * word as i32)
    }

    pub(super) fn pass_word(&mut self, pass: i32, word: Pass) -> Value {
        self.builder.ins().load(I64, plain(), self.record, pass + 8 * word as i32)
    }

    /// Byte `i` of the result is `bytes[mask[i]]`, or 0 where the mask's top bit is set.
    pub(super) fn pshufb(&mut self, bytes: Value, mask: Value) -> Value {
        if self.x86 {
            self.builder.ins().x86_pshufb(bytes, mask)
        } else {
            self.builder.ins().swizzle(bytes, mask)
        }
    }

    /// Byte `i` of the result is byte `mask[i]` of `a` and `b` put together.
    pub(super) fn shuffle(&mut self, a: Value, b: Value, mask: [u8; 16]) -> Value {
        let (a, b) = (self.cast(I8X16, a), self.cast(I8X16, b));
        let mask = self.builder.func.dfg.immediates.push(mask.as_slice().into());
        self.builder.ins().shuffle(a, b, mask)
    }

    /// `(a * b + 2^14) >> 15` of `i16`; not for -1 times -1, where the two differ.
    pub(super) fn multiply_high(&mut self, a: Value, b: Value) -> Value {
        if self.x86 {
            self.builder.ins().x86_pmulhrsw(a, b)
        } else {
            self.builder.ins().sqmul_round_sat(a, b)
        }
    }

    /// `a[2i] * b[2i] + a[2i + 1] * b[2i + 1]` of `i16`, as `i32`: the pattern of `pmaddwd`.
    pub(super) fn pair_sum(&mut self, a: Value, b: Value) -> Value {
        let (a, b) = (self.cast(I16X8, a), self.cast(I16X8, b));
        let ins = &mut self.builder;
        let (a_low, b_low) = (ins.ins().swiden_low(a), ins.ins().swiden_low(b));
        let (a_high, b_high) = (ins.ins().swiden_high(a), ins.ins().swiden_high(b));
        let low = ins.ins().imul(a_low, b_low);
        let high = ins.ins().imul(a_high, b_high);
        debug_assert_eq!(ins.func.dfg.value_type(low), I32X4);
        ins.ins().iadd_pairwise(low, high)
    }
}

/// Constants, numbers of the sample, and the arithmetic that the block compiler does itself.
/// Constants and slots are plain loads beside their use, which x86-64 folds into the instruction
/// that needs them: with sixteen vector registers that beats keeping them in registers, where
/// they would be spilled.
impl Code<'_, '_> {
    /// Sixteen bytes as a vector of type `ty`.
    pub(super) fn constant(&mut self, ty: Type, bytes: [u8; 16]) -> Value {
        let offset = self.constants.offset(bytes);
        self.builder.ins().load(ty, aligned(), self.table, offset)
    }

    /// The address of constants that lie one behind the other.
    pub(super) fn constants_at(&mut self, run: &[[u8; 16]]) -> Value {
        let offset = self.constants.run(run);
        self.builder.ins().iadd_imm_s(self.table, i64::from(offset))
    }

    /// The `f32` with these bits in all four lanes.
    pub(super) fn splat_bits(&mut self, bits: u32) -> Value {
        self.constant(F32X4, splat_bytes(bits.to_le_bytes()))
    }

    /// A whole number in all four lanes.
    pub(super) fn splat_i32(&mut self, value: i32) -> Value {
        self.constant(I32X4, splat_bytes(value.to_le_bytes()))
    }

    /// A slot's vector at an offset in the record.
    pub(super) fn slot(&mut self, ty: Type, offset: i32) -> Value {
        self.builder.ins().load(ty, aligned(), self.record, offset)
    }

    /// The same sixteen bytes as another vector type.
    pub(super) fn cast(&mut self, ty: Type, a: Value) -> Value {
        if self.builder.func.dfg.value_type(a) == ty {
            return a;
        }
        let little = MemFlagsData::new().with_endianness(Endianness::Little);
        self.builder.ins().bitcast(ty, little, a)
    }

    /// Lane by lane `a` where `mask` is all ones, `b` where it is zeros.
    pub(super) fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        let mask = self.cast(F32X4, mask);
        self.builder.ins().bitselect(mask, a, b)
    }

    /// Towards zero to `i32`, for numbers that it can hold.
    pub(super) fn i32_of(&mut self, a: Value) -> Value {
        if self.x86 {
            self.builder.ins().x86_cvtt2dq(I32X4, a)
        } else {
            self.builder.ins().fcvt_to_sint_sat(I32X4, a)
        }
    }

    /// Clamped to 0..=255 as [`clamp`](fuseloop_ops::clamp) has it, and rounded half to even.
    pub(super) fn level(&mut self, a: Value) -> Value {
        let (low, high) = (self.splat_bits(0f32.to_bits()), self.splat_bits(255f32.to_bits()));
        let below = self.builder.ins().fcmp(FloatCC::LessThan, a, high);
        let a = self.select(below, a, high);
        let above = self.builder.ins().fcmp(FloatCC::LessThan, low, a);
        let a = self.select(above, a, low);
        self.builder.ins().nearest(a)
    }
}

fn splat_bytes(lane: [u8; 4]) -> [u8; 16] {
    std::array::from_fn(|i| lane[i % 4])
}

/// The body of a loop, which takes `counters` and what is carried, and what follows, which takes
/// what is carried.
fn loop_blocks(e: &mut Code<'_, '_>, counters: usize, carried: &[Value]) -> (Block, Block) {
    let (turn, done) = (e.builder.create_block(), e.builder.create_block());
    for _ in 0..counters {
        e.builder.append_block_param(turn, I64);
    }
    for value in carried {
        let ty = e.builder.func.dfg.value_type(*value);
        e.builder.append_block_param(turn, ty);
        e.builder.append_block_param(done, ty);
    }
    (turn, done)
}

/// `for i in 0..count`, with values carried from turn to turn. Gives their last.
pub(super) fn counted_loop(
    e: &mut Code<'_, '_>,
    count: Value,
    carried: &[Value],
    body: impl FnOnce(&mut Code<'_, '_>, Value, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let (turn, done) = loop_blocks(e, 1, carried);
    let zero = e.int(0);
    let first: Vec<_> = [zero].iter().chain(carried).map(|v| (*v).into()).collect();
    let skipped: Vec<_> = carried.iter().map(|v| (*v).into()).collect();
    let any = e.builder.ins().icmp(IntCC::SignedGreaterThan, count, zero);
    e.builder.ins().brif(any, turn, &first, done, &skipped);

    e.builder.switch_to_block(turn);
    let params = e.builder.block_params(turn).to_vec();
    let next = body(e, params[0], &params[1..]);
    let i = e.offset(params[0], 1);
    let again: Vec<_> = [i].iter().chain(&next).map(|v| (*v).into()).collect();
    let finished: Vec<_> = next.iter().map(|v| (*v).into()).collect();
    let more = e.builder.ins().icmp(IntCC::SignedLessThan, i, count);
    e.builder.ins().brif(more, turn, &again, done, &finished);
    e.builder.switch_to_block(done);
    e.builder.block_params(done).to_vec()
}

/// `for x in 0, step, 2 step, .. last`, where the last turn begins at `last` even if that repeats
/// part of the turn before: no turn reads or writes past the end. `last` is 0 or more. The body
/// also gets the first position no turn before has covered.
pub(super) fn overlapped_loop(
    e: &mut Code<'_, '_>,
    last: Value,
    step: i64,
    carried: &[Value],
    body: impl FnOnce(&mut Code<'_, '_>, Value, Value, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let outside = entered_from(e);
    let (turn, done) = loop_blocks(e, 2, carried);
    let zero = e.int(0);
    let first: Vec<_> = [zero, zero].iter().chain(carried).map(|v| (*v).into()).collect();
    e.builder.ins().jump(turn, &first);

    e.builder.switch_to_block(turn);
    let params = e.builder.block_params(turn).to_vec();
    let next = body(e, params[0], params[1], &params[2..]);
    let fresh = e.offset(params[1], step);
    let x = e.builder.ins().smin(fresh, last);
    let again: Vec<_> = [x, fresh].iter().chain(&next).map(|v| (*v).into()).collect();
    let finished: Vec<_> = next.iter().map(|v| (*v).into()).collect();
    let more = e.builder.ins().icmp(IntCC::SignedLessThan, params[0], last);
    e.builder.ins().brif(more, turn, &again, done, &finished);
    hoist(e, outside);
    e.builder.switch_to_block(done);
    e.builder.block_params(done).to_vec()
}
