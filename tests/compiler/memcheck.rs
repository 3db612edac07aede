//! Random lists for valgrind's memcheck, which checks every byte that compiled code reads: buffers are
//! heap allocations of exactly the bytes that the code may access. `scripts/valgrind.sh` runs this.
//!
//! `FUSELOOP_MEMCHECK=200` is the number of lists to run. With `FUSELOOP_PLANT=1`, one more buffer is a
//! byte shorter than it claims: memcheck must detect that, which proves that the check works.

use crate::common::guarded::plant_one_byte_more;
use crate::common::lists::{List, first_difference, noise, view};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_counts::numbers;
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;

#[test]
fn lists_run_in_buffers_of_exactly_their_bytes() {
    let mut scratch = Scratch::default();
    for number in numbers("FUSELOOP_MEMCHECK") {
        let mut rng = SampleKey::new(4, 0, number).op(0);
        let size = Size::new(1 + rng.below(20), 1 + rng.below(40));
        let (list, _) = List::random(&mut rng, size, 6);
        let pixels = noise(&mut rng, size, &list.input).into_boxed_slice();
        let kernel = Kernel::compile(list.plan().unwrap()).unwrap();
        let mut draws = Draws::default();
        kernel.plan().draw(SampleKey::new(1, 2, number), size, &mut draws);
        let mut out = vec![0xAA; kernel.plan().sample_bytes()].into_boxed_slice();
        let view = view(kernel.plan(), &pixels, size);
        kernel.run(&mut scratch, DecodedPixels::whole(view), &draws, &mut out);
        let want = jit::evaluate(kernel.plan(), &view, &draws);
        let difference = first_difference(kernel.plan(), &out, &want);
        assert!(difference.is_none(), "list {number}: {}\n{list:#?}", difference.unwrap());
    }
}

/// Does nothing unless `FUSELOOP_PLANT` asks for it, because the read is a bug.
#[test]
fn a_planted_read_past_a_buffer() {
    if std::env::var_os("FUSELOOP_PLANT").is_none() || jit::unsupported().is_some() {
        println!("skipped: FUSELOOP_PLANT is not set, or nothing is compiled");
        return;
    }
    let size = Size::new(4, 16);
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let plan = ImagePlan::new(ops![Normalize::imagenet()], input, NumberRule::Fused).unwrap();
    let kernel = Kernel::compile(plan).unwrap();
    let bytes = 3 * size.pixels() as usize;
    let short = vec![7u8; bytes - 1].into_boxed_slice();
    let pixels = plant_one_byte_more(&short);
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(1, 2, 3), size, &mut draws);
    let mut out = vec![0; kernel.plan().sample_bytes()];
    let source = DecodedPixels::whole(ImageView::packed(pixels, size).unwrap());
    kernel.run(&mut Scratch::default(), source, &draws, &mut out);
}
