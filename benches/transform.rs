//! A call of a transform on decoded RGB pixels, beside the draws and the compiled loop that a loader's worker runs.
//!
//! | what | aim |
//! |---|---|
//! | `apply_into`, less the loop | < 5 µs a call |
//! | `apply`, which also allocates the array, less the loop | reported |
//!
//! The yardstick is the loop alone, by the same draws, in the same process.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "common/figures.rs"]
mod figures;

use figures::record;
use fuseloop::internals::jit::{DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop::prelude::*;
use fuseloop::transform::{Image, Key, Transform};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::{ImageView, SampleKey};
use std::hint::black_box;
use std::time::Instant;

/// The size of ImageNet's usual photograph.
const PICTURE: Size = Size::new(375, 500);

/// The number of rounds, of which the fastest counts: other processes can only slow a round down.
const ROUNDS: usize = 15;

fn main() {
    let is_test = std::env::args().any(|arg| arg == "--test");
    let calls = if is_test { 3 } else { 200 };
    let pixels: Vec<u8> = (0..PICTURE.pixels() * 3).map(|at| (at * 7 % 251) as u8).collect();
    for (name, jitters) in [("crop, flip, normalize", false), ("and ColorJitter", true)] {
        let list = list(jitters);
        let any = Dim { min: 1, max: 65_535 };
        let plan = ImagePlan::new(list.clone(), ImageType::decoded(any, any), NumberRule::Fused);
        let kernel = Kernel::compile(plan.unwrap()).unwrap();
        let transform = Transform::new(list).unwrap();
        let image = Image::rgb(&pixels, PICTURE.height as usize, PICTURE.width as usize).unwrap();
        let view = ImageView::packed(&pixels, PICTURE).unwrap();
        let (mut scratch, mut draws) = (Scratch::default(), Draws::default());
        let mut row = vec![0.0_f32; 3 * 224 * 224];
        let mut bytes = vec![0_u8; 4 * row.len() + 64];
        let start = bytes.as_ptr().align_offset(64);
        let bytes = &mut bytes[start..][..4 * row.len()];
        let mut by_loop = |sample| {
            kernel.plan().draw(SampleKey::new(0, 0, sample).field(0), PICTURE, &mut draws);
            kernel.run(&mut scratch, DecodedPixels::whole(view), &draws, bytes);
        };
        let mut into = |sample| {
            transform.apply_into(&image, Key::new(0, 0, sample), &mut row).unwrap();
        };
        let mut owned = |sample| {
            black_box(transform.apply(&image, Key::new(0, 0, sample)).unwrap());
        };
        let mut each: [(&str, &mut dyn FnMut(u64)); 3] =
            [("the loop", &mut by_loop), ("apply_into", &mut into), ("apply", &mut owned)];
        let mut fastest = [f64::INFINITY; 3];
        for round in 0..=ROUNDS {
            for (fastest, (_, call)) in fastest.iter_mut().zip(&mut each) {
                let begun = Instant::now();
                (0..calls).for_each(&mut *call);
                let taken = begun.elapsed().as_secs_f64() * 1e6 / calls as f64;
                // The first round compiles.
                if round > 0 {
                    *fastest = fastest.min(taken);
                }
            }
        }
        println!("transform: {name}");
        for (taken, (how, _)) in fastest.into_iter().zip(each) {
            println!("  {how:12} {taken:8.2} µs, {:+.2} beside the loop", taken - fastest[0]);
            record(name, how, taken, "µs");
        }
    }
}

fn list(jitters: bool) -> Ops {
    let mut list = ops![
        RandomResizedCrop::new(224).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        Normalize::imagenet(),
        ToChannelsFirst,
    ];
    if jitters {
        list.insert(2, std::sync::Arc::new(ColorJitter::new(0.4, 0.4, 0.4).unwrap()));
    }
    list
}
