//! Translates the IR of an op to CUDA C: the same definition of the op in code, for another compiler.
//!
//! The code that an op [emits](fuseloop_ops::author::PixelOp::emit) is lowered as for the host. It does the same
//! in each of a vector's four lanes, so the text is written for one lane:
//!
//! | IR | CUDA C |
//! |---|---|
//! | `F32X4` | `float` |
//! | `I32X4`, masks | `u32`; a mask is all ones or 0 |
//! | a load of an op parameter | the word of the sample's record |
//! | a load of a constant | its bits, or a word of the arguments |
//! | blocks and jumps | labels and `goto` |
//!
//! An instruction that programs are not lowered to is rejected by name.

use super::translation::Translation;
use crate::jit::{BlockCode, Constants, Target, lower};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32X4, I32X4, I64};
use cranelift_codegen::ir::{
    Block, BlockArg, BlockCall, Function, Inst, InstBuilder, InstructionData, Opcode, Type, Value,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use fuseloop_ops::internals::program::Program;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Translates a program to the function `name(a, param_count, mean, row, column, red, green, blue)` of one
/// pixel. Returns its text, and the constants that the arguments contain for it.
///
/// # Errors
///
/// The name of an instruction that has no translation.
pub(super) fn function(
    frame: Translation<'_>,
    program: &Program,
) -> Result<(String, Vec<u32>), String> {
    let (function, constants) = ir(frame, program);
    let entry = function.layout.entry_block().expect("it was begun with one");
    let params = function.dfg.block_params(entry);
    let mut text = Text {
        function: &function,
        constants: &constants,
        passed: frame.constants,
        mean: if frame.mean { program.param_count().checked_sub(1) } else { None },
        bases: [params[0], params[1]],
        forms: HashMap::new(),
        declared: String::new(),
        body: String::new(),
    };
    let names = ["red", "green", "blue", "(u32)row", "(u32)column"];
    for (index, (param, name)) in params[2..].iter().zip(names).enumerate() {
        let form = if index < 3 { ValueForm::Float } else { ValueForm::Word };
        text.declare(*param, form);
        let _ = writeln!(text.body, "    {param} = {name};");
    }
    text.blocks()?;
    let used = frame.constants.map_or(0, |_| constants.table().len());
    let words = constants.table()[..used].iter().map(lane).collect::<Result<_, _>>()?;
    let Text { declared, body, .. } = text;
    let head = format!(
        "DEV void {}(const Arguments& a, const u8* slots, float mean, i32 row, i32 column, float& red, float& green, float& blue)",
        frame.name
    );
    Ok((format!("{head}\n{{\n{declared}{body}}}\n"), words))
}

/// Returns the IR of a function `(constants, record, r, g, b[, row, column]) -> (r, g, b)`.
fn ir(frame: Translation<'_>, program: &Program) -> (Function, Constants) {
    let mut function = Function::new();
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    let entry = builder.create_block();
    let coordinates = if program.uses_position() { 2 } else { 0 };
    let types =
        [I64; 2].into_iter().chain([F32X4; 3]).chain([I32X4; 2].into_iter().take(coordinates));
    let params: Vec<Value> = types.map(|ty| builder.append_block_param(entry, ty)).collect();
    builder.switch_to_block(entry);
    let mut constants =
        if frame.constants.is_some() { Constants::distinct() } else { Constants::default() };
    let position = program.uses_position().then(|| [params[5], params[6]]);
    let mut code = BlockCode {
        builder: &mut builder,
        constants: &mut constants,
        table: params[0],
        record: params[1],
        target: Target::PORTABLE,
        is_float: false,
    };
    let pixels = lower(&mut code, program, 0, params[2..5].to_vec(), position);
    builder.ins().return_(&pixels);
    builder.seal_all_blocks();
    (function, constants)
}

/// The C type of a value.
#[derive(Clone, Copy, PartialEq)]
enum ValueForm {
    Float,
    Word,
    /// A word that is all ones or 0.
    Mask,
}

/// A value: its variable, and the variable's form.
#[derive(Clone)]
struct HeldValue {
    name: String,
    form: ValueForm,
}

impl HeldValue {
    fn float(&self) -> String {
        if self.form == ValueForm::Float {
            self.name.clone()
        } else {
            format!("float_of({})", self.name)
        }
    }

    fn word(&self) -> String {
        if self.form == ValueForm::Float {
            format!("bits_of({})", self.name)
        } else {
            self.name.clone()
        }
    }
}

/// The text while it is generated.
struct Text<'a> {
    function: &'a Function,
    constants: &'a Constants,
    passed: Option<usize>,
    /// The op parameter that is a mean.
    mean: Option<usize>,
    /// The addresses of constants and of the record.
    bases: [Value; 2],
    forms: HashMap<Value, HeldValue>,
    declared: String,
    body: String,
}

impl Text<'_> {
    /// Declares the variable of `value`.
    fn declare(&mut self, value: Value, form: ValueForm) {
        let ty = if form == ValueForm::Float { "float" } else { "u32" };
        let _ = writeln!(self.declared, "    {ty} {value};");
        self.forms.insert(value, HeldValue { name: value.to_string(), form });
    }

    fn held(&self, value: Value) -> Result<HeldValue, String> {
        let value = self.function.dfg.resolve_aliases(value);
        self.forms.get(&value).cloned().ok_or_else(|| "a value of the block compiler".to_owned())
    }

    fn float(&self, value: Value) -> Result<String, String> {
        Ok(self.held(value)?.float())
    }

    fn word(&self, value: Value) -> Result<String, String> {
        Ok(self.held(value)?.word())
    }

    /// Translates all blocks, in order. Their parameters are declared first, since a jump may go
    /// forward.
    fn blocks(&mut self) -> Result<(), String> {
        let function = self.function;
        let entry = function.layout.entry_block();
        for block in function.layout.blocks().filter(|block| Some(*block) != entry) {
            for &param in function.dfg.block_params(block) {
                let form = form_of(function.dfg.value_type(param))?;
                self.declare(param, form);
            }
        }
        for block in function.layout.blocks() {
            if Some(block) != entry {
                let _ = writeln!(self.body, "{block}:");
            }
            for inst in function.layout.block_insts(block) {
                self.inst(inst)?;
            }
        }
        Ok(())
    }

    /// Translates one instruction.
    fn inst(&mut self, inst: Inst) -> Result<(), String> {
        let dfg = &self.function.dfg;
        match dfg.insts[inst] {
            InstructionData::Jump { destination, .. } => self.jump(destination),
            InstructionData::Brif { arg, blocks: [then, otherwise], .. } => {
                let _ = writeln!(self.body, "    if ({}) {{", self.word(arg)?);
                self.jump(then)?;
                self.body.push_str("    } else {\n");
                self.jump(otherwise)?;
                self.body.push_str("    }\n");
                Ok(())
            }
            InstructionData::MultiAry { opcode: Opcode::Return, .. } => {
                self.give(dfg.inst_args(inst))
            }
            data => {
                let result = dfg.first_result(inst);
                if data.opcode() == Opcode::Bitcast {
                    let same = self.held(dfg.inst_args(inst)[0])?;
                    self.forms.insert(result, same);
                    return Ok(());
                }
                let (text, form) = self.value(data, dfg.inst_args(inst))?;
                self.declare(result, form);
                let _ = writeln!(self.body, "    {result} = {text};");
                Ok(())
            }
        }
    }

    /// Returns the expression that an instruction computes, and its form.
    fn value(&self, data: InstructionData, args: &[Value]) -> Result<(String, ValueForm), String> {
        let float = |k: usize| self.float(args[k]);
        let word = |k: usize| self.word(args[k]);
        let calls = |name: &str| -> Result<(String, ValueForm), String> {
            let args = (0..args.len()).map(float).collect::<Result<Vec<_>, _>>()?;
            Ok((format!("{name}({})", args.join(", ")), ValueForm::Float))
        };
        let words = |sign: &str| Ok((format!("{} {sign} {}", word(0)?, word(1)?), ValueForm::Word));
        match (data.opcode(), data) {
            (Opcode::Fadd, _) => calls("add_rn"),
            (Opcode::Fsub, _) => calls("sub_rn"),
            (Opcode::Fmul, _) => calls("mul_rn"),
            (Opcode::Fdiv, _) => calls("div_rn"),
            (Opcode::Fma, _) => calls("fma_rn"),
            (Opcode::Sqrt, _) => calls("sqrt_rn"),
            (Opcode::Trunc, _) => calls("truncated"),
            (Opcode::Floor, _) => calls("floored"),
            (Opcode::Nearest, _) => calls("rounded"),
            (Opcode::FcvtFromSint, _) => {
                Ok((format!("float_of_int((i32){})", word(0)?), ValueForm::Float))
            }
            (Opcode::FcvtToSintSat, _) => {
                Ok((format!("(u32)int_of({})", float(0)?), ValueForm::Word))
            }
            (Opcode::Iadd, _) => words("+"),
            (Opcode::Isub, _) => words("-"),
            (Opcode::Imul, _) => words("*"),
            (Opcode::Ishl, _) => {
                Ok((format!("{} << ({} & 31u)", word(0)?, word(1)?), ValueForm::Word))
            }
            (Opcode::Ushr, _) => {
                Ok((format!("{} >> ({} & 31u)", word(0)?, word(1)?), ValueForm::Word))
            }
            (Opcode::Band, _) => self.bits("&", args),
            (Opcode::Bor, _) => self.bits("|", args),
            (Opcode::Bxor, _) => self.bits("^", args),
            (Opcode::Bitselect, _) => self.select(args),
            (Opcode::VanyTrue, _) => Ok((format!("{} ? 1u : 0u", word(0)?), ValueForm::Word)),
            (Opcode::Iconst, InstructionData::UnaryImm { imm, .. }) => {
                Ok((format!("{}u", imm.bits() as u32), ValueForm::Word))
            }
            (Opcode::Fcmp, InstructionData::FloatCompare { cond, .. }) => {
                let sign = float_sign(cond)?;
                Ok((format!("{} {sign} {} ? ~0u : 0u", float(0)?, float(1)?), ValueForm::Mask))
            }
            (Opcode::Icmp, InstructionData::IntCompare { cond, .. }) => {
                let sign = int_sign(cond)?;
                Ok((
                    format!("(i32){} {sign} (i32){} ? ~0u : 0u", word(0)?, word(1)?),
                    ValueForm::Mask,
                ))
            }
            (Opcode::Load, InstructionData::Load { arg, offset, .. }) => {
                let loaded = self.load(arg, offset.into())?;
                Ok((loaded, ValueForm::Word))
            }
            (opcode, _) => Err(opcode.to_string()),
        }
    }

    /// Returns the expression of a word of the record or of a constant, at an offset in vectors of 16
    /// bytes.
    fn load(&self, base: Value, offset: i32) -> Result<String, String> {
        let [constants, record] = self.bases;
        let base = self.function.dfg.resolve_aliases(base);
        let index = offset as usize / 16;
        if offset % 16 != 0 {
            return Err("a load of part of a vector".to_owned());
        }
        if base == record && Some(index) == self.mean {
            return Ok("bits_of(mean)".to_owned());
        }
        if base == record {
            return Ok(format!("load_word(slots + {})", 4 * index));
        }
        match (base == constants, self.passed, self.constants.table().get(index)) {
            (true, Some(first), Some(_)) => Ok(format!("a.k[{}]", first + index)),
            (true, None, Some(bytes)) => Ok(format!("{:#010x}u", lane(bytes)?)),
            _ => Err("a load of memory that is not its own".to_owned()),
        }
    }

    fn bits(&self, sign: &str, args: &[Value]) -> Result<(String, ValueForm), String> {
        let (a, b) = (self.held(args[0])?, self.held(args[1])?);
        let masks = a.form == ValueForm::Mask && b.form == ValueForm::Mask;
        let form = if masks { ValueForm::Mask } else { ValueForm::Word };
        Ok((format!("{} {sign} {}", a.word(), b.word()), form))
    }

    /// Returns `args[1]` where `args[0]` has ones, `args[2]` where it has zeros.
    fn select(&self, args: &[Value]) -> Result<(String, ValueForm), String> {
        let [mask, a, b] = [self.held(args[0])?, self.held(args[1])?, self.held(args[2])?];
        if mask.form != ValueForm::Mask {
            let mask = mask.word();
            return Ok((
                format!("({mask} & {}) | (~{mask} & {})", a.word(), b.word()),
                ValueForm::Word,
            ));
        }
        let (a, b, form) = if a.form == ValueForm::Float || b.form == ValueForm::Float {
            (a.float(), b.float(), ValueForm::Float)
        } else {
            (a.word(), b.word(), ValueForm::Word)
        };
        Ok((format!("{} ? {a} : {b}", mask.word()), form))
    }

    /// Sets a block's parameters, all at once, and jumps to the block.
    fn jump(&mut self, to: BlockCall) -> Result<(), String> {
        let function = self.function;
        let block: Block = to.block(&function.dfg.value_lists);
        let params = function.dfg.block_params(block).to_vec();
        let mut sets = String::new();
        self.body.push_str("    {\n");
        for (k, (arg, param)) in to.args(&function.dfg.value_lists).zip(params).enumerate() {
            let BlockArg::Value(arg) = arg else { return Err("an exception".to_owned()) };
            let (ty, value) = match self.held(param)?.form {
                ValueForm::Float => ("float", self.float(arg)?),
                _ => ("u32", self.word(arg)?),
            };
            let _ = writeln!(self.body, "        {ty} next{k} = {value};");
            let _ = writeln!(sets, "        {param} = next{k};");
        }
        // The assignments have a scope of their own, so that no jump goes past a declaration.
        let _ = writeln!(self.body, "{sets}        goto {block};\n    }}");
        Ok(())
    }

    fn give(&mut self, values: &[Value]) -> Result<(), String> {
        for (channel, value) in ["red", "green", "blue"].iter().zip(values) {
            let _ = writeln!(self.body, "    {channel} = {};", self.float(*value)?);
        }
        self.body.push_str("    return;\n");
        Ok(())
    }
}

/// Returns the word that all four lanes of a constant share.
fn lane(bytes: &[u8; 16]) -> Result<u32, String> {
    let lanes = bytes.as_chunks::<4>().0;
    if lanes.iter().any(|lane| *lane != lanes[0]) {
        return Err("a constant that differs from lane to lane".to_owned());
    }
    Ok(u32::from_le_bytes(lanes[0]))
}

fn form_of(ty: Type) -> Result<ValueForm, String> {
    match ty {
        F32X4 => Ok(ValueForm::Float),
        I32X4 => Ok(ValueForm::Word),
        other => Err(format!("a value of type {other}")),
    }
}

fn float_sign(cond: FloatCC) -> Result<&'static str, String> {
    match cond {
        FloatCC::LessThan => Ok("<"),
        FloatCC::LessThanOrEqual => Ok("<="),
        FloatCC::GreaterThan => Ok(">"),
        FloatCC::GreaterThanOrEqual => Ok(">="),
        FloatCC::Equal => Ok("=="),
        FloatCC::NotEqual => Ok("!="),
        other => Err(format!("fcmp {other}")),
    }
}

fn int_sign(cond: IntCC) -> Result<&'static str, String> {
    match cond {
        IntCC::SignedLessThan => Ok("<"),
        IntCC::SignedLessThanOrEqual => Ok("<="),
        IntCC::SignedGreaterThan => Ok(">"),
        IntCC::SignedGreaterThanOrEqual => Ok(">="),
        IntCC::Equal => Ok("=="),
        IntCC::NotEqual => Ok("!="),
        other => Err(format!("icmp {other}")),
    }
}

#[cfg(test)]
mod tests;
