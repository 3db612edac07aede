//! The requirements that every image op of the registry must meet before it counts as done.
//!
//! | requirement | where |
//! |---|---|
//! | it is in the random lists, which compare its code with its definition | `tests/common/random_ops` |
//! | it returns an error for an input that is no image | its `output` |
//! | it has a line that says what it does | the registry's `summary` |
//! | it has a test against the original, or a reason why there is none | `tests/ops/golden`, or [`NO_ORIGINAL`] |

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common::random_ops;
use fuseloop_ops::author::{Op, OpClass, Type};
use fuseloop_ops::internals::registry::{
    OpInfo, ParamDefault, SpecTable, SpecValue, build_ops, registry,
};
use fuseloop_ops::*;
use std::fs;
use std::path::Path;

/// Image ops that the random lists can't name, and where they are compared instead.
const ELSEWHERE: [(&str, &str); 5] = [
    ("ToChannelsFirst", "the end of every second random list"),
    ("ToChannelsLast", "the end of every fourth random list"),
    ("View", "near the end of every fifth random list"),
    ("MixUp", "a batch's op: tests/compiler/mix.rs"),
    ("CutMix", "a batch's op: tests/compiler/mix.rs"),
];

/// Image ops that also take labels, and why.
const ALSO_LABELS: [(&str, &str); 5] = [
    ("ToDevice", "labels lie somewhere too"),
    ("Convert", "labels have an element type too"),
    ("RandomApply", "takes what its list takes"),
    ("RandomChoice", "takes what its lists take"),
    ("RandomOrder", "takes what its ops take"),
];

/// Ops without a test against the output of another library, and why.
const NO_ORIGINAL: [(&str, &str); 18] = [
    ("ToDevice", "what bytes are, rounded where they lie"),
    ("RandomZoomOut", "a Pad, which has goldens, of drawn sides"),
    ("RandomRotate90", "pixels move whole: a picture and its turns say all"),
    ("D4", "pixels move whole: a picture and its eight images say all"),
    ("ColorMatrix", "the user's own numbers"),
    ("Lut", "the user's own numbers"),
    ("Lighting", "one sum for each channel, of numbers from our generator"),
    ("RandomChannelPermutation", "a PermuteChannels, which has goldens, of a drawn order"),
    ("RandomGamma", "a Gamma, which has goldens, of a drawn factor"),
    ("RandomPhotometricDistort", "ops of a ColorJitter, which has goldens, each with a coin"),
    ("GridMask", "a formula of its paper, with numbers from our generator"),
    ("GaussianNoise", "noise is of our generator: its distribution is tested"),
    ("RandomTranslate", "FFCV's: draws inside its compiled code, from a generator of its own"),
    ("Cutout", "FFCV's: draws inside its compiled code, from a generator of its own"),
    ("ToChannelsLast", "what pictures are without it"),
    ("RandomApply", "runs its list or not: what its ops give is tested by themselves"),
    ("RandomChoice", "runs one of its ops: what they give is tested by themselves"),
    ("RandomOrder", "runs its ops in some order: what they give is tested by themselves"),
];

/// Folders and files of tests that compare ops with the outputs of the originals.
const GOLDENS: [&str; 3] =
    ["tests/ops/golden", "tests/ops/ffcv_vectors.rs", "tests/compiler/mix.rs"];

fn example(info: &OpInfo) -> Ops {
    let examples = info.params.iter().filter_map(|param| match param.need {
        ParamDefault::Required(example) => Some((param.name, example.value())),
        _ => None,
    });
    let table =
        SpecTable::from_iter([("op", SpecValue::from(info.name))].into_iter().chain(examples));
    build_ops(&SpecValue::from(vec![SpecValue::from(table)])).unwrap()
}

/// Returns true if an op takes images, of bytes or of floats.
fn takes_images(op: &dyn Op) -> bool {
    let bytes = ImageType::decoded(Dim::fixed(64), Dim::fixed(64));
    let floats = ImageType { dtype: DType::F32, ..bytes };
    [bytes, floats].into_iter().any(|image| op.output(&Type::Image(image)).is_ok())
}

fn label() -> Type {
    Type::Tensor { dtype: DType::I64, shape: vec![] }
}

/// The text of a file, or of all files of a folder.
fn text(path: &Path) -> String {
    if path.is_dir() {
        fs::read_dir(path).unwrap().map(|entry| text(&entry.unwrap().path())).collect()
    } else {
        fs::read_to_string(path).unwrap()
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}

fn listed(list: &[(&str, &str)], name: &str) -> bool {
    list.iter().any(|(listed, reason)| *listed == name && !reason.is_empty())
}

/// The requirements that an op does not meet.
fn lacks(info: &OpInfo, goldens: &str) -> Vec<&'static str> {
    let op = &example(info)[0];
    let is_tried = random_ops::names().iter().any(|name| name.split('(').next() == Some(info.name));
    let on_labels = op.output(&label());
    let is_batch = matches!(op.class(), OpClass::Batch(_));
    let is_refused =
        is_batch || on_labels.is_err_and(|error| error.to_string().contains(info.name));
    let summary = info.summary.trim();
    let has = [
        (is_tried || listed(&ELSEWHERE, info.name), "a place in tests/common/random_ops"),
        (is_refused || listed(&ALSO_LABELS, info.name), "an error by name for a label"),
        (!summary.is_empty() && !summary.contains('\n'), "a summary of one line"),
        (
            has_word(goldens, info.name) || listed(&NO_ORIGINAL, info.name),
            "a golden test, or a reason in NO_ORIGINAL",
        ),
    ];
    has.into_iter().filter(|(has, _)| !has).map(|(_, what)| what).collect()
}

#[test]
fn every_image_op_has_all_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let goldens: String = GOLDENS.iter().map(|path| text(&root.join(path))).collect();
    let images = registry().iter().filter(|info| takes_images(example(info)[0].as_ref()));
    let mut count = 0;
    let wrong: Vec<String> = images
        .inspect(|_| count += 1)
        .map(|info| (info.name, lacks(info, &goldens)))
        .filter(|(_, lacks)| !lacks.is_empty())
        .map(|(name, lacks)| format!("{name} lacks {}", lacks.join("; ")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 15, "only {count} image ops were found");
}

/// Every exception names an existing op.
#[test]
fn every_exception_is_an_op() {
    let exported = text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("ops/src/lib.rs"));
    for (name, _) in NO_ORIGINAL.iter().chain(&ELSEWHERE).chain(&ALSO_LABELS) {
        assert!(has_word(&exported, name), "{name} is no op: take it out of the lists above");
    }
}
