//! Ops compiled into one loop, against the same ops by hand in AVX2, op by op, and a bare copy.
//!
//! An id reads `fused/<op list>/<what, where>/<how>`:
//!
//! | how | |
//! |---|---|
//! | compiled | [`Kernel::run`] |
//! | by hand in AVX2 | the same algorithm in intrinsics, 256 bits wide: the same bits |
//! | op by op, native | plain Rust, a pass over memory for each op, compiled for AVX2 |
//! | op by op, baseline | the same, compiled for any x86-64 |
//! | copy of as many bytes | `memcpy` that reads and writes together as many bytes as the ops must |
//!
//! The lists with a policy (RandAugment, AugMix) have other yardsticks: see [`policy`].
//!
//! Each contender's output is compared with the oracle's before anything is timed. `in cache`
//! repeats one sample; `cold` is a batch of 64 after other memory was touched.

#![allow(unsafe_code, reason = "rows of f32 are handed to the kernel as bytes")]

mod avx2;
#[path = "../common/mod.rs"]
mod common;
mod op_by_op;
#[path = "../common/plain.rs"]
mod plain;
mod policy;
mod recipe;
mod types;

use common::{Contender, Work, compare, criterion, noise};
use criterion::{Criterion, criterion_group, criterion_main};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, GeometryStep, ImageType};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use op_by_op::{Between, Small, baseline, native};
use recipe::{Recipe, SIDE};
use std::hint::black_box;

/// Images, the draws for each, and the kernel.
struct Batch {
    kernel: Kernel,
    size: Size,
    pictures: Vec<Vec<u8>>,
    draws: Vec<Draws>,
    recipes: Vec<Recipe>,
}

impl Batch {
    fn new(ops: Ops, size: Size, samples: u64) -> Self {
        let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).expect("the list makes a plan");
        let plan = plan.for_batches_of(samples as usize); // as the loader does
        let kernel = Kernel::compile(plan).expect("the plan compiles");
        assert!(jit::unsupported().is_none(), "there is nothing to measure on this machine");
        let draws: Vec<Draws> = (0..samples).map(|sample| draw(&kernel, sample, size)).collect();
        let pictures = (0..samples).map(|sample| noise(size, sample)).collect();
        let recipes =
            if size.width == 256 { draws.iter().map(Recipe::new).collect() } else { vec![] };
        Self { kernel, size, pictures, draws, recipes }
    }

    fn samples(&self) -> usize {
        self.pictures.len()
    }

    fn compiled(&self, scratch: &mut Scratch, sample: usize, out: &mut [f32]) {
        let view = ImageView::packed(&self.pictures[sample], self.size).expect("of this size");
        self.kernel.run(scratch, DecodedPixels::whole(view), &self.draws[sample], as_bytes(out));
    }

    /// Returns an output for each sample, with its memory pages touched and at a multiple of 64
    /// bytes, as in the loader's slots.
    fn outputs(&self) -> Vec<Row> {
        let elements = self.kernel.plan().sample_bytes() / 4;
        self.pictures.iter().map(|_| Row::new(elements)).collect()
    }

    /// Returns a contender that fills each sample with `make`, after checking that `make` returns
    /// the oracle's values within `tolerance`.
    fn contender<'a>(
        &'a self,
        how: &'static str,
        tolerance: f32,
        mut make: impl FnMut(usize, &mut [f32]) + 'a,
    ) -> Contender<'a> {
        let mut outputs = self.outputs();
        for (sample, row) in outputs.iter_mut().enumerate() {
            let out = row.floats();
            make(sample, out);
            let view = ImageView::packed(&self.pictures[sample], self.size).expect("of this size");
            let want = jit::evaluate(self.kernel.plan(), &view, &self.draws[sample]);
            for (index, (got, want)) in out.iter().zip(want.as_chunks::<4>().0).enumerate() {
                let want = f32::from_le_bytes(*want);
                let is_right = (got - want).abs() <= tolerance;
                assert!(is_right, "{how}, sample {sample}, element {index}: {got}, not {want}");
            }
        }
        Contender::new(how, move || {
            for (sample, row) in outputs.iter_mut().enumerate() {
                make(sample, row.floats());
            }
            black_box(&mut outputs);
        })
    }
}

/// Floats that start at a multiple of 64 bytes.
struct Row {
    floats: Vec<f32>,
    start: usize,
}

impl Row {
    fn new(len: usize) -> Self {
        let floats = vec![1.0; len + 16];
        let start = floats.as_ptr().align_offset(64);
        Self { floats, start }
    }

    fn floats(&mut self) -> &mut [f32] {
        let len = self.floats.len() - 16;
        &mut self.floats[self.start..][..len]
    }
}

fn draw(kernel: &Kernel, sample: u64, size: Size) -> Draws {
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(1, 0, sample), size, &mut draws);
    draws
}

fn as_bytes(floats: &mut [f32]) -> &mut [u8] {
    // SAFETY: the length is the floats' length in bytes; any bytes are valid floats and vice versa.
    unsafe { std::slice::from_raw_parts_mut(floats.as_mut_ptr().cast(), 4 * floats.len()) }
}

/// Crop, flip, jitter if requested, normalize, channels first.
fn imagenet(jitter: bool) -> Ops {
    let mut list = ops![
        RandomCrop::new(224).expect("fixed parameters"),
        RandomHorizontalFlip::new(0.5).expect("fixed parameters"),
    ];
    if jitter {
        list.push(std::sync::Arc::new(ColorJitter::new(0.4, 0.4, 0.4).expect("fixed parameters")));
    }
    list.push(std::sync::Arc::new(Normalize::imagenet()));
    list.push(std::sync::Arc::new(ToChannelsFirst));
    list
}

/// The largest difference that adding products without fma may cause.
const ROUNDING: f32 = 1e-4;

fn large(c: &mut Criterion) {
    for (list, jitter) in [("crop+flip+normalize", false), ("crop+flip+jitter+normalize", true)] {
        for (what, samples) in [("one 256x256, in cache", 1), ("64 of 256x256, cold", 64)] {
            let batch = Batch::new(imagenet(jitter), Size::new(256, 256), samples);
            let pixels = SIDE * SIDE * 3;
            let (group, bytes) = (&format!("fused/{list}"), 5 * pixels as u64);
            let work = Work { group, what, samples, bytes, cold: samples > 1 };
            let (mut a, mut b, mut scratch) = Default::default();
            let traffic = batch.samples() * 5 * pixels / 2;
            let (from, mut to) = (vec![1u8; traffic], vec![1u8; traffic]);
            let mut contenders = [
                batch.contender("compiled", 0.0, |i, out| batch.compiled(&mut scratch, i, out)),
                batch.contender("by hand in AVX2", 0.0, |i, out| {
                    avx2::run(&batch.recipes[i], &batch.pictures[i], out);
                }),
                batch.contender("op by op, native", ROUNDING, |i, out| {
                    native::large(&batch.recipes[i], &batch.pictures[i], &mut a, out);
                }),
                batch.contender("op by op, baseline", ROUNDING, |i, out| {
                    baseline::large(&batch.recipes[i], &batch.pictures[i], &mut b, out);
                }),
                Contender::new("copy of as many bytes", || {
                    to.copy_from_slice(black_box(&from));
                    black_box(&mut to);
                }),
            ];
            compare(c, &work, &mut contenders);
        }
    }
}

/// Measures a CIFAR image, including the drawing of its random numbers: the fixed costs of a
/// sample.
fn small(c: &mut Criterion) {
    let ops = ops![
        RandomHorizontalFlip::new(0.5).expect("fixed parameters"),
        RandomTranslate::new(4).expect("fixed parameters"),
        Cutout::new(8).expect("fixed parameters"),
        Normalize::imagenet(),
        ToChannelsFirst,
    ];
    let (size, samples) = (Size::new(32, 32), 64);
    let batch = Batch::new(ops, size, samples);
    let work = Work {
        group: "fused/flip+translate+cutout+normalize",
        what: "64 of 32x32, in cache, with draws",
        samples,
        bytes: 5 * 3 * size.pixels(),
        cold: false,
    };
    let redrawn = |i: usize, draws: &mut Draws| {
        batch.kernel.plan().draw(SampleKey::new(1, 0, i as u64), size, draws);
    };
    let (mut scratch, mut draws) = (Scratch::default(), [(); 3].map(|()| Draws::default()));
    let [for_compiled, for_native, for_baseline] = &mut draws;
    let (mut a, mut b) = (Between::default(), Between::default());
    let mut contenders = [
        batch.contender("compiled", 0.0, |i, out| {
            redrawn(i, for_compiled);
            let view = ImageView::packed(&batch.pictures[i], size).expect("of this size");
            batch.kernel.run(&mut scratch, DecodedPixels::whole(view), for_compiled, as_bytes(out));
        }),
        batch.contender("op by op, native", ROUNDING, |i, out| {
            redrawn(i, for_native);
            native::small(small_recipe(for_native), &batch.pictures[i], &mut a, out);
        }),
        batch.contender("op by op, baseline", ROUNDING, |i, out| {
            redrawn(i, for_baseline);
            baseline::small(small_recipe(for_baseline), &batch.pictures[i], &mut b, out);
        }),
    ];
    compare(c, &work, &mut contenders);
}

fn small_recipe(draws: &Draws) -> Small {
    let shift = draws.geometry.iter().find_map(|(_, motion)| match *motion {
        GeometryStep::CropPad { top, left, .. } => Some([top, left]),
        _ => None,
    });
    let hole = draws.windows[0].1;
    Small {
        side: draws.source.width as usize,
        flipped: draws.geometry.iter().any(|(_, m)| *m == GeometryStep::FlipHorizontal),
        shift: shift.expect("a shift is always drawn"),
        hole: [hole.top, hole.left, hole.height, hole.width].map(|n| n as usize),
    }
}

criterion_group! { name = benches; config = criterion(); targets = large, policy::policies, small, types::types }
criterion_main!(benches);
