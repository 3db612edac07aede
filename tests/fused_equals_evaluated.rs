//! The compiler's promise: whatever the list of ops, the compiled loop gives the bits that the
//! ops' plain meanings give, and touches no byte outside its buffers.
//!
//! Random lists run both ways. The compiled one reads from and writes to memory that ends (and, in
//! a second run, begins) at a page without access. `FUSELOOP_LISTS=5000` tries more lists.

#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

mod common;

use common::guarded::{Guard, Guarded};
use common::random_ops;
use fuseloop::jit::{self, Kernel, Scratch, Source};
use fuseloop::plan::{Draws, ImagePlan};
use fuseloop_ops::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A random list that makes a plan for images of `size`, and the names of its ops.
fn plan(rng: &mut Rng, size: Size) -> (ImagePlan, Vec<&'static str>) {
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let rule = [NumberRule::Exact, NumberRule::Fused, NumberRule::Relaxed][rng.below(3) as usize];
    let all = random_ops::names();
    loop {
        let (mut names, mut list) = (vec![], Ops::new());
        let mut before = input;
        for _ in 0..rng.below(9) {
            let name = all[rng.below(all.len() as u32) as usize];
            let op = random_ops::op(name, rng, &before);
            if let Ok(Type::Image(after)) = op.output(&Type::Image(before)) {
                before = after;
                list.push(op);
                names.push(name);
            }
        }
        if rng.coin(0.2) {
            let as_large = |to: &&DType| to.bytes() == before.dtype.bytes();
            let types: Vec<&DType> = DType::ALL.iter().filter(as_large).collect();
            list.push(Arc::new(View::new(*types[rng.below(types.len() as u32) as usize])));
        }
        match rng.below(4) {
            0 => list.push(Arc::new(ToChannelsLast)),
            1 => {}
            _ => list.push(Arc::new(ToChannelsFirst)),
        }
        if before.size().is_none() {
            // Images of a batch share a size: a list with turns or zooms is seldom right without.
            let (height, width) = (1 + rng.below(60), 1 + rng.below(90));
            list.push(Arc::new(CenterCrop::new(height, width).unwrap()));
        }
        if let Ok(plan) = ImagePlan::new(list, input, rule) {
            let plan = if rng.coin(0.3) { plan.streaming() } else { plan };
            return (plan, names);
        }
    }
}

fn noise(rng: &mut Rng, size: Size) -> Vec<u8> {
    let flat = rng.coin(0.1).then(|| rng.below(256) as u8);
    (0..size.pixels() * 3).map(|_| flat.unwrap_or_else(|| rng.below(256) as u8)).collect()
}

/// Where two outputs first differ, in words.
fn first_difference(plan: &ImagePlan, got: &[u8], want: &[u8]) -> Option<String> {
    let width = plan.dtype().bytes();
    let place = got.iter().zip(want).position(|(a, b)| a != b)? / width;
    let at = place * width..(place + 1) * width;
    let count = got.chunks(width).zip(want.chunks(width)).filter(|(a, b)| a != b).count();
    Some(format!(
        "element {place} of {:?} is {:?}, should be {:?} ({count} differ)",
        plan.shape(),
        &got[at.clone()],
        &want[at]
    ))
}

#[test]
fn random_lists_give_the_same_bits_compiled_and_evaluated() {
    if let Some(reason) = jit::unsupported() {
        println!("skipped: {reason}");
        return;
    }
    let lists = std::env::var("FUSELOOP_LISTS").map_or(400, |n| n.parse().unwrap());
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut scratch, mut draws) = (Scratch::default(), Draws::default());
    for list in 0..lists {
        let mut rng = SampleKey::new(2026, 0, list).op(0);
        let size = Size::new(1 + rng.below(90), 1 + rng.below(140));
        let (plan, names) = plan(&mut rng, size);
        for name in names {
            *seen.entry(name).or_default() += 1;
        }
        let kernel = Kernel::compile(plan).unwrap();
        for sample in 0..3 {
            let pixels = noise(&mut rng, size);
            let key = SampleKey::new(1, 2, sample);
            kernel.plan().draw(key, size, &mut draws);
            let view = ImageView::packed(&pixels, size).unwrap();
            let want = jit::evaluate(kernel.plan(), &view, &draws);
            for guard in [Guard::After, Guard::Before] {
                let source = Guarded::copy_of(&pixels, guard);
                let mut out = Guarded::filled(want.len(), 0xAA, guard);
                let source = Source::whole(ImageView::packed(&source, size).unwrap());
                kernel.run(&mut scratch, source, &draws, &mut out);
                if let Some(difference) = first_difference(kernel.plan(), &out, &want) {
                    panic!(
                        "list {list}, sample {sample}, {size}: {difference}\n{:?}\n{:#?}\n{draws:?}",
                        kernel.plan().rule(),
                        kernel.plan().ops()
                    );
                }
            }
        }
    }
    println!("{lists} lists; ops seen: {seen:?}");
    if lists >= 400 {
        let enough = lists as usize / 100;
        for name in random_ops::names() {
            assert!(seen.get(name).is_some_and(|n| *n >= enough), "{name} was tried too rarely");
        }
    }
}

/// Only the wanted window is decoded; the rest of the image may not be looked at.
#[test]
fn the_wanted_window_is_all_that_is_read() {
    let (mut scratch, mut draws) = (Scratch::default(), Draws::default());
    for list in 0..150 {
        let mut rng = SampleKey::new(77, 0, list).op(0);
        let size = Size::new(20 + rng.below(90), 20 + rng.below(140));
        let (plan, _) = plan(&mut rng, size);
        let kernel = Kernel::compile(plan).unwrap();
        let pixels = noise(&mut rng, size);
        kernel.plan().draw(SampleKey::new(1, 2, list), size, &mut draws);
        let whole = ImageView::packed(&pixels, size).unwrap();
        let want = jit::evaluate(kernel.plan(), &whole, &draws);
        let wanted = kernel.plan().wanted(&draws);
        let cut: Vec<u8> =
            (0..wanted.height).flat_map(|y| whole.crop(wanted).unwrap().row(y).to_vec()).collect();
        let view = ImageView::packed(&cut, wanted.size()).unwrap();
        let source = Source { view, top: wanted.top, left: wanted.left, whole: size };
        let mut out = vec![0xAA; want.len()];
        kernel.run(&mut scratch, source, &draws, &mut out);
        if let Some(difference) = first_difference(kernel.plan(), &out, &want) {
            panic!("list {list}: {difference}\n{:#?}\n{draws:?}", kernel.plan().ops());
        }
    }
}
