//! Loops, loads and stores, in the words the other files use.

use super::super::record::{Header, Pass};
use super::hoist::{entered_from, hoist};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8X16, I16X8, I32X4, I64};
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Type, Value};
use fuseloop_ops::Emit;

/// What every address and counter needs. All loads and stores are `notrap`: the host checked
/// every address before the call.
pub(super) trait Scalars {
    fn int(&mut self, value: i64) -> Value;
    fn offset(&mut self, address: Value, bytes: i64) -> Value;
    fn plus(&mut self, a: Value, b: Value) -> Value;
    fn times(&mut self, a: Value, factor: i64) -> Value;
    fn equals(&mut self, a: Value, value: i64) -> Value;
    fn load(&mut self, ty: Type, address: Value, offset: i32) -> Value;
    fn load_mask(&mut self, address: Value, offset: i32) -> Value;
    fn load_i32(&mut self, address: Value, offset: i32) -> Value;
    fn store(&mut self, value: Value, address: Value, offset: i32);
    fn header(&mut self, word: Header) -> Value;
    fn pass_word(&mut self, pass: i32, word: Pass) -> Value;
    fn pshufb(&mut self, bytes: Value, mask: Value) -> Value;
    fn shuffle(&mut self, a: Value, b: Value, mask: [u8; 16]) -> Value;
    fn multiply_high(&mut self, a: Value, b: Value) -> Value;
    fn pair_sum(&mut self, a: Value, b: Value) -> Value;
}

/// May be anywhere, can't trap.
fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Scalars for Emit<'_, '_> {
    fn int(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(I64, value)
    }

    fn offset(&mut self, address: Value, bytes: i64) -> Value {
        self.builder.ins().iadd_imm_s(address, bytes)
    }

    fn plus(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().iadd(a, b)
    }

    fn times(&mut self, a: Value, factor: i64) -> Value {
        match factor {
            1 => a,
            2 | 4 | 8 | 16 => self.builder.ins().ishl_imm_u(a, i64::from(factor.trailing_zeros())),
            _ => self.builder.ins().imul_imm_s(a, factor),
        }
    }

    fn equals(&mut self, a: Value, value: i64) -> Value {
        let value = self.int(value);
        self.builder.ins().icmp(IntCC::Equal, a, value)
    }

    fn load(&mut self, ty: Type, address: Value, offset: i32) -> Value {
        self.builder.ins().load(ty, plain(), address, offset)
    }

    /// A shuffle, which never changes: may be loaded once for many turns.
    fn load_mask(&mut self, address: Value, offset: i32) -> Value {
        self.builder.ins().load(I8X16, plain().with_readonly(), address, offset)
    }

    fn load_i32(&mut self, address: Value, offset: i32) -> Value {
        self.builder.ins().sload32(plain(), address, offset)
    }

    fn store(&mut self, value: Value, address: Value, offset: i32) {
        self.builder.ins().store(plain(), value, address, offset);
    }

    fn header(&mut self, word: Header) -> Value {
        self.builder.ins().load(I64, plain(), self.record, 8 * word as i32)
    }

    fn pass_word(&mut self, pass: i32, word: Pass) -> Value {
        self.builder.ins().load(I64, plain(), self.record, pass + 8 * word as i32)
    }

    /// Byte `i` of the result is `bytes[mask[i]]`, or 0 where the mask's top bit is set.
    fn pshufb(&mut self, bytes: Value, mask: Value) -> Value {
        if self.x86 {
            self.builder.ins().x86_pshufb(bytes, mask)
        } else {
            self.builder.ins().swizzle(bytes, mask)
        }
    }

    /// Byte `i` of the result is byte `mask[i]` of `a` and `b` put together.
    fn shuffle(&mut self, a: Value, b: Value, mask: [u8; 16]) -> Value {
        let (a, b) = (self.cast(I8X16, a), self.cast(I8X16, b));
        let mask = self.builder.func.dfg.immediates.push(mask.as_slice().into());
        self.builder.ins().shuffle(a, b, mask)
    }

    /// `(a * b + 2^14) >> 15` of `i16`; not for -1 times -1, where the two differ.
    fn multiply_high(&mut self, a: Value, b: Value) -> Value {
        if self.x86 {
            self.builder.ins().x86_pmulhrsw(a, b)
        } else {
            self.builder.ins().sqmul_round_sat(a, b)
        }
    }

    /// `a[2i] * b[2i] + a[2i + 1] * b[2i + 1]` of `i16`, as `i32`: the pattern of `pmaddwd`.
    fn pair_sum(&mut self, a: Value, b: Value) -> Value {
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

/// The body of a loop, which takes `counters` and what is carried, and what follows, which takes
/// what is carried.
fn loop_blocks(e: &mut Emit<'_, '_>, counters: usize, carried: &[Value]) -> (Block, Block) {
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
    e: &mut Emit<'_, '_>,
    count: Value,
    carried: &[Value],
    body: impl FnOnce(&mut Emit<'_, '_>, Value, &[Value]) -> Vec<Value>,
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
    e: &mut Emit<'_, '_>,
    last: Value,
    step: i64,
    carried: &[Value],
    body: impl FnOnce(&mut Emit<'_, '_>, Value, Value, &[Value]) -> Vec<Value>,
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
