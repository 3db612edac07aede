//! Crop 224, flip, a policy, normalize, channels first: RandAugment(2, 9) and AugMix.
//!
//! | how | |
//! |---|---|
//! | compiled | [`Kernel::run`]: fractions are preserved from op to op |
//! | compiled, exact | the same under [`NumberRule::Exact`] |
//! | op by op, native | [`plain`](crate::plain): a pass over bytes for each op, compiled for AVX2; the values of `compiled, exact` |
//!
//! The passes produce the rows of warps and of sharpness with the ops' own fast rows, so the ratio
//! shows the gain from fusing, not the quality of the rows. `in cache` is one image with 64 draws
//! in turn and one output; `cold` is a batch of 64 images, each with its own draws and output,
//! after other memory was touched.

use super::common::{Contender, Work, compare, noise};
use super::plain::{self, Memory, Pass};
use super::recipe::SIDE;
use super::{ROUNDING, Row, as_bytes, draw};
use criterion::Criterion;
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, ImageType, Op};
use fuseloop_ops::internals::ImageView;
use fuseloop_ops::*;
use std::hint::black_box;
use std::sync::Arc;

const SIZE: Size = Size::new(256, 256);
const SAMPLES: u64 = 64;

/// Crop, flip, `policy`, normalize, channels first.
pub(crate) fn list(policy: Arc<dyn Op>) -> Ops {
    let mut list = ops![
        RandomCrop::new(224).expect("fixed parameters"),
        RandomHorizontalFlip::new(0.5).expect("fixed parameters"),
    ];
    list.push(policy);
    list.extend(ops![Normalize::imagenet(), ToChannelsFirst]);
    list
}

/// A kernel, and the draws for each sample.
struct Drawn {
    kernel: Kernel,
    draws: Vec<Draws>,
}

impl Drawn {
    fn new(ops: Ops, rule: NumberRule) -> Self {
        let input = ImageType::decoded(Dim::fixed(SIZE.height), Dim::fixed(SIZE.width));
        let plan = ImagePlan::new(ops, input, rule).expect("the list makes a plan");
        let kernel = Kernel::compile(plan.for_batches_of(SAMPLES as usize));
        let kernel = kernel.expect("the plan compiles");
        let draws = (0..SAMPLES).map(|sample| draw(&kernel, sample, SIZE)).collect();
        Self { kernel, draws }
    }

    fn run(&self, scratch: &mut Scratch, sample: usize, picture: &[u8], out: &mut [f32]) {
        let source = DecodedPixels::whole(view(picture));
        self.kernel.run(scratch, source, &self.draws[sample], as_bytes(out));
    }

    /// Returns the oracle's output for each sample. `pictures` has one image per sample, or one for
    /// all samples.
    fn wanted(&self, pictures: &[Vec<u8>]) -> Vec<Vec<f32>> {
        let evaluate = |(draws, picture): (_, &Vec<u8>)| {
            let bytes = jit::evaluate(self.kernel.plan(), &view(picture), draws);
            bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
        };
        self.draws.iter().zip(pictures.iter().cycle()).map(evaluate).collect()
    }

    fn passes(&self) -> Vec<Vec<Pass>> {
        let passes = |draws| plain::passes(self.kernel.plan(), draws);
        self.draws.iter().map(|draws| passes(draws).expect("each op has a pass")).collect()
    }
}

fn view(picture: &[u8]) -> ImageView<'_> {
    ImageView::packed(picture, SIZE).expect("of this size")
}

/// Measures `fused/crop+flip+<policy>+normalize`.
pub(crate) fn policies(c: &mut Criterion) {
    let rand_augment = RandAugment::new();
    let aug_mix = AugMix::new();
    let policies: [(&str, Arc<dyn Op>); 2] =
        [("RandAugment(2, 9)", Arc::new(rand_augment)), ("AugMix", Arc::new(aug_mix))];
    for (name, policy) in policies {
        let fused = Drawn::new(list(Arc::clone(&policy)), NumberRule::Fused);
        let exact = Drawn::new(list(policy), NumberRule::Exact);
        for (what, distinct) in
            [("64 draws on one 256x256, in cache", 1), ("64 of 256x256, cold", SAMPLES)]
        {
            let group = &format!("fused/crop+flip+{name}+normalize");
            let cold = distinct > 1;
            let bytes = 5 * (SIDE * SIDE * 3) as u64;
            let work = Work { group, what, samples: SAMPLES, bytes, cold };
            let pictures: Vec<_> = (0..distinct).map(|sample| noise(SIZE, sample)).collect();
            one_policy(c, &work, &fused, &exact, &pictures);
        }
    }
}

fn one_policy(
    c: &mut Criterion,
    work: &Work<'_>,
    fused: &Drawn,
    exact: &Drawn,
    pictures: &[Vec<u8>],
) {
    let wanted = exact.wanted(pictures);
    let passes = exact.passes();
    let (mut a, mut b, mut memory) = Default::default();
    let mut contenders = [
        contender("compiled", 0.0, pictures, &fused.wanted(pictures), |i, picture, out| {
            fused.run(&mut a, i, picture, out);
        }),
        contender("compiled, exact", 0.0, pictures, &wanted, |i, picture, out| {
            exact.run(&mut b, i, picture, out);
        }),
        contender("op by op, native", ROUNDING, pictures, &wanted, |i, picture, out| {
            run_passes(&passes[i], picture, &mut memory, out);
        }),
    ];
    compare(c, work, &mut contenders);
}

fn run_passes(passes: &[Pass], picture: &[u8], memory: &mut Memory, out: &mut [f32]) {
    plain::run_normalized(passes, picture, SIZE, memory, out);
}

/// Returns a contender that fills every sample with `make`, after checking that `make` returns the
/// wanted values within `tolerance`.
fn contender<'a>(
    how: &'static str,
    tolerance: f32,
    pictures: &'a [Vec<u8>],
    wanted: &[Vec<f32>],
    mut make: impl FnMut(usize, &[u8], &mut [f32]) + 'a,
) -> Contender<'a> {
    let mut outputs: Vec<Row> = pictures.iter().map(|_| Row::new(3 * SIDE * SIDE)).collect();
    let distinct = pictures.len();
    for (sample, wanted) in wanted.iter().enumerate() {
        let out = outputs[sample % distinct].floats();
        make(sample, &pictures[sample % distinct], out);
        for (index, (got, want)) in out.iter().zip(wanted).enumerate() {
            let is_right = (got - want).abs() <= tolerance;
            assert!(is_right, "{how}, sample {sample}, element {index}: {got}, not {want}");
        }
    }
    Contender::new(how, move || {
        for sample in 0..SAMPLES as usize {
            let out = outputs[sample % distinct].floats();
            make(sample, &pictures[sample % distinct], out);
        }
        black_box(&mut outputs);
    })
}
