//! Tests on files made here: their forms, damage, limits, and files that change.

mod voc;
mod yolo;

use super::*;
use crate::error::ErrorKind;
use crate::source::file;
use crate::source::{Dataset, ImageMode, OwnedValue};
use crate::testing::assert_says;
use serde_json::{Value as Json, json};
use std::fs;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    file::tests::folder(
        &files.iter().map(|(name, text)| (*name, text.as_bytes())).collect::<Vec<_>>(),
    )
}

/// Three images, the ids not in order; the categories have gaps.
fn coco_json() -> Json {
    json!({
        "info": {"year": 2017, "nested": [{"images": []}]},
        "images": [
            {"id": 9, "file_name": "9.jpg", "width": 8, "height": 6, "license": 1},
            {"id": 3, "file_name": "3.jpg", "width": 8, "height": 6},
            {"id": 5, "file_name": "a/5.png", "width": 8, "height": 6},
        ],
        "annotations": [
            {"id": 100, "image_id": 9, "category_id": 44, "bbox": [1, 1, 4, 3], "area": 12, "iscrowd": 0,
             "segmentation": [[1, 1, 1, 4, 5, 4, 5, 1], [0.5, 0, 2, 0, 2, 2.25]]},
            {"id": 101, "image_id": 3, "category_id": 2, "bbox": [0.1, 0, 1, 7.5], "area": 7.5, "iscrowd": 1,
             "segmentation": {"counts": "`1", "size": [6, 8]}},
            {"iscrowd": 0, "category_id": 90, "segmentation": null, "bbox": [0, 0, 0.5, 3], "image_id": 9, "id": 7},
            {"id": 8, "image_id": 9, "category_id": 2, "bbox": [1, 2, -3, 4], "segmentation": []},
        ],
        "categories": [
            {"id": 90, "name": "brush"}, {"id": 2, "name": "bicycle", "supercategory": "vehicle"},
            {"id": 44, "name": "bottle"},
        ],
    })
}

const FILE: &str = "annotations/instances_val.json";

fn coco_of(json: &Json) -> tempfile::TempDir {
    folder(&[
        (FILE, &json.to_string()),
        ("val/3.jpg", "\u{fffd}three"),
        ("val/9.jpg", "nine"),
        ("val/a/5.png", "five"),
    ])
}

fn open(dir: &tempfile::TempDir, options: &CocoOptions) -> Result<Annotated, Error> {
    Annotated::coco(dir.path().join("val"), dir.path().join(FILE), options)
}

fn field<'a>(source: &'a Annotated, sample: u64, name: &str, buffer: &'a mut Buffer) -> Value<'a> {
    let index = source.facts().fields.iter().position(|field| field.name == name).unwrap();
    source.value(SampleId(sample), index, buffer).unwrap()
}

fn floats(source: &Annotated, sample: u64, name: &str) -> Vec<f32> {
    let mut buffer = Buffer::default();
    let Value::Bytes(bytes) = field(source, sample, name, &mut buffer) else { panic!("no bytes") };
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn ints(source: &Annotated, sample: u64, name: &str) -> Vec<i64> {
    let mut buffer = Buffer::default();
    match field(source, sample, name, &mut buffer) {
        Value::Int(value) => vec![value],
        Value::Bytes(bytes) => {
            bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
        }
        value => panic!("{value:?}"),
    }
}

fn masks(source: &Annotated, sample: u64) -> Json {
    let mut buffer = Buffer::default();
    let Value::Json(text) = field(source, sample, "segmentation", &mut buffer) else {
        panic!("no JSON");
    };
    serde_json::from_slice(text.strip_suffix(b"\0").unwrap()).unwrap()
}

fn classes(source: &Annotated) -> Vec<(i64, String)> {
    let names = source.facts().class_names().unwrap().unwrap();
    names.iter().map(|(number, name)| (number, name.to_owned())).collect()
}

#[test]
fn samples_are_in_the_order_of_their_ids_and_objects_in_that_of_the_file() {
    let dir = coco_of(&coco_json());
    let source = open(&dir, &CocoOptions::default()).unwrap();
    assert_eq!((source.facts().samples, source.objects()), (3, 4));
    let names: Vec<&str> = source.facts().fields.iter().map(|field| &*field.name).collect();
    let expected = [
        "image",
        "image_id",
        "bbox",
        "category_id",
        "area",
        "iscrowd",
        "annotation_id",
        "segmentation",
    ];
    assert_eq!(names, expected);
    let ids: Vec<_> = (0..3).map(|sample| ints(&source, sample, "image_id")[0]).collect();
    assert_eq!(ids, [3, 5, 9]);
    assert_eq!(floats(&source, 0, "bbox"), [0.1, 0.0, 1.0, 7.5]);
    assert_eq!(floats(&source, 1, "bbox"), [0.0; 0]);
    assert_eq!(floats(&source, 2, "bbox"), [1., 1., 4., 3., 0., 0., 0.5, 3., 1., 2., -3., 4.]);
    assert_eq!(floats(&source, 2, "area"), [12.0, 1.5, -12.0]);
    assert_eq!(ints(&source, 2, "category_id"), [1, 2, 0]);
    assert_eq!(ints(&source, 2, "annotation_id"), [100, 7, 8]);
    assert_eq!([0, 2].map(|sample| ints(&source, sample, "iscrowd")), [vec![1], vec![0; 3]]);
    let named = [(0, "bicycle"), (1, "bottle"), (2, "brush")];
    assert_eq!(classes(&source), named.map(|(number, name)| (number, name.to_owned())));
    assert_eq!(source.category_ids(), [2, 44, 90]);
    let mut buffer = Buffer::default();
    let Value::Image(image) = field(&source, 2, "image", &mut buffer) else { panic!("no image") };
    assert_eq!((image.bytes, image.mode), (&b"nine"[..], ImageMode::Jpeg));
    let path = |sample, field| source.locate(SampleId(sample), field).unwrap().to_string();
    assert!(path(1, 0).ends_with("val/a/5.png"), "{}", path(1, 0));
    assert!(path(1, 2).ends_with("instances_val.json: sample a/5.png"), "{}", path(1, 2));
    let paths: Vec<PathBuf> = source.facts().paths().collect();
    assert!(paths.len() == 4 && paths.iter().all(|path| path.is_file()), "{paths:?}");
    assert!(source.value(SampleId(3), 0, &mut buffer).is_err());
    assert!(source.value(SampleId(0), 8, &mut buffer).is_err());
}

#[test]
fn sizes_are_those_of_the_images_that_have_one() {
    let mut json = coco_json();
    let (text, list) = (json!("8"), json!([[1], {"width": 2}]));
    for (width, height, expected) in [
        (json!(8), json!(6), Some(Size::new(6, 8))),
        (json!(8.0), json!(6), Some(Size::new(6, 8))),
        (json!(0), json!(6), None),
        (json!(-8), json!(6), None),
        (json!(2.5), json!(6), None),
        (json!(1_u64 << 40), json!(6), None),
        (json!(1e300), json!(true), None),
        (Json::Null, text, None),
        (list.clone(), json!({"height": [list]}), None),
    ] {
        let title = format!("{width} x {height}");
        json["images"][1]["width"] = width;
        json["images"][1]["height"] = height;
        let source = open(&coco_of(&json), &CocoOptions::default()).unwrap();
        assert_eq!(source.columns.annotated_size(SampleId(0)), expected, "{title}");
        assert_eq!(source.columns.annotated_size(SampleId(2)), Some(Size::new(6, 8)));
    }
    let image = json["images"][1].as_object_mut().unwrap();
    image.retain(|key, _| key != "width" && key != "height");
    let source = open(&coco_of(&json), &CocoOptions::default()).unwrap();
    assert_eq!([0, 3].map(|sample| source.columns.annotated_size(SampleId(sample))), [None, None]);
}

/// The files of a dataset with annotations are opened through links, so that a setting for links would promise too much.
#[test]
fn a_setting_for_links_is_refused() {
    use crate::source::{FolderOptions, Links};
    let dir = coco_of(&coco_json());
    let opened = |links| {
        let options = FolderOptions::default().links(links);
        crate::source::open::open_dataset(&dir.path().join(FILE), &options)
    };
    assert!(opened(Links::Follow).is_ok());
    for links in [Links::Within, Links::Refuse] {
        let error = opened(links).err().unwrap().to_string();
        assert!(
            error.contains("`links` is only for these") && error.contains("-type l"),
            "{error}"
        );
    }
}

/// The bytes of a mask in the file are found wherever spaces are.
#[test]
fn masks_are_read_from_the_file() {
    let json = coco_json();
    for text in
        [json.to_string(), format!("{json:#}"), format!(" {json:#} \n").replace(':', " :\t")]
    {
        let dir = coco_of(&json);
        fs::write(dir.path().join(FILE), text).unwrap();
        let source = open(&dir, &CocoOptions::default()).unwrap();
        let expected = |index: usize| json["annotations"][index]["segmentation"].clone();
        assert_eq!(masks(&source, 0), json!([expected(1)]));
        assert_eq!(masks(&source, 1), json!([]));
        assert_eq!(masks(&source, 2), json!([expected(0), null, null]));
        let mut buffer = Buffer::default();
        let Value::Json(text) = field(&source, 2, "segmentation", &mut buffer) else {
            panic!("no JSON");
        };
        assert_eq!(source.facts().longest(7), Some(text.len() as u64));
    }
}

#[test]
fn lists_may_come_in_any_order_and_be_absent() {
    let json = coco_json();
    let dir = coco_of(&json);
    let text = format!(
        r#"{{"categories": {}, "annotations": {}, "images": {}}}"#,
        json["categories"], json["annotations"], json["images"]
    );
    let records = |source: &Annotated| -> Vec<Record> {
        (0..3).map(|sample| source.read(SampleId(sample)).unwrap()).collect()
    };
    let first = open(&dir, &CocoOptions::default()).unwrap();
    let before = (records(&first), first.facts().fingerprint);
    fs::write(dir.path().join(FILE), text).unwrap();
    let second = open(&dir, &CocoOptions::default()).unwrap();
    assert_eq!(before, (records(&second), second.facts().fingerprint));
    // The files of COCO's test split have no annotations.
    let dir = coco_of(&json!({"images": json["images"]}));
    let source = open(&dir, &CocoOptions::default()).unwrap();
    assert_eq!((source.facts().samples, source.objects(), source.facts().fields.len()), (3, 0, 7));
    assert_eq!(floats(&source, 0, "bbox"), [0.0; 0]);
}

#[test]
fn options_leave_out_objects_and_images() {
    let dir = coco_of(&coco_json());
    let plain = CocoOptions::default();
    let source = open(&dir, &plain.clone().skip_crowds(true)).unwrap();
    assert_eq!((source.facts().samples, source.objects()), (3, 3));
    assert_eq!(floats(&source, 0, "bbox"), [0.0; 0]);
    // The box of image 3 has a side of 1 pixel, and image 5 has no box.
    let source = open(&dir, &plain.clone().without_empty(true)).unwrap();
    assert_eq!((source.facts().samples, source.objects()), (1, 3));
    assert_eq!(ints(&source, 0, "image_id"), [9]);
    let source = open(&dir, &plain.keep_category_ids(true)).unwrap();
    assert_eq!(ints(&source, 2, "category_id"), [44, 90, 2]);
    assert_eq!(classes(&source)[2], (90, "brush".to_owned()));
}

#[test]
fn keypoints_are_rows_of_one_length() {
    let mut json = coco_json();
    json["annotations"][0]["keypoints"] = json!([1, 2, 2, 0, 0, 0]);
    json["annotations"][3]["keypoints"] = json!([]);
    let source = open(&coco_of(&json), &CocoOptions::default()).unwrap();
    let expected = [1.0, 2.0, 2.0].into_iter().chain([0.0; 15]).collect::<Vec<f32>>();
    assert_eq!(floats(&source, 2, "keypoints"), expected);
    assert_eq!(floats(&source, 0, "keypoints"), [0.0; 6]);
    assert_eq!(source.facts().longest(8), Some(72));
    json["annotations"][3]["keypoints"] = json!([1, 2, 2]);
    json["annotations"][1]["keypoints"] = json!([1, 2, 2, 3, 4, 2]);
    let error = damage(&json).to_string();
    let reason = "annotation 8 of image 9: `keypoints` has 3 numbers, expected x, y and visibility of 2 points";
    assert!(error.contains(reason), "{error}");
}

/// Returns the error of a dataset that can't be opened, or of the first of its samples that can't be read.
fn damage(json: &Json) -> Error {
    let source = match open(&coco_of(json), &CocoOptions::default()) {
        Ok(source) => source,
        Err(error) => return error,
    };
    let samples =
        (0..source.facts().samples).map(|sample| source.columns.find(SampleId(sample), 0));
    samples.filter_map(Result::err).next().unwrap()
}

/// What a change of the annotations makes of them.
fn refusal(change: impl FnOnce(&mut Json)) -> String {
    let mut json = coco_json();
    change(&mut json);
    let error = damage(&json);
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    assert!(error.path().unwrap().ends_with(FILE), "{error}");
    error.to_string()
}

#[test]
fn damage_is_named_by_its_annotation() {
    let object = |index: usize, key: &'static str, value: Json| {
        move |json: &mut Json| json["annotations"][index][key] = value
    };
    let refusals = [
        (
            refusal(object(0, "bbox", json!([1, 2, 3]))),
            "annotation 100 of image 9: `bbox` has 3 numbers",
        ),
        (
            refusal(object(0, "bbox", json!([1, 2, 3, 4, 5]))),
            "annotation 100 of image 9: `bbox` has more than 4 numbers",
        ),
        (
            refusal(object(0, "bbox", json!([1, 2, "3", 4]))),
            "annotation 100 of image 9: `bbox` has \"3\", expected a number",
        ),
        (
            refusal(object(0, "bbox", json!([1, 2, 2e6, 4]))),
            "image 9: `bbox` has coordinate 2000000, the limit is 1048576",
        ),
        (
            refusal(object(0, "id", json!([1]))),
            "annotation number 1 of image 9: `id` is a list, expected a whole number or a text",
        ),
        (
            refusal(object(1, "category_id", json!(3))),
            "annotation 101 of image 3: category 3 is not among the 3",
        ),
        (
            refusal(object(2, "segmentation", json!(3))),
            "annotation 7 of image 9: `segmentation` is 3, expected a list of poly",
        ),
        (refusal(object(0, "segmentation", json!([3]))), "expected a list of coordinates"),
        (
            refusal(object(0, "segmentation", json!([[3, -1e7]]))),
            "`segmentation` has coordinate -10000000, the limit",
        ),
        (
            refusal(object(0, "segmentation", json!({"size": [1, 2]}))),
            "`segmentation` has no `counts`",
        ),
        (
            refusal(object(0, "segmentation", json!({"counts": [2]}))),
            "`segmentation` has no `size`",
        ),
        (
            refusal(|json| {
                json["annotations"][0].as_object_mut().unwrap().remove("bbox");
            }),
            "`bbox` has 0 numbers",
        ),
        (
            refusal(|json| {
                json["annotations"][0].as_object_mut().unwrap().remove("category_id");
            }),
            "`category_id` is missing: expected annotations of objects",
        ),
        (
            refusal(|json| json["annotations"] = json!({})),
            "expected a list with an object for each annotation",
        ),
        (
            refusal(|json| json["images"][1]["id"] = json!(9)),
            "image 9 is listed twice, as 9.jpg and as 3.jpg",
        ),
        (
            refusal(|json| json["images"][1]["file_name"] = json!(9)),
            "image 3: `file_name` is 9, expected a text",
        ),
        (refusal(|json| json["categories"][0]["id"] = json!(2)), "two categories have the same id"),
        (
            refusal(|json| json["images"] = json!([])),
            "annotation 100 is of image 9, which is not in `images`: none of 4 annotations can be used",
        ),
        (refusal(|json| *json = json!({})), "no image is listed"),
        (refusal(|json| *json = json!([1])), "expected COCO's object with `images`"),
    ];
    for (found, expected) in refusals {
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

#[test]
fn what_annotations_have_wrong_is_damage_of_their_image_alone() {
    let mut json = coco_json();
    json["annotations"][0]["bbox"] = json!([1, 2, "3", 4]);
    json["annotations"][2]["category_id"] = json!(3);
    json["images"].as_array_mut().unwrap().push(json!({"id": 12}));
    let dir = coco_of(&json);
    let source = open(&dir, &CocoOptions::default()).unwrap();
    assert_eq!((source.facts().samples, source.objects()), (4, 1));
    let buffer = &mut Buffer::default();
    for field in 0..source.facts().fields.len() {
        for sample in [0, 1] {
            assert!(source.value(SampleId(sample), field, buffer).is_ok(), "{sample} {field}");
        }
        let error = source.value(SampleId(2), field, buffer).unwrap_err().to_string();
        let [first, second] = [
            "annotation 100 of image 9: `bbox` has \"3\"",
            "annotation 7 of image 9: category 3 is not among",
        ];
        assert!(error.contains(first) && error.contains(second), "{error}");
        assert!(error.contains(FILE), "{error}");
        let located = source.locate(SampleId(2), field).unwrap();
        assert!(located.file.unwrap().ends_with(FILE));
        let error = source.value(SampleId(3), field, buffer).unwrap_err().to_string();
        assert!(error.contains("image 12: `file_name` is missing"), "{error}");
    }
}

#[test]
fn annotations_of_images_that_are_not_listed_are_left_out_with_a_warning() {
    let mut json = coco_json();
    json["annotations"][1]["image_id"] = json!(4);
    json["annotations"][2] = json!(1);
    let dir = coco_of(&json);
    let (source, warnings) =
        crate::warnings::recorded(|| open(&dir, &CocoOptions::default()).unwrap());
    assert_eq!((source.facts().samples, source.objects()), (3, 2));
    let path = dir.path().to_string_lossy();
    let own: Vec<_> = warnings.iter().filter(|warning| warning.contains(&*path)).collect();
    assert_eq!(own.len(), 1, "{own:?}");
    assert!(own[0].contains("2 of 4 annotations belong to no listed image"), "{own:?}");
    assert!(own[0].contains("annotation number 3: 1, expected an object"), "{own:?}");
}

#[test]
fn ids_may_be_texts_and_whole_numbers_with_a_fraction() {
    let mut json = coco_json();
    json["images"][0]["id"] = json!("b.jpg");
    json["images"][1]["id"] = json!(3.0);
    json["images"][2]["id"] = json!("a.jpg");
    for (index, id) in
        [(0, json!("b.jpg")), (1, json!("3")), (2, json!("b.jpg")), (3, json!("b.jpg"))]
    {
        json["annotations"][index]["image_id"] = id;
    }
    json["annotations"][0]["category_id"] = json!(44.0);
    json["annotations"][3]["id"] = json!("x");
    let source = open(&coco_of(&json), &CocoOptions::default()).unwrap();
    // Numbers come first, then texts by their bytes; then images and annotations have no numbers but these.
    let key = |sample| source.locate(SampleId(sample), 0).unwrap().key.unwrap().to_string();
    assert_eq!([0, 1, 2].map(key), ["3.jpg", "a/5.png", "9.jpg"]);
    assert_eq!([0, 1, 2].map(|sample| ints(&source, sample, "image_id")[0]), [0, 1, 2]);
    assert_eq!(ints(&source, 2, "annotation_id"), [0, 2, 3]);
    assert_eq!(ints(&source, 2, "category_id"), [1, 2, 0]);
    assert_eq!(ints(&source, 0, "category_id"), [0]);
}

#[test]
fn images_without_a_file_name_have_the_one_in_their_url() {
    let mut json = coco_json();
    for image in json["images"].as_array_mut().unwrap() {
        let image = image.as_object_mut().unwrap();
        let name = image.remove("file_name").unwrap();
        let name = name.as_str().unwrap().trim_start_matches("a/");
        image.insert("coco_url".into(), json!(format!("http://images.cocodataset.org/val/{name}")));
    }
    let dir = coco_of(&json);
    for images in [dir.path().to_owned(), dir.path().join("val")] {
        let source = Annotated::coco(&images, dir.path().join(FILE), &CocoOptions::default());
        let source = source.unwrap();
        let mut buffer = Buffer::default();
        assert!(source.value(SampleId(2), 0, &mut buffer).is_ok(), "{}", images.display());
    }
    assert_eq!(Dataset::open(dir.path()).map(|_| ()).map_err(|error| error.to_string()), Ok(()));
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let dir = coco_of(&coco_json());
    let before = masks(&open(&dir, &CocoOptions::default()).unwrap(), 2);
    fs::write(dir.path().join(FILE), format!("\u{feff}{}", coco_json())).unwrap();
    let after = open(&dir, &CocoOptions::default()).unwrap();
    assert_eq!(masks(&after, 2), before);
}

#[test]
fn a_name_that_no_path_has_is_cut_in_errors() {
    let mut json = coco_json();
    json["images"][1]["file_name"] = json!("x".repeat(1 << 20));
    let error = damage(&json).to_string();
    assert!(error.contains("`file_name` has 1048576 bytes, a path has at most 4096"), "{error}");
    assert!(error.len() < 500, "{}", error.len());
}

#[test]
fn a_size_that_contradicts_the_image_is_damage_of_its_sample() {
    let png = |name: &Path| {
        let mut png = png::Encoder::new(fs::File::create(name).unwrap(), 8, 6);
        png.set_color(png::ColorType::Grayscale);
        png.write_header().unwrap().write_image_data(&[0; 48]).unwrap();
    };
    for ([width, height], is_good) in
        [([8, 6], true), ([0, 0], true), ([6, 8], false), ([16, 12], false)]
    {
        let mut json = coco_json();
        (json["images"][2]["width"], json["images"][2]["height"]) = (json!(width), json!(height));
        let dir = coco_of(&json);
        png(&dir.path().join("val/a/5.png"));
        let source = open(&dir, &CocoOptions::default()).unwrap();
        let mut buffer = Buffer::default();
        let read = source.value(SampleId(1), 0, &mut buffer).map(drop);
        assert_eq!(read.is_ok(), is_good, "{width}x{height}");
        if let Err(error) = read {
            let error = error.to_string();
            assert!(error.contains(FILE) && error.contains("a/5.png"), "{error}");
            assert!(error.contains("and it has width "), "{error}");
        }
    }
}

#[test]
fn files_that_are_cut_or_have_more_are_refused() {
    let text = coco_json().to_string();
    let dir = coco_of(&coco_json());
    let more = format!("{text}{{");
    for damaged in [&text[..text.len() - 1], &text[..200], "", "{\"images\": NaN}", &more] {
        fs::write(dir.path().join(FILE), damaged).unwrap();
        let error = open(&dir, &CocoOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    }
    fs::write(dir.path().join(FILE), text.as_bytes()).unwrap();
    let source = open(&dir, &CocoOptions::default()).unwrap();
    let mut buffer = Buffer::default();
    fs::write(dir.path().join(FILE), vec![b' '; text.len()]).unwrap();
    let error = Error::from(source.value(SampleId(0), 7, &mut buffer).unwrap_err());
    assert!(error.to_string().contains("the file has changed since it was opened"), "{error}");
    fs::write(dir.path().join(FILE), "{}").unwrap();
    let error = Error::from(source.value(SampleId(0), 7, &mut buffer).unwrap_err());
    assert!(error.to_string().contains("the file ends after 0 of them"), "{error}");
    fs::remove_file(dir.path().join("val/3.jpg")).unwrap();
    let error = Error::from(source.value(SampleId(0), 0, &mut buffer).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn sizes_have_limits() {
    let mut json = coco_json();
    let object = json["annotations"][1].clone();
    json["annotations"] = vec![object; 10_001].into();
    let error = open(&coco_of(&json), &CocoOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(error.to_string().contains("image 3 has more than 10000 annotations"), "{error}");
    json["annotations"].as_array_mut().unwrap().pop();
    assert_eq!(open(&coco_of(&json), &CocoOptions::default()).unwrap().objects(), 10_000);
    let limits = Limits { max_samples: 2, ..Limits::SMALL };
    let error = open(&coco_of(&coco_json()), &CocoOptions::default().limits(limits)).unwrap_err();
    assert!(error.to_string().contains("more images than the limit of 2"), "{error}");
    let limits = Limits { max_table_bytes: 99, ..Limits::SMALL };
    let error = open(&coco_of(&coco_json()), &CocoOptions::default().limits(limits)).unwrap_err();
    assert!(error.to_string().contains("bytes, the limit is 99"), "{error}");
    let limits = Limits { max_sample_bytes: 50, ..Limits::SMALL };
    let source = open(&coco_of(&coco_json()), &CocoOptions::default().limits(limits)).unwrap();
    let error = source.value(SampleId(2), 7, &mut Buffer::default()).unwrap_err();
    assert!(error.to_string().contains("the limit is 50"), "{error}");
}

#[test]
fn a_dataset_is_found_by_its_folder_or_its_file() {
    let opened = |path: PathBuf| -> Result<_, Error> {
        match Dataset::open(path)? {
            Dataset::Source(source) => Ok(source),
            _ => panic!("another format"),
        }
    };
    let dir = coco_of(&coco_json());
    let text = coco_json().to_string();
    let print = open(&dir, &CocoOptions::default()).unwrap().facts().fingerprint;
    for path in [dir.path().to_owned(), dir.path().join(FILE)] {
        assert_eq!(opened(path).unwrap().fingerprint(), print);
    }
    fs::write(dir.path().join("annotations/captions_val.json"), "{}").unwrap();
    assert!(opened(dir.path().to_owned()).is_ok());
    fs::write(dir.path().join("annotations/instances_train.json"), &text).unwrap();
    assert!(opened(dir.path().to_owned()).is_ok(), "the images of the other split are not there");
    fs::create_dir(dir.path().join("train")).unwrap();
    let error = opened(dir.path().to_owned()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Parameter);
    let message = error.to_string();
    assert_says(&message, ["the folder has 2 files of annotations: open one by its own path"]);
    assert_says(&message, ["instances_train.json or ", "instances_val.json"]);
    // The images of the other split are not in its folder.
    let error = opened(dir.path().join("annotations/instances_train.json")).err().unwrap();
    assert!(error.to_string().contains("the images are not found: expected "), "{error}");

    let images = [("3.jpg", ""), ("9.jpg", ""), ("a/5.png", "")];
    for (json, at) in [
        ("_annotations.coco.json", ""),
        ("labels.json", "images/"),
        ("any/labels.json", "images/"),
        ("annotations/person_keypoints_val.json", "images/val/"),
    ] {
        let names = images.map(|(name, text)| (format!("{at}{name}"), text));
        let mut files: Vec<(&str, &str)> =
            names.iter().map(|(name, text)| (&**name, *text)).collect();
        files.push((json, &text));
        let dir = folder(&files);
        assert_eq!(opened(dir.path().join(json)).unwrap().len(), 3, "{json}");
        let is_known = is_folder(dir.path());
        assert_eq!(is_known, !json.contains("labels"), "{json}");
    }
    assert!(!is_folder(&dir.path().join("val")) && !is_file(&dir.path().join("nowhere.json")));
}

#[test]
fn videos_in_two_resolutions_are_not_taken_twice() {
    let tree = |names: &[&str]| {
        let files = names.iter().flat_map(|name| {
            [format!("JPEGImages/{name}/00000.jpg"), format!("Annotations/{name}/00000.png")]
        });
        let files: Vec<String> = files.collect();
        folder(&files.iter().map(|name| (&**name, "x")).collect::<Vec<_>>())
    };
    let dir = tree(&["480p/bear", "480p/dog", "1080p/bear", "1080p/dog"]);
    let error = Dataset::open(dir.path()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Parameter);
    let words = ["1080p and 480p both have bear", "move one of them out", "Annotations"];
    assert_says(error, words);
    let of_all = |above: &str| {
        let [images, masks] =
            ["JPEGImages", "Annotations"].map(|name| dir.path().join(name).join(above));
        Annotated::masks(images, masks).unwrap().facts().samples
    };
    assert_eq!((of_all("480p"), of_all("")), (2, 4));
    for names in [&["480p/bear", "480p/dog"][..], &["480p/bear", "1080p/dog"], &["bear", "dog"]] {
        assert!(Dataset::open(tree(names).path()).is_ok(), "{names:?}");
    }
}

#[test]
fn an_image_has_the_mask_of_its_name() {
    let png = "\u{1}PNG";
    let files = [
        ("set/images/b.jpg", "b"),
        ("set/images/a/2.PNG", "a2"),
        ("set/images/a/.hidden.jpg", ""),
        ("set/images/a/notes.txt", ""),
        ("set/images/a-1.jpeg", "a1"),
        ("set/masks/b.png", "mask of b"),
        ("set/masks/a/2.png", "mask of a2"),
        ("set/masks/a-1.png", png),
        ("set/masks/unused.png", png),
    ];
    let dir = folder(&files);
    let (images, masks) = (dir.path().join("set/images"), dir.path().join("set/masks"));
    let source = Annotated::masks(&images, &masks).unwrap();
    let names: Vec<&str> = source.facts().fields.iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["image", "mask"]);
    let stored: Vec<Vec<Vec<u8>>> = (0..source.facts().samples)
        .map(|sample| {
            let record = source.read(SampleId(sample)).unwrap();
            let bytes = record.into_iter().map(|value| match value {
                OwnedValue::Image(image) => image.bytes,
                value => panic!("{value:?}"),
            });
            bytes.collect()
        })
        .collect();
    let expected = [["a1", png], ["a2", "mask of a2"], ["b", "mask of b"]];
    assert_eq!(stored, expected.map(|pair| pair.map(|text| text.as_bytes().to_vec()).to_vec()));
    assert_eq!((source.objects(), source.facts().class_names().unwrap()), (0, None));
    assert_eq!(source.facts().paths().filter(|path| path.is_file()).count(), 6);
    let path = source.locate(SampleId(1), 1).unwrap();
    assert!(path.file.unwrap().ends_with("set/masks/a/2.png"));
    let Dataset::Source(found) = Dataset::open(dir.path().join("set")).unwrap() else {
        panic!("another format");
    };
    assert_eq!(found.fingerprint(), source.facts().fingerprint);

    #[cfg(feature = "tiff")]
    {
        fs::write(masks.join("b.tif"), "another mask of b").unwrap();
        let message = Annotated::masks(&images, &masks).unwrap_err().to_string();
        assert!(message.contains("b.png and b.tif have the same name"), "{message}");
        fs::remove_file(masks.join("b.tif")).unwrap();
    }
    // Two images would share a mask.
    fs::write(images.join("b.png"), "another b").unwrap();
    let message = Annotated::masks(&images, &masks).unwrap_err().to_string();
    assert!(message.contains("b.jpg and b.png have the same name"), "{message}");
    fs::remove_file(images.join("b.png")).unwrap();
    fs::remove_file(masks.join("a/2.png")).unwrap();
    let error = Annotated::masks(&images, &masks).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format);
    let message = error.to_string();
    assert!(message.contains("1 of 3 images have no mask: expected "), "{message}");
    assert!(message.contains("set/masks/a/2.png"), "{message}");
    fs::create_dir(dir.path().join("none")).unwrap();
    assert_says(Annotated::masks(dir.path().join("none"), &masks).unwrap_err(), ["no .jpg, .jpeg"]);
    let error = Annotated::masks(&images, dir.path().join("nowhere")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[cfg(unix)]
#[test]
fn linked_folders_are_listed_and_what_is_left_out_is_said() {
    use std::os::unix::fs::symlink;
    let dir = folder(&[
        ("set/images/a/1.jpg", "a1"),
        ("set/masks/a/1.png", "mask of a1"),
        ("real/i/in/2.jpg", "b2"),
        ("real/m/in/2.png", "mask of b2"),
    ]);
    let at = |path: &str| dir.path().join(path);
    symlink("../../real/i", at("set/images/b")).unwrap();
    symlink("../../real/m", at("set/masks/b")).unwrap();
    let opened = || {
        crate::warnings::recorded(|| Annotated::masks(at("set/images"), at("set/masks")).unwrap())
    };
    let own = |said: Vec<String>| -> Vec<String> {
        said.into_iter().filter(|text| text.contains(&*dir.path().to_string_lossy())).collect()
    };
    let (source, said) = opened();
    let mut paths: Vec<PathBuf> = source.facts().paths().collect();
    paths.sort();
    let want = ["images/a/1.jpg", "images/b/in/2.jpg", "masks/a/1.png", "masks/b/in/2.png"];
    assert_eq!(paths, want.map(|path| at("set").join(path)));
    assert_eq!(own(said), [""; 0]);
    let OwnedValue::Image(mask) = &source.read(SampleId(1)).unwrap()[1] else { panic!("no mask") };
    assert_eq!(mask.bytes, b"mask of b2");

    // Two loops, a folder that is gone, and an image that is gone, whose sample is damaged.
    symlink("..", at("set/images/a/loop")).unwrap();
    symlink("../../set/images", at("real/i/loop")).unwrap();
    symlink("nowhere", at("set/images/gone")).unwrap();
    symlink("nowhere.jpg", at("set/images/a/3.jpg")).unwrap();
    fs::write(at("set/masks/a/3.png"), "mask of a3").unwrap();
    let (source, said) = opened();
    assert_eq!(source.facts().samples, 3);
    let error = source.read(SampleId(1)).unwrap_err().to_string();
    assert!(error.contains("3.jpg"), "{error}");
    let said = own(said);
    assert!(said.len() == 1, "{said:?}");
    assert_says(&said[0], ["set/images: 2 loops left out, 1 link to nothing left out: remove"]);
}

/// The resolution of DAVIS may be a link, and so may a video below it.
#[cfg(unix)]
#[test]
fn masks_of_videos_are_found_behind_links() {
    use std::os::unix::fs::symlink;
    let dir = folder(&[
        ("real/i/bear/00000.jpg", "frame"),
        ("real/m/bear/00000.png", "mask"),
        ("set/JPEGImages/notes.txt", ""),
        ("set/Annotations/notes.txt", ""),
    ]);
    let at = |path: &str| dir.path().join(path);
    symlink("../../real/i", at("set/JPEGImages/480p")).unwrap();
    assert!(!is_folder(&at("set")));
    symlink("../../real/m", at("set/Annotations/480p")).unwrap();
    assert!(is_folder(&at("set")));
    let Dataset::Source(source) = Dataset::open(at("set")).unwrap() else { panic!("a folder") };
    let names: Vec<&str> = source.fields().iter().map(|field| &*field.name).collect();
    assert_eq!((names, source.len()), (vec!["image", "mask"], 1));
}
