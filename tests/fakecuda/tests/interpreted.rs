//! Generated kernels as PTX, run by the interpreter, with every access of every thread checked: the
//! bits equal the oracle's. Features that only device code has (vector loads, shuffles, roundings
//! in inline PTX) are tested here; `tests/gpu/kernels.rs` tests the host build of the same source.
//!
//! The shipped kernels are always tested; random programs only if `FUSELOOP_NVRTC` names NVIDIA's
//! compiler. `FUSELOOP_PTX_PROGRAMS=100` tests more of them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

mod common;

use common::nvrtc::Nvrtc;
use fuseloop::device::check::{CheckBatch, Launch};
use fuseloop::internals::plan::{ElementPlan, ImagePlan};
use fuseloop_counts::rounds;
use fuseloop_fakecuda::ptx::{Grid, Memory, Program};
use fuseloop_kernels::shipped_ptx;
use fuseloop_ops::author::{Dim, ImageType, Op, Rng};
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::*;
use std::sync::Arc;

const OPTIONS: [&str; 3] = ["--gpu-architecture=compute_75", "--std=c++17", "--fmad=false"];

fn pictures(rng: &mut Rng, size: Size, count: usize) -> Vec<(Size, Vec<u8>)> {
    let picture = |rng: &mut Rng| (0..3 * size.pixels()).map(|_| rng.below(256) as u8).collect();
    (0..count).map(|_| (size, picture(rng))).collect()
}

/// Runs the kernels of a batch as PTX.
fn run(trial: &CheckBatch, ptx: &str) {
    let program = Program::parse(ptx).unwrap();
    let outcome = trial.run(|launch: Launch<'_>| {
        let mut memory = Memory::default();
        for bytes in launch.reads {
            memory.lend(bytes);
        }
        for bytes in launch.writes {
            memory.lend_mut(bytes);
        }
        let grid = Grid { blocks: [launch.rows, launch.parts, 1], block: [32, 1, 1] };
        let steps = program.run(launch.entry, grid, &[launch.arguments], &memory);
        steps.map(|_| ()).map_err(|fault| fault.to_string())
    });
    if let Err(failure) = outcome {
        panic!("{failure}\n{}", trial.source());
    }
}

/// Returns a usual pipeline on images of `size`.
fn usual(dtype: DType, first: bool, mixed: bool, size: Size, side: Size) -> CheckBatch {
    let mut ops = ops![
        ToDevice::to(Device::Cuda(0)),
        RandomHorizontalFlip::new(0.5).unwrap(),
        RandomVerticalFlip::new(0.3).unwrap(),
        RandomCrop::new(side).unwrap(),
    ];
    if dtype != DType::U8 {
        ops.push(Arc::new(Normalize::cifar10()));
        ops.push(Arc::new(Convert::to(dtype)));
    }
    if first {
        ops.push(Arc::new(ToChannelsFirst));
    }
    let mixup = || MixUp::new(0.4).unwrap().per_sample();
    let mut label = ops![ToDevice::to(Device::Cuda(0)), OneHot::new(5).unwrap()];
    if mixed {
        ops.push(Arc::new(mixup()));
        label.push(Arc::new(mixup()));
    }
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let plan = ImagePlan::on_device(ops, input, NumberRule::Fused).unwrap();
    let label = ElementPlan::of_label(label, DType::I64).unwrap();
    let mut rng = SampleKey::new(4, size.height, size.width.into()).op(0);
    let label = mixed.then_some(&label);
    CheckBatch::new(plan, label, &pictures(&mut rng, size, 3), 6).unwrap()
}

#[test]
fn shipped_kernels_give_the_bits_of_the_oracle() {
    let sizes = [(9, 24, 8, 16), (5, 17, 4, 13), (3, 3, 3, 3), (12, 40, 7, 39)];
    let mut ran = 0;
    for dtype in [DType::U8, DType::F16, DType::Bf16, DType::F32] {
        for (first, mixed) in [(true, false), (false, false), (true, true)] {
            for (height, width, rows, columns) in sizes {
                let (size, side) = (Size::new(height, width), Size::new(rows, columns));
                let trial = usual(dtype, first, mixed, size, side);
                if let Some(ptx) = shipped_ptx(trial.source()) {
                    run(&trial, ptx);
                    ran += 1;
                }
            }
        }
    }
    assert_eq!(ran, (8 + 2) * sizes.len(), "kernels that are shipped");
}

/// Returns a random list of ops of every kind that devices support.
fn random(number: u64) -> Option<CheckBatch> {
    let rng = &mut SampleKey::new(17, 0, number).op(0);
    let size = Size::new(2 + rng.below(9), 2 + rng.below(40));
    let colour: [fn() -> Arc<dyn Op>; 12] = [
        || Arc::new(RandomBrightness::new(0.6).unwrap().p(0.7).unwrap()),
        || Arc::new(RandomContrast::new(0.6).unwrap().p(0.7).unwrap()),
        || Arc::new(RandomSaturation::new(0.6).unwrap().p(0.7).unwrap()),
        || Arc::new(RandomHue::new(0.4).unwrap().p(0.7).unwrap()),
        || Arc::new(ColorJitter::new(0.4, 0.4, 0.4).unwrap()),
        || Arc::new(RandomSolarize::new(100.0).unwrap()),
        || Arc::new(RandomPosterize::new(3).unwrap()),
        || Arc::new(Gamma::new(1.7).unwrap().gain(0.9).unwrap()),
        || Arc::new(GaussianNoise::new()),
        || Arc::new(Cutout::new(4).unwrap().fill([9, 8, 7])),
        || Arc::new(RandomTranslate::new(3).unwrap().fill([1, 2, 3])),
        || Arc::new(RandomGrayscale::new(0.5).unwrap()),
    ];
    let mut ops: Ops = ops![ToDevice::to(Device::Cuda(0)), RandomHorizontalFlip::new(0.5).unwrap()];
    for _ in 0..rng.below(4) {
        ops.push(colour[rng.below(12) as usize]());
    }
    let dtype = [DType::U8, DType::F16, DType::Bf16, DType::F32][rng.below(4) as usize];
    if dtype != DType::U8 {
        ops.push(Arc::new(Normalize::imagenet()));
        ops.push(Arc::new(Convert::to(dtype)));
    }
    if rng.coin(0.5) {
        ops.push(Arc::new(ToChannelsFirst));
    }
    for _ in 0..rng.below(3) {
        ops.push(Arc::new(CutMix::new(1.0).unwrap().per_sample()));
    }
    let rules = [NumberRule::Exact, NumberRule::Fused, NumberRule::Relaxed];
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let plan = ImagePlan::on_device(ops, input, rules[rng.below(3) as usize]).unwrap();
    CheckBatch::new(plan, None, &pictures(rng, size, 3), number).ok()
}

#[test]
fn random_programs_give_the_bits_of_the_oracle() {
    let Some(nvrtc) = Nvrtc::real() else { return };
    let count = rounds("FUSELOOP_PTX_PROGRAMS");
    let mut ran = 0;
    for trial in (0..count).filter_map(random) {
        let compiled = nvrtc.compile_alone(trial.source(), &OPTIONS).unwrap();
        run(&trial, &compiled.ptx);
        ran += 1;
    }
    assert!(ran * 2 > count, "{ran} of {count} programs");
    println!("{ran} programs");
}
