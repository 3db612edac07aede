//! The counts that tests take: CONTRIBUTING.md shows them, each is used, and each tier runs its tests.

use fuseloop_counts::{COUNTS, Count};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- FUSELOOP_WRITE_DOCS=1 cargo test --test repository counts:: -->\n";
const END: &str = "<!-- the end of the counts -->";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

fn table() -> String {
    let mut text = "| count | quick | slow | soak | tests | what |\n".to_owned();
    text.push_str("|---|---:|---:|---:|---|---|\n");
    for Count { name, tiers: [quick, slow, soak], slices, tests: (target, filter), what } in COUNTS
    {
        let sliced = if *slices > 1 { format!(" / {slices}") } else { String::new() };
        let tests = format!("{target} {filter}");
        let tests = tests.trim_end();
        writeln!(text, "| `{name}` | {quick} | {slow}{sliced} | {soak} | `{tests}` | {what} |")
            .unwrap();
    }
    text
}

#[test]
fn contributing_shows_the_counts() {
    let page = text("CONTRIBUTING.md");
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let expected = table();
    if std::env::var_os("FUSELOOP_WRITE_DOCS").is_some() {
        let written = [before, BEGIN, &expected, END, after].concat();
        fs::write(root().join("CONTRIBUTING.md"), written).unwrap();
        return;
    }
    assert!(found == expected, "CONTRIBUTING.md is not up to date. Write its table with {BEGIN}");
}

#[test]
fn every_count_is_taken_by_a_test() {
    let mut code = String::new();
    let mut left: Vec<_> = ["src", "tests", "cli/tests"].map(|name| root().join(name)).into();
    while let Some(dir) = left.pop() {
        for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("counts") {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                code += &fs::read_to_string(path).unwrap();
            }
        }
    }
    for Count { name, .. } in COUNTS {
        assert!(code.contains(&format!("(\"{name}\")")), "no test takes {name}");
    }
}

/// The slow tier and the soak name the tests whose counts they raise.
#[test]
fn a_tier_runs_the_tests_whose_counts_it_raises() {
    let memcheck = text("scripts/valgrind.sh");
    let (slow, soak) = (text(".ci/run") + &memcheck, text("scripts/soak.sh") + &memcheck);
    for count in COUNTS {
        let (target, filter) = count.tests;
        let target = if target == "lib" { "--lib".to_owned() } else { format!("--test {target}") };
        for (tier, script) in [(1, &slow), (2, &soak)] {
            let is_run = script.contains(&target) && script.contains(filter);
            assert!(
                is_run || count.tiers[tier] == count.tiers[tier - 1],
                "tier {tier} does not run the tests of {}: {target} {filter}",
                count.name
            );
        }
    }
}
