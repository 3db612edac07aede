//! MDS shards that are written as mosaicml-streaming writes them (`scripts/mds_goldens.py`).

use crate::common::files::files;
use fuseloop::source::{Dataset, Mds, MdsOptions};
use fuseloop::write::{WriteOptions, convert};
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
