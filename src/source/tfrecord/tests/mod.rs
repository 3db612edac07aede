//! TensorFlow's own files, and files written by hand. Damaged ones are in `damaged.rs`.

mod damaged;
mod detection;
mod plain;

use super::*;
use crate::sample::Epoch;
use crate::source::stream::{Item, Pass, Stream};
use crate::source::{ImageMode, OwnedImage, OwnedValue};
use arbitrary::Unstructured;
use plain::{Numbers, example, framed};
use serde_json::Value as Json;
use std::fs;

fn golden(name: &str) -> String {
    format!("{}/tests/golden/tfrecord/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn golden_records(name: &str) -> Vec<Json> {
    serde_json::from_slice(&fs::read(golden(name)).unwrap()).unwrap()
}

fn bytes(hex: &Json) -> Vec<u8> {
    let pairs = hex.as_str().unwrap().as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

/// Numbers as they are stored in an array.
fn packed(values: &Json) -> Vec<u8> {
    let values = values.as_array().unwrap().iter();
    let bytes = values.map(|value| match value.as_i64() {
        Some(int) => int.to_le_bytes().to_vec(),
        None => (value.as_f64().unwrap() as f32).to_le_bytes().to_vec(),
    });
    bytes.flatten().collect()
}

/// The records of `examples.tfrecord`, by the names of their features.
fn want(names: &[&str]) -> Vec<Record> {
    let value = |record: &Json, name: &str| {
        let values = &record["features"][name];
        match name {
            "image/encoded" => {
                let bytes = bytes(&values[0]);
                let mode = ImageMode::of_file(&bytes);
                OwnedValue::Image(OwnedImage { mode, width: 0, height: 0, bytes })
            }
            "image/class/text" => OwnedValue::Bytes(bytes(&values[0])),
            "image/class/label" => OwnedValue::Int(values[0].as_i64().unwrap()),
            "score" => OwnedValue::Float(values[0].as_f64().unwrap()),
            _ => OwnedValue::NdArray(packed(values)),
        }
    };
    let records = golden_records("examples.json");
    records.iter().map(|record| names.iter().map(|name| value(record, name)).collect()).collect()
}

const ALL: [&str; 6] =
    ["box", "ids", "image/class/label", "image/class/text", "image/encoded", "score"];

fn of_bytes(bytes: &[u8], options: &TfOptions) -> Result<TfRecords, BoxError> {
    TfRecords::from_bytes(bytes, options)
}

fn all(source: &TfRecords) -> Vec<Record> {
    (0..source.facts().samples).map(|sample| source.read(SampleId(sample)).unwrap()).collect()
}

#[test]
fn tensorflows_examples_are_read() {
    let source = TfRecords::open(&golden("examples.tfrecord"), &TfOptions::default()).unwrap();
    let names: Vec<_> = source.facts().fields.iter().map(|field| &field.name[..]).collect();
    assert_eq!(names, ALL);
    assert_eq!(all(&source), want(&ALL));
    let mut buffer = Buffer::default();
    for (sample, record) in (0..).map(SampleId).zip(want(&ALL)) {
        for (field, want) in record.iter().enumerate() {
            assert_eq!(source.value(sample, field, &mut buffer).unwrap(), want.borrowed());
            assert!(want.fits(&source.facts().fields[field].kind));
        }
        buffer.forget();
    }
    assert!(source.value(SampleId(7), 0, &mut buffer).is_err());
    assert!(source.value(SampleId(0), 6, &mut buffer).is_err());
    assert_eq!(source.locate(SampleId(3), 0).unwrap().key.as_deref(), Some("examples.tfrecord:3"));

    let names = ["score", "image/encoded", "ids"];
    let options = TfOptions::default()
        .feature(names[0], Feature::Float)
        .feature(names[1], Feature::Image)
        .feature(names[2], Feature::Ints { len: 3 });
    let spec = golden("examples.tfrecord");
    let source = TfRecords::open(&format!("{spec}::{spec}"), &options).unwrap();
    let twice = [want(&names), want(&names)].concat();
    assert_eq!(all(&source), twice);
    assert_eq!(
        (source.locality_group(SampleId(6)), source.locality_group(SampleId(7))),
        (Some(0), Some(1))
    );
}

#[test]
fn tensorflows_sequences_are_read() {
    let golden_records = golden_records("sequences.json");
    let options = TfOptions::default()
        .feature("id", Feature::Int)
        .feature("name", Feature::Bytes)
        .steps("fixed", Feature::Ints { len: 2 }, 3)
        .ragged_steps("steps", Feature::Float);
    let source = TfRecords::open(&golden("sequences.tfrecord"), &options).unwrap();
    assert_eq!(source.facts().fields[2].kind.array_bytes(), Some(3 * 2 * 8));
    let steps =
        |list: &Json| -> Vec<u8> { list.as_array().unwrap().iter().flat_map(packed).collect() };
    let want = |record: &Json| {
        vec![
            OwnedValue::Int(record["features"]["id"][0].as_i64().unwrap()),
            OwnedValue::Bytes(bytes(&record["features"]["name"][0])),
            OwnedValue::NdArray(steps(&record["lists"]["fixed"])),
            OwnedValue::Bytes(steps(&record["lists"]["steps"])),
        ]
    };
    assert_eq!(all(&source), golden_records.iter().map(want).collect::<Vec<_>>());

    let guessed = TfRecords::open(&golden("sequences.tfrecord"), &TfOptions::default()).unwrap();
    let names: Vec<_> = guessed.facts().fields.iter().map(|field| &field.name[..]).collect();
    assert_eq!(names, ["fixed", "id", "name"], "the first record has no step of \"steps\"");
    let short = TfOptions::default().steps("steps", Feature::Float, 1);
    let source = TfRecords::open(&golden("sequences.tfrecord"), &short).unwrap();
    assert!(source.read(SampleId(1)).is_ok());
    let error = source.read(SampleId(2)).unwrap_err().to_string();
    assert!(error.ends_with("feature list steps has 2 steps, expected 1"), "{error}");
}

#[test]
fn records_are_the_same_by_a_joined_index() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        let to = dir.path().join(format!("{name}.tfrecord"));
        fs::copy(golden("examples.tfrecord"), to).unwrap();
    }
    fs::write(dir.path().join("none.tfrecord"), b"").unwrap();
    let spec = dir.path().join("{none,a,c,b}.tfrecord");
    let spec = spec.to_str().unwrap();
    let open = || TfRecords::open(spec, &TfOptions::default()).unwrap();
    let (scanned, report) = (open(), crate::source::join_index(spec, &|_, _| {}).unwrap());
    assert_eq!((report.shards, report.samples), (4, 21));
    let joined = open();
    assert_eq!(joined.facts().fingerprint, scanned.facts().fingerprint);
    assert_eq!(all(&joined), all(&scanned));
    for sample in (0..22).map(SampleId) {
        assert_eq!(joined.locate(sample, 0), scanned.locate(sample, 0));
        assert_eq!(joined.locality_group(sample), scanned.locality_group(sample));
    }
    fs::write(dir.path().join("c.tfrecord"), b"another").unwrap();
    let error = open().read(SampleId(8)).unwrap_err().to_string();
    assert!(error.contains("c.tfrecord") && error.contains("belongs to another file"), "{error}");
    assert!(open().read(SampleId(15)).is_ok());
}

const PASS: Pass = Pass { seed: 5, epoch: Epoch(0), turn: 0 };

fn streamed(stream: &Stream, skipped: u64) -> (u64, Vec<Record>) {
    let mut items = stream.open(&PASS).unwrap();
    let passed = items.skip(skipped).unwrap();
    let mut records = vec![];
    while let Some(item) = items.next().unwrap() {
        records.push(item.read().unwrap());
    }
    assert!(items.next().unwrap().is_none());
    (passed, records)
}

#[test]
fn compressed_and_plain_files_stream_the_same() {
    let names = ["examples", "examples_gzip", "examples_zlib"].map(|name| {
        let path = golden(&format!("{name}.tfrecord"));
        let is_indexed = name == "examples";
        let stream = Stream::from(TfRecordStream::open(&path, &TfOptions::default()).unwrap());
        let first = stream.open(&PASS).unwrap().next().unwrap();
        assert_eq!(matches!(first, Some(Item::At { .. })), is_indexed, "{name}");
        if !is_indexed {
            let error =
                TfRecords::open(&path, &TfOptions::default()).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("compressed: it can only be read as a stream"), "{error}");
        }
        path
    });
    let stream = TfRecordStream::open(&names.join("::"), &TfOptions::default()).unwrap();
    let whole = [want(&ALL), want(&ALL), want(&ALL)].concat();
    for skipped in 0..25 {
        let (passed, left) = streamed(&stream.clone().into(), skipped);
        assert_eq!(passed, skipped.min(21));
        assert_eq!(left, whole[passed as usize..], "{skipped} skipped");
    }
    let apart: Vec<_> = stream.shards().iter().flat_map(|shard| streamed(shard, 0).1).collect();
    assert_eq!(apart, whole);
    let own = stream.clone().split_by_rank(1, 2).unwrap();
    assert_eq!(own.shards().len(), 1);
    assert_eq!(streamed(&own.into(), 0).1.len(), 7);
    let error = stream.clone().split_by_rank(0, 4).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("3 shards for 4 ranks"), "{error}");
    assert!(stream.split_by_rank(2, 2).is_err());
}

#[test]
fn ranks_share_the_shuffled_shards() {
    let dir = tempfile::tempdir().unwrap();
    for shard in 0..9 {
        let record = framed(&example(&[("n", &Numbers::Ints(vec![shard]))]));
        fs::write(dir.path().join(format!("{shard}.tfrecord")), record).unwrap();
    }
    let spec = format!("{}/*.tfrecord", dir.path().display());
    let stream = TfRecordStream::open(&spec, &TfOptions::default()).unwrap();
    let numbers = |stream: TfRecordStream, pass: &Pass| {
        let (mut items, mut found) = (Stream::from(stream).open(pass).unwrap(), vec![]);
        while let Some(item) = items.next().unwrap() {
            match item.read().unwrap()[..] {
                [OwnedValue::Int(number)] => found.push(number),
                _ => panic!("one number"),
            }
        }
        found
    };
    assert_eq!(numbers(stream.clone(), &PASS), (0..9).collect::<Vec<_>>());
    let shuffled = stream.shuffle_shards();
    let whole = numbers(shuffled.clone(), &PASS);
    let other = numbers(shuffled.clone(), &Pass { epoch: Epoch(1), ..PASS });
    assert_ne!(whole, other);
    for rank in 0..2 {
        let own = numbers(shuffled.clone().split_by_rank(rank, 2).unwrap(), &PASS);
        assert_eq!(own, whole.iter().copied().skip(rank).step_by(2).collect::<Vec<_>>());
    }
}

fn numbers(u: &mut Unstructured<'_>) -> arbitrary::Result<Numbers> {
    Ok(match u.int_in_range(0..=2)? {
        0 => Numbers::Bytes(u.arbitrary()?),
        1 => Numbers::Floats(u.arbitrary()?),
        _ => Numbers::Ints(u.arbitrary()?),
    })
}

/// The type and value of a feature, by the table at the top of `features.rs`.
fn expected(values: &Numbers) -> Option<(Feature, OwnedValue)> {
    let floats = |all: &[f32]| all.iter().flat_map(|value| value.to_le_bytes()).collect();
    let ints = |all: &[i64]| all.iter().flat_map(|value| value.to_le_bytes()).collect();
    Some(match values {
        Numbers::Bytes(all) if all.len() == 1 => {
            (Feature::Bytes, OwnedValue::Bytes(all[0].clone()))
        }
        Numbers::Bytes(_) => return None,
        Numbers::Floats(all) if all.len() == 1 => {
            (Feature::Float, OwnedValue::Float(all[0].into()))
        }
        Numbers::Ints(all) if all.len() == 1 => (Feature::Int, OwnedValue::Int(all[0])),
        Numbers::Floats(all) if all.is_empty() => {
            (Feature::RaggedFloats, OwnedValue::Bytes(vec![]))
        }
        Numbers::Ints(all) if all.is_empty() => (Feature::RaggedInts, OwnedValue::Bytes(vec![])),
        Numbers::Floats(all) => {
            (Feature::Floats { len: all.len() as u64 }, OwnedValue::NdArray(floats(all)))
        }
        Numbers::Ints(all) => {
            (Feature::Ints { len: all.len() as u64 }, OwnedValue::NdArray(ints(all)))
        }
    })
}

#[test]
fn what_another_encoder_wrote_is_read() {
    let mut read = 0;
    arbtest::arbtest(|u| {
        let (mut features, mut options) = (vec![], TfOptions::default());
        let (mut record, mut names) = (vec![], vec![]);
        for index in 0..u.int_in_range(1..=6)? {
            names.push(format!("{}{index}", u.arbitrary::<String>()?));
            features.push(numbers(u)?);
        }
        for (name, values) in names.iter().zip(&features) {
            if let Some((feature, value)) = expected(values) {
                options = options.feature(name, feature);
                record.push(value);
            }
        }
        let pairs: Vec<_> = names.iter().map(String::as_str).zip(&features).collect();
        let file = [framed(&example(&pairs)), framed(&example(&pairs))].concat();
        if record.is_empty() {
            return Ok(());
        }
        let shown = |record: &Record| format!("{record:?}"); // NaN is itself
        let source = of_bytes(&file, &options).unwrap();
        assert_eq!(all(&source).iter().map(shown).collect::<Vec<_>>(), vec![shown(&record); 2]);
        read += 1;
        Ok(())
    })
    .budget_ms(500);
    assert!(read > 50, "{read} files tested anything");
}
