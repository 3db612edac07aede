//! Plans to native code, and one sample through it.
//!
//! ```text
//! ImagePlan ──▶ Kernel (compiled functions for each block) ──▶ run(draws, pixels) ─▶ one row of a batch
//! ```
//!
//! [`Kernel::run`] gives the same bits as [`evaluate`], the oracle: where code can't be compiled
//! ([`unsupported`]) or a picture is too narrow for vectors, the oracle runs in its place.

mod call;
#[doc(hidden)]
pub mod check;
mod code;
mod compile;
mod emit;
mod measure;
mod mix;
mod oracle;
mod perf;
mod predict;
mod record;
mod shot;
mod variants;

pub use compile::{CompileError, unsupported};
pub(crate) use emit::{Code, Constants, lower, multiply};
pub use measure::{BlockCosts, Costs, Meter};
pub use oracle::{Step, evaluate, evaluate_steps};
pub(crate) use oracle::{try_evaluate, try_evaluate_host};
pub use predict::predict;
pub use shot::Source;

use crate::plan::{Draws, ImagePlan, Kind, Link};
use emit::Spec;
use fuseloop_ops::{ImageView, NoMemory, SampleKey, Size, Table, memory};
use shot::{Body, Memory, NotRun, Shot};
use std::sync::Arc;
use std::time::Duration;
use variants::Variants;

/// A compiled plan. Shared by workers; each has a [`Scratch`] of its own.
#[derive(Debug)]
pub struct Kernel {
    plan: Arc<ImagePlan>,
    /// One for each block; empty where code can't be compiled.
    blocks: Blocks,
    /// Kernels of the steps of ops that mix, by leaf.
    steps: Vec<(usize, Self)>,
    /// Tables that are the same for every sample, by the first leaf of their step.
    fixed: Vec<(usize, Box<Table>)>,
}

/// A worker's memory, reused from sample to sample.
#[derive(Debug, Default)]
pub struct Scratch {
    memory: Memory,
    between: [Vec<u8>; 2],
    links: Vec<Link>,
    leaves: Vec<usize>,
    /// For the steps of ops that mix.
    inner: Option<Box<Self>>,
    mixing: mix::Buffers,
}

/// Code by what it was made from, so that a pipeline that comes back is not compiled again. Sizes,
/// probabilities and ranges are not part of the code.
#[derive(Debug, Default)]
pub struct KernelCache {
    kept: Vec<(String, Blocks)>,
}

type Blocks = Vec<Arc<Variants>>;

/// Most pipelines whose code is kept; the one kept longest goes first.
const MOST_KEPT: usize = 64;

impl KernelCache {
    /// Compiles a plan, or takes over code that would be the same.
    ///
    /// A block whose samples may need several loop bodies (orders of a jitter, choices of a
    /// policy) is compiled for one of them; the others are when a sample first needs them.
    ///
    /// # Errors
    ///
    /// See [`CompileError`]. A machine that can't run compiled code is no error.
    pub fn compile(&mut self, plan: impl Into<Arc<ImagePlan>>) -> Result<Kernel, CompileError> {
        let plan = plan.into();
        let blocks = if unsupported().is_some() { vec![] } else { self.blocks(&plan)? };
        let mut steps = vec![];
        for (leaf, step) in plan.leaves().iter().enumerate() {
            if let Some(step) = &step.step {
                steps.push((leaf, self.compile(Arc::clone(step))?));
            }
        }
        let fixed = fixed_tables(&plan);
        Ok(Kernel { plan, blocks, steps, fixed })
    }

    fn blocks(&mut self, plan: &ImagePlan) -> Result<Blocks, CompileError> {
        let key = plan.code_key();
        if let Some((_, blocks)) = self.kept.iter().find(|(kept, _)| *kept == key) {
            return Ok(blocks.clone());
        }
        let compiled = first_links(plan).into_iter().enumerate().map(|(block, links)| {
            let compile = |links: &[Link]| compile_body(plan, block, links, 0);
            Variants::new(links, compile).map(Arc::new)
        });
        let blocks = compiled.collect::<Result<Blocks, _>>()?;
        if self.kept.len() == MOST_KEPT {
            self.kept.remove(0);
        }
        self.kept.push((key, blocks.clone()));
        Ok(blocks)
    }
}

impl Kernel {
    /// Compiles a plan.
    ///
    /// # Errors
    ///
    /// See [`CompileError`]. A machine that can't run compiled code is no error.
    pub fn compile(plan: impl Into<Arc<ImagePlan>>) -> Result<Self, CompileError> {
        KernelCache::default().compile(plan)
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &ImagePlan {
        &self.plan
    }

    /// The plan, to keep.
    pub(crate) fn shared_plan(&self) -> &Arc<ImagePlan> {
        &self.plan
    }

    /// How long compiling took so far, for all kernels that share the code.
    #[must_use]
    pub fn compile_time(&self) -> Duration {
        let steps = self.steps.iter().map(|(_, kernel)| kernel.compile_time());
        self.blocks.iter().map(|block| block.compile_time()).chain(steps).sum()
    }

    /// Bytes of native code so far; 0 where the oracle runs in its place.
    #[must_use]
    pub fn code_bytes(&self) -> usize {
        let steps = self.steps.iter().map(|(_, kernel)| kernel.code_bytes());
        self.blocks.iter().map(|block| block.code_bytes()).chain(steps).sum()
    }

    /// Loop bodies compiled so far.
    #[must_use]
    pub fn loop_bodies(&self) -> usize {
        let steps = self.steps.iter().map(|(_, kernel)| kernel.loop_bodies());
        self.blocks.iter().map(|block| block.len()).chain(steps).sum()
    }

    /// Whether this kernel runs the very code of `other`.
    #[must_use]
    pub fn shares_code_with(&self, other: &Self) -> bool {
        self.blocks.len() == other.blocks.len()
            && self.blocks.iter().zip(&other.blocks).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// The IR of each block, as text: of the loop body that was compiled first.
    #[must_use]
    pub fn ir(&self) -> String {
        self.first_bodies(compile::ir_text)
    }

    /// The native code of each block, as text: of the loop body that was compiled first.
    #[must_use]
    pub fn asm(&self) -> String {
        self.first_bodies(|spec| compile::asm_text(spec).unwrap_or_else(|error| error.to_string()))
    }

    /// A text of the loop body of each block that was compiled first.
    fn first_bodies(&self, text: impl Fn(Spec<'_>) -> String) -> String {
        if unsupported().is_some() {
            return String::new();
        }
        let links = first_links(&self.plan);
        let texts = links.iter().enumerate().map(|(block, links)| {
            format!(
                "; {}\n{}",
                body_name(&self.plan, block, 0),
                text(spec(&self.plan, block, links))
            )
        });
        texts.collect()
    }

    /// The plan in words, with what was compiled.
    #[must_use]
    pub fn explain(&self) -> String {
        let code = match unsupported() {
            Some(reason) => format!("not compiled ({reason}): evaluated op by op\n"),
            None => format!(
                "compiled {} loop(s) in {:.2} ms to {} bytes of code\n",
                self.loop_bodies(),
                self.compile_time().as_secs_f64() * 1e3,
                self.code_bytes()
            ),
        };
        self.plan.explain() + &code
    }

    /// Makes one sample's output from its decoded pixels; of a plan that a device ends, the
    /// picture that the device gets.
    ///
    /// # Panics
    ///
    /// If `out` is not of [`ImagePlan::host_bytes`], or is not aligned as its elements are, or
    /// `source` lacks pixels of [`ImagePlan::wanted`], or the system has no memory for the pictures
    /// between the ops.
    pub fn run(&self, scratch: &mut Scratch, source: Source<'_>, draws: &Draws, out: &mut [u8]) {
        self.try_run(scratch, source, draws, out).expect("memory for the pictures of a sample");
    }

    /// As [`run`](Self::run), where the size of the pictures is a user's choice.
    ///
    /// # Errors
    ///
    /// If the system has no memory for the pictures between the ops.
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run), but for memory.
    pub(crate) fn try_run(
        &self,
        scratch: &mut Scratch,
        source: Source<'_>,
        draws: &Draws,
        out: &mut [u8],
    ) -> Result<(), NoMemory> {
        assert_eq!(out.len(), self.plan.host_bytes(), "bytes of a sample");
        self.run_any_size(scratch, source, draws, out)
    }

    /// The same for an output whose size follows from the source's.
    fn run_any_size(
        &self,
        scratch: &mut Scratch,
        source: Source<'_>,
        draws: &Draws,
        out: &mut [u8],
    ) -> Result<(), NoMemory> {
        match self.run_compiled(scratch, source, draws, out) {
            Ok(()) => Ok(()),
            Err(NotRun::Memory(error)) => Err(error),
            Err(NotRun::Evaluate) => {
                out.copy_from_slice(&evaluate_part(&self.plan, source, draws)?);
                Ok(())
            }
        }
    }

    /// Runs the blocks one after the other.
    fn run_compiled(
        &self,
        scratch: &mut Scratch,
        source: Source<'_>,
        draws: &Draws,
        out: &mut [u8],
    ) -> Result<(), NotRun> {
        let Scratch { memory, between: [from, to], links, leaves, inner, mixing } = scratch;
        let last = self.blocks.len().checked_sub(1).ok_or(NotRun::Evaluate)?;
        let mut stored: Option<Size> = None;
        for (index, variants) in self.blocks.iter().enumerate() {
            if index < last && self.changes_nothing(index, draws) {
                continue;
            }
            let source = match stored {
                None => source,
                Some(size) => Source::whole(ImageView::packed(from, size).ok_or(NotRun::Evaluate)?),
            };
            let block = &self.plan.blocks()[index];
            self.plan.links(block, draws, links, leaves);
            let compile = |links: &[Link], body| compile_body(&self.plan, index, links, body);
            let compiled = variants.get(links, compile).ok_or(NotRun::Evaluate)?;
            let body = Body { links, leaves, fixed: &self.fixed };
            let shot = Shot::new(&self.plan, index, &compiled, draws, source, body);
            if index == last {
                return shot.run(memory, out);
            }
            let output = shot.output();
            memory::resize(to, output.pixels() as usize * 3, "a picture between two ops")?;
            shot.run(memory, to)?;
            if let Some(leaf) = block.host.filter(|leaf| draws.active[*leaf]) {
                self.plan.change(leaf, draws, output, to);
                self.mix((inner, mixing), leaf, draws, output, to)?;
            }
            stored = Some(output);
            std::mem::swap(from, to);
        }
        Err(NotRun::Evaluate)
    }

    /// Changes a stored picture by the op at `leaf`, if it mixes.
    fn mix(
        &self,
        (scratch, buffers): (&mut Option<Box<Scratch>>, &mut mix::Buffers),
        leaf: usize,
        draws: &Draws,
        size: Size,
        pixels: &mut [u8],
    ) -> Result<(), NoMemory> {
        let Some((_, kernel)) = self.steps.iter().find(|(of, _)| *of == leaf) else {
            return Ok(());
        };
        let scratch = scratch.get_or_insert_default();
        mix::mix(&self.plan, leaf, draws, pixels, buffers, |_, draws, from, to| {
            match ImageView::packed(from, size) {
                Some(view) => kernel.run_any_size(scratch, Source::whole(view), draws, to),
                None => Ok(()),
            }
        })
    }

    /// Whether a block passes its picture on as it is, so that the next can read the block's own
    /// source.
    fn changes_nothing(&self, index: usize, draws: &Draws) -> bool {
        let block = &self.plan.blocks()[index];
        let moves = draws.motions.iter().any(|(leaf, _)| block.ops.contains(leaf));
        let steps = block.steps.iter().any(|step| draws.active[step.leaves[0]]);
        !moves && !steps && !block.host.is_some_and(|leaf| draws.active[leaf])
    }
}

fn spec<'a>(plan: &'a ImagePlan, block: usize, links: &'a [Link]) -> Spec<'a> {
    Spec::new(plan.leaves(), &plan.blocks()[block], links, plan.rule())
}

/// Compiles loop body number `body` of a block.
fn compile_body(
    plan: &ImagePlan,
    block: usize,
    links: &[Link],
    body: usize,
) -> Result<compile::Compiled, CompileError> {
    compile::compile(spec(plan, block, links), &body_name(plan, block, body))
}

/// What `perf` and listings call a loop body.
fn body_name(plan: &ImagePlan, block: usize, body: usize) -> String {
    format!("fuseloop::{}::block{block}::variant{body}", plan.name())
}

/// For each block the links of one sample: the first of a dataset, of the smallest size.
fn first_links(plan: &ImagePlan) -> Vec<Vec<Link>> {
    let (mut draws, mut leaves) = (Draws::default(), vec![]);
    let input = plan.input();
    let size = Size::new(input.height.min.max(1), input.width.min.max(1));
    plan.draw(SampleKey::new(0, 0, 0), size, &mut draws);
    let of_block = |block| {
        let mut links = vec![];
        plan.links(block, &draws, &mut links, &mut leaves);
        links
    };
    plan.blocks()[..plan.host_blocks()].iter().map(of_block).collect()
}

/// The tables that nothing is drawn for.
fn fixed_tables(plan: &ImagePlan) -> Vec<(usize, Box<Table>)> {
    let steps = plan.blocks()[..plan.host_blocks()].iter().flat_map(|block| &block.steps);
    let needs_none = |leaf: &usize| match &plan.leaves()[*leaf].kind {
        Kind::Table { slots, counted, .. } => *slots == 0 && !counted,
        Kind::Pixel(kind) => kind.slots == 0,
        _ => false,
    };
    let is_fixed = |step: &&crate::plan::block::Step| {
        matches!(step.links[0], Link::Table { .. }) && step.leaves.iter().all(needs_none)
    };
    let table = |step: &crate::plan::block::Step| {
        let mut table = Box::new([[0.0; 256]; 3]);
        let mut draws = Draws::default();
        draws.slots.resize(plan.slots(), 0.0);
        plan.table(&step.leaves, &draws, &[[0; 256]; 3], &mut table);
        (step.leaves[0], table)
    };
    steps.filter(is_fixed).map(table).collect()
}

/// The oracle on part of an image: what lies around is never read.
fn evaluate_part(plan: &ImagePlan, source: Source<'_>, draws: &Draws) -> Result<Vec<u8>, NoMemory> {
    if source.view.size() == source.whole {
        return try_evaluate_host(plan, &source.view, draws);
    }
    let stride = source.whole.width as usize * 3;
    let mut whole = vec![];
    memory::resize(&mut whole, stride * source.whole.height as usize, "a picture")?;
    for y in 0..source.view.size().height {
        let row = source.view.row(y);
        let at = (y + source.top) as usize * stride + source.left as usize * 3;
        whole[at..at + row.len()].copy_from_slice(row);
    }
    let whole = ImageView::packed(&whole, source.whole).expect("made of this size");
    try_evaluate_host(plan, &whole, draws)
}
