//! The random parameters of one sample, drawn before a pixel is touched.
//!
//! They determine which fused ops the sample runs and which window of its image is decoded, so both are known before
//! a byte is decoded. A draw is a function of the seed, the epoch, the sample, the field, and the name and occurrence
//! of the op: it does not depend on other ops. Objects are moved by each step as it is drawn, so that an op can draw
//! around boxes.

use super::ImagePlan;
use super::block::{Block, FusedOp, OpGroup, nth_order, orders, pixel_op, reduction};
use super::compose::AxisMap;
use super::flatten::{FlatOp, Guard};
use super::function;
use super::kind::{OpKind, PixelKind};
use crate::error::Error;
use fuseloop_ops::author::{Eval, GeometryStep, Histogram, LevelTable, Objects, OpClass, Window};
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::internals::memory;
use fuseloop_ops::internals::{MAX_CHANNELS, Mixture, SampleKey, geometry_step, to_u8};
use fuseloop_ops::{HostSample, Size};
use std::ops::Range;
use std::sync::Arc;

/// Most steps of all chains of a mixture.
const MAX_MIX_STEPS: u64 = 1024;

/// Everything that was drawn for one sample. Its memory is reused from sample to sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draws {
    /// The key that all draws of the sample are a function of.
    pub key: SampleKey,
    /// Size of the decoded image.
    pub source: Size,
    /// Size of the image after all ops.
    pub output: Size,
    /// The outcome of each choice.
    pub outcomes: Vec<usize>,
    /// Which flat ops run.
    pub active: Vec<bool>,
    /// The steps of geometry ops, each with its flat op, in order.
    pub geometry: Vec<(usize, GeometryStep)>,
    /// The windows that region ops paint, each with its flat op, in order.
    pub windows: Vec<(usize, Window)>,
    /// The parameters of pixel and table ops: drawn numbers that compiled code reads.
    pub params: Vec<f32>,
    /// The number of the order of each shuffled op, with its flat op.
    pub orders: Vec<(usize, usize)>,
    /// The draws of ops that mix images, each with its flat op.
    pub mixes: Vec<(usize, DrawnMix)>,
    /// The objects of the sample, where the drawn steps have moved them; none unless they were given.
    pub objects: Objects,
    scratch: Vec<GeometryStep>,
}

/// The draws of an op that mixes images.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnMix {
    /// The weights.
    pub mixture: Mixture,
    /// The draws of all steps, chain by chain.
    pub steps: Vec<Draws>,
}

impl ImagePlan {
    /// Draws for the sample of `key`, whose decoded image has size `source`.
    pub fn draw(&self, key: SampleKey, source: Size, draws: &mut Draws) {
        draws.objects.clear();
        self.draw_around_objects(key, source, draws);
    }

    /// Like [`draw`](Self::draw), for a sample that has the objects which are in `draws`: they are moved to where
    /// they are in the output.
    pub(crate) fn draw_around_objects(&self, key: SampleKey, source: Size, draws: &mut Draws) {
        DefaultFloats::during(|| self.draw_each(key, source, draws, |_, _| ()));
    }

    /// Returns the size of the image and the objects after each flat op, for a sample that has these objects when
    /// nothing has run.
    pub(crate) fn objects_after_ops(
        &self,
        key: SampleKey,
        source: Size,
        objects: Objects,
    ) -> Vec<(Size, Arc<Objects>)> {
        let mut last = Arc::new(objects.clone());
        let (mut draws, mut after) = (Draws { objects, ..Draws::default() }, vec![]);
        let each = |size, objects: &Objects| {
            if *last != *objects {
                last = Arc::new(objects.clone());
            }
            after.push((size, Arc::clone(&last)));
        };
        DefaultFloats::during(|| self.draw_each(key, source, &mut draws, each));
        after
    }

    /// Draws for a sample that has the objects which are in `draws`. `each` is called after each flat op.
    fn draw_each(
        &self,
        key: SampleKey,
        source: Size,
        draws: &mut Draws,
        each: impl FnMut(Size, &Objects),
    ) {
        draws.restart(key, source, self.param_count());
        for choice in self.choices() {
            let outcome = match choice.op.class() {
                OpClass::Choice(op) if allowed(&choice.guards, &draws.outcomes) => {
                    op.draw(&mut key.op(choice.stream))
                }
                _ => 0,
            };
            let (name, outcomes) = (choice.op.name(), choice.outcomes);
            assert!(outcome < outcomes, "{name} drew outcome {outcome}, but has {outcomes}");
            draws.outcomes.push(outcome);
        }
        self.draw_ops(0, &mut { source }, draws, each);
    }

    /// Draws for the flat ops from index `first` on; `size` is the size of the image that the first of them gets.
    /// `each` is called after each of them with the size of the image and the objects.
    pub(super) fn draw_ops(
        &self,
        first: usize,
        size: &mut Size,
        draws: &mut Draws,
        mut each: impl FnMut(Size, &Objects),
    ) {
        for (index, leaf) in self.flat_ops().iter().enumerate().skip(first) {
            let runs = allowed(&leaf.guards, &draws.outcomes);
            let active = runs && draws.draw_op(draws.key, index, leaf, size);
            draws.active.push(active);
            each(*size, &draws.objects);
        }
        draws.output = *size;
        self.blocks().iter().for_each(|block| multiply_matrices(block, self.flat_ops(), draws));
    }

    /// Writes the fused ops that a block runs for these draws, in order, to `links`, and the first flat
    /// op of each to `leaves`.
    pub fn fused_ops(
        &self,
        block: &Block,
        draws: &Draws,
        links: &mut Vec<FusedOp>,
        leaves: &mut Vec<usize>,
    ) {
        links.clear();
        leaves.clear();
        for step in block.groups.iter().filter(|step| draws.active[step.flat_ops[0]]) {
            match step.fused_ops[..] {
                [link] => links.push(link),
                _ => {
                    let order = draws.orders.iter().find(|(leaf, _)| *leaf == step.flat_ops[0]);
                    let order =
                        nth_order(step.fused_ops.len(), order.map_or(0, |(_, order)| *order));
                    links.extend(order.map(|part| step.fused_ops[part]));
                }
            }
            leaves.resize(links.len(), step.flat_ops[0]);
        }
    }

    /// Returns the window of the decoded image that the ops read for these draws: at least one pixel.
    #[must_use]
    pub fn needed_window(&self, draws: &Draws) -> Window {
        self.narrow_window(draws, |_| ())
    }

    /// Like [`needed_window`](Self::needed_window). `narrows` is called with each flat op that narrows the window.
    pub(super) fn narrow_window(&self, draws: &Draws, mut narrows: impl FnMut(usize)) -> Window {
        let first = &self.blocks()[0];
        let reads_all = |step: &OpGroup| {
            let mut links = step.fused_ops.iter();
            draws.active[step.flat_ops[0]]
                && links.any(|l| reduction(self.flat_ops(), *l).is_some())
        };
        let first_reading = first.groups.iter().find(|step| reads_all(step)).map(|s| s.flat_ops[0]);
        let (mut rows, mut columns) =
            (VisibleRange::of(draws.source.height), VisibleRange::of(draws.source.width));
        for (leaf, motion) in &draws.geometry {
            if *leaf >= first.ops.end || first_reading.is_some_and(|reading| reading < *leaf) {
                break; // the reduction before this step needs more of the image than the step keeps
            }
            match *motion {
                GeometryStep::CropPad { top, left, size, .. } => {
                    let before = [rows, columns].map(|range| range.end - range.first);
                    rows.frame(top, size.height);
                    columns.frame(left, size.width);
                    if [rows, columns].map(|range| range.end - range.first) != before {
                        narrows(*leaf);
                    }
                }
                GeometryStep::FlipHorizontal => columns.flip(),
                GeometryStep::FlipVertical => rows.flip(),
                GeometryStep::Resize { .. }
                | GeometryStep::ResizePart { .. }
                | GeometryStep::Rows(_) => break,
            }
        }
        let (top, height) = rows.range(draws.source.height);
        let (left, width) = columns.range(draws.source.width);
        Window { top, left, height, width }
    }

    /// Changes a stored image of `size` with the op in plain Rust at index `leaf`, and returns its new size.
    ///
    /// # Errors
    ///
    /// If the op returns an error, or the system has no memory for an image of another size.
    pub fn run_host_op(
        &self,
        leaf: usize,
        draws: &Draws,
        size: Size,
        pixels: &mut Vec<u8>,
    ) -> Result<Size, Error> {
        let FlatOp { op, kind, stream, input, .. } = &self.flat_ops()[leaf];
        let OpClass::Host(host_op) = op.class() else { return Ok(size) };
        let rng = &mut draws.key.op(*stream);
        let (sample, epoch) = (draws.key.sample(), draws.key.epoch());
        let channels = usize::from(input.channels);
        let host = HostSample { sample, epoch, size, channels, rng };
        let failed = function::failed(&**op, epoch);
        let Some(to) = kind.host_size() else {
            host_op.apply(host, pixels).map_err(failed)?;
            return Ok(size);
        };
        let mut out = vec![];
        memory::resize(&mut out, channels * to.pixels() as usize, "an image of another size")?;
        host_op.apply_sized(host, pixels, &mut out).map_err(failed)?;
        *pixels = out;
        Ok(to)
    }

    /// Returns the size of an image of `size` after the ops in plain Rust among `flat_ops`.
    pub(crate) fn after_host_ops(&self, flat_ops: Range<usize>, draws: &Draws, size: Size) -> Size {
        let ran = flat_ops.rev().filter(|index| draws.active[*index]);
        let mut sizes = ran.filter_map(|index| self.flat_ops()[index].kind.host_size());
        sizes.next().unwrap_or(size)
    }

    /// Fills the tables of a group for these draws, one for each channel: the values that its flat ops
    /// `leaves` turn each level into. `levels` has as many histograms.
    pub fn table(
        &self,
        leaves: &[usize],
        draws: &Draws,
        levels: &[Histogram],
        out: &mut [LevelTable],
    ) {
        let mut one = [[0.0; 256]; MAX_CHANNELS];
        let one = &mut one[..out.len()];
        for (position, &index) in leaves.iter().enumerate() {
            let leaf = &self.flat_ops()[index];
            match leaf.op.class() {
                OpClass::Table(op) => {
                    let params =
                        &draws.params[leaf.first_param..leaf.first_param + leaf.kind.param_count()];
                    op.table(self.rule(), params, levels, one);
                    if position == 0 {
                        out.copy_from_slice(one);
                    } else {
                        for (values, table) in out.iter_mut().zip(one.iter()) {
                            values.iter_mut().for_each(|v| *v = table[usize::from(to_u8(*v))]);
                        }
                    }
                }
                OpClass::Pixel(op) => {
                    if position == 0 {
                        out.fill(std::array::from_fn(|level| level as f32));
                    }
                    let params =
                        &draws.params[leaf.first_param..leaf.first_param + leaf.kind.param_count()];
                    let cx = Eval::new(self.rule(), params);
                    let mut pixel = [0.0; MAX_CHANNELS];
                    let pixel = &mut pixel[..out.len()];
                    for level in 0..256 {
                        pixel.iter_mut().zip(&*out).for_each(|(v, table)| *v = table[level]);
                        op.eval(&cx, pixel);
                        out.iter_mut().zip(&*pixel).for_each(|(table, v)| table[level] = *v);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Draws {
    /// Forgets the draws of another sample, but not the objects.
    pub(super) fn restart(&mut self, key: SampleKey, source: Size, param_count: usize) {
        self.key = key;
        self.source = source;
        self.geometry.clear();
        self.windows.clear();
        self.orders.clear();
        self.mixes.clear();
        self.active.clear();
        self.outcomes.clear();
        self.params.clear();
        self.params.resize(param_count, 0.0);
    }

    /// Draws for one flat op; returns whether it runs. The op's draws must agree with its answers when
    /// the list was planned.
    ///
    /// # Panics
    ///
    /// If a geometry op draws more than one step that produces rows, or one with another row producer
    /// than planned.
    fn draw_op(&mut self, key: SampleKey, index: usize, leaf: &FlatOp, size: &mut Size) -> bool {
        // Seeding a generator takes as long as a draw, so ops that draw nothing have none.
        let rng = || key.op(leaf.stream);
        let may_skip = leaf.kind.may_skip();
        let params = leaf.first_param..leaf.first_param + leaf.kind.param_count();
        match leaf.op.class() {
            OpClass::Geometry(op) => {
                self.scratch.clear();
                op.draw_around(&mut rng(), *size, &mut self.objects, &mut self.scratch);
                check_geometry(leaf, &self.scratch);
                for motion in self.scratch.drain(..) {
                    self.objects.follow(&motion, *size);
                    *size = geometry_step::output(&motion, *size);
                    self.geometry.push((index, motion));
                }
                true
            }
            OpClass::Region(op) => {
                let window = op.draw(&mut rng(), *size);
                self.windows.push((index, window));
                !may_skip || window.height > 0
            }
            OpClass::Pixel(_) | OpClass::Table(_) if params.is_empty() && !may_skip => true,
            OpClass::Pixel(op) => op.draw(&mut rng(), *size, &mut self.params[params]) || !may_skip,
            OpClass::Table(op) => op.draw(&mut rng(), &mut self.params[params]) || !may_skip,
            OpClass::Shuffled(parts) => {
                let OpKind::Shuffled(kinds) = &leaf.kind else { return true };
                let rng = &mut rng();
                let order = rng.below(orders(kinds.len()) as u32) as usize;
                self.orders.push((index, order));
                let mut param = leaf.first_param;
                for (part, PixelKind { param_count, .. }) in parts.iter().zip(kinds) {
                    part.draw(rng, *size, &mut self.params[param..param + param_count]);
                    param += param_count;
                }
                true
            }
            OpClass::Host(op) => match leaf.kind.host_size() {
                Some(to) => {
                    *size = to;
                    true
                }
                None => op.applies_to(key.sample()),
            },
            OpClass::Mix(op) => {
                let mixture = op.draw(&mut rng());
                let steps = match &leaf.step {
                    Some(plan) => mix_steps(plan, key.field(leaf.stream as usize), *size, &mixture),
                    None => vec![],
                };
                self.mixes.push((index, DrawnMix { mixture, steps }));
                true
            }
            OpClass::Objects(op) if leaf.kind != OpKind::Batch => {
                op.apply(*size, &mut self.objects);
                true
            }
            OpClass::Cast(_)
            | OpClass::View(_)
            | OpClass::Layout(_)
            | OpClass::Device(_)
            | OpClass::Label(_)
            | OpClass::Choice(_)
            | OpClass::Batch(_)
            | OpClass::MultiImage(_)
            | OpClass::HostBatch(_)
            | OpClass::Objects(_) => true,
        }
    }
}

/// Draws for all steps of a mixture's chains, each with its own key.
fn mix_steps(plan: &ImagePlan, key: SampleKey, size: Size, mixture: &Mixture) -> Vec<Draws> {
    let steps: u64 = mixture.chains.iter().map(|(_, steps)| u64::from(*steps)).sum();
    assert!(steps <= MAX_MIX_STEPS, "a mixture has {steps} steps; the limit is {MAX_MIX_STEPS}");
    let draw = |step| {
        let mut draws = Draws::default();
        plan.draw(key.field(step as usize), size, &mut draws);
        draws
    };
    (0..steps).map(draw).collect()
}

/// Checks that rows are produced at most once, and only where the plan expects it.
fn check_geometry(leaf: &FlatOp, motions: &[GeometryStep]) {
    let makers = || motions.iter().filter_map(geometry_step::row_producer);
    let (name, planned) = (leaf.op.name(), leaf.kind.rows());
    assert!(
        makers().count() <= 1 && makers().all(|maker| planned == Some(maker)),
        "{name} drew steps whose rows are produced by {:?}, but its `row_producer` returned {planned:?}",
        makers().collect::<Vec<_>>()
    );
}

/// Returns whether the outcomes of choices satisfy all guards.
pub(super) fn allowed(guards: &[Guard], outcomes: &[usize]) -> bool {
    guards.iter().all(|guard| guard.when >> outcomes[guard.choice] & 1 == 1)
}

/// Writes the parameters of folded matrices.
fn multiply_matrices(block: &Block, leaves: &[FlatOp], draws: &mut Draws) {
    for step in &block.groups {
        let FusedOp::Matrix { param: to } = step.fused_ops[0] else { continue };
        let mut product = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
        for &leaf in &step.flat_ops {
            let Some(op) = pixel_op(leaves, leaf, None) else { continue };
            let FlatOp { first_param, kind, .. } = &leaves[leaf];
            let params = &draws.params[*first_param..first_param + kind.param_count()];
            if let Some(next) = op.matrix(params) {
                product = multiply(next.map(|row| row.map(f64::from)), product);
            }
        }
        for (param, value) in draws.params[to..to + 12].iter_mut().zip(product.iter().flatten()) {
            *param = *value as f32;
        }
    }
}

/// Returns the matrix that applies `first`, then `then`.
fn multiply(then: [[f64; 4]; 3], first: [[f64; 4]; 3]) -> [[f64; 4]; 3] {
    then.map(|row| {
        std::array::from_fn(|column| {
            let sum: f64 = (0..3).map(|k| row[k] * first[k][column]).sum();
            if column == 3 { sum + row[3] } else { sum }
        })
    })
}

/// The range of one axis of an image that is still visible through frames.
#[derive(Clone, Copy)]
struct VisibleRange {
    /// Maps pixels of the innermost frame to the image.
    axis: AxisMap,
    /// Pixels of the innermost frame.
    len: u32,
    first: i64,
    end: i64,
}

impl VisibleRange {
    fn of(len: u32) -> Self {
        Self { axis: AxisMap::IDENTITY, len, first: 0, end: i64::from(len) }
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

    /// Returns the first visible pixel and the number of visible pixels; one pixel if none is visible.
    fn range(self, len: u32) -> (u32, u32) {
        let first = self.first.clamp(0, i64::from(len) - 1);
        (first as u32, (self.end - first).max(1) as u32)
    }
}
