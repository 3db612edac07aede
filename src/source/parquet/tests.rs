//! Files that pyarrow and `datasets` wrote, and what they read from them: see `scripts/parquet_goldens.py`.

use super::*;
use crate::source::FieldKind;
use serde_json::Value as Json;
use std::fs;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/parquet").join(name)
}

fn expected(name: &str) -> Json {
    serde_json::from_slice(&fs::read(golden(name)).unwrap()).unwrap()
}

fn open(name: &str, split: Option<&str>) -> Result<Parquet, String> {
    Parquet::open(&golden(name), split, &Limits::SMALL).map_err(|error| error.to_string())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a value as the JSON of the goldens; a null for an error that says that the value is null.
fn shown(source: &Parquet, sample: u64, name: &str, buffer: &mut Buffer) -> Json {
    let field = source.facts().fields.iter().position(|field| field.name == name).unwrap();
    let column = &source.files[0].plan.columns[field];
    let value = match source.value(SampleId(sample), field, buffer) {
        Ok(value) => value,
        Err(error) if error.to_string().ends_with("it is null") => return Json::Null,
        Err(error) => panic!("{name}, sample {sample}: {error}"),
    };
    match value {
        Value::Int(value) => match &column.how {
            How::Classes(texts) => texts[value as usize].as_str().into(),
            _ => value.into(),
        },
        Value::Float(value) => value.into(),
        Value::Image(image) => hex(image.bytes).into(),
        Value::Json(text) => serde_json::from_slice(text.strip_suffix(&[0]).unwrap()).unwrap(),
        Value::Bytes(bytes) if column.leaf.axes.is_empty() => match std::str::from_utf8(bytes) {
            Ok(text) if column.leaf.is_text() => text.into(),
            _ => hex(bytes).into(),
        },
        Value::Bytes(bytes) | Value::NdArray(bytes) => {
            let (dtype, mut shape) = match &column.how {
                How::Array(dtype, shape) => (*dtype, shape[1..].to_vec()),
                How::Rows(dtype, row) => (*dtype, row.clone()),
                how => panic!("{name}: {how:?}"),
            };
            let number = |bytes: &[u8]| -> Json {
                match dtype.to_string().as_str() {
                    "|u1" => bytes[0].into(),
                    "<i2" => i16::from_le_bytes(bytes.try_into().unwrap()).into(),
                    "<i8" => i64::from_le_bytes(bytes.try_into().unwrap()).into(),
                    "<f4" => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
                    "<f8" => f64::from_le_bytes(bytes.try_into().unwrap()).into(),
                    other => panic!("{other}"),
                }
            };
            let mut values: Vec<Json> =
                bytes.chunks(dtype.item_size() as usize).map(number).collect();
            while let Some(len) = shape.pop() {
                values = values.chunks(len as usize).map(|row| row.to_vec().into()).collect();
            }
            values.into()
        }
        other => panic!("{other:?}"),
    }
}

/// The floats of the goldens, as the numbers that they are.
fn number(value: &Json) -> Json {
    match value {
        Json::Array(values) => values.iter().map(number).collect::<Vec<_>>().into(),
        Json::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), number(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Json::Bool(value) => f64::from(u8::from(*value)).into(),
        Json::Number(value) => value.as_f64().into(),
        other => other.clone(),
    }
}

#[test]
fn columns_are_read_as_pyarrow_reads_them() {
    let columns = expected("plain.json");
    for codec in ["none", "snappy", "gzip", "zstd", "lz4", "v2"] {
        let source = open(&format!("plain-{codec}.parquet"), None).unwrap();
        let names: Vec<_> = source.facts().fields.iter().map(|field| field.name.clone()).collect();
        assert_eq!(
            names.join(" "),
            "jpg class width score flag small half time embedding tokens grid ragged tags meta.a meta.b extra"
        );
        let mut buffer = Buffer::default();
        // In an order in which pages are read again.
        for sample in (0..24).map(|sample| sample * 7 % 24) {
            for name in names.iter().filter(|name| !name.starts_with("meta")) {
                let found = shown(&source, sample, name, &mut buffer);
                let expected = &columns[name][sample as usize];
                assert_eq!(number(&found), number(expected), "{codec}, {name}, sample {sample}");
            }
            let a = shown(&source, sample, "meta.a", &mut buffer);
            let b = shown(&source, sample, "meta.b", &mut buffer);
            assert_eq!(columns["meta"][sample as usize], serde_json::json!({"a": a, "b": b}));
        }
        let groups: Vec<_> =
            (0..24).map(|sample| source.locality_group(SampleId(sample)).unwrap()).collect();
        assert_eq!(groups, [vec![0; 10], vec![1; 10], vec![2; 4]].concat());
    }
}

#[test]
fn kinds_are_those_of_the_types() {
    let source = open("plain-zstd.parquet", None).unwrap();
    let kind = |name: &str| {
        source.facts().fields.iter().find(|field| field.name == name).unwrap().kind.clone()
    };
    let array = |dtype: &str, shape: &[u64]| FieldKind::NdArray {
        dtype: dtype.parse().unwrap(),
        shape: shape.to_vec(),
    };
    assert_eq!(kind("jpg"), FieldKind::RgbImage);
    assert_eq!(kind("class"), FieldKind::Int, "texts of classes");
    assert_eq!(kind("embedding"), array("<f4", &[4]));
    assert_eq!(kind("grid"), array("<i2", &[2, 3]), "nulls have no shape");
    assert_eq!(kind("tokens"), FieldKind::Bytes);
    for name in ["ragged", "tags", "extra"] {
        assert_eq!(kind(name), FieldKind::Json, "{name}");
    }
}

#[test]
fn the_hubs_layout_and_features_are_read() {
    let rows = expected("hub.json");
    let refused = open("hub", None).err().unwrap();
    assert!(refused.contains("several splits (test, train): name one by `split`"), "{refused}");
    for (split, first, samples) in [("train", 0, 20), ("test", 20, 4)] {
        let source = open("hub", Some(split)).unwrap();
        assert_eq!(source.facts().samples, samples);
        let names: Vec<_> = source.facts().fields.iter().map(|field| field.name.clone()).collect();
        assert_eq!(names, ["image", "label", "caption", "bbox", "category", "area", "depth"]);
        let mut buffer = Buffer::default();
        for sample in 0..samples {
            let row = &rows[first + sample as usize];
            for name in ["image", "label", "caption", "depth"] {
                assert_eq!(
                    shown(&source, sample, name, &mut buffer),
                    row[name],
                    "{name}, {sample}"
                );
            }
            for name in ["bbox", "category", "area"] {
                let objects = row["objects"].as_array().unwrap().iter();
                let column: Vec<Json> = objects.map(|object| object[name].clone()).collect();
                let found = shown(&source, sample, name, &mut buffer);
                assert_eq!(number(&found), number(&column.into()), "{name}, {sample}");
            }
        }
        let source: &dyn Source = &source;
        let names = source.class_names().unwrap().unwrap();
        assert_eq!(names.iter().collect::<Vec<_>>(), [(0, "bird"), (1, "cat"), (2, "dog")]);
        let objects = source.object_fields().unwrap().unwrap();
        assert_eq!(objects.iter().len(), 3);
        assert_eq!(objects.get("bbox").unwrap().to_string(), "boxes, xywh, in pixels");
    }
}

/// Images of the Hub are neither compressed nor coded, so that the bytes at their location are the image.
#[test]
fn images_lie_in_the_file_as_they_are() {
    let source = open("hub", Some("train")).unwrap();
    let mut buffer = Buffer::default();
    for sample in 0..20 {
        let sample = SampleId(sample);
        let location = source.locate(sample, 0).unwrap();
        let file = fs::read(location.file.as_deref().unwrap()).unwrap();
        let range = location.bytes.unwrap();
        let Value::Image(image) = source.value(sample, 0, &mut buffer).unwrap() else { panic!() };
        assert_eq!(image.bytes, &file[range.start as usize..range.end as usize]);
        assert_eq!(
            source.stored().unwrap().image_extent(sample, 0).unwrap().bytes,
            image.bytes.len() as u64
        );
        assert_eq!(source.locate(sample, 2).unwrap().bytes, None, "captions are compressed");
    }
}

#[test]
fn a_file_without_rows_and_one_that_is_not_finished_are_refused() {
    let refused = open("empty.parquet", None).err().unwrap();
    assert!(refused.contains("no rows"), "{refused}");
    let bytes = fs::read(golden("plain-none.parquet")).unwrap();
    let of = |bytes: &[u8]| Parquet::from_bytes(bytes, &Limits::SMALL).err().unwrap().to_string();
    assert!(of(&bytes[..bytes.len() - 1]).contains("its last bytes are not `PAR1`"));
    assert!(of(b"PAR1").contains("its last bytes are not `PAR1`"));
    let mut lying = bytes.clone();
    let at = bytes.len() - 8;
    lying[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(of(&lying).contains("metadata of 4294967295 bytes"), "{}", of(&lying));
}

/// Reads all values of a file that opens.
fn read_all(bytes: &[u8]) -> Option<u64> {
    let source = Parquet::from_bytes(bytes, &Limits::SMALL).ok()?;
    let mut buffer = Buffer::default();
    let mut damaged = 0;
    for sample in 0..source.facts().samples.min(64) {
        for field in 0..source.facts().fields.len() {
            damaged += u64::from(source.value(SampleId(sample), field, &mut buffer).is_err());
        }
    }
    Some(damaged)
}

#[test]
fn a_changed_byte_anywhere_is_an_error_or_another_value() {
    for name in ["plain-none.parquet", "plain-v2.parquet"] {
        let bytes = fs::read(golden(name)).unwrap();
        assert!(read_all(&bytes).is_some());
        let mut opened = 0;
        for at in (0..bytes.len()).step_by(41) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            opened += u64::from(read_all(&bytes).is_some());
        }
        assert!(opened > 0);
    }
}

/// The crate that parses the schema recurses into its nodes, and reserves memory for the children that they count.
#[test]
fn a_schema_that_lies_is_refused() {
    // Metadata whose field 2 is a list of `nodes`, each a structure whose field 5 is its number of children.
    let metadata = |children: &[u64]| {
        let mut bytes = vec![0x29, 0xfc];
        let varint = |mut value: u64, bytes: &mut Vec<u8>| {
            while value >= 0x80 {
                bytes.push(value as u8 | 0x80);
                value >>= 7;
            }
            bytes.push(value as u8);
        };
        varint(children.len() as u64, &mut bytes);
        for count in children {
            bytes.push(0x55);
            varint(count * 2, &mut bytes);
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    };
    assert!(thrift::has_sound_schema(&metadata(&[2, 0, 1, 0])));
    assert!(!thrift::has_sound_schema(&metadata(&[2, 0])), "a child is missing");
    assert!(!thrift::has_sound_schema(&metadata(&[1, 0, 0])), "a second root");
    assert!(!thrift::has_sound_schema(&metadata(&[1 << 30, 0])));
    assert!(
        !thrift::has_sound_schema(&metadata(&[[1; 100_000].as_slice(), &[0]].concat())),
        "too deep"
    );
    assert!(!thrift::has_sound_schema(&[]));
}
