//! Compiles a block to native code.
//!
//! Cranelift's code of a block is checked before it is made executable: it can't trap, it calls only row functions
//! that are listed here and the loops of `avx`, and its size is bounded.

use super::avx::{self, RowLoop};
use super::body::{COUNT, CompiledBody, MAKE, TABLE, row_functions};
use super::code::{Code, CodeModule};
use super::emit::{
    self, BodySpec, CALLED_ROW, Callee, Constants, Imports, ROW_LOOP, STORE_ROW, Target,
};
use super::perf;
use super::settings::settings as asked_settings;
use super::support::refuses_pages;
use super::vector_bits::{Fallback, VectorBits};
use crate::error::{Error, fail};
use crate::plan::FusedOp;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, SigRef, Signature, Type,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{FinalizedMachReloc, FinalizedRelocTarget};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleError};
use fuseloop_ops::author::RowProducer;
use fuseloop_ops::internals::memory;

/// The maximum bytes of code of one block.
const MAX_CODE: usize = 4 << 20;

/// The memory that Cranelift takes for each instruction of a block at most: 1,500 to 2,400 bytes were measured.
const ROOM_OF_INSTRUCTION: usize = 4 << 10;

/// The memory that the rest of the compiler takes: the IR of a block, the row loops, the tables of Cranelift.
const ROOM: usize = 2 << 20;

/// The advice for an error of the compiler.
pub(super) const BUG: &str =
    "this is a bug: please report it with the output of `fuseloop info --cpu`";

/// Converts the error of IR that Cranelift rejected: a bug, unless the system refuses executable pages, which it granted when
/// the first block was compiled.
impl From<ModuleError> for Error {
    fn from(error: ModuleError) -> Self {
        if refuses_pages() {
            return fail!(
                Pipeline,
                "the system no longer grants executable memory: set FUSELOOP_NO_JIT=1, or build loaders before the \
                 process gives up that right"
            );
        }
        fail!(Pipeline, "the code generator refused a block (please report this): {error}")
            .help(BUG)
    }
}

/// Returns the error of code that can trap, or calls a function that it may not call: a bug.
pub(super) fn is_unsafe(what: &str) -> Error {
    fail!(Pipeline, "a compiled block {what} (please report this)").help(BUG)
}

/// Returns the instructions that code for this CPU may use.
fn host() -> Target {
    #[cfg(target_arch = "x86_64")]
    return Target {
        x86: true,
        fma: std::arch::is_x86_feature_detected!("fma")
            && !asked_settings().without.contains(&"has_fma"),
    };
    #[cfg(not(target_arch = "x86_64"))]
    return Target::PORTABLE;
}

/// Returns an error unless the system has the memory to compile `instructions`. Cranelift would abort the process.
fn check_room(instructions: usize) -> Result<(), Error> {
    let bytes = ROOM + instructions * ROOM_OF_INSTRUCTION;
    memory::probe(bytes, "the compiler").map_err(|_| {
        let error =
            fail!(Memory, "out of memory: could not allocate {bytes} bytes to compile loops");
        error.out_of_memory().help("set FUSELOOP_NO_JIT=1 to run without compiled loops")
    })
}

/// Compiles one list of fused ops. `perf` shows the code under `name`.
pub(crate) fn compile(spec: BodySpec<'_>, name: &str) -> Result<CompiledBody, Error> {
    check_room(0)?;
    let mut module = new_module();
    let defined = define(&mut module, "block", spec, None).and_then(|defined| {
        module.finalize_definitions()?;
        Ok(defined)
    });
    match defined {
        Ok(Defined { id, bytes, loops, constants, passes }) => {
            let entry = module.get_finalized_function(id);
            perf::note(name, entry, bytes);
            let mut all = bytes;
            for (pass, id, bytes) in loops {
                perf::note(
                    &format!("{name}::pass{pass}::{}bits", spec.bits.count()),
                    module.get_finalized_function(id),
                    bytes,
                );
                all += bytes;
            }
            let code = Code::Compiled(CodeModule::new(module, entry, all));
            Ok(CompiledBody::new(spec, code, constants, passes))
        }
        Err(error) => {
            drop(CodeModule::new(module, std::ptr::null(), 0));
            Err(error)
        }
    }
}

/// Returns a module in which the row functions are defined.
fn new_module() -> JITModule {
    let mut jit = JITBuilder::with_isa(isa(), cranelift_module::default_libcall_names());
    for (name, address) in row_functions() {
        jit.symbol(name, address);
    }
    JITModule::new(jit)
}

fn isa() -> OwnedTargetIsa {
    let asked = asked_settings();
    let mut flags = settings::builder();
    // `none` leaves loads of constants next to their use, where they fold into the instruction.
    let wanted = [
        ("opt_level", if asked.optimized { "speed" } else { "none" }),
        ("regalloc_algorithm", "backtracking"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ("use_colocated_libcalls", "false"),
        ("is_pic", "false"),
        // Windows adds pages to a stack one by one: a large frame must touch each.
        ("enable_probestack", if cfg!(windows) { "true" } else { "false" }),
        ("probestack_strategy", "inline"),
    ];
    for (name, value) in wanted {
        flags.set(name, value).expect("these settings exist in the pinned version");
    }
    let mut host =
        cranelift_native::builder().expect("Cranelift knows the host: `unsupported` was asked");
    for feature in asked.without {
        host.set(feature, "false").expect("these features exist in the pinned version");
    }
    host.finish(settings::Flags::new(flags)).expect("the host's own features are consistent")
}

/// The name of a row function and the types of its arguments.
type Imported = Option<(&'static str, &'static [Type])>;

/// Returns the row functions that a list of fused ops calls: to store rows, to produce rows, to count
/// levels, and to compute tables from the counts.
fn imported(spec: BodySpec<'_>) -> [Imported; 4] {
    let store = emit::row_function(spec).map(|row| (row.name, &STORE_ROW[..]));
    let calls = spec.block.rows == Some(RowProducer::Called);
    let counts = spec.links.iter().any(|link| matches!(link, FusedOp::Table { counted: true, .. }));
    let called = |name, if_so: bool| if_so.then_some((name, &CALLED_ROW[..]));
    [store, called(MAKE, calls), called(COUNT, counts), called(TABLE, counts)]
}

/// The code of a block: its function, the bytes of it, and pass, function and bytes of each loop with wider vectors.
pub(super) struct Defined {
    pub(super) id: FuncId,
    pub(super) bytes: usize,
    pub(super) loops: Vec<(usize, FuncId, usize)>,
    pub(super) constants: Vec<u128>,
    /// The vectors of each pass, or why they have 128 bits.
    pub(super) passes: Vec<Result<VectorBits, Fallback>>,
}

/// The alignment of a loop.
const LOOP_ALIGNMENT: u64 = 64;

/// Defines the function `name` of a block in a module. Its code has the addresses of row functions, which the module
/// knows; or it loads them from its constants, and `linked` gets the name of each and its offset there.
pub(super) fn define(
    module: &mut impl Module,
    name: &str,
    spec: BodySpec<'_>,
    mut linked: Option<&mut Vec<(&'static str, i32)>>,
) -> Result<Defined, Error> {
    let mut constants = Constants::default();
    let row_loops = avx::row_loops(spec, &mut constants);
    let mut context = module.make_context();
    context.func.signature.params = vec![AbiParam::new(I64); 3];
    let is_linked = linked.is_some();
    let linkage = if is_linked { Linkage::Local } else { Linkage::Export };
    let id = module.declare_function(name, linkage, &context.func.signature)?;
    let mut allowed = 0;
    let mut import = |row: Imported| -> Result<Option<Callee>, Error> {
        let Some((name, words)) = row else { return Ok(None) };
        if let Some(linked) = &mut linked {
            let (signature, offset) =
                load(&mut context.func, (module, &mut constants), words, linked.len());
            linked.push((name, offset));
            return Ok(Some(Callee::Constant(signature, offset)));
        }
        allowed += 1;
        import(module, &mut context.func, name, words).map(|row| Some(Callee::Function(row)))
    };
    let [store, maker, count, table] = imported(spec);
    let (store, maker) = (import(store)?, import(maker)?);
    let (count, table) = (import(count)?, import(table)?);
    let (mut references, mut loops) = (vec![], vec![]);
    for (pass, row_loop) in row_loops.iter().enumerate() {
        let Ok(Some(row_loop)) = row_loop else {
            references.push(None);
            continue;
        };
        // Our encoder takes the arguments as System V has them, on every system: Windows has others.
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params = ROW_LOOP.map(AbiParam::new).to_vec();
        let loop_name = if is_linked { format!("{name}_{pass}") } else { loop_name(pass) };
        let id = module.declare_function(&loop_name, Linkage::Local, &signature)?;
        let code = row_loop.code();
        module.define_function_bytes(id, LOOP_ALIGNMENT, &code, &[])?;
        let reference = module.declare_func_in_func(id, &mut context.func);
        // It need not be near the function.
        context.func.dfg.ext_funcs[reference].colocated = is_linked;
        references.push(Some(reference));
        loops.push((pass, id, code.len()));
        allowed += 1;
    }
    let imports = Imports { store, maker, count, table, row_loops: references };

    let mut builder_context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut context.func, &mut builder_context);
    emit::function(&mut builder, spec, &imports, host(), &mut constants);
    builder.finalize(module.target_config());
    check_room(context.func.dfg.num_insts())?;
    module.define_function(id, &mut context)?;
    let bytes = check_code(&context, allowed)?;
    let of_pass = |row_loop: Result<Option<RowLoop>, Fallback>| {
        row_loop.map(|row_loop| row_loop.map_or(VectorBits::V128, |_| spec.bits))
    };
    let passes = row_loops.into_iter().take(1 + spec.readings().count()).map(of_pass).collect();
    let constants = constants.table().iter().map(|bytes| u128::from_le_bytes(*bytes)).collect();
    Ok(Defined { id, bytes, loops, constants, passes })
}

/// Reserves a constant for the address of row function number `number`. Returns the offset of the constant, and the
/// signature of the function in `function`.
fn load(
    function: &mut Function,
    (module, constants): (&impl Module, &mut Constants),
    words: &[Type],
    number: usize,
) -> (SigRef, i32) {
    let mut signature = module.make_signature();
    signature.params = words.iter().copied().map(AbiParam::new).collect();
    let mut unique = *b"fuseloop row fn ";
    unique[15] = number as u8;
    (function.import_signature(signature), constants.offset(unique))
}

/// The name of the loop of a pass.
pub(super) fn loop_name(pass: usize) -> String {
    format!("row_loop_{pass}")
}

/// Declares a row function. An unknown name is rejected here, since the linker would search the whole
/// process for it.
fn import(
    module: &mut impl Module,
    function: &mut Function,
    name: &str,
    words: &[Type],
) -> Result<FuncRef, Error> {
    if !row_functions().any(|(known, _)| known == name) {
        return Err(is_unsafe("calls an undeclared function"));
    }
    let mut signature = module.make_signature();
    signature.params = words.iter().copied().map(AbiParam::new).collect();
    let id = module.declare_function(name, Linkage::Import, &signature)?;
    Ok(module.declare_func_in_func(id, function))
}

/// Checks that compiled code may call `name`, by declaring the function in a module that is then
/// dropped.
pub(super) fn declare(name: &str) -> Result<(), Error> {
    let mut module = new_module();
    let declared = import(&mut module, &mut Function::new(), name, &CALLED_ROW);
    drop(CodeModule::new(module, std::ptr::null(), 0));
    declared.map(|_| ())
}

/// Checks that a block's code can't trap and calls only the functions that it declared. Returns the
/// bytes of the code.
fn check_code(context: &cranelift_codegen::Context, allowed: usize) -> Result<usize, Error> {
    let compiled = context.compiled_code().ok_or_else(|| is_unsafe("has no code"))?;
    let buffer = &compiled.buffer;
    if !buffer.traps().is_empty() {
        return Err(is_unsafe("can trap"));
    }
    // For an instruction that the CPU lacks, Cranelift would call the C library, whose name is not a
    // `User` name.
    let is_declared = |reloc: &FinalizedMachReloc| {
        matches!(reloc.target, FinalizedRelocTarget::ExternalName(ExternalName::User(_)))
    };
    let calls_others = !buffer.relocs().iter().all(is_declared);
    if calls_others || context.func.dfg.ext_funcs.len() > allowed {
        return Err(is_unsafe("calls an undeclared function"));
    }
    let bytes = compiled.code_buffer().len();
    if bytes > MAX_CODE {
        let error =
            fail!(Pipeline, "a block compiled to {bytes} bytes of code; the limit is {MAX_CODE}");
        return Err(error.help(BUG));
    }
    Ok(bytes)
}

/// Returns the IR of a block as text, for golden tests and inspection.
pub(crate) fn ir_text(spec: BodySpec<'_>) -> String {
    ir(spec, host()).display().to_string()
}

/// Returns the native code of a block as text: instructions and registers as Cranelift lists them right
/// before it encodes them, without the pseudo-instructions that emit no bytes.
pub(crate) fn asm_text(spec: BodySpec<'_>) -> Result<String, Error> {
    check_room(0)?;
    let mut context = cranelift_codegen::Context::for_function(ir(spec, host()));
    check_room(context.func.dfg.num_insts())?;
    context.set_disasm(true);
    let compiled = context.compile(isa().as_ref(), &mut Default::default());
    let compiled = compiled.map_err(ModuleError::from)?;
    let is_code =
        |line: &&str| !["unwind", "uninit"].iter().any(|p| line.trim_start().starts_with(p));
    let lines = compiled.vcode.iter().flat_map(|listing| listing.lines()).filter(is_code);
    let mut text: String = lines.map(|line| format!("{line}\n")).collect();
    let row_loops = avx::row_loops(spec, &mut Constants::default());
    for (pass, row_loop) in row_loops.iter().enumerate() {
        if let Ok(Some(row_loop)) = row_loop {
            text.push_str(&format!("{}:\n{}", loop_name(pass), row_loop.text()));
        }
    }
    Ok(text)
}

/// Returns the IR of a block for a CPU. Called functions have a name in place of an address.
pub(super) fn ir(spec: BodySpec<'_>, target: Target) -> Function {
    let mut function = Function::new();
    function.signature.params = vec![AbiParam::new(I64); 3];
    let mut import = |(name, words): (&str, &[Type])| {
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params = words.iter().copied().map(AbiParam::new).collect();
        let signature = function.import_signature(signature);
        let name = ExternalName::testcase(name);
        let (colocated, patchable) = (false, false);
        function.import_function(ExtFuncData { name, signature, colocated, patchable })
    };
    let [store, maker, count, table] =
        imported(spec).map(|name| name.map(|row| Callee::Function(import(row))));
    let mut constants = Constants::default();
    let row_loops = avx::row_loops(spec, &mut constants).into_iter().enumerate();
    let row_loops = row_loops.map(|(pass, row_loop)| {
        row_loop.ok().flatten().map(|_| import((&loop_name(pass), &ROW_LOOP)))
    });
    let imports = Imports { store, maker, count, table, row_loops: row_loops.collect() };
    let mut builder_context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut function, &mut builder_context);
    emit::function(&mut builder, spec, &imports, target, &mut constants);
    builder.finalize(isa().frontend_config());
    function
}
