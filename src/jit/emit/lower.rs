//! Lowers the program that an op recorded to IR: each instruction becomes one or two equivalent IR
//! instructions.
//!
//! A [`Program`] was checked when it was recorded: its values are defined and of the right kind, and its
//! parameters are the op's. So lowering can't fail, and no instruction of an op names an address.

use super::ir::BlockCode;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32X4, I32X4};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use fuseloop_ops::NumberRule;
use fuseloop_ops::author::{Emit, Pixels};
use fuseloop_ops::internals::program::{
    Binary, Grant, Instruction, Program, ShiftDirection, Unary,
};

/// Emits a program's code for four pixels. `param_count` is the offset of its first op parameter in the
/// parameter block; `position` holds the row and the columns, if the program uses them. Returns the values
/// of each channel.
///
/// # Panics
///
/// If the program uses the coordinates of its pixels and `position` is `None`.
pub(crate) fn lower(
    code: &mut BlockCode<'_, '_>,
    program: &Program,
    params: i32,
    pixels: Vec<Value>,
    position: Option<[Value; 2]>,
) -> Vec<Value> {
    let mut values = pixels;
    if program.uses_position() {
        values.extend(position.expect("a map was planned for an op that uses its position"));
    }
    let mut open = vec![];
    for instruction in program.instructions() {
        step(code, *instruction, params, &mut values, &mut open);
    }
    program.outputs().iter().map(|value| values[*value as usize]).collect()
}

/// Lowers code of the block compiler itself that is written with the ops' [`Emit`].
pub(super) fn lower_own(
    code: &mut BlockCode<'_, '_>,
    grant: Grant,
    params: i32,
    pixels: Vec<Value>,
    emit: impl FnOnce(&mut Emit, Pixels) -> Pixels,
) -> Vec<Value> {
    let program =
        Program::record(grant, emit).expect("the block compiler reads only its own parameters");
    lower(code, &program, params, pixels, None)
}

/// The grant of code that reads only pixels of `channels` values.
pub(super) const fn no_params(rule: NumberRule, channels: usize) -> Grant {
    Grant { rule, param_count: 0, uses_position: false, channels, outputs: channels }
}

/// Lowers one instruction. `open` holds, for each `Begin` that has not ended, the block after its end
/// and that block's parameters.
fn step(
    code: &mut BlockCode<'_, '_>,
    instruction: Instruction,
    params: i32,
    values: &mut Vec<Value>,
    open: &mut Vec<(Block, Vec<Value>)>,
) {
    let value = |number: u32| values[number as usize];
    let result = match instruction {
        Instruction::Param(index) => code.param(F32X4, params + 16 * index as i32),
        Instruction::ParamBits(index) => code.param(I32X4, params + 16 * index as i32),
        Instruction::Splat(bits) => code.splat_bits(bits),
        Instruction::SplatI32(number) => code.splat_i32(number),
        Instruction::Unary(operation, a) => unary(code, operation, value(a)),
        Instruction::Binary(operation, operands) => binary(code, operation, operands.map(value)),
        Instruction::Fma(operands) => code.multiply_add(operands.map(value)),
        Instruction::Select(operands) => {
            let [mask, a, b] = operands.map(value);
            code.select(mask, a, b)
        }
        Instruction::Shift(ShiftDirection::Left, a, bits) => {
            code.builder.ins().ishl_imm_u(value(a), i64::from(bits))
        }
        Instruction::Shift(ShiftDirection::Right, a, bits) => {
            code.builder.ins().ushr_imm_u(value(a), i64::from(bits))
        }
        Instruction::Begin { mask, otherwise } => {
            let otherwise: Vec<Value> = otherwise.iter().map(|number| value(*number)).collect();
            open.push(begin(code, value(mask), &otherwise));
            return;
        }
        Instruction::End { changed } => {
            let changed: Vec<_> = changed.iter().map(|number| value(*number).into()).collect();
            let (done, results) = open.pop().expect("the program was checked");
            code.builder.ins().jump(done, &changed);
            code.builder.switch_to_block(done);
            values.extend(results);
            return;
        }
    };
    values.push(result);
}

/// Begins code that is skipped where `mask` is true in no lane. Returns the block after the code, and
/// that block's parameters.
fn begin(code: &mut BlockCode<'_, '_>, mask: Value, otherwise: &[Value]) -> (Block, Vec<Value>) {
    let (run, done) = (code.builder.create_block(), code.builder.create_block());
    let results = otherwise.iter().map(|_| code.builder.append_block_param(done, F32X4)).collect();
    let any = code.builder.ins().vany_true(mask);
    let unchanged: Vec<_> = otherwise.iter().map(|value| (*value).into()).collect();
    code.builder.ins().brif(any, run, &[], done, &unchanged);
    code.builder.switch_to_block(run);
    (done, results)
}

fn unary(code: &mut BlockCode<'_, '_>, operation: Unary, a: Value) -> Value {
    match operation {
        Unary::Sqrt => code.builder.ins().sqrt(a),
        Unary::Trunc => code.builder.ins().trunc(a),
        Unary::Floor => code.builder.ins().floor(a),
        Unary::Nearest => code.builder.ins().nearest(a),
        Unary::ToI32 => code.i32_of(a),
        Unary::ToF32 => code.builder.ins().fcvt_from_sint(F32X4, a),
        Unary::Bits => code.cast(I32X4, a),
        Unary::FromBits => code.cast(F32X4, a),
    }
}

fn binary(code: &mut BlockCode<'_, '_>, operation: Binary, [a, b]: [Value; 2]) -> Value {
    let ins = code.builder.ins();
    match operation {
        Binary::Add => ins.fadd(a, b),
        Binary::Sub => ins.fsub(a, b),
        Binary::Mul => ins.fmul(a, b),
        Binary::Div => ins.fdiv(a, b),
        Binary::Less => ins.fcmp(FloatCC::LessThan, a, b),
        Binary::Equal => ins.fcmp(FloatCC::Equal, a, b),
        Binary::LessI32 => ins.icmp(IntCC::SignedLessThan, a, b),
        Binary::EqualI32 => ins.icmp(IntCC::Equal, a, b),
        Binary::Both | Binary::AndI32 => ins.band(a, b),
        Binary::Either => ins.bor(a, b),
        Binary::AddI32 => ins.iadd(a, b),
        Binary::MulI32 => ins.imul(a, b),
        Binary::XorI32 => ins.bxor(a, b),
    }
}
