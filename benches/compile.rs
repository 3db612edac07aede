//! From a list of ops to native code: how long a training script waits.
//!
//! An id reads `compile/<op list>/<how>`. The yardstick of each group is the block that only
//! copies: what any compiled function costs.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};
use fuseloop::jit::Kernel;
use fuseloop::plan::ImagePlan;
use fuseloop_ops::*;
use std::hint::black_box;
use std::time::Instant;

/// What an ImageNet epoch starts with.
fn imagenet(jitter: bool) -> Ops {
    let (scale, ratio) = (RandomResizedCrop::SCALE, RandomResizedCrop::RATIO);
    let crop = RandomResizedCrop::new(224, scale, ratio).expect("fixed parameters");
    let flip = RandomHorizontalFlip::new(0.5).expect("fixed parameters");
    let mut list = ops![crop, flip];
    if jitter {
        list.push(std::sync::Arc::new(ColorJitter::new(0.4, 0.4, 0.4).expect("fixed parameters")));
    }
    list.push(std::sync::Arc::new(Normalize::imagenet()));
    list.push(std::sync::Arc::new(ToChannelsFirst));
    list
}

fn compile(ops: Ops, side: Dim) -> Kernel {
    let plan = ImagePlan::new(ops, ImageType::decoded(side, side), NumberRule::Fused);
    Kernel::compile(plan.expect("the list makes a plan")).expect("the plan compiles")
}

fn copy() -> Kernel {
    compile(ops![RandomCrop::new(224, 224).expect("fixed parameters")], Dim::fixed(256))
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
    for (name, jitter) in [("imagenet", false), ("imagenet+ColorJitter", true)] {
        let mut group = c.benchmark_group(format!("compile/{name}"));
        group.bench_function("plan and compile", |b| {
            b.iter(|| compile(black_box(imagenet(jitter)), any));
        });
        group.bench_function("a copying block", |b| b.iter(copy));
        group.finish();
    }
}

criterion_group! { name = benches; config = common::criterion(); targets = pipelines }
criterion_main!(benches);
