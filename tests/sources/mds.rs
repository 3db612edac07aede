//! MDS shards that mosaicml-streaming wrote (scripts/mds_goldens.py), and those of ../shared where they are.

use fuseloop::source::{Buffer, Dataset, Mds, MdsOptions, OwnedValue, Source, Value};
use fuseloop::verify::{VerifyOptions, verify};
use fuseloop::{Loader, Order, SampleId, ops::*};
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

const GOLDEN: &str = "tests/golden/mds";

fn open(name: &str) -> Mds {
    Mds::open(Path::new(GOLDEN).join(name), &MdsOptions::default()).unwrap()
}

fn numbers<const N: usize>(bytes: &[u8], of: fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|chunk| of(*chunk)).collect()
}

/// Every value is that of `StreamingDataset`, in plain and in packed shards.
#[test]
fn values_are_those_of_streaming_dataset() {
    let text = fs::read_to_string(Path::new(GOLDEN).join("expected.json")).unwrap();
    let expected: Vec<Json> = serde_json::from_str(&text).unwrap();
    for name in ["plain", "zstd", "gz"] {
        let mds = open(name);
        assert_eq!(mds.facts().samples, expected.len() as u64, "{name}");
        for (sample, wanted) in (0..).map(SampleId).zip(&expected) {
            let record = mds.read(sample).unwrap();
            for (field, value) in mds.facts().fields.iter().zip(record) {
                check(&field.name, value, wanted);
            }
        }
    }
}

fn check(name: &str, value: OwnedValue, sample: &Json) {
    let hash = |bytes: &[u8]| {
        let digest = hmac_sha256::Hash::hash(bytes);
        digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    // An image of a list is a field of its own.
    let listed = name.rsplit_once('_').filter(|(column, _)| sample[*column].is_array());
    let wanted = match listed {
        Some((column, nth)) => &sample[column][nth.parse::<usize>().unwrap()],
        None => &sample[name],
    };
    match (name, value) {
        ("meta", OwnedValue::Json(text)) => {
            let found: Json = serde_json::from_slice(text.strip_suffix(&[0]).unwrap()).unwrap();
            assert_eq!(found, *wanted, "{name}");
        }
        ("caption", OwnedValue::Bytes(text)) => {
            assert_eq!(String::from_utf8(text).unwrap(), wanted.as_str().unwrap());
        }
        ("ragged", OwnedValue::Bytes(file)) => {
            assert!(file.starts_with(b"\x93NUMPY"), "{name}");
            let elements =
                numbers(&file[file.len() - 2 * wanted.as_array().unwrap().len()..], |two| {
                    u16::from_le_bytes(two).into()
                });
            assert_eq!(
                serde_json::json!(elements.iter().map(|x| *x as i64).collect::<Vec<_>>()),
                *wanted
            );
        }
        ("b", OwnedValue::Bytes(bytes)) => assert_eq!(hash(&bytes), wanted.as_str().unwrap()),
        (_, OwnedValue::Int(found)) => assert_eq!(Some(found), wanted.as_i64(), "{name}"),
        (_, OwnedValue::Float(found)) => assert_eq!(Some(found), wanted.as_f64(), "{name}"),
        (_, OwnedValue::NdArray(bytes)) => {
            let found = match name {
                "fixed" => numbers(&bytes, |two| i16::from_le_bytes(two).into()),
                "typed" => numbers(&bytes, |four| f32::from_le_bytes(four).into()),
                _ => numbers(&bytes, |[one]| one.into()),
            };
            let wanted: Vec<f64> =
                wanted.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
            assert_eq!(found, wanted, "{name}");
        }
        // Pixels, and files that were written as they are. A PNG was encoded by Pillow.
        ("jpg" | "frames_0" | "frames_1" | "pil" | "gray", OwnedValue::Image(image)) => {
            assert_eq!(hash(&image.bytes), wanted.as_str().unwrap(), "{name}");
        }
        ("png" | "pair_0" | "pair_1", OwnedValue::Image(image)) => {
            assert!(image.bytes.starts_with(b"\x89PNG"), "{name}");
        }
        (_, value) => panic!("{name}: {value:?}"),
    }
}

/// Returns the values of a loader's batches: the numbers, and the sums of the pixels.
fn rows(loader: &Loader) -> Vec<(i64, u64)> {
    let mut rows = vec![];
    for batch in loader.epoch(1).unwrap() {
        let batch = batch.unwrap();
        let (numbers, images) =
            (batch.tensor::<i64>("n").unwrap(), batch.tensor::<u8>("png").unwrap());
        let pixels = images.as_slice().chunks_exact(images.as_slice().len() / batch.len());
        let sums = pixels.map(|image| image.iter().map(|&x| u64::from(x)).sum());
        rows.extend(numbers.as_slice().iter().copied().zip(sums));
    }
    rows
}

#[test]
fn loaders_read_plain_and_packed_shards_in_any_order() {
    let loader = |name: &str| {
        let keep = ["n", "png"];
        let mds = open(name);
        let without: Vec<String> =
            mds.facts().fields.iter().map(|field| field.name.clone()).collect();
        let builder = Loader::from_source(mds).batch_size(2).order(Order::Random).seed(7);
        let builder = builder.pipeline("png", ops![CenterCrop::new(6).unwrap()]);
        let without = without.iter().filter(|name| !keep.contains(&name.as_str()));
        without.fold(builder, |builder, name| builder.without(name)).build().unwrap()
    };
    let plain = rows(&loader("plain"));
    assert_eq!(plain.len(), 5);
    assert_ne!(plain.iter().map(|row| row.0).collect::<Vec<_>>(), [0, -1, -2, -3, -4]);
    for name in ["zstd", "gz"] {
        assert_eq!(rows(&loader(name)), plain, "{name}");
    }
    // Stopped after a batch, and resumed from its cursor.
    let loader = loader("zstd");
    let mut epoch = loader.epoch(1).unwrap();
    epoch.next().unwrap().unwrap();
    let cursor = epoch.cursor().unwrap();
    let rest: Vec<i64> = loader
        .resume(&cursor)
        .unwrap()
        .flat_map(|batch| batch.unwrap().tensor::<i64>("n").unwrap().as_slice().to_vec())
        .collect();
    assert_eq!(rest, plain[2..].iter().map(|row| row.0).collect::<Vec<_>>());
}

#[test]
fn a_small_budget_unpacks_shards_again_and_warns() {
    let options = MdsOptions::default().cache_bytes(9000);
    let open = || Mds::open(Path::new(GOLDEN).join("zstd"), &options).unwrap();
    let (mds, warnings) = fuseloop::internals::recorded_warnings(open);
    assert!(warnings.iter().any(|text| text.contains("unpacked again and again")), "{warnings:?}");
    let mut buffer = Buffer::default();
    let field = (&mds as &dyn Source).field_index("n").unwrap();
    for sample in [0, 4, 1, 3, 2] {
        let value = mds.value(SampleId(sample), field, &mut buffer).unwrap();
        assert_eq!(value, Value::Int(-(sample as i64)));
    }
    let refused = Mds::open(Path::new(GOLDEN).join("zstd"), &MdsOptions::default().cache_bytes(99));
    assert!(refused.unwrap_err().to_string().contains("raise cache_bytes"));
}

/// Copies a golden dataset.
fn copied(name: &str, to: &Path) {
    for entry in fs::read_dir(Path::new(GOLDEN).join(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn verify_compares_the_hashes_of_files() {
    for (name, file) in [("plain", "shard.00001.mds"), ("zstd", "shard.00000.mds.zstd")] {
        let dir = tempfile::tempdir().unwrap();
        copied(name, dir.path());
        let check = || {
            let mds = Mds::open(dir.path(), &MdsOptions::default()).unwrap();
            verify(&mds, &VerifyOptions::default(), &|_| {}).unwrap()
        };
        assert!(check().is_whole(), "{name}");
        let path: PathBuf = dir.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        // The last byte is one of a value: an image in the plain shard, the checksum in the other.
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        let report = check();
        let text = format!("{:?}", report.first);
        assert!(text.contains("its sha1 is") && text.contains(file), "{text}");
    }
}

#[test]
fn a_dataset_is_opened_by_its_folder_and_its_index() {
    for name in
        ["tests/golden/mds/plain", "tests/golden/mds/plain/", "tests/golden/mds/plain/index.json"]
    {
        let source = Dataset::open(name).unwrap().source().unwrap();
        assert_eq!(source.len(), 5, "{name}");
        let location = source.locate(SampleId(4), 0).unwrap();
        assert!(location.to_string().contains("shard.00001.mds"), "{location}");
    }
}

#[cfg(feature = "write")]
#[test]
fn a_dataset_is_converted_to_beton_and_tar() {
    use fuseloop::write::{WriteOptions, convert};
    let dir = tempfile::tempdir().unwrap();
    let source = open("zstd");
    for name in ["x.beton", "x.tar"] {
        let path = dir.path().join(name);
        // In a tar, the member of an image is named by its format.
        let options =
            WriteOptions { rename: vec![("png".into(), "picture".into())], ..Default::default() };
        convert(&source, &path, &options).unwrap();
        let written = Dataset::open(&path).unwrap().source().unwrap();
        assert_eq!(written.len(), 5, "{name}");
    }
}

#[test]
fn the_photographs_of_the_shared_folder_are_loaded() {
    for name in ["mds", "mds-zstd"] {
        let path = Path::new("../shared/data/tables").join(name);
        let path = std::env::var_os("FUSELOOP_SHARED")
            .map_or(path, |shared| Path::new(&shared).join("data/tables").join(name));
        if !path.exists() {
            continue;
        }
        let loader = Loader::open(&path)
            .unwrap()
            .batch_size(8)
            .pipeline("image", ops![CenterCrop::new(32).unwrap()])
            .build()
            .unwrap();
        let batches: Vec<_> = loader.epoch(0).unwrap().map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(|batch| batch.len()).sum::<usize>(), 24);
    }
}
