//! The check of a whole function: what it reads and writes by the addresses of the record and of
//! the constants lies inside of them.
//!
//! | access | must lie in |
//! |---|---|
//! | a load from the record | the record, by its layout |
//! | a store to the record | the slots, where means go |
//! | a load of a constant | the constants that were met |
//! | a store to the constants | nowhere: there is none |
//!
//! Other addresses are read from the record, and the host checked what it wrote there. The function
//! is looked at as it is compiled, after loads were moved, so it doesn't matter who wrote an
//! instruction, or when.

use super::super::record::Layout;
use super::ir::Code;
use cranelift_codegen::ir::{InstructionData, Value};
use std::ops::Range;

/// Checks every load and store of a function.
///
/// # Panics
///
/// If one leaves the record or the constants: a mistake of the block compiler.
pub(super) fn check(e: &Code<'_, '_>, layout: Layout) {
    let func = &*e.builder.func;
    let record = 0..layout.bytes() as i32;
    let constants = 0..16 * e.constants.table().len() as i32;
    for inst in func.layout.blocks().flat_map(|block| func.layout.block_insts(block)) {
        let (address, offset, ty, [of_record, of_constants]) = match func.dfg.insts[inst] {
            InstructionData::Load { arg, offset, .. } => {
                let ty = func.dfg.value_type(func.dfg.first_result(inst));
                (arg, offset, ty, [&record, &constants])
            }
            InstructionData::Store { args: [value, address], offset, .. } => {
                let ty = func.dfg.value_type(value);
                (address, offset, ty, [&layout.all_slots(), &(0..0)])
            }
            _ => continue,
        };
        let start = i32::from(offset);
        let bytes = start..start.saturating_add(ty.bytes() as i32);
        let is = |base: Value| func.dfg.resolve_aliases(address) == func.dfg.resolve_aliases(base);
        let lies_in =
            |allowed: &Range<i32>| allowed.start <= bytes.start && bytes.end <= allowed.end;
        assert!(!is(e.record) || lies_in(of_record), "{bytes:?} of a record of {record:?}");
        assert!(!is(e.table) || lies_in(of_constants), "{bytes:?} of constants {constants:?}");
    }
}
