//! Measures how long a training script waits from a list of ops to native code.
//!
//! An id reads `compile/<op list>/<how>`. The yardstick of each group is a block that only copies:
//! the minimum cost of any compiled function.
//!
//! | op list | |
//! |---|---|
//! | imagenet | random resized crop, flip, normalize, channels first |
//! | imagenet+ColorJitter | the same with a jitter |
//! | twelve ops | two blocks, since the blur produces new rows: see [`twelve`] |
//! | imagenet+RandAugment(2, 9) | a policy: loop bodies are compiled when a sample first needs them |
//!
//! The aim is below 5 ms for any list without a policy.
//!
//! Samples that run other ops than the first need loop bodies of their own. `first 64 samples` is
//! the time from the list to the end of the first batch: compiling all that the batch needs, and
//! running it.

mod common;

use common::figures::record;
use common::{median, noise};
use criterion::{Criterion, criterion_group, criterion_main};
use fuseloop::internals::jit::{DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use std::hint::black_box;
use std::time::Instant;

/// The number of runs; the median of their times is printed.
const TIMES: usize = 9;

/// The usual start of an ImageNet pipeline.
fn imagenet(jitter: bool) -> Ops {
    let crop = RandomResizedCrop::new(224).expect("fixed parameters");
    let flip = RandomHorizontalFlip::new(0.5).expect("fixed parameters");
    let mut list = ops![crop, flip];
    if jitter {
        list.push(std::sync::Arc::new(ColorJitter::new(0.4, 0.4, 0.4).expect("fixed parameters")));
    }
    list.push(std::sync::Arc::new(Normalize::imagenet()));
    list.push(std::sync::Arc::new(ToChannelsFirst));
    list
}

/// Twelve ops in two blocks.
fn twelve() -> Ops {
    ops![
        RandomResizedCrop::new(224).expect("fixed parameters"),
        RandomHorizontalFlip::new(0.5).expect("fixed parameters"),
        RandomVerticalFlip::new(0.5).expect("fixed parameters"),
        ColorJitter::new(0.4, 0.4, 0.4).expect("fixed parameters"),
        RandomGrayscale::new(0.2).expect("fixed parameters"),
        GaussianBlur::new(5).expect("fixed parameters"),
        RandomPosterize::new(4).expect("fixed parameters").p(0.2).expect("fixed parameters"),
        RandomSolarize::new(128.0).expect("fixed parameters").p(0.2).expect("fixed parameters"),
        RandomInvert::new(0.1).expect("fixed parameters"),
        Cutout::new(56).expect("fixed parameters"),
        Normalize::imagenet(),
        ToChannelsFirst,
    ]
}

/// A list that needs many loop bodies.
fn with_policy() -> Ops {
    let mut list = imagenet(false);
    let policy = RandAugment::new();
    list.insert(2, std::sync::Arc::new(policy));
    list
}

fn compile(ops: Ops, side: Dim) -> Kernel {
    let plan = ImagePlan::new(ops, ImageType::decoded(side, side), NumberRule::Fused);
    Kernel::compile(plan.expect("the list makes a plan")).expect("the plan compiles")
}

fn copy() -> Kernel {
    compile(ops![RandomCrop::new(224).expect("fixed parameters")], Dim::fixed(256))
}

fn pipelines(c: &mut Criterion) {
    let any = Dim { min: 1, max: 65_535 };
    let start = Instant::now();
    let first = compile(imagenet(false), any);
    let taken = start.elapsed().as_secs_f64() * 1e3;
    println!(
        "the first kernel of the process: {taken:.2} ms, {} bytes of code",
        first.code_bytes()
    );
    record("imagenet", "first of the process", taken, "ms");
    for (name, list) in [
        ("imagenet", imagenet(false)),
        ("imagenet+ColorJitter", imagenet(true)),
        ("twelve ops", twelve()),
        ("imagenet+RandAugment(2, 9)", with_policy()),
    ] {
        print_median(name, || compile(list.clone(), any));
        let mut group = c.benchmark_group(format!("compile/{name}"));
        group.bench_function("plan and compile", |b| {
            b.iter(|| compile(black_box(list.clone()), any));
        });
        group.bench_function("a copying block", |b| b.iter(copy));
        group.finish();
    }
}

/// Prints the time from a list to its first kernel: the median of several runs.
fn print_median(name: &str, compile: impl Fn() -> Kernel) {
    let time = |_| {
        let start = Instant::now();
        black_box(compile());
        start.elapsed().as_secs_f64() * 1e3
    };
    let median = median((0..TIMES).map(time));
    println!("compile/{name}: {median:.2} ms (aim: below 5)");
    record(name, "plan and compile", median, "ms");
}

/// All images of the batch have one size: the cost of compiling loop bodies during the batch is the
/// same for any size.
const PICTURE: Size = Size::new(256, 256);
const SAMPLES: u64 = 64;

/// Runs a kernel on the samples of a batch.
fn batch(kernel: &Kernel, picture: &[u8], out: &mut [u8]) {
    let view = ImageView::packed(picture, PICTURE).expect("of this size");
    let (mut scratch, mut draws) = (Scratch::default(), Draws::default());
    for sample in 0..SAMPLES {
        kernel.plan().draw(SampleKey::new(1, 0, sample), PICTURE, &mut draws);
        kernel.run(&mut scratch, DecodedPixels::whole(view), &draws, out);
    }
}

/// Measures RandAugment's first batch: the number of its loop bodies and the total time.
fn first_batch(c: &mut Criterion) {
    let any = Dim { min: 1, max: 65_535 };
    let picture = noise(PICTURE, 1);
    let kernel = compile(with_policy(), any);
    let mut out = vec![0; kernel.plan().sample_bytes()];
    let mut first = || {
        let kernel = compile(with_policy(), any);
        batch(&kernel, &picture, &mut out);
        kernel
    };
    let kernel = first();
    let taken = median((0..TIMES).map(|_| {
        let start = Instant::now();
        black_box(first());
        start.elapsed().as_secs_f64() * 1e3
    }));
    println!(
        "compile/RandAugment(2, 9), first {SAMPLES} samples: {} loop bodies, {} bytes of code, \
         {:.2} ms of compiling, {taken:.2} ms in all",
        kernel.loop_bodies(),
        kernel.code_bytes(),
        kernel.compile_time().as_secs_f64() * 1e3,
    );
    let mut group = c.benchmark_group("compile/imagenet+RandAugment(2, 9)");
    group.bench_function("first 64 samples", |b| b.iter(&mut first));
    let mut out = vec![0; kernel.plan().sample_bytes()];
    group.bench_function("64 samples, all compiled", |b| {
        b.iter(|| batch(&kernel, &picture, &mut out));
    });
    group.finish();
}

criterion_group! { name = benches; config = common::criterion(); targets = pipelines, first_batch }
criterion_main!(benches);
