//! Several `.beton` files under one name: their samples one after another.

use fuseloop::source::{Beton, Dataset, FieldKind, FieldSpec, OpenOptions, ProcessCache, Source};
use fuseloop::write::{FieldValue, WriteOptions, write_iter};
use fuseloop::{ErrorKind, Loader, Order, SampleId};
use std::path::{Path, PathBuf};

/// Writes `shards` files of three samples each, numbered from 0 on.
fn shards(dir: &Path, shards: i64) -> Vec<PathBuf> {
    let write = |shard: i64| {
        let path = dir.join(format!("s-{shard:03}.beton"));
        numbers(&path, "label", 3 * shard..3 * shard + 3);
        path
    };
    (0..shards).map(write).collect()
}

fn numbers(path: &Path, name: &str, numbers: std::ops::Range<i64>) {
    let fields = [
        FieldSpec { name: name.to_owned(), kind: FieldKind::Int },
        FieldSpec { name: "text".to_owned(), kind: FieldKind::Bytes },
    ];
    let rows = numbers
        .map(|n| vec![FieldValue::Int(n), FieldValue::Bytes(format!("number {n}").into_bytes())]);
    let options = WriteOptions { page_size: Some(1 << 12), ..WriteOptions::default() };
    write_iter(rows, &fields, path, &options).unwrap();
}

fn labels(name: impl AsRef<Path>) -> Vec<i64> {
    let loader = Loader::open(name).unwrap().without("text").batch_size(4).build().unwrap();
    loaded(&loader)
}

fn loaded(loader: &Loader) -> Vec<i64> {
    let batches = loader.epoch(0).unwrap();
    batches.flat_map(|b| b.unwrap().tensor::<i64>("label").unwrap().as_slice().to_vec()).collect()
}

#[test]
fn braces_patterns_and_lists_name_one_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let paths = shards(dir.path(), 4);
    let all: Vec<i64> = (0..12).collect();
    assert_eq!(labels(dir.path().join("s-{000..003}.beton")), all);
    assert_eq!(labels(dir.path().join("s-*.beton")), all);
    let listed = format!("{}::{}", paths[2].display(), paths[0].display());
    assert_eq!(labels(&listed), [6, 7, 8, 0, 1, 2]);
    // A pattern of one file is that file.
    assert!(matches!(Dataset::open(dir.path().join("s-*1.beton")).unwrap(), Dataset::Beton(_)));
    // A file may have such a name itself.
    let odd = dir.path().join("s-{000..003}.beton");
    std::fs::rename(&paths[3], &odd).unwrap();
    assert_eq!(labels(&odd), [9, 10, 11]);
}

#[test]
fn samples_are_those_of_the_joined_file_in_every_order() {
    let dir = tempfile::tempdir().unwrap();
    shards(dir.path(), 5);
    let joined = dir.path().join("joined.bin");
    numbers(&joined, "label", 0..15);
    let name = dir.path().join("s-*.beton");
    for order in [Order::Random, Order::Sequential] {
        let of = |name: &Path| {
            let builder = Loader::open(name).unwrap().without("text").seed(3).batch_size(4);
            loaded(&builder.order(order.clone()).build().unwrap())
        };
        assert_eq!(of(&name), of(&joined), "{order:?}");
    }
    let source = Dataset::open(&name).unwrap().source().unwrap();
    let one = Beton::open(&joined, &OpenOptions::default()).unwrap();
    for sample in (0..15).map(SampleId) {
        assert_eq!(source.read(sample).unwrap(), Source::read(&one, sample).unwrap());
    }
    let file = source.locate(SampleId(7), 1).unwrap().file.unwrap();
    assert!(file.ends_with("s-002.beton"), "{file}");
    let memory = Loader::open(&name).unwrap().in_memory(true).without("text").build().unwrap();
    assert_eq!(loaded(&memory), (0..15).collect::<Vec<_>>());
}

#[test]
fn what_does_not_fit_together_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let paths = shards(dir.path(), 3);
    let error = |name: &str| Dataset::open(dir.path().join(name)).err().unwrap();
    let missing = error("s-{000..004}.beton");
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    assert!(missing.to_string().contains("s-003.beton"), "{missing}");
    let nothing = error("t-*.beton");
    assert_eq!(nothing.kind(), ErrorKind::NotFound);
    assert!(nothing.to_string().ends_with("t-*.beton: no file matches"), "{nothing}");
    numbers(&dir.path().join("s-003.beton"), "class", 0..2);
    let fields = error("s-*.beton").to_string();
    assert!(fields.contains("s-003.beton") && fields.contains("class: int"), "{fields}");
    std::fs::write(dir.path().join("s-003.beton"), "no beton file").unwrap();
    let damaged = error("s-*.beton");
    assert_eq!(damaged.kind(), ErrorKind::Format, "{damaged}");
    assert_eq!(damaged.path(), Some(&*dir.path().join("s-003.beton")));

    let name = format!("{}::{}", paths[0].display(), paths[1].display());
    let builder = Loader::open(&name).unwrap().without("text");
    let pages = builder.process_cache(ProcessCache::default()).build().err().unwrap();
    assert_eq!(pages.kind(), ErrorKind::Unsupported);
    assert!(pages.to_string().contains("join several by `fuseloop convert`"), "{pages}");
}
