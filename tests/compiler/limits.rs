//! The limits on a list's demands on the compiler, and on the process functions that its code may call.

use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch, check};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, ImageType, Op};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use std::time::Instant;

/// The maximum number of ops of a list.
const MOST: usize = 256;

/// A list of colour ops, which all join one loop.
fn list(count: usize) -> Result<ImagePlan, fuseloop::Error> {
    let ops = (0..count).map(|index| -> std::sync::Arc<dyn Op> {
        match index % 3 {
            0 => std::sync::Arc::new(RandomBrightness::new(0.3).unwrap().p(1.0).unwrap()),
            1 => std::sync::Arc::new(RandomSaturation::new(0.3).unwrap().p(1.0).unwrap()),
            _ => std::sync::Arc::new(RandomHorizontalFlip::new(0.5).unwrap()),
        }
    });
    let side = Dim::fixed(32);
    ImagePlan::new(ops.collect(), ImageType::decoded(side, side), NumberRule::Fused)
}

#[test]
fn the_longest_list_compiles_to_less_than_a_megabyte() {
    if let Some(reason) = jit::unsupported() {
        println!("skipped: {reason}");
        return;
    }
    let plan = list(MOST).unwrap();
    let start = Instant::now();
    let kernel = Kernel::compile(plan).unwrap();
    let (bytes, took) = (kernel.code_bytes(), start.elapsed());
    println!("{MOST} ops: {bytes} bytes of code in {took:?}");
    assert!(bytes < 1 << 20, "{bytes} bytes of code");
}

#[test]
fn one_op_more_is_refused() {
    let error = list(MOST + 1).unwrap_err();
    assert_eq!(error.kind(), fuseloop::ErrorKind::Pipeline);
    assert_eq!(error.to_string(), format!("{} ops in one list; the limit is {MOST}", MOST + 1));
}

/// `getpid` is a function of the process, which a linker would find.
#[test]
fn a_function_that_nobody_declared_is_an_error() {
    if jit::unsupported().is_some() {
        return;
    }
    for name in ["getpid", "system", "no_such_function", ""] {
        let error = check::declare(name).unwrap_err();
        assert!(error.to_string().contains("an undeclared function"), "{name}: {error}");
    }
    for name in check::row_functions() {
        assert!(check::declare(name).is_ok(), "{name}");
    }
}

/// Row functions store whole elements: an output that starts between two elements is refused.
#[test]
#[should_panic(expected = "an element's address")]
fn an_output_between_two_elements_is_refused() {
    assert!(jit::unsupported().is_none(), "an element's address is the code's matter");
    let side = Dim::fixed(16);
    let ops = ops![Normalize::imagenet(), Convert::to(DType::F16)];
    let plan = ImagePlan::new(ops, ImageType::decoded(side, side), NumberRule::Fused).unwrap();
    let kernel = Kernel::compile(plan).unwrap();
    let (size, pixels) = (Size::new(16, 16), vec![0; 16 * 16 * 3]);
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(1, 0, 0), size, &mut draws);
    let mut out = vec![0; kernel.plan().sample_bytes() + 2];
    let start = out.as_ptr().align_offset(2) + 1;
    let out = &mut out[start..start + kernel.plan().sample_bytes()];
    let source = DecodedPixels::whole(ImageView::packed(&pixels, size).unwrap());
    kernel.run(&mut Scratch::default(), source, &draws, out);
}
