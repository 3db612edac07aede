//! The IR of twenty common fields, stored as text, so that a change of the compiled code shows in a diff.
//!
//! Each file in `tests/golden/ir` has the loop body that is compiled first for each block, with vectors of 128 bits.
//! `BLESS=1 cargo test --test compiler golden_ir::` accepts changes: look at the diff first. A change that alters W1
//! to W5 alters the code that the benchmarks measure.

use fuseloop::internals::jit::check::{CodegenSettings, VectorBits, with_settings};
use fuseloop::internals::jit::{self, Kernel};
use fuseloop::internals::plan::ImagePlan;
use fuseloop::internals::workload::Workload;
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

/// Decoded images of `side` rows and columns.
fn images(side: u32) -> ImageType {
    ImageType::decoded(Dim::fixed(side), Dim::fixed(side))
}

/// Decoded images of sizes that are not known in advance.
fn photos() -> ImageType {
    let side = Dim { min: 1, max: 65_535 };
    ImageType::decoded(side, side)
}

fn crop() -> RandomCrop {
    RandomCrop::new(224).unwrap()
}

fn half() -> Convert {
    Convert::to(DType::F16)
}

/// A field to compile: its file's name, its ops, its input type, and the number rule.
type Field = (&'static str, Ops, ImageType, NumberRule);

/// The workloads of the benchmarks.
fn workloads() -> Vec<Field> {
    let input = |workload| if workload == Workload::Cifar { images(32) } else { photos() };
    let field = |w: Workload| (w.id(), w.ops().unwrap(), input(w), NumberRule::Fused);
    Workload::ALL.into_iter().map(field).collect()
}

/// Fields that differ in how they are stored and rounded.
fn stores() -> Vec<Field> {
    let jitter = || ColorJitter::new(0.4, 0.4, 0.4).unwrap();
    let list = |last: Ops| ops![crop(), Normalize::imagenet()].into_iter().chain(last).collect();
    vec![
        ("bytes_moved", ops![crop(), ToChannelsFirst], photos(), NumberRule::Fused),
        ("f16_planes", list(ops![half(), ToChannelsFirst]), photos(), NumberRule::Fused),
        ("bf16_pixels", list(ops![Convert::to(DType::Bf16)]), photos(), NumberRule::Fused),
        ("jitter_exact", ops![crop(), jitter(), half()], photos(), NumberRule::Exact),
        ("jitter_relaxed", ops![crop(), jitter()], photos(), NumberRule::Relaxed),
    ]
}

/// Fields whose ops need different features of the compiler.
fn kinds() -> Vec<Field> {
    let noise = || GaussianNoise::new();
    let erasing = RandomErasing::new().p(1.0);
    let fused = |name, list| (name, list, images(64), NumberRule::Fused);
    vec![
        fused("hue", ops![RandomHue::new(0.1).unwrap().p(1.0).unwrap()]),
        fused("equalize", ops![RandomEqualize::new(1.0).unwrap(), ToChannelsFirst]),
        fused("noise", ops![noise(), Normalize::imagenet()]),
        fused("erasing", ops![Normalize::imagenet(), erasing.unwrap()]),
        fused("blur", ops![GaussianBlur::new(5).unwrap(), Normalize::imagenet()]),
        fused("rotation", ops![RandomRotation::new(-30.0..=30.0).unwrap(), ToChannelsFirst]),
        fused("trivial_augment", ops![TrivialAugmentWide::new(), Normalize::imagenet()]),
        fused("rand_augment", ops![RandAugment::new(), ToChannelsFirst]),
        fused("contrast_then_grey", {
            ops![
                RandomContrast::new(0.4).unwrap().p(1.0).unwrap(),
                RandomGrayscale::new(1.0).unwrap()
            ]
        }),
        fused("tables", {
            ops![
                RandomPosterize::new(3).unwrap().p(1.0).unwrap(),
                RandomSolarize::new(128.0).unwrap().p(1.0).unwrap()
            ]
        }),
    ]
}

#[test]
fn usual_fields_compile_to_the_ir_that_was_accepted() {
    if let Some(reason) = jit::unsupported() {
        println!("skipped: {reason}");
        return;
    }
    if cfg!(not(target_arch = "x86_64")) {
        println!("skipped: the files are of code for x86-64");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ir");
    let fields: Vec<Field> = [workloads(), stores(), kinds()].concat();
    let mut changed = vec![];
    for (name, list, input, rule) in &fields {
        let plan = ImagePlan::new(list.clone(), *input, *rule).unwrap();
        let bits = Some(VectorBits::V128);
        let settings = CodegenSettings { bits, ..CodegenSettings::default() };
        let ir = with_settings(settings, || Kernel::compile(plan).unwrap().ir());
        assert!(ir.contains("function"), "{name} has no IR");
        let path = folder.join(format!("{name}.clif"));
        if env::var_os("BLESS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &ir).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        if let Some(difference) = first_difference(&kept, &ir) {
            changed.push(format!("{name}: {difference}"));
        }
    }
    assert!(changed.is_empty(), "BLESS=1 accepts what changed:\n{}", changed.join("\n"));
    let names: BTreeSet<String> = fields.iter().map(|field| format!("{}.clif", field.0)).collect();
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string());
    let kept: BTreeSet<String> = entries.map(Result::unwrap).collect();
    assert_eq!(names, kept, "every field has a file, and every file a field");
}

/// The first line in which two texts differ.
fn first_difference(kept: &str, now: &str) -> Option<String> {
    let (mut kept, mut now) = (kept.lines(), now.lines());
    for line in 1.. {
        match (kept.next(), now.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return Some(format!("line {line}\n  kept {a:?}\n  now  {b:?}")),
        }
    }
    None
}
