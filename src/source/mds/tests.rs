//! Datasets written by hand: what is wrong with an index, a shard or a value is said.

use super::*;
use crate::source::OwnedValue;
use serde_json::{Value as Json, json};
use std::fs;

/// Returns the index of a shard with these columns: their names, encodings and sizes.
fn index(columns: &[(&str, &str, Option<u32>)], samples: usize, bytes: usize) -> Json {
    let of =
        |get: fn(&(&str, &str, Option<u32>)) -> Json| columns.iter().map(get).collect::<Vec<_>>();
    json!({"version": 2, "shards": [{
        "format": "mds", "version": 2, "samples": samples, "compression": null, "hashes": [],
        "column_names": of(|column| json!(column.0)),
        "column_encodings": of(|column| json!(column.1)),
        "column_sizes": of(|column| json!(column.2)),
        "raw_data": {"basename": "shard.00000.mds", "bytes": bytes, "hashes": {}},
        "zip_data": null,
    }]})
}

/// Returns a shard of samples, each with the values of all columns.
fn shard(columns: &[(&str, &str, Option<u32>)], samples: &[&[&[u8]]]) -> Vec<u8> {
    let bodies = samples.iter().map(|values| {
        let sizes = columns.iter().zip(*values).filter(|(column, _)| column.2.is_none());
        let mut body: Vec<u8> =
            sizes.flat_map(|(_, value)| (value.len() as u32).to_le_bytes()).collect();
        values.iter().for_each(|value| body.extend_from_slice(value));
        body
    });
    let bodies: Vec<Vec<u8>> = bodies.collect();
    let mut at = 4 * (samples.len() as u32 + 2);
    let mut bytes = (samples.len() as u32).to_le_bytes().to_vec();
    bytes.extend(at.to_le_bytes());
    for body in &bodies {
        at += body.len() as u32;
        bytes.extend(at.to_le_bytes());
    }
    bytes.extend(bodies.concat());
    bytes
}

fn opened(columns: &[(&str, &str, Option<u32>)], samples: &[&[&[u8]]]) -> Result<Mds, Error> {
    let bytes = shard(columns, samples);
    let index = index(columns, samples.len(), bytes.len()).to_string();
    Mds::from_bytes(index.as_bytes(), &bytes, &MdsOptions::default().limits(Limits::SMALL))
}

/// Returns what is said of the only value of a column.
fn said(encoding: &str, value: &[u8]) -> String {
    let columns = [("x", encoding, None)];
    // Opening reads the first values of some encodings.
    let mds = match opened(&columns, &[&[value]]) {
        Ok(mds) => mds,
        Err(error) => return error.to_string(),
    };
    match mds.read(SampleId(0)) {
        Ok(record) => format!("{record:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_index_that_is_not_one_of_mds_is_refused() {
    let good = index(&[("x", "int", Some(8))], 1, 20);
    let message = |change: fn(&mut Json)| {
        let mut index = good.clone();
        change(&mut index);
        let opened =
            Mds::from_bytes(index.to_string().as_bytes(), &[0; 20], &MdsOptions::default());
        opened.err().map(|error| error.to_string()).unwrap()
    };
    fn first(index: &mut Json) -> &mut Json {
        &mut index["shards"][0]
    }
    for (change, part) in [
        ((|index| index["version"] = json!(3)) as fn(&mut Json), "version 3, expected 2"),
        (|index| index["shards"] = json!([]), "lists no shards"),
        (|index| index["shards"] = json!(7), "no list `shards`"),
        (|index| first(index)["format"] = json!("csv"), "the format is csv, expected mds"),
        (|index| first(index)["samples"] = json!(-1), "`samples` is missing"),
        (|index| first(index)["column_names"] = json!([]), "0 names, 1 encodings and 1 sizes"),
        (|index| first(index)["column_sizes"] = json!([4]), "its size is 4, expected 8"),
        (|index| first(index)["column_sizes"] = json!(["a"]), "its size is \"a\""),
        (|index| first(index)["column_encodings"] = json!(["pkl"]), "pickles are never loaded"),
        (|index| first(index)["column_encodings"] = json!(["int128"]), "its encoding is int128"),
        (|index| first(index)["column_encodings"] = json!(["ndarray:int8:0"]), "ndarray:int8:0"),
        (|index| first(index)["column_encodings"] = json!(["ndarray:int7"]), "ndarray:int7"),
        (
            |index| {
                let side = "4294967296";
                first(index)["column_encodings"] = json!([format!("ndarray:int8:{side},{side}")]);
            },
            "its encoding is ndarray",
        ),
        (|index| first(index)["raw_data"]["basename"] = json!("../x"), "is not the name of a file"),
        (
            |index| first(index)["raw_data"]["basename"] = json!("/etc/x"),
            "is not the name of a file",
        ),
        (|index| first(index)["raw_data"]["basename"] = json!("a\\b"), "is not the name of a file"),
        (|index| first(index)["raw_data"] = Json::Null, "`raw_data` is missing"),
        (|index| first(index)["raw_data"]["bytes"] = json!(19), "20 bytes, and the index lists 19"),
        (|index| first(index)["samples"] = json!(2), "0 samples, and the index lists 2"),
        (|index| first(index)["samples"] = json!(u64::MAX), "too few for the"),
        (
            |index| {
                let mut second = first(index).clone();
                second["column_names"] = json!(["y"]);
                index["shards"].as_array_mut().unwrap().push(second);
            },
            "shard 1 of the index: its columns are not those of shard 0",
        ),
    ] {
        let found = message(change);
        assert!(found.contains(part), "{found}\n{part}");
    }
    let found = Mds::from_bytes(b"{", &[], &MdsOptions::default()).err().unwrap().to_string();
    assert!(found.starts_with("the index is not JSON"), "{found}");
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let error = opened(&[("x", "str", None), ("x", "str", None)], &[]).err().unwrap().to_string();
    assert!(error.contains("two columns have the name x"), "{error}");
}

#[test]
fn a_value_that_is_not_of_its_encoding_is_damage() {
    let list = |sizes: &[u32], rest: &[u8]| {
        let words: Vec<u32> =
            std::iter::once(sizes.len() as u32).chain(sizes.iter().copied()).collect();
        [words.iter().flat_map(|word| word.to_le_bytes()).collect(), rest.to_vec()].concat()
    };
    let pil = |sides: [u32; 2], mode: &[u8], pixels: &[u8]| {
        let words = [sides[0], sides[1], mode.len() as u32];
        [words.iter().flat_map(|word| word.to_le_bytes()).collect(), mode.to_vec(), pixels.to_vec()]
            .concat()
    };
    for (encoding, value, part) in [
        ("str", b"\xff".to_vec(), "the text is not UTF-8 from its byte 0 on"),
        ("json", b"{\0}".to_vec(), "JSON with a NUL at its byte 1"),
        ("jpeg", b"text".to_vec(), "an image in no format that is read"),
        ("str_int", b"1.5".to_vec(), "\"1.5\" is not a whole number"),
        ("str_float", b"x".to_vec(), "\"x\" is not a number"),
        ("uint64", u64::MAX.to_le_bytes().to_vec(), "over the largest int64"),
        ("float32", vec![0; 3], "a float of 3 bytes"),
        ("pil", vec![0; 5], "ends in its header"),
        ("pil", pil([1, 1], b"CMYK", &[0; 4]), "PIL's mode CMYK, expected RGB"),
        ("pil", pil([2, 1], b"RGB", &[0; 5]), "width 2 and height 1 with 5 bytes"),
        ("pil", pil([u32::MAX, u32::MAX], b"RGB", &[0; 5]), "with 5 bytes of pixels"),
        ("ndarray", vec![], "ends in its header"),
        ("ndarray", vec![7], "whose dtype is 7"),
        ("ndarray", vec![8, 2 << 2 | 1, 1, 0, 2], "ends in its header"),
        ("ndarray", vec![8, 1 << 2, 3, 0, 0], "shape [3] and dtype |u1 with 2 bytes"),
        ("ndarray:int8", [&[4 << 2 | 3][..], &[0xff; 32]].concat(), "with 0 bytes of elements"),
        ("jpegarray", list(&[], b""), "lists of 0 images"),
        ("jpegarray", list(&[2], b"\xff\xd8\xff"), "1 bytes after its last element"),
        ("jpegarray", list(&[u32::MAX], b"x"), "ends before its elements"),
        ("jpegarray", u32::MAX.to_le_bytes().to_vec(), "ends before its elements"),
    ] {
        let found = said(encoding, &value);
        assert!(found.contains(part), "{encoding}: {found}\n{part}");
    }
}

#[test]
fn values_are_those_of_their_encodings() {
    let gray = [&[2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0][..], b"L\x07\x09"].concat();
    for (encoding, value, wanted) in [
        ("int8", vec![0xfe], "[Int(-2)]"),
        ("uint8", vec![0xfe], "[Int(254)]"),
        ("float16", vec![0, 0x3c], "[Float(1.0)]"),
        ("str_decimal", b"1E+2".to_vec(), "[Float(100.0)]"),
        ("str_float", b"inf".to_vec(), "[Float(inf)]"),
        ("bytes", b"ab".to_vec(), "[Bytes([97, 98])]"),
        ("json", b"{}".to_vec(), "[Json([123, 125, 0])]"),
        ("ndarray", vec![17, 1 << 2, 1, 5, 0], "[NdArray([5, 0])]"),
    ] {
        assert_eq!(said(encoding, &value), wanted, "{encoding}");
    }
    assert!(said("bytes", b"\xff\xd8\xff\xe0").contains("Jpeg"), "bytes of an image file");
    assert!(said("pil", &gray).contains("bytes: [7, 7, 7, 9, 9, 9]"), "{}", said("pil", &gray));
}

#[test]
fn a_sample_whose_sizes_do_not_add_up_is_damage_and_the_others_are_read() {
    let columns = [("a", "str", None), ("b", "int", Some(8)), ("c", "str", None)];
    let one = [&b"x"[..], &[1, 0, 0, 0, 0, 0, 0, 0], b"yz"];
    let mut bytes = shard(&columns, &[&one, &one]);
    let at = 4 * 4;
    assert_eq!(bytes[at], 1, "the size of the first text");
    bytes[at] = 3;
    let index = index(&columns, 2, bytes.len()).to_string();
    let mds = Mds::from_bytes(index.as_bytes(), &bytes, &MdsOptions::default()).unwrap();
    let error = mds.read(SampleId(0)).unwrap_err().to_string();
    assert!(error.contains("a sample of 19 bytes whose columns have 21"), "{error}");
    assert!(error.contains("sample 0 of the shard, a (from byte 16 on)"), "{error}");
    assert_eq!(mds.read(SampleId(1)).unwrap().len(), 3);
    assert!(mds.read(SampleId(2)).is_err());
    let mut buffer = Buffer::default();
    assert_eq!(mds.value(SampleId(1), 1, &mut buffer).unwrap(), Value::Int(1));
    assert_eq!(mds.value(SampleId(1), 2, &mut buffer).unwrap(), Value::Bytes(b"yz"));
    assert_eq!(mds.facts().longest(2), Some(2));
}

#[test]
fn arrays_that_differ_in_their_first_axis_are_npy_files() {
    let columns = [("x", "ndarray:uint8", None)];
    let samples: [&[&[u8]]; 3] = [&[&[1 << 2, 2, 5, 6]], &[&[1 << 2, 1, 7]], &[&[2 << 2, 1, 1, 7]]];
    let mds = opened(&columns, &samples[..2]).unwrap();
    assert_eq!(mds.facts().fields[0].kind, FieldKind::Bytes);
    let OwnedValue::Bytes(file) = &mds.read(SampleId(1)).unwrap()[0] else { panic!("no bytes") };
    let array = npy::parse(file).unwrap();
    assert_eq!((array.shape, &*array.elements), (vec![1], &[7][..]));
    assert!(mds.facts().longest(0).unwrap() >= file.len() as u64);
    // A third sample of another number of axes makes the first one's shape that of all.
    let mds = opened(&columns, &samples).unwrap();
    let error = mds.read(SampleId(1)).unwrap_err().to_string();
    assert!(error.contains("an array of shape [1] and dtype |u1, expected [2]"), "{error}");
}

#[test]
fn a_shard_that_is_missing_or_packed_otherwise_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let columns = [("x", "int", Some(8))];
    let bytes = shard(&columns, &[&[&[0; 8]]]);
    let mut index = index(&columns, 1, bytes.len());
    let open = |index: &Json| {
        fs::write(dir.path().join(INDEX), index.to_string()).unwrap();
        Mds::open(dir.path(), &MdsOptions::default())
    };
    let error = open(&index).unwrap_err();
    assert!(error.to_string().contains("shard.00000.mds"), "{error}");
    assert!(error.next_step().is_some_and(|help| help.contains("StreamingDataset")), "{error}");
    for (name, part) in [("br:5", "packed by br"), ("snappy", "packed by snappy")] {
        index["shards"][0]["compression"] = json!(name);
        index["shards"][0]["zip_data"] = json!({"basename": "x.z", "bytes": 3, "hashes": {}});
        fs::write(dir.path().join("x.z"), "abc").unwrap();
        let error = open(&index).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    // The plain file next to it is read instead.
    fs::write(dir.path().join("shard.00000.mds"), &bytes).unwrap();
    assert_eq!(open(&index).unwrap().read(SampleId(0)).unwrap(), [OwnedValue::Int(0)]);
    fs::remove_file(dir.path().join("shard.00000.mds")).unwrap();
    // A packed file that is damaged, and one that unpacks to other sizes.
    for (compression, packed, part) in [
        ("gz", b"abc".to_vec(), "x.z"),
        ("zstd", b"abc".to_vec(), "x.z"),
        ("zstd", zstd(&bytes[1..]), "it unpacks to 19 bytes, and the index lists 20"),
        ("zstd", zstd(&[&bytes[..], &[0; 9]].concat()), "it unpacks to more than 20 bytes"),
        ("zstd", zstd(&[0; 20]), "0 samples, and the index lists 1"),
    ] {
        index["shards"][0]["compression"] = json!(compression);
        index["shards"][0]["zip_data"]["bytes"] = json!(packed.len());
        fs::write(dir.path().join("x.z"), packed).unwrap();
        let error = open(&index).unwrap().read(SampleId(0)).unwrap_err().to_string();
        assert!(error.contains(part), "{compression}: {error}");
    }
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn a_folder_of_splits_asks_for_one() {
    let dir = tempfile::tempdir().unwrap();
    for split in ["train", "val"] {
        fs::create_dir(dir.path().join(split)).unwrap();
        fs::write(dir.path().join(split).join(INDEX), "{\"shards\": []}").unwrap();
    }
    let error = Mds::open(dir.path(), &MdsOptions::default()).unwrap_err().to_string();
    assert!(error.contains("open one of them") && error.contains("train, val"), "{error}");
}
