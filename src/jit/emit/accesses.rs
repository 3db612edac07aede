//! Checks a whole function: every access through the address of the parameter block or of the constants
//! must be inside them.
//!
//! | access | must lie in |
//! |---|---|
//! | a load from the parameter block | the parameter block, by its layout |
//! | a store to the parameter block | the op parameters, where means are stored |
//! | a load of a constant | the constants used so far |
//! | a store to the constants | never allowed |
//!
//! Other addresses are read from the parameter block, and the host checked what it wrote there. The
//! check sees the function as it is compiled, after loads were moved, so it is independent of which code
//! emitted an instruction, and when.

use super::super::param_block::ParamLayout;
use super::ir::BlockCode;
use cranelift_codegen::ir::{InstructionData, Value};
use std::ops::Range;

/// Checks every load and store of a function.
///
/// # Panics
///
/// If an access is outside the parameter block or the constants: a bug of the block compiler.
pub(super) fn check(e: &BlockCode<'_, '_>, layout: ParamLayout) {
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
                (address, offset, ty, [&layout.all_params(), &(0..0)])
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
