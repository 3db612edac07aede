//! The random parameters of one sample, drawn before a pixel is touched.

use super::ImagePlan;
use super::block::{Block, Link, Step, nth_order, orders, pixel_op, reading};
use super::compose::Axis;
use super::kind::{Kind, PixelKind};
use super::leaf::{Guard, Leaf};
use fuseloop_ops::{
    Class, Eval, Histogram, HostSample, Mixture, Motion, RowMaker, SampleKey, Size, Table, Window,
    to_u8,
};

/// Most steps of all chains of a mixture.
const MAX_MIX_STEPS: u64 = 1024;

/// What was drawn for one sample. Its memory is reused from sample to sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draws {
    /// What all draws of the sample are a function of.
    pub key: SampleKey,
    /// Size of the decoded image.
    pub source: Size,
    /// The outcome of each choice.
    pub outcomes: Vec<usize>,
    /// Which leaves run.
    pub active: Vec<bool>,
    /// What geometry ops do, with the leaf, in order.
    pub motions: Vec<(usize, Motion)>,
    /// What region ops paint, with the leaf, in order.
    pub windows: Vec<(usize, Window)>,
    /// The numbers of pixel and table ops.
    pub slots: Vec<f32>,
    /// Which order each shuffled op takes, with the leaf.
    pub orders: Vec<(usize, usize)>,
    /// How ops mix, with the leaf.
    pub mixes: Vec<(usize, Mixed)>,
    scratch: Vec<Motion>,
}

/// What was drawn for an op that mixes.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    /// The weights.
    pub mixture: Mixture,
    /// The draws of all steps, chain by chain.
    pub steps: Vec<Draws>,
}

impl ImagePlan {
    /// Draws for the sample of `key`, whose decoded image is of `source`.
    pub fn draw(&self, key: SampleKey, source: Size, draws: &mut Draws) {
        draws.key = key;
        draws.source = source;
        draws.motions.clear();
        draws.windows.clear();
        draws.orders.clear();
        draws.mixes.clear();
        draws.active.clear();
        draws.outcomes.clear();
        draws.slots.clear();
        draws.slots.resize(self.slots(), 0.0);
        for choice in self.choices() {
            let outcome = match choice.op.class() {
                Class::Choice(op) if allowed(&choice.guards, &draws.outcomes) => {
                    op.draw(&mut key.op(choice.stream))
                }
                _ => 0,
            };
            let (name, outcomes) = (choice.op.name(), choice.outcomes);
            assert!(outcome < outcomes, "{name} drew outcome {outcome}, but has {outcomes}");
            draws.outcomes.push(outcome);
        }
        let mut size = source;
        for (index, leaf) in self.leaves().iter().enumerate() {
            let runs = allowed(&leaf.guards, &draws.outcomes);
            let active = runs && draws.leaf(key, index, leaf, &mut size);
            draws.active.push(active);
        }
        self.blocks().iter().for_each(|block| multiply_matrices(block, self.leaves(), draws));
    }

    /// The links that a block runs for these draws, in order, into `links`, and the first leaf of
    /// each into `leaves`.
    pub fn links(
        &self,
        block: &Block,
        draws: &Draws,
        links: &mut Vec<Link>,
        leaves: &mut Vec<usize>,
    ) {
        links.clear();
        leaves.clear();
        for step in block.steps.iter().filter(|step| draws.active[step.leaves[0]]) {
            match step.links[..] {
                [link] => links.push(link),
                _ => {
                    let order = draws.orders.iter().find(|(leaf, _)| *leaf == step.leaves[0]);
                    let order = nth_order(step.links.len(), order.map_or(0, |(_, order)| *order));
                    links.extend(order.into_iter().map(|part| step.links[part]));
                }
            }
            leaves.resize(links.len(), step.leaves[0]);
        }
    }

    /// The part of the decoded image that any op reads for these draws: at least a pixel.
    #[must_use]
    pub fn wanted(&self, draws: &Draws) -> Window {
        let first = &self.blocks()[0];
        let reads_all = |step: &Step| {
            let mut links = step.links.iter();
            draws.active[step.leaves[0]] && links.any(|l| reading(self.leaves(), *l).is_some())
        };
        let first_reading = first.steps.iter().find(|step| reads_all(step)).map(|s| s.leaves[0]);
        let (mut rows, mut columns) =
            (Shown::of(draws.source.height), Shown::of(draws.source.width));
        for (leaf, motion) in &draws.motions {
            if *leaf >= first.ops.end || first_reading.is_some_and(|reading| reading < *leaf) {
                break; // what comes before this move needs more of the picture than it keeps
            }
            match *motion {
                Motion::Frame { top, left, size, .. } => {
                    rows.frame(top, size.height);
                    columns.frame(left, size.width);
                }
                Motion::FlipHorizontal => columns.flip(),
                Motion::FlipVertical => rows.flip(),
                Motion::Resize { .. } | Motion::Rows(_) => break,
            }
        }
        let (top, height) = rows.range(draws.source.height);
        let (left, width) = columns.range(draws.source.width);
        Window { top, left, height, width }
    }

    /// Changes a stored picture by the op in plain Rust at `leaf`.
    pub fn change(&self, leaf: usize, draws: &Draws, size: Size, pixels: &mut [u8]) {
        let Leaf { op, stream, .. } = &self.leaves()[leaf];
        if let Class::Host(op) = op.class() {
            let rng = &mut draws.key.op(*stream);
            op.apply(HostSample { sample: draws.key.sample(), size, rng }, pixels);
        }
    }

    /// The table of a step for these draws: what its leaves make of each level.
    pub fn table(&self, leaves: &[usize], draws: &Draws, levels: &Histogram, out: &mut Table) {
        let mut one = [[0.0; 256]; 3];
        for (position, &index) in leaves.iter().enumerate() {
            let leaf = &self.leaves()[index];
            match leaf.op.class() {
                Class::Table(op) => {
                    let slots = &draws.slots[leaf.slot..leaf.slot + leaf.kind.slots()];
                    op.table(self.rule(), slots, levels, &mut one);
                    if position == 0 {
                        *out = one;
                    } else {
                        for (values, table) in out.iter_mut().zip(&one) {
                            values.iter_mut().for_each(|v| *v = table[usize::from(to_u8(*v))]);
                        }
                    }
                }
                Class::Pixel(op) => {
                    if position == 0 {
                        *out = [std::array::from_fn(|level| level as f32); 3];
                    }
                    let slots = &draws.slots[leaf.slot..leaf.slot + leaf.kind.slots()];
                    let cx = Eval::new(self.rule(), slots);
                    let [reds, greens, blues] = out;
                    for ((r, g), b) in reds.iter_mut().zip(greens).zip(blues) {
                        [*r, *g, *b] = op.eval(&cx, [*r, *g, *b]);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Draws {
    /// Draws for one leaf; gives whether it runs. What the op draws is held to what it said when
    /// the list was planned.
    ///
    /// # Panics
    ///
    /// If a geometry op draws steps that make rows, and not one of the maker that it said.
    fn leaf(&mut self, key: SampleKey, index: usize, leaf: &Leaf, size: &mut Size) -> bool {
        let rng = &mut key.op(leaf.stream);
        let may_skip = leaf.kind.may_skip();
        let slots = leaf.slot..leaf.slot + leaf.kind.slots();
        match leaf.op.class() {
            Class::Geometry(op) => {
                self.scratch.clear();
                op.draw(rng, *size, &mut self.scratch);
                check_motions(leaf, &self.scratch);
                for motion in self.scratch.drain(..) {
                    *size = motion.output(*size);
                    self.motions.push((index, motion));
                }
                true
            }
            Class::Region(op) => {
                let window = op.draw(rng, *size);
                self.windows.push((index, window));
                !may_skip || window.height > 0
            }
            Class::Pixel(op) => op.draw(rng, *size, &mut self.slots[slots]) || !may_skip,
            Class::Table(op) => op.draw(rng, &mut self.slots[slots]) || !may_skip,
            Class::Shuffled(parts) => {
                let Kind::Shuffled(kinds) = &leaf.kind else { return true };
                let order = rng.below(orders(kinds.len()) as u32) as usize;
                self.orders.push((index, order));
                let mut slot = leaf.slot;
                for (part, PixelKind { slots, .. }) in parts.iter().zip(kinds) {
                    part.draw(rng, *size, &mut self.slots[slot..slot + slots]);
                    slot += slots;
                }
                true
            }
            Class::Host(op) => op.applies_to(key.sample()),
            Class::Mix(op) => {
                let mixture = op.draw(rng);
                let steps = match &leaf.step {
                    Some(plan) => mix_steps(plan, key.field(leaf.stream as usize), *size, &mixture),
                    None => vec![],
                };
                self.mixes.push((index, Mixed { mixture, steps }));
                true
            }
            Class::Cast(_)
            | Class::View(_)
            | Class::Layout(_)
            | Class::Device(_)
            | Class::Label(_)
            | Class::Choice(_)
            | Class::Batch(_) => true,
        }
    }
}

/// Draws for all steps of a mixture's chains, each with a key of its own.
fn mix_steps(plan: &ImagePlan, key: SampleKey, size: Size, mixture: &Mixture) -> Vec<Draws> {
    let steps: u64 = mixture.chains.iter().map(|(_, steps)| u64::from(*steps)).sum();
    assert!(steps <= MAX_MIX_STEPS, "a mixture of {steps} steps, at most {MAX_MIX_STEPS} are run");
    let draw = |step| {
        let mut draws = Draws::default();
        plan.draw(key.field(step as usize), size, &mut draws);
        draws
    };
    (0..steps).map(draw).collect()
}

/// A block has rows made at most once, and only where the plan knows it.
fn check_motions(leaf: &Leaf, motions: &[Motion]) {
    let makers: Vec<RowMaker> = motions.iter().filter_map(Motion::maker).collect();
    let (name, planned) = (leaf.op.name(), leaf.kind.rows());
    assert!(
        makers.is_empty() || makers.len() == 1 && planned == Some(makers[0]),
        "{name} drew steps whose rows are made by {makers:?}, but its `makes_rows` said {planned:?}"
    );
}

/// Whether the outcomes of choices let what is guarded run.
pub(super) fn allowed(guards: &[Guard], outcomes: &[usize]) -> bool {
    guards.iter().all(|guard| guard.when >> outcomes[guard.choice] & 1 == 1)
}

/// Fills the slots of folded matrices.
fn multiply_matrices(block: &Block, leaves: &[Leaf], draws: &mut Draws) {
    for step in &block.steps {
        let Link::Matrix { slot: to } = step.links[0] else { continue };
        let mut product = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
        for &leaf in &step.leaves {
            let Some(op) = pixel_op(leaves, leaf, None) else { continue };
            let Leaf { slot, kind, .. } = &leaves[leaf];
            let slots = &draws.slots[*slot..slot + kind.slots()];
            if let Some(next) = op.matrix(slots) {
                product = multiply(next.map(|row| row.map(f64::from)), product);
            }
        }
        for (slot, value) in draws.slots[to..to + 12].iter_mut().zip(product.iter().flatten()) {
            *slot = *value as f32;
        }
    }
}

/// The matrix that does `first`, then `then`.
fn multiply(then: [[f64; 4]; 3], first: [[f64; 4]; 3]) -> [[f64; 4]; 3] {
    then.map(|row| {
        std::array::from_fn(|column| {
            let sum: f64 = (0..3).map(|k| row[k] * first[k][column]).sum();
            if column == 3 { sum + row[3] } else { sum }
        })
    })
}

/// What frames have left to see of one axis of an image.
#[derive(Clone, Copy)]
struct Shown {
    /// Where pixels of the innermost frame are in the image.
    axis: Axis,
    /// Pixels of the innermost frame.
    len: u32,
    first: i64,
    end: i64,
}

impl Shown {
    fn of(len: u32) -> Self {
        Self { axis: Axis::IDENTITY, len, first: 0, end: i64::from(len) }
    }

    fn frame(&mut self, start: i32, len: u32) {
        self.axis = self.axis.framed(start);
        self.len = len;
        let (first, end) = self.axis.range(len);
        (self.first, self.end) = (self.first.max(first), self.end.min(end));
    }

    fn flip(&mut self) {
        self.axis = self.axis.flipped(self.len);
    }

    /// The first pixel shown and how many; one if none is.
    fn range(self, len: u32) -> (u32, u32) {
        let first = self.first.clamp(0, i64::from(len) - 1);
        (first as u32, (self.end - first).max(1) as u32)
    }
}
