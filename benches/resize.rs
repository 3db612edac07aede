//! The antialiased resize, compiled, against `fast_image_resize`'s convolution: u8 to u8, channels
//! last; both rebuild the tables for each image.
//!
//! An id reads `resize/<width>x<height> to 224x224/<how>`: a whole image of that size, or, if the
//! id contains `crop`, the middle of an image of 1200x900, as a random resized crop reads it.
//! `fast_image_resize` uses the best instructions available (AVX2) and reuses its memory from call
//! to call. It rounds to u8 between its passes, so its result may be off by one level.
//!
//! The aim, for the compiled resize's time divided by the library's: at most 0.8 for the crops of
//! ordinary training images, and never above 1.35.

mod common;

use common::{Contender, Work, compare, criterion, noise};
use criterion::{Criterion, criterion_group, criterion_main};
use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use std::hint::black_box;

const SIDE: u32 = 224;

/// Width and height of the inputs: an ordinary crop, a small image as a whole, one that is
/// enlarged, and a crop of a large photograph.
const SIZES: [(u32, u32); 4] = [(400, 350), (256, 256), (180, 160), (900, 700)];

/// The size of the image that crops are taken from.
const PHOTOGRAPH: Size = Size::new(900, 1200);

/// Crops the middle of `size`, unless that is the whole image, and resizes it.
fn kernel(from: Size, size: Size) -> Kernel {
    let ops = ops![
        CenterCrop::new(size).expect("fixed parameters"),
        Resize::new((SIDE, SIDE)).expect("fixed parameters"),
    ];
    let input = ImageType::decoded(Dim::fixed(from.height), Dim::fixed(from.width));
    let plan = ImagePlan::new(ops, input, NumberRule::Fused).expect("the list makes a plan");
    Kernel::compile(plan).expect("the plan compiles")
}

fn sizes(c: &mut Criterion) {
    println!("aim of compiled over fast_image_resize: at most 0.80, never above 1.35");
    for size in SIZES.map(|(width, height)| Size::new(height, width)) {
        one_size(c, size, size);
    }
    for size in SIZES.map(|(width, height)| Size::new(height, width)) {
        one_size(c, PHOTOGRAPH, size);
    }
}

/// Measures the middle `size` of an image of size `from`.
fn one_size(c: &mut Criterion, from: Size, size: Size) {
    let (kernel, pixels) = (kernel(from, size), noise(from, 1));
    let view = ImageView::packed(&pixels, from).expect("of this size");
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(1, 0, 0), from, &mut draws);
    let want = jit::evaluate(kernel.plan(), &view, &draws);

    let (mut ours, mut scratch) = (vec![0u8; want.len()], Scratch::default());
    let mut compiled = || {
        kernel.run(&mut scratch, DecodedPixels::whole(view), &draws, black_box(&mut ours));
    };
    compiled();
    let (mut theirs, mut resizer) = (vec![0u8; want.len()], Resizer::new());
    let (left, top) = ((from.width - size.width) / 2, (from.height - size.height) / 2);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    let mut library = || {
        let picture = ImageRef::new(from.width, from.height, &pixels, PixelType::U8x3);
        let to = Image::from_slice_u8(SIDE, SIDE, black_box(&mut theirs), PixelType::U8x3);
        let (picture, mut to) = (picture.expect("of this size"), to.expect("of this size"));
        // The crop in the options of `fast_image_resize` would also weigh pixels beyond the crop's
        // edges.
        let crop = CroppedImage::new(&picture, left, top, size.width, size.height);
        resizer.resize(&crop.expect("inside"), &mut to, &options).expect("the types are equal");
    };
    library();

    let crop = if from == size { "" } else { ", crop" };
    let what = format!("{}x{} to {SIDE}x{SIDE}{crop}", size.width, size.height);
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
