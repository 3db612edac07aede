//! A writer killed at any moment leaves the old file, a complete new one, or nothing.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use fuseloop::sample::{Limits, SampleId};
use fuseloop::source::{Beton, FieldKind, FieldSpec, OwnedValue};
use fuseloop::write::{FieldValue, WriteOptions, write_iter};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Names the file that a child process writes.
const TARGET: &str = "FUSELOOP_TEST_WRITE_TARGET";

const SAMPLES: i64 = 3000;

/// How many writers are killed; a longer run sets FUSELOOP_KILLS.
const KILLS: u64 = 50;

/// A dataset of 12 MB in 3000 samples, told from others by `version`.
fn write_dataset(path: &Path, version: i64) {
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = [field("version", FieldKind::Int), field("bytes", FieldKind::Bytes)];
    let rows = (0..SAMPLES)
        .map(|sample| vec![FieldValue::Int(version), FieldValue::Bytes(vec![sample as u8; 4000])]);
    let threads = NonZeroUsize::new(2);
    let options = WriteOptions { page_size: 1 << 16, threads, ..WriteOptions::default() };
    write_iter(rows, &fields, path, &options).unwrap();
}

/// The version of the complete dataset at `path`; `None` if nothing is there.
fn version_at(path: &Path) -> Option<i64> {
    if !path.exists() {
        return None;
    }
    let beton = Beton::open(path, &Limits::DEFAULT).unwrap();
    assert_eq!(beton.len(), SAMPLES as u64);
    let mut versions = beton.samples().map(|id| {
        let Ok(OwnedValue::Bytes(bytes)) = beton.owned(id, 1) else { panic!("sample {id}") };
        assert!(bytes.len() == 4000 && bytes.iter().all(|&byte| byte == id.0 as u8), "{id}");
        match beton.owned(SampleId(id.0), 0) {
            Ok(OwnedValue::Int(version)) => version,
            other => panic!("{other:?}"),
        }
    });
    let first = versions.next();
    assert!(versions.all(|version| Some(version) == first));
    first
}

/// Not a test of its own: the process that is killed.
#[test]
fn child_writes() {
    if let Some(path) = std::env::var_os(TARGET) {
        write_dataset(Path::new(&path), 2);
    }
}

fn start_child(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_writes"])
        .env(TARGET, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn names(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_writer_killed_at_any_moment_leaves_a_whole_file_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("a.beton"), dir.path().join("old"));
    write_dataset(&old, 1);
    let start = Instant::now();
    assert!(start_child(&path).wait().unwrap().success());
    let whole = start.elapsed();
    assert_eq!(version_at(&path), Some(2));

    let kills = std::env::var("FUSELOOP_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let mut seen = [0; 3];
    for kill in 0..kills {
        let before = kill % 2 == 0;
        let _ = fs::remove_file(&path);
        if before {
            fs::hard_link(&old, &path).unwrap();
        }
        let mut child = start_child(&path);
        // The fractions of the golden ratio's multiples fill 0..1 evenly.
        sleep(Duration::from_secs_f64(
            whole.as_secs_f64() * 1.1 * (kill as f64 * 0.618_034).fract(),
        ));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = version_at(&path);
        assert!(found == Some(2) || found == before.then_some(1), "kill {kill}: {found:?}");
        seen[found.unwrap_or(0) as usize] += 1;
    }
    println!("{whole:?} a write; found nothing, the old, the new file: {seen:?}");

    write_dataset(&path, 3);
    assert_eq!(version_at(&path), Some(3));
    assert_eq!(names(dir.path()).len(), 2, "leftovers: {:?}", names(dir.path()));
}

#[test]
fn a_second_writer_of_a_path_is_refused_and_the_first_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    let field = FieldSpec { name: "x".to_owned(), kind: FieldKind::Int };
    let fields = [field];
    let mut refused = None;
    let rows = (0..10).map(|n| {
        if n == 5 {
            let inner = write_iter([], &fields, &path, &WriteOptions::default());
            refused = Some(inner.unwrap_err().to_string());
        }
        vec![FieldValue::Int(n)]
    });
    let report = write_iter(rows, &fields, &path, &WriteOptions::default()).unwrap();
    assert_eq!(report.samples, 10);
    assert!(refused.unwrap().contains("is being written by another process"));
    assert_eq!(Beton::open(&path, &Limits::DEFAULT).unwrap().len(), 10);
}
