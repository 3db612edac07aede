//! From a list of ops to a plan: checked types, and blocks that are each compiled to one native loop.
//!
//! ```text
//! ops ──flatten──▶ flat ops ──split──▶ blocks ──fold──▶ fused ops ──push down──▶ windows, maps, store
//! ```
//!
//! The compiler in ten steps. The first four are done once for a list, the next two for each sample, and the others
//! by `jit` on a block.
//!
//! 1. **Types.** Every op states its output type for an input type; a size is a range until an op fixes it. An op
//!    that has another meaning on floats than on bytes is replaced by its counterpart for the input type. A type
//!    error is reported before a sample is read. Each op is asked about itself once ([`kind`]).
//! 2. **Flat ops** ([`flatten`](mod@flatten)). The ops in containers and policies (`RandomApply`, `RandAugment`)
//!    become a flat list, each guarded by the outcomes of a choice; ops that do nothing are left out. So a policy is
//!    a container over ordinary ops, and no later step knows its name. Flat ops that never run for the same sample
//!    are exclusive: they may share the row producer, the tables and the parameters of a loop.
//! 3. **Blocks** ([`block`]). For one sample, a block produces rows at most once (a resize, a warp, a blur), with
//!    nothing but crops and flips before. Everything else joins a block: colour ops become arithmetic in registers,
//!    tables look-ups, a cutout a mask, conversion and layout the final store. The image between two blocks is
//!    stored.
//! 4. **Folding** (`fold`). Adjacent per-channel ops become one table where that is faster and the same; adjacent
//!    colour matrices become their product, under the relaxed rule only.
//! 5. **Draws** ([`draws`]). The random numbers of a sample are drawn before its image is decoded. So the window to
//!    decode is known, and nothing depends on threads. (An op in plain Rust draws when it runs, by the same key.) The
//!    draws also determine the fused ops that the sample runs. Each such list has a loop body of its own, compiled
//!    when a sample first needs it, so that no choice is made for a pixel. A block without work for a sample is
//!    skipped.
//! 6. **Composition** (`compose`). Crops, flips and shifts compose to `source = sign * output + offset` for each
//!    axis. A flip is a negative step and a mirrored shuffle, and costs nothing.
//! 7. **One loop.** The code of a block loops over samples; in each over rows; in a row over groups of eight pixels.
//!    A group of RGB pixels is two loads, six shuffles, arithmetic and stores. A row producer computes one row at a
//!    time, in compiled code (the antialiased resize) or by a row function, so that the row stays in the first-level
//!    cache. A mean or a histogram is a reduction over the image before the loop.
//! 8. **Ops are data.** An op's `emit` records instructions that have no addresses. They are checked when the list
//!    is planned, and the block compiler lowers them. So no op, a user's included, reaches memory or the code of
//!    another op. Code is shared by plans whose instructions and constants are equal, whatever the ops are called
//!    ([`ImagePlan::code_key`]).
//! 9. **Bounds.** The last group of a row is moved back to overlap the one before, so that no load or store leaves
//!    its row. The host compares the addresses in a parameter block with the slices that they are from.
//! 10. **The oracle.** `eval` is the definition of an op, and the evaluator that of a plan. Tests run random lists
//!     of ops compiled and evaluated, next to guard pages, and compare every bit.
//!
//! [`scaled`] changes the draws of a sample whose image is decoded at a smaller scale. `size` checks a plan against
//! the limits, before samples are read and for each sample's draws; [`describe`] shows the plan to people, and
//! [`drawn`] a sample's draws.

pub mod array;
pub mod batch_ops;
pub mod block;
pub(crate) mod compose;
pub mod describe;
pub mod drawn;
pub mod draws;
mod element_plan;
mod element_rows;
pub mod element_steps;
pub mod flatten;
mod fold;
mod follow;
pub(crate) mod function;
pub mod kind;
pub mod label;
mod mask;
mod scaled;
mod size;
mod variants;

pub use block::{Block, BlockTarget, FusedOp, PaintedRect};
pub use describe::Description;
pub use drawn::{DrawnOp, OpOutcome};
pub use draws::Draws;
pub use element_plan::ElementPlan;
pub use flatten::FlatOp;
pub(crate) use follow::TargetKinds;
use fuseloop_ops::internals::DefaultFloats;
pub use kind::{OpKind, PixelKind};
pub use size::TooManyPixels;

use crate::error::{Cause, Details, Error, ErrorKind, fail};
use flatten::Choice;
use fuseloop_ops::author::{Dim, ImageType, Layout, Op, OpClass};
use fuseloop_ops::{DType, NumberRule, Ops, Size, TypeError};
use std::borrow::Cow;
use std::sync::Arc;

/// Most ops of one pipeline.
pub const MAX_OPS: usize = 256;

/// Samples of different sizes, which can't share a batch: a mask has another cure than its image.
#[derive(Debug, thiserror::Error)]
#[error("{samples} can't share a batch: {cure}")]
pub(crate) struct VaryingSizes {
    /// The kind of the samples, and their sizes.
    pub(crate) samples: String,
    /// The ops and other cures that make one size of all.
    pub(crate) cure: Cow<'static, str>,
}

impl Cause for VaryingSizes {
    fn details(&self) -> Details<'_> {
        Details::of(ErrorKind::Pipeline).help(
            "these images vary in size: `--workload W1`, W2, W3 and W5 resize them to one size",
        )
    }
}

/// Returns the error of the op of an index, from 0, that does not accept the type that it gets.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes errors by value")]
fn of_type(op_index: usize, error: TypeError) -> Error {
    let error = fail!(Pipeline, "op {op_index} of the list: {error}").of_op(op_index);
    error.help("`fuseloop info FILE` shows the sizes of the images; `--workload W1` takes any size")
}

/// Names the op that an error is about.
fn of_op(op_index: usize, op: &dyn Op, error: Error) -> Error {
    error.context(format_args!("op {op_index} of the list ({})", op.name())).of_op(op_index)
}

/// Returns the error of an op that masks or targets can't follow.
fn refused(op_index: usize, op: &dyn Op, reason: &str) -> Error {
    fail!(Pipeline, "op {op_index} of the list: {} {reason}", op.name()).of_op(op_index)
}

/// Refuses a list of too many ops.
fn check_length(ops: &Ops) -> Result<(), Error> {
    match ops.len() {
        0..=MAX_OPS => Ok(()),
        found => Err(fail!(Pipeline, "{found} ops in one list; the limit is {MAX_OPS}")),
    }
}

/// The axes of a sample's output, as far as the layout of its image does not say them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SampleAxes {
    /// Those of the layout.
    #[default]
    Image,
    /// One axis: the columns. The image has one row.
    Signal,
    /// These axes in place of that of the channels, whose number is their product.
    Stacked(Vec<usize>),
}

/// Returns the error of outputs that differ in size: of signals, photographs or other arrays.
fn varies(ImagePlan { input, output, flat_ops, .. }: &ImagePlan) -> Error {
    let sized_last = flat_ops.iter().rfind(|leaf| matches!(leaf.op.class(), OpClass::Geometry(_)));
    let is_resized = sized_last.is_some_and(|leaf| leaf.op.name() == "Resize");
    let is_bucketed = flat_ops.iter().any(|leaf| leaf.op.name() == "ResizeToBucket");
    let ImageType { height, width, .. } = output;
    let (samples, cure) = if *height == Dim::fixed(1) {
        let cure =
            "add RandomCrop or CenterCrop, with a size of one row such as (1, length), to the list";
        (format!("signals of {width} elements"), cure)
    } else if is_bucketed {
        let cure = "ResizeToBucket leaves each image at the size of its bucket: take the order `bucketed`, whose batches \
                    have one size each, or pad the images with `collate`";
        (format!("images of {width} x {height} pixels"), cure)
    } else if is_resized {
        let cure = "Resize with one number sets the length of one side, and the other follows the shape of the image: give \
                    both sides, or add CenterCrop or RandomCrop after it, or pad the images with `collate`";
        (format!("images of {width} x {height} pixels"), cure)
    } else if input.is_levels {
        let cure = "add RandomResizedCrop, Resize or CenterCrop to the list, or pad the images with `collate`";
        (format!("images of {width} x {height} pixels"), cure)
    } else {
        let cure = "add RandomCrop, CenterCrop, Resize or FixedPoints to the list";
        (format!("arrays of shape [{height}, {width}]"), cure)
    };
    VaryingSizes { samples, cure: cure.into() }.into()
}

/// Returns the error of images that differ in size where the last of `ops` mixes them.
fn varies_when_mixed(image: ImageType, ops: &[Arc<dyn Op>]) -> Error {
    let mixer = ops.iter().rfind(|op| batch_ops::is_mixer(&***op)).map_or("the op", |op| op.name());
    VaryingSizes {
        samples: format!("images of {} x {} pixels", image.width, image.height),
        cure: format!(
            "add RandomResizedCrop, Resize, Letterbox or CenterCrop to the list before {mixer}, which mixes them"
        )
        .into(),
    }
    .into()
}

/// How an image of more than four channels is processed: plane by plane, up to the op that selects up to four channels,
/// if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneWalk {
    /// The number of planes: all channels of the output, or those that are selected.
    pub count: usize,
    /// How many of the blocks run once for each plane. The others process the planes together, as an image.
    pub blocks: usize,
    /// The number of flat ops up to the one that selects, or of all.
    flat_ops: usize,
}

impl PlaneWalk {
    /// Returns how a plan for images of type `input` processes planes; `None` if they have no more than four channels.
    fn new(input: &ImageType, flat_ops: &[FlatOp], blocks: &[Block]) -> Option<Self> {
        if !kind::has_planes(input) {
            return None;
        }
        let selects = flat_ops.iter().position(FlatOp::joins_planes);
        let end = selects.map_or(flat_ops.len(), |selects| selects + 1);
        let channels = flat_ops[..end].last().map_or(input.channels, |leaf| leaf.output.channels);
        let joined_from = block::joined_from(flat_ops);
        let is_joined = |block: &Block| joined_from.is_some_and(|first| block.ops.start >= first);
        let blocks = blocks.iter().take_while(|block| !is_joined(block)).count();
        Some(Self { count: channels.into(), blocks, flat_ops: end })
    }
}

/// The plan of one image output.
#[derive(Debug)]
pub struct ImagePlan {
    name: String,
    ops: Ops,
    rule: NumberRule,
    input: ImageType,
    output: ImageType,
    axes: SampleAxes,
    flat_ops: Vec<FlatOp>,
    choices: Vec<Choice>,
    removed: Vec<(usize, &'static str)>,
    blocks: Vec<Block>,
    /// Why each of the blocks ends.
    ends: Vec<block::BlockEnd>,
    planes: Option<PlaneWalk>,
    /// The plans of the ops that follow ops that mix batches: each reads the rows that the one before has left.
    later: Vec<Arc<ImagePlan>>,
    /// The image's plan that this plan of a mask follows.
    followed: Option<follow::Followed>,
    param_count: usize,
    /// The largest image that an op can produce from an input that is no larger than `input`.
    largest: size::Largest,
}

impl ImagePlan {
    /// Checks `ops` for images of type `input` and splits them into blocks.
    ///
    /// # Errors
    ///
    /// If the list can't be a pipeline.
    pub fn new(ops: Ops, input: ImageType, rule: NumberRule) -> Result<Self, Error> {
        Self::sized(Self::of_any_size(ops, input, rule)?)
    }

    /// Like [`new`](Self::new), but for a device that runs the ops after
    /// [`ToDevice`](fuseloop_ops::ToDevice): no block contains ops from before and after it. Without
    /// that op, or with nothing after it, the plan is that of `new`.
    ///
    /// # Errors
    ///
    /// If the list can't be a pipeline.
    pub fn on_device(ops: Ops, input: ImageType, rule: NumberRule) -> Result<Self, Error> {
        Self::sized(Self::split(ops, input, rule, true)?)
    }

    /// Returns the plan if its outputs share a size.
    fn sized(plan: Self) -> Result<Self, Error> {
        let last = plan.passes().last().unwrap_or(&plan);
        if last.output.size().is_none() {
            return Err(varies(last));
        }
        Ok(plan)
    }

    /// Plans outputs that need not share a size: each is as large as its [draws](Draws::output) say.
    ///
    /// # Errors
    ///
    /// If the list can't be a pipeline.
    pub(crate) fn of_any_size(ops: Ops, input: ImageType, rule: NumberRule) -> Result<Self, Error> {
        Self::split(ops, input, rule, false)
    }

    fn split(ops: Ops, input: ImageType, rule: NumberRule, on_device: bool) -> Result<Self, Error> {
        check_length(&ops)?;
        DefaultFloats::during(|| Self::split_checked(ops, input, rule, on_device))
    }

    /// Splits a list that is not too long.
    fn split_checked(
        ops: Ops,
        input: ImageType,
        rule: NumberRule,
        on_device: bool,
    ) -> Result<Self, Error> {
        let mut flat = flatten::flatten(&ops, input, rule)?;
        let types = flat.types.clone();
        let mut later = vec![];
        let mut end = ops.len();
        for &start in batch_ops::later_passes(&ops).iter().rev() {
            let own = flat.split_off(start);
            let ends = [types[start - 1], types[end - 1]];
            if ends[0].size().is_none() {
                return Err(varies_when_mixed(ends[0], &ops[..start]));
            }
            let pass = Self::of_flat(ops[start..end].to_vec(), ends, own, rule, None)?;
            later.insert(0, Arc::new(pass));
            end = start;
        }
        let device = flat
            .to_device()
            .filter(|at| on_device && flatten::has_sample_ops(&flat.flat_ops[at + 1..]));
        let output = flat.types.last().copied().unwrap_or(input);
        let first = Self::of_flat(ops, [input, output], flat, rule, device)?;
        Ok(Self { later, ..first })
    }

    /// Splits a flattened list into blocks.
    fn of_flat(
        ops: Ops,
        [input, output]: [ImageType; 2],
        flat: flatten::FlatList,
        rule: NumberRule,
        device: Option<usize>,
    ) -> Result<Self, Error> {
        let flatten::FlatList { mut flat_ops, choices, removed, .. } = flat;
        let (blocks, ends, param_count) =
            block::split(&mut flat_ops, [input, output], rule, device)?;
        let largest = size::Largest::of(&flat_ops);
        let planes = PlaneWalk::new(&input, &flat_ops, &blocks);
        Ok(Self {
            name: "pipeline".into(),
            ops,
            rule,
            input,
            output,
            axes: SampleAxes::Image,
            flat_ops,
            choices,
            removed,
            blocks,
            ends,
            planes,
            later: vec![],
            followed: None,
            param_count,
            largest,
        })
    }

    /// Sets the plan's name, under which its code is listed; the default is `pipeline`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        for (pass, plan) in (1..).zip(&mut self.later) {
            if let Some(plan) = Arc::get_mut(plan) {
                plan.name = format!("{name}.pass{pass}");
            }
        }
        self
    }

    /// Returns the name under which the plan's code is listed: the field's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the axes of the arrays whose images the plan is for.
    ///
    /// # Errors
    ///
    /// If the ops make several rows of a signal.
    pub(crate) fn with_axes(mut self, axes: SampleAxes) -> Result<Self, Error> {
        let rows = self.passes().map(|pass| pass.output_size().height).find(|rows| *rows != 1);
        if let (SampleAxes::Signal, Some(rows)) = (&axes, rows) {
            return Err(fail!(
                Pipeline,
                "a signal has one row, but these ops make {rows}: give sizes of one row, such as RandomCrop::new((1, \
                 length))"
            ));
        }
        for pass in self.later.iter_mut().filter_map(Arc::get_mut) {
            pass.axes = axes.clone();
        }
        Ok(Self { axes, ..self })
    }

    /// Adapts the plan to batches of `samples` samples: stores around the caches if batches are far
    /// larger than a core's own cache, rows are long enough to be worth a call each, and the loop does
    /// so little that it waits for memory.
    #[must_use]
    pub fn for_batches_of(self, samples: usize) -> Self {
        if self.staged().is_some() || !self.later.is_empty() {
            return self;
        }
        const LARGE: usize = 16 << 20;
        const LONG: u32 = 128;
        const FEW_LINKS: usize = 2;
        let waits_for_memory = self.blocks.last().is_some_and(|block| {
            let reads = |link: &FusedOp| block::reduction(&self.flat_ops, *link).is_some();
            let links = || block.groups.iter().flat_map(|step| &step.fused_ops);
            block.rows.is_none() && !links().any(reads) && links().count() <= FEW_LINKS
        });
        let large = self.sample_bytes().saturating_mul(samples) >= LARGE;
        let long = self.output_size().width >= LONG;
        let is_f32 = self.stored_dtype() == DType::F32; // the only type that was measured to gain from it
        // Other CPUs have no stores around the caches.
        let is_x86 = cfg!(target_arch = "x86_64");
        if is_x86 && waits_for_memory && large && long && is_f32 { self.streaming() } else { self }
    }

    /// Stores the output around the caches, unless it is u8. This is faster where a batch is far larger
    /// than the second-level cache, and slower where the batch would have stayed there.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        if let Some(last) = self.blocks.last_mut() {
            last.streams = last.dtype != DType::U8;
        }
        self
    }

    /// Returns the plans of the ops that follow ops that mix batches, in order.
    pub(crate) fn later(&self) -> &[Arc<ImagePlan>] {
        &self.later
    }

    /// Returns this plan, and those of the later passes over the finished batch.
    pub(crate) fn passes(&self) -> impl Iterator<Item = &ImagePlan> {
        std::iter::once(self).chain(self.later.iter().map(|pass| &**pass))
    }

    /// Returns the ops, in order, with those of later passes over the finished batch.
    #[must_use]
    pub fn ops(&self) -> &Ops {
        &self.ops
    }

    /// Returns the rule by which values are rounded between ops.
    #[must_use]
    pub fn rule(&self) -> NumberRule {
        self.rule
    }

    /// Returns the type of the decoded images.
    #[must_use]
    pub fn input(&self) -> ImageType {
        self.input
    }

    /// Returns the type of the output.
    #[must_use]
    pub fn output(&self) -> ImageType {
        self.output
    }

    /// Returns the ops that contain no other ops, in order, with the conditions under which they run.
    #[must_use]
    pub fn flat_ops(&self) -> &[FlatOp] {
        &self.flat_ops
    }

    /// Returns the choices that decide which of the flat ops run, in the order in which they are drawn.
    #[must_use]
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// Returns a key of everything that the compiled code depends on: plans with equal keys share code.
    /// The key contains the code of the ops instruction by instruction, so that two ops share code only
    /// where it is the same.
    #[must_use]
    pub fn code_key(&self) -> String {
        let mut key = format!("{:?} {:?}", self.rule, self.blocks);
        for region in self.blocks.iter().flat_map(|block| &block.regions) {
            key.push_str(&format!(" {:x?}", region.fill.map(f32::to_bits)));
        }
        for leaf in &self.flat_ops {
            key.push_str(&leaf.kind.code_key());
            if let Some(step) = &leaf.step {
                key.push_str(&step.code_key());
            }
            key.push(';');
        }
        key
    }

    /// Returns the rows and columns of the output; of the largest, if outputs differ in size.
    #[must_use]
    pub fn output_size(&self) -> Size {
        Size::new(self.output.height.max, self.output.width.max)
    }

    /// Returns the number of elements along each axis of one sample; of the largest, if they differ in size.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        self.shape_of(self.output_size())
    }

    /// Returns the number of elements along each axis of a sample whose output has this size.
    #[must_use]
    pub fn shape_of(&self, Size { height, width }: Size) -> Vec<usize> {
        let (height, width) = (height as usize, width as usize);
        let channels = usize::from(self.output().channels);
        let mut shape = match (self.output().layout, &self.axes) {
            (Layout::ChannelsFirst, SampleAxes::Stacked(axes))
                if axes.iter().product::<usize>() == channels =>
            {
                [axes, &[height, width][..]].concat()
            }
            (Layout::ChannelsFirst, _) => vec![channels, height, width],
            (Layout::ChannelsLast, _) => vec![height, width, channels],
            (Layout::Plane, _) => vec![height, width],
        };
        if self.axes == SampleAxes::Signal {
            // The axis of rows, which is the last but one unless channels are last.
            shape.remove(if self.output().layout == Layout::ChannelsFirst { 1 } else { 0 });
        }
        shape
    }

    /// Returns the type of an element.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.output().dtype
    }

    /// Returns the type that elements are stored as; [`dtype`](Self::dtype) is the type they are viewed
    /// as.
    #[must_use]
    pub fn stored_dtype(&self) -> DType {
        self.blocks.last().map_or(self.input.dtype, |block| block.dtype)
    }

    /// Returns the bytes of one sample's output; of the largest, if they differ in size.
    #[must_use]
    pub fn sample_bytes(&self) -> usize {
        self.bytes_of(self.output_size())
    }

    pub(crate) fn bytes_of(&self, size: Size) -> usize {
        let pixel = usize::from(self.output().channels) * self.dtype().bytes();
        (size.pixels() as usize).saturating_mul(pixel)
    }

    /// Returns how the planes of an image are processed; `None` if its channels are processed together.
    #[must_use]
    pub fn planes(&self) -> Option<PlaneWalk> {
        self.planes
    }

    /// Returns the channel of the input that a plane is.
    pub(crate) fn plane_channel(&self, draws: &Draws, plane: usize) -> usize {
        self.trace_plane(&draws.active, plane, |_, _| ())
    }

    /// Sets the parameters of `draws` to those of a plane.
    pub(crate) fn set_plane(&self, draws: &mut Draws, plane: usize) {
        let Draws { active, params, .. } = draws;
        self.trace_plane(active, plane, |leaf, channel| {
            if let OpClass::Pixel(op) = leaf.op.class() {
                let own = leaf.first_param..leaf.first_param + leaf.kind.param_count();
                op.channel_params(channel, &mut params[own]);
            }
        });
    }

    /// Follows a plane from the last op that runs for planes to the first: calls `visit` for each op that does not
    /// select channels, with the channel that it gets of the plane. Returns the channel of the input.
    fn trace_plane(
        &self,
        active: &[bool],
        plane: usize,
        mut visit: impl FnMut(&FlatOp, usize),
    ) -> usize {
        let flat_ops = self.planes.map_or(0, |planes| planes.flat_ops);
        let mut channel = plane;
        for (index, leaf) in self.flat_ops[..flat_ops].iter().enumerate().rev() {
            match leaf.kind.pixel(None).and_then(|kind| kind.selected.as_ref()) {
                Some(selected) if active[index] => channel = selected[channel].into(),
                Some(_) => {}
                None => visit(leaf, channel),
            }
        }
        channel
    }

    /// Returns the blocks, in order.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns how many of the blocks run on the host; a device runs the others.
    #[must_use]
    pub fn host_blocks(&self) -> usize {
        let is_host = |block: &&Block| block.device != BlockTarget::Device;
        self.blocks.iter().take_while(is_host).count()
    }

    /// Returns the type of the image that the host passes to a device, if a device runs a part of the
    /// plan.
    #[must_use]
    pub fn staged(&self) -> Option<ImageType> {
        let block = self.blocks.iter().find(|block| block.device == BlockTarget::Staged)?;
        Some(self.flat_ops[block.ops.end - 1].input)
    }

    /// Returns the bytes that the host writes for a sample: the output's, or those that a device gets.
    #[must_use]
    pub fn host_bytes(&self) -> usize {
        let bytes =
            |image: ImageType| Some(usize::from(image.channels) * image.size()?.pixels() as usize);
        self.staged().and_then(bytes).unwrap_or_else(|| self.sample_bytes())
    }

    /// Returns the bytes that the host writes for the sample of `draws`.
    #[must_use]
    pub fn drawn_bytes(&self, draws: &Draws) -> usize {
        match self.staged() {
            Some(_) => self.host_bytes(),
            None => self.bytes_of(draws.output),
        }
    }

    /// Returns how many parameters are drawn for a sample, over all ops.
    #[must_use]
    pub fn param_count(&self) -> usize {
        self.param_count
    }
}
