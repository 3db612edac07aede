//! Random lists of ops that end on a device, with batches for them.

use super::lists::{List, noise};
use fuseloop::device::check::CheckBatch;
use fuseloop::internals::plan::{ElementPlan, ImagePlan};
use fuseloop_ops::Partner;
use fuseloop_ops::author::{Dim, ImageType, Op, Rng};
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::*;
use std::sync::Arc;

/// A `ToDevice` for the first GPU.
pub fn device() -> ToDevice {
    ToDevice::to(Device::Cuda(0))
}

/// Images of one size.
pub fn pictures(rng: &mut Rng, input: impl Into<ImageType>, count: usize) -> Vec<(Size, Vec<u8>)> {
    let input = input.into();
    let size = input.size().unwrap();
    (0..count).map(|_| (size, noise(rng, size, &input))).collect()
}

/// A random list with a ToDevice somewhere, after which the device runs the rest; mixing ops are at its end.
pub fn random(number: u64) -> (String, CheckBatch) {
    let mut rng = SampleKey::new(91, 0, number).op(0);
    loop {
        let size = Size::new(1 + rng.below(40), 1 + rng.below(60));
        let (List { mut ops, input, rule, .. }, _) = List::random(&mut rng, size, 7);
        let mixers = [0, 0, 1, 2][rng.below(4) as usize];
        for _ in 0..mixers {
            ops.push(mixer(&mut rng));
        }
        let mut label: Ops =
            ops![device(), OneHot::new(5).unwrap(), LabelSmoothing::new(0.1).unwrap()];
        if rng.coin(0.5) {
            label.push(Arc::new(Convert::to([DType::F16, DType::Bf16][rng.below(2) as usize])));
        }
        label.extend(ops[ops.len() - mixers..].iter().cloned());
        let index = rng.below(ops.len() as u32 + 1) as usize;
        ops.insert(index, Arc::new(device()));
        let Ok(plan) = ImagePlan::on_device(ops.clone(), input, rule) else { continue };
        if plan.staged().is_none() {
            continue;
        }
        let label = ElementPlan::of_label(label, DType::I64).unwrap();
        let pictures = pictures(&mut rng, input, 5);
        let Ok(trial) = CheckBatch::new(plan, Some(&label), &pictures, number) else { continue };
        let names: Vec<_> = ops.iter().map(|op| format!("{op:?}")).collect();
        return (format!("program {number} of {size}, {rule:?}: {}", names.join(", ")), trial);
    }
}

fn mixer(rng: &mut Rng) -> Arc<dyn Op> {
    let partner = if rng.coin(0.5) { Partner::Permuted } else { Partner::Previous };
    if rng.coin(0.5) {
        Arc::new(MixUp::new(0.4).unwrap().per_sample().partner(partner))
    } else {
        Arc::new(CutMix::new(1.0).unwrap().per_sample().partner(partner))
    }
}

/// Every width modulo 8, and every offset at which a flipped, shifted row may start.
pub fn every_width() -> Vec<(String, CheckBatch)> {
    let types = [DType::U8, DType::F16, DType::Bf16, DType::F32];
    let each =
        |width| types.into_iter().enumerate().map(move |(k, dtype)| of_width(width, k, dtype));
    (1..=26).flat_map(each).collect()
}

fn of_width(width: u32, k: usize, dtype: DType) -> (String, CheckBatch) {
    let flip = RandomHorizontalFlip::new(0.5).unwrap();
    let crop = RandomCrop::new((3, width)).unwrap();
    let mut ops = ops![device(), crop, flip];
    if dtype != DType::U8 {
        ops.push(Arc::new(Normalize::imagenet()));
        ops.push(Arc::new(Convert::to(dtype)));
    }
    if (width as usize + k).is_multiple_of(2) {
        ops.push(Arc::new(ToChannelsFirst));
    }
    let size = Size::new(5, width + 3 + k as u32);
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let plan = ImagePlan::on_device(ops, input, NumberRule::Fused).unwrap();
    let mut rng = SampleKey::new(5, width, k as u64).op(0);
    let trial = CheckBatch::new(plan, None, &pictures(&mut rng, size, 4), 11).unwrap();
    (format!("{width} columns of {dtype}"), trial)
}

/// The lists whose kernels are shipped, one for each type and layout of the output; one of them mixes,
/// with labels.
pub fn usual(size: Size, count: usize) -> Vec<(String, CheckBatch)> {
    let mut all = vec![];
    for dtype in [DType::U8, DType::F16, DType::Bf16, DType::F32] {
        for first in [false, true] {
            let mixes =
                [false, true].into_iter().take(if first && dtype == DType::F16 { 2 } else { 1 });
            for mixed in mixes {
                let words =
                    format!("usual {dtype}, channels first: {first}, mixed: {mixed}, {size}");
                all.push((words, usual_trial(dtype, first, mixed, size, count)));
            }
        }
    }
    all
}

fn usual_trial(dtype: DType, first: bool, mixed: bool, size: Size, count: usize) -> CheckBatch {
    let mut ops = ops![device(), RandomHorizontalFlip::new(0.5).unwrap()];
    if dtype != DType::U8 {
        ops.push(Arc::new(Normalize::imagenet()));
        ops.push(Arc::new(Convert::to(dtype)));
    }
    if first {
        ops.push(Arc::new(ToChannelsFirst));
    }
    let mut label = ops![device(), OneHot::new(5).unwrap()];
    if mixed {
        ops.push(Arc::new(MixUp::new(0.4).unwrap()));
        label.push(Arc::new(MixUp::new(0.4).unwrap()));
    }
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let plan = ImagePlan::on_device(ops, input, NumberRule::Fused).unwrap();
    let label = mixed.then(|| ElementPlan::of_label(label, DType::I64).unwrap());
    let mut rng = SampleKey::new(6, size.height, size.width.into()).op(0);
    CheckBatch::new(plan, label.as_ref(), &pictures(&mut rng, size, count), 12).unwrap()
}
