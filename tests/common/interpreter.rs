//! Runs compiled code with Cranelift's own interpreter in place of native code: a second opinion on the
//! meaning of the code, and a check of every byte it accesses.
//!
//! Buffers, addresses and row functions are the real ones. Loops with wider vectors run in the
//! [`emulator`](super::emulator). The interpreter lacks the instructions that
//! only x86-64 has, so the code is generated without them.

use super::emulator::emulate;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{
    ExternalName, FuncRef, Function, GlobalValue, Inst, InstructionData, MemFlagsData, StackSlot,
    Type,
};
use cranelift_interpreter::address::{Address, AddressSize};
use cranelift_interpreter::frame::Frame;
use cranelift_interpreter::instruction::DfgInstructionContext;
use cranelift_interpreter::interpreter::LibCallHandler;
use cranelift_interpreter::state::{InterpreterFunctionRef, MemoryError, State};
use cranelift_interpreter::step::{ControlFlow, step};
use fuseloop::internals::jit::check::BlockRun;

/// Runs the code to its end. Returns the number of instructions, or a description of the operation that
/// was not allowed.
pub fn interpret(run: &mut BlockRun) -> Result<u64, String> {
    let function = run.function.clone();
    refuse_negative_offsets(&function)?;
    let entry = function.layout.entry_block().ok_or("no code")?;
    let arguments = run.arguments().map(|word| DataValue::I64(word as i64)).to_vec();
    let mut state = Machine { frame: Frame::new(&function), run };
    state.frame.set_all(function.dfg.block_params(entry), arguments);
    let (mut next, mut count) = (function.layout.first_inst(entry), 0);
    while let Some(inst) = next {
        count += 1;
        let location = || function.dfg.display_inst(inst).to_string();
        if let Some(name) = called(&function, inst) {
            let words = state.words(function.dfg.inst_args(inst));
            let called = match (name.strip_prefix("row_loop_"), <[u64; 6]>::try_from(&words[..])) {
                (Some(pass), Ok(words)) => {
                    let pass = pass.parse().map_err(|_| name.clone())?;
                    emulate(state.run, pass, words).map(|more| count += more)
                }
                _ => state.run.call(&name, &words).map_err(|refused| format!("{refused:?}")),
            };
            called.map_err(|refused| format!("{}: {refused}", location()))?;
            next = function.layout.next_inst(inst);
            continue;
        }
        let after = step(&mut state, DfgInstructionContext::new(inst, &function.dfg));
        next = match after.map_err(|error| format!("{}: {error}", location()))? {
            ControlFlow::Assign(values) => {
                state.frame.set_all(function.dfg.inst_results(inst), values.to_vec());
                function.layout.next_inst(inst)
            }
            ControlFlow::Continue => function.layout.next_inst(inst),
            ControlFlow::ContinueAt(block, values) => {
                state.frame.set_all(function.dfg.block_params(block), values.to_vec());
                function.layout.first_inst(block)
            }
            ControlFlow::Return(_) => return Ok(count),
            other => return Err(format!("{}: {other:?}", location())),
        };
    }
    Err("a block without an end".to_owned())
}

/// Refuses negative offsets, because the interpreter treats the offsets of loads and stores as unsigned.
fn refuse_negative_offsets(function: &Function) -> Result<(), String> {
    let insts = function.layout.blocks().flat_map(|block| function.layout.block_insts(block));
    for inst in insts {
        let (InstructionData::Load { offset, .. } | InstructionData::Store { offset, .. }) =
            function.dfg.insts[inst]
        else {
            continue;
        };
        if i32::from(offset) < 0 {
            return Err(format!("{}: a negative offset", function.dfg.display_inst(inst)));
        }
    }
    Ok(())
}

/// The row function that an instruction calls, if it calls one.
pub fn called(function: &Function, inst: Inst) -> Option<String> {
    let InstructionData::Call { func_ref, .. } = function.dfg.insts[inst] else { return None };
    let name = function.dfg.ext_funcs[func_ref].name.display(None).to_string();
    Some(name.trim_start_matches('%').to_owned())
}

/// One frame, and memory accesses checked against the run's regions.
struct Machine<'a, 'r> {
    frame: Frame<'a>,
    run: &'r mut BlockRun,
}

impl Machine<'_, '_> {
    fn words(&self, values: &[cranelift_codegen::ir::Value]) -> Vec<u64> {
        let word = |value: &_| match self.frame.get(*value) {
            DataValue::I64(word) => *word as u64,
            other => panic!("{other:?} is no word"),
        };
        values.iter().map(word).collect()
    }
}

impl<'a> State<'a> for Machine<'a, '_> {
    fn checked_load(
        &self,
        address: Address,
        ty: Type,
        _: MemFlagsData,
    ) -> Result<DataValue, MemoryError> {
        // An address of the host is decoded as a stack address: all of it is the offset.
        let (at, load_size) = (address.offset, ty.bytes() as usize);
        let mut bytes = [0; 16];
        let (addr, mem_flags) = (address, MemFlagsData::new());
        let read = self.run.read(at, &mut bytes[..load_size]);
        read.map_err(|_| MemoryError::OutOfBoundsLoad { addr, load_size, mem_flags })?;
        Ok(DataValue::read_from_slice_le(&bytes[..load_size], ty))
    }

    fn checked_store(
        &mut self,
        address: Address,
        value: DataValue,
        _: MemFlagsData,
    ) -> Result<(), MemoryError> {
        let (at, store_size) = (address.offset, value.ty().bytes() as usize);
        let mut bytes = [0; 16];
        value.write_to_slice_le(&mut bytes[..store_size]);
        let (addr, mem_flags) = (address, MemFlagsData::new());
        let written = self.run.write(at, &bytes[..store_size]);
        written.map_err(|_| MemoryError::OutOfBoundsStore { addr, store_size, mem_flags })
    }

    fn get_current_function(&self) -> &'a Function {
        self.frame.function()
    }

    fn current_frame_mut(&mut self) -> &mut Frame<'a> {
        &mut self.frame
    }

    fn current_frame(&self) -> &Frame<'a> {
        &self.frame
    }

    fn get_function(&self, _: FuncRef) -> Option<&'a Function> {
        None
    }

    fn get_libcall_handler(&self) -> LibCallHandler {
        |call, _| panic!("a call of {call}")
    }

    fn push_frame(&mut self, _: &'a Function) {
        panic!("a block has one function")
    }

    fn pop_frame(&mut self) {
        panic!("a block has one function")
    }

    fn stack_address(
        &self,
        _: AddressSize,
        slot: StackSlot,
        _: u64,
    ) -> Result<Address, MemoryError> {
        panic!("a block has no {slot}")
    }

    fn function_address(
        &self,
        _: AddressSize,
        name: &ExternalName,
    ) -> Result<Address, MemoryError> {
        panic!("a block has no address of {name:?}")
    }

    fn get_function_from_address(&self, _: Address) -> Option<InterpreterFunctionRef<'a>> {
        None
    }

    fn resolve_global_value(&self, value: GlobalValue) -> Result<DataValue, MemoryError> {
        panic!("a block has no {value}")
    }

    fn get_pinned_reg(&self) -> DataValue {
        panic!("a block pins no register")
    }

    fn set_pinned_reg(&mut self, _: DataValue) {
        panic!("a block pins no register")
    }
}
