//! The picture in docs/targets.md: a drawn scene with its targets, and what three epochs make of it.
//!
//! `FUSELOOP_WRITE_DOCS=1 cargo test -p fuseloop-cli --test cli docs::` writes it, as it writes those of the
//! [gallery](super::gallery).

use super::gallery::{Strip, assert_current, pictures, root};
use super::is_writing;
use fuseloop::loader::{KeyPoints, Targets};
use fuseloop::ops::{BoxFormat, DType, Size};
use fuseloop::preview::PreviewOptions;
use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Loader, ObjectMask, ops::*};
use serde_json::json;
use std::f64::consts::TAU;
use std::fs;
use std::path::Path;

const SIZE: Size = Size::new(240, 320);

/// The limit on the size of the file in bytes.
const MOST: usize = 60_000;

/// An object: its class, its middle, its radius, the number of its corners, and its colour.
type Object = (i64, [f64; 2], f64, u32, [u8; 3]);

const OBJECTS: [Object; 3] = [
    (0, [80.0, 90.0], 46.0, 40, [236, 236, 226]),
    (0, [172.0, 60.0], 26.0, 40, [250, 210, 90]),
    (1, [248.0, 128.0], 40.0, 4, [90, 160, 90]),
];

/// The corners of an object.
fn polygon([x, y]: [f64; 2], radius: f64, corners: u32) -> Vec<f64> {
    let corner = |index| {
        let angle = TAU * f64::from(index) / f64::from(corners);
        [x + radius * angle.sin(), y - radius * angle.cos()]
    };
    (0..corners).flat_map(corner).collect()
}

/// Writes the scene: balloons, whose keypoint is at their lower end, and a kite, whose keypoint is hidden.
fn dataset(path: &Path) {
    let mut pixels = pictures::draw_at(0, 1, SIZE.width, SIZE.height).pixels;
    let [mut boxes, mut points, mut labels] = [vec![], vec![], vec![]];
    let (mut masks, mut mask) = (vec![], vec![0; SIZE.pixels() as usize]);
    for (class, [x, y], radius, corners, colour) in OBJECTS {
        let polygon = polygon([x, y], radius, corners);
        ObjectMask::from_polygons(vec![polygon.clone()]).unwrap().fill(SIZE, &mut mask).unwrap();
        let own = pixels.chunks_mut(3).zip(&mask).filter(|(_, own)| **own == 1);
        own.for_each(|(pixel, _)| pixel.copy_from_slice(&colour));
        let edges = [x - radius, y - radius, x + radius, y + radius].map(|edge| edge as f32);
        boxes.extend(edges.map(f32::to_le_bytes).concat());
        let visibility = if class == 0 { 2.0 } else { 1.0 };
        let point = [x as f32, (y + radius) as f32, visibility];
        points.extend(point.map(f32::to_le_bytes).concat());
        labels.extend(class.to_le_bytes());
        masks.push(json!([polygon]));
    }
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = [
        field("image", FieldKind::RgbImage),
        field("bbox", FieldKind::Bytes),
        field("category_id", FieldKind::Bytes),
        field("keypoints", FieldKind::Bytes),
        field("segmentation", FieldKind::Json),
    ];
    let image = ImageInput::Rgb { pixels, width: SIZE.width, height: SIZE.height };
    let [boxes, labels, points] = [boxes, labels, points].map(FieldValue::Bytes);
    let row = vec![FieldValue::Image(image), boxes, labels, points, FieldValue::Json(masks.into())];
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    write_iter([row], &fields, path, &WriteOptions { image, ..WriteOptions::default() }).unwrap();
    let classes = json!([{"number": 0, "name": "balloon"}, {"number": 1, "name": "kite"}]);
    let names = format!("{{\"fuseloop\":\"classes\",\"version\":1,\"classes\":{classes}}}");
    fs::write(path.with_file_name("scene.beton.classes.json"), names).unwrap();
}

#[test]
fn the_page_of_targets_shows_a_scene() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("scene.beton");
    dataset(&data);
    let targets = Targets::new()
        .boxes("bbox", BoxFormat::Xyxy)
        .column("category_id", DType::I64)
        .keypoints("keypoints", KeyPoints::new(1))
        .instance_masks("segmentation");
    let list = ops![
        RandomIoUCrop::new(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        RandomRotation::new(15.0).unwrap(),
        Resize::new((168, 224)).unwrap(),
        SanitizeBoundingBoxes::new(),
    ];
    let loader = Loader::open(&data).unwrap().targets("image", targets).pipeline("image", list);
    let loader = loader.batch_size(1).seed(7).build().unwrap();
    let options = PreviewOptions { samples: 1, epochs: 3, ..PreviewOptions::default() };
    let sheet = loader.preview(&options).unwrap();
    let size = Size::new(sheet.height(), sheet.width());
    let strip = Strip { size, pixels: sheet.rgb().to_vec() };
    let path = root().join("docs/targets.jpg");
    assert!(strip.jpeg().len() < MOST, "docs/targets.jpg has {} bytes", strip.jpeg().len());
    if is_writing() {
        return fs::write(path, strip.jpeg()).unwrap();
    }
    assert_current(&path, &strip);
}
