//! The third-party crates that this one depends on: their sources, their licences, and crates that are
//! there in two versions.
//!
//! | check                                              | scope                                         |
//! |----------------------------------------------------|-----------------------------------------------|
//! | every crate comes from one registry, with a checksum | `Cargo.lock` of every workspace: all features, all systems |
//! | no crate is older than an advisory allows          | the same                                      |
//! | no crate is there in two versions without a reason | the `Cargo.lock` of the library               |
//! | every licence is one of [`LICENCES`]               | `cargo metadata`: all features, this system   |
//! | no build has more crates than [`MOST_CRATES`]      | `cargo tree`: default features and none, this system |
//!
//! `cargo metadata` and `cargo tree` run offline: a machine that could build this test has all the data
//! that they need.
//! (cargo-deny would check the same after four minutes of compiling it.)

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Licences whose terms a shipped program meets by naming them.
const LICENCES: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "IJG",
    "ISC",
    "MIT",
    "MPL-2.0",
    "Unicode-3.0",
    "Zlib",
];

/// Crates in more than one version, and the crates that require the older ones. A new entry states its
/// reason here.
const TWICE: [(&str, &str); 12] = [
    ("bitflags", "1: region, which cranelift-jit maps code with"),
    ("crypto-common", "0.1: digest 0.10"),
    ("digest", "0.10: crc-fast, which object_store signs uploads with"),
    ("getrandom", "0.2: ring, and rand_core 0.6; 0.3: ahash, which parquet hashes with"),
    ("hashbrown", "0.16: gimli, which cranelift writes unwind tables with"),
    ("itertools", "0.13: criterion; 0.14: prost-derive"),
    ("num-bigint", "0.4: npyz, in tests alone"),
    ("r-efi", "5: getrandom 0.3; on UEFI alone"),
    ("rand", "0.8: shuttle, in tests alone"),
    ("rand_core", "0.6: shuttle, in tests alone"),
    ("syn", "2: derive macros that have not moved to 3"),
    ("windows-sys", "0.52: region and ring; 0.59: corosensei; on Windows alone"),
];

/// The oldest version of a crate without a known advisory.
const ADVISORIES: [(&str, [u64; 2], &str); 1] =
    [("quick-xml", [0, 41], "two advisories on what its parser does with hostile XML")];

/// Builds of the library, the arguments of cargo for each, and the maximum number of third-party crates that
/// are part of it: without those for tests and for build scripts.
const MOST_CRATES: [(&str, &[&str], usize); 2] =
    [("by default", &[], 85), ("without features", &["--no-default-features"], 53)];

/// A crate as recorded in `Cargo.lock`.
struct Locked<'a> {
    name: &'a str,
    version: &'a str,
    source: Option<&'a str>,
    checksum: Option<&'a str>,
}

/// The crates of this repository.
const OURS: [&str; 19] = [
    "crc-fast",
    "fuseloop",
    "fuseloop-burn",
    "fuseloop-candle",
    "fuseloop-cli",
    "fuseloop-counts",
    "fuseloop-digits",
    "fuseloop-engine",
    "fuseloop-fakecuda",
    "fuseloop-fuzz",
    "fuseloop-interleavings",
    "fuseloop-jpeg",
    "fuseloop-kernels",
    "fuseloop-ops",
    "fuseloop-ops-derive",
    "fuseloop-python",
    "fuseloop-runtime",
    "fuseloop-video",
    "fuseloop-webp",
];

/// The lock files of all workspaces, that of the library first.
const LOCK_FILES: [&str; 4] = [
    include_str!("../../Cargo.lock"),
    include_str!("../../python/Cargo.lock"),
    include_str!("../../integrations/Cargo.lock"),
    include_str!("../../fuzz/Cargo.lock"),
];

/// The crates of a lock file.
fn locked(file: &'static str) -> Vec<Locked<'static>> {
    let value = |text: &'static str, key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(" = "));
        lines.find(|(name, _)| *name == key).map(|(_, value)| value.trim_matches('"'))
    };
    let packages = file.split("[[package]]").skip(1);
    let all: Vec<_> = packages
        .map(|text| Locked {
            name: value(text, "name").unwrap(),
            version: value(text, "version").unwrap(),
            source: value(text, "source"),
            checksum: value(text, "checksum"),
        })
        .collect();
    assert!(all.len() > 100, "Cargo.lock has another form");
    all
}

#[test]
fn crates_come_from_the_registry_alone() {
    let mut registries = BTreeSet::new();
    for Locked { name, version, source, checksum } in LOCK_FILES.into_iter().flat_map(locked) {
        let Some(source) = source else {
            assert!(OURS.contains(&name), "{name} {version} comes from a path");
            continue;
        };
        assert!(source.starts_with("registry+https://"), "{name} {version} comes from {source}");
        registries.insert(source);
        assert!(checksum.is_some_and(|sum| sum.len() == 64), "{name} {version} has no checksum");
    }
    assert_eq!(registries.len(), 1, "one registry for all: {registries:?}");
}

#[test]
fn no_crate_is_there_twice_without_a_reason() {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Locked { name, version, .. } in locked(LOCK_FILES[0]) {
        versions.entry(name).or_default().push(version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let found: Vec<&str> = versions.keys().copied().collect();
    let known: Vec<&str> = TWICE.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, known, "left: in Cargo.lock, right: TWICE here. {versions:?}");
}

#[test]
fn no_crate_has_a_known_advisory() {
    for Locked { name, version, .. } in LOCK_FILES.into_iter().flat_map(locked) {
        for (_, oldest, why) in ADVISORIES.iter().filter(|(of, ..)| *of == name) {
            let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap());
            let found = [parts.next().unwrap(), parts.next().unwrap()];
            assert!(found >= *oldest, "{name} {version}: {why}; {oldest:?} has none");
        }
    }
}

/// Runs cargo for this system, and returns its output.
fn cargo(command: &str, target: &str, more: &[&str]) -> Vec<u8> {
    let system = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args([command, "--locked", "--offline"]);
    let output = cargo.args([target, &system]).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The output of `cargo metadata` with all features.
fn metadata() -> Value {
    let more = ["--all-features", "--format-version=1"];
    serde_json::from_slice(&cargo("metadata", "--filter-platform", &more)).unwrap()
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

#[cfg(target_os = "linux")]
#[test]
fn every_licence_is_one_that_is_allowed() {
    for package in metadata()["packages"].as_array().unwrap() {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        // `deny.toml` has the same exception.
        if name == "tiny-keccak" {
            continue;
        }
        assert!(is_allowed(licence), "{name}: its licence is {licence:?}, allowed: {LICENCES:?}");
    }
}

/// Returns true if the licences of the list satisfy an SPDX expression.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (met, rest) = any_of(&words);
    met && rest.is_empty()
}

/// Parses alternatives joined by OR. Returns whether one of them is met, and the words that follow.
fn any_of<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = all_of(words);
    while let ["OR", more @ ..] = rest {
        let next = all_of(more);
        (met, rest) = (met | next.0, next.1);
    }
    (met, rest)
}

/// Parses operands joined by AND: each is a licence, one with an exception, or alternatives in
/// parentheses.
fn all_of<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    let (met, rest) = match words {
        ["(", inner @ ..] => match any_of(inner) {
            (met, [")", rest @ ..]) => (met, rest),
            (_, rest) => (false, rest),
        },
        [licence, "WITH", exception, rest @ ..] => {
            (LICENCES.contains(&&*format!("{licence} WITH {exception}")), rest)
        }
        [licence, rest @ ..] => (LICENCES.contains(licence), rest),
        [] => (false, words),
    };
    let ["AND", more @ ..] = rest else { return (met, rest) };
    let next = all_of(more);
    (met & next.0, next.1)
}

/// A test of the expression parser itself.
#[test]
fn expressions_are_met_or_not() {
    for met in [
        "MIT",
        "MIT OR GPL-3.0",
        "GPL-3.0/MIT",
        "(MIT OR GPL-3.0) AND Unicode-3.0",
        "GPL-3.0 OR Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(is_allowed(met), "{met}");
    }
    for not in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR Zlib) AND (GPL-3.0 OR LGPL-3.0)",
        "MIT WITH LLVM-exception",
        "(MIT",
        "MIT)",
        "MIT Zlib",
        "OR MIT",
    ] {
        assert!(!is_allowed(not), "{not}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn builds_have_few_crates() {
    for (build, features, most) in MOST_CRATES {
        let more = ["-p", "fuseloop", "--edges", "normal", "--prefix", "none"];
        let tree = cargo("tree", "--target", &[&more, features].concat());
        let tree = String::from_utf8(tree).unwrap();
        let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
        let others: BTreeSet<&str> = lines.filter(|line| !line.starts_with("fuseloop")).collect();
        println!("crates of others {build}: {}, at most {most}", others.len());
        let has_compiler = others.iter().any(|name| name.starts_with("cranelift"));
        assert_eq!(has_compiler, features.is_empty(), "{build}: {others:#?}");
        assert!(others.len() > 40 && others.len() <= most, "{build}: {others:#?}, at most {most}");
    }
}
