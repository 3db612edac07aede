//! The sentences of errors on one page, and the number of types of errors.
//!
//! `FUSELOOP_WRITE_DOCS=1 cargo test --test repository errors::` writes `tests/golden/errors.txt` again.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The types of errors in the product. An error that only a person reads is a `fail!`, not a type, so this number may only
/// become smaller.
const TYPES: usize = 27;

const PAGE: &str = "tests/golden/errors.txt";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files of the product, sorted, with their code before their tests.
fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let mut left: Vec<PathBuf> = folders.iter().map(|name| root().join(name)).collect();
    let mut found = vec![];
    while let Some(dir) = left.pop() {
        for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                let text = fs::read_to_string(&path).unwrap();
                let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                let code = product
                    .split_inclusive('\n')
                    .filter(|line| !line.trim_start().starts_with("//"));
                found.push((name, code.collect::<String>()));
            }
        }
    }
    found.retain(|(name, _)| !name.contains("/tests"));
    found.sort();
    found
}

/// Returns the content of the string literal that `code` begins with, on one line.
fn literal(code: &str) -> Option<String> {
    let mut chars = code.strip_prefix('"')?.chars();
    let mut text = String::new();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => match chars.next()? {
                // A line that goes on.
                '\n' => chars = chars.as_str().trim_start().chars(),
                'n' => text.push_str("\\n"),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
}

/// Returns the kind and the sentence of each `fail!`.
fn sentences(code: &str) -> BTreeSet<(String, String)> {
    let calls = code.split("fail!(").skip(1).filter_map(|call| call.trim_start().split_once(','));
    let said =
        calls.filter_map(|(kind, rest)| Some((kind.to_owned(), literal(rest.trim_start())?)));
    said.collect()
}

#[test]
fn all_sentences_of_errors_stand_on_one_page() {
    let mut page =
        "The sentences of errors, by file, with their kinds: read them as prose.\n".to_owned();
    for (file, code) in sources(&["jpeg/src", "src"]) {
        let said = sentences(&code);
        if !said.is_empty() {
            writeln!(page, "\n{file}").unwrap();
        }
        for (kind, sentence) in said {
            writeln!(page, "  {kind:<11} {sentence}").unwrap();
        }
    }
    if std::env::var_os("FUSELOOP_WRITE_DOCS").is_some() {
        fs::write(root().join(PAGE), page).unwrap();
        return;
    }
    let known = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    let wrong = page.lines().zip(known.lines()).find(|(found, known)| found != known);
    assert!(known == page, "{PAGE} is not up to date (FUSELOOP_WRITE_DOCS=1 writes it): {wrong:?}");
}

#[test]
fn a_literal_of_two_lines_is_one_sentence() {
    let code = "fail!(Format, \"a \\\"b\\\" \\\n     c\").at(path); fail!(\n  Io,\n  \"{x}\"\n)";
    let pairs = [("Format", "a \"b\" c"), ("Io", "{x}")];
    assert!(sentences(code).into_iter().eq(pairs.map(|(kind, text)| (kind.into(), text.into()))));
}

#[test]
fn the_types_of_errors_become_no_more() {
    let code = sources(&["src", "ops/src", "engine/src", "cli/src", "python/src"]);
    let derived = |code: &str| code.matches("thiserror::Error").count();
    let found: usize = code.iter().map(|(_, code)| derived(code)).sum();
    assert!(
        found == TYPES,
        "{found} types of errors, expected {TYPES}: write the sentence with `fail!` where the fault is seen, and keep a \
         type only where code reads its data. If there are fewer, set `TYPES`"
    );
}
