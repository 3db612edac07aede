//! Holds in registers what a loop loads most often.
//!
//! Ops load constants and parameters next to each use, since they can't know what else is live; the code
//! generator, at the optimization level we use, moves nothing. Once a loop is emitted, its most frequent
//! loads are moved in front of the loop. Constants and the parameter block never change while such a
//! loop runs, so a load returns the same value in both positions.

use super::ir::BlockCode;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    Block, Inst, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, Value,
};

/// The numbers of vectors and of words held in registers: of sixteen registers, less the values of four pixels and
/// temporaries of ops, or addresses and counters.
const SIXTEEN: (usize, usize) = (8, 4);

/// The same of 32 registers.
const THIRTY_TWO: (usize, usize) = (18, 10);

/// The key of a load: `ty` from `base + offset`.
#[derive(Clone, Copy, PartialEq)]
struct Loaded {
    ty: Type,
    base: Value,
    offset: i32,
}

/// Returns the block that a loop is about to be entered from.
pub(super) fn entered_from(e: &BlockCode<'_, '_>) -> Block {
    e.builder.current_block().expect("code is being written")
}

/// Moves the most frequent loads of the blocks emitted since to the end of `outside`: loads of
/// constants, of the parameter block, and of shuffles whose address was moved there.
pub(super) fn hoist(e: &mut BlockCode<'_, '_>, outside: Block) {
    let (most_vectors, most_words) = if e.target.x86 { SIXTEEN } else { THIRTY_TWO };
    let bases = [e.table, e.record];
    let mut words = vec![];
    for (loaded, loads) in most_loaded(e, outside, most_words, |loaded, _| {
        loaded.ty == I64 && bases.contains(&loaded.base)
    }) {
        words.push(load_before(e, outside, loaded, &loads));
    }
    for (loaded, loads) in most_loaded(e, outside, most_vectors, |loaded, never_changes| {
        let is_known = bases.contains(&loaded.base);
        loaded.ty.is_vector() && (is_known || never_changes && words.contains(&loaded.base))
    }) {
        load_before(e, outside, loaded, &loads);
    }
}

/// Returns the most frequent loads after `outside` for which `may_move` holds, with their instructions.
fn most_loaded(
    e: &BlockCode<'_, '_>,
    outside: Block,
    most: usize,
    may_move: impl Fn(&Loaded, bool) -> bool,
) -> Vec<(Loaded, Vec<Inst>)> {
    let func = &*e.builder.func;
    let mut found: Vec<(Loaded, Vec<Inst>)> = vec![];
    let mut block = func.layout.next_block(outside);
    while let Some(this) = block {
        for inst in func.layout.block_insts(this) {
            let InstructionData::Load { opcode: Opcode::Load, arg, offset, flags } =
                func.dfg.insts[inst]
            else {
                continue;
            };
            let ty = func.dfg.value_type(func.dfg.first_result(inst));
            let base = func.dfg.resolve_aliases(arg);
            let loaded = Loaded { ty, base, offset: offset.into() };
            if !may_move(&loaded, func.dfg.mem_flags[flags].readonly()) {
                continue;
            }
            match found.iter_mut().find(|(known, _)| *known == loaded) {
                Some((_, loads)) => loads.push(inst),
                None => found.push((loaded, vec![inst])),
            }
        }
        block = func.layout.next_block(this);
    }
    found.sort_by_key(|(_, loads)| std::cmp::Reverse(loads.len()));
    found.truncate(most);
    found
}

/// Emits one load before the last instruction of `outside` and removes `loads`.
fn load_before(e: &mut BlockCode<'_, '_>, outside: Block, loaded: Loaded, loads: &[Inst]) -> Value {
    let func = &mut *e.builder.func;
    let last = func.layout.last_inst(outside).expect("a block that was left ends in a jump");
    let Loaded { ty, base, offset } = loaded;
    let flags = MemFlagsData::new().with_notrap();
    let once = FuncCursor::new(func).at_inst(last).ins().load(ty, flags, base, offset);
    for &inst in loads {
        let each = func.dfg.first_result(inst);
        func.dfg.detach_inst_results(inst);
        func.layout.remove_inst(inst);
        func.dfg.change_to_alias(each, once);
    }
    once
}
