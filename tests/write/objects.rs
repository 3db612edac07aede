//! Datasets of annotated objects keep their values, and what their fields are, in every format.

use fuseloop::loader::{BoundingBoxes, KeyPoints, Targets};
use fuseloop::ops::*;
use fuseloop::source::{
    Annotated, BoxError, Buffer, CocoOptions, Dataset, FieldKind, FieldSpec, OwnedValue, Source,
    Stream, TarOptions, TarStream,
};
use fuseloop::write::{FieldValue, ImageOptions, WriteOptions, convert, write_iter};
use fuseloop::{Loader, SampleId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const SIZES: [(u16, u16); 4] = [(40, 30), (33, 47), (64, 16), (20, 20)];

/// Returns the annotations of four images, with as many objects as `counts` says.
fn annotations(counts: [usize; 4]) -> Value {
    let (mut images, mut objects) = (vec![], vec![]);
    for (image, count) in counts.into_iter().enumerate() {
        let (width, height) = SIZES[image];
        let id = 10 * image + 5;
        images.push(json!({"id": id, "file_name": format!("{image}.jpg"),
            "width": width, "height": height}));
        for number in 0..count {
            let index = objects.len();
            let segmentation = match index % 3 {
                0 => json!([[1, 1, 1, 9.5, 8, 9, 8.25, 1]]),
                1 => json!({"size": [height, width], "counts": [
                    u32::from(height) + 2, 3, u32::from(width) * u32::from(height) - u32::from(height) - 5]}),
                _ => Value::Null,
            };
            let category = if index % 2 == 0 { 7 } else { 3 };
            let mut object = json!({"id": 100 + index, "image_id": id, "category_id": category,
                "bbox": [0.1 + number as f64, 1.7, 10.0 / 3.0, 5.3 + index as f64 / 7.0],
                "area": 17.25 + index as f64 / 3.0, "iscrowd": index % 2,
                "keypoints": [1, 2, 2, 0, 0, 0, 3.5, 4.25, 1]});
            if !segmentation.is_null() {
                object["segmentation"] = segmentation;
            }
            objects.push(object);
        }
    }
    let categories = json!([{"id": 3, "name": "cat"}, {"id": 7, "name": "dog"}]);
    json!({"images": images, "categories": categories, "annotations": objects})
}

/// Writes a dataset of COCO's format.
fn coco(dir: &Path, counts: [usize; 4]) -> Annotated {
    for (image, (width, height)) in SIZES.into_iter().enumerate() {
        let pixels: Vec<u8> = (0..usize::from(width) * usize::from(height) * 3)
            .map(|at| (at * (image + 3) / 11) as u8)
            .collect();
        let jpeg = jpeg_encoder::Encoder::new_file(dir.join(format!("{image}.jpg")), 90).unwrap();
        jpeg.encode(&pixels, width, height, jpeg_encoder::ColorType::Rgb).unwrap();
    }
    let file = dir.join("instances.json");
    fs::write(&file, annotations(counts).to_string()).unwrap();
    Annotated::coco(dir, &file, &CocoOptions::default()).unwrap()
}

const MIXED: [usize; 4] = [2, 0, 1, 3];

/// Returns the values of all samples by the common names of their fields, but the images.
fn values(source: &dyn Source) -> BTreeMap<(String, u64), OwnedValue> {
    let mut buffer = Buffer::default();
    let mut values = BTreeMap::new();
    for (index, field) in source.fields().iter().enumerate() {
        for sample in (0..source.len()).filter(|_| field.kind != FieldKind::RgbImage) {
            let value = source.value(SampleId(sample), index, &mut buffer).unwrap();
            let name = source.field_name(index).to_owned();
            values.insert((name, sample), value.into());
        }
    }
    values
}

/// Returns what the fields of objects are, by their common names.
fn described(source: &dyn Source) -> BTreeMap<String, String> {
    let objects = source.object_fields().unwrap().unwrap_or_default();
    let named = |(name, field): (&str, fuseloop::internals::source::ObjectField)| {
        let index = source.field_index(name).unwrap();
        (source.field_name(index).to_owned(), field.to_string())
    };
    objects.iter().map(named).collect()
}

fn open(path: impl AsRef<Path>) -> std::sync::Arc<dyn Source> {
    Dataset::open(path).unwrap().source().unwrap()
}

fn converted(source: &dyn Source, path: &Path) -> std::sync::Arc<dyn Source> {
    convert(source, path, &WriteOptions::default()).unwrap();
    open(path)
}

#[test]
fn objects_are_the_same_after_any_chain_of_conversions() {
    for counts in [MIXED, [1; 4]] {
        let dir = tempfile::tempdir().unwrap();
        let first = coco(dir.path(), counts);
        let (expected, fields) = (values(&first), described(&first));
        assert_eq!(fields["bbox"], "boxes, xywh, in pixels");
        assert_eq!(fields["category_id"], "classes");
        assert_eq!(fields["keypoints"], "3 keypoints per object");
        assert_eq!(fields.len(), 8);
        let mut source: std::sync::Arc<dyn Source> = std::sync::Arc::new(first);
        let names = ["a.beton", "a.tar", "b.tar", "a.tfrecord", "b.beton", "c.tar", "b.tfrecord"];
        let parquet = ["a.parquet", "d.tar", "b.parquet", "c.parquet", "c.tfrecord", "d.parquet"];
        let parquet = parquet.into_iter().filter(|_| cfg!(feature = "parquet"));
        let mds = ["a/index.json", "e.tar", "b/index.json", "c/index.json", "d.tfrecord"];
        let mds = mds.into_iter().filter(|_| cfg!(feature = "mds"));
        for name in names.into_iter().chain(parquet).chain(mds) {
            source = converted(&*source, &dir.path().join(name));
            assert_eq!(values(&*source), expected, "{name}");
            assert_eq!(described(&*source), fields, "{name}");
            let names = source.class_names().unwrap().unwrap();
            assert_eq!(names.iter().collect::<Vec<_>>(), [(0, "cat"), (1, "dog")]);
        }
    }
}

/// A folder's table has texts and numbers, no rows of objects.
#[test]
fn a_folder_of_images_refuses_objects_before_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let source = coco(dir.path(), MIXED);
    let error = convert(&source, dir.path().join("out"), &WriteOptions::default()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("has rows of objects (boxes, xywh, in pixels)"), "{said}");
    assert!(said.contains("convert to .tar, .tfrecord, .parquet or .beton"), "{said}");
    assert!(!dir.path().join("out").exists());
}

/// Returns the members of a tar by name.
fn members(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(fs::File::open(path).unwrap());
    let member = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let mut bytes = vec![];
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        (String::from_utf8(entry.path_bytes().into_owned()).unwrap(), bytes)
    };
    archive.entries().unwrap().map(member).collect()
}

#[test]
fn a_tar_has_the_arrays_of_numpy() {
    let dir = tempfile::tempdir().unwrap();
    convert(&coco(dir.path(), MIXED), dir.path().join("a.tar"), &WriteOptions::default()).unwrap();
    let members = members(&dir.path().join("a.tar"));
    let names: Vec<&str> = members.keys().filter_map(|name| name.strip_prefix("3.")).collect();
    let expected = [
        "annotation_id.npy",
        "area.npy",
        "bbox.npy",
        "category_id.npy",
        "image_id.id",
        "iscrowd.npy",
        "jpg",
        "keypoints.npy",
        "segmentation.json",
    ];
    assert_eq!(names, expected);
    let array = |name: &str| npyz::NpyFile::new(&members[name][..]).unwrap();
    assert_eq!(array("3.bbox.npy").shape(), [3, 4]);
    assert_eq!(array("3.keypoints.npy").shape(), [3, 3, 3]);
    assert_eq!(array("1.bbox.npy").shape(), [0, 4]);
    assert_eq!(array("0.category_id.npy").into_vec::<i64>().unwrap(), [1, 0]);
    let boxes = array("0.bbox.npy").into_vec::<f32>().unwrap();
    assert_eq!(boxes[..4], [0.1, 1.7, 10.0 / 3.0, 5.3]);
    assert_eq!(members["3.image_id.id"], b"35");
    let masks: Vec<Value> = serde_json::from_slice(&members["0.segmentation.json"]).unwrap();
    assert_eq!(masks[0], json!([[1, 1, 1, 9.5, 8, 9, 8.25, 1]]));
}

fn targets() -> Targets {
    Targets::new()
        .boxes("bbox", BoundingBoxes::new(BoxFormat::Xywh))
        .column("category_id", DType::I64)
        .keypoints("keypoints", KeyPoints::new(3))
        .instance_masks("segmentation")
}

/// Returns the targets of all images in order.
fn batch(path: &Path) -> Result<Vec<String>, BoxError> {
    let loader = Loader::open(path)?
        .batch_size(4)
        .targets("image", targets())
        .pipeline("image", ops![Resize::new((24, 24))?, RandomHorizontalFlip::new(0.5)?])
        .build()?;
    let batch = loader.epoch(0)?.next().ok_or("no batch")??;
    Ok(vec![
        format!("{:?}", batch.ragged::<f32>("bbox")?.values()),
        format!("{:?}", batch.ragged::<i64>("category_id")?.values()),
        format!("{:?}", batch.ragged::<f32>("keypoints")?.values()),
        format!("{:?}", batch.ragged::<u8>("segmentation")?.values()),
    ])
}

/// The shards are WebDataset's as others write them: nothing beside them says what the arrays are.
#[test]
fn targets_read_arrays_whose_first_axis_differs() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    convert(&coco(dir.path(), MIXED), at("a.tar"), &WriteOptions::default()).unwrap();
    let expected = batch(&at("instances.json")).unwrap();
    assert_eq!(batch(&at("a.tar")).unwrap(), expected);
    fs::remove_file(at("a.tar.objects.json")).unwrap();
    assert_eq!(batch(&at("a.tar")).unwrap(), expected);
    let source = open(at("a.tar"));
    assert!(source.object_fields().unwrap().is_none());
    let kind = |name: &str| source.fields()[source.field_index(name).unwrap()].kind.clone();
    assert_eq!((kind("bbox"), kind("bbox.npy")), (FieldKind::Bytes, FieldKind::Bytes));
    // A value is the whole file, which says its type.
    let OwnedValue::Bytes(bytes) = &values(&*source)[&("bbox".to_owned(), 3)] else {
        panic!("no bytes");
    };
    assert_eq!(npyz::NpyFile::new(&bytes[..]).unwrap().shape(), [3, 4]);
}

#[test]
fn a_stream_of_shards_has_the_same_fields() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let first = coco(dir.path(), MIXED);
    convert(&first, at("a.tar"), &WriteOptions::default()).unwrap();
    let stream = TarStream::open(at("a.tar").to_str().unwrap(), &TarOptions::default()).unwrap();
    let stream: Stream = stream.into();
    assert!(stream.facts().object_fields().unwrap().is_some());

    let numbers = [FieldSpec { name: "n".to_owned(), kind: FieldKind::Int }];
    let rows = (0..9).map(|n| vec![FieldValue::Int(n)]);
    write_iter(rows, &numbers, at("n.beton"), &WriteOptions::default()).unwrap();
    convert(&*open(at("n.beton")), at("n.tar"), &WriteOptions::default()).unwrap();
    let others = TarStream::open(at("n.tar").to_str().unwrap(), &TarOptions::default()).unwrap();
    let both = Stream::zip([stream.clone(), others.into()]).unwrap();
    assert_eq!(both.facts().object_fields().unwrap(), stream.facts().object_fields().unwrap());

    let source = stream.counted(|_| ()).unwrap();
    convert(&source, at("b.beton"), &WriteOptions::default()).unwrap();
    assert_eq!(values(&*open(at("b.beton"))), values(&first));
    assert_eq!(described(&*open(at("b.beton"))), described(&first));
}

#[test]
fn rows_of_another_type_are_damage_that_names_the_member() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    convert(&coco(dir.path(), MIXED), at("a.tar"), &WriteOptions::default()).unwrap();
    let read = || {
        let source = open(at("a.tar"));
        let field = source.field_index("bbox").unwrap();
        let error = source.value(SampleId(3), field, &mut Buffer::default()).unwrap_err();
        error.to_string()
    };
    let bytes = fs::read(at("a.tar")).unwrap();
    let header = b"'descr': '<f4', 'fortran_order': False, 'shape': (3, 4, )";
    let place = bytes.windows(header.len()).rposition(|found| found == header).unwrap();
    for (found, expected) in [
        (
            "'descr': '<i4'",
            "an array of shape [3, 4] and dtype <i4, expected <f4 and [4] for each object",
        ),
        ("'descr': '<f8'", "an array of [3, 4] of <f8 with 48 bytes"),
        ("'descr': '|O '", "pickle"),
    ] {
        let mut damaged = bytes.clone();
        damaged[place..place + found.len()].copy_from_slice(found.as_bytes());
        fs::write(at("a.tar"), damaged).unwrap();
        for _ in 0..2 {
            let error = read();
            assert!(error.contains(expected) && error.contains("bbox.npy"), "{error}");
            let _ = fs::remove_file(at("a.tar.objects.json"));
        }
        convert(&*open(at("instances.json")), at("b.tar"), &WriteOptions::default()).unwrap();
        fs::rename(at("b.tar.objects.json"), at("a.tar.objects.json")).unwrap();
        fs::remove_file(at("b.tar")).unwrap();
    }
}

#[test]
fn what_is_beside_a_dataset_is_ours_or_ignored_and_damage_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let source = converted(&coco(dir.path(), MIXED), &at("a.beton"));
    let path = at("a.beton.objects.json");
    let text = fs::read_to_string(&path).unwrap();
    let begin = r#"{"fuseloop":"objects","version":1,"fields":["#;
    assert!(text.starts_with(begin), "{text}");
    for foreign in ["", "[]", "{ \"fuseloop\":\"objects\"}"] {
        fs::write(&path, foreign).unwrap();
        assert!(source.object_fields().unwrap().is_none());
    }
    for (damaged, reason) in [
        (text[..text.len() / 2].to_owned(), "EOF"),
        (text.replace("\"version\":1", "\"version\":2"), "version 2, this release reads 1"),
        (text.replace("xywh", "hwxy"), "no field of objects that this release knows"),
        (text.replace("\"each\":3", "\"each\":0"), "no field of objects that this release knows"),
        (text.replace("\"area\"", "\"bbox\""), "field \"bbox\" is listed twice"),
        (format!("{text}{}", " ".repeat(1 << 20)), "more than 1048576 bytes"),
    ] {
        fs::write(&path, damaged).unwrap();
        let error = source.object_fields().unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("a.beton.objects.json"), "{error}");
        let options = WriteOptions::default();
        assert!(convert(&*source, at("b.beton"), &options).is_err() && !at("b.beton").exists());
    }
    // Fields that a dataset has not, or has as another kind, are none of its objects.
    fs::write(&path, text.replace("\"area\"", "\"image\"").replace("\"bbox\"", "\"nothing\""))
        .unwrap();
    let objects = source.object_fields().unwrap().unwrap();
    assert_eq!(objects.iter().len(), 6);
    assert!(objects.iter().all(|(name, _)| !["image", "nothing"].contains(&name)));
}

#[test]
fn the_file_beside_a_dataset_goes_with_it() {
    use fuseloop::source::Selected;
    use fuseloop::write::WriteOptions;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let first = coco(dir.path(), MIXED);
    convert(&first, at("a.beton"), &WriteOptions::default()).unwrap();
    let options = WriteOptions::default();
    let joined = |a: &str, b: &str| open(format!("{}::{}", at(a).display(), at(b).display()));
    convert(&*joined("a.beton", "a.beton"), at("b.beton"), &options).unwrap();
    let some = Selected::new(open(at("b.beton")), [1, 5]).unwrap();
    convert(&some, at("c.beton"), &options).unwrap();
    let halves = WriteOptions { shards: Some(2), ..WriteOptions::default() };
    convert(&*open(at("b.beton")), at("d-{0}.beton"), &halves).unwrap();
    for name in ["b.beton", "c.beton", "d-0.beton", "d-1.beton"] {
        assert_eq!(described(&*open(at(name))), described(&first), "{name}");
    }
    // Another dataset at this path has no objects.
    let overwrite = WriteOptions { overwrite: true, ..WriteOptions::default() };
    fs::remove_file(at("d-0.beton.objects.json")).unwrap();
    convert(&*open(at("d-0.beton")), at("b.beton"), &overwrite).unwrap();
    assert!(!at("b.beton.objects.json").exists());
    // What two files say must be the same.
    convert(&*joined("d-1.beton", "d-0.beton"), at("e.beton"), &options).unwrap();
    assert!(!at("e.beton.objects.json").exists());
    let both = format!("{}::{}", at("d-1.beton").display(), at("c.beton").display());
    assert_eq!(described(&*open(both)), described(&first));
}

/// FFCV's `BytesField` and `JSONField` read these: little-endian rows, and a text with a final NUL.
#[test]
fn a_beton_has_bytes_and_json() {
    let dir = tempfile::tempdir().unwrap();
    let source = converted(&coco(dir.path(), MIXED), &dir.path().join("a.beton"));
    let types = source.fields().iter().map(|field| (&*field.name, field.kind.type_id()));
    let (bytes, json) = (3, 5);
    let expected = [
        ("image", 2),
        ("image_id", 1),
        ("bbox", bytes),
        ("category_id", bytes),
        ("area", bytes),
        ("iscrowd", bytes),
        ("annotation_id", bytes),
        ("segmentation", json),
        ("keypoints", bytes),
    ];
    assert_eq!(types.collect::<Vec<_>>(), expected);
    let values = values(&*source);
    let value = |name: &str, sample| values[&(name.to_owned(), sample)].clone();
    let floats = |values: &[f32]| {
        OwnedValue::Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    };
    assert_eq!(value("bbox", 2), floats(&[0.1, 1.7, 10.0 / 3.0, (5.3 + 2.0 / 7.0_f64) as f32]));
    assert_eq!(value("bbox", 1), OwnedValue::Bytes(vec![]));
    assert_eq!(value("keypoints", 2), floats(&[1.0, 2.0, 2.0, 0.0, 0.0, 0.0, 3.5, 4.25, 1.0]));
    let classes: Vec<u8> = [0_i64, 1, 0].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(value("category_id", 3), OwnedValue::Bytes(classes));
    assert_eq!(value("image_id", 3), OwnedValue::Int(35));
    assert_eq!(value("segmentation", 2), OwnedValue::Json(b"[null]\0".to_vec()));
}

#[test]
fn images_are_not_made_smaller_than_their_boxes() {
    let dir = tempfile::tempdir().unwrap();
    let image = ImageOptions { max_resolution: Some(9), ..ImageOptions::default() };
    let options = WriteOptions { image, ..WriteOptions::default() };
    for name in ["a.beton", "a.tar"] {
        let error = convert(&coco(dir.path(), MIXED), dir.path().join(name), &options).unwrap_err();
        assert!(error.to_string().contains("but not their boxes, keypoints and masks"), "{error}");
    }
}

/// The pairs that a mirror exchanges and the origin of positions stay with the keypoints.
#[test]
fn the_layout_of_keypoints_is_the_same_after_any_chain_of_conversions() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("pose");
    for folder in ["images", "labels"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let image = jpeg_encoder::Encoder::new_file(root.join("images/1.jpg"), 90).unwrap();
    image.encode(&[90; 16 * 8 * 3], 16, 8, jpeg_encoder::ColorType::Rgb).unwrap();
    fs::write(root.join("labels/1.txt"), "0 0.5 0.5 0.5 0.5 0.25 0.5 2 0.75 0.5 2\n").unwrap();
    fs::write(root.join("data.yaml"), "kpt_shape: [2, 3]\nflip_idx: [1, 0]\nnames: [a]\n").unwrap();
    let mut source = open(&root);
    let parquet = ["g.parquet", "h.tar"].into_iter().filter(|_| cfg!(feature = "parquet"));
    let names = ["a.beton", "b.beton", "c.tar", "d.beton", "e.tfrecord", "f.beton"];
    let mds = ["i/index.json", "j.beton"].into_iter().filter(|_| cfg!(feature = "mds"));
    for name in names.into_iter().chain(parquet).chain(mds) {
        source = converted(&*source, &dir.path().join(name));
        let said = format!("{:?}", source.object_fields().unwrap().unwrap());
        assert!(said.contains("{ flip_pairs: [[0, 1]], is_continuous: true }"), "{name}: {said}");
    }
}
