//! Samples whose loops run by one call of the compiled code.
//!
//! ```text
//! sample 7 ──▶ parameter block ─┐
//! sample 9 ──▶ parameter block ─┴──▶ one call for the samples that have the same loop body
//! ```
//!
//! A sample waits for the call if everything that its parameter block refers to stays where it is: its pixels and its
//! row are borrowed, and its masks and its padded copy have memory of their own. A sample runs at once if its loop
//! needs memory that the next sample uses again, such as the rows of a resize, or if it needs no loop.

use super::{DecodedPixels, Invocation, LoopBody, NotRun, WorkerScratch};
use crate::error::Error;
use crate::jit::body::CompiledBody;
use crate::jit::call::{BodyCall, BodyRunner, MemoryRegion, Native, States};
use crate::jit::param_block::ParamBlocks;
use crate::jit::{Kernel, Scratch, compile_body};
use crate::plan::{Draws, FusedOp, ImagePlan};
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

/// A run of several samples through a kernel. Rows are written when [`end`](Self::end) returns.
#[derive(Debug)]
pub struct ChunkRun<'r> {
    kernel: &'r Kernel,
    scratch: &'r mut Scratch,
    /// The rows of samples that wait are borrowed.
    rows: PhantomData<&'r mut [u8]>,
}

/// The samples that wait, by loop body.
#[derive(Debug, Default)]
pub(in crate::jit) struct WaitingSamples {
    /// The calls, of which the first `used` have samples. The others keep their memory.
    calls: Vec<WaitingCall>,
    used: usize,
}

/// The samples that wait for a call of one loop body.
#[derive(Debug, Default)]
struct WaitingCall {
    links: Vec<FusedOp>,
    compiled: Option<Arc<CompiledBody>>,
    blocks: WaitingBlocks,
}

/// The parameter blocks of samples that wait, and the memory that they refer to.
#[derive(Debug, Default)]
struct WaitingBlocks {
    records: ParamBlocks,
    float_row: Vec<f32>,
    /// The masks and the padded copy of each sample.
    of_samples: Vec<(Vec<u64>, Vec<u8>)>,
    /// The memory that the parameter blocks refer to, if the runner needs it.
    regions: Vec<MemoryRegion>,
    /// True from when a block is added until it is complete.
    is_filling: bool,
}

impl WaitingSamples {
    /// Forgets all samples.
    fn clear(&mut self) {
        for call in &mut self.calls[..self.used] {
            call.compiled = None;
            call.blocks.forget();
        }
        self.used = 0;
    }

    /// Returns the call of a loop body. `compiled` returns the body if no sample waits for it.
    fn call(
        &mut self,
        links: &[FusedOp],
        compiled: impl FnOnce() -> Option<Arc<CompiledBody>>,
    ) -> Option<&mut WaitingCall> {
        let known = self.calls[..self.used].iter().position(|call| call.links == links);
        let index = match known {
            Some(index) => index,
            None => {
                let compiled = compiled()?;
                if self.used == self.calls.len() {
                    self.calls.push(WaitingCall::default());
                }
                let call = &mut self.calls[self.used];
                call.compiled = Some(compiled);
                call.links.clear();
                call.links.extend_from_slice(links);
                self.used += 1;
                self.used - 1
            }
        };
        Some(&mut self.calls[index])
    }
}

impl WaitingBlocks {
    fn forget(&mut self) {
        self.records.clear();
        self.regions.clear();
        self.is_filling = false;
    }

    /// Runs the loop body for all samples that wait, and forgets them.
    #[allow(unsafe_code, reason = "the parameter blocks were filled by `Invocation::fill`")]
    fn run<R: BodyRunner>(
        &mut self,
        (links, compiled): (&[FusedOp], &CompiledBody),
        plan: &ImagePlan,
        runner: &R,
    ) {
        assert!(!self.is_filling, "a parameter block is incomplete, as a sample failed");
        if self.records.count() == 0 {
            return;
        }
        let (block, states) = (&plan.blocks()[0], States { maker: None, levels: None });
        let mut regions = mem::take(&mut self.regions);
        if R::NEEDS_REGIONS {
            // The blocks have moved while others were added.
            regions.retain(|region| region.name != RECORD);
            regions.push(MemoryRegion::write(RECORD, self.records.words()));
        }
        let records = &mut self.records;
        let call = BodyCall { plan, block, links, compiled, records, regions, states };
        // SAFETY: every parameter block was filled and checked as `Invocation::call` says, for a sample without rows
        // that are produced and without reductions. All that its addresses refer to has not moved since: the pixels
        // and the output are borrowed for as long as the `ChunkRun` lives; the masks and the padded copy are the
        // sample's own; the row of floats is as large as it was then or larger, in the same memory; fixed tables are
        // the kernel's. Nothing else refers to the output, the padded copy or the row of floats.
        unsafe { runner.run(call) };
        if block.streams {
            fuseloop_kernels::end_streams();
        }
        self.forget();
    }
}

/// The name of the region of parameter blocks.
pub(super) const RECORD: &str = "record";

impl<'r> ChunkRun<'r> {
    pub(in crate::jit) fn new(kernel: &'r Kernel, scratch: &'r mut Scratch) -> Self {
        scratch.waiting.clear();
        Self { kernel, scratch, rows: PhantomData }
    }

    /// Adds a sample: its decoded pixels, its draws, and its row.
    ///
    /// # Errors
    ///
    /// If an op returns an error, or the system has no memory for the images between the ops. The run can't be ended
    /// then.
    ///
    /// # Panics
    ///
    /// See [`Kernel::run`].
    pub fn add(
        &mut self,
        source: DecodedPixels<'r>,
        draws: &Draws,
        out: &'r mut [u8],
    ) -> Result<(), Error> {
        self.add_by(&Native, source, draws, out)
    }

    /// Like [`add`](Self::add), with loop bodies that `runner` runs.
    pub(in crate::jit) fn add_by<R: BodyRunner>(
        &mut self,
        runner: &R,
        source: DecodedPixels<'r>,
        draws: &Draws,
        out: &'r mut [u8],
    ) -> Result<(), Error> {
        let kernel = self.kernel;
        if kernel.blocks.len() != 1 || kernel.plan.planes().is_some() {
            return kernel.run_by(runner, self.scratch, source, draws, out.into());
        }
        assert_eq!(out.len(), kernel.plan.drawn_bytes(draws), "bytes of a sample");
        let ran = self.wait(runner, source, draws, out);
        kernel.or_evaluated(ran, source, draws, out.into())
    }

    /// Lets the sample wait, or runs it if it can't wait.
    fn wait<R: BodyRunner>(
        &mut self,
        runner: &R,
        source: DecodedPixels<'_>,
        draws: &Draws,
        out: &mut [u8],
    ) -> Result<(), NotRun> {
        let (kernel, plan) = (self.kernel, &*self.kernel.plan);
        let Scratch { memory, composed, links, leaves, waiting, .. } = &mut *self.scratch;
        plan.fused_ops(&plan.blocks()[0], draws, links, leaves);
        let compile = |links: &[FusedOp], body| {
            compile_body((plan, 0), links, body, kernel.linked.as_deref())
        };
        let call = waiting.call(links, || kernel.blocks[0].get(links, compile));
        let call = call.ok_or(NotRun::Evaluate)?;
        let WaitingCall { compiled, blocks, .. } = call;
        let compiled = compiled.as_deref().ok_or(NotRun::Evaluate)?;
        let body = LoopBody { links, leaves, fixed: &kernel.fixed };
        let sample = (draws, source);
        let invocation = Invocation::new((plan, 0), compiled, sample, body, composed, runner);
        if !invocation.can_wait() {
            return invocation.run(memory, out.into());
        }
        if blocks.float_row.capacity() < invocation.row_of_floats() {
            blocks.run((&*links, compiled), plan, runner); // the row will move
        }
        blocks.is_filling = true;
        invocation.fill(memory, blocks, out)?;
        blocks.is_filling = false;
        Ok(())
    }

    /// Writes the rows of all samples.
    ///
    /// # Panics
    ///
    /// If a sample failed.
    pub fn end(self) {
        self.end_by(&Native);
    }

    /// Like [`end`](Self::end), with loop bodies that `runner` runs.
    pub(in crate::jit) fn end_by<R: BodyRunner>(self, runner: &R) {
        let waiting = &mut self.scratch.waiting;
        let used = waiting.used;
        for WaitingCall { links, compiled, blocks } in &mut waiting.calls[..used] {
            if let Some(compiled) = compiled {
                blocks.run((links, compiled), &self.kernel.plan, runner);
            }
        }
        waiting.clear();
    }
}

impl<R: BodyRunner> Invocation<'_, R> {
    /// Returns true if the loop needs nothing that lies in memory which the next sample uses again.
    fn can_wait(&self) -> bool {
        let LoopBody { links, leaves, fixed } = self.body;
        let is_fixed = |leaf: &usize| fixed.iter().any(|(of, _)| of == leaf);
        let mut tables = links.iter().zip(leaves);
        let are_fixed =
            tables.all(|(link, leaf)| !matches!(link, FusedOp::Table { .. }) || is_fixed(leaf));
        let pixels = self.composed.output.pixels();
        let needs_loop = self.compiled.byte_links.is_none_or(|links| pixels < links.fewest());
        let is_plain = self.composed.resampled.is_none() && !self.has_reductions();
        are_fixed && needs_loop && is_plain && !self.is_too_narrow()
    }

    /// Adds the parameter block of this sample to a call.
    fn fill(
        &self,
        memory: &mut WorkerScratch,
        blocks: &mut WaitingBlocks,
        out: &mut [u8],
    ) -> Result<(), NotRun> {
        let WaitingBlocks { records, float_row, of_samples, regions, .. } = blocks;
        let index = records.count() as usize;
        if index == of_samples.len() {
            of_samples.push(Default::default());
        }
        let (masks, framed) = &mut of_samples[index];
        let mut swap = |memory: &mut WorkerScratch| {
            mem::swap(&mut memory.record, records);
            mem::swap(&mut memory.float_row, float_row);
            mem::swap(&mut memory.masks, masks);
            mem::swap(&mut memory.framed, framed);
        };
        swap(memory);
        memory.record.push(self.compiled.layout);
        let pixels = self.set_all(memory, out.into()).and_then(|()| self.set_passes(memory));
        if let (true, Ok(pixels)) = (R::NEEDS_REGIONS, &pixels) {
            regions.extend(self.regions(memory, pixels.clone()));
        }
        swap(memory);
        pixels?;
        Ok(())
    }
}
