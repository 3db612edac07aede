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

#[cfg(test)]
mod tests {
    use super::super::super::vector_bits::VectorBits;
    use super::super::constants::Constants;
    use super::super::ir::Target;
    use super::*;
    use crate::plan::ImagePlan;
    use cranelift_codegen::ir::types::{I8X16, I64};
    use cranelift_codegen::ir::{AbiParam, Function, InstBuilder};
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
    use fuseloop_ops::author::{Dim, ImageType};
    use fuseloop_ops::{NumberRule, RandomBrightness, ops};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// The arguments of the function: the parameter block, the constants, and any other address.
    const RECORD: usize = 0;
    const TABLE: usize = 1;
    const OTHER: usize = 2;

    /// A layout with op parameters, and with sums behind them.
    fn layout() -> ParamLayout {
        let input = ImageType::decoded(Dim::fixed(20), Dim::fixed(30));
        let ops = ops![RandomBrightness::new(0.4).unwrap()];
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap();
        ParamLayout::new(&plan.blocks()[0], 1, VectorBits::V256)
    }

    /// The value that is an alias of an argument.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Alias {
        None,
        Address,
        Base,
    }

    /// Returns true if the check accepts a function with two constants that loads or stores 16 bytes at an
    /// offset from an argument.
    fn is_accepted(is_store: bool, argument: usize, offset: i32, alias: Alias) -> bool {
        let mut function = Function::new();
        function.signature.params = vec![AbiParam::new(I64); 3];
        let mut context = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut function, &mut context);
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        let mut values: [_; 3] = std::array::from_fn(|i| builder.block_params(entry)[i]);
        let mut address = values[argument];
        if alias != Alias::None {
            let other = builder.ins().iconst(I64, 0);
            let dfg = &mut builder.func.dfg;
            let constant = dfg.value_def(other).unwrap_inst();
            dfg.detach_inst_results(constant);
            builder.func.layout.remove_inst(constant);
            builder.func.dfg.change_to_alias(other, address);
            *(if alias == Alias::Address { &mut address } else { &mut values[argument] }) = other;
        }
        let mut constants = Constants::default();
        constants.run(&[[1; 16], [2; 16]]);
        let [record, table] = [values[RECORD], values[TABLE]];
        let e = &mut BlockCode {
            builder: &mut builder,
            constants: &mut constants,
            table,
            record,
            target: Target::PORTABLE,
            is_float: false,
        };
        if is_store {
            let value = e.load(I8X16, values[OTHER], 0);
            e.store(value, address, offset);
        } else {
            e.load(I8X16, address, offset);
        }
        e.builder.ins().return_(&[]);
        e.builder.seal_all_blocks();
        catch_unwind(AssertUnwindSafe(|| check(e, layout()))).is_ok()
    }

    #[test]
    fn every_access_outside_is_refused() {
        let (bytes, params) = (layout().bytes() as i32, layout().all_params());
        assert!(0 < params.start && params.start < params.end && params.end < bytes);
        let (load, store) = (false, true);
        let accesses = [
            (load, RECORD, 0..bytes),
            (load, TABLE, 0..32),
            (store, RECORD, params.clone()),
            (store, TABLE, 0..0),
        ];
        for (is_store, argument, allowed) in accesses {
            let ends = [0, 32, params.start, params.end, bytes];
            for offset in ends.iter().flat_map(|end| [end - 16, end - 15, end - 1, *end]) {
                let expected = allowed.start <= offset && offset + 16 <= allowed.end;
                for alias in [Alias::None, Alias::Address, Alias::Base] {
                    let found = is_accepted(is_store, argument, offset, alias);
                    assert_eq!(found, expected, "{is_store} {argument} {offset} {alias:?}");
                }
            }
        }
    }

    #[test]
    fn addresses_that_the_host_has_checked_are_not_refused() {
        for offset in [-16, 0, 1 << 20] {
            assert!(is_accepted(false, OTHER, offset, Alias::None));
            assert!(is_accepted(true, OTHER, offset, Alias::None));
        }
    }
}
