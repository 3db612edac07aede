//! Keeps in registers what a loop loads most often.
//!
//! Ops load constants and slots beside each use, since they can't know what else is live; the code
//! generator, at the level we run it, moves nothing. Once a loop is written, the loads it repeats
//! most are made once before it. Constants and the record never change while a loop that is
//! hoisted from runs, so a load means the same in both places.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, Inst, InstBuilder, InstructionData, MemFlagsData, Type, Value};
use fuseloop_ops::Emit;

/// Vectors kept: sixteen registers, less the values of four pixels and what ops need for a moment.
const VECTORS: usize = 8;

/// Words kept: sixteen registers, less addresses and counters.
const WORDS: usize = 4;

/// What is loaded: `ty` from `base + offset`.
#[derive(Clone, Copy, PartialEq)]
struct Loaded {
    ty: Type,
    base: Value,
    offset: i32,
}

/// The block that a loop is about to be entered from.
pub(super) fn entered_from(e: &Emit<'_, '_>) -> Block {
    e.builder.current_block().expect("code is being written")
}

/// Moves the loads of constants and record words that occur most often in the blocks written
/// since `outside` to its end.
pub(super) fn hoist(e: &mut Emit<'_, '_>, outside: Block) {
    let mut found = repeated(e, outside);
    found.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    for (is_vector, most) in [(true, VECTORS), (false, WORDS)] {
        let kind = found.iter().filter(|(loaded, _)| loaded.ty.is_vector() == is_vector);
        for (loaded, places) in kind.take(most) {
            load_before(e, outside, *loaded, places);
        }
    }
}

/// What is loaded from the constants or the record after `outside`, and where, in order.
fn repeated(e: &Emit<'_, '_>, outside: Block) -> Vec<(Loaded, Vec<Inst>)> {
    let func = &*e.builder.func;
    let mut found: Vec<(Loaded, Vec<Inst>)> = vec![];
    let mut block = func.layout.next_block(outside);
    while let Some(this) = block {
        for inst in func.layout.block_insts(this) {
            let InstructionData::Load { arg, offset, .. } = func.dfg.insts[inst] else { continue };
            let ty = func.dfg.value_type(func.dfg.first_result(inst));
            if !(arg == e.table || arg == e.record) || !(ty.is_vector() || ty == I64) {
                continue;
            }
            let loaded = Loaded { ty, base: arg, offset: offset.into() };
            match found.iter_mut().find(|(known, _)| *known == loaded) {
                Some((_, places)) => places.push(inst),
                None => found.push((loaded, vec![inst])),
            }
        }
        block = func.layout.next_block(this);
    }
    found
}

/// Loads once, before the last instruction of `outside`, what `places` load.
fn load_before(e: &mut Emit<'_, '_>, outside: Block, loaded: Loaded, places: &[Inst]) {
    let func = &mut *e.builder.func;
    let last = func.layout.last_inst(outside).expect("a block that was left ends in a jump");
    let Loaded { ty, base, offset } = loaded;
    let flags = MemFlagsData::new().with_notrap();
    let once = FuncCursor::new(func).at_inst(last).ins().load(ty, flags, base, offset);
    for &inst in places {
        let each = func.dfg.first_result(inst);
        func.dfg.detach_inst_results(inst);
        func.layout.remove_inst(inst);
        func.dfg.change_to_alias(each, once);
    }
}
