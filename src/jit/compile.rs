//! Compiles a block to native code.
//!
//! Cranelift's code of a block is checked before it is made executable: it can't trap, it calls only row functions
//! that are listed here and the loops of `avx`, and its size is bounded.

use super::avx::{self, RowLoop};
use super::code::CodeModule;
use super::emit::{self, BodySpec, CALLED_ROW, Constants, Imports, ROW_LOOP, STORE_ROW, Target};
use super::invocation::ByteLinks;
use super::vector_bits::{self, Fallback, VectorBits};
use super::{call, check, param_block, perf};
use crate::error::{Error, fail};
use crate::plan::block::Reduction;
use crate::plan::{Block, FusedOp};
use crate::warnings::warn;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, Signature, Type,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{FinalizedMachReloc, FinalizedRelocTarget};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError};
use fuseloop_kernels::ROW_FUNCTIONS;
use fuseloop_ops::author::RowProducer;
use memmap2::MmapMut;
use std::io;
use std::sync::OnceLock;

/// The maximum bytes of code of one block.
const MAX_CODE: usize = 4 << 20;

/// The advice for an error of the compiler.
const BUG: &str = "this is a bug: please report it with the output of `fuseloop info --cpu`";

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

/// The code of one list of fused ops of a block.
#[derive(Debug)]
pub(crate) struct CompiledBody {
    pub(crate) code: CodeModule,
    pub(crate) constants: Vec<u128>,
    pub(crate) layout: param_block::ParamLayout,
    /// The reductions that run over the image first, each with the position of the fused op that needs
    /// it.
    pub(crate) readings: Vec<(Reduction, usize)>,
    /// The map of bytes that the fused ops are, if they change each byte by itself.
    pub(super) byte_links: Option<ByteLinks>,
    /// The widest vectors that were asked for.
    pub(crate) bits: VectorBits,
    /// The vectors of each pass: the widest that were asked for, or why they have 128 bits.
    pub(super) passes: Vec<Result<VectorBits, Fallback>>,
}

impl CompiledBody {
    /// Returns true if loops over `block`'s image read masks of the pixels in view.
    pub(super) fn reads_masks(&self, block: &Block) -> bool {
        self.bits == VectorBits::V512 && block.padded_copy.is_some()
    }

    /// Returns true if no pass over `block`'s image reads pixels that are out of view.
    pub(super) fn masks_all(&self, block: &Block) -> bool {
        self.reads_masks(block) && self.passes.iter().all(Result::is_ok)
    }
}

/// Returns why this machine can't run compiled code, or `None` if it can. Without compiled code,
/// pipelines run on the scalar evaluator: the same bits, but slower.
#[must_use]
pub fn unsupported() -> Option<&'static str> {
    static REASON: OnceLock<Option<&'static str>> = OnceLock::new();
    *REASON.get_or_init(find_reason)
}

fn find_reason() -> Option<&'static str> {
    if std::env::var_os("FUSELOOP_NO_JIT").is_some() {
        return Some("FUSELOOP_NO_JIT is set");
    }
    lacks().or_else(|| refuses_pages().then_some(NO_PAGES))
}

/// Returns what the CPU lacks for compiled code. Each aarch64 CPU has all of it.
fn lacks() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    return (!std::arch::is_x86_feature_detected!("sse4.1")).then_some("the CPU has no SSE4.1");
    #[cfg(target_arch = "aarch64")]
    return None;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return Some("code is compiled for x86-64 and aarch64 only");
}

/// Returns the instructions that code for this CPU may use.
fn host() -> Target {
    #[cfg(target_arch = "x86_64")]
    return Target {
        x86: true,
        fma: std::arch::is_x86_feature_detected!("fma")
            && !check::settings().without.contains(&"has_fma"),
    };
    #[cfg(not(target_arch = "x86_64"))]
    return Target::PORTABLE;
}

/// The reason of a system that lets no process, or not this one, make executable what it has written.
const NO_PAGES: &str = "the system refuses executable memory";

/// Returns true if the system refuses to make a page executable, as `cranelift-jit` makes those of code. Other faults,
/// such as no memory, are found when code is compiled.
fn refuses_pages() -> bool {
    let page = MmapMut::map_anon(1).and_then(MmapMut::make_exec);
    page.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Warns that nothing is compiled although the machine could: the user may not know of the policy that is the reason.
pub(crate) fn warn_if_refused() {
    if unsupported() == Some(NO_PAGES) {
        warn(format_args!(
            "{NO_PAGES} (systemd's MemoryDenyWriteExecute, SELinux's execmem, or the policy of a container): pipelines are \
             evaluated op by op, the same bits in many times the time. Allow it for this process; FUSELOOP_NO_JIT=1 asks \
             for the evaluator without this warning"
        ));
    }
}

/// Compiles one list of fused ops. `perf` shows the code under `name`.
pub(crate) fn compile(spec: BodySpec<'_>, name: &str) -> Result<CompiledBody, Error> {
    let mut module = new_module();
    let mut constants = Constants::default();
    let row_loops = avx::row_loops(spec, &mut constants);
    match define(&mut module, spec, &row_loops, &mut constants) {
        Ok(Defined { entry, bytes, loops }) => {
            perf::note(name, entry, bytes);
            let mut all = bytes;
            for (pass, address, bytes) in loops {
                perf::note(
                    &format!("{name}::pass{pass}::{}bits", spec.bits.count()),
                    address,
                    bytes,
                );
                all += bytes;
            }
            let code = CodeModule::new(module, entry, all);
            let readings: Vec<_> = spec.readings().collect();
            let of_pass = |row_loop: Result<Option<RowLoop>, Fallback>| {
                row_loop.map(|row_loop| row_loop.map_or(VectorBits::V128, |_| spec.bits))
            };
            let passes = row_loops.into_iter().take(1 + readings.len()).map(of_pass).collect();
            let constants = constants.table().iter().map(|bytes| u128::from_le_bytes(*bytes));
            let (constants, layout, bits) = (constants.collect(), spec.layout, spec.bits);
            let byte_links = ByteLinks::of(spec);
            Ok(CompiledBody { code, constants, layout, readings, byte_links, bits, passes })
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
    let asked = check::settings();
    let mut flags = settings::builder();
    // `none` leaves loads of constants next to their use, where they fold into the instruction.
    let wanted = [
        ("opt_level", if asked.optimized { "speed" } else { "none" }),
        ("regalloc_algorithm", "backtracking"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ("use_colocated_libcalls", "false"),
        ("is_pic", "false"),
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

/// The names of the row functions in this crate: they produce rows, count levels and compute tables.
pub(super) const MAKE: &str = "make_row";
pub(super) const COUNT: &str = "count_levels";
pub(super) const TABLE: &str = "make_table";

/// Returns the name and address of every function that compiled code may call.
pub(super) fn row_functions() -> impl Iterator<Item = (&'static str, *const u8)> {
    let stores = ROW_FUNCTIONS.iter().map(|row| (row.name, row.entry() as *const u8));
    stores.chain([
        (MAKE, call::make_row as *const u8),
        (COUNT, call::count_levels as *const u8),
        (TABLE, call::make_table as *const u8),
    ])
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

/// The code of a block: the address and the bytes of its function, and pass, address and bytes of each loop with wider
/// vectors.
struct Defined {
    entry: *const u8,
    bytes: usize,
    loops: Vec<(usize, *const u8, usize)>,
}

/// The alignment of a loop.
const LOOP_ALIGNMENT: u64 = 64;

fn define(
    module: &mut JITModule,
    spec: BodySpec<'_>,
    row_loops: &[Result<Option<RowLoop>, Fallback>],
    constants: &mut Constants,
) -> Result<Defined, Error> {
    let mut context = module.make_context();
    context.func.signature.params = vec![AbiParam::new(I64); 3];
    let id = module.declare_function("block", Linkage::Export, &context.func.signature)?;
    let [store, maker, count, table] = imported(spec);
    let mut import = |row: Imported| -> Result<Option<FuncRef>, Error> {
        row.map(|(name, words)| import(module, &mut context.func, name, words)).transpose()
    };
    let mut allowed = imported(spec).iter().flatten().count();
    let (store, maker) = (import(store)?, import(maker)?);
    let (count, table) = (import(count)?, import(table)?);
    let (mut references, mut loops) = (vec![], vec![]);
    for (pass, row_loop) in row_loops.iter().enumerate() {
        let Ok(Some(row_loop)) = row_loop else {
            references.push(None);
            continue;
        };
        let mut signature = module.make_signature();
        signature.params = ROW_LOOP.map(AbiParam::new).to_vec();
        let id = module.declare_function(&loop_name(pass), Linkage::Local, &signature)?;
        let code = row_loop.code();
        module.define_function_bytes(id, LOOP_ALIGNMENT, &code, &[])?;
        let reference = module.declare_func_in_func(id, &mut context.func);
        // It need not be near the function.
        context.func.dfg.ext_funcs[reference].colocated = false;
        references.push(Some(reference));
        loops.push((pass, id, code.len()));
        allowed += 1;
    }
    let imports = Imports { store, maker, count, table, row_loops: references };

    let mut builder_context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut context.func, &mut builder_context);
    emit::function(&mut builder, spec, &imports, host(), constants);
    builder.finalize(module.target_config());
    module.define_function(id, &mut context)?;
    let bytes = check_code(&context, allowed)?;
    module.finalize_definitions()?;
    let address = |(pass, id, bytes)| (pass, module.get_finalized_function(id), bytes);
    let loops = loops.into_iter().map(address).collect();
    Ok(Defined { entry: module.get_finalized_function(id), bytes, loops })
}

/// The name of the loop of a pass.
pub(super) fn loop_name(pass: usize) -> String {
    format!("row_loop_{pass}")
}

/// Declares a row function. An unknown name is rejected here, since the linker would search the whole
/// process for it.
fn import(
    module: &mut JITModule,
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

/// Returns the widest vectors that loops may have, or an error if the environment asks for others.
pub(super) fn vector_bits() -> Result<VectorBits, Error> {
    match check::settings().bits {
        Some(bits) => Ok(bits),
        None => vector_bits::vector_bits(),
    }
}

/// Returns the IR of a block as text, for golden tests and inspection.
pub(crate) fn ir_text(spec: BodySpec<'_>) -> String {
    ir(spec, host()).display().to_string()
}

/// Returns the native code of a block as text: instructions and registers as Cranelift lists them right
/// before it encodes them, without the pseudo-instructions that emit no bytes.
pub(crate) fn asm_text(spec: BodySpec<'_>) -> Result<String, Error> {
    let mut context = cranelift_codegen::Context::for_function(ir(spec, host()));
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
    let [store, maker, count, table] = imported(spec).map(|name| name.map(&mut import));
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
