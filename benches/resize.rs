//! The antialiased resize, compiled, against `fast_image_resize`'s convolution: u8 to u8, channels
//! last, with the tables built anew for each picture by both.
//!
//! An id reads `resize/<width>x<height> to 224x224/<how>`. `fast_image_resize` uses the best
//! instructions it finds and keeps its memory from call to call. It rounds to u8 between its
//! passes, so it may be a level off.

mod common;

use common::{Contender, Work, compare, criterion, noise};
use criterion::{Criterion, criterion_group, criterion_main};
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use fuseloop::jit::{self, Kernel, Scratch, Source};
use fuseloop::plan::{Draws, ImagePlan};
use fuseloop_ops::*;
use std::hint::black_box;

const SIDE: u32 = 224;

fn kernel(size: Size) -> Kernel {
    let ops = ops![Resize::new(SIDE, SIDE).expect("fixed parameters")];
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let plan = ImagePlan::new(ops, input, NumberRule::Fused).expect("the list makes a plan");
    Kernel::compile(plan).expect("the plan compiles")
}

fn sizes(c: &mut Criterion) {
    for (width, height) in [(400, 350), (256, 256), (180, 160), (900, 700)] {
        one_size(c, Size::new(height, width));
    }
}

fn one_size(c: &mut Criterion, size: Size) {
    let (kernel, pixels) = (kernel(size), noise(size, 1));
    let view = ImageView::packed(&pixels, size).expect("of this size");
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(1, 0, 0), size, &mut draws);
    let want = jit::evaluate(kernel.plan(), &view, &draws);

    let (mut ours, mut scratch) = (vec![0u8; want.len()], Scratch::default());
    let mut compiled = || {
        kernel.run(&mut scratch, Source::whole(view), &draws, black_box(&mut ours));
    };
    compiled();
    let (mut theirs, mut resizer) = (vec![0u8; want.len()], Resizer::new());
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    let mut library = || {
        let from = ImageRef::new(size.width, size.height, &pixels, PixelType::U8x3);
        let to = Image::from_slice_u8(SIDE, SIDE, black_box(&mut theirs), PixelType::U8x3);
        let (from, mut to) = (from.expect("of this size"), to.expect("of this size"));
        resizer.resize(&from, &mut to, &options).expect("the types are equal");
    };
    library();

    let what = format!("{}x{} to {SIDE}x{SIDE}", size.width, size.height);
    let bytes = 3 * (size.pixels() + u64::from(SIDE * SIDE));
    let work = Work { group: "resize", what: &what, samples: 1, bytes, cold: false };
    let mut contenders =
        [Contender::new("compiled", compiled), Contender::new("fast_image_resize", library)];
    compare(c, &work, &mut contenders);
    drop(contenders);
    assert_eq!(ours, want, "compiled");
    let off = theirs.iter().zip(&want).map(|(a, b)| a.abs_diff(*b)).max();
    assert!(off <= Some(1), "fast_image_resize is {off:?} levels off");
}

criterion_group! { name = benches; config = criterion(); targets = sizes }
criterion_main!(benches);
