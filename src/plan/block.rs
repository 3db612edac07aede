//! Blocks: ops that share one loop nest.
//!
//! A block reads one u8 picture and writes one. In between, for each sample:
//!
//! ```text
//! source ─ window, flips ─▶ [resize] ─ window, flips, shift ─▶ links ─▶ store
//!                                                               │
//!                          colour op, mask, colour op, ... ◀────┘
//! ```
//!
//! The moves before and after the resize cost nothing: they are composed into the addresses that
//! pixels are loaded from. A new block begins at a resize that has something other than moves
//! before it, since those need the picture they change to be whole, and after an op in plain Rust.

use super::PlanError;
use fuseloop_ops::{Class, DType, GeometryOp, ImageType, Interpolation, Layout, Op, Ops, PixelOp};
use std::ops::Range;

/// Most loop bodies of one block: one for each order of its shuffled ops.
const MAX_VARIANTS: usize = 64;

/// Most steps of one block, over all orders and means: half a kilobyte of code each at worst, so
/// half the compiler's bound of 4 MiB, and compiled in a second, or in four where nearly all of
/// them paint rectangles.
const MAX_STEPS: usize = 4096;

/// Ops that share one loop nest.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Places of its ops in the list.
    pub ops: Range<usize>,
    /// The place of its resize, and how that weighs pixels.
    pub resize: Option<(usize, Interpolation)>,
    /// The place of the first op that brings colour in from outside, if that is done by copying
    /// the picture into a larger frame, and the colour.
    pub framed: Option<(usize, [u8; 3])>,
    /// Rectangles that links paint.
    pub regions: Vec<Region>,
    /// The values of a pixel from load to store: one list for each order of shuffled ops.
    pub variants: Vec<Vec<Link>>,
    /// Places where the mean of the picture is needed, in order.
    pub means: Vec<Mean>,
    /// The place of the op in plain Rust that the block's output is changed by, if one ends it.
    pub host: Option<usize>,
    /// Type of the stored elements.
    pub dtype: DType,
    /// Layout of the stored picture.
    pub layout: Layout,
    /// Whether it is stored around the caches: for batches far larger than they are.
    pub streams: bool,
}

/// One step in the life of a pixel's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Link {
    /// A pixel op: the op at `place`, or its part `part` if it shuffles several.
    Value {
        /// Place in the list.
        place: usize,
        /// Part of a shuffled op.
        part: Option<usize>,
        /// Its first slot.
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
    /// Place of its op.
    pub place: usize,
    /// Whether all *but* the rectangle is painted: what a shift brings in from outside.
    pub outside: bool,
    /// The colour.
    pub fill: [u8; 3],
}

/// Where a mean is needed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// Place of the op that needs it.
    pub place: usize,
    /// Part of a shuffled op.
    pub part: Option<usize>,
    /// The slot it goes to.
    pub slot: usize,
}

impl Block {
    fn new(first: usize) -> Self {
        Self {
            ops: first..first,
            resize: None,
            framed: None,
            regions: vec![],
            variants: vec![vec![]],
            means: vec![],
            host: None,
            dtype: DType::U8,
            layout: Layout::ChannelsLast,
            streams: false,
        }
    }

    /// Steps of code: a mean is taken of what all steps before it make, in each order.
    fn steps(&self) -> usize {
        let needs_mean = |link: &Link| match *link {
            Link::Value { place, part, .. } => {
                self.means.iter().any(|mean| (mean.place, mean.part) == (place, part))
            }
            Link::Paint { .. } | Link::Round => false,
        };
        let of_variant = |links: &Vec<Link>| {
            let before_means = links.iter().enumerate().filter(|(_, link)| needs_mean(link));
            links.len() + before_means.map(|(before, _)| before).sum::<usize>()
        };
        self.variants.iter().map(of_variant).sum()
    }

    /// The block, if it is small enough to be compiled.
    fn checked(self) -> Result<Self, PlanError> {
        let (found, most) = (self.steps(), MAX_STEPS);
        if found > most {
            let (first, last) = (self.ops.start, self.ops.end - 1);
            return Err(PlanError::TooManySteps { first, last, found, most });
        }
        Ok(self)
    }

    /// Whether values or pixels were changed already, so that a resize must begin a new block.
    fn is_dirty(&self) -> bool {
        self.resize.is_some() || !self.variants[0].is_empty()
    }

    /// The pixel op of a link, with the list it is from.
    #[must_use]
    pub fn pixel_op(ops: &Ops, place: usize, part: Option<usize>) -> Option<&dyn PixelOp> {
        match (ops.get(place)?.class(), part) {
            (Class::Pixel(op), None) => Some(op),
            (Class::Shuffled(parts), Some(part)) => parts.get(part).map(AsRef::as_ref),
            _ => None,
        }
    }

    fn append(&mut self, link: Link) {
        for variant in &mut self.variants {
            variant.push(link);
        }
    }

    fn add_value(
        &mut self,
        place: usize,
        part: Option<usize>,
        op: &dyn PixelOp,
        slot: usize,
    ) -> Link {
        if op.needs_mean() {
            self.means.push(Mean { place, part, slot: slot + op.slots() - 1 });
        }
        Link::Value { place, part, slot }
    }

    fn add_region(&mut self, place: usize, outside: bool, fill: [u8; 3]) {
        self.append(Link::Paint { region: self.regions.len() });
        self.regions.push(Region { place, outside, fill });
    }

    fn add_geometry(&mut self, place: usize, op: &dyn GeometryOp, input: &ImageType) {
        if let Some(interpolation) = op.resamples() {
            self.resize = Some((place, interpolation));
        } else if let Some(fill) = op.fills(input) {
            if self.is_dirty() || self.framed.is_some() {
                self.add_region(place, true, fill);
            } else {
                self.framed = Some((place, fill));
            }
        }
    }

    /// Multiplies the variants by the orders of a shuffled op's parts.
    fn add_shuffled(&mut self, links: &[Link]) {
        let before = std::mem::take(&mut self.variants);
        for order in 0..orders(links.len()) {
            let order = nth_order(links.len(), order);
            for variant in &before {
                let shuffled = order.iter().map(|&part| links[part]);
                self.variants.push(variant.iter().copied().chain(shuffled).collect());
            }
        }
    }

    /// What the block is, in a few words.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts = vec![];
        if self.framed.is_some() {
            parts.push("a framed copy where a shift leaves the picture".to_owned());
        }
        if let Some((_, interpolation)) = self.resize {
            parts.push(format!("rows resized ({interpolation:?})"));
        }
        if !self.means.is_empty() {
            parts.push(format!("{} reading(s) for the mean", self.means.len()));
        }
        let links = self.variants[0].len();
        parts.push(format!("one loop over the pixels, {links} step(s) in registers"));
        if self.variants.len() > 1 {
            parts.push(format!("{} orders compiled", self.variants.len()));
        }
        if self.streams {
            parts.push("stored around the caches".to_owned());
        }
        parts.join("; ")
    }

    /// What became of one of its ops.
    #[must_use]
    pub fn role(&self, place: usize, class: Class<'_>) -> &'static str {
        match class {
            Class::Geometry(op) if op.resamples().is_some() => {
                "window pushed into decode, rows resized as the loop needs them"
            }
            Class::Geometry(_) if self.framed.is_some_and(|(framed, _)| framed == place) => {
                "source addresses, in a framed copy where it leaves the picture"
            }
            Class::Geometry(_) if self.regions.iter().any(|r| r.place == place) => {
                "source addresses, and a mask for what comes in from outside"
            }
            Class::Geometry(_) => "folded into source addresses",
            Class::Pixel(op) if op.needs_mean() => "in registers, after a reading for the mean",
            Class::Pixel(_) => "in registers",
            Class::Shuffled(_) => "in registers, one loop body for each order",
            Class::Region(_) => "a mask in registers",
            Class::Host(_) => "plain Rust on the stored picture, for the samples it changes",
            Class::Cast(_) | Class::Layout(_) => "folded into the final store",
            Class::View(_) => "the stored bits under another name",
            Class::Label(_) => "",
        }
    }
}

/// Splits a checked list into blocks; gives them with the number of slots of a sample.
pub(super) fn split(
    ops: &Ops,
    input: ImageType,
    types: &[ImageType],
) -> Result<(Vec<Block>, usize), PlanError> {
    let mut blocks = vec![];
    let (mut block, mut slots) = (Block::new(0), 0);
    let mut before = input;
    for (place, (op, after)) in ops.iter().zip(types).enumerate() {
        if begins_block(op.as_ref(), &block) {
            blocks.push(std::mem::replace(&mut block, Block::new(place)).checked()?);
        }
        add(&mut block, place, op.as_ref(), &before, &mut slots)?;
        block.ops.end = place + 1;
        before = *after;
    }
    let ends_on_host = block.host.is_some();
    blocks.push(block.checked()?);
    if ends_on_host {
        blocks.push(Block::new(ops.len())); // copies what the op gave to the output
    }
    // What lies between two blocks is bytes, channels last; the last one stores the output.
    let inner = blocks.len() - 1;
    for block in &mut blocks[..inner] {
        (block.dtype, block.layout) = (DType::U8, Layout::ChannelsLast);
    }
    (blocks[inner].dtype, blocks[inner].layout) = (stored_type(ops, input, types), before.layout);
    Ok((blocks, slots))
}

/// The type that elements are stored as: a view only calls it something else.
fn stored_type(ops: &Ops, input: ImageType, types: &[ImageType]) -> DType {
    let view = ops.iter().position(|op| matches!(op.class(), Class::View(_)));
    let stored = view.unwrap_or(types.len()).checked_sub(1);
    stored.map_or(input, |place| types[place]).dtype
}

fn begins_block(op: &dyn Op, block: &Block) -> bool {
    let resizes = matches!(op.class(), Class::Geometry(op) if op.resamples().is_some());
    block.host.is_some() || (resizes && block.is_dirty())
}

fn add(
    block: &mut Block,
    place: usize,
    op: &dyn Op,
    before: &ImageType,
    slots: &mut usize,
) -> Result<(), PlanError> {
    let mut take = |op: &dyn PixelOp| {
        *slots += op.slots();
        *slots - op.slots()
    };
    match op.class() {
        Class::Geometry(op) => block.add_geometry(place, op, before),
        Class::Region(op) => block.add_region(place, false, op.fill()),
        Class::Pixel(op) => {
            let link = block.add_value(place, None, op, take(op));
            block.append(link);
        }
        Class::Shuffled(parts) => {
            let found = block.variants.len().saturating_mul(orders(parts.len()));
            if found > MAX_VARIANTS {
                let (op, most) = (op.name(), MAX_VARIANTS);
                return Err(PlanError::TooManyOrders { place, op, found, most });
            }
            let parts = parts.iter().enumerate();
            let links: Vec<Link> = parts
                .map(|(part, op)| {
                    block.add_value(place, Some(part), op.as_ref(), take(op.as_ref()))
                })
                .collect();
            block.add_shuffled(&links);
        }
        Class::Cast(DType::U8) if before.dtype != DType::U8 => block.append(Link::Round),
        Class::Host(_) => block.host = Some(place),
        Class::Cast(_) | Class::View(_) | Class::Layout(_) | Class::Label(_) => {}
    }
    Ok(())
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
