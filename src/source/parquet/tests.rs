//! Files that pyarrow and `datasets` wrote, and what they read from them: see `scripts/parquet_goldens.py`.

use super::*;
use crate::source::{FieldKind, PackedImages};
use serde_json::Value as Json;
use std::fs;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/parquet").join(name)
}

fn expected(name: &str) -> Json {
    serde_json::from_slice(&fs::read(golden(name)).unwrap()).unwrap()
}

fn open(name: &str, split: Option<&str>) -> Result<Parquet, String> {
    Parquet::open(&golden(name), split, None, &Limits::SMALL).map_err(|error| error.to_string())
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
            How::Classes(numbers) => numbers[value as usize].0.as_str().into(),
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
    assert_eq!(kind("grid"), array("<i2", &[3, 2]), "nulls have no shape");
    assert_eq!(kind("tokens"), FieldKind::Bytes);
    for name in ["ragged", "tags", "extra"] {
        assert_eq!(kind(name), FieldKind::Json, "{name}");
    }
}

/// Returns the files of a list as the goldens have them.
fn list(source: &Parquet, sample: u64, buffer: &mut Buffer) -> Result<Json, String> {
    let Value::Bytes(bytes) =
        source.value(SampleId(sample), 0, buffer).map_err(|error| error.to_string())?
    else {
        panic!("a list is bytes")
    };
    let hex = |file: &[u8]| file.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(PackedImages::parse(bytes)?.files().map(hex).collect::<Vec<_>>().into())
}

#[test]
fn lists_of_images_are_those_that_datasets_and_pyarrow_wrote() {
    let columns = expected("lists.json");
    for (file, name, null) in [("lists", "images", 5), ("lists-binary", "views", 2)] {
        let source = open(&format!("{file}.parquet"), None).unwrap();
        let field = &source.facts().fields[0];
        assert_eq!((&*field.name, &field.kind), (name, &FieldKind::Bytes));
        let mut buffer = Buffer::default();
        for sample in (0..10).map(|sample| sample * 7 % 10) {
            match list(&source, sample, &mut buffer) {
                Ok(found) => assert_eq!(found, columns[name][sample as usize], "{name} {sample}"),
                Err(error) => {
                    assert!(
                        sample == null && error.contains("of one of its images are"),
                        "{error}"
                    );
                }
            }
        }
    }
}

#[test]
fn damaged_lists_of_images_are_errors_of_their_samples() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/parquet");
    for file in ["lists.parquet", "lists-binary.parquet"] {
        let whole = std::fs::read(path.join(file)).unwrap();
        let mut refused = 0;
        for at in (0..whole.len()).step_by(5) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let Ok(source) = Parquet::from_bytes(&bytes, &Limits::SMALL) else {
                refused += 1;
                continue;
            };
            let mut buffer = Buffer::default();
            for sample in (0..source.facts().samples.min(10)).map(SampleId) {
                let value = source.value(sample, 0, &mut buffer);
                refused += u32::from(value.is_err());
            }
        }
        assert!(refused > 10, "{file}: {refused}");
    }
}

#[test]
fn a_list_of_images_is_as_large_as_a_sample_may_be() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/parquet/lists.parquet");
    let bytes = std::fs::read(path).unwrap();
    let limits = Limits { max_sample_bytes: 900, ..Limits::SMALL };
    let source = Parquet::from_bytes(&bytes, &limits).unwrap();
    let mut buffer = Buffer::default();
    assert!(list(&source, 0, &mut buffer).is_ok());
    let refused = list(&source, 3, &mut buffer).unwrap_err();
    assert!(
        refused.contains("(images): a list of images of") && refused.contains("the limit is 900"),
        "{refused}"
    );
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

/// The values of a column in a row group, with their levels of definition and repetition.
enum Written {
    Ints(Vec<i32>, Vec<i16>, Vec<i16>),
    Texts(Vec<&'static str>, Vec<i16>, Vec<i16>),
}

/// Returns a file of row groups with these columns.
fn written(schema: &str, groups: &[Vec<Written>]) -> Vec<u8> {
    use ::parquet::column::writer::ColumnWriter;
    use ::parquet::file::{properties::WriterProperties, writer::SerializedFileWriter};
    let schema = Arc::new(::parquet::schema::parser::parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(vec![], schema, properties).unwrap();
    for columns in groups {
        let mut group = file.next_row_group().unwrap();
        for column in columns {
            let mut writer = group.next_column().unwrap().unwrap();
            match (writer.untyped(), column) {
                (
                    ColumnWriter::Int32ColumnWriter(writer),
                    Written::Ints(values, levels, starts),
                ) => {
                    writer.write_batch(values, Some(levels), Some(starts)).unwrap();
                }
                (
                    ColumnWriter::ByteArrayColumnWriter(writer),
                    Written::Texts(texts, levels, starts),
                ) => {
                    let texts: Vec<_> = texts.iter().map(|text| (*text).into()).collect();
                    writer.write_batch(&texts, Some(levels), Some(starts)).unwrap();
                }
                _ => panic!("a column of another type"),
            }
            writer.close().unwrap();
        }
        group.close().unwrap();
    }
    file.into_inner().unwrap()
}

fn of_bytes(bytes: &[u8]) -> Parquet {
    Parquet::from_bytes(bytes, &Limits::SMALL).unwrap()
}

#[test]
fn lists_of_several_lengths_are_no_arrays_though_their_sums_fit() {
    let schema =
        "message m { optional group v (LIST) { repeated group list { optional int32 element; } } }";
    let ints = |levels: &[i16], starts: &[i16]| {
        let count = levels.iter().filter(|level| **level == 3).count() as i32;
        vec![Written::Ints((0..count).collect(), levels.to_vec(), starts.to_vec())]
    };
    let two_and_two = || ints(&[3; 4], &[0, 1, 0, 1]);
    let one_and_three = || ints(&[3; 4], &[0, 0, 1, 1]);
    let two_and_null = || ints(&[3, 3, 0], &[0, 1, 0]);
    let kind =
        |groups: &[Vec<Written>]| of_bytes(&written(schema, groups)).facts().fields[0].kind.clone();
    let pair = FieldKind::NdArray { dtype: "<i4".parse().unwrap(), shape: vec![2] };
    assert_eq!(kind(&[two_and_two(), two_and_two()]), pair);
    assert_eq!(kind(&[two_and_two(), two_and_null(), two_and_two()]), pair, "a null is no list");
    assert_eq!(kind(&[two_and_two(), one_and_three()]), FieldKind::Bytes);
    let source = of_bytes(&written(schema, &[two_and_two(), two_and_null()]));
    let error = source.read(SampleId(3)).unwrap_err().to_string();
    assert_eq!(error, "memory.parquet: sample 3 (v): it is null");
}

#[test]
fn texts_of_a_label_are_classes_in_sorted_order() {
    let texts = |texts: &[&'static str]| {
        Written::Texts(texts.to_vec(), vec![1; texts.len()], vec![0; texts.len()])
    };
    let label = "message m { optional binary caption (UTF8); optional binary Label (UTF8); }";
    let group = |labels: &[&'static str]| vec![texts(&vec!["same"; labels.len()]), texts(labels)];
    let (first, second) = (["dog", "cat", "dog", "cat"], ["cat", "bird", "dog"]);
    let file = written(label, &[group(&first), group(&second)]);
    let (source, warnings) = crate::warnings::recorded(|| of_bytes(&file));
    let kinds: Vec<_> = source.facts().fields.iter().map(|field| field.kind.clone()).collect();
    assert_eq!(kinds, [FieldKind::Bytes, FieldKind::Int]);
    let names = source.facts().class_names().unwrap().unwrap();
    assert_eq!(names.iter().collect::<Vec<_>>(), [(0, "bird"), (1, "cat"), (2, "dog")]);
    let numbers = (0..7).map(|sample| source.read(SampleId(sample)).unwrap().remove(1));
    let expected = [2, 1, 2, 1, 1, 0, 2].map(OwnedValue::Int);
    assert_eq!(numbers.collect::<Vec<_>>(), expected);
    assert!(warnings.iter().any(|text| text.contains("read as 3 classes")), "{warnings:?}");
    // Most texts differ, or numbers are the label.
    let kind = |file: &[u8]| of_bytes(file).facts().fields[1].kind.clone();
    assert_eq!(kind(&written(label, &[group(&["a", "b", "c", "a"])])), FieldKind::Bytes);
    let both = "message m { optional int32 label; optional binary class (UTF8); }";
    let ints = Written::Ints(vec![1; 4], vec![1; 4], vec![0; 4]);
    assert_eq!(kind(&written(both, &[vec![ints, texts(&first)]])), FieldKind::Bytes);
}

/// Of a validation set, the training set has the numbers.
#[test]
fn classes_that_are_given_number_the_texts_of_a_label() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("val.parquet");
    let label = "message m { optional binary label (UTF8); }";
    let texts = Written::Texts(vec!["dog", "eel", "dog"], vec![1; 3], vec![0; 3]);
    std::fs::write(&path, written(label, &[vec![texts]])).unwrap();
    let names: crate::source::ClassNames =
        ["cat", "dog"].map(str::to_owned).into_iter().zip([7, 3]).map(|(a, b)| (b, a)).collect();
    let options = crate::source::FolderOptions::default().classes(names);
    let dataset = crate::source::open::open_dataset(&path, &options).unwrap();
    let source = dataset.source().unwrap();
    assert_eq!(source.read(SampleId(2)).unwrap(), [OwnedValue::Int(3)]);
    let error = source.read(SampleId(1)).unwrap_err().to_string();
    assert!(error.contains("\"eel\" is none of the classes"), "{error}");
    let ints = Written::Ints(vec![1; 3], vec![1; 3], vec![0; 3]);
    std::fs::write(&path, written("message m { optional int32 label; }", &[vec![ints]])).unwrap();
    let error = crate::source::open::open_dataset(&path, &options).map(drop).unwrap_err();
    assert!(error.to_string().contains("`classes` has nothing to number"), "{error}");
}

/// A page has at most 20,000 rows, so that the limits allow each page and not all of them, or no page.
#[test]
fn texts_of_a_label_are_read_page_by_page_within_the_limits() {
    const LONG: &str = match str::from_utf8(&[b'x'; 300]) {
        Ok(text) => text,
        Err(_) => "",
    };
    let of = |pair: [&'static str; 2], most: u64| {
        let texts = Written::Texts(pair.repeat(30_000), vec![1; 60_000], vec![0; 60_000]);
        let label = "message m { optional binary target (UTF8); }";
        let mut file = written(label, &[vec![texts]]);
        let limits = Limits { max_unpacked_bytes: most, ..Limits::SMALL };
        let kind = Parquet::from_bytes(&file, &limits).unwrap().facts().fields[0].kind.clone();
        // The header of the first page.
        file[4] = 0xff;
        (kind, Parquet::from_bytes(&file, &limits).map(drop).map_err(|error| error.to_string()))
    };
    let (kind, damaged) = of(["a", "b"], 8 * 25_000);
    assert_eq!(kind, FieldKind::Int);
    assert!(damaged.unwrap_err().contains("no header of a page"));
    assert_eq!(of([LONG, "b"], 8 * 25_000).0, FieldKind::Bytes);
    assert_eq!(of(["a", "b"], 8 * 15_000).0, FieldKind::Bytes);
}

/// Boxes are declared as numbers of four bytes.
#[test]
fn declared_rows_that_are_stored_otherwise_are_no_objects() {
    use crate::source::ObjectFields;
    use ::parquet::schema::{parser::parse_message_type, types::SchemaDescriptor};
    let boxes = |number: &str| {
        let schema = format!(
            "message m {{ optional group bbox (LIST) {{ repeated group list {{ optional group element (LIST) {{ \
             repeated group list {{ optional {number} element; }} }} }} }} }}"
        );
        let schema = SchemaDescriptor::new(Arc::new(parse_message_type(&schema).unwrap()));
        let declared = br#"{"fuseloop":"objects","version":1,"fields":[{"as":"boxes","format":"xywh","name":"bbox"}]}"#;
        let plan = Plan::new(&schema, None, Some(ObjectFields::parse(declared).unwrap()));
        let fields: Vec<_> = plan.columns.iter().map(field_spec).collect();
        plan.object_fields(&fields).map(|objects| objects.iter().len())
    };
    assert_eq!([boxes("float"), boxes("double")], [Some(1), None]);
}

#[test]
fn a_map_with_two_values_of_a_key_is_damage() {
    let schema = "message m { optional group tags (MAP) { repeated group key_value { required binary key (UTF8); \
                  optional int32 value; } } }";
    let keys = Written::Texts(vec!["a", "b", "a", "a"], vec![2; 4], vec![0, 1, 0, 1]);
    let values = Written::Ints(vec![1, 2, 3, 4], vec![3; 4], vec![0, 1, 0, 1]);
    let source = of_bytes(&written(schema, &[vec![keys, values]]));
    assert_eq!(
        source.read(SampleId(0)).unwrap(),
        [OwnedValue::Json(b"{\"a\":1,\"b\":2}\0".to_vec())]
    );
    let error = source.read(SampleId(1)).unwrap_err().to_string();
    assert!(error.contains("sample 1 (tags): a map with two values of the key \"a\""), "{error}");
}
