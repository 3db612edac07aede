//! What `verify` finds in the objects of images: what a loader refuses is damage, and what trains nothing is listed.

use fuseloop::SampleId;
use fuseloop::source::{Annotated, CocoOptions};
use fuseloop::verify::{DamageKind, DegenerateKind, VerifyOptions, VerifyReport, verify};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;

/// Verifies images of 40 x 30 pixels, whose objects are given: one list of them for each image.
fn report(images: &[Vec<Value>]) -> VerifyReport {
    let dir = tempfile::tempdir().unwrap();
    let (mut listed, mut objects) = (vec![], vec![]);
    for (image, own) in (0..).zip(images) {
        let name = format!("{image}.jpg");
        let jpeg = jpeg_encoder::Encoder::new_file(dir.path().join(&name), 90).unwrap();
        jpeg.encode(&[99; 40 * 30], 40, 30, jpeg_encoder::ColorType::Luma).unwrap();
        listed.push(json!({"id": image, "file_name": name}));
        for own in own {
            let mut object = own.clone();
            object["image_id"] = image.into();
            object["category_id"] = 5.into();
            object["id"] = (700 + objects.len()).into();
            objects.push(object);
        }
    }
    let categories = json!([{"id": 5, "name": "cat"}]);
    let text = json!({"images": listed, "categories": categories, "annotations": objects});
    let path = dir.path().join("instances.json");
    fs::write(&path, text.to_string()).unwrap();
    let source = Annotated::coco(dir.path(), &path, &CocoOptions::default()).unwrap();
    let run = |threads| {
        let options =
            VerifyOptions { threads: NonZeroUsize::new(threads), ..VerifyOptions::default() };
        verify(&source, &options, &|_| {}).unwrap()
    };
    let (one, other) = (run(1), run(3));
    assert_eq!((&one.first, &one.troubles), (&other.first, &other.troubles));
    assert_eq!(one.first_degenerate, other.first_degenerate);
    assert_eq!(one.degenerate, other.degenerate);
    one
}

fn object(bbox: [f64; 4]) -> Value {
    json!({ "bbox": bbox })
}

#[test]
fn degenerate_objects_are_listed_and_are_no_damage() {
    let whole = object([0.0, 0.0, 40.0, 30.0]);
    let report = report(&[
        vec![whole.clone(), object([3.0, 4.0, 0.0, 5.0])],
        vec![],
        vec![object([-1.0, 0.0, 41.0, 31.0]), object([30.0, 5.0, 11.5, 5.0]), whole],
        vec![
            json!({"bbox": [1, 1, 5, 5], "segmentation": [[50, 1, 60, 1, 60, 9]]}),
            json!({"bbox": [1, 1, 5, 5], "keypoints": [3, 4, 2, 0, 0, 0]}),
            json!({"bbox": [1, 1, 5, 5], "keypoints": [3, 4, 2, 3, 31, 1]}),
        ],
    ]);
    assert!(report.is_whole(), "{:?}", report.first);
    let expected = [
        (DegenerateKind::EmptyBox, 1),
        (DegenerateKind::BoxOutside, 1),
        (DegenerateKind::KeypointOutside, 1),
        (DegenerateKind::EmptyMask, 1),
    ];
    assert_eq!(report.degenerate, BTreeMap::from(expected));
    let found = report.first_degenerate.iter();
    let found: Vec<_> =
        found.map(|one| (one.sample.0, &*one.field, one.object, one.annotation)).collect();
    let expected = [
        (0, "bbox", 1, Some(701)),
        (2, "bbox", 1, Some(703)),
        (3, "segmentation", 0, Some(705)),
        (3, "keypoints", 2, Some(707)),
    ];
    assert_eq!(found, expected);
    let texts: Vec<String> = report.first_degenerate.iter().map(ToString::to_string).collect();
    for (text, expected) in texts.iter().zip([
        " (bbox): object 1, annotation 701: the box [3.0, 4.0, 0.0, 5.0] (xywh) has no area",
        ": the box [30.0, 5.0, 11.5, 5.0] (xywh) reaches 1.5 pixels out of an image of 40x30",
        ": the mask has no pixel in an image of 40x30",
        ": keypoint 1 is at (3, 31), outside of an image of 40x30",
    ]) {
        assert!(text.starts_with("sample ") && text.ends_with(expected), "{text}");
    }
}

#[test]
fn objects_that_a_loader_refuses_are_damage() {
    let mask = |segmentation: Value| json!({"bbox": [1, 1, 5, 5], "segmentation": segmentation});
    let report = report(&[
        vec![object([0.0, 0.0, 5.0, 5.0]), object([9.0, 0.0, -5.0, 5.0])],
        vec![object([0.0, 0.0, 5.0, 5.0])],
        vec![mask(json!({"size": [30, 41], "counts": [1230]}))],
        vec![mask(json!([[1, 2, 3, 4, 5]]))],
    ]);
    let found: Vec<_> = report.first.iter().map(|one| (one.sample.0, &*one.field)).collect();
    assert_eq!(found, [(0, "bbox"), (2, "segmentation"), (3, "segmentation")]);
    assert_eq!(report.troubles, BTreeMap::from([(DamageKind::Objects, 3)]));
    for (damaged, expected) in report.first.iter().zip([
        "the box of object 1 is [9.0, 0.0, -5.0, 5.0], whose width is negative",
        "the mask of object 0: the mask is 41x30, the image is 40x30",
        "the masks of the objects: object 0: polygon 0 has 5 coordinates",
    ]) {
        assert!(damaged.error.contains(expected), "{damaged}");
    }
    assert!(report.good().eq([SampleId(1)]), "the others do not train");
}
