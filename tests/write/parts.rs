//! Datasets that are joined, split and selected from, by conversions.

use crate::common::dataset::copy;
use fuseloop::ErrorKind;
use fuseloop::sample::SampleId;
use fuseloop::source::{
    Beton, Dataset, FieldKind, FieldSpec, ImageMode, OpenOptions, OwnedImage, OwnedValue, Selected,
    Source,
};
use fuseloop::write::{FieldValue, ImageInput, WriteOptions, convert, write_iter};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes a file of `count` samples from `first` on; every third image is raw.
fn file(dir: &Path, name: &str, first: i64, count: i64, page_size: u32) -> PathBuf {
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = [field("i", FieldKind::Int), field("p", FieldKind::RgbImage)];
    let rows = (first..first + count).map(|n| {
        let image = if n % 3 == 0 {
            OwnedImage::rgb((4, 3), vec![n as u8; 36])
        } else {
            let bytes = vec![0xff; 20 + n as usize];
            OwnedImage { width: 9, height: 9, mode: ImageMode::Jpeg, bytes }
        };
        vec![FieldValue::Int(n), FieldValue::Image(ImageInput::Stored(image))]
    });
    let path = dir.join(name);
    let options = WriteOptions { page_size: Some(page_size), ..WriteOptions::default() };
    write_iter(rows, &fields, &path, &options).unwrap();
    path
}

fn beton(path: &Path) -> Arc<Beton> {
    Arc::new(Beton::open(path, &OpenOptions::default()).unwrap())
}

fn read(path: &Path) -> Vec<Vec<OwnedValue>> {
    let beton = beton(path);
    (0..beton.facts().samples).map(|id| beton.read(SampleId(id)).unwrap()).collect()
}

fn overwriting() -> WriteOptions {
    WriteOptions { overwrite: true, ..WriteOptions::default() }
}

/// The name of several files as one dataset.
fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.to_str().unwrap()).collect::<Vec<_>>().join("::")
}

#[test]
fn what_is_split_and_put_together_is_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let src = file(dir.path(), "a.beton", 0, 50, 8192);
    let shards = WriteOptions { shards: Some(4), ..WriteOptions::default() };
    let report = copy(&src, path("part-{00}.beton"), &shards).unwrap();
    assert_eq!((report.samples, report.files, report.pages), (50, 4, 4));
    let parts: Vec<PathBuf> = (0..4).map(|k| path(&format!("part-0{k}.beton"))).collect();
    let sizes: Vec<usize> = parts.iter().map(|part| read(part).len()).collect();
    assert_eq!(sizes, [12, 13, 12, 13]);
    copy(joined(&parts), path("b.beton"), &overwriting()).unwrap();
    assert!(fs::read(path("b.beton")).unwrap() == fs::read(&src).unwrap());
    for sizes in [vec![45, 5], vec![25, 25], vec![15, 1, 34]] {
        let (mut at, mut parts) = (0, vec![]);
        for size in sizes {
            parts.push(path(&format!("{size}-from-{at}.beton")));
            let some = Selected::new(beton(&src), at..at + size).unwrap();
            assert_eq!(
                convert(&some, &parts[parts.len() - 1], &overwriting()).unwrap().samples,
                size
            );
            at += size;
        }
        copy(joined(&parts), path("b.beton"), &overwriting()).unwrap();
        assert!(fs::read(path("b.beton")).unwrap() == fs::read(&src).unwrap());
    }
    let keep = WriteOptions::default();
    let error = copy(&src, path("part-{00}.beton"), &shards).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let error = copy(&src, path("b.beton"), &keep).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("set `overwrite: true`"), "{error}");
}

#[test]
fn values_of_files_are_put_together_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("c.beton");
    let a = file(dir.path(), "a.beton", 0, 7, 4096);
    let b = file(dir.path(), "b.beton", 7, 9, 16384);
    let empty = file(dir.path(), "e.beton", 0, 0, 4096);
    copy(joined(&[a.clone(), empty, b.clone()]), &out, &overwriting()).unwrap();
    assert_eq!(read(&out), [read(&a), read(&b)].concat());
    assert_eq!(beton(&out).header().page_size, 16384);
}

#[test]
fn some_samples_are_taken_in_the_order_named() {
    let dir = tempfile::tempdir().unwrap();
    let (src, out) = (file(dir.path(), "a.beton", 0, 9, 4096), dir.path().join("b.beton"));
    let some = Selected::new(beton(&src), [8, 0, 3, 3]).unwrap();
    convert(&some, &out, &overwriting()).unwrap();
    let all = read(&src);
    let want: Vec<_> = [8, 0, 3, 3].map(|n: usize| all[n].clone()).into();
    assert_eq!(read(&out), want);
    assert_eq!(beton(&out).header().page_size, 4096);
    let error = Selected::new(beton(&src), [9]).map(drop).unwrap_err().to_string();
    assert!(error.ends_with("sample 9 does not exist: the dataset has 9 samples"), "{error}");
    // A selection is read like the dataset, and is another one.
    assert!(some.read(SampleId(4)).is_err() && some.locate(SampleId(4), 1).is_none());
    assert_eq!(some.locate(SampleId(1), 1), beton(&src).locate(SampleId(0), 1));
    let other = Selected::new(beton(&src), [0, 8, 3, 3]).unwrap();
    assert_ne!(some.facts().fingerprint, other.facts().fingerprint);
    // It can't replace the file that it is read from.
    let error = convert(&some, &src, &overwriting()).unwrap_err().to_string();
    assert!(error.contains("is an input of this command"), "{error}");
}

#[test]
fn files_that_do_not_go_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (file(dir.path(), "a.beton", 0, 3, 4096), dir.path().join("b.beton"));
    let fields = [FieldSpec { name: "i".to_owned(), kind: FieldKind::Int }];
    write_iter([vec![FieldValue::Int(1)]], &fields, &b, &WriteOptions::default()).unwrap();
    let error = Dataset::open(joined(&[a.clone(), b])).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Field, "{error}");
    let error = copy(joined(&[a.clone(), a.clone()]), &a, &overwriting()).unwrap_err().to_string();
    assert!(error.contains("is an input of this command"), "{error}");
    let with = |shards, name: &str| {
        let options = WriteOptions { shards: Some(shards), ..overwriting() };
        copy(&a, dir.path().join(name), &options).map(drop).map_err(|error| error.to_string())
    };
    assert!(with(0, "x-{0}.beton").is_err());
    with(3, "y-{0}.beton").unwrap();
    let error = with(2, "y-{0}.beton").unwrap_err();
    assert!(
        error.contains("y-2.beton\": readers would take it for another of the 2 new files"),
        "{error}"
    );
}
