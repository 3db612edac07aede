//! From a list of ops to a plan: checked types, and blocks that each become one native loop.
//!
//! ```text
//! ops ──flatten──▶ leaves ──split──▶ blocks ──fold──▶ links ──push down──▶ windows, maps, store
//! ```
//!
//! * **flatten** ([`leaf`]): containers become guarded leaves; every op takes what the one before
//!   it gives; what does nothing is left out. Sizes, types and parameters are right before a
//!   sample is read.
//! * **split** ([`block`]): in one sample a block has rows made at most once, with nothing but
//!   crops and flips before. All else stays in one loop.
//! * **fold** (`fold`): links in a row become one table, or one matrix.
//! * **push down** ([`draws`], `compose`, for each sample): crops, flips and shifts become the
//!   window that is decoded and the addresses that pixels are loaded from; conversion and layout
//!   become the final store.
//!
//! `size` holds it against the limits, before samples are read and for each sample's draws;
//! [`describe`] is the plan for people, [`drawn`] a sample's draws.

pub mod array;
pub mod batch_ops;
pub mod block;
pub(crate) mod compose;
pub mod describe;
pub mod drawn;
pub mod draws;
mod fold;
pub mod kind;
pub mod label;
pub mod leaf;
mod size;
mod variants;

pub use array::ArrayPlan;
pub use block::{Block, Link, Region, Role};
pub use describe::Description;
pub use drawn::{Drawn, Fate};
pub use draws::Draws;
pub use kind::{Kind, OpError, PixelKind};
pub use label::LabelPlan;
pub use leaf::Leaf;
pub use size::TooManyPixels;

use fuseloop_ops::{DType, ImageType, NumberRule, Ops, Size, Type, TypeError};
use leaf::Choice;

/// Most ops of one pipeline.
pub const MAX_OPS: usize = 256;

/// Why a list of ops can't be a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// An op does not fit where it stands.
    #[error("op {place} of the list: {error}")]
    Type {
        /// The op's place, from 0.
        place: usize,
        /// What it takes and what it gets.
        error: TypeError,
    },
    /// An op can't be compiled, whatever stands around it.
    #[error("op {place} of the list ({op}): {error}")]
    Op {
        /// The op's place, from 0.
        place: usize,
        /// The op.
        op: &'static str,
        /// What is wrong with it.
        error: OpError,
    },
    /// Images of different sizes can't share a batch.
    #[error(
        "images of {height} x {width} pixels can't share a batch: add RandomResizedCrop, Resize or CenterCrop to the list"
    )]
    Varies {
        /// Their heights.
        height: String,
        /// Their widths.
        width: String,
    },
    /// Too many ops.
    #[error("{found} ops in one list, at most {MAX_OPS} are taken")]
    TooLong {
        /// How many there are.
        found: usize,
    },
    /// Pictures too large for every sample.
    #[error("op {place} of the list: {error}")]
    Pixels {
        /// The op's place, from 0.
        place: usize,
        /// What it makes.
        error: TooManyPixels,
    },
    /// A sample's row of too many bytes.
    #[error(
        "a sample takes {bytes} bytes as {}, the limit is {max}: make smaller pictures, or raise `max_row_bytes` (LoaderBuilder::limits)",
        Type::Image(*output)
    )]
    RowBytes {
        /// What a sample becomes.
        output: ImageType,
        /// Bytes it takes.
        bytes: u64,
        /// [`Limits::max_row_bytes`](crate::sample::Limits::max_row_bytes).
        max: u64,
    },
    /// Too many ops, with those in containers.
    #[error("op {place} of the list ({op}): with the ops in containers there are more than {most}")]
    TooManyLeaves {
        /// The op's place, from 0.
        place: usize,
        /// The op.
        op: &'static str,
        /// The limit.
        most: usize,
    },
    /// Alternatives that would give different batches.
    #[error(
        "op {place} of the list: {op} gives {one} or {other}, as it is drawn; both must be the same"
    )]
    Uneven {
        /// The op's place, from 0.
        place: usize,
        /// The container.
        op: &'static str,
        /// What one outcome gives.
        one: String,
        /// What another gives.
        other: String,
    },
    /// Too many loop bodies of one block.
    #[error(
        "ops {first}..={last} of the list may need {found} loop bodies, one for each order and choice of ops; at most {most} are compiled. Put a Resize between, or list the ops themselves"
    )]
    TooManyVariants {
        /// The block's first op, from 0.
        first: usize,
        /// Its last.
        last: usize,
        /// Loop bodies needed.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// More code than compiles in a moment.
    #[error(
        "ops {first}..={last} of the list would need {found} steps of code in one block, at most {most} are compiled: each contrast repeats what comes before it, for each order of shuffled ops. Put a Resize between, or take fewer"
    )]
    TooManySteps {
        /// The block's first op, from 0.
        first: usize,
        /// Its last.
        last: usize,
        /// Steps needed.
        found: usize,
        /// The limit.
        most: usize,
    },
}

/// The plan of one image output.
#[derive(Debug)]
pub struct ImagePlan {
    name: String,
    ops: Ops,
    rule: NumberRule,
    input: ImageType,
    output: ImageType,
    leaves: Vec<Leaf>,
    choices: Vec<Choice>,
    removed: Vec<(usize, &'static str)>,
    blocks: Vec<Block>,
    slots: usize,
}

impl ImagePlan {
    /// Checks `ops` for images of type `input` and splits them into blocks.
    ///
    /// # Errors
    ///
    /// See [`PlanError`].
    pub fn new(ops: Ops, input: ImageType, rule: NumberRule) -> Result<Self, PlanError> {
        Self::sized(Self::of_any_size(ops, input, rule)?)
    }

    /// The same where a device runs what comes after [`ToDevice`](fuseloop_ops::ToDevice): no
    /// block goes over it. Without the op, or with nothing after it, this is [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// See [`PlanError`].
    pub fn on_device(ops: Ops, input: ImageType, rule: NumberRule) -> Result<Self, PlanError> {
        Self::sized(Self::split(ops, input, rule, true)?)
    }

    /// The plan, if its outputs share a size.
    fn sized(plan: Self) -> Result<Self, PlanError> {
        if plan.output.size().is_none() {
            let (height, width) = (plan.output.height.to_string(), plan.output.width.to_string());
            return Err(PlanError::Varies { height, width });
        }
        Ok(plan)
    }

    /// The same for outputs that need not share a size: no batch can be made of them.
    fn of_any_size(ops: Ops, input: ImageType, rule: NumberRule) -> Result<Self, PlanError> {
        Self::split(ops, input, rule, false)
    }

    fn split(
        ops: Ops,
        input: ImageType,
        rule: NumberRule,
        on_device: bool,
    ) -> Result<Self, PlanError> {
        if ops.len() > MAX_OPS {
            return Err(PlanError::TooLong { found: ops.len() });
        }
        let flat = leaf::flatten(&ops, input, rule)?;
        let device = flat.device().filter(|at| on_device && leaf::works_on(&flat.leaves[at + 1..]));
        let leaf::Flat { mut leaves, choices, removed, types } = flat;
        let output = types.last().copied().unwrap_or(input);
        let (blocks, slots) = block::split(&mut leaves, output, rule, device)?;
        Ok(Self {
            name: "pipeline".into(),
            ops,
            rule,
            input,
            output,
            leaves,
            choices,
            removed,
            blocks,
            slots,
        })
    }

    /// The same plan with another name, which its code is listed by; `pipeline` until then.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// What its code is listed by: the field's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same plan for batches of `samples`: stored around the caches if they are far larger
    /// than a core's own, rows are long enough to be worth a call each, and the loop does so little
    /// that memory is what it waits for.
    #[must_use]
    pub fn for_batches_of(self, samples: usize) -> Self {
        if self.staged().is_some() {
            return self;
        }
        const LARGE: usize = 16 << 20;
        const LONG: u32 = 128;
        const FEW_LINKS: usize = 2;
        let waits_for_memory = self.blocks.last().is_some_and(|block| {
            let reads = |link: &Link| block::reading(&self.leaves, *link).is_some();
            let links = || block.steps.iter().flat_map(|step| &step.links);
            block.rows.is_none() && !links().any(reads) && links().count() <= FEW_LINKS
        });
        let large = self.sample_bytes().saturating_mul(samples) >= LARGE;
        let long = self.output_size().width >= LONG;
        let is_f32 = self.stored_dtype() == DType::F32; // what was seen to gain from it
        if waits_for_memory && large && long && is_f32 { self.streaming() } else { self }
    }

    /// The same plan with its output stored around the caches, if that is not of u8: faster where a
    /// batch is far larger than the second cache, slower where it would have stayed there.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        if let Some(last) = self.blocks.last_mut() {
            last.streams = last.dtype != DType::U8;
        }
        self
    }

    /// The ops, in order.
    #[must_use]
    pub fn ops(&self) -> &Ops {
        &self.ops
    }

    /// How values are rounded between ops.
    #[must_use]
    pub fn rule(&self) -> NumberRule {
        self.rule
    }

    /// The type of the decoded images.
    #[must_use]
    pub fn input(&self) -> ImageType {
        self.input
    }

    /// The type of the output.
    #[must_use]
    pub fn output(&self) -> ImageType {
        self.output
    }

    /// The ops with none inside, in order, and when they run.
    #[must_use]
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// What is drawn to learn which leaves run, in order.
    #[must_use]
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// What the compiled code depends on: plans of equal keys share it. The code of ops is part of
    /// it instruction by instruction, so that two ops share code only where it is the same.
    #[must_use]
    pub fn code_key(&self) -> String {
        let mut key = format!("{:?} {:?}", self.rule, self.blocks);
        for region in self.blocks.iter().flat_map(|block| &block.regions) {
            key.push_str(&format!(" {:x?}", region.fill.map(f32::to_bits)));
        }
        for leaf in &self.leaves {
            key.push_str(&leaf.kind.code_key());
            if let Some(step) = &leaf.step {
                key.push_str(&step.code_key());
            }
            key.push(';');
        }
        key
    }

    /// Rows and columns of the output.
    ///
    /// # Panics
    ///
    /// Never: [`new`](Self::new) refuses an output without a size.
    #[must_use]
    pub fn output_size(&self) -> Size {
        self.output().size().expect("checked when the plan was made")
    }

    /// Elements along each axis of one sample.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        let Size { height, width } = self.output_size();
        let (height, width) = (height as usize, width as usize);
        match self.output().layout {
            fuseloop_ops::Layout::ChannelsFirst => vec![3, height, width],
            fuseloop_ops::Layout::ChannelsLast => vec![height, width, 3],
        }
    }

    /// Type of an element.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.output().dtype
    }

    /// The type that elements are stored as; [`dtype`](Self::dtype) is what they are viewed as.
    #[must_use]
    pub fn stored_dtype(&self) -> DType {
        self.blocks.last().map_or(self.input.dtype, |block| block.dtype)
    }

    /// Bytes of one sample's output.
    #[must_use]
    pub fn sample_bytes(&self) -> usize {
        self.shape().iter().product::<usize>() * self.dtype().bytes()
    }

    /// The blocks, in order.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// How many of the blocks the host runs: the others are a device's.
    #[must_use]
    pub fn host_blocks(&self) -> usize {
        let is_host = |block: &&Block| block.device != Role::Device;
        self.blocks.iter().take_while(is_host).count()
    }

    /// The picture that the host leaves to a device, if it does.
    #[must_use]
    pub fn staged(&self) -> Option<ImageType> {
        let block = self.blocks.iter().find(|block| block.device == Role::Staged)?;
        Some(self.leaves[block.ops.end - 1].input)
    }

    /// Bytes that the host makes of a sample: the output's, or those that a device gets.
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        let staged = self.staged().and_then(|image| image.size());
        staged.map_or_else(|| self.sample_bytes(), |size| 3 * size.pixels() as usize)
    }

    /// Numbers drawn for a sample, over all ops.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }
}
