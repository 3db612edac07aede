//! Annotated objects, and the files of MNIST: each is a dataset of every command.

use crate::command::{dataset, fuseloop, refused, stdout_of};
use fuseloop::SampleId;
use fuseloop::source::{Buffer, Dataset};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Runs `verify` and returns its exit code and what it lists.
fn verified(dir: &Path, dataset: &str) -> (Option<i32>, String) {
    let output = fuseloop(dir, &["verify", dataset]);
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Boxes, classes and masks are the same after each conversion.
#[test]
fn annotations_of_coco_are_a_dataset_of_every_command() {
    let dir = dataset();
    fs::rename(dir.path().join("photos/cat"), dir.path().join("val")).unwrap();
    let mut images: Vec<String> = fs::read_dir(dir.path().join("val"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".jpg"))
        .collect();
    images.sort();
    let image = |(id, name): (usize, &String)| json!({"id": id, "file_name": name});
    let object = |image: usize, category: i64, bbox: Value| {
        json!({"id": 7, "image_id": image, "category_id": category, "bbox": bbox, "iscrowd": 0,
            "area": 1.5, "segmentation": [[1, 1, 1, 4, 5, 4, 5, 1]]})
    };
    let coco = json!({
        "images": images.iter().enumerate().map(image).collect::<Vec<_>>(),
        "categories": [{"id": 1, "name": "cat"}, {"id": 90, "name": "brush"}],
        "annotations": [object(0, 90, json!([1, 2, 3.5, 4])), object(0, 1, json!([0, 0, 9, 9])),
            object(2, 90, json!([5, 5, 1, 1]))],
    });
    fs::create_dir(dir.path().join("annotations")).unwrap();
    let file = "annotations/instances_val.json";
    fs::write(dir.path().join(file), coco.to_string()).unwrap();
    let chain = [(file, "a.beton"), ("a.beton", "a.tfrecord"), ("a.tfrecord", "b.beton")];
    for (from, to) in chain.into_iter().chain([(file, "a.tar")]) {
        stdout_of(dir.path(), &["convert", from, to]);
    }
    let classes = "2 classes, 3 objects\n  0    cat                      1 object\n  1    brush                    2 objects\n";
    for name in [file, ".", "b.beton"] {
        let text = stdout_of(dir.path(), &["info", name]);
        assert!(text.contains(classes) && text.contains("segmentation     json"), "{text}");
    }
    for name in [file, "a.beton", "a.tfrecord", "b.beton"] {
        let objects = "objects\n  image_id: the number of the image\n  bbox: boxes, xywh, in pixels\n  category_id: classes\n";
        let text = stdout_of(dir.path(), &["info", name]);
        assert!(text.contains(objects), "{text}");
        let text = stdout_of(dir.path(), &["info", name, "--json"]);
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["objects"]["bbox"], "boxes, xywh, in pixels");
    }
    let text = stdout_of(dir.path(), &["info", "a.tar"]);
    assert!(text.contains("  bbox.npy: boxes, xywh, in pixels\n"), "{text}");
    let json: Value =
        serde_json::from_str(&stdout_of(dir.path(), &["info", file, "--json"])).unwrap();
    assert_eq!(
        json["classes"][1],
        json!({"number": 1, "name": "brush", "samples": null, "objects": 2})
    );
    stdout_of(dir.path(), &["verify", file]);
    let read = |name: &str| {
        let dataset = Dataset::open(dir.path().join(name)).unwrap().source().unwrap();
        let fields: Vec<String> = dataset.fields().iter().map(|field| field.name.clone()).collect();
        let mut buffer = Buffer::default();
        let mut values = BTreeMap::new();
        for sample in 0..dataset.len() {
            for (index, field) in fields.iter().enumerate().filter(|(_, name)| *name != "image") {
                let value = dataset.value(SampleId(sample), index, &mut buffer).unwrap();
                values.insert((field.clone(), sample), format!("{value:?}"));
            }
        }
        values
    };
    assert_eq!(read(file), read("a.beton"));
    let (code, message) = refused(dir.path(), &["index", "."]);
    assert!(code == 1 && message.contains("images with annotated objects"), "{message}");
}

#[test]
fn a_folder_of_voc_is_a_dataset_of_every_command() {
    let dir = dataset();
    let images = dir.path().join("voc/JPEGImages");
    fs::create_dir_all(dir.path().join("voc/Annotations")).unwrap();
    fs::rename(dir.path().join("photos/cat"), &images).unwrap();
    let names = fs::read_dir(&images).unwrap().map(|file| file.unwrap().path());
    for image in names.filter(|path| path.extension().is_some_and(|extension| extension == "jpg")) {
        let object = "<object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox>\
            </object>";
        let name = image.file_stem().unwrap().to_string_lossy().into_owned() + ".xml";
        let xml = format!("<annotation>{object}{object}</annotation>");
        fs::write(dir.path().join("voc/Annotations").join(name), xml).unwrap();
    }
    for (from, to) in [("voc", "a.beton"), ("a.beton", "a.tfrecord"), ("a.tfrecord", "b.beton")] {
        stdout_of(dir.path(), &["convert", from, to]);
    }
    let samples = Dataset::open(dir.path().join("voc")).unwrap().source().unwrap().len();
    for name in ["voc", "a.beton", "b.beton"] {
        let text = stdout_of(dir.path(), &["info", name]);
        let objects = 2 * samples;
        let classes = format!(
            "1 class, {objects} objects\n  0    cat                      {objects} objects\n"
        );
        assert!(text.contains(&classes) && text.contains("  difficult        bytes"), "{text}");
        assert!(stdout_of(dir.path(), &["verify", name]).contains("no damage found"));
    }
    fs::write(dir.path().join("voc/Annotations/9.xml"), "<annotation/>").unwrap();
    let (code, message) = verified(dir.path(), "voc");
    assert!(code == Some(1) && message.contains("9.xml: the image is missing"), "{message}");
    let (code, message) = refused(dir.path(), &["index", "voc"]);
    assert!(code == 1 && message.contains("images with annotated objects"), "{message}");
}

#[test]
fn a_folder_of_yolo_is_a_dataset_of_every_command() {
    let dir = dataset();
    let images = dir.path().join("yolo/images/train");
    let labels = dir.path().join("yolo/labels/train");
    fs::create_dir_all(images.parent().unwrap()).unwrap();
    fs::create_dir_all(&labels).unwrap();
    fs::rename(dir.path().join("photos/cat"), &images).unwrap();
    fs::write(dir.path().join("yolo/data.yaml"), "names:\n  0: dog\n  1: cat\n").unwrap();
    let names = fs::read_dir(&images).unwrap().map(|file| file.unwrap().path());
    for image in names.filter(|path| path.extension().is_some_and(|extension| extension == "jpg")) {
        let name = image.file_stem().unwrap().to_string_lossy().into_owned() + ".txt";
        fs::write(labels.join(name), "1 0.5 0.5 0.25 0.5\n1 0.1 0.1 0.5 0.1 0.5 0.5\n").unwrap();
    }
    let root = "yolo/images/train";
    for (from, to) in [(root, "a.beton"), ("a.beton", "a.tfrecord"), ("a.tfrecord", "b.beton")] {
        stdout_of(dir.path(), &["convert", from, to]);
    }
    for name in [root, "yolo", "a.beton", "b.beton"] {
        let text = stdout_of(dir.path(), &["info", name]);
        assert!(text.contains("2 classes, ") && text.contains("  1    cat  "), "{text}");
        assert!(text.contains("  segmentation     json"), "{text}");
        assert!(stdout_of(dir.path(), &["verify", name]).contains("no damage found"));
    }
    let oriented = fs::read_dir(&labels).unwrap().next().unwrap().unwrap().path();
    let oriented = images.join(oriented.with_extension("jpg").file_name().unwrap());
    let upright = fs::read(&oriented).unwrap();
    // An EXIF segment with the orientation 6.
    let exif =
        b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    fs::write(&oriented, [&upright[..2], exif, &upright[2..]].concat()).unwrap();
    assert!(stdout_of(dir.path(), &["verify", root]).contains("no damage found"));
    let preview = ["preview", root, "-n", "32", "-o", "a.png"];
    let (code, message) = refused(dir.path(), &preview);
    let name = oriented.file_name().unwrap().to_string_lossy().into_owned();
    assert!(code == 1 && message.contains(&name), "{message}");
    assert!(message.contains("set `exif_orientation` to true"), "{message}");
    stdout_of(dir.path(), &[&preview[..], &["--exif-orientation", "true"]].concat());
    fs::write(labels.join("9.txt"), "1 0.5").unwrap();
    fs::copy(fs::read_dir(&images).unwrap().next().unwrap().unwrap().path(), images.join("9.jpg"))
        .unwrap();
    let (code, message) = verified(dir.path(), root);
    assert!(code == Some(1) && message.contains("9.txt: line 1: 2 numbers, expected"), "{message}");
    let (code, message) = refused(dir.path(), &["index", root]);
    assert!(code == 1 && message.contains("images with annotated objects"), "{message}");
}

#[test]
fn files_of_mnist_are_a_dataset_of_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/mnist_cifar/mnist");
    fs::create_dir(dir.path().join("mnist")).unwrap();
    for file in fs::read_dir(golden).unwrap().map(|file| file.unwrap()) {
        fs::copy(file.path(), dir.path().join("mnist").join(file.file_name())).unwrap();
    }
    let of_mnist = stdout_of(dir.path(), &["info", "mnist/"]);
    for line in [
        "mnist/: 6 samples",
        "  image            array |u1 [5, 7]",
        "  label            int",
        "10 classes",
        "  4    4                        2 samples",
        "  6    6                        1 sample",
    ] {
        assert!(of_mnist.lines().any(|found| found == line), "{line}\n{of_mnist}");
    }
    let text = stdout_of(dir.path(), &["info", "mnist/t10k-images-idx3-ubyte.gz"]);
    assert!(text.starts_with("mnist/t10k-images-idx3-ubyte.gz: 4 samples"), "{text}");
    assert!(stdout_of(dir.path(), &["verify", "mnist"]).contains("no damage found"));
    let text = stdout_of(dir.path(), &["convert", "mnist/", "mnist.beton"]);
    assert!(text.starts_with("mnist.beton: 6 samples in 1 file"), "{text}");
    let of_beton = stdout_of(dir.path(), &["info", "mnist.beton"]);
    let classes = |text: &str| text.split_once("10 classes").unwrap().1.to_owned();
    assert_eq!(classes(&of_beton), classes(&of_mnist));
    let pipeline = "[[fields.image]]\nop = \"RandomRotation\"\ndegrees = 20\n";
    fs::write(dir.path().join("gray.toml"), pipeline).unwrap();
    let of_gray =
        |command: &str| stdout_of(dir.path(), &[command, "mnist", "--pipeline", "gray.toml"]);
    let text = of_gray("explain");
    assert!(text.contains("RandomRotation"), "{text}");
    assert!(text.contains("35 bytes stored, 35 bytes decoded"), "{text}");
    assert!(of_gray("bench").contains("images/s"));
    assert!(of_gray("preview").starts_with("saved preview.png: 6 samples"));
    let (_, error) = refused(dir.path(), &["bench", "mnist"]);
    assert!(error.contains("can give ops to arrays of bytes"), "{error}");
    let (code, error) = refused(dir.path(), &["index", "mnist"]);
    assert_eq!(code, 1);
    assert!(error.contains("help: `fuseloop convert` writes them"), "{error}");
}
