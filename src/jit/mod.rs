//! Plans to native code, and one sample through it.
//!
//! ```text
//! ImagePlan ──▶ Kernel (a compiled function for each block) ──▶ run(draws, pixels) ─▶ one row of a batch
//! ```
//!
//! [`Kernel::run`] gives the same bits as [`evaluate`], the oracle: where code can't be compiled
//! ([`unsupported`]) or a picture is too narrow for vectors, the oracle runs in its place.

mod call;
mod code;
mod compile;
mod compose;
mod emit;
mod oracle;
mod record;
mod shot;

pub use compile::{CompileError, unsupported};
pub use oracle::evaluate;
pub use shot::Source;

use crate::plan::{Draws, ImagePlan};
use compile::Compiled;
use emit::Spec;
use fuseloop_ops::{Class, ImageView, Size};
use record::Layout;
use shot::{Memory, Shot};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A compiled plan. Shared by workers; each has a [`Scratch`] of its own.
#[derive(Debug)]
pub struct Kernel {
    plan: ImagePlan,
    /// One for each block; empty where code can't be compiled.
    blocks: Blocks,
    compile_time: Duration,
}

/// A worker's memory, reused from sample to sample.
#[derive(Debug, Default)]
pub struct Scratch {
    memory: Memory,
    between: [Vec<u8>; 2],
}

/// Code by what it was made from, so that a pipeline that comes back is not compiled again. Sizes,
/// probabilities and ranges are not part of the code.
#[derive(Debug, Default)]
pub struct KernelCache {
    kept: Vec<(String, Blocks)>,
}

type Blocks = Vec<Arc<Compiled>>;

/// Most pipelines whose code is kept; the one kept longest goes first.
const MOST_KEPT: usize = 64;

impl KernelCache {
    /// Compiles a plan, or takes over code that would be the same.
    ///
    /// # Errors
    ///
    /// See [`CompileError`]. A machine that can't run compiled code is no error.
    pub fn compile(&mut self, plan: ImagePlan) -> Result<Kernel, CompileError> {
        let start = Instant::now();
        let blocks = if unsupported().is_some() { vec![] } else { self.blocks(&plan)? };
        Ok(Kernel { plan, blocks, compile_time: start.elapsed() })
    }

    fn blocks(&mut self, plan: &ImagePlan) -> Result<Blocks, CompileError> {
        let key = plan.code_key();
        if let Some((_, blocks)) = self.kept.iter().find(|(kept, _)| *kept == key) {
            return Ok(blocks.clone());
        }
        let compiled = specs(plan).into_iter().map(|spec| compile::compile(spec).map(Arc::new));
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
    pub fn compile(plan: ImagePlan) -> Result<Self, CompileError> {
        KernelCache::default().compile(plan)
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &ImagePlan {
        &self.plan
    }

    /// How long compiling took.
    #[must_use]
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// Bytes of native code; 0 where the oracle runs in its place.
    #[must_use]
    pub fn code_bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.code.bytes()).sum()
    }

    /// Whether this kernel runs the very code of `other`.
    #[must_use]
    pub fn shares_code_with(&self, other: &Self) -> bool {
        self.blocks.len() == other.blocks.len()
            && self.blocks.iter().zip(&other.blocks).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// The IR of each block, as text.
    #[must_use]
    pub fn ir(&self) -> String {
        if unsupported().is_some() {
            return String::new();
        }
        specs(&self.plan).into_iter().map(compile::ir_text).collect()
    }

    /// The plan in words, with what was compiled.
    #[must_use]
    pub fn explain(&self) -> String {
        let code = match unsupported() {
            Some(reason) => format!("not compiled ({reason}): evaluated op by op\n"),
            None => format!(
                "compiled in {:.2} ms to {} bytes of code\n",
                self.compile_time.as_secs_f64() * 1e3,
                self.code_bytes()
            ),
        };
        self.plan.explain() + &code
    }

    /// Makes one sample's output from its decoded pixels.
    ///
    /// # Panics
    ///
    /// If `out` is not of [`ImagePlan::sample_bytes`], or `source` lacks pixels of
    /// [`ImagePlan::wanted`].
    pub fn run(&self, scratch: &mut Scratch, source: Source<'_>, draws: &Draws, out: &mut [u8]) {
        assert_eq!(out.len(), self.plan.sample_bytes(), "bytes of a sample");
        if self.blocks.is_empty() || self.run_compiled(scratch, source, draws, out).is_none() {
            out.copy_from_slice(&evaluate_part(&self.plan, source, draws));
        }
    }

    /// Changes a stored picture by the op in plain Rust that ends a block, if one does.
    fn run_host_op(&self, block: usize, draws: &Draws, pixels: &mut [u8]) {
        let Some(place) = self.plan.blocks()[block].host else { return };
        if let Class::Host(op) = self.plan.ops()[place].class()
            && op.applies_to(draws.sample)
        {
            op.apply(pixels);
        }
    }

    /// Runs the blocks one after the other; `None` if a picture was too narrow.
    fn run_compiled(
        &self,
        scratch: &mut Scratch,
        source: Source<'_>,
        draws: &Draws,
        out: &mut [u8],
    ) -> Option<()> {
        let last = self.blocks.len() - 1;
        let [from, to] = &mut scratch.between;
        let mut size: Option<Size> = None;
        for (index, compiled) in self.blocks.iter().enumerate() {
            let source = match size {
                None => source,
                Some(size) => Source::whole(ImageView::packed(from, size)?),
            };
            let shot = Shot::new(&self.plan, index, compiled, draws, source);
            if index == last {
                return shot.run(&mut scratch.memory, out).ok();
            }
            let output = shot.output();
            to.resize(output.pixels() as usize * 3, 0);
            shot.run(&mut scratch.memory, to).ok()?;
            self.run_host_op(index, draws, to);
            size = Some(output);
            std::mem::swap(from, to);
        }
        None
    }
}

fn specs(plan: &ImagePlan) -> Vec<Spec<'_>> {
    let spec = |block| Spec {
        ops: plan.ops(),
        block,
        rule: plan.rule(),
        layout: Layout::new(block, plan.slots()),
    };
    plan.blocks().iter().map(spec).collect()
}

/// The oracle on part of an image: what lies around is never read.
fn evaluate_part(plan: &ImagePlan, source: Source<'_>, draws: &Draws) -> Vec<u8> {
    if source.view.size() == source.whole {
        return evaluate(plan, &source.view, draws);
    }
    let stride = source.whole.width as usize * 3;
    let mut whole = vec![0; stride * source.whole.height as usize];
    for y in 0..source.view.size().height {
        let row = source.view.row(y);
        let at = (y + source.top) as usize * stride + source.left as usize * 3;
        whole[at..at + row.len()].copy_from_slice(row);
    }
    let whole = ImageView::packed(&whole, source.whole).expect("made of this size");
    evaluate(plan, &whole, draws)
}
