//! `preview` and `replay` of images with boxes, keypoints and masks.

use crate::command::{fuseloop, stdout_of};
use fuseloop::internals::preview::encode;
use fuseloop::internals::workload::Workload;
use fuseloop::loader::{KeyPoints, Targets};
use fuseloop::ops::{BoxFormat, DType, Size};
use fuseloop::{Batch, Loader};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const FILE: &str = "annotations/instances_val.json";
const SIZE: Size = Size::new(200, 300);

fn png(path: &Path, pixel: impl Fn(usize) -> u8, channels: usize) {
    let pixels: Vec<u8> = (0..SIZE.pixels() as usize * channels).map(pixel).collect();
    encode::png(fs::File::create(path).unwrap(), &pixels, SIZE).unwrap();
}

/// Writes two images, the first of which has two objects, in COCO's format.
fn coco() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["val", "annotations"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
    }
    for name in ["1.png", "2.png"] {
        png(&dir.path().join("val").join(name), |at| (at / 300 % 256) as u8, 3);
    }
    let object = |id: u32, category: u32, bbox: [f64; 4], keypoints: Value| {
        let [x, y, w, h] = bbox;
        json!({"id": id, "image_id": 1, "category_id": category, "bbox": bbox, "iscrowd": 0, "area": w * h,
            "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]], "keypoints": keypoints})
    };
    let coco = json!({
        "images": [{"id": 1, "file_name": "1.png"}, {"id": 2, "file_name": "2.png"}],
        "categories": [{"id": 1, "name": "cat"}, {"id": 90, "name": "brush"}],
        "annotations": [
            object(7, 90, [60.5, 40.25, 100.0, 80.0], json!([90, 60, 2, 120, 90, 1])),
            object(8, 1, [150.0, 100.0, 60.0, 50.0], json!([160, 110, 2, 180, 120, 2])),
        ],
    });
    fs::write(dir.path().join(FILE), coco.to_string()).unwrap();
    dir
}

/// Returns the first sample as a loader with the targets of COCO delivers it.
fn batch(path: &Path) -> Batch {
    let targets = Targets::new()
        .boxes("bbox", BoxFormat::Xywh)
        .column("category_id", DType::I64)
        .keypoints("keypoints", KeyPoints::new(2));
    let loader = Loader::open(path.join(FILE)).unwrap().targets("image", targets);
    let loader =
        loader.pipeline("image", Workload::Validation.ops().unwrap()).without("segmentation");
    loader.build().unwrap().get(&[0], 0).unwrap()
}

fn bits(values: &[Value]) -> Vec<u32> {
    values.iter().map(|value| (value.as_f64().unwrap() as f32).to_bits()).collect()
}

#[test]
fn objects_of_annotations_are_replayed_without_a_pipeline_file() {
    let dir = coco();
    let path = dir.path();
    let args = ["replay", FILE, "-w", "W2", "--sample", "0", "--out", "out"];
    let text = stdout_of(path, &args);
    for line in [
        "\n  objects: 2 stored, 2 after the ops\n",
        "\n    0 brush: xywh [60.5, 40.25, 100, 80] -> xywh [",
        "], 1 of 2 keypoints visible -> 1\n    1 cat: xywh [150, 100, 60, 50] -> xywh [",
        "], 2 of 2 keypoints visible -> 2\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json: Value =
        serde_json::from_slice(&fs::read(path.join("out/targets.json")).unwrap()).unwrap();
    let brush = &json["before"]["objects"][0];
    let expected = json!({"box": [60.5, 40.25, 100.0, 80.0], "format": "xywh", "class": 1, "name": "brush",
        "keypoints": [[90.0, 60.0, 2.0], [120.0, 90.0, 1.0]]});
    assert_eq!((brush, &json["before"]["size"]), (&expected, &json!([200, 300])));
    let (batch, after) = (batch(path), json["after"]["objects"].as_array().unwrap());
    let boxes = after.iter().flat_map(|object| object["box"].as_array().unwrap().clone());
    let expected = batch.ragged::<f32>("bbox").unwrap();
    let expected: Vec<u32> = expected.values().iter().map(|value| value.to_bits()).collect();
    assert_eq!((bits(&boxes.collect::<Vec<_>>()), expected.len()), (expected, 8));
    assert_eq!((&after[1]["before"], &after[1]["name"]), (&json!(1), &json!("cat")));

    let size = |name: &str| fs::metadata(path.join("out").join(name)).unwrap().len();
    for stem in ["image_00_decoded", "image_01_CenterCrop", "image_03_ToChannelsFirst"] {
        let [plain, drawn] = ["", "_targets"].map(|end| size(&format!("{stem}{end}.png")));
        assert!(drawn != plain, "{stem}");
    }
    assert!(!fuseloop(path, &args).status.success(), "nothing is overwritten");
    let none = stdout_of(path, &["replay", FILE, "-w", "W2", "--sample", "1"]);
    assert!(none.contains("\n  objects: 0 stored, 0 after the ops\n"), "{none}");
}

#[test]
fn targets_are_drawn_on_the_sheet_unless_a_pipeline_file_declares_none() {
    let dir = coco();
    let path = dir.path();
    let fields = "[fields]\nimage = [{ op = 'CenterCrop', size = 224 }]\n";
    let declared = "[targets.image]\nbbox = { as = 'boxes', format = 'xywh' }\ncategory_id = 'column'\n\
        keypoints = { as = 'keypoints', each = 2 }\nsegmentation = 'instance_masks'\n";
    fs::write(path.join("plain.toml"), fields).unwrap();
    fs::write(path.join("drawn.toml"), format!("{fields}{declared}")).unwrap();
    let sheet = |args: &[&str]| {
        stdout_of(path, &[&["preview", FILE, "-n", "1", "-m", "2", "-o", "a.png"], args].concat());
        fs::read(path.join("a.png")).unwrap()
    };
    let [plain, drawn] = ["plain.toml", "drawn.toml"].map(|file| sheet(&["-p", file]));
    assert!(plain != drawn && drawn == sheet(&["-p", "drawn.toml"]));
    sheet(&["-w", "W1"]);
    let each = stdout_of(path, &["preview", FILE, "-n", "2", "--each-op", "-o", "each.jpg"]);
    assert!(each.contains("2 samples of W1"), "{each}");
    // A file that was converted knows its objects, as long as their description is beside it.
    stdout_of(path, &["convert", FILE, "coco.beton"]);
    let replayed = || stdout_of(path, &["replay", "coco.beton", "-w", "W2", "--sample", "0"]);
    assert!(replayed().contains("objects: 2 stored, 2 after the ops"), "{}", replayed());
    fs::remove_file(path.join("coco.beton.objects.json")).unwrap();
    assert!(!replayed().contains("objects:"), "{}", replayed());
}

/// Creates `set`, a folder of one image and its mask.
pub(super) fn with_masks(path: &Path) {
    for folder in ["set/images", "set/masks"] {
        fs::create_dir_all(path.join(folder)).unwrap();
    }
    png(&path.join("set/images/1.png"), |at| (at / 300 % 256) as u8, 3);
    png(&path.join("set/masks/1.png"), |at| u8::from(at % 300 < 150), 1);
}

#[test]
fn a_folder_with_masks_is_shown_with_its_masks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    with_masks(path);
    stdout_of(path, &["preview", "set", "-n", "1", "-m", "1"]);
    let text = stdout_of(path, &["replay", "set", "--sample", "0", "--out", "out"]);
    assert!(text.contains("field mask:") && !text.contains("objects:"), "{text}");
    assert!(path.join("out/image_00_decoded_targets.png").is_file());
    let json: Value =
        serde_json::from_slice(&fs::read(path.join("out/targets.json")).unwrap()).unwrap();
    assert_eq!(json["before"], json!({"size": [200, 300], "objects": []}));
}

/// A conversion of a folder of masks has the same masks, and is shown with them.
#[test]
fn masks_are_masks_after_a_conversion() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    with_masks(path);
    let args = ["set", "--write-mode", "jpg"];
    for (name, args) in [("a.beton", &args[..1]), ("b.beton", &args), ("a.tar", &args)] {
        let told = stdout_of(path, &[&["convert"][..], args, &[name][..]].concat());
        assert_eq!(told.contains("PNG to raw pixels: no pixel changed"), name != "a.tar", "{told}");
        assert_eq!(told.contains("1 from PNG to JPEG: lossy"), args.len() > 1, "{told}");
        let field = if name == "a.tar" { "mask.png" } else { "mask" };
        let told = stdout_of(path, &["info", name]);
        assert!(told.contains(&format!("{field}: a mask: the class of each pixel")), "{told}");
        assert!(stdout_of(path, &["verify", name]).contains("no damage found"));
        stdout_of(path, &["preview", name, "-n", "1", "-m", "1"]);
        // The masks of a workload follow their images.
        stdout_of(path, &["bench", name, "-w", "W2", "--epochs", "1"]);
        assert!(stdout_of(path, &["explain", name, "-w", "W2"]).contains("mask"));
        let told = stdout_of(path, &["replay", name, "--sample", "0"]);
        assert!(told.contains(&format!("field {field}:")), "{told}");
    }
}
