//! What each op of a compiled block costs, measured: twins of the block that do less, in turn.
//!
//! ```text
//! twin        does                                                   cost of
//! bare        load, store (a made picture stands ready)              load and store
//! 0 links     [rows], load, store                                    rows = this - bare
//! 1 link      [rows], load, link 0, store                            link 0 = this - before
//! ..
//! n links     the block itself                                       link n-1 = this - before
//! ```
//!
//! The twins of a sample run in turn, [`ROUNDS`] times; a twin's time is the median. So a cost is
//! what an op adds where it stands: next to others that wait for memory it may be nothing, or a
//! little less than nothing by noise. A reading of the picture is part of the op that needs it.

use super::compile::{self, Compiled};
use super::shot::{Body, Memory, Shot, Source};
use super::{CompileError, Kernel, spec, unsupported};
use crate::plan::{Block, Draws, Link};
use fuseloop_ops::{ImageView, Size, memory};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often each twin is timed for a sample.
const ROUNDS: usize = 9;

/// A twin runs at least so long between two looks at the clock, which itself takes some 50 ns.
const AT_LEAST: Duration = Duration::from_micros(20);

/// Nanoseconds a sample: the mean over the samples measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// Samples measured.
    pub samples: usize,
    /// For each block.
    pub blocks: Vec<BlockCosts>,
}

/// Nanoseconds a sample of one block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockCosts {
    /// All of it.
    pub total: f64,
    /// Loading and storing alone.
    pub load_and_store: f64,
    /// Ops that cost something, by leaf; of those folded together the first. An op that makes rows
    /// costs what making them takes.
    pub ops: Vec<(usize, f64)>,
    /// Bytes loaded: of the source, or of what lies between two blocks.
    pub bytes_in: f64,
    /// Bytes stored.
    pub bytes_out: f64,
}

impl Costs {
    /// The mean of costs of the same plan.
    #[must_use]
    pub fn mean(all: &[Self]) -> Self {
        let mut sums = Self::default();
        for costs in all {
            sums.samples += costs.samples;
            sums.blocks.resize_with(costs.blocks.len(), BlockCosts::default);
            for (sum, block) in sums.blocks.iter_mut().zip(&costs.blocks) {
                sum.total += block.total;
                sum.load_and_store += block.load_and_store;
                sum.bytes_in += block.bytes_in;
                sum.bytes_out += block.bytes_out;
                block.ops.iter().for_each(|(leaf, ns)| sum.add(*leaf, *ns));
            }
        }
        sums.per_sample()
    }

    /// Sums over samples, as means.
    fn per_sample(&self) -> Self {
        let samples = self.samples.max(1) as f64;
        let mean = |block: &BlockCosts| BlockCosts {
            total: block.total / samples,
            load_and_store: block.load_and_store / samples,
            ops: block.ops.iter().map(|(leaf, ns)| (*leaf, ns / samples)).collect(),
            bytes_in: block.bytes_in / samples,
            bytes_out: block.bytes_out / samples,
        };
        Self { samples: self.samples, blocks: self.blocks.iter().map(mean).collect() }
    }
}

impl BlockCosts {
    /// What was measured of a leaf, if anything.
    #[must_use]
    pub fn of(&self, leaf: usize) -> Option<f64> {
        self.ops.iter().find(|(of, _)| *of == leaf).map(|(_, ns)| *ns)
    }

    fn add(&mut self, leaf: usize, ns: f64) {
        match self.ops.iter_mut().find(|(of, _)| *of == leaf) {
            Some((_, sum)) => *sum += ns,
            None => self.ops.push((leaf, ns)),
        }
    }
}

/// Measures a kernel, sample by sample.
#[derive(Debug)]
pub struct Meter<'a> {
    kernel: &'a Kernel,
    /// Twins by block and links.
    twins: HashMap<(usize, Vec<Link>), Compiled>,
    sums: Costs,
}

/// One block at one sample.
#[derive(Clone, Copy)]
struct Place<'a> {
    index: usize,
    draws: &'a Draws,
    source: Source<'a>,
    links: &'a [Link],
    leaves: &'a [usize],
}

impl<'a> Meter<'a> {
    /// A meter that has seen no sample; `None` where no code can be compiled.
    #[must_use]
    pub fn new(kernel: &'a Kernel) -> Option<Self> {
        let blocks = vec![BlockCosts::default(); kernel.plan.host_blocks()];
        let sums = Costs { samples: 0, blocks };
        let meter = Self { kernel, twins: HashMap::new(), sums };
        unsupported().is_none().then_some(meter)
    }

    /// Measures one sample, given as for [`Kernel::run`]. One whose picture is too narrow for
    /// compiled code, or too large for the system's memory, is left out.
    ///
    /// # Errors
    ///
    /// If a twin can't be compiled.
    pub fn sample(&mut self, source: Source<'_>, draws: &Draws) -> Result<(), CompileError> {
        let (kernel, last) = (self.kernel, self.kernel.blocks.len() - 1);
        let mut sums = self.sums.clone();
        let (mut stored, mut size): (Vec<u8>, Option<Size>) = (vec![], None);
        let (mut links, mut leaves) = (vec![], vec![]);
        for index in 0..=last {
            if index < last && kernel.changes_nothing(index, draws) {
                continue;
            }
            let view = size.and_then(|size| ImageView::packed(&stored, size));
            let source = view.map_or(source, Source::whole);
            kernel.plan.links(&kernel.plan.blocks()[index], draws, &mut links, &mut leaves);
            let place = Place { index, draws, source, links: &links, leaves: &leaves };
            let Some((mut out, output)) = self.block(place, &mut sums.blocks[index])? else {
                return Ok(());
            };
            let block = &kernel.plan.blocks()[index];
            if let Some(host) = block.host.filter(|leaf| draws.active[*leaf]) {
                let start = Instant::now();
                kernel.plan.change(host, draws, output, &mut out);
                sums.blocks[index].add(host, nanos(start.elapsed()));
            }
            (stored, size) = (out, Some(output));
        }
        self.sums = Costs { samples: sums.samples + 1, ..sums };
        Ok(())
    }

    /// The means so far.
    #[must_use]
    pub fn costs(&self) -> Costs {
        self.sums.per_sample()
    }

    /// Measures a block; gives what it stores and that picture's size, or `None` if its picture is
    /// too narrow or the system has no memory for it.
    fn block(
        &mut self,
        place: Place<'_>,
        sums: &mut BlockCosts,
    ) -> Result<Option<(Vec<u8>, Size)>, CompileError> {
        self.compile_twins(place)?;
        let block = &self.kernel.plan.blocks()[place.index];
        let made = Made::of(block, place.draws, place.source.whole);
        let bare_draws = made.map(|made| made.without(place.draws));
        let mut black = vec![];
        let bytes = made.map_or(0, |made| 3 * made.size.pixels() as usize);
        if memory::resize(&mut black, bytes, "a black picture").is_err() {
            return Ok(None);
        }
        let ready = made.and_then(|made| ImageView::packed(&black, made.size)).map(Source::whole);
        let mut twins = vec![];
        if let (Some(draws), Some(source)) = (&bare_draws, ready) {
            twins.push(self.twin(Place { draws, source, ..place }, 0));
        }
        twins.extend((0..=place.links.len()).map(|count| self.twin(place, count)));
        let output = self.twin(place, 0).output();
        let (mut out, bytes) = (vec![], 3 * output.pixels() as usize * block.dtype.bytes());
        if memory::resize(&mut out, bytes, "an output").is_err() {
            return Ok(None);
        }
        let Some(times) = times(&twins, &mut out) else { return Ok(None) };
        sums.total += times[times.len() - 1];
        sums.load_and_store += times[0];
        sums.bytes_in += 3.0 * place.source.view.size().pixels() as f64;
        sums.bytes_out += out.len() as f64;
        let leaves = made.map(|made| made.leaf).into_iter().chain(place.leaves.iter().copied());
        for (leaf, pair) in leaves.zip(times.windows(2)) {
            sums.add(leaf, pair[1] - pair[0]);
        }
        Ok(Some((out, output)))
    }

    fn compile_twins(&mut self, place: Place<'_>) -> Result<(), CompileError> {
        for count in 0..=place.links.len() {
            let key = (place.index, place.links[..count].to_vec());
            if !self.twins.contains_key(&key) {
                let spec = spec(&self.kernel.plan, place.index, &key.1);
                let compiled = compile::compile(spec, "fuseloop::twin")?;
                self.twins.insert(key, compiled);
            }
        }
        Ok(())
    }

    /// The block with the first `count` links alone.
    fn twin<'b>(&'b self, place: Place<'b>, count: usize) -> Shot<'b> {
        let (links, leaves) = (&place.links[..count], &place.leaves[..count]);
        let body = Body { links, leaves, fixed: &self.kernel.fixed };
        let compiled = &self.twins[&(place.index, links.to_vec())];
        Shot::new(&self.kernel.plan, place.index, compiled, place.draws, place.source, body)
    }
}

/// The rows that a block makes of a sample.
#[derive(Clone, Copy)]
struct Made {
    /// The op that makes them.
    leaf: usize,
    /// Size of the picture made.
    size: Size,
    /// Motions of the draws that lead to it: `first..=last`.
    first: usize,
    last: usize,
}

impl Made {
    fn of(block: &Block, draws: &Draws, source: Size) -> Option<Self> {
        let mut size = source;
        let first = draws.motions.iter().position(|(leaf, _)| block.ops.contains(leaf))?;
        let motions = draws.motions.iter().enumerate().skip(first);
        for (last, (leaf, motion)) in motions.take_while(|(_, (leaf, _))| block.ops.contains(leaf))
        {
            size = motion.output(size);
            if motion.makes_rows() {
                return Some(Self { leaf: *leaf, size, first, last });
            }
        }
        None
    }

    /// The draws for a picture whose rows are made already.
    fn without(self, draws: &Draws) -> Draws {
        let mut draws = draws.clone();
        draws.motions.drain(self.first..=self.last);
        draws
    }
}

/// The median of each twin's times; `None` if a picture is too narrow. The last twin runs last.
fn times(twins: &[Shot<'_>], out: &mut [u8]) -> Option<Vec<f64>> {
    let mut memory = Memory::default();
    let mut repeats = vec![];
    for twin in twins {
        twin.run(&mut memory, out).ok()?; // grows the memory, warms the caches
        let once = time(twin, &mut memory, out, 1)?;
        repeats.push((nanos(AT_LEAST) / once.max(1.0)).ceil() as u32);
    }
    let mut times = vec![vec![]; twins.len()];
    for _ in 0..ROUNDS {
        for ((twin, repeats), times) in twins.iter().zip(&repeats).zip(&mut times) {
            times.push(time(twin, &mut memory, out, *repeats)?);
        }
    }
    Some(times.into_iter().map(median).collect())
}

/// Nanoseconds of one run, of several in a row.
fn time(twin: &Shot<'_>, memory: &mut Memory, out: &mut [u8], repeats: u32) -> Option<f64> {
    let start = Instant::now();
    for _ in 0..repeats {
        twin.run(memory, out).ok()?;
    }
    Some(nanos(start.elapsed()) / f64::from(repeats))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where it fails")]
mod tests {
    use super::*;
    use crate::plan::ImagePlan;
    use fuseloop_ops::*;

    #[test]
    fn every_op_that_costs_something_is_measured_and_the_parts_are_the_whole() {
        let size = Size::new(90, 120);
        let input = ImageType::decoded(Dim::fixed(90), Dim::fixed(120));
        let ops = ops![
            RandomResizedCrop::new(64, 0.5..=1.0, 0.75..=1.25).unwrap(),
            RandomHorizontalFlip::new(0.5).unwrap(),
            ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
            Normalize::imagenet(),
        ];
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap();
        let kernel = Kernel::compile(plan).unwrap();
        let Some(mut meter) = Meter::new(&kernel) else { return };
        let pixels = vec![77; 3 * size.pixels() as usize];
        let source = Source::whole(ImageView::packed(&pixels, size).unwrap());
        let mut draws = Draws::default();
        for sample in 0..2 {
            kernel.plan().draw(SampleKey::new(1, 0, sample), size, &mut draws);
            meter.sample(source, &draws).unwrap();
        }
        let costs = meter.costs();
        let block = &costs.blocks[0];
        assert_eq!((costs.samples, costs.blocks.len()), (2, 1));
        assert!(block.of(0).unwrap() > 0.0, "rows are made: {block:?}");
        assert_eq!(block.of(1), None, "a flip is in the addresses");
        assert!(block.of(2).unwrap() > 0.0 && block.of(3).is_some(), "{block:?}");
        let parts: f64 = block.load_and_store + block.ops.iter().map(|(_, ns)| ns).sum::<f64>();
        assert!((parts - block.total).abs() < 1.0, "{block:?}");
        assert_eq!(block.bytes_out, 64.0 * 64.0 * 12.0);
    }
}
