//! Blocks: ops that share one loop nest.
//!
//! A block reads one image and writes one. In between, for each sample:
//!
//! ```text
//! source ─ window, flips ─▶ [resampled] ─ window, flips, shift ─▶ fused ops ─▶ store
//!                                                                  │
//!                          colour op, table, mask, colour op, ... ◀┘
//! ```
//!
//! Crops, flips and shifts before and after the rows are resampled cost nothing: they are composed into
//! the addresses that pixels are loaded from. A new block begins at an op that produces rows (a resize,
//! a warp, a blur) if anything but such moves may come before it, because that op needs the whole image;
//! and a new block begins after an op in plain Rust, and after a conversion to a type that values are rounded
//! to when they are stored, if ops that change values follow; and before an op with which the block might need too
//! many loop bodies. Ops that never run for the same sample do not constrain each other.
//!
//! The ops after `ToDevice` never share a block with those before it. On a device, no ops are folded into
//! tables, no image is copied into a larger frame, and one loop body serves all samples.
//!
//! An op inside a block may change the number of channels: the block stores what its last op returns. Such an op is
//! not allowed in containers, so a block reads the same channels for every sample. Where up to
//! four channels are selected of an image that is processed plane by plane, a new block begins, which reads the
//! selected planes as one image; if nothing but moves comes before, the first block reads the selected channels.

use super::flatten::FlatOp;
use super::fold;
use super::kind::{OpKind, PixelKind, has_planes, together};
use crate::error::{Error, fail};
use fuseloop_ops::author::{ImageType, Layout, OpClass, PixelOp, RowProducer, Statistic};
use fuseloop_ops::internals::{PixelFormat, is_loaded};
use fuseloop_ops::{DType, NumberRule};
use std::ops::Range;

/// Most loop bodies of one block: one for each list of fused ops that a sample may need.
pub(super) const MAX_VARIANTS: usize = 128;

/// Most steps of one loop body, including the reductions before it. A step is half a kilobyte of code at
/// worst, so this is half the compiler's bound of 4 MiB.
const MAX_STEPS: usize = 4096;

/// Ops that share one loop nest.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The flat ops of the block.
    pub ops: Range<usize>,
    /// How rows are produced, if some of the ops produce any.
    pub rows: Option<RowProducer>,
    /// The first op that brings colour in from outside, and the colour, if this is done by copying the
    /// image into a larger frame.
    pub padded_copy: Option<(usize, [u8; 3])>,
    /// Rectangles that fused ops paint.
    pub regions: Vec<PaintedRect>,
    /// Flat ops that use a pixel's position, by the number of their map.
    pub position_ops: Vec<usize>,
    /// The changes to a pixel's values, from load to store.
    pub groups: Vec<OpGroup>,
    /// How many lookup tables the fused ops use.
    pub tables: usize,
    /// The block's parameters.
    pub params: Range<usize>,
    /// The op that changes the stored image, in plain Rust or in loops of its own, if such an op ends
    /// the block.
    pub host: Option<usize>,
    /// Channels of the images that the block reads: 1 if it processes an image's planes. What it stores has the channels
    /// [after](Self::channels_after) its fused ops.
    pub channels: usize,
    /// Type of the elements that the block reads.
    pub source: DType,
    /// Type of the stored elements.
    pub dtype: DType,
    /// Layout of the stored image.
    pub layout: Layout,
    /// True if the output is stored around the caches, for batches far larger than they are.
    pub streams: bool,
    /// The host or a device, whichever runs the block.
    pub device: BlockTarget,
}

/// Where a block runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockTarget {
    /// On the host.
    #[default]
    Host,
    /// On the host; a device gets its output.
    Staged,
    /// On a device.
    Device,
}

/// Why a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockEnd {
    /// It stores the output.
    Output,
    /// An op in plain Rust, or one that mixes images, gets the stored image.
    Host,
    /// The ops that follow are a device's.
    Device,
    /// Values were converted to a type that they are rounded to only when they are stored, and the next op changes
    /// them.
    Converted,
    /// The next op selects the planes that are processed together.
    JoinsPlanes,
    /// The next op produces rows, and this flat op did so before.
    MadeRows(usize),
    /// The next op produces rows, and this flat op does so in another way, for other samples.
    OtherRows(usize),
    /// The next op produces rows, and this flat op changes the image first.
    Changed(usize),
    /// With the next op, the block might need too many loop bodies.
    LoopBodies,
}

/// Fused ops that together implement some flat ops. A sample that runs the first flat op runs all of
/// them.
#[derive(Debug, Clone, PartialEq)]
pub struct OpGroup {
    /// The flat ops: one, or several that were folded into one fused op.
    pub flat_ops: Vec<usize>,
    /// The fused ops: one, or the parts of a shuffled op, which run in the drawn order.
    pub fused_ops: Vec<FusedOp>,
}

/// One change to a pixel's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FusedOp {
    /// A pixel op: a flat op, or one part of it if it shuffles several.
    Value {
        /// A flat op that has this code.
        leaf: usize,
        /// The index of the part of a shuffled op.
        part: Option<usize>,
        /// The index of its first parameter.
        param: usize,
        /// The number of its map, if it uses a pixel's position.
        map: Option<usize>,
    },
    /// Looks values up in table `table`.
    Table {
        /// The index of the table in the block.
        table: usize,
        /// True if the table needs a histogram of levels.
        counted: bool,
    },
    /// Multiplies by the matrix in twelve parameters and clamps.
    Matrix {
        /// The index of the first of them.
        param: usize,
    },
    /// Paints region `region`.
    Paint {
        /// Index into [`Block::regions`].
        region: usize,
    },
    /// Clamps to 0..=255 and rounds half to even: a conversion to u8 between ops.
    Round,
}

/// A rectangle that is painted for a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaintedRect {
    /// The flat op that paints it.
    pub leaf: usize,
    /// True if everything *but* the rectangle is painted: the area that a shift brings in from outside.
    pub outside: bool,
    /// The colour.
    pub fill: [f32; 3],
}

/// Returns the pixel op of a fused op, to be drawn and evaluated. Its parameter count is in its
/// [`OpKind`].
#[must_use]
pub fn pixel_op(leaves: &[FlatOp], leaf: usize, part: Option<usize>) -> Option<&dyn PixelOp> {
    match (leaves.get(leaf)?.op.class(), part) {
        (OpClass::Pixel(op), None) => Some(op),
        (OpClass::Shuffled(parts), Some(part)) => parts.get(part).map(AsRef::as_ref),
        _ => None,
    }
}

/// A reduction over the whole image that a fused op needs before the loop that stores the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// A statistic, for a parameter.
    Statistic {
        /// The statistic.
        statistic: Statistic,
        /// The flat op that needs it.
        leaf: usize,
        /// The index of the part of a shuffled op.
        part: Option<usize>,
        /// The index of the parameter that gets it.
        param: usize,
    },
    /// A histogram of the levels, for a table.
    Levels {
        /// The index of the table.
        table: usize,
    },
}

/// Returns the reduction that a fused op needs, if any.
#[must_use]
pub fn reduction(leaves: &[FlatOp], link: FusedOp) -> Option<Reduction> {
    match link {
        FusedOp::Value { leaf, part, param, .. } => {
            let kind = leaves.get(leaf)?.kind.pixel(part)?;
            kind.statistic.map(|statistic| Reduction::Statistic {
                statistic,
                leaf,
                part,
                param: param + kind.param_count - 1,
            })
        }
        FusedOp::Table { table, counted: true } => Some(Reduction::Levels { table }),
        _ => None,
    }
}

impl Block {
    fn new(first: usize, first_param: usize, source: PixelFormat) -> Self {
        Self {
            ops: first..first,
            rows: None,
            padded_copy: None,
            regions: vec![],
            position_ops: vec![],
            groups: vec![],
            tables: 0,
            params: first_param..first_param,
            host: None,
            channels: source.channels,
            source: source.dtype,
            dtype: DType::U8,
            layout: Layout::ChannelsLast,
            streams: false,
            device: BlockTarget::Host,
        }
    }

    /// Returns the format of the pixels that the block reads.
    #[must_use]
    pub fn source_format(&self) -> PixelFormat {
        PixelFormat { channels: self.channels, dtype: self.source }
    }

    /// Returns the number of channels after `links`, the first fused ops of a loop body.
    #[must_use]
    pub fn channels_after(&self, leaves: &[FlatOp], links: &[FusedOp]) -> usize {
        let mut outputs = links.iter().rev().filter_map(|link| match *link {
            FusedOp::Value { leaf, part, .. } => leaves.get(leaf)?.kind.pixel(part),
            _ => None,
        });
        outputs.next().map_or(self.channels, |kind| kind.program.outputs().len())
    }

    /// Returns the steps of code of the longest loop body. A reduction repeats all fused ops before it.
    fn code_steps(&self, leaves: &[FlatOp]) -> usize {
        let links: Vec<FusedOp> =
            self.groups.iter().flat_map(|step| &step.fused_ops).copied().collect();
        let readings = links.iter().enumerate().filter(|(_, l)| reduction(leaves, **l).is_some());
        links.len() + readings.map(|(before, _)| before).sum::<usize>()
    }

    /// Folds the block's ops and returns the block if it is small enough to be compiled.
    fn finished(mut self, leaves: &[FlatOp], rule: NumberRule) -> Result<Self, Error> {
        fold::matrices(&mut self, leaves, rule);
        if self.device == BlockTarget::Device {
            // A table would have to be copied with every sample, and one loop body serves all samples.
            return Ok(self);
        }
        fold::tables(&mut self, leaves, rule);
        let op_index = |leaf: usize| leaves[leaf].op_index;
        let (found, most) = (self.code_steps(leaves), MAX_STEPS);
        if found > most {
            let (first, last) = (op_index(self.ops.start), op_index(self.ops.end - 1));
            return Err(fail!(
                Pipeline,
                "ops {first}..={last} of the list would need {found} steps of code in one block, at most {most} are \
                 compiled: each contrast repeats what comes before it, for each order of shuffled ops. Put a Resize \
                 between them, or use fewer ops"
            ));
        }
        let (found, most) = (self.variants(leaves), MAX_VARIANTS);
        if found > most {
            let (first, last) = (op_index(self.ops.start), op_index(self.ops.end - 1));
            return Err(fail!(
                Pipeline,
                "ops {first}..={last} of the list may need {found} loop bodies, one for each order and choice of ops; \
                 at most {most} are compiled. Put a Resize between them, or list the ops themselves"
            ));
        }
        Ok(self)
    }

    fn add_group(&mut self, leaf: usize, link: FusedOp) {
        self.groups.push(OpGroup { flat_ops: vec![leaf], fused_ops: vec![link] });
    }

    /// Reserves `count` parameters; returns the index of the first.
    pub(super) fn take_params(&mut self, count: usize) -> usize {
        self.params.end += count;
        self.params.end - count
    }

    fn add_region(&mut self, leaf: usize, outside: bool, fill: [f32; 3]) {
        self.add_group(leaf, FusedOp::Paint { region: self.regions.len() });
        self.regions.push(PaintedRect { leaf, outside, fill });
    }

    fn add_geometry(&mut self, leaf: usize, fills: Option<[u8; 3]>) {
        if let Some(fill) = fills {
            let is_copied = self.device != BlockTarget::Device // a device has no padded copy
                && self.rows.is_none()
                && self.groups.is_empty()
                && self.padded_copy.is_none();
            if !is_copied {
                self.add_region(leaf, true, fill.map(f32::from));
            } else {
                self.padded_copy = Some((leaf, fill));
            }
        }
    }

    /// Adds a pixel op; returns the index of its first parameter. Flat ops that exclude each other and
    /// have the same code share a fused op and parameters, and so loop bodies.
    fn add_pixel(&mut self, leaves: &[FlatOp], leaf: usize, kind: &PixelKind) -> usize {
        let shared = self.groups.iter().find_map(|step| {
            let FusedOp::Value { leaf: other, part: None, param, .. } = step.fused_ops[0] else {
                return None;
            };
            let same = leaves[other].kind.pixel(None)?.code() == kind.code();
            (same && users_are_exclusive(self, leaves, param, leaf))
                .then_some((step.fused_ops[0], param))
        });
        let (link, param) = shared.unwrap_or_else(|| {
            let param = self.take_params(kind.param_count);
            let map = kind.uses_position.then(|| {
                self.position_ops.push(leaf);
                self.position_ops.len() - 1
            });
            (FusedOp::Value { leaf, part: None, param, map }, param)
        });
        self.add_group(leaf, link);
        param
    }

    /// Adds a table op; returns the index of its first parameter. Flat ops that exclude each other share
    /// a table.
    fn add_table(
        &mut self,
        leaves: &[FlatOp],
        leaf: usize,
        param_count: usize,
        counted: bool,
    ) -> usize {
        let users = |table: usize| {
            self.groups.iter().filter(move |step| {
                matches!(step.fused_ops[0], FusedOp::Table { table: used, .. } if used == table)
            })
        };
        let is_free = |table: &usize| {
            users(*table).all(|step| leaves[step.flat_ops[0]].is_exclusive_with(&leaves[leaf]))
        };
        let table = (0..self.tables).find(is_free).unwrap_or(self.tables);
        self.tables = self.tables.max(table + 1);
        self.add_group(leaf, FusedOp::Table { table, counted });
        self.take_params(param_count)
    }

    fn add_shuffled(&mut self, leaf: usize, parts: &[PixelKind]) -> usize {
        let first = self.params.end;
        let links = parts.iter().enumerate().map(|(part, kind)| {
            let param = self.take_params(kind.param_count);
            FusedOp::Value { leaf, part: Some(part), param, map: None }
        });
        let fused_ops: Vec<FusedOp> = links.collect();
        if !fused_ops.is_empty() {
            self.groups.push(OpGroup { flat_ops: vec![leaf], fused_ops });
        }
        first
    }

    /// Returns whether the block converts values to a type that they are rounded to only when they are stored.
    pub(super) fn converts(&self, leaves: &[FlatOp]) -> bool {
        let is_stored = |leaf: &FlatOp| {
            let rounds = matches!(leaf.kind, OpKind::Cast(to) if to != leaf.input.dtype);
            rounds && !matches!(leaf.output.dtype, DType::U8 | DType::F32)
        };
        self.ops.clone().any(|leaf| is_stored(&leaves[leaf]))
    }

    /// Returns why an op that produces rows may not join the block, unless in every sample nothing but moves comes
    /// before it.
    fn refuses_rows(
        &self,
        leaves: &[FlatOp],
        leaf: usize,
        maker: RowProducer,
        makers: &[usize],
    ) -> Option<BlockEnd> {
        let is_own = |other: &usize| self.ops.contains(other);
        let runs_too =
            |other: &usize| is_own(other) && !leaves[*other].is_exclusive_with(&leaves[leaf]);
        let mut changes = self.groups.iter().flat_map(|step| &step.flat_ops).copied();
        if let Some(first) = makers.iter().copied().find(runs_too) {
            return Some(BlockEnd::MadeRows(first));
        }
        if let Some(first) = changes.find(runs_too) {
            return Some(BlockEnd::Changed(first));
        }
        let dtype = leaves[leaf].input.dtype;
        if self.source != dtype {
            let converts = |&other: &usize| {
                let FlatOp { input, output, .. } = &leaves[other];
                input.dtype != dtype && output.dtype == dtype
            };
            let mut before = self.ops.clone().rev().filter(runs_too);
            return Some(BlockEnd::Changed(before.find(converts).unwrap_or(self.ops.start)));
        }
        let other = makers.iter().copied().find(is_own)?;
        (self.rows != Some(maker)).then_some(BlockEnd::OtherRows(other))
    }
}

/// Returns whether no flat op that uses the parameter `param` runs for a sample that runs the flat op
/// `leaf`.
fn users_are_exclusive(block: &Block, leaves: &[FlatOp], param: usize, leaf: usize) -> bool {
    block.groups.iter().all(|step| match step.fused_ops[0] {
        FusedOp::Value { param: used, .. } if used == param => {
            step.flat_ops.iter().all(|&l| leaves[l].is_exclusive_with(&leaves[leaf]))
        }
        _ => true,
    })
}

/// Splits the flat ops into blocks, and assigns each flat op its parameters. Returns the blocks, why each of them
/// ends, and the number of parameters of a sample. The ops after index `device` are for a device: no block contains
/// ops from before and after it.
pub(super) fn split(
    leaves: &mut [FlatOp],
    [input, output]: [ImageType; 2],
    rule: NumberRule,
    device: Option<usize>,
) -> Result<(Vec<Block>, Vec<BlockEnd>, usize), Error> {
    let (mut blocks, mut ends, mut makers) = (vec![], vec![], vec![]);
    let joined_from = joined_from(leaves);
    let formats = formats(leaves, joined_from);
    let mut block = Block::new(0, 0, formats.first().copied().unwrap_or(format_of(&input)));
    for leaf in 0..leaves.len() {
        let maker = row_producer(&leaves[leaf], rule);
        let end = if block.host.is_some() {
            Some(BlockEnd::Host)
        } else if block.converts(leaves) && changes_values(&leaves[leaf]) {
            Some(BlockEnd::Converted)
        } else if leaf != 0 && joined_from == Some(leaf) {
            Some(BlockEnd::JoinsPlanes)
        } else {
            maker.and_then(|maker| block.refuses_rows(leaves, leaf, maker, &makers))
        };
        if let Some(end) = end {
            ends.push(end);
            let role = block.device;
            blocks.push(block.finished(leaves, rule)?);
            block = Block::new(leaf, blocks[blocks.len() - 1].params.end, formats[leaf]);
            block.device = role;
        }
        if device == Some(leaf) {
            // The op's output is bytes: values need not be rounded before they are stored.
            (block.ops.end, leaves[leaf].first_param) = (leaf + 1, block.params.end);
            block.device = BlockTarget::Staged;
            ends.push(BlockEnd::Device);
            blocks.push(block.finished(leaves, rule)?);
            let format = format_of(&leaves[leaf].output);
            block = Block::new(leaf + 1, blocks[blocks.len() - 1].params.end, format);
            block.device = BlockTarget::Device;
            continue;
        }
        if let Some(maker) = maker {
            block.rows = Some(maker);
            makers.push(leaf);
        }
        let is_host = block.device != BlockTarget::Device;
        let before = (is_host && multiplies(&leaves[leaf])).then(|| block.clone());
        let mut param = add(&mut block, leaves, leaf);
        block.ops.end = leaf + 1;
        // An image of these types may be stored between two ops.
        let may_end = matches!(leaves[leaf].input.dtype, DType::U8 | DType::F32);
        if let Some(before) = before.filter(|before| may_end && !before.groups.is_empty())
            && block.variants(leaves) > MAX_VARIANTS
        {
            ends.push(BlockEnd::LoopBodies);
            blocks.push(before.finished(leaves, rule)?);
            block = Block::new(leaf, blocks[blocks.len() - 1].params.end, formats[leaf]);
            param = add(&mut block, leaves, leaf);
            block.ops.end = leaf + 1;
        }
        leaves[leaf].first_param = param;
    }
    let ends_on_host = block.host.is_some();
    let last = block.finished(leaves, rule)?;
    let param_count = last.params.end;
    blocks.push(last);
    if ends_on_host {
        ends.push(BlockEnd::Host);
        blocks.push(Block::new(leaves.len(), param_count, format_of(&output))); // copies the output of the op in plain Rust
    }
    ends.push(BlockEnd::Output);
    // Between two blocks, images are channels last and of the next block's type; the last block stores the
    // output.
    let last = blocks.len() - 1;
    for block in 0..last {
        blocks[block].dtype = blocks[block + 1].source;
    }
    (blocks[last].dtype, blocks[last].layout) = (stored_type(leaves, output), output.layout);
    Ok((blocks, ends, param_count))
}

/// Returns the first flat op of a list whose channels are processed together, if ops before it, or none, are
/// processed plane by plane: that is the one that selects up to four channels. Ops before it that move whole pixels
/// are processed with the channels that it selects.
pub(super) fn joined_from(leaves: &[FlatOp]) -> Option<usize> {
    let selects = leaves.iter().position(FlatOp::joins_planes)?;
    Some(if leaves[..selects].iter().all(moves_pixels) { 0 } else { selects })
}

/// Returns whether a flat op treats all channels alike without any parameter.
fn moves_pixels(leaf: &FlatOp) -> bool {
    match &leaf.kind {
        OpKind::Pixel(kind) => kind.selected.is_some(),
        kind => matches!(
            kind,
            OpKind::Geometry { .. } | OpKind::Region { .. } | OpKind::Cast(_) | OpKind::Layout
        ),
    }
}

/// Returns the format of the pixels that a block processes if it begins with each of the flat ops.
fn formats(leaves: &[FlatOp], joined_from: Option<usize>) -> Vec<PixelFormat> {
    let selects = leaves.iter().position(FlatOp::joins_planes);
    let format = |(index, leaf): (usize, &FlatOp)| match (joined_from, selects) {
        (Some(first), Some(selects)) if (first..=selects).contains(&index) => {
            format_of(&leaf.input.with_channels(leaves[selects].output.channels))
        }
        _ => format_of(&leaf.input),
    };
    leaves.iter().enumerate().map(format).collect()
}

/// Returns the format of the pixels that a block processes: those of a plane, if the image has more channels than
/// are processed together.
fn format_of(image: &ImageType) -> PixelFormat {
    PixelFormat { channels: together(image.channels), dtype: image.dtype }
}

/// Returns whether a flat op computes new values from the old ones.
fn changes_values(leaf: &FlatOp) -> bool {
    let changes = match &leaf.kind {
        OpKind::Pixel(kind) => kind.selected.is_none(),
        kind => matches!(kind, OpKind::Shuffled(_) | OpKind::Table { .. } | OpKind::Cast(_)),
    };
    is_loaded(leaf.input.dtype) && (changes || leaf.kind.rows().is_some())
}

/// Returns whether a flat op multiplies the loop bodies that its block may need.
fn multiplies(leaf: &FlatOp) -> bool {
    !leaf.guards.is_empty() || leaf.kind.may_skip() || matches!(leaf.kind, OpKind::Shuffled(_))
}

/// Returns the type that elements are stored as: a view only reinterprets it.
fn stored_type(leaves: &[FlatOp], output: ImageType) -> DType {
    let view = leaves.iter().find(|leaf| matches!(leaf.kind, OpKind::View(_)));
    view.map_or(output, |view| view.input).dtype
}

/// Returns how the rows of a flat op are produced. Under the exact rule a resize equals torchvision's to
/// the bit, which only a row function provides. The compiled resize is that of bytes.
fn row_producer(leaf: &FlatOp, rule: NumberRule) -> Option<RowProducer> {
    match leaf.kind.rows()? {
        RowProducer::Compiled if rule == NumberRule::Exact || leaf.input.dtype != DType::U8 => {
            Some(RowProducer::Called)
        }
        maker => Some(maker),
    }
}

/// Adds a flat op to the block; returns the index of its first parameter.
fn add(block: &mut Block, leaves: &[FlatOp], leaf: usize) -> usize {
    let FlatOp { kind, input, .. } = &leaves[leaf];
    match kind {
        OpKind::Geometry { fills, .. } => block.add_geometry(leaf, *fills),
        OpKind::Region { fill, .. } => block.add_region(leaf, false, *fill),
        // It decides which planes are processed.
        OpKind::Pixel(kind) if kind.selected.is_some() && has_planes(input) => {
            return block.take_params(kind.param_count);
        }
        OpKind::Pixel(kind) => return block.add_pixel(leaves, leaf, kind),
        OpKind::Table { param_count, counted, .. } => {
            return block.add_table(leaves, leaf, *param_count, *counted);
        }
        OpKind::Shuffled(parts) => return block.add_shuffled(leaf, parts),
        OpKind::Cast(DType::U8) if input.dtype != DType::U8 => {
            block.add_group(leaf, FusedOp::Round);
        }
        OpKind::Host { .. } | OpKind::Mix => block.host = Some(leaf),
        // A device gets bytes. If no group comes before, values are bytes already.
        OpKind::Device if input.dtype == DType::U8 && !block.groups.is_empty() => {
            block.add_group(leaf, FusedOp::Round);
        }
        OpKind::Cast(_)
        | OpKind::View(_)
        | OpKind::Layout
        | OpKind::Device
        | OpKind::Batch
        | OpKind::Other => {}
    }
    block.params.end
}

/// Returns how many orders `count` items have.
#[must_use]
pub fn orders(count: usize) -> usize {
    (1..=count).fold(1, usize::saturating_mul)
}

/// Returns order number `index` of `count` items, at most 64, in lexicographic order. Nothing is allocated.
pub fn nth_order(count: usize, mut index: usize) -> impl Iterator<Item = usize> {
    let mut taken = 0_u64;
    (1..=count).rev().filter_map(move |left| {
        let of_each = orders(left - 1);
        let number = index / of_each % left;
        index %= of_each;
        let item = (0..count).filter(|item| taken >> item & 1 == 0).nth(number)?;
        taken |= 1 << item;
        Some(item)
    })
}
