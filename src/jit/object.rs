//! Writes the code of a list of ops to an object file, from which programs without a compiler run it.
//!
//! ```text
//! for each block, for each list of fused ops that a sample may need:
//!     BodySpec ──[compile::define]──▶ a function, and its loops with wider vectors
//! functions, description ──▶ the static that [`linked`](super::linked) reads
//! ```
//!
//! Functions are position-independent and call nothing by name. Their constants are in the description.

use super::compile::{self, BUG, Defined};
use super::linked::{BodyDescription, Description, FORMAT, MAGIC, body_key, fnv};
use super::spec;
use super::vector_bits::VectorBits;
use crate::error::{Error, fail};
use crate::plan::{FusedOp, ImagePlan};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_module::{DataDescription, FuncId, Linkage, Module};
use cranelift_object::{ObjectBuilder, ObjectModule};

/// The object file of a list of ops.
#[derive(Debug)]
pub(crate) struct ObjectFile {
    /// The file.
    pub(crate) bytes: Vec<u8>,
    /// The number that the header must have, too.
    pub(crate) header: u64,
    /// The bytes of code.
    pub(crate) code: usize,
    /// The bytes of the description.
    pub(crate) description: usize,
    /// The number of loop bodies.
    pub(crate) bodies: usize,
}

/// Compiles all loop bodies of a plan for a CPU with vectors of `bits`, and defines the static `symbol`. `pipeline` is the
/// text of the pipeline file.
///
/// # Errors
///
/// If samples may need too many loop bodies; if this machine is not an x86-64.
pub(crate) fn write(
    plan: &ImagePlan,
    pipeline: &str,
    symbol: &str,
    bits: VectorBits,
) -> Result<ObjectFile, Error> {
    let builder = ObjectBuilder::new(isa()?, symbol, cranelift_module::default_libcall_names())?;
    let module = ObjectModule::new(builder);
    let mut writer = Writer { module, symbol, bits, bodies: vec![], functions: vec![], code: 0 };
    writer.add(plan)?;
    writer.finish(pipeline)
}

/// Returns the CPU that code is for: an x86-64 with AVX2 and FMA. Wider vectors are not Cranelift's.
fn isa() -> Result<OwnedTargetIsa, Error> {
    let mut flags = settings::builder();
    let wanted = [
        ("opt_level", "none"),
        ("regalloc_algorithm", "backtracking"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ("is_pic", "true"),
    ];
    for (name, value) in wanted {
        flags.set(name, value).expect("these settings exist in the pinned version");
    }
    let mut cpu = cranelift_native::builder_with_options(false).map_err(|_| other_cpu())?;
    // Cranelift's preset lacks AVX, without which it uses neither AVX2 nor FMA.
    for features in ["x86-64-v3", "has_avx"] {
        cpu.enable(features).map_err(|_| other_cpu())?;
    }
    Ok(cpu.finish(settings::Flags::new(flags)).expect("the preset's features are consistent"))
}

fn other_cpu() -> Error {
    fail!(
        Unsupported,
        "this version compiles for x86-64 only: run the command on an x86-64 machine"
    )
}

struct Writer<'a> {
    module: ObjectModule,
    symbol: &'a str,
    bits: VectorBits,
    bodies: Vec<BodyDescription>,
    functions: Vec<FuncId>,
    code: usize,
}

impl Writer<'_> {
    /// Compiles the blocks of a plan, and of the chain steps of its mixing ops.
    fn add(&mut self, plan: &ImagePlan) -> Result<(), Error> {
        for block in 0..plan.host_blocks() {
            for links in plan.blocks()[block].all_fused_ops(plan.flat_ops())? {
                self.body((plan, block), &links)?;
            }
        }
        for step in plan.flat_ops().iter().filter_map(|leaf| leaf.step.as_deref()) {
            self.add(step)?;
        }
        Ok(())
    }

    fn body(&mut self, (plan, block): (&ImagePlan, usize), links: &[FusedOp]) -> Result<(), Error> {
        let key = body_key(plan, block, links);
        if self.bodies.iter().any(|body| body.key == key) {
            return Ok(());
        }
        let spec = spec(plan, block, links, self.bits);
        let name = format!("{}_body_{}", self.symbol, self.bodies.len());
        let mut calls = vec![];
        let defined = compile::define(&mut self.module, &name, spec, Some(&mut calls))?;
        let Defined { id, bytes, loops, constants, passes } = defined;
        let code = bytes + loops.iter().map(|(.., bytes)| bytes).sum::<usize>();
        let calls = calls.into_iter().map(|(name, offset)| (name.to_owned(), offset as usize));
        self.bodies.push(BodyDescription { key, code, constants, passes, calls: calls.collect() });
        self.functions.push(id);
        self.code += code;
        Ok(())
    }

    fn finish(mut self, pipeline: &str) -> Result<ObjectFile, Error> {
        let all: Vec<String> = self.bodies.iter().map(|body| format!("{body:?}")).collect();
        let header = fnv(format!("{pipeline} {:?} {}", self.bits, all.concat()).as_bytes());
        let bodies = self.bodies.len();
        let description =
            Description::new(self.bits, pipeline.to_owned(), header, self.bodies).text();
        let (module, symbol) = (&mut self.module, self.symbol);

        let mut data = DataDescription::new();
        data.define(description.clone().into_bytes().into());
        let text =
            module.declare_data(&format!("{symbol}_description"), Linkage::Local, false, false)?;
        module.define_data(text, &data)?;

        let mut data = DataDescription::new();
        data.set_align(8);
        data.define(vec![0; 8 * bodies].into());
        for (offset, function) in (0..).step_by(8).zip(&self.functions) {
            let function = module.declare_func_in_data(*function, &mut data);
            data.write_function_addr(offset, function);
        }
        let entries =
            module.declare_data(&format!("{symbol}_entries"), Linkage::Local, false, false)?;
        module.define_data(entries, &data)?;

        let crc = crc32c::crc32c(description.as_bytes());
        let mut list = MAGIC.to_vec();
        list.extend([FORMAT.to_le_bytes(), crc.to_le_bytes()].concat());
        let words = [0, description.len() as u64, 0, bodies as u64];
        list.extend(words.map(u64::to_le_bytes).concat());
        let mut data = DataDescription::new();
        data.set_align(8);
        data.define(list.into());
        for (offset, address) in [(16, text), (32, entries)] {
            let address = module.declare_data_in_data(address, &mut data);
            data.write_data_addr(offset, address, 0);
        }
        let list = module.declare_data(symbol, Linkage::Export, false, false)?;
        module.define_data(list, &data)?;

        let bytes = self.module.finish().emit().map_err(|error| {
            fail!(Pipeline, "the object file can't be written (please report this): {error}")
                .help(BUG)
        })?;
        let (code, description) = (self.code, description.len());
        Ok(ObjectFile { bytes, header, code, description, bodies })
    }
}
