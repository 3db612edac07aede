//! Every setting of a loader has one name: as a method of `LoaderBuilder`, as an argument of Python's `Loader`, in a
//! pipeline file and in its page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A place in which settings have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Rust,
    Python,
    File,
    Page,
}
use Place::{File, Page, Python, Rust};

/// The settings that a place does not have, and why.
const ABSENT: &[(&str, &[Place], &str)] = &[
    (
        "limits",
        &[Python, File, Page],
        "a limit on hostile files is set by the program that opens them",
    ),
    (
        "pipeline",
        &[Python, File, Page],
        "`ops` in Python and `[fields]` in a file are the lists of all fields at once",
    ),
    (
        "pipeline_by_epoch",
        &[Python, File, Page],
        "a function in Python and `{ from, to, epochs }` in a file",
    ),
    ("ops", &[Rust, File, Page], "see `pipeline`"),
    ("fields", &[Rust, Python, Page], "see `pipeline`; the page explains it before the settings"),
    ("branch", &[Python, File, Page], "`views` with `after`"),
    ("view", &[Python, File, Page], "`views` has all of them at once"),
    ("views", &[Rust], "`view` and `branch` add one"),
    ("auto_targets", &[Python, File, Page], "`targets = \"auto\"`"),
    ("open_pages", &[Rust, Python], "a part of the order, which is a word in a file"),
    ("audio", &[Python, File, Page], "`arrays` declares audio, too"),
    (
        "os_cache",
        &[Python, File, Page],
        "FFCV's name, for those who come from it: `process_cache` in Python",
    ),
    (
        "copy",
        &[Rust, File, Page],
        "batches of Rust are never copied, and a file is the same for both languages",
    ),
    ("filter", &[File, Page], "a function"),
    ("component_ops", &[File, Page], "a file describes one dataset, not the parts of a mix"),
    ("ranks", &[File, Page], "each process of a training has another rank"),
    (
        "split",
        &[Rust, File, Page],
        "belongs to the dataset, which is opened before: `OpenOptions::split`",
    ),
    ("cache", &[File, Page], "depends on the machine: its memory, its disks and their folders"),
    ("process_cache", &[File, Page], "depends on the machine: its memory and its disks"),
];

/// The methods of `LoaderBuilder` that are no settings.
const METHODS: [&str; 6] =
    ["build", "source", "stored_elements", "is_stream", "sharing", "dataset_targets"];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the text between two others.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, after) = text.split_once(start).unwrap_or_else(|| panic!("no {start:?}"));
    after.split_once(end).unwrap_or_else(|| panic!("no {end:?}")).0
}

/// Returns the word that a text begins with.
fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

fn of_rust() -> BTreeSet<String> {
    let text = read("src/loader/builder.rs");
    let names = text.split("\n    pub fn ").skip(1).map(word);
    names.filter(|name| !METHODS.contains(&&**name)).collect()
}

fn of_python() -> BTreeSet<String> {
    let text = read("python/fuseloop/loader.py");
    let class = between(&text, "class Loader(", "-> None:\n        arguments");
    let signature = between(class, "        /,\n", "        **fields");
    let arguments = signature.lines().filter_map(|line| line.strip_prefix("        "));
    arguments.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase())).map(word).collect()
}

fn of_file() -> BTreeSet<String> {
    let text = read("src/spec/settings.rs");
    let table = between(&text, "\nsettings! {\n", "\n}\n");
    let lines = table.lines().filter_map(|line| line.strip_prefix("    "));
    let lines = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    // The others stand beside the table: a part of the order, and what has ops.
    lines.map(word).chain(["open_pages", "fields", "views"].map(str::to_owned)).collect()
}

fn of_page() -> BTreeSet<String> {
    let text = read("docs/pipelines.md");
    let rows = between(&text, "## Settings", "\n\n`[collate]`");
    let rows = rows.lines().filter(|row| row.starts_with("| `"));
    let names = rows.flat_map(|row| row.split(" | ").next().unwrap().split('`').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

#[test]
fn a_setting_has_one_name_everywhere() {
    let places = [(Rust, of_rust()), (Python, of_python()), (File, of_file()), (Page, of_page())];
    let all: BTreeSet<&String> = places.iter().flat_map(|(_, names)| names).collect();
    assert!(all.len() > 40, "{all:?}");
    let absent = |name: &str, place| {
        ABSENT.iter().any(|(known, from, _)| *known == name && from.contains(&place))
    };
    let mut wrong = vec![];
    for name in &all {
        for (place, names) in &places {
            if names.contains(*name) == absent(name, *place) {
                wrong.push(format!("{name} of {place:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "these settings are missing, or present although `ABSENT` has a reason why they are not: {wrong:?}"
    );
    let unknown: Vec<_> =
        ABSENT.iter().filter(|(name, ..)| !all.contains(&(*name).to_owned())).collect();
    assert!(unknown.is_empty(), "no place has these settings: {unknown:?}");
}
