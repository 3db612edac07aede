//! The planner's passes, each on lists written for it, stored as text in `tests/golden/plans`.
//!
//! `BLESS=1 cargo test --test compiler passes::` accepts changes: look at the diff first.

use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::*;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Compares `got` with the text stored in `tests/golden/plans/{name}`, or writes it if `BLESS` is set.
fn assert_golden(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plans").join(name);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, got).unwrap();
    }
    let want = fs::read_to_string(&path).unwrap_or_default();
    assert!(got == want, "{name} changed; BLESS=1 accepts it\n--- kept\n{want}\n--- now\n{got}");
}

fn plan(ops: Ops, side: u32, rule: NumberRule) -> ImagePlan {
    ImagePlan::new(ops, ImageType::decoded(Dim::fixed(side), Dim::fixed(side)), rule).unwrap()
}

/// The flat ops with their guards, and each block's row producer, frame and op groups.
fn described(plan: &ImagePlan) -> String {
    let mut text = String::new();
    for (k, leaf) in plan.flat_ops().iter().enumerate() {
        let guards = leaf.guards.iter().map(|g| format!(" if choice {} in {:b}", g.choice, g.when));
        let guards: String = guards.collect();
        writeln!(text, "  leaf {k}: {}{guards}", leaf.op.name()).unwrap();
    }
    for (k, block) in plan.blocks().iter().enumerate() {
        let variants = block.variants(plan.flat_ops());
        writeln!(
            text,
            "  block {k}: leaves {:?}, rows {:?}, frame {:?}, ends on {:?}, {:?} {:?}, <= {variants} loop(s)",
            block.ops,
            block.rows,
            block.padded_copy.map(|(leaf, _)| leaf),
            block.host,
            block.dtype,
            block.layout,
        )
        .unwrap();
        for step in &block.groups {
            writeln!(text, "    {:?}: {:?}", step.flat_ops, step.fused_ops).unwrap();
        }
    }
    text
}

fn golden(name: &str, cases: Vec<(&str, NumberRule, Ops)>) {
    let mut text = String::new();
    for (title, rule, ops) in cases {
        let names: Vec<&str> = ops.iter().map(|op| op.name()).collect();
        let plan = plan(ops, 256, rule);
        write!(text, "# {title} ({rule:?}): {}\n{}\n", names.join(", "), described(&plan)).unwrap();
    }
    assert_golden(name, &text);
}

const FUSED: NumberRule = NumberRule::Fused;
const EXACT: NumberRule = NumberRule::Exact;
const RELAXED: NumberRule = NumberRule::Relaxed;

fn brightness() -> RandomBrightness {
    RandomBrightness::new(0.4).unwrap().p(1.0).unwrap()
}

fn saturation() -> RandomSaturation {
    RandomSaturation::new(0.4).unwrap().p(1.0).unwrap()
}

fn jitter() -> ColorJitter {
    ColorJitter::new(0.4, 0.4, 0.4).unwrap()
}

fn invert() -> RandomInvert {
    RandomInvert::new(0.5).unwrap()
}

fn solarize() -> RandomSolarize {
    RandomSolarize::new(128.0).unwrap()
}

fn flip(p: f64) -> RandomHorizontalFlip {
    RandomHorizontalFlip::new(p).unwrap()
}

fn rotation() -> RandomRotation {
    RandomRotation::new(-30.0..=30.0).unwrap()
}

fn blur() -> GaussianBlur {
    GaussianBlur::new(3).unwrap()
}

#[test]
fn containers_become_guarded_leaves() {
    let apply = RandomApply::new(ops![brightness(), saturation()]);
    let choice = RandomChoice::new(vec![ops![brightness()], ops![invert(), saturation()]])
        .and_then(|op| op.weights(&[1.0; 2]));
    let nested =
        RandomApply::new(ops![RandomOrder::new(ops![flip(0.5), solarize()]).unwrap()]).p(0.3);
    golden(
        "flatten.txt",
        vec![
            ("ops that run or not", FUSED, ops![apply]),
            ("one list of two", FUSED, ops![choice.unwrap()]),
            ("an order inside a coin", FUSED, ops![nested.unwrap()]),
        ],
    );
}

#[test]
fn what_does_nothing_is_left_out() {
    let never = RandomBrightness::new(0.4).unwrap().p(0.0).unwrap();
    let one = RandomSaturation::new(0.0).unwrap().p(1.0).unwrap();
    let lists = ops![flip(0.0), never, one, RandomInvert::new(0.0).unwrap(), Normalize::imagenet()];
    golden("removed.txt", vec![("neutral parameters and p of 0", FUSED, lists)]);
}

#[test]
fn blocks_end_where_a_whole_picture_is_needed() {
    let rotations = vec![ops![rotation()], ops![blur()], ops![brightness()]];
    let exclusive = RandomChoice::new(rotations).unwrap().weights(&[1.0; 3]).unwrap();
    let resize = || Resize::new((64, 64)).unwrap();
    let policy = RandAugment::new();
    golden(
        "split.txt",
        vec![
            ("moves before rows are made", FUSED, ops![flip(0.5), resize(), flip(0.5)]),
            ("colour before rows are made", FUSED, ops![brightness(), resize()]),
            ("two makers of rows", FUSED, ops![resize(), rotation()]),
            ("makers that exclude each other", FUSED, ops![exclusive, Normalize::imagenet()]),
            ("plain Rust", FUSED, ops![flip(0.5), Lambda::new("Mine", |_, _| ()), flip(0.5)]),
            ("a resize by the exact rule", EXACT, ops![resize(), brightness()]),
            ("more orders than are compiled", FUSED, ops![jitter(), jitter(), jitter()]),
            ("a policy", FUSED, ops![resize(), policy, Normalize::imagenet(), ToChannelsFirst]),
        ],
    );
}

#[test]
fn per_channel_ops_in_a_row_become_a_table() {
    let gamma = || Gamma::new(2.2).unwrap();
    let three = || ops![brightness(), invert(), solarize(), Normalize::imagenet(), ToChannelsFirst];
    let split = ops![brightness(), saturation(), invert(), solarize()];
    let mut small = ops![CenterCrop::new(32).unwrap()];
    small.extend(three());
    golden(
        "tables.txt",
        vec![
            ("three ops and the normalization", FUSED, three()),
            ("the same, truncated between", EXACT, three()),
            ("two tables", FUSED, ops![gamma(), gamma(), Normalize::imagenet()]),
            ("a look across channels between", EXACT, split),
            ("a picture too small to be worth it", FUSED, small),
            ("fractions before a table", FUSED, ops![saturation(), gamma(), invert()]),
        ],
    );
}

#[test]
fn colour_matrices_in_a_row_become_their_product() {
    let grey = || Grayscale::new().num_output_channels(3).unwrap();
    let list = || ops![brightness(), saturation(), grey(), Normalize::imagenet()];
    let contrast = RandomContrast::new(0.4).unwrap().p(1.0).unwrap();
    golden(
        "matrices.txt",
        vec![
            ("matrices in a row", RELAXED, list()),
            ("the same, but clamped between", FUSED, list()),
            ("a mean between", RELAXED, ops![brightness(), contrast, saturation(), brightness()]),
        ],
    );
}

/// Draws come first, so that only the window that they need is decoded.
#[test]
fn windows_are_pushed_into_the_decoder() {
    let crop = || RandomCrop::new((64, 48)).unwrap();
    let lists = vec![
        ("a crop", ops![crop()]),
        ("a crop of a mirrored picture", ops![flip(1.0), crop()]),
        ("a crop after colour", ops![brightness(), crop()]),
        ("a crop after a mean", ops![RandomContrast::new(0.4).unwrap().p(1.0).unwrap(), crop()]),
        ("a crop of a crop", ops![CenterCrop::new(100).unwrap(), crop()]),
        ("a crop after a warp", ops![rotation(), crop()]),
        (
            "a resized crop",
            ops![
                RandomResizedCrop::new(64)
                    .unwrap()
                    .scale(0.1..=0.2)
                    .unwrap()
                    .ratio(1.0..=1.0)
                    .unwrap(),
                flip(1.0)
            ],
        ),
    ];
    let mut text = String::new();
    let mut draws = Draws::default();
    for (title, ops) in lists {
        let plan = plan(ops, 256, FUSED);
        plan.draw(SampleKey::new(1, 2, 3), Size::new(256, 256), &mut draws);
        writeln!(text, "{title}: {:?}", plan.needed_window(&draws)).unwrap();
    }
    assert_golden("windows.txt", &text);
}

#[test]
fn conversion_and_layout_become_the_store() {
    let half = || Convert::to(DType::F16);
    golden(
        "store.txt",
        vec![
            ("planes of f16", FUSED, ops![Normalize::imagenet(), half(), ToChannelsFirst]),
            ("planes, then values", FUSED, ops![ToChannelsFirst, Normalize::imagenet(), half()]),
            ("bits under another name", FUSED, ops![half(), View::new(DType::I16)]),
            (
                "bytes again",
                FUSED,
                ops![Normalize::imagenet(), Convert::to(DType::U8), brightness()],
            ),
        ],
    );
}
