//! MDS shards that are written as mosaicml-streaming writes them (`scripts/mds_goldens.py`).

use crate::common::files::files;
use fuseloop::source::{Dataset, Mds, MdsOptions, Source as _};
use fuseloop::write::{WriteOptions, convert};
use serde_json::{Value, json};
use std::path::Path;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/mds/written");

#[test]
fn shards_and_index_are_those_of_mds_writer_byte_for_byte() {
    let golden = Mds::open(GOLDEN, &MdsOptions::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = WriteOptions { max_bytes: Some(4000), ..WriteOptions::default() };
    convert(&golden, dir.path().join("index.json"), &options).unwrap();
    let (found, expected) = (files(dir.path()), files(Path::new(GOLDEN)));
    assert!(found.keys().eq(expected.keys()), "{:?}", found.keys());
    for (name, expected) in &expected {
        assert!(found[name] == *expected, "{name}: {}", String::from_utf8_lossy(&found[name]));
    }
}

#[test]
fn rows_of_objects_are_arrays_of_mds_writer_byte_for_byte() {
    let golden = files(&Path::new(GOLDEN).with_file_name("rows"));
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
    std::fs::create_dir(&from).unwrap();
    // What the rows are is all that MDSWriter does not write.
    let mut index: Value = serde_json::from_slice(&golden["index.json"]).unwrap();
    index["fuseloop"] = json!({"objects": {"fuseloop": "objects", "version": 1, "fields": [
        {"as": "boxes", "format": "xyxy", "name": "boxes"},
        {"as": "classes", "name": "classes"},
        {"as": "keypoints", "each": 2, "name": "keypoints"},
    ]}});
    std::fs::write(from.join("index.json"), index.to_string()).unwrap();
    std::fs::write(from.join("shard.00000.mds"), &golden["shard.00000.mds"]).unwrap();
    let source = Mds::open(&from, &MdsOptions::default()).unwrap();
    assert_eq!(source.facts().samples, 4);
    let options = WriteOptions { max_bytes: Some(1 << 20), ..WriteOptions::default() };
    convert(&source, to.join("index.json"), &options).unwrap();
    let found = files(&to);
    assert!(found["shard.00000.mds"] == golden["shard.00000.mds"]);
    let found: Value = serde_json::from_slice(&found["index.json"]).unwrap();
    assert_eq!(found, index);
}

#[test]
fn shards_are_not_written_over_those_that_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let packed = Path::new(GOLDEN).with_file_name("zstd");
    for (name, bytes) in files(&packed) {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let source = Dataset::open(dir.path()).unwrap().source().unwrap();
    let options = WriteOptions { overwrite: true, ..WriteOptions::default() };
    let error = convert(&*source, dir.path().join("index.json"), &options).unwrap_err();
    assert!(error.to_string().contains("is an input of this command"), "{error}");
    assert!(files(dir.path()) == files(&packed));
}
