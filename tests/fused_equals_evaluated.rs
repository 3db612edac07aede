//! The compiler's promise: whatever the list of ops, the compiled loop gives the bits that the
//! ops' plain meanings give, and touches no byte outside its buffers.
//!
//! Random lists run both ways. The compiled one reads from and writes to memory that ends (and, in
//! a second run, begins) at a page without access. `FUSELOOP_LISTS=5000` tries more lists.

#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

mod common;

use common::guarded::{Guard, Guarded};
use fuseloop::jit::{self, Kernel, Scratch, Source};
use fuseloop::plan::{Draws, ImagePlan};
use fuseloop_ops::*;
use std::collections::BTreeMap;

const NAMES: [&str; 16] = [
    "RandomResizedCrop",
    "CenterCrop",
    "CenterCrop(ratio)",
    "RandomCrop",
    "Resize",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "RandomTranslate",
    "Cutout",
    "RandomBrightness",
    "RandomContrast",
    "RandomSaturation",
    "ColorJitter",
    "Normalize",
    "Convert",
    "Poison",
];

/// A random op, by name. Parameters are such that pictures stay small.
fn op(name: &str, rng: &mut Rng, before: &ImageType) -> Box<dyn Op> {
    let interpolation =
        if rng.coin(0.5) { Interpolation::Area } else { Interpolation::BilinearAntialias };
    let mut side = |most: u32| if rng.coin(0.1) { 1 + rng.below(9) } else { 8 + rng.below(most) };
    let (height, width) = (side(60), side(90));
    let fill = [rng.below(256) as u8, rng.below(256) as u8, rng.below(256) as u8];
    let p = f64::from(rng.uniform(0.0, 1.2)).min(1.0);
    let magnitude = f64::from(rng.uniform(0.0, 1.5));
    match name {
        "RandomResizedCrop" => Box::new(
            RandomResizedCrop::to(height, width, 0.08..=1.0, 0.75..=1.33)
                .unwrap()
                .interpolation(interpolation),
        ),
        "CenterCrop" => Box::new(CenterCrop::new(height, width).unwrap()),
        "CenterCrop(ratio)" => Box::new(
            CenterCrop::ratio(height, width, p.max(0.05)).unwrap().interpolation(interpolation),
        ),
        "RandomCrop" => {
            let padding = if rng.coin(0.5) { rng.below(6) } else { 0 };
            Box::new(RandomCrop::new(height, width).unwrap().padding(padding, fill).unwrap())
        }
        "Resize" if rng.coin(0.3) => {
            Box::new(Resize::short_side(height).unwrap().interpolation(interpolation))
        }
        "Resize" => Box::new(Resize::new(height, width).unwrap().interpolation(interpolation)),
        "RandomHorizontalFlip" => Box::new(RandomHorizontalFlip::new(p).unwrap()),
        "RandomVerticalFlip" => Box::new(RandomVerticalFlip::new(p).unwrap()),
        "RandomTranslate" => Box::new(RandomTranslate::new(rng.below(12), fill).unwrap()),
        "Cutout" => Box::new(Cutout::new(1 + rng.below(20), fill).unwrap()),
        "RandomBrightness" => Box::new(RandomBrightness::new(magnitude, p).unwrap()),
        "RandomContrast" => Box::new(RandomContrast::new(magnitude, p).unwrap()),
        "RandomSaturation" => Box::new(RandomSaturation::new(magnitude, p).unwrap()),
        "ColorJitter" => {
            let mut part = || f64::from(rng.uniform(0.0, 1.0));
            let (b, c, s) = (part(), part(), part());
            let keep = |v: f64| if v < 0.2 { 0.0 } else { v };
            Box::new(ColorJitter::new(keep(b), keep(c), keep(s)).unwrap())
        }
        "Normalize" => Box::new(Normalize::imagenet()),
        "Convert" => {
            let to = DType::ALL[rng.below(DType::ALL.len() as u32) as usize];
            Box::new(Convert::to(to))
        }
        "Poison" => {
            let size = before.size().unwrap_or(Size::new(1, 1));
            let pixels = size.pixels() as usize;
            let alpha: Vec<f64> = (0..pixels).map(|_| f64::from(rng.unit())).collect();
            let mask: Vec<f64> =
                (0..3 * pixels).map(|_| f64::from(rng.uniform(0.0, 256.0))).collect();
            Box::new(Poison::new(size, &mask, &alpha, [0, 2]).unwrap())
        }
        name => panic!("no op {name}"),
    }
}

/// A random list that makes a plan for images of `size`, and the names of its ops.
fn plan(rng: &mut Rng, size: Size) -> (ImagePlan, Vec<&'static str>) {
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let rule = if rng.coin(0.5) { NumberRule::Exact } else { NumberRule::Fused };
    loop {
        let (mut names, mut list) = (vec![], Ops::new());
        let mut before = input;
        for _ in 0..rng.below(9) {
            let name = NAMES[rng.below(NAMES.len() as u32) as usize];
            let op = op(name, rng, &before);
            if let Ok(Type::Image(after)) = op.output(&Type::Image(before)) {
                before = after;
                list.push(op);
                names.push(name);
            }
        }
        if rng.coin(0.2) {
            let as_large = |to: &&DType| to.bytes() == before.dtype.bytes();
            let types: Vec<&DType> = DType::ALL.iter().filter(as_large).collect();
            list.push(Box::new(View::new(*types[rng.below(types.len() as u32) as usize])));
        }
        match rng.below(4) {
            0 => list.push(Box::new(ToChannelsLast)),
            1 => {}
            _ => list.push(Box::new(ToChannelsFirst)),
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
        for name in NAMES {
            assert!(seen.get(name).is_some_and(|n| *n >= 40), "{name} was tried too rarely");
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
