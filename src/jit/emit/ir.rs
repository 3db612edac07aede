//! Emits loops, loads and stores for the other files of this module.

use super::super::param_block::{HeaderWord, PassWord};
use super::Callee;
use super::constants::Constants;
use super::hoist::{entered_from, hoist};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32X4, F64X2, I8X16, I16X8, I32X4, I64, I64X2};
use cranelift_codegen::ir::{Block, Endianness, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FunctionBuilder;

/// The instructions that code may use, besides those that every CPU with vectors of 128 bits has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// True if it may use instructions that only x86-64 has.
    pub(crate) x86: bool,
    /// True if the CPU multiplies and adds with one rounding.
    pub(crate) fma: bool,
}

impl Target {
    /// Code for any CPU but x86-64.
    pub(crate) const PORTABLE: Self = Self { x86: false, fma: true };
}

/// A block's function while it is emitted. Ops never see it: their recorded programs are lowered into
/// it.
pub(crate) struct BlockCode<'a, 'b> {
    pub(crate) builder: &'a mut FunctionBuilder<'b>,
    /// The constants used so far.
    pub(crate) constants: &'a mut Constants,
    /// The address of the constants.
    pub(crate) table: Value,
    /// The address of the sample's parameter block.
    pub(crate) record: Value,
    /// The instructions that may be used.
    pub(crate) target: Target,
    /// True if the source's elements are floats, some of which may be NaN.
    pub(crate) is_float: bool,
}

/// Flags of an access that may be unaligned and can't trap.
fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// Flags of an access that is aligned to 16 bytes and can't trap.
fn aligned() -> MemFlagsData {
    plain().with_aligned()
}

/// Arithmetic on addresses and counters. All loads and stores are `notrap`: the host checked every
/// address before the call.
impl BlockCode<'_, '_> {
    pub(super) fn int(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(I64, value)
    }

    /// Calls a row function.
    pub(super) fn call(&mut self, callee: Callee, arguments: &[Value]) {
        match callee {
            Callee::Function(function) => {
                self.builder.ins().call(function, arguments);
            }
            Callee::Constant(signature, offset) => {
                let address = self.load(I64, self.table, offset);
                self.builder.ins().call_indirect(signature, address, arguments);
            }
        }
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

    /// Loads a shuffle. Shuffles never change, so one load may serve many iterations.
    pub(super) fn load_mask(&mut self, address: Value, offset: i32) -> Value {
        self.builder.ins().load(I8X16, plain().with_readonly(), address, offset)
    }

    pub(super) fn load_i32(&mut self, address: Value, offset: i32) -> Value {
        self.builder.ins().sload32(plain(), address, offset)
    }

    pub(super) fn store(&mut self, value: Value, address: Value, offset: i32) {
        self.builder.ins().store(plain(), value, address, offset);
    }

    pub(super) fn header(&mut self, word: HeaderWord) -> Value {
        self.builder.ins().load(I64, plain(), self.record, 8 * word as i32)
    }

    pub(super) fn pass_word(&mut self, pass: i32, word: PassWord) -> Value {
        self.builder.ins().load(I64, plain(), self.record, pass + 8 * word as i32)
    }

    /// Returns a vector whose byte `i` is `bytes[mask[i]]`, or 0 where the mask's top bit is set.
    pub(super) fn pshufb(&mut self, bytes: Value, mask: Value) -> Value {
        if self.target.x86 {
            self.builder.ins().x86_pshufb(bytes, mask)
        } else {
            self.builder.ins().swizzle(bytes, mask)
        }
    }

    /// Returns a vector whose byte `i` is byte `mask[i]` of `a` and `b` concatenated.
    pub(super) fn shuffle(&mut self, a: Value, b: Value, mask: [u8; 16]) -> Value {
        let (a, b) = (self.cast(I8X16, a), self.cast(I8X16, b));
        let mask = self.builder.func.dfg.immediates.push(mask.as_slice().into());
        self.builder.ins().shuffle(a, b, mask)
    }

    /// Returns `(a * b + 2^14) >> 15` of `i16`; not for -1 times -1, where the two instructions differ.
    pub(super) fn multiply_high(&mut self, a: Value, b: Value) -> Value {
        if self.target.x86 {
            self.builder.ins().x86_pmulhrsw(a, b)
        } else {
            self.builder.ins().sqmul_round_sat(a, b)
        }
    }

    /// Returns `a[2i] * b[2i] + a[2i + 1] * b[2i + 1]` of `i16`, as `i32`: the pattern of `pmaddwd`.
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

/// Constants, op parameters, and the arithmetic that the block compiler does itself. Constants and op
/// parameters are plain loads next to their use, which x86-64 folds into the instruction that needs
/// them: with sixteen vector registers that is faster than holding them in registers, where they would
/// be spilled.
impl BlockCode<'_, '_> {
    /// Loads sixteen constant bytes as a vector of type `ty`.
    pub(super) fn constant(&mut self, ty: Type, bytes: [u8; 16]) -> Value {
        let offset = self.constants.offset(bytes);
        self.builder.ins().load(ty, aligned(), self.table, offset)
    }

    /// Returns the address of consecutive constants.
    pub(super) fn constants_at(&mut self, run: &[[u8; 16]]) -> Value {
        let offset = self.constants.run(run);
        self.builder.ins().iadd_imm_s(self.table, i64::from(offset))
    }

    /// Returns the `f32` with these bits in all four lanes.
    pub(super) fn splat_bits(&mut self, bits: u32) -> Value {
        self.constant(F32X4, splat_bytes(bits.to_le_bytes()))
    }

    /// Returns an integer in all four lanes.
    pub(super) fn splat_i32(&mut self, value: i32) -> Value {
        self.constant(I32X4, splat_bytes(value.to_le_bytes()))
    }

    /// Loads the vector of an op parameter from an offset in the parameter block.
    pub(super) fn param(&mut self, ty: Type, offset: i32) -> Value {
        self.builder.ins().load(ty, aligned(), self.record, offset)
    }

    /// Reinterprets sixteen bytes as another vector type.
    pub(super) fn cast(&mut self, ty: Type, a: Value) -> Value {
        if self.builder.func.dfg.value_type(a) == ty {
            return a;
        }
        let little = MemFlagsData::new().with_endianness(Endianness::Little);
        self.builder.ins().bitcast(ty, little, a)
    }

    /// Returns `a * b + c`, rounded once.
    pub(super) fn multiply_add(&mut self, operands: [Value; 3]) -> Value {
        if self.target.fma {
            let [a, b, c] = operands;
            return self.builder.ins().fma(a, b, c);
        }
        let [low, high] = [false, true].map(|high| {
            let [a, b, c] = operands.map(|v| {
                let order = std::array::from_fn(|i| if high { 8 + i as u8 % 8 } else { i as u8 });
                let pair = if high { self.shuffle(v, v, order) } else { v };
                let pair = self.cast(F32X4, pair);
                self.builder.ins().fvpromote_low(pair)
            });
            self.multiply_add_pair(a, b, c)
        });
        let both = std::array::from_fn(|i| if i < 8 { i } else { i + 8 } as u8);
        let both = self.shuffle(low, high, both);
        self.cast(F32X4, both)
    }

    /// Does the same for two numbers that `f64` holds, on a CPU without the instruction. The product is exact; the sum
    /// is rounded to odd, so that the second rounding, to `f32`, gives what a single one would.
    fn multiply_add_pair(&mut self, a: Value, b: Value, c: Value) -> Value {
        let (zero, one) = (self.constant(F64X2, [0; 16]), self.constant(I64X2, ONES));
        let ins = &mut self.builder;
        let product = ins.ins().fmul(a, b);
        let sum = ins.ins().fadd(product, c);
        // The sum's error, which is exact (Knuth). It is NaN, and compares as false, where the sum is no finite number.
        let second = ins.ins().fsub(sum, product);
        let first = ins.ins().fsub(sum, second);
        let (first, second) = (ins.ins().fsub(product, first), ins.ins().fsub(c, second));
        let error = ins.ins().fadd(first, second);
        let side = ins.ins().fmul(error, sum);
        // True, and -1, where the sum was rounded away from zero.
        let is_beyond = ins.ins().fcmp(FloatCC::LessThan, side, zero);
        let is_below = ins.ins().fcmp(FloatCC::LessThan, zero, side);
        let is_rounded = ins.ins().bor(is_beyond, is_below);
        let odd = ins.ins().band(is_rounded, one);
        let sum = self.cast(I64X2, sum);
        let truncated = self.builder.ins().iadd(sum, is_beyond);
        let odd = self.builder.ins().bor(truncated, odd);
        let odd = self.cast(F64X2, odd);
        self.builder.ins().fvdemote(odd)
    }

    /// Selects, lane by lane, `a` where `mask` is all ones and `b` where it is zeros.
    pub(super) fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        let mask = self.cast(F32X4, mask);
        self.builder.ins().bitselect(mask, a, b)
    }

    /// Truncates to `i32`, for numbers in the range of `i32`.
    pub(super) fn i32_of(&mut self, a: Value) -> Value {
        if self.target.x86 {
            self.builder.ins().x86_cvtt2dq(I32X4, a)
        } else {
            self.builder.ins().fcvt_to_sint_sat(I32X4, a)
        }
    }

    /// Clamps to 0..=255 as [`clamp`](fuseloop_ops::author::clamp) does, and rounds half to even. If the
    /// source has floats, NaN becomes 0.
    pub(super) fn level(&mut self, a: Value) -> Value {
        let (low, high) = (self.splat_bits(0f32.to_bits()), self.splat_bits(255f32.to_bits()));
        let a = if self.is_float { self.at_least(a, low) } else { a };
        let below = self.builder.ins().fcmp(FloatCC::LessThan, a, high);
        let a = self.select(below, a, high);
        let a = if self.is_float { a } else { self.at_least(a, low) };
        self.builder.ins().nearest(a)
    }

    /// Returns the larger of two numbers, and `low` for NaN.
    fn at_least(&mut self, a: Value, low: Value) -> Value {
        let above = self.builder.ins().fcmp(FloatCC::LessThan, low, a);
        self.select(above, a, low)
    }
}

/// The integer 1 in two lanes.
const ONES: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];

fn splat_bytes(lane: [u8; 4]) -> [u8; 16] {
    std::array::from_fn(|i| lane[i % 4])
}

/// Creates the block of a loop's body, which takes `counters` and the carried values, and the block
/// after the loop, which takes the carried values.
fn loop_blocks(e: &mut BlockCode<'_, '_>, counters: usize, carried: &[Value]) -> (Block, Block) {
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

/// Emits `for i in 0..count`, with values carried from iteration to iteration. Returns the last ones.
pub(super) fn counted_loop(
    e: &mut BlockCode<'_, '_>,
    count: Value,
    carried: &[Value],
    body: impl FnOnce(&mut BlockCode<'_, '_>, Value, &[Value]) -> Vec<Value>,
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

/// Emits `for x in 0, step, 2 step, .. last`, where the last iteration starts at `last` even if it
/// repeats part of the iteration before: no iteration reads or writes past the end. `last` is 0 or more.
/// The body also receives the first position that no earlier iteration has covered.
pub(super) fn overlapped_loop(
    e: &mut BlockCode<'_, '_>,
    last: Value,
    step: i64,
    carried: &[Value],
    body: impl FnOnce(&mut BlockCode<'_, '_>, Value, Value, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    overlapped_loop_from(e, None, last, step, carried, body)
}

/// Emits an overlapped loop whose first iteration has the two positions `first`, which are 0 unless given.
fn overlapped_loop_from(
    e: &mut BlockCode<'_, '_>,
    first: Option<[Value; 2]>,
    last: Value,
    step: i64,
    carried: &[Value],
    body: impl FnOnce(&mut BlockCode<'_, '_>, Value, Value, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let outside = entered_from(e);
    let (turn, done) = loop_blocks(e, 2, carried);
    let first = first.unwrap_or_else(|| [e.int(0); 2]);
    let first: Vec<_> = first.iter().chain(carried).map(|v| (*v).into()).collect();
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

/// Like [`overlapped_loop`], but runs the body twice in each iteration as long as two steps are left, for a body that
/// is short compared with its counters.
pub(super) fn paired_loop(
    e: &mut BlockCode<'_, '_>,
    last: Value,
    step: i64,
    carried: &[Value],
    mut body: impl FnMut(&mut BlockCode<'_, '_>, Value, Value, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let outside = entered_from(e);
    let zero = e.int(0);
    let start: Vec<Value> = [zero].iter().chain(carried).copied().collect();
    let (turn, rest) = loop_blocks(e, 0, &start);
    let last_pair = e.offset(last, -step);
    let first: Vec<_> = start.iter().map(|v| (*v).into()).collect();
    let any = e.builder.ins().icmp(IntCC::SignedGreaterThanOrEqual, last_pair, zero);
    e.builder.ins().brif(any, turn, &first, rest, &first);

    e.builder.switch_to_block(turn);
    let params = e.builder.block_params(turn).to_vec();
    let x = params[0];
    let between = body(e, x, x, &params[1..]);
    let second = e.offset(x, step);
    let next = body(e, second, second, &between);
    let x = e.offset(x, 2 * step);
    let again: Vec<_> = [x].iter().chain(&next).map(|v| (*v).into()).collect();
    let more = e.builder.ins().icmp(IntCC::SignedLessThanOrEqual, x, last_pair);
    e.builder.ins().brif(more, turn, &again, rest, &again);
    hoist(e, outside);

    e.builder.switch_to_block(rest);
    let params = e.builder.block_params(rest).to_vec();
    let (x, carried) = (params[0], &params[1..]);
    let (ends, done) = loop_blocks(e, 0, carried);
    let same: Vec<_> = carried.iter().map(|v| (*v).into()).collect();
    let end = e.offset(last, step);
    let any = e.builder.ins().icmp(IntCC::SignedLessThan, x, end);
    e.builder.ins().brif(any, ends, &same, done, &same);
    e.builder.switch_to_block(ends);
    let carried = e.builder.block_params(ends).to_vec();
    let first = e.builder.ins().smin(x, last);
    let next = overlapped_loop_from(e, Some([first, x]), last, step, &carried, body);
    let finished: Vec<_> = next.iter().map(|v| (*v).into()).collect();
    e.builder.ins().jump(done, &finished);
    e.builder.switch_to_block(done);
    e.builder.block_params(done).to_vec()
}
