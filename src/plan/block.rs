//! Blocks: ops that share one loop nest.
//!
//! A block reads one u8 picture and writes one. In between, for each sample:
//!
//! ```text
//! source ─ window, flips ─▶ [rows made] ─ window, flips, shift ─▶ links ─▶ store
//!                                                                  │
//!                          colour op, table, mask, colour op, ... ◀┘
//! ```
//!
//! The moves before and after rows are made cost nothing: they are composed into the addresses
//! that pixels are loaded from. A new block begins at an op that makes rows (a resize, a warp, a
//! blur) if something other than moves may come before it, since it needs the picture whole; and
//! after an op in plain Rust. Ops that never run for the same sample are not in each other's way.

use super::kind::{Kind, PixelKind};
use super::leaf::Leaf;
use super::{PlanError, fold};
use fuseloop_ops::{Class, DType, ImageType, Layout, NumberRule, PixelOp, RowMaker};
use std::ops::Range;

/// Most loop bodies of one block: one for each list of links that a sample may need.
pub(super) const MAX_VARIANTS: usize = 128;

/// Most steps of one loop body, with the readings it needs before: half a kilobyte of code each at
/// worst, so half the compiler's bound of 4 MiB.
const MAX_STEPS: usize = 4096;

/// Ops that share one loop nest.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Its leaves.
    pub ops: Range<usize>,
    /// Who makes its rows, if some of its ops make any.
    pub rows: Option<RowMaker>,
    /// The first op that brings colour in from outside, if that is done by copying the picture
    /// into a larger frame, and the colour.
    pub framed: Option<(usize, [u8; 3])>,
    /// Rectangles that links paint.
    pub regions: Vec<Region>,
    /// Leaves that ask where a pixel is, by number of their map.
    pub placed: Vec<usize>,
    /// What may be done to a pixel's values, from load to store.
    pub steps: Vec<Step>,
    /// Tables that links look up in.
    pub tables: usize,
    /// Its slots.
    pub slots: Range<usize>,
    /// The op that the stored picture is changed by, in plain Rust or in loops of its own, if one
    /// ends the block.
    pub host: Option<usize>,
    /// Type of the stored elements.
    pub dtype: DType,
    /// Layout of the stored picture.
    pub layout: Layout,
    /// Whether it is stored around the caches: for batches far larger than they are.
    pub streams: bool,
    /// What it has to do with a device.
    pub device: Role,
}

/// What a block has to do with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Nothing.
    #[default]
    Host,
    /// Its output is what a device gets.
    Staged,
    /// A device runs it.
    Device,
}

/// Links of some leaves, which a sample runs if it runs the first of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The leaves: one, or those that were folded into one link.
    pub leaves: Vec<usize>,
    /// The links: one, or the parts of a shuffled op, to be put in the drawn order.
    pub links: Vec<Link>,
}

/// One step in the life of a pixel's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Link {
    /// A pixel op: the leaf, or one part of it if it shuffles several.
    Value {
        /// A leaf whose code it is.
        leaf: usize,
        /// Part of a shuffled op.
        part: Option<usize>,
        /// Its first slot.
        slot: usize,
        /// Number of its map, if it asks where a pixel is.
        map: Option<usize>,
    },
    /// Looks values up in table number `table`.
    Table {
        /// Which table of the block's.
        table: usize,
        /// Whether levels are counted for it.
        counted: bool,
    },
    /// Multiplies by the matrix in twelve slots and clamps.
    Matrix {
        /// The first of them.
        slot: usize,
    },
    /// Paints region number `region`.
    Paint {
        /// Index into [`Block::regions`].
        region: usize,
    },
    /// Clamps to 0..=255 and rounds half to even: a conversion to u8 in the middle.
    Round,
}

/// A rectangle that is painted in a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// Its leaf.
    pub leaf: usize,
    /// Whether all *but* the rectangle is painted: what a shift brings in from outside.
    pub outside: bool,
    /// The colour.
    pub fill: [f32; 3],
}

/// The pixel op of a link, to be drawn and evaluated. Its numbers are those of its [`Kind`].
#[must_use]
pub fn pixel_op(leaves: &[Leaf], leaf: usize, part: Option<usize>) -> Option<&dyn PixelOp> {
    match (leaves.get(leaf)?.op.class(), part) {
        (Class::Pixel(op), None) => Some(op),
        (Class::Shuffled(parts), Some(part)) => parts.get(part).map(AsRef::as_ref),
        _ => None,
    }
}

/// What a link reads of the whole picture before the loop that stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The mean of the grey, for a slot.
    Mean {
        /// The leaf that needs it.
        leaf: usize,
        /// Part of a shuffled op.
        part: Option<usize>,
        /// The slot it goes to.
        slot: usize,
    },
    /// How often each level occurs, for a table.
    Levels {
        /// Which table.
        table: usize,
    },
}

/// What `link` reads of the whole picture, if anything.
#[must_use]
pub fn reading(leaves: &[Leaf], link: Link) -> Option<Reading> {
    match link {
        Link::Value { leaf, part, slot, .. } => {
            let kind = leaves.get(leaf)?.kind.pixel(part)?;
            kind.needs_mean.then(|| Reading::Mean { leaf, part, slot: slot + kind.slots - 1 })
        }
        Link::Table { table, counted: true } => Some(Reading::Levels { table }),
        _ => None,
    }
}

impl Block {
    fn new(first: usize, slot: usize) -> Self {
        Self {
            ops: first..first,
            rows: None,
            framed: None,
            regions: vec![],
            placed: vec![],
            steps: vec![],
            tables: 0,
            slots: slot..slot,
            host: None,
            dtype: DType::U8,
            layout: Layout::ChannelsLast,
            streams: false,
            device: Role::Host,
        }
    }

    /// Steps of code of the longest loop body: a reading is of what all links before it make.
    fn code_steps(&self, leaves: &[Leaf]) -> usize {
        let links: Vec<Link> = self.steps.iter().flat_map(|step| &step.links).copied().collect();
        let readings = links.iter().enumerate().filter(|(_, l)| reading(leaves, **l).is_some());
        links.len() + readings.map(|(before, _)| before).sum::<usize>()
    }

    /// The block with all its leaves, folded, if it is small enough to be compiled.
    fn finished(mut self, leaves: &[Leaf], rule: NumberRule) -> Result<Self, PlanError> {
        fold::matrices(&mut self, leaves, rule);
        if self.device == Role::Device {
            // A table would have to be copied with every sample, and one body does for all.
            return Ok(self);
        }
        fold::tables(&mut self, leaves, rule);
        let place = |leaf: usize| leaves[leaf].place;
        let (found, most) = (self.code_steps(leaves), MAX_STEPS);
        if found > most {
            let (first, last) = (place(self.ops.start), place(self.ops.end - 1));
            return Err(PlanError::TooManySteps { first, last, found, most });
        }
        let (found, most) = (self.variants(leaves), MAX_VARIANTS);
        if found > most {
            let (first, last) = (place(self.ops.start), place(self.ops.end - 1));
            return Err(PlanError::TooManyVariants { first, last, found, most });
        }
        Ok(self)
    }

    fn add_step(&mut self, leaf: usize, link: Link) {
        self.steps.push(Step { leaves: vec![leaf], links: vec![link] });
    }

    /// Slots for `count` numbers.
    pub(super) fn take_slots(&mut self, count: usize) -> usize {
        self.slots.end += count;
        self.slots.end - count
    }

    fn add_region(&mut self, leaf: usize, outside: bool, fill: [f32; 3]) {
        self.add_step(leaf, Link::Paint { region: self.regions.len() });
        self.regions.push(Region { leaf, outside, fill });
    }

    fn add_geometry(&mut self, leaf: usize, fills: Option<[u8; 3]>) {
        if let Some(fill) = fills {
            let is_copied = self.device != Role::Device // a device has no copy to frame
                && self.rows.is_none()
                && self.steps.is_empty()
                && self.framed.is_none();
            if !is_copied {
                self.add_region(leaf, true, fill.map(f32::from));
            } else {
                self.framed = Some((leaf, fill));
            }
        }
    }

    /// Adds a pixel op; gives its first slot. Leaves that exclude each other and have the same
    /// code share link and slots, and so loop bodies.
    fn add_pixel(&mut self, leaves: &[Leaf], leaf: usize, kind: &PixelKind) -> usize {
        let shared = self.steps.iter().find_map(|step| {
            let Link::Value { leaf: other, part: None, slot, .. } = step.links[0] else {
                return None;
            };
            let same = leaves[other].kind.pixel(None)?.code() == kind.code();
            (same && users_are_exclusive(self, leaves, slot, leaf)).then_some((step.links[0], slot))
        });
        let (link, slot) = shared.unwrap_or_else(|| {
            let slot = self.take_slots(kind.slots);
            let map = kind.uses_place.then(|| {
                self.placed.push(leaf);
                self.placed.len() - 1
            });
            (Link::Value { leaf, part: None, slot, map }, slot)
        });
        self.add_step(leaf, link);
        slot
    }

    /// Adds a table op; gives its first slot. Leaves that exclude each other share a table.
    fn add_table(&mut self, leaves: &[Leaf], leaf: usize, slots: usize, counted: bool) -> usize {
        let users = |table: usize| {
            self.steps.iter().filter(move |step| {
                matches!(step.links[0], Link::Table { table: used, .. } if used == table)
            })
        };
        let is_free = |table: &usize| {
            users(*table).all(|step| leaves[step.leaves[0]].is_exclusive_with(&leaves[leaf]))
        };
        let table = (0..self.tables).find(is_free).unwrap_or(self.tables);
        self.tables = self.tables.max(table + 1);
        self.add_step(leaf, Link::Table { table, counted });
        self.take_slots(slots)
    }

    fn add_shuffled(&mut self, leaf: usize, parts: &[PixelKind]) -> usize {
        let first = self.slots.end;
        let links = parts.iter().enumerate().map(|(part, kind)| {
            let slot = self.take_slots(kind.slots);
            Link::Value { leaf, part: Some(part), slot, map: None }
        });
        let links: Vec<Link> = links.collect();
        if !links.is_empty() {
            self.steps.push(Step { leaves: vec![leaf], links });
        }
        first
    }

    /// Whether a maker of rows may join: nothing but moves comes before it in any sample.
    fn takes_rows(&self, leaves: &[Leaf], leaf: usize, maker: RowMaker, makers: &[usize]) -> bool {
        let used = self.steps.iter().flat_map(|step| &step.leaves).chain(makers);
        let mut used = used.filter(|&&other| self.ops.contains(&other));
        self.rows.is_none_or(|kind| kind == maker)
            && used.all(|&other| leaves[other].is_exclusive_with(&leaves[leaf]))
    }
}

/// Whether no leaf that uses `slot` runs for a sample that runs `leaf`.
fn users_are_exclusive(block: &Block, leaves: &[Leaf], slot: usize, leaf: usize) -> bool {
    block.steps.iter().all(|step| match step.links[0] {
        Link::Value { slot: used, .. } if used == slot => {
            step.leaves.iter().all(|&l| leaves[l].is_exclusive_with(&leaves[leaf]))
        }
        _ => true,
    })
}

/// Splits flat leaves into blocks, and gives each leaf its slots. Gives the blocks, and the number
/// of slots of a sample. What comes after the leaf `device` is for a device: a block never goes
/// over it.
pub(super) fn split(
    leaves: &mut [Leaf],
    output: ImageType,
    rule: NumberRule,
    device: Option<usize>,
) -> Result<(Vec<Block>, usize), PlanError> {
    let (mut blocks, mut block, mut makers) = (vec![], Block::new(0, 0), vec![]);
    for leaf in 0..leaves.len() {
        let maker = row_maker(&leaves[leaf], rule);
        let fits = maker.is_none_or(|maker| block.takes_rows(leaves, leaf, maker, &makers));
        if block.host.is_some() || !fits {
            let role = block.device;
            blocks.push(block.finished(leaves, rule)?);
            block = Block::new(leaf, blocks[blocks.len() - 1].slots.end);
            block.device = role;
        }
        if device == Some(leaf) {
            // Its output is bytes: nothing need round them before they are stored.
            (block.ops.end, leaves[leaf].slot) = (leaf + 1, block.slots.end);
            block.device = Role::Staged;
            blocks.push(block.finished(leaves, rule)?);
            block = Block::new(leaf + 1, blocks[blocks.len() - 1].slots.end);
            block.device = Role::Device;
            continue;
        }
        if let Some(maker) = maker {
            block.rows = Some(maker);
            makers.push(leaf);
        }
        let is_host = block.device != Role::Device;
        let before = (is_host && multiplies(&leaves[leaf])).then(|| block.clone());
        let mut slot = add(&mut block, leaves, leaf);
        block.ops.end = leaf + 1;
        let is_bytes = leaves[leaf].input.dtype == DType::U8;
        if let Some(before) = before.filter(|before| is_bytes && !before.steps.is_empty())
            && block.variants(leaves) > MAX_VARIANTS
        {
            blocks.push(before.finished(leaves, rule)?);
            block = Block::new(leaf, blocks[blocks.len() - 1].slots.end);
            slot = add(&mut block, leaves, leaf);
            block.ops.end = leaf + 1;
        }
        leaves[leaf].slot = slot;
    }
    let ends_on_host = block.host.is_some();
    let last = block.finished(leaves, rule)?;
    let slots = last.slots.end;
    blocks.push(last);
    if ends_on_host {
        blocks.push(Block::new(leaves.len(), slots)); // copies what the op gave to the output
    }
    // What lies between two blocks is bytes, channels last; the last one stores the output.
    let last = blocks.len() - 1;
    (blocks[last].dtype, blocks[last].layout) = (stored_type(leaves, output), output.layout);
    Ok((blocks, slots))
}

/// Whether a leaf multiplies the loop bodies that its block may need.
fn multiplies(leaf: &Leaf) -> bool {
    !leaf.guards.is_empty() || leaf.kind.may_skip() || matches!(leaf.kind, Kind::Shuffled(_))
}

/// The type that elements are stored as: a view only calls it something else.
fn stored_type(leaves: &[Leaf], output: ImageType) -> DType {
    let view = leaves.iter().find(|leaf| matches!(leaf.kind, Kind::View(_)));
    view.map_or(output, |view| view.input).dtype
}

/// Who makes the rows of a leaf. Under the exact rule a resize is torchvision's to the bit, which
/// a row function gives.
fn row_maker(leaf: &Leaf, rule: NumberRule) -> Option<RowMaker> {
    match (leaf.kind.rows()?, rule) {
        (RowMaker::Compiled, NumberRule::Exact) => Some(RowMaker::Called),
        (maker, _) => Some(maker),
    }
}

/// Adds a leaf to the block; gives its first slot.
fn add(block: &mut Block, leaves: &[Leaf], leaf: usize) -> usize {
    let Leaf { kind, input, .. } = &leaves[leaf];
    match kind {
        Kind::Geometry { fills, .. } => block.add_geometry(leaf, *fills),
        Kind::Region { fill, .. } => block.add_region(leaf, false, *fill),
        Kind::Pixel(kind) => return block.add_pixel(leaves, leaf, kind),
        Kind::Table { slots, counted, .. } => {
            return block.add_table(leaves, leaf, *slots, *counted);
        }
        Kind::Shuffled(parts) => return block.add_shuffled(leaf, parts),
        Kind::Cast(DType::U8) if input.dtype != DType::U8 => block.add_step(leaf, Link::Round),
        Kind::Host | Kind::Mix => block.host = Some(leaf),
        // What a device gets is bytes. Without a step before it, values are bytes as they are.
        Kind::Device if input.dtype == DType::U8 && !block.steps.is_empty() => {
            block.add_step(leaf, Link::Round);
        }
        Kind::Cast(_) | Kind::View(_) | Kind::Layout | Kind::Device | Kind::Batch | Kind::Other => {
        }
    }
    block.slots.end
}

/// How many orders `count` things have.
#[must_use]
pub fn orders(count: usize) -> usize {
    (1..=count).fold(1, usize::saturating_mul)
}

/// Order number `index` of `count` things, in lexicographic order.
#[must_use]
pub fn nth_order(count: usize, mut index: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..count).collect();
    let mut order = vec![];
    while !left.is_empty() {
        let of_each = orders(left.len() - 1);
        order.push(left.remove(index / of_each % left.len()));
        index %= of_each;
    }
    order
}
