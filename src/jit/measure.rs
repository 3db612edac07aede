//! Measures the cost of each op of a compiled block, by timing partial versions of the block in turn.
//!
//! ```text
//! version       does                                                 cost of
//! bare          load, store (a produced image is ready)              load and store
//! 0 fused ops   [rows], load, store                                  rows = this - bare
//! 1 fused op    [rows], load, op 0, store                            op 0 = this - before
//! ..
//! n fused ops   the block itself                                     op n-1 = this - before
//! ```
//!
//! The partial versions of a sample's block run in turn, [`ROUNDS`] times; a version's time is the
//! median. So a cost is what an op adds where it is: next to ops that wait for memory it may be nothing,
//! or slightly negative by noise. A reduction over the image counts for the op that needs it.

use super::body::CompiledBody;
use super::call::Native;
use super::invocation::{DecodedPixels, Invocation, LoopBody, WorkerScratch};
use super::{Kernel, compile_here, spec, support, unsupported};
use crate::error::Error;
use crate::plan::compose::Composed;
use crate::plan::{Block, Draws, FusedOp};
use fuseloop_ops::Size;
use fuseloop_ops::internals::{ImageView, geometry_step, memory};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often each partial version is timed for a sample.
const ROUNDS: usize = 9;

/// The minimum run time between two readings of the clock, each of which takes about 50 ns.
const AT_LEAST: Duration = Duration::from_micros(20);

/// Costs in nanoseconds a sample: the mean over the samples measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// The number of samples measured.
    pub samples: usize,
    /// The costs of each block.
    pub blocks: Vec<BlockCosts>,
}

/// The costs of one block in nanoseconds a sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockCosts {
    /// The cost of the whole block.
    pub total: f64,
    /// The cost of loading and storing alone.
    pub load_and_store: f64,
    /// The ops that cost something, by flat op; ops that were folded together count for the first of
    /// them. The cost of an op that produces rows is that of producing them.
    pub ops: Vec<(usize, f64)>,
    /// The bytes loaded: from the source, or from the image between two blocks.
    pub bytes_in: f64,
    /// The bytes stored.
    pub bytes_out: f64,
}

impl Costs {
    /// Returns the mean of several measurements of the same plan.
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

    /// Converts sums over samples to means.
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
    /// Returns the measured cost of a flat op, if it has one.
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
pub struct KernelTimer<'a> {
    kernel: &'a Kernel,
    /// The partial versions, by block and fused ops.
    partials: HashMap<(usize, Vec<FusedOp>), CompiledBody>,
    sums: Costs,
}

/// One block and its input for one sample.
#[derive(Clone, Copy)]
struct BlockInput<'a> {
    index: usize,
    draws: &'a Draws,
    source: DecodedPixels<'a>,
    links: &'a [FusedOp],
    leaves: &'a [usize],
}

impl<'a> KernelTimer<'a> {
    /// Creates a timer without measurements; `None` where code can't be compiled, or runs plane by plane.
    #[must_use]
    pub fn new(kernel: &'a Kernel) -> Option<Self> {
        let blocks = vec![BlockCosts::default(); kernel.plan.host_blocks()];
        let sums = Costs { samples: 0, blocks };
        let meter = Self { kernel, partials: HashMap::new(), sums };
        (unsupported().is_none() && kernel.plan.planes().is_none()).then_some(meter)
    }

    /// Measures one sample, with the arguments of [`Kernel::run`]. A sample whose image is too narrow
    /// for compiled code, or too large for the system's memory, is skipped.
    ///
    /// # Errors
    ///
    /// If a partial version can't be compiled.
    pub fn sample(&mut self, source: DecodedPixels<'_>, draws: &Draws) -> Result<(), Error> {
        let (kernel, last) = (self.kernel, self.kernel.blocks.len() - 1);
        let mut sums = self.sums.clone();
        let (mut stored, mut size): (Vec<u8>, Option<Size>) = (vec![], None);
        let (mut links, mut leaves) = (vec![], vec![]);
        for index in 0..=last {
            if index < last && kernel.changes_nothing(index, draws) {
                continue;
            }
            let format = kernel.plan.blocks()[index].source_format();
            let view = size.and_then(|size| ImageView::packed_format(&stored, size, format));
            let source = view.map_or(source, DecodedPixels::whole);
            kernel.plan.fused_ops(&kernel.plan.blocks()[index], draws, &mut links, &mut leaves);
            let input = BlockInput { index, draws, source, links: &links, leaves: &leaves };
            let Some((mut out, mut output)) = self.block(input, &mut sums.blocks[index])? else {
                return Ok(());
            };
            let block = &kernel.plan.blocks()[index];
            if let Some(host) = block.host.filter(|leaf| draws.active[*leaf]) {
                let start = Instant::now();
                let Ok(size) = kernel.plan.run_host_op(host, draws, output, &mut out) else {
                    return Ok(());
                };
                output = size;
                sums.blocks[index].add(host, nanos(start.elapsed()));
            }
            (stored, size) = (out, Some(output));
        }
        self.sums = Costs { samples: sums.samples + 1, ..sums };
        Ok(())
    }

    /// Returns the means so far.
    #[must_use]
    pub fn costs(&self) -> Costs {
        self.sums.per_sample()
    }

    /// Measures a block. Returns the stored image and its size, or `None` if the image is too narrow or
    /// the system has no memory for it.
    fn block(
        &mut self,
        input: BlockInput<'_>,
        sums: &mut BlockCosts,
    ) -> Result<Option<(Vec<u8>, Size)>, Error> {
        self.compile_partials(input)?;
        let block = &self.kernel.plan.blocks()[input.index];
        let produced = ProducedRows::of(block, input.draws, input.source.whole);
        let bare_draws = produced.map(|produced| produced.without(input.draws));
        let mut black = vec![];
        let format = block.source_format();
        let pixel = format.pixel_bytes();
        let bytes = produced.map_or(0, |produced| pixel * produced.size.pixels() as usize);
        if memory::resize(&mut black, bytes, "a black image").is_err() {
            return Ok(None);
        }
        let ready = produced
            .and_then(|produced| ImageView::packed_format(&black, produced.size, format))
            .map(DecodedPixels::whole);
        let mut inputs = vec![];
        if let (Some(draws), Some(source)) = (&bare_draws, ready) {
            inputs.push((BlockInput { draws, source, ..input }, 0));
        }
        let whole = inputs.len();
        inputs.extend((0..=input.links.len()).map(|count| (input, count)));
        let mut composed = vec![Composed::default(); inputs.len()];
        let partials = inputs.iter().zip(&mut composed);
        let partials: Vec<_> = partials
            .map(|(&(input, count), composed)| self.partial(input, count, composed))
            .collect();
        let output = partials[whole].output();
        // A partial version may store another number of channels than the whole one, which runs last.
        let bytes = partials.iter().map(Invocation::output_bytes).max().unwrap_or(0);
        let mut out = vec![];
        if memory::resize(&mut out, bytes, "an output").is_err() {
            return Ok(None);
        }
        let Some(times) = times(&partials, &mut out) else { return Ok(None) };
        out.truncate(partials[partials.len() - 1].output_bytes());
        sums.total += times[times.len() - 1];
        sums.load_and_store += times[0];
        sums.bytes_in += pixel as f64 * input.source.view.size().pixels() as f64;
        sums.bytes_out += out.len() as f64;
        let leaves =
            produced.map(|produced| produced.leaf).into_iter().chain(input.leaves.iter().copied());
        for (leaf, pair) in leaves.zip(times.windows(2)) {
            sums.add(leaf, pair[1] - pair[0]);
        }
        Ok(Some((out, output)))
    }

    fn compile_partials(&mut self, input: BlockInput<'_>) -> Result<(), Error> {
        for count in 0..=input.links.len() {
            let key = (input.index, input.links[..count].to_vec());
            if !self.partials.contains_key(&key) {
                let bits = support::vector_bits()?;
                let spec = spec(&self.kernel.plan, input.index, &key.1, bits);
                let compiled = compile_here(spec, || "fuseloop::partial".to_owned())?;
                self.partials.insert(key, compiled);
            }
        }
        Ok(())
    }

    /// The block with only the first `count` fused ops.
    fn partial<'b>(
        &'b self,
        input: BlockInput<'b>,
        count: usize,
        composed: &'b mut Composed,
    ) -> Invocation<'b, Native> {
        let (links, leaves) = (&input.links[..count], &input.leaves[..count]);
        let body = LoopBody { links, leaves, fixed: &self.kernel.fixed };
        let compiled = &self.partials[&(input.index, links.to_vec())];
        let block = (&*self.kernel.plan, input.index);
        let sample = (input.draws, input.source);
        Invocation::new(block, compiled, sample, body, composed, &Native)
    }
}

/// The image whose rows a block produces for a sample.
#[derive(Clone, Copy)]
struct ProducedRows {
    /// The op that produces the rows.
    leaf: usize,
    /// The size of the produced image.
    size: Size,
    /// The geometry steps of the draws that lead to the image: `first..=last`.
    first: usize,
    last: usize,
}

impl ProducedRows {
    fn of(block: &Block, draws: &Draws, source: Size) -> Option<Self> {
        let mut size = source;
        let first = draws.geometry.iter().position(|(leaf, _)| block.ops.contains(leaf))?;
        let motions = draws.geometry.iter().enumerate().skip(first);
        for (last, (leaf, motion)) in motions.take_while(|(_, (leaf, _))| block.ops.contains(leaf))
        {
            size = geometry_step::output(motion, size);
            if geometry_step::produces_rows(motion) {
                return Some(Self { leaf: *leaf, size, first, last });
            }
        }
        None
    }

    /// Returns the draws for an image whose rows are already produced.
    fn without(self, draws: &Draws) -> Draws {
        let mut draws = draws.clone();
        draws.geometry.drain(self.first..=self.last);
        draws
    }
}

/// Returns the median time of each partial version; `None` if an image is too narrow. The last version
/// runs last.
fn times(partials: &[Invocation<'_, Native>], out: &mut [u8]) -> Option<Vec<f64>> {
    let mut memory = WorkerScratch::default();
    let mut repeats = vec![];
    for partial in partials {
        partial.run(&mut memory, (&mut out[..partial.output_bytes()]).into()).ok()?; // grows the memory, warms the caches
        let once = time(partial, &mut memory, out, 1)?;
        repeats.push((nanos(AT_LEAST) / once.max(1.0)).ceil() as u32);
    }
    let mut times = vec![vec![]; partials.len()];
    for _ in 0..ROUNDS {
        for ((partial, repeats), times) in partials.iter().zip(&repeats).zip(&mut times) {
            times.push(time(partial, &mut memory, out, *repeats)?);
        }
    }
    Some(times.into_iter().map(median).collect())
}

/// Returns the nanoseconds of one run, averaged over several in a row.
fn time(
    partial: &Invocation<'_, Native>,
    memory: &mut WorkerScratch,
    out: &mut [u8],
    repeats: u32,
) -> Option<f64> {
    let out = &mut out[..partial.output_bytes()];
    let start = Instant::now();
    for _ in 0..repeats {
        partial.run(memory, (&mut *out).into()).ok()?;
    }
    Some(nanos(start.elapsed()) / f64::from(repeats))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ImagePlan;
    use fuseloop_ops::author::Dim;
    use fuseloop_ops::author::ImageType;
    use fuseloop_ops::internals::SampleKey;
    use fuseloop_ops::*;

    #[test]
    fn every_op_that_costs_something_is_measured_and_the_parts_are_the_whole() {
        let size = Size::new(90, 120);
        let input = ImageType::decoded(Dim::fixed(90), Dim::fixed(120));
        let ops = ops![
            RandomResizedCrop::new(64)
                .unwrap()
                .scale(0.5..=1.0)
                .unwrap()
                .ratio(0.75..=1.25)
                .unwrap(),
            RandomHorizontalFlip::new(0.5).unwrap(),
            ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
            Normalize::imagenet(),
        ];
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap();
        let kernel = Kernel::compile(plan).unwrap();
        let Some(mut meter) = KernelTimer::new(&kernel) else { return };
        let pixels = vec![77; 3 * size.pixels() as usize];
        let source = DecodedPixels::whole(ImageView::packed(&pixels, size).unwrap());
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
    /// The version without the op stores another number of channels.
    #[test]
    fn an_op_that_changes_the_number_of_channels_is_measured() {
        let size = Size::new(40, 50);
        let pixels = vec![77; 3 * size.pixels() as usize];
        let source = DecodedPixels::whole(ImageView::packed(&pixels, size).unwrap());
        for (ops, channels) in [
            (ops![Grayscale::new(), ToChannelsFirst], 1.0),
            (ops![SelectChannels::new([0, 1, 2, 2]).unwrap(), Resize::new(8).unwrap()], 4.0),
        ] {
            let input = ImageType::from(size);
            let last = CenterCrop::new(8).unwrap();
            let ops = [ops, ops![last]].concat();
            let kernel = Kernel::compile(ImagePlan::new(ops, input, NumberRule::Fused).unwrap());
            let kernel = kernel.unwrap();
            let Some(mut meter) = KernelTimer::new(&kernel) else { return };
            let mut draws = Draws::default();
            kernel.plan().draw(SampleKey::new(1, 0, 0), size, &mut draws);
            meter.sample(source, &draws).unwrap();
            let costs = meter.costs();
            assert!(costs.blocks[0].of(0).is_some(), "{costs:?}");
            assert_eq!(costs.blocks[costs.blocks.len() - 1].bytes_out, 64.0 * channels);
            let predicted = super::super::predict(kernel.plan(), source, &draws);
            assert_eq!(predicted.blocks[predicted.blocks.len() - 1].bytes_out, 64.0 * channels);
        }
    }
}
