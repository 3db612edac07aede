//! The same pipeline with each output element type: the cost of narrowing or widening compared with
//! `f32`.

use crate::common::{Bytes, Contender, Work, compare, noise};
use criterion::Criterion;
use fuseloop::internals::jit::{DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use std::hint::black_box;

const TYPES: [(&str, DType); 3] = [("f32", DType::F32), ("f16", DType::F16), ("bf16", DType::Bf16)];

/// Crop 224, flip, normalize.
fn kernel(to: DType, planar: bool, samples: usize, size: Size) -> Kernel {
    let mut list = ops![
        RandomCrop::new(224).expect("fixed parameters"),
        RandomHorizontalFlip::new(0.5).expect("fixed parameters"),
        Normalize::imagenet(),
        Convert::to(to),
    ];
    if planar {
        list.push(std::sync::Arc::new(ToChannelsFirst));
    }
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let plan = ImagePlan::new(list, input, NumberRule::Fused).expect("the list makes a plan");
    Kernel::compile(plan.for_batches_of(samples)).expect("the plan compiles")
}

fn contender<'a>(
    how: &'static str,
    kernel: &'a Kernel,
    pictures: &'a [Vec<u8>],
    size: Size,
) -> Contender<'a> {
    let draws: Vec<Draws> = (0..pictures.len() as u64)
        .map(|sample| {
            let mut draws = Draws::default();
            kernel.plan().draw(SampleKey::new(1, 0, sample), size, &mut draws);
            draws
        })
        .collect();
    let mut rows: Vec<Bytes> =
        pictures.iter().map(|_| Bytes::new(kernel.plan().sample_bytes())).collect();
    let mut scratch = Scratch::default();
    Contender::new(how, move || {
        for ((picture, draws), row) in pictures.iter().zip(&draws).zip(&mut rows) {
            let view = ImageView::packed(picture, size).expect("of this size");
            kernel.run(&mut scratch, DecodedPixels::whole(view), draws, row.get());
        }
        black_box(&mut rows);
    })
}

/// Measures `fused/crop+flip+normalize as type`: `first/this` is the time of `f32` divided by this
/// type's.
pub(crate) fn types(c: &mut Criterion) {
    let size = Size::new(256, 256);
    for planar in [true, false] {
        for samples in [1, 64] {
            let pictures: Vec<Vec<u8>> = (0..samples).map(|sample| noise(size, sample)).collect();
            let kernels = TYPES.map(|(how, to)| (how, kernel(to, planar, pictures.len(), size)));
            let mut contenders: Vec<Contender<'_>> = kernels
                .iter()
                .map(|(how, kernel)| contender(how, kernel, &pictures, size))
                .collect();
            let layout = if planar { "channels first" } else { "channels last" };
            let samples_text = if samples == 1 { "one, in cache" } else { "64, cold" };
            let what = &format!("{layout}, {samples_text}");
            let work = Work {
                group: "fused/crop+flip+normalize as type",
                what,
                samples,
                bytes: 224 * 224 * 3,
                cold: samples > 1,
            };
            compare(c, &work, &mut contenders);
        }
    }
}
