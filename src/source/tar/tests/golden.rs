//! Shards that webdataset 1.0.2 and Python's tarfile wrote, and the samples that webdataset reads from
//! them: see `scripts/webdataset_goldens.py`.

use super::*;
use crate::source::npy;
use std::fs;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/webdataset").join(name)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares a value with the golden output of webdataset's decoders.
fn check(value: &OwnedValue, part: &serde_json::Value) {
    let expected = &part["value"];
    match value {
        OwnedValue::Int(value) => assert_eq!(Some(*value), expected.as_i64()),
        OwnedValue::Bytes(bytes) => {
            assert_eq!(hex(bytes), part["hex"]);
            assert_eq!(std::str::from_utf8(bytes).ok(), expected.as_str());
        }
        OwnedValue::Image(image) => assert_eq!(hex(&image.bytes), part["hex"]),
        OwnedValue::Json(text) => {
            let (nul, text) = text.split_last().unwrap();
            let parsed: serde_json::Value = serde_json::from_slice(text).unwrap();
            assert_eq!((*nul, &parsed), (0, expected));
        }
        OwnedValue::NdArray(bytes) => {
            let floats = bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
            let expected = expected["values"].as_array().unwrap();
            let expected = expected.iter().map(|value| value.as_f64().unwrap() as f32);
            assert_eq!(floats.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
        other => panic!("{other:?}"),
    }
}

/// Arrays whose first axis differs between samples are bytes: the files.
#[test]
fn objects_are_read_as_webdataset_reads_them() {
    let bytes = fs::read(golden("objects.tar")).unwrap();
    let tar = Tar::from_bytes(&bytes, &small()).unwrap();
    let names: Vec<&str> = tar.facts().fields.iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["bbox.npy", "category_id.npy", "jpg", "segmentation.json"]);
    let rows = fs::read_to_string(golden("objects.tar.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
    assert_eq!(tar.facts().samples, rows.len() as u64);
    for (sample, row) in (0..).zip(&rows) {
        let record = tar.read(SampleId(sample)).unwrap();
        for (name, value) in names.iter().zip(&record) {
            let part = &row["parts"][name];
            let OwnedValue::Bytes(file) = value else {
                check(value, part);
                continue;
            };
            assert_eq!(hex(file), part["hex"]);
            let array = npy::parse(file).unwrap();
            let (shape, dtype) = (serde_json::json!(array.shape), array.dtype.to_string());
            assert_eq!(
                (&shape, dtype.as_str()),
                (&part["value"]["shape"], part["value"]["dtype"].as_str().unwrap())
            );
        }
    }
}

#[test]
fn shards_are_read_as_webdataset_reads_them() {
    for (name, samples) in
        [("tiny-0.tar", 3), ("tiny-1.tar", 2), ("gnu.tar", 2), ("pax.tar", 2), ("ustar.tar", 2)]
    {
        let bytes = fs::read(golden(name)).unwrap();
        let found = both(&bytes, &small()).unwrap();
        let tar = Tar::from_bytes(&bytes, &small()).unwrap();
        let rows = fs::read_to_string(golden(&format!("{name}.json"))).unwrap();
        let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
        assert_eq!((found.len(), rows.as_array().unwrap().len()), (samples, samples), "{name}");
        for ((key, record), row) in found.iter().zip(rows.as_array().unwrap()) {
            assert_eq!(key, row["key"].as_str().unwrap());
            assert_eq!(tar.facts().fields.len(), row["parts"].as_object().unwrap().len());
            for (field, value) in tar.facts().fields.iter().zip(record.as_ref().unwrap()) {
                check(value, &row["parts"][&field.name]);
            }
        }
    }
}

#[test]
fn shards_named_by_a_text_are_one_dataset() {
    let spec = golden("tiny-{0..1}.tar");
    let tar = Tar::open_shards(spec.to_str().unwrap(), &small()).unwrap();
    assert_eq!(tar.facts().samples, 5);
    let pages = (0..6).map(|sample| tar.locality_group(SampleId(sample))).collect::<Vec<_>>();
    assert_eq!(pages, [Some(0), Some(0), Some(0), Some(1), Some(1), None]);
    let location = tar.locate(SampleId(4), 0).unwrap();
    assert_eq!(location.key.as_deref(), Some("train/0004"));
    let cls = tar.facts().fields.iter().position(|field| field.name == "cls").unwrap();
    let value = tar.value(SampleId(4), cls, &mut Buffer::default()).map(OwnedValue::from);
    assert_eq!(value.unwrap(), OwnedValue::Int(25));
    let stream = TarStream::open_shards(spec.to_str().unwrap(), &small()).unwrap();
    assert_eq!(in_sequence(&stream).unwrap(), in_order(&tar));
    let message = tar.read(SampleId(5)).unwrap_err().to_string();
    assert_eq!(message, "sample 5 does not exist: the shards have 5 samples");
}

#[test]
fn compressed_shards_have_the_same_samples() {
    let plain = fs::read(golden("tiny-0.tar")).unwrap();
    let expected = both(&plain, &small()).unwrap();
    let gz = fs::read(golden("tiny-0.tar.gz")).unwrap();
    // Two frames of the `zstd` tool with a skippable one between them.
    let zst = fs::read(golden("tiny-0.tar.zst")).unwrap();
    for packed in [gz, zst] {
        let stream = TarStream::from_bytes(&packed, &small()).unwrap();
        assert_eq!(in_sequence(&stream).unwrap(), expected);
        let message = Tar::from_bytes(&packed, &small()).map(drop).unwrap_err().to_string();
        assert!(message.contains("open it as a stream"), "{message}");
    }
}
