//! Code without the instructions that only x86-64 has, compiled for aarch64.
//!
//! On x86-64 the code can't run (the interpreter runs it, see `interpreted.rs`, and `scripts/aarch64.sh` runs it under
//! qemu), but it can be examined: it must compile, can't trap, and calls only functions that it declared.

use crate::common::lists::List;
use crate::common::random_ops;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{ExternalName, Function};
use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, FinalizedRelocTarget};
use fuseloop::internals::jit::{self, check};
use fuseloop::internals::plan::Draws;
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::*;
use std::collections::BTreeSet;

fn aarch64() -> OwnedTargetIsa {
    let mut flags = settings::builder();
    for (name, value) in [("opt_level", "none"), ("enable_verifier", "true")] {
        flags.set(name, value).unwrap();
    }
    let builder = isa::lookup_by_name("aarch64").expect("tests are built for it");
    builder.finish(settings::Flags::new(flags)).unwrap()
}

/// The instructions of the code that only x86-64 has.
fn only_x86(function: &Function) -> Vec<String> {
    let insts = function.layout.blocks().flat_map(|block| function.layout.block_insts(block));
    let opcodes = insts.map(|inst| function.dfg.insts[inst].opcode().to_string());
    opcodes.filter(|opcode| opcode.starts_with("x86")).collect()
}

/// Compiles a function. Returns the number of bytes of its code, or the error.
fn compiled(function: Function, isa: &OwnedTargetIsa) -> Result<usize, String> {
    let foreign = only_x86(&function);
    if !foreign.is_empty() {
        return Err(format!("has {foreign:?}"));
    }
    let mut context = Context::for_function(function);
    let code = context.compile(isa.as_ref(), &mut ControlPlane::default());
    let code = code.map_err(|error| format!("{:?}", error.inner))?;
    if !code.buffer.traps().is_empty() {
        return Err("can trap".to_owned());
    }
    let row_functions = check::row_functions();
    for reloc in code.buffer.relocs() {
        let FinalizedRelocTarget::ExternalName(ExternalName::TestCase(name)) = &reloc.target else {
            return Err(format!("needs {:?}", reloc.target));
        };
        let name = name.to_string();
        if !row_functions.contains(&name.trim_start_matches('%')) {
            return Err(format!("calls {name}"));
        }
    }
    Ok(code.code_buffer().len())
}

#[test]
fn every_op_compiles_for_aarch64_and_can_not_trap() {
    if let Some(reason) = jit::unsupported() {
        println!("skipped: {reason}");
        return;
    }
    let isa = aarch64();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let (mut draws, mut functions, mut bytes) = (Draws::default(), 0, 0);
    for number in 0..500 {
        let mut rng = SampleKey::new(64, 0, number).op(0);
        let size = Size::new(8 + rng.below(60), 8 + rng.below(80));
        let (list, names) = List::random(&mut rng, size, 8);
        let plan = list.plan().unwrap();
        seen.extend(names);
        for sample in 0..2 {
            plan.draw(SampleKey::new(number, 0, sample), size, &mut draws);
            for function in check::functions(&plan, &draws) {
                bytes += compiled(function, &isa)
                    .unwrap_or_else(|wrong| panic!("list {number} {wrong}: {list:#?}"));
                functions += 1;
            }
        }
    }
    println!("{functions} functions, {bytes} bytes");
    let missing = random_ops::names().into_iter().filter(|name| !seen.contains(name));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new(), "ops that were not tried");
}

/// A test of the check itself: an instruction of x86-64 is detected.
#[test]
fn an_instruction_of_another_cpu_is_seen() {
    use cranelift_codegen::ir::{AbiParam, InstBuilder, types::I8X16};
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
    let mut function = Function::new();
    function.signature.params = vec![AbiParam::new(I8X16); 2];
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let [a, b] = [0, 1].map(|i| builder.block_params(entry)[i]);
    builder.ins().x86_pshufb(a, b);
    builder.ins().return_(&[]);
    builder.seal_all_blocks();
    builder.finalize(aarch64().frontend_config());
    assert_eq!(compiled(function, &aarch64()), Err("has [\"x86_pshufb\"]".to_owned()));
}
