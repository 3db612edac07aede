//! Shards with index files beside them.

use super::build::{Archive, usual};
use super::*;
use crate::cancel::CancelFlag;
use crate::error::ErrorKind;
use crate::source::index_shards;
use crate::source::index_shards::index_until;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn an_index_file_stands_for_the_headers() {
    let dir = tempfile::tempdir().unwrap();
    for shard in 0..3 {
        fs::write(dir.path().join(format!("{shard}.tar")), usual()).unwrap();
    }
    let spec = dir.path().join("*.tar");
    let spec = spec.to_str().unwrap();
    let scanned = Tar::open_shards(spec, &small()).unwrap();
    let calls = AtomicUsize::new(0);
    let report = index_shards(spec, &|done, of| {
        assert!(done <= of && of == 3);
        calls.fetch_add(1, Ordering::Relaxed);
    });
    let report = report.unwrap();
    assert_eq!((report.shards, report.samples, calls.into_inner()), (3, 9, 3));
    let loaded = Tar::open_shards(spec, &small()).unwrap();
    assert_eq!(in_order(&loaded), in_order(&scanned));
    assert_eq!(loaded.facts().fingerprint, scanned.facts().fingerprint);
    assert_eq!(index_shards(spec, &|_, _| {}).unwrap(), report);

    // Damage in headers that are not read is not noticed; a shard that was replaced is refused.
    let path = dir.path().join("1.tar");
    fs::write(&path, Archive::default().file("a.txt", b"x").file("a.cls", b"1").end()).unwrap();
    let message = Tar::open_shards(spec, &small()).map(drop).unwrap_err().to_string();
    let expected = "1.tar.fidx: the index belongs to another file: run `fuseloop index` again";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn indexing_ends_before_the_next_shard_when_it_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    for shard in 0..200 {
        fs::write(dir.path().join(format!("{shard}.tar")), usual()).unwrap();
    }
    let spec = dir.path().join("*.tar");
    let (cancel, calls) = (CancelFlag::new(), AtomicUsize::new(0));
    let error = index_until(spec.to_str().unwrap(), &cancel, &|_, _| {
        calls.fetch_add(1, Ordering::Relaxed);
        cancel.cancel();
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Cancelled);
    // Shards that were being read are finished.
    let indexes = fs::read_dir(dir.path()).unwrap().count() - 200;
    assert!(indexes == calls.into_inner() && indexes < 200, "{indexes}");
}

#[test]
fn a_shard_that_cannot_be_indexed_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.tar"), usual()).unwrap();
    fs::write(dir.path().join("b.tar"), &usual()[..2000]).unwrap();
    let spec = dir.path().join("*.tar");
    let message = index_shards(spec.to_str().unwrap(), &|_, _| {}).unwrap_err().to_string();
    assert!(message.contains("b.tar: byte "), "{message}");
    assert!(!dir.path().join("b.tar.fidx").exists());
}

#[test]
fn a_file_of_another_format_is_told_that_it_needs_no_index() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.beton", "a.csv"] {
        let path = dir.path().join(name);
        fs::write(&path, [b'x'; 2000]).unwrap();
        let error = index_shards(path.to_str().unwrap(), &|_, _| {}).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("a .beton file and a table need none (read as"), "{message}");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    // A tar file may have any name.
    fs::write(dir.path().join("shard"), usual()).unwrap();
    assert_eq!(
        index_shards(dir.path().join("shard").to_str().unwrap(), &|_, _| {}).unwrap().shards,
        1
    );
}

#[test]
fn another_order_of_shards_is_another_dataset() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.tar"), usual()).unwrap();
    fs::write(dir.path().join("b.tar"), usual()).unwrap();
    let print = |names: &str| {
        let spec = dir.path().join(names);
        Tar::open_shards(spec.to_str().unwrap(), &small()).unwrap().facts().fingerprint
    };
    assert_eq!(print("{a,b}.tar"), print("{a,b}.tar"));
    assert_ne!(print("{a,b}.tar"), print("{b,a}.tar"));
    assert_ne!(print("{a,b}.tar"), print("a.tar"));
}
