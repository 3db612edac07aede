//! Files of small samples are read into memory when a loader is built; others are read sample by sample.

use crate::common::dataset;
use fuseloop::loader::Cache;
use fuseloop::prelude::*;
use fuseloop::source::ProcessCache;
use fuseloop::write::WriteMode;
use std::fs;
use std::path::{Path, PathBuf};

/// A page of a file has 8 MiB: with fewer samples, each would have many bytes of it.
const SAMPLES: u64 = 3000;

fn written(samples: u64, side: u32) -> (tempfile::TempDir, PathBuf) {
    dataset::write(samples, WriteMode::Raw, |_| Size::new(side, side))
}

fn of(path: &Path) -> LoaderBuilder {
    Loader::open(path).unwrap().batch_size(4).order(Order::Random).workers(2)
}

fn is_held(builder: LoaderBuilder) -> bool {
    builder.build().unwrap().explain().starts_with("dataset: read into memory, ")
}

/// Returns all bytes of an epoch, or its error.
fn epoch(loader: &Loader) -> Result<Vec<u8>, String> {
    let mut all = vec![];
    for batch in loader.epoch(0).unwrap() {
        let batch = batch.map_err(|error| error.to_string())?;
        all.extend_from_slice(batch.tensor::<u8>("image").unwrap().as_slice());
    }
    Ok(all)
}

#[test]
fn a_file_of_small_samples_is_read_when_the_loader_is_built_and_not_again() {
    let (_dir, path) = written(SAMPLES, 9);
    let expected = epoch(&of(&path).in_memory(false).build().unwrap()).unwrap();
    assert_eq!(expected.len() as u64, SAMPLES * 9 * 9 * 3);
    let (held, read) = (of(&path).build().unwrap(), of(&path).in_memory(false).build().unwrap());
    let bytes = fs::metadata(&path).unwrap().len() as f64;
    let line = format!("dataset: read into memory, {:.1} MB\nfield image:\n", bytes / 1e6);
    assert!(held.explain().starts_with(&line), "{}", held.explain());
    assert!(read.explain().starts_with("field image:\n"), "{}", read.explain());
    assert_eq!(epoch(&held).unwrap(), expected);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
    assert_eq!(epoch(&held).unwrap(), expected);
    assert!(epoch(&read).unwrap_err().contains("sample"));
}

#[test]
fn larger_samples_are_held_only_if_that_is_asked_for() {
    let (_dir, path) = written(4, 80);
    assert!(!is_held(of(&path)));
    assert!(is_held(of(&path).in_memory(true)));
    let [held, read] = [true, false].map(|yes| epoch(&of(&path).in_memory(yes).build().unwrap()));
    assert_eq!(held.unwrap(), read.unwrap());
}

/// Samples that lie in memory run together. Those that are read run one by one, and only the rows that they need are
/// read of images as large as these.
#[test]
fn samples_that_are_held_have_the_rows_of_samples_that_are_read() {
    let larger = |size: Size| Size::new(size.height + 60, size.width + 60);
    let (_dir, path) = dataset::write(70, WriteMode::Raw, |sample| larger(dataset::varied(sample)));
    let small = || RandomCrop::new(24).unwrap().padding(9).unwrap();
    let lists = [
        ops![small(), RandomHorizontalFlip::new(0.5).unwrap()],
        ops![
            small(),
            RandomTranslate::new(5).unwrap(),
            Cutout::new(7).unwrap(),
            Normalize::cifar10(),
            ToChannelsFirst
        ],
        ops![
            small(),
            RandomApply::new(ops![RandomGrayscale::new(1.0).unwrap()]),
            Convert::to(DType::F16)
        ],
        ops![RandomResizedCrop::new(24).unwrap(), ColorJitter::new(0.4, 0.4, 0.4).unwrap()],
        ops![small(), RandAugment::new()],
    ];
    for (number, list) in lists.into_iter().enumerate() {
        let rows = |in_memory: bool, workers: usize| {
            let builder = of(&path).in_memory(in_memory).workers(workers).batch_size(32);
            let loader = builder.drop_last(false).pipeline("image", list.clone()).build().unwrap();
            let batches = loader.epoch(0).unwrap().map(Result::unwrap);
            batches.map(|batch| batch.bytes("image").unwrap().to_vec()).collect::<Vec<_>>()
        };
        let read = rows(false, 1);
        assert_eq!(rows(true, 1), read, "list {number}");
        assert_eq!(rows(true, 3), read, "list {number}, three workers");
    }
}

#[test]
fn what_a_cache_keeps_is_not_held_twice() {
    let (_dir, path) = written(SAMPLES, 9);
    assert!(is_held(of(&path)));
    assert!(!is_held(of(&path).in_memory(false)));
    assert!(!is_held(of(&path).cache(Cache::memory(1 << 20))));
    assert!(!is_held(of(&path).process_cache(ProcessCache::default())));
    assert!(is_held(of(&path).cache(Cache::memory(1 << 20)).in_memory(true)));
}

#[test]
fn a_dataset_that_can_not_be_held_is_refused_if_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    let jpeg = jpeg_encoder::Encoder::new_file(dir.path().join("a/0.jpg"), 90).unwrap();
    jpeg.encode(&[99; 16 * 12], 16, 12, jpeg_encoder::ColorType::Luma).unwrap();
    let list = || ops![Resize::new((8, 8)).unwrap()];
    let folder = || Loader::open(dir.path()).unwrap().pipeline("image", list());
    assert!(!is_held(folder()));
    let error = folder().in_memory(true).build().unwrap_err().to_string();
    let cure = "can't be read into memory, which only .beton files can: remove `in_memory`";
    assert!(error.ends_with(cure), "{error}");
}
