//! A process at its limits (few files, little address space) gets errors, and lives.
//!
//! The limits are set by the shell of a child process, which runs one of the tests of this binary.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

#[path = "common/dataset.rs"]
#[allow(dead_code, unreachable_pub, reason = "what several test binaries share")]
mod dataset;

use fuseloop::workload::imagenet;
use fuseloop::write::WriteMode;
use fuseloop::{Loader, LoaderBuilder};
use std::env;
use std::path::Path;
use std::process::Command;

/// Names the dataset to the child.
const DATASET: &str = "FUSELOOP_TEST_LIMITED";

/// Runs a test of this binary after `limits`, with a dataset; gives what it printed.
fn child(test: &str, limits: &str) -> String {
    let (_dir, path) = dataset::write(20, WriteMode::Jpg, dataset::varied);
    let program = env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("{limits}; exec \"$0\" --exact {test} --nocapture")])
        .arg(program)
        .env(DATASET, path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{text}\n{errors}", output.status);
    text
}

fn builder(path: &Path) -> LoaderBuilder {
    Loader::open(path).unwrap().batch_size(8).workers(2).pipeline("image", |_| imagenet(64))
}

/// What the child is given; `None` where this is no child.
fn dataset() -> Option<std::path::PathBuf> {
    env::var_os(DATASET).map(Into::into)
}

#[test]
fn child_with_few_files() {
    let Some(path) = dataset() else { return };
    let mut open = vec![];
    let error = loop {
        assert!(open.len() < 100, "the limit does not hold");
        match Loader::open(&path) {
            Ok(builder) => open.push(builder),
            Err(error) => break error,
        }
    };
    let all = open.len();
    println!("after {all} files: {error}");
    // With what is open, all goes on.
    drop(open.split_off(all - 1));
    let loader = builder(&path).build().unwrap();
    assert!(loader.epoch(0).unwrap().all(|batch| batch.is_ok()));
}

#[test]
fn too_many_open_files_are_an_error() {
    let said = child("child_with_few_files", "ulimit -n 64");
    assert!(said.contains("Too many open files"), "{said}");
}

#[test]
fn child_with_little_memory() {
    let Some(path) = dataset() else { return };
    let loader = builder(&path).build().unwrap();
    assert!(loader.epoch(0).unwrap().all(|batch| batch.is_ok()));
    let large = builder(&path).batch_size(100_000).drop_last(false).build().unwrap();
    let error = large.epoch(0).unwrap().next().unwrap().err().unwrap();
    println!("a large batch: {error}");
    assert!(loader.epoch(1).unwrap().all(|batch| batch.is_ok()));
}

/// What commands print under `limits`, and how they end.
fn command(dir: &Path, limits: &str, args: &[&str]) -> (Option<i32>, String) {
    let script = format!("{limits}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_fuseloop")]).args(args).current_dir(dir);
    let output = shell.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// From the least that the program itself starts with.
#[test]
fn no_command_dies_of_little_memory() {
    let (dir, _) = dataset::write(20, WriteMode::Jpg, dataset::varied);
    let commands: [&[&str]; 6] = [
        &["bench", "pictures.beton", "-e", "1", "-j", "8"],
        &["verify", "pictures.beton", "-j", "8"],
        &["preview", "pictures.beton", "-n", "8", "-m", "2", "-o", "out.png"],
        &["explain", "pictures.beton"],
        &["convert", "pictures.beton", "out.tar", "-j", "8", "--force"],
        &["dump", "pictures.beton", "-o", "out", "--force"],
    ];
    for megabytes in [96, 192, 512] {
        for args in commands {
            let limits = format!("ulimit -v {}", megabytes << 10);
            let (code, said) = command(dir.path(), &limits, args);
            assert!(matches!(code, Some(0 | 1)), "{megabytes} MiB, {args:?}: {code:?} {said}");
            assert!(code == Some(0) || said.starts_with("error: "), "{megabytes} MiB: {said}");
        }
    }
}

/// A sheet holds its cells, and not the pictures they were made of.
#[test]
fn a_preview_of_pictures_that_do_not_fit_into_memory_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut jpeg = vec![];
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 90);
    encoder.encode(&vec![90; 2000 * 2000], 2000, 2000, jpeg_encoder::ColorType::Luma).unwrap();
    std::fs::create_dir_all(dir.path().join("folder/a")).unwrap();
    for k in 0..32 {
        std::fs::write(dir.path().join(format!("folder/a/{k}.jpg")), &jpeg).unwrap();
    }
    let args = ["preview", "folder", "-n", "32", "-m", "1", "-j", "2", "-o", "out.png"];
    let (code, said) = command(dir.path(), "ulimit -v 524288", &args);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let said = child("child_with_little_memory", "ulimit -v 524288");
    assert!(said.contains("a large batch: no memory for a tensor of 4915200000 bytes"), "{said}");
}
