//! Compiles plans to native code and runs samples through it.
//!
//! ```text
//! ImagePlan ──▶ Kernel (compiled functions for each block) ──▶ run(draws, pixels) ─▶ one row of a batch
//! ```
//!
//! [`Kernel::run`] returns the same bits as [`evaluate`], the oracle. The oracle also runs in place of
//! compiled code where code can't be compiled ([`unsupported`]: no SSE4.1, another architecture, no executable
//! memory) or an image is too narrow for vectors.
//!
//! `plan/mod.rs` explains the compiler step by step. The decisions about its code:
//!
//! * **Code may come from an object file** (`object.rs` writes it, `linked.rs` reads it), in builds without the feature `jit`
//!   too. The plan is made again, and each loop body is found by a key of what its code depends on.
//! * **Sizes are parameters**, and so are probabilities and ranges: none is part of the code. So progressive resizing
//!   finds its code in the cache of every epoch ([`KernelCache`]).
//! * **Cranelift does not optimize** (`opt_level=none`). The emitter places constants next to their use, where they
//!   become operands in memory, and moves loads out of loops itself (`emit/hoist.rs`).
//! * **Wide filters and gathers are functions.** Warps, blurs and resizes other than the antialiased one are row
//!   functions in plain Rust, which the Rust compiler vectorizes for AVX2: Cranelift's vectors have 128 bits, which
//!   these loops gain least from.
//! * **Wider vectors are encoded here** (`avx`). Only the loops over rows and groups of pixels are replaced;
//!   Cranelift's function calls them, and keeps produced rows and row functions. The bits are the same, so `avx` may
//!   refuse any pass, which then has 128 bits.
//! * **Bytes that stay bytes are looked up** (`invocation/bytes.rs`). Where the ops change each byte by itself, which
//!   their programs tell, the compiled loop runs on the 256 levels, and a precompiled function looks the image up in
//!   the result. So no op has a second form for bytes.
//! * **Large batches are stored around the caches.** A batch of f32 of 16 MB or more, if its loop does little, is
//!   written by a row function with non-temporal stores ([`ImagePlan::for_batches_of`]).
//! * **An op may change the number of channels**, and so how many vectors a loop carries. A selection of planes is no
//!   code: it decides which planes are copied and run (`planes.rs`).

#![cfg_attr(
    not(feature = "jit"),
    allow(dead_code, unreachable_pub, reason = "the compiler uses it")
)]

#[cfg(feature = "jit")]
mod avx;
mod body;
mod call;
#[cfg(feature = "jit")]
#[doc(hidden)]
pub mod check;
mod code;
#[cfg(feature = "jit")]
mod compile;
#[cfg(feature = "jit")]
mod emit;
mod frame;
pub(crate) mod image_out;
mod invocation;
#[cfg_attr(not(feature = "spec"), allow(dead_code, reason = "object files have pipelines in TOML"))]
pub(crate) mod linked;
mod measure;
mod mix;
#[cfg(feature = "object")]
pub(crate) mod object;
mod oracle;
mod param_block;
#[cfg(feature = "jit")]
mod perf;
mod planes;
mod predict;
mod settings;
mod shuffle_tables;
mod support;
mod variants;
mod vector_bits;

use crate::error::Error;
pub(crate) use body::multiply;
#[cfg(feature = "jit")]
pub(crate) use emit::{BlockCode, Constants, Target, lower};
use fuseloop_ops::internals::DefaultFloats;
pub use invocation::{ChunkRun, DecodedPixels};
pub use measure::{BlockCosts, Costs, KernelTimer};
pub use oracle::{EvaluatedStep, ShownLevels, evaluate, evaluate_steps, shown_row, try_evaluate};
pub(crate) use oracle::{shown, try_evaluate_host};
pub use predict::predict;
pub use support::unsupported;
pub(crate) use support::warn_if_refused;
pub use vector_bits::VectorBits;

use crate::plan::compose::Composed;
use crate::plan::{Draws, FusedOp, ImagePlan, OpKind, PlaneWalk};
use body::{BodySpec, CompiledBody};
use call::{BodyRunner, Native};
use fuseloop_kernels::planes::{join, join_plane, joined};
use fuseloop_ops::author::Layout;
use fuseloop_ops::internals::{
    ImageView, LevelTables, MAX_CHANNELS, PixelFormat, SampleKey, memory,
};
use fuseloop_ops::{DType, Size};
use image_out::ImageOut;
use invocation::{Invocation, LoopBody, NotRun, WaitingSamples, WorkerScratch};
use linked::LinkedCode;
use planes::PlaneScratch;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use variants::Variants;
use vector_bits::Fallback;

/// A compiled plan. Workers share it; each worker has its own [`Scratch`].
#[derive(Debug)]
pub struct Kernel {
    plan: Arc<ImagePlan>,
    /// The loop bodies of each block; empty where code can't be compiled.
    blocks: Blocks,
    /// The kernels of the chain steps of mixing ops, by the index of the flat op.
    steps: Vec<(usize, Self)>,
    /// Tables that are the same for every sample, by the first flat op of their group.
    fixed: Vec<(usize, Box<LevelTables>)>,
    /// The object file that the code is from, if it is not compiled here.
    linked: Option<Arc<LinkedCode>>,
}

/// The memory of one worker, reused from sample to sample.
#[derive(Debug, Default)]
pub struct Scratch {
    memory: WorkerScratch,
    composed: Composed,
    waiting: WaitingSamples,
    between: [Vec<u8>; 2],
    links: Vec<FusedOp>,
    leaves: Vec<usize>,
    /// The memory for the chain steps of mixing ops.
    inner: Option<Box<Self>>,
    mixing: mix::MixBuffers,
    planes: PlaneScratch,
}

/// Compiled code, keyed by what the code was generated from, so that the same pipeline is not compiled
/// twice. Sizes, probabilities and ranges are not part of the code.
#[derive(Clone, Debug, Default)]
pub struct KernelCache {
    entries: Vec<(String, Blocks)>,
    linked: Option<Arc<LinkedCode>>,
}

type Blocks = Vec<Arc<Variants>>;

/// The maximum number of pipelines whose code is cached. The oldest entry is evicted first.
const MAX_CACHED: usize = 64;

impl KernelCache {
    /// A cache that takes all code from an object file.
    pub(crate) fn of_object(linked: Arc<LinkedCode>) -> Self {
        Self { entries: vec![], linked: Some(linked) }
    }

    /// Compiles a plan, or reuses cached code that would be the same.
    ///
    /// A block whose samples may need several loop bodies (orders of a jitter, choices of a policy) is
    /// compiled for one of them. The other bodies are compiled when a sample first needs them.
    ///
    /// # Errors
    ///
    /// If a block can't be compiled: a bug, or a limit of the machine. A machine that can't run compiled code is not an error.
    pub fn compile(&mut self, plan: impl Into<Arc<ImagePlan>>) -> Result<Kernel, Error> {
        let plan = plan.into();
        DefaultFloats::during(|| self.compile_plan(plan))
    }

    fn compile_plan(&mut self, plan: Arc<ImagePlan>) -> Result<Kernel, Error> {
        let is_evaluated = self.linked.is_none() && unsupported().is_some();
        let blocks = if is_evaluated { vec![] } else { self.blocks(&plan)? };
        let mut steps = vec![];
        for (leaf, step) in plan.flat_ops().iter().enumerate() {
            if let Some(step) = &step.step {
                steps.push((leaf, self.compile_plan(Arc::clone(step))?));
            }
        }
        let fixed = fixed_tables(&plan);
        Ok(Kernel { plan, blocks, steps, fixed, linked: self.linked.clone() })
    }

    fn blocks(&mut self, plan: &ImagePlan) -> Result<Blocks, Error> {
        let bits = if self.linked.is_some() { None } else { Some(support::vector_bits()?) };
        let key = format!("{bits:?} {}", plan.code_key());
        if let Some((_, blocks)) = self.entries.iter().find(|(known, _)| *known == key) {
            return Ok(blocks.clone());
        }
        let compiled = first_links(plan).into_iter().enumerate().map(|(block, links)| {
            let linked = self.linked.as_deref();
            let compile = |links: &[FusedOp]| compile_body((plan, block), links, 0, linked);
            Variants::new(links, compile).map(Arc::new)
        });
        let blocks = compiled.collect::<Result<Blocks, _>>()?;
        if self.entries.len() == MAX_CACHED {
            self.entries.remove(0);
        }
        self.entries.push((key, blocks.clone()));
        Ok(blocks)
    }
}

impl Kernel {
    /// Compiles a plan.
    ///
    /// # Errors
    ///
    /// If a block can't be compiled: a bug, or a limit of the machine. A machine that can't run compiled code is not an error.
    pub fn compile(plan: impl Into<Arc<ImagePlan>>) -> Result<Self, Error> {
        KernelCache::default().compile(plan)
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &ImagePlan {
        &self.plan
    }

    /// The plan, for a caller that clones the `Arc`.
    pub(crate) fn shared_plan(&self) -> &Arc<ImagePlan> {
        &self.plan
    }

    /// The total compile time so far, for all kernels that share the code.
    #[must_use]
    pub fn compile_time(&self) -> Duration {
        let steps = self.steps.iter().map(|(_, kernel)| kernel.compile_time());
        self.blocks.iter().map(|block| block.compile_time()).chain(steps).sum()
    }

    /// The bytes of native code so far; 0 where the oracle runs in place of compiled code.
    #[must_use]
    pub fn code_bytes(&self) -> usize {
        let steps = self.steps.iter().map(|(_, kernel)| kernel.code_bytes());
        self.blocks.iter().map(|block| block.code_bytes()).chain(steps).sum()
    }

    /// The number of loop bodies compiled so far.
    #[must_use]
    pub fn loop_bodies(&self) -> usize {
        let steps = self.steps.iter().map(|(_, kernel)| kernel.loop_bodies());
        self.blocks.iter().map(|block| block.len()).chain(steps).sum()
    }

    /// Returns the number of loop bodies that could not be compiled so far, and the error of the first.
    /// Their samples are evaluated op by op: the same bits, but slowly. There should be none.
    #[must_use]
    pub fn failed_loops(&self) -> (usize, Option<String>) {
        let steps = self.steps.iter().map(|(_, kernel)| kernel.failed_loops());
        let all = self.blocks.iter().map(|block| block.failed()).chain(steps);
        all.fold((0, None), |(count, error), (more, other)| (count + more, error.or(other)))
    }

    /// Returns true if this kernel and `other` run the same compiled code.
    #[must_use]
    pub fn shares_code_with(&self, other: &Self) -> bool {
        self.blocks.len() == other.blocks.len()
            && self.blocks.iter().zip(&other.blocks).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// Returns the IR of each block as text, for the loop body that was compiled first.
    #[cfg(feature = "jit")]
    #[must_use]
    pub fn ir(&self) -> String {
        self.first_bodies(compile::ir_text)
    }

    /// Returns the native code of each block as text, for the loop body that was compiled first.
    #[cfg(feature = "jit")]
    #[must_use]
    pub fn asm(&self) -> String {
        self.first_bodies(|spec| compile::asm_text(spec).unwrap_or_else(|error| error.to_string()))
    }

    /// Applies `text` to the first compiled loop body of each block and joins the results.
    #[cfg(feature = "jit")]
    fn first_bodies(&self, text: impl Fn(BodySpec<'_>) -> String) -> String {
        let Some(bits) = support::vector_bits().ok().filter(|_| unsupported().is_none()) else {
            return String::new();
        };
        let links = first_links(&self.plan);
        let texts = links.iter().enumerate().map(|(block, links)| {
            format!(
                "; {}\n{}",
                body_name(&self.plan, block, 0),
                text(spec(&self.plan, block, links, bits))
            )
        });
        texts.collect()
    }

    /// Describes the plan and the code compiled for it.
    #[must_use]
    pub fn explain(&self) -> String {
        let code = match unsupported() {
            _ if self.linked.is_some() => {
                format!("{} bytes of code, compiled ahead of time\n", self.code_bytes())
            }
            Some(reason) => format!("not compiled ({reason}): evaluated op by op\n"),
            None => format!(
                "compiled {} loop(s) in {:.2} ms to {} bytes of code\n",
                self.loop_bodies(),
                self.compile_time().as_secs_f64() * 1e3,
                self.code_bytes()
            ),
        };
        let failed = match self.failed_loops() {
            (0, _) => String::new(),
            (count, error) => format!(
                "{count} loop(s) could not be compiled ({}): their samples are evaluated op by op, \
                 slowly; please report this\n",
                error.unwrap_or_default()
            ),
        };
        self.plan.explain() + &code + &self.explain_vectors() + &self.explain_bytes() + &failed
    }

    /// Says which vectors the passes over images have, and why some have 128 bits.
    fn explain_vectors(&self) -> String {
        let passes = self.passes();
        let of_bits = |bits: VectorBits| {
            let is_so =
                |pass: &&Result<VectorBits, Fallback>| pass.unwrap_or(VectorBits::V128) == bits;
            match passes.iter().filter(is_so).count() {
                0 => None,
                1 => Some(format!("of {} bits in 1 pass", bits.count())),
                count => Some(format!("of {} bits in {count} passes", bits.count())),
            }
        };
        let widths = [VectorBits::V512, VectorBits::V256, VectorBits::V128];
        let parts: Vec<String> = widths.into_iter().filter_map(of_bits).collect();
        if parts.is_empty() {
            return String::new();
        }
        let reasons: BTreeSet<String> =
            passes.iter().filter_map(|pass| Some(pass.err()?.to_string())).collect();
        let reasons: Vec<String> = reasons.into_iter().collect();
        let why =
            if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
        format!("vectors {}{why}\n", parts.join(", "))
    }

    /// Says whether bytes are copied, or looked up in tables, and the loop does not run over the image.
    fn explain_bytes(&self) -> String {
        let fewest: Vec<u64> =
            self.blocks.iter().flat_map(|block| block.byte_maps_from()).collect();
        match fewest.iter().filter(|fewest| **fewest > 0).min() {
            Some(fewest) => format!(
                "bytes are looked up in tables of 256, which the loop computes, in images of {fewest} pixels or more\n"
            ),
            None if fewest.is_empty() => String::new(),
            None => "bytes are copied without the loop, unless rows are resampled\n".to_owned(),
        }
    }

    /// Returns the vectors of each pass of each loop body compiled so far, or why they have 128 bits.
    fn passes(&self) -> Vec<Result<VectorBits, Fallback>> {
        let steps = self.steps.iter().flat_map(|(_, kernel)| kernel.passes());
        self.blocks.iter().flat_map(|block| block.passes()).chain(steps).collect()
    }

    /// Makes a loop body fail to compile, for tests of what is said about it.
    #[cfg(all(test, feature = "jit"))]
    pub(crate) fn fail_a_loop(&self) {
        let links = vec![FusedOp::Paint { region: usize::MAX }];
        let error = |_: &[FusedOp], _| Err(compile::is_unsafe("can trap"));
        assert!(self.blocks[0].get(&links, error).is_none());
    }

    /// Computes one sample's output from its decoded pixels. If a device runs the end of the plan, the
    /// output is the image that is sent to the device.
    ///
    /// # Panics
    ///
    /// If the length of `out` is not [`ImagePlan::drawn_bytes`], or `out` is not aligned to its elements,
    /// or `source` lacks pixels of [`ImagePlan::needed_window`], or an op returns an error, or the system has no
    /// memory for the images between the ops.
    pub fn run(
        &self,
        scratch: &mut Scratch,
        source: DecodedPixels<'_>,
        draws: &Draws,
        out: &mut [u8],
    ) {
        self.try_run(scratch, source, draws, out).expect("the ops of a sample");
    }

    /// Like [`run`](Self::run), but returns an error if an op does or memory runs out: both depend on the
    /// user.
    ///
    /// # Errors
    ///
    /// If an op returns an error, or the system has no memory for the images between the ops.
    ///
    /// # Panics
    ///
    /// Like [`run`](Self::run), except for such errors.
    pub(crate) fn try_run(
        &self,
        scratch: &mut Scratch,
        source: DecodedPixels<'_>,
        draws: &Draws,
        out: &mut [u8],
    ) -> Result<(), Error> {
        self.try_run_into(scratch, source, draws, out.into())
    }

    /// Like [`try_run`](Self::try_run), for an image whose planes may have others between them.
    ///
    /// # Errors
    ///
    /// Like [`try_run`](Self::try_run).
    ///
    /// # Panics
    ///
    /// Like [`run`](Self::run), except for such errors, or if the image has no planes that could lie apart.
    pub(crate) fn try_run_into(
        &self,
        scratch: &mut Scratch,
        source: DecodedPixels<'_>,
        draws: &Draws,
        out: ImageOut<'_>,
    ) -> Result<(), Error> {
        DefaultFloats::during(|| self.run_by(&Native, scratch, source, draws, out))
    }

    /// Like [`try_run`](Self::try_run), with loop bodies that `runner` runs.
    fn run_by(
        &self,
        runner: &impl BodyRunner,
        scratch: &mut Scratch,
        source: DecodedPixels<'_>,
        draws: &Draws,
        mut out: ImageOut<'_>,
    ) -> Result<(), Error> {
        out.reborrow().parts(self.stored_planes(), self.plan.drawn_bytes(draws));
        let ran = match self.plan.planes() {
            None => self.run_compiled(runner, scratch, 0, source, draws, out.reborrow()),
            Some(planes) => {
                self.run_planes(runner, scratch, (source, planes), draws, out.reborrow())
            }
        };
        self.or_evaluated(ran, source, draws, out)
    }

    /// Returns the number of planes that an output is stored as.
    fn stored_planes(&self) -> usize {
        let output = self.plan.output();
        if output.layout == Layout::ChannelsFirst { usize::from(output.channels).max(1) } else { 1 }
    }

    /// Writes `out` by the oracle if compiled code can't.
    fn or_evaluated(
        &self,
        ran: Result<(), NotRun>,
        source: DecodedPixels<'_>,
        draws: &Draws,
        out: ImageOut<'_>,
    ) -> Result<(), Error> {
        match ran {
            Ok(()) => Ok(()),
            Err(NotRun::Failed(error)) => Err(error),
            Err(NotRun::Evaluate) => {
                out.copy(&evaluate_part(&self.plan, source, draws)?, self.stored_planes());
                Ok(())
            }
        }
    }

    /// Starts the run of several samples, whose loops run by as few calls as they can.
    pub fn run_chunk<'r>(&'r self, scratch: &'r mut Scratch) -> ChunkRun<'r> {
        ChunkRun::new(self, scratch)
    }

    /// Runs the compiled blocks for an image of planes.
    fn run_planes(
        &self,
        runner: &impl BodyRunner,
        scratch: &mut Scratch,
        (source, planes): (DecodedPixels<'_>, PlaneWalk),
        draws: &Draws,
        out: ImageOut<'_>,
    ) -> Result<(), NotRun> {
        let mut buffers = std::mem::take(&mut scratch.planes);
        buffers.draws.clone_from(draws);
        let PlaneScratch { channels, split, image, draws: of_plane } = &mut buffers;
        channels.clear();
        channels.extend((0..planes.count).map(|plane| self.plan.plane_channel(draws, plane)));
        let wanted = self.plan.needed_window(draws);
        if planes.blocks == 0 {
            let image = planes::selected(source, wanted, channels, image)?;
            self.run_compiled(runner, scratch, 0, image, draws, out)?;
        } else {
            let source = match source.view.plane(0) {
                Some(_) => source,
                None => {
                    let source = planes::split(source, wanted, channels, split)?;
                    channels.iter_mut().zip(0..).for_each(|(channel, plane)| *channel = plane);
                    source
                }
            };
            if planes.blocks < self.blocks.len() {
                let image = self.join_planes(
                    runner,
                    scratch,
                    (source, planes),
                    (channels, of_plane, image),
                )?;
                self.run_compiled(runner, scratch, planes.blocks, image, draws, out)?;
            } else {
                self.store_planes(runner, scratch, source, (channels, of_plane, image), out)?;
            }
        }
        scratch.planes = buffers; // after an error, they are allocated anew
        Ok(())
    }

    /// Runs all blocks for each plane, and stores the planes in the output.
    fn store_planes(
        &self,
        runner: &impl BodyRunner,
        scratch: &mut Scratch,
        source: DecodedPixels<'_>,
        (channels, draws, stored): (&[usize], &mut Draws, &mut Vec<u8>),
        out: ImageOut<'_>,
    ) -> Result<(), NotRun> {
        let format = PixelFormat { channels: channels.len(), dtype: self.plan.stored_dtype() };
        let bytes = self.plan.drawn_bytes(draws);
        let mut each = |planes: ImageOut<'_>| {
            let each = planes.each_plane(channels.len(), bytes);
            for ((plane, channel), to) in channels.iter().enumerate().zip(each) {
                self.plan.set_plane(draws, plane);
                let view = source.view.plane(*channel).ok_or(NotRun::Evaluate)?;
                let source = DecodedPixels { view, ..source };
                self.run_compiled(runner, scratch, 0, source, draws, to.into())?;
            }
            Ok(())
        };
        if self.plan.output().layout == Layout::ChannelsFirst {
            return each(out);
        }
        let start = resize_aligned(stored, bytes, format.dtype)?;
        each((&mut stored[start..][..bytes]).into())?;
        join(&stored[start..][..bytes], out.parts(1, bytes).0, format);
        Ok(())
    }

    /// Runs the blocks before a selection for each plane, and returns the image of the planes.
    fn join_planes<'b>(
        &self,
        runner: &impl BodyRunner,
        scratch: &mut Scratch,
        (source, planes): (DecodedPixels<'_>, PlaneWalk),
        (channels, draws, image): (&[usize], &mut Draws, &'b mut Vec<u8>),
    ) -> Result<DecodedPixels<'b>, NotRun> {
        let format = self.plan.blocks()[planes.blocks].source_format();
        let element = format.dtype.bytes();
        let (mut first, mut size) = (0, source.whole);
        for (plane, channel) in channels.iter().enumerate() {
            self.plan.set_plane(draws, plane);
            let view = source.view.plane(*channel).ok_or(NotRun::Evaluate)?;
            let source = DecodedPixels { view, ..source };
            let stored = self.run_blocks(runner, scratch, 0..planes.blocks, source, draws, None)?;
            let (start, stored_size) = stored.ok_or(NotRun::Evaluate)?;
            if plane == 0 {
                size = stored_size;
                let bytes = size.pixels() as usize * format.pixel_bytes();
                first = resize_aligned(image, bytes, format.dtype)?;
            }
            let bytes = size.pixels() as usize * element;
            let stored = &scratch.between[0][start..start + bytes];
            join_plane(stored, &mut image[first..], (plane, channels.len()), element);
        }
        let view = ImageView::packed_format(&image[first..], size, format);
        Ok(DecodedPixels::whole(view.ok_or(NotRun::Evaluate)?))
    }

    /// Runs the compiled blocks from block `first` on in order.
    fn run_compiled(
        &self,
        runner: &impl BodyRunner,
        scratch: &mut Scratch,
        first: usize,
        source: DecodedPixels<'_>,
        draws: &Draws,
        out: ImageOut<'_>,
    ) -> Result<(), NotRun> {
        let blocks = first..self.blocks.len();
        self.run_blocks(runner, scratch, blocks, source, draws, Some(out)).map(|_| ())
    }

    /// Runs compiled blocks in order. The last one writes `out`; without it, the image is stored in
    /// `scratch.between[0]`, and its first byte and its size are returned.
    fn run_blocks(
        &self,
        runner: &impl BodyRunner,
        scratch: &mut Scratch,
        blocks: Range<usize>,
        source: DecodedPixels<'_>,
        draws: &Draws,
        mut out: Option<ImageOut<'_>>,
    ) -> Result<Option<(usize, Size)>, NotRun> {
        let Scratch { memory, composed, between, links, leaves, inner, mixing, .. } = scratch;
        let [from, to] = between;
        let last = self.blocks.len().min(blocks.end).checked_sub(1).ok_or(NotRun::Evaluate)?;
        let mut stored: Option<(usize, Size)> = None;
        for index in blocks {
            let variants = &self.blocks[index];
            if index < last && self.changes_nothing(index, draws) {
                continue;
            }
            let source = match stored {
                None => source,
                Some((start, size)) => {
                    let format = self.plan.blocks()[index].source_format();
                    let view = ImageView::packed_format(&from[start..], size, format);
                    DecodedPixels::whole(view.ok_or(NotRun::Evaluate)?)
                }
            };
            let block = &self.plan.blocks()[index];
            self.plan.fused_ops(block, draws, links, leaves);
            let linked = self.linked.as_deref();
            let compile =
                |links: &[FusedOp], body| compile_body((&self.plan, index), links, body, linked);
            let compiled = variants.get(links, compile).ok_or(NotRun::Evaluate)?;
            let body = LoopBody { links, leaves, fixed: &self.fixed };
            let (plan, sample) = ((&*self.plan, index), (draws, source));
            let invocation = Invocation::new(plan, &compiled, sample, body, composed, runner);
            if index == last
                && let Some(out) = out.take()
            {
                invocation.run(memory, out)?;
                return Ok(None);
            }
            let mut output = invocation.output();
            let bytes = invocation.output_bytes();
            let start = resize_aligned(to, bytes, block.dtype)?;
            invocation.run(memory, (&mut to[start..start + bytes]).into())?;
            if let Some(leaf) = block.host.filter(|leaf| draws.active[*leaf]) {
                output = self.plan.run_host_op(leaf, draws, output, to)?;
                self.mix(runner, (inner, mixing), leaf, draws, output, to)?;
            }
            stored = Some((start, output));
            std::mem::swap(from, to);
        }
        Ok(stored)
    }

    /// Applies the op at `leaf` to a stored image, if it is a mixing op.
    fn mix(
        &self,
        runner: &impl BodyRunner,
        (scratch, buffers): (&mut Option<Box<Scratch>>, &mut mix::MixBuffers),
        leaf: usize,
        draws: &Draws,
        size: Size,
        pixels: &mut [u8],
    ) -> Result<(), Error> {
        let Some((_, kernel)) = self.steps.iter().find(|(of, _)| *of == leaf) else {
            return Ok(());
        };
        let channels = usize::from(self.plan.flat_ops()[leaf].input.channels);
        let scratch = scratch.get_or_insert_default();
        mix::mix(&self.plan, leaf, draws, pixels, buffers, |_, draws, from, to| {
            match ImageView::packed_channels(from, size, channels) {
                Some(view) => kernel.run_by(
                    runner,
                    scratch,
                    DecodedPixels::whole(view),
                    draws,
                    (&mut to[..]).into(),
                ),
                None => Ok(()),
            }
        })
    }

    /// Returns true if a block passes its image on unchanged, so that the next block can read this
    /// block's source.
    fn changes_nothing(&self, index: usize, draws: &Draws) -> bool {
        let block = &self.plan.blocks()[index];
        let moves = draws.geometry.iter().any(|(leaf, _)| block.ops.contains(leaf));
        let steps = block.groups.iter().any(|step| draws.active[step.flat_ops[0]]);
        let converts = block.source != block.dtype;
        !converts && !moves && !steps && !block.host.is_some_and(|leaf| draws.active[leaf])
    }
}

/// Makes room in `buffer` for `bytes` bytes of elements of a type. Returns where they begin: the first element
/// is aligned.
fn resize_aligned(
    buffer: &mut Vec<u8>,
    bytes: usize,
    dtype: DType,
) -> Result<usize, memory::NoMemory> {
    let element = dtype.bytes();
    memory::resize(buffer, bytes.saturating_add(element - 1), "an image between two ops")?;
    Ok((buffer.as_ptr() as usize).next_multiple_of(element) - buffer.as_ptr() as usize)
}

fn spec<'a>(
    plan: &'a ImagePlan,
    block: usize,
    links: &'a [FusedOp],
    bits: VectorBits,
) -> BodySpec<'a> {
    BodySpec::new(plan.flat_ops(), &plan.blocks()[block], links, plan.rule(), bits)
}

/// Compiles loop body number `body` of a block, or takes it from an object file.
fn compile_body(
    (plan, block): (&ImagePlan, usize),
    links: &[FusedOp],
    body: usize,
    linked: Option<&LinkedCode>,
) -> Result<CompiledBody, Error> {
    if let Some(linked) = linked {
        return linked.body((plan, block), links);
    }
    let spec = spec(plan, block, links, support::vector_bits()?);
    compile_here(spec, || body_name(plan, block, body))
}

/// Compiles a loop body. `perf` shows the code under `name`.
#[cfg(feature = "jit")]
fn compile_here(spec: BodySpec<'_>, name: impl FnOnce() -> String) -> Result<CompiledBody, Error> {
    compile::compile(spec, &name())
}

/// Returns the error of a build without the compiler, in which no kernel has loops to compile.
#[cfg(not(feature = "jit"))]
fn compile_here(_: BodySpec<'_>, _: impl FnOnce() -> String) -> Result<CompiledBody, Error> {
    Err(crate::error::fail!(
        Unsupported,
        "nothing can be compiled: enable the feature `jit` of the crate fuseloop"
    ))
}

/// The name of a loop body in `perf` and in listings.
fn body_name(plan: &ImagePlan, block: usize, body: usize) -> String {
    format!("fuseloop::{}::block{block}::variant{body}", plan.name())
}

/// Returns the fused ops of each host block for one sample: the first of a dataset, of the smallest
/// size.
fn first_links(plan: &ImagePlan) -> Vec<Vec<FusedOp>> {
    let (mut draws, mut leaves) = (Draws::default(), vec![]);
    let input = plan.input();
    let size = Size::new(input.height.min.max(1), input.width.min.max(1));
    plan.draw(SampleKey::new(0, 0, 0), size, &mut draws);
    let of_block = |block| {
        let mut links = vec![];
        plan.fused_ops(block, &draws, &mut links, &mut leaves);
        links
    };
    plan.blocks()[..plan.host_blocks()].iter().map(of_block).collect()
}

/// Computes the tables that no draw changes.
fn fixed_tables(plan: &ImagePlan) -> Vec<(usize, Box<LevelTables>)> {
    let steps = plan.blocks()[..plan.host_blocks()].iter().flat_map(|block| &block.groups);
    let needs_none = |leaf: &usize| match &plan.flat_ops()[*leaf].kind {
        OpKind::Table { param_count, counted, .. } => *param_count == 0 && !counted,
        OpKind::Pixel(kind) => kind.param_count == 0,
        _ => false,
    };
    let is_fixed = |step: &&crate::plan::block::OpGroup| {
        matches!(step.fused_ops[0], FusedOp::Table { .. }) && step.flat_ops.iter().all(needs_none)
    };
    let table = |step: &crate::plan::block::OpGroup| {
        let mut table = Box::new([[0.0; 256]; MAX_CHANNELS]);
        let channels = plan.flat_ops()[step.flat_ops[0]].channels();
        let mut draws = Draws::default();
        draws.params.resize(plan.param_count(), 0.0);
        let none = &[[0; 256]; MAX_CHANNELS][..channels];
        plan.table(&step.flat_ops, &draws, none, &mut table[..channels]);
        (step.flat_ops[0], table)
    };
    steps.filter(is_fixed).map(table).collect()
}

/// Runs the oracle on a decoded part of an image; the pixels around it are never read.
fn evaluate_part(
    plan: &ImagePlan,
    source: DecodedPixels<'_>,
    draws: &Draws,
) -> Result<Vec<u8>, Error> {
    if source.view.size() == source.whole {
        return try_evaluate_host(plan, &source.view, draws);
    }
    if source.view.plane(0).is_some() {
        let mut pixels = vec![];
        let view = joined(&source.view, &mut pixels)?;
        return evaluate_part(plan, DecodedPixels { view, ..source }, draws);
    }
    let format = source.view.format();
    let pixel = format.pixel_bytes();
    let stride = source.whole.width as usize * pixel;
    let mut whole = vec![];
    memory::resize(&mut whole, stride * source.whole.height as usize, "a picture")?;
    for y in 0..source.view.size().height {
        let row = source.view.row(y);
        let at = (y + source.top) as usize * stride + source.left as usize * pixel;
        whole[at..at + row.len()].copy_from_slice(row);
    }
    let whole = ImageView::packed_format(&whole, source.whole, format).expect("made of this size");
    try_evaluate_host(plan, &whole, draws)
}
