//! AutoAugment, RandAugment, TrivialAugmentWide: torchvision's tables and replays of its draws; and the
//! number of loops that they compile to.

use super::support::{Image, cases, number, run, sha256};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, ImageType, Op};
use fuseloop_ops::internals::policy::{Action, Space, Strength, WarpOptions};
use fuseloop_ops::internals::{ImageView, SampleKey, sub_policies};
use fuseloop_ops::*;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet, HashSet};

fn cases_of(op: &str) -> Vec<Json> {
    let cases: Vec<Json> =
        cases("policies.json").into_iter().filter(|case| case["op"] == op).collect();
    assert!(!cases.is_empty(), "no cases of {op}");
    cases
}

fn action(name: &Json) -> Action {
    let all = [Space::AutoAugment, Space::RandAugment].map(Space::actions).concat();
    all.into_iter().find(|action| action.name() == name).unwrap()
}

fn space(name: &Json) -> Space {
    match name.as_str().unwrap() {
        "AutoAugment" => Space::AutoAugment,
        "RandAugment" => Space::RandAugment,
        "TrivialAugmentWide" => Space::TrivialAugmentWide,
        "AugMix" => Space::AugMix,
        name => panic!("no space {name}"),
    }
}

#[test]
fn magnitudes_are_torchvisions() {
    for case in cases_of("augmentation_space") {
        let (space, action, bins) = (space(&case["policy"]), action(&case["name"]), &case["bins"]);
        let size = Size::new(number(&case["height"]), number(&case["width"]));
        let ours = (0..number(bins)).map(|i| space.magnitude(action, number(bins), i, size));
        let theirs = case["magnitudes"].as_array();
        let theirs = theirs.map(|all| all.iter().map(|m| m.as_f64().unwrap() as f32).collect());
        assert_eq!(ours.collect::<Option<Vec<f32>>>(), theirs, "{case}");
        assert_eq!(case["signed"], action.is_signed(), "{case}");
        assert!(space.actions().contains(&action), "{case}");
    }
}

#[test]
fn sub_policies_are_torchvisions() {
    for case in cases_of("auto_augment_policy") {
        let ours = sub_policies(policy(&case["policy"]));
        let theirs = case["sub_policies"].as_array().unwrap();
        assert_eq!(theirs.len(), ours.len());
        for (ours, theirs) in ours.iter().zip(theirs) {
            for ((action, p, index), theirs) in ours.iter().zip(theirs.as_array().unwrap()) {
                assert_eq!(theirs[0], action.name());
                assert_eq!(theirs[1], *p);
                assert_eq!(theirs[2].as_u64().unwrap_or(0), u64::from(*index));
            }
        }
    }
}

#[test]
fn every_action_at_a_magnitude_is_torchvisions() {
    for case in cases_of("apply_op") {
        let magnitude = case["magnitude"].as_f64().unwrap() as f32;
        let ops = action(&case["name"]).ops(Strength::Exactly(magnitude), WarpOptions::default());
        let out = run(ops, &Image::of(&case), |_| ());
        assert_eq!(sha256(&out), case["sha256"], "{case}");
    }
}

/// Hashes of images by the outcomes of all choices, in order.
type Outputs = BTreeMap<Vec<usize>, BTreeSet<String>>;

/// The outputs of samples whose outcomes are `wanted`: one for each sign, bin, and so on.
fn outputs(ops: Ops, image: &Image, samples: u64, wanted: impl Fn(&[usize]) -> bool) -> Outputs {
    let Size { height, width } = image.size;
    let input = ImageType::decoded(Dim::fixed(height), Dim::fixed(width));
    let kernel = Kernel::compile(ImagePlan::new(ops, input, NumberRule::Exact).unwrap()).unwrap();
    let (mut draws, mut scratch) = (Draws::default(), Scratch::default());
    let (mut seen, mut outputs) = (HashSet::new(), Outputs::new());
    for sample in 0..samples {
        kernel.plan().draw(SampleKey::new(0, 0, sample), image.size, &mut draws);
        let drawn = format!("{:?} {:?} {:?}", draws.outcomes, draws.geometry, draws.params);
        if !wanted(&draws.outcomes) || !seen.insert(drawn) {
            continue;
        }
        let view = ImageView::packed(&image.pixels, image.size).unwrap();
        let mut out = vec![0xAA; kernel.plan().sample_bytes()];
        kernel.run(&mut scratch, DecodedPixels::whole(view), &draws, &mut out);
        assert!(out == jit::evaluate(kernel.plan(), &view, &draws), "sample {sample}: {draws:?}");
        outputs.entry(draws.outcomes.clone()).or_default().insert(sha256(&out));
    }
    outputs
}

/// Asserts that torchvision's image is among those of one outcome.
fn assert_among(outputs: &Outputs, outcomes: &[usize], case: &Json) {
    let found =
        outputs.get(outcomes).is_some_and(|all| all.contains(case["sha256"].as_str().unwrap()));
    assert!(found, "{outcomes:?}: {case}");
}

/// The indices of the actions that a case picks, and its first magnitude.
fn picks(case: &Json) -> (Vec<usize>, u32) {
    let all = Space::RandAugment.actions();
    let picks = case["picks"].as_array().unwrap();
    let index = |pick: &Json| all.iter().position(|action| action.name() == pick[0]).unwrap();
    (picks.iter().map(index).collect(), picks[0][1].as_u64().unwrap_or(0) as u32)
}

#[test]
fn rand_augment_is_torchvisions_for_the_same_draws() {
    for case in cases_of("rand_augment") {
        let (actions, magnitude) = picks(&case);
        let ops = ops![
            RandAugment::new().num_ops(actions.len() as u32).unwrap().magnitude(magnitude).unwrap()
        ];
        let outcomes = [&[0][..], &actions].concat();
        let all = outputs(ops, &Image::of(&case), 40_000, |drawn| drawn == outcomes);
        assert_among(&all, &outcomes, &case);
    }
}

#[test]
fn trivial_augment_is_torchvisions_for_the_same_draws() {
    for case in cases_of("trivial_augment_wide") {
        let (actions, _) = picks(&case);
        let ops = ops![TrivialAugmentWide::new()];
        let all = outputs(ops, &Image::of(&case), 10_000, |drawn| drawn == actions);
        assert_among(&all, &actions, &case);
        assert!(all[&actions].len() <= 62, "31 bins, two signs");
    }
}

fn policy(name: &Json) -> Policy {
    match name.as_str().unwrap() {
        "imagenet" => Policy::ImageNet,
        "cifar10" => Policy::Cifar10,
        "svhn" => Policy::Svhn,
        name => panic!("no policy {name}"),
    }
}

/// Only cases in which both actions run are compared.
#[test]
fn auto_augment_is_torchvisions_for_the_same_draws() {
    let cases = cases_of("auto_augment");
    for name in ["imagenet", "cifar10", "svhn"] {
        let policy = policy(&name.into());
        let cases = || cases.iter().filter(|case| case["policy"] == name);
        let image = Image::of(cases().next().unwrap());
        let both = |drawn: &[usize]| drawn[0] % 4 == 0b11;
        let all = outputs(ops![AutoAugment::new().policy(policy)], &image, 40_000, both);
        for case in cases() {
            let index = number(&case["index"]) as usize;
            let [(_, first, _), (_, second, _)] = sub_policies(policy)[index];
            if first > 0.0 && second > 0.0 {
                assert_among(&all, &[4 * index + 0b11], case);
            }
        }
    }
}

/// The plan of a training list with a policy in it.
fn training(policy: impl Op + 'static) -> ImagePlan {
    let ops = ops![
        RandomResizedCrop::new(32).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        policy,
        Normalize::imagenet(),
        ToChannelsFirst,
    ];
    let input = ImageType::decoded(Dim { min: 1, max: 500 }, Dim { min: 1, max: 500 });
    ImagePlan::new(ops, input, NumberRule::Fused).unwrap()
}

/// One loop for the crop, one for the first action, and one for the second action with all that follows;
/// fewer where no sample has both actions.
#[test]
fn policies_are_at_most_a_loop_for_each_of_their_actions() {
    let assert_loops = |plan: ImagePlan, most: usize| {
        assert!(plan.blocks().len() <= most, "{}", plan.explain());
    };
    assert_loops(training(TrivialAugmentWide::new()), 2);
    assert_loops(training(RandAugment::new()), 3);
    for string in ["rand-m9-mstd0.5-inc1", "rand-tweights", "rand-t3aw", "rand-t3a"] {
        assert_loops(training(RandAugment::timm(string).unwrap()), 3);
    }
    for policy in [Policy::ImageNet, Policy::Cifar10, Policy::Svhn] {
        assert_loops(training(AutoAugment::new().policy(policy)), 3);
    }
}

#[test]
fn rand_augment_needs_few_loop_bodies() {
    if jit::unsupported().is_some() {
        return;
    }
    let image = Image { pixels: vec![100; 64 * 80 * 3], size: Size::new(64, 80) };
    let kernel = Kernel::compile(training(RandAugment::new())).unwrap();
    let (mut draws, mut scratch) = (Draws::default(), Scratch::default());
    let mut out = vec![0; kernel.plan().sample_bytes()];
    for sample in 0..200 {
        kernel.plan().draw(SampleKey::new(0, 0, sample), image.size, &mut draws);
        let view = ImageView::packed(&image.pixels, image.size).unwrap();
        kernel.run(&mut scratch, DecodedPixels::whole(view), &draws, &mut out);
    }
    let bodies = kernel.loop_bodies();
    println!("{bodies} loop bodies");
    assert!((3..=40).contains(&bodies), "{bodies} loop bodies");
}
