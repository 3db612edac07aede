//! The requirements that every op of the registry must meet before it counts as done.
//!
//! | requirement | where |
//! |---|---|
//! | random lists contain it, which compare its code with its definition, or a reason why they do not | its `recipes` |
//! | a test compares it with the original, or a reason why none does | its `golden`, and `tests/ops/golden` |
//! | it has a line that says what it does | its `summary` |
//! | it returns an error for an input that it does not take | its `output` |
//!
//! All of it stands in the op's own file.

use fuseloop_ops::author::{Dim, ImageType, Op, OpClass, Type};
use fuseloop_ops::internals::registry::{
    Golden, OpInfo, ParamDefault, ParamKind, Recipes, SpecTable, SpecValue, build_ops, registry,
};
use fuseloop_ops::*;
use std::fs;
use std::path::Path;

/// Folders and files of tests that compare ops with the outputs of the originals.
const GOLDENS: [&str; 3] =
    ["tests/ops/golden", "tests/ops/ffcv_vectors.rs", "tests/compiler/mix.rs"];

/// Builds an op with examples of the parameters that it requires, and with `more` parameters.
pub(super) fn example(info: &OpInfo, more: &[(&str, SpecValue)]) -> Ops {
    let examples = info.params.iter().filter_map(|param| match param.need {
        ParamDefault::Required(example) => Some((param.name, example.value())),
        _ => None,
    });
    let entries = [("op", SpecValue::from(info.name))].into_iter().chain(examples);
    let table = SpecTable::from_iter(entries.chain(more.iter().cloned()));
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

/// Returns true if the op's recipes have its name, or if there is a reason for having none.
fn is_in_random_lists(info: &OpInfo) -> bool {
    let is_named = |name: &str| name.split('(').next() == Some(info.name);
    match info.recipes {
        Recipes::Drawn(recipes) => {
            !recipes.is_empty() && recipes.iter().all(|recipe| is_named(recipe.name))
        }
        Recipes::None(reason) => !reason.is_empty(),
    }
}

/// Returns true if a test names the op, or if there is a reason why none does.
fn is_compared(info: &OpInfo, goldens: &str) -> bool {
    match info.golden {
        Golden::Tested => has_word(goldens, info.name),
        Golden::None(reason) => !reason.is_empty(),
    }
}

/// Returns true if an image op refuses a label by its own name. A container takes what its ops take, and an
/// op whose summary speaks of labels takes them.
fn refuses_labels(info: &OpInfo, op: &dyn Op) -> bool {
    let is_container = info.params.iter().any(|param| param.kind == ParamKind::Ops);
    match op.output(&label()) {
        Ok(_) => is_container || info.summary.contains("labels"),
        Err(error) => is_container || error.to_string().contains(info.name),
    }
}

/// The requirements that an op does not meet.
fn lacks(info: &OpInfo, goldens: &str) -> Vec<&'static str> {
    let op = &example(info, &[])[0];
    let is_batch = matches!(op.class(), OpClass::Batch(_));
    let is_refused = is_batch || !takes_images(&**op) || refuses_labels(info, &**op);
    let summary = info.summary.trim();
    let has = [
        (is_in_random_lists(info), "recipes of its name, or a reason for having none"),
        (is_compared(info, goldens), "a golden test that names it, or a reason for having none"),
        (is_refused, "an error by name for a label"),
        (!summary.is_empty() && !summary.contains('\n'), "a summary of one line"),
    ];
    has.into_iter().filter(|(has, _)| !has).map(|(_, what)| what).collect()
}

#[test]
fn every_op_has_all_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let goldens: String = GOLDENS.iter().map(|path| text(&root.join(path))).collect();
    let wrong: Vec<String> = registry()
        .iter()
        .map(|info| (info.name, lacks(info, &goldens)))
        .filter(|(_, lacks)| !lacks.is_empty())
        .map(|(name, lacks)| format!("{name} lacks {}", lacks.join("; ")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let images = registry().iter().filter(|info| takes_images(&*example(info, &[])[0])).count();
    assert!(images >= 15, "only {images} image ops were found");
}

/// The names of recipes count how often an op was tried.
#[test]
fn no_two_recipes_share_a_name() {
    let mut names: Vec<_> = registry().iter().flat_map(|info| info.recipes.all()).collect();
    names.sort_by_key(|recipe| recipe.name);
    assert!(names.windows(2).all(|two| two[0].name != two[1].name), "{names:?}");
    assert!(names.len() >= 60, "{}", names.len());
}
