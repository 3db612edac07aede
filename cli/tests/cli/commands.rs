//! The promises of the command: every sub-command works on a small dataset, and each kind of misuse
//! gives an error that names the next step.

use crate::command::{fuseloop, stdout_of};
use fuseloop::internals::source::BetonExt as _;
use fuseloop::internals::workload::Workload;
use fuseloop::ops::internals::registry::registry;
use fuseloop::source::{Buffer, Dataset, OpenOptions};
use fuseloop::{Loader, Order, SampleId, Spec};
use fuseloop_counts::rounds;
use jpeg_encoder::{ColorType, Encoder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs the command and returns its exit code and its stderr.
fn refused(dir: &Path, args: &[&str]) -> (i32, String) {
    let output = fuseloop(dir, args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), errors)
}

fn jpeg(width: u16, height: u16, seed: usize) -> Vec<u8> {
    let shade = |i: usize| ((i * (3 + seed) / 64) % 256) as u8;
    let pixels: Vec<u8> = (0..usize::from(width) * usize::from(height) * 3).map(shade).collect();
    let mut out = vec![];
    Encoder::new(&mut out, 90).encode(&pixels, width, height, ColorType::Rgb).unwrap();
    out
}

/// A folder of two classes: six JPEGs of different sizes and a text file.
fn folder(dir: &Path) -> PathBuf {
    let folder = dir.join("photos");
    for (class, k) in [("cat", 0), ("cat", 1), ("cat", 2), ("dog", 3), ("dog", 4), ("dog", 5)] {
        fs::create_dir_all(folder.join(class)).unwrap();
        let size = 40 + 10 * k as u16;
        fs::write(folder.join(class).join(format!("{k}.jpg")), jpeg(size + 7, size, k)).unwrap();
    }
    fs::write(folder.join("cat/notes.txt"), "not a picture").unwrap();
    folder
}

/// A temporary folder with `photos.beton` in it.
fn dataset() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path());
    stdout_of(dir.path(), &["write", "photos", "photos.beton"]);
    dir
}

#[test]
fn a_demo_needs_nothing_and_leaves_a_contact_sheet() {
    let dir = tempfile::tempdir().unwrap();
    let text = stdout_of(dir.path(), &["demo"]);
    for word in ["images/s", "first batch after", "code of epoch 0 reused", "recompiled in"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(text.contains("RandomResizedCrop        window pushed into decode"), "{text}");
    let sheet = fs::File::open(dir.path().join("fuseloop-demo.png")).unwrap();
    let reader = png::Decoder::new(std::io::BufReader::new(sheet)).read_info().unwrap();
    assert!(reader.info().width > 1000 && reader.info().height > 500);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_demo_keeps_its_files_in_an_empty_folder_only() {
    let dir = tempfile::tempdir().unwrap();
    stdout_of(dir.path(), &["demo", "--keep", "kept", "--out", "sheet.png"]);
    assert!(stdout_of(dir.path(), &["info", "kept/demo.beton"]).contains("as JPEG"));
    let (code, errors) = refused(dir.path(), &["demo", "--keep", "kept"]);
    assert_eq!(code, 1);
    assert!(errors.contains("error: kept is not empty\nhelp: "), "{errors}");
}

#[test]
fn write_reports_images_classes_and_what_it_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let photos = folder(dir.path());
    fs::write(photos.join("dog/9.jpg"), b"no JPEG").unwrap();
    let (code, errors) = refused(dir.path(), &["write", "photos", "x.beton"]);
    assert_eq!(code, 1);
    assert!(errors.contains("9.jpg") && errors.contains("help: `--damaged skip`"), "{errors}");
    assert!(!dir.path().join("x.beton").exists());

    let text =
        stdout_of(dir.path(), &["write", "photos", "x.beton", "--damaged", "skip", "--verify"]);
    for word in ["x.beton: 6 images", "2 classes", "6 JPEGs stored byte for byte", "images/s"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(text.contains("skipped 1 damaged image:\n") && text.contains("9.jpg (sample 6)"));
    assert!(text.contains("ignored 1 other file:\n") && text.contains("notes.txt"), "{text}");
}

#[test]
fn write_stores_as_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path());
    let stored = |mode: &[&str]| {
        stdout_of(dir.path(), &[&["write", "photos", "x.beton"], mode].concat());
        let info: Value =
            serde_json::from_str(&stdout_of(dir.path(), &["info", "x.beton", "--json"])).unwrap();
        let stats = &info["fields"][0]["stats"];
        let number = |name: &str| stats[name].as_u64().unwrap();
        (number("jpeg"), number("raw"), number("max_width"))
    };
    assert_eq!(stored(&["--write-mode", "raw"]), (0, 6, 97));
    assert_eq!(stored(&["--write-mode", "smart", "--smart-threshold", "10000"]), (4, 2, 97));
    assert_eq!(stored(&["--write-mode", "proportion", "--compress-probability", "1"]), (6, 0, 97));
    assert_eq!(stored(&["--max-resolution", "50", "--jpeg-quality", "80"]), (6, 0, 50));
}

/// A PNG of one colour.
fn plain_png(path: &Path, shade: u8) {
    let file = std::io::BufWriter::new(fs::File::create(path).unwrap());
    let mut encoder = png::Encoder::new(file, 4, 3);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&[shade; 4 * 3 * 3]).unwrap();
}

/// The output of a command without its first line, which has the elapsed time.
fn summary(dir: &Path, args: &[&str]) -> String {
    stdout_of(dir, args).split_once('\n').unwrap().1.to_owned()
}

#[test]
fn a_summary_says_what_was_re_encoded_and_what_is_called_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let photos = folder(path);
    plain_png(&photos.join("cat/7.png"), 7);
    plain_png(&photos.join("dog/8.png"), 8);
    let said = |args: &[&str]| summary(path, args);
    let kept = said(&["write", "photos", "w.beton"]);
    let want = "2 classes, 6 JPEGs stored byte for byte, 1 page\n\
                re-encoded 2 images:\n  2 from PNG to raw pixels: no pixel changed\n\
                ignored 1 other file:\n";
    assert!(kept.starts_with(want), "{kept}");
    let jpg = said(&["write", "photos", "j.beton", "--write-mode", "jpg"]);
    assert!(jpg.contains("\nre-encoded 2 images:\n  2 from PNG to JPEG: lossy\n"), "{jpg}");
    assert_eq!(said(&["convert", "photos", "a.tar"]), "1 other name ignored\n");
    assert_eq!(
        said(&[
            "convert",
            "w.beton",
            "a.beton",
            "--rename",
            "image=picture",
            "--write-mode",
            "jpg"
        ]),
        "field image is called picture\nre-encoded 2 images:\n  2 from raw pixels to JPEG: lossy\n"
    );
    assert_eq!(
        said(&["convert", "w.beton", "w", "--max-resolution", "50"]),
        "re-encoded 7 images:\n  5 from JPEG to JPEG: lossy\n  2 from raw pixels to PNG: no pixel changed\n"
    );
    let (code, errors) =
        refused(path, &["convert", "a.tar", "b.beton", "--rename", "none=picture"]);
    assert!(code == 1 && errors.contains("no field named"), "{errors}");
    assert_eq!(refused(path, &["convert", "a.tar", "b.beton", "--rename", "image"]).0, 2);
    let (code, errors) = refused(path, &["convert", "photos", "photos/", "--force"]);
    assert!(
        code == 1 && errors.contains("are inside one another: choose a separate output"),
        "{errors}"
    );
}

#[test]
fn ranks_share_the_shards_of_a_conversion() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    folder(path);
    stdout_of(path, &["convert", "photos", "whole-{0}.tar", "--shards", "3"]);
    for rank in ["0/2", "1/2"] {
        let by_rank = ["convert", "photos", "x-{0}.tar", "--shards", "3", "--ranks", rank];
        stdout_of(path, &by_rank);
    }
    for shard in 0..3 {
        let read = |name: &str| fs::read(path.join(format!("{name}-{shard}.tar"))).unwrap();
        assert!(read("whole") == read("x"), "{shard}");
    }
    for ranks in ["2/2", "1", "k/n", ""] {
        let by_rank = ["convert", "photos", "y-{0}.tar", "--shards", "3", "--ranks", ranks];
        assert_eq!(refused(path, &by_rank).0, 2, "{ranks}");
    }
    assert_eq!(refused(path, &["convert", "photos", "y-{0}.tar", "--ranks", "0/2"]).0, 2);
}

#[test]
fn write_re_cuts_jpegs_if_told_and_says_which_it_could_not() {
    let dir = tempfile::tempdir().unwrap();
    let photos = folder(dir.path());
    let whole = fs::read(photos.join("dog/5.jpg")).unwrap();
    fs::write(photos.join("dog/9.jpg"), &whole[..whole.len() / 2]).unwrap();
    let write =
        |more: &[&str]| stdout_of(dir.path(), &[&["write", "photos", "x.beton"], more].concat());
    let text = write(&["--write-mode", "tiled"]);
    for word in ["x.beton: 7 images", "6 JPEGs re-cut: ", " %)\n", "kept unchanged 1 JPEG:\n"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(text.contains("9.jpg (sample 6, image): it "), "{text}");
    assert!(text.contains("1 JPEG stored byte for byte"), "{text}");
    let bytes = || fs::read(dir.path().join("x.beton")).unwrap();
    let tiled = bytes();
    write(&["--tile", "32"]);
    assert!(bytes() == tiled, "the one is the other");
    write(&["--write-mode", "tiled", "--tile", "row"]);
    assert!(bytes() != tiled);
    let text = write(&["--write-mode", "smart", "--smart-threshold", "10000", "--tile", "64"]);
    assert!(text.contains("4 JPEGs re-cut: "), "{text}");
    assert!(!write(&[]).contains("re-cut"));
}

#[test]
fn recut_writes_a_folder_or_a_file_again() {
    let dir = tempfile::tempdir().unwrap();
    let photos = folder(dir.path());
    fs::write(photos.join("dog/9.jpg"), "no JPEG").unwrap();
    let text = stdout_of(dir.path(), &["recut", "photos", "new/tiled", "-j", "2"]);
    for word in [
        "new/tiled: 7 JPEGs, ",
        " images/s\n6 JPEGs re-cut: ",
        "1 other file copied\nkept unchanged 1 JPEG:\n",
        "9.jpg: it is not a JPEG",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(dir.path().join("new/tiled/cat/notes.txt").is_file());

    fs::remove_file(photos.join("dog/9.jpg")).unwrap();
    stdout_of(dir.path(), &["write", "photos", "plain.beton"]);
    stdout_of(dir.path(), &["write", "photos", "tiled.beton", "--write-mode", "tiled"]);
    let text = stdout_of(dir.path(), &["recut", "plain.beton", "again.beton"]);
    for word in ["again.beton: 6 JPEGs, ", "6 samples in 1 page\n6 JPEGs re-cut: "] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert!(read("again.beton") == read("tiled.beton"), "two ways to the same file");
    stdout_of(dir.path(), &["recut", "plain.beton", "again.beton", "--tile", "row"]);
    assert!(read("again.beton") != read("tiled.beton"), "what is there is replaced");
}

/// Asserts that every file of `dst` equals its counterpart in `whole`. Returns the number of files,
/// without unfinished ones.
fn whole_files(dst: &Path, whole: &Path) -> usize {
    let (mut count, mut open) = (0, vec![dst.to_owned()]);
    while let Some(next) = open.pop() {
        let Ok(entries) = fs::read_dir(next) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(dst).unwrap();
            if name.to_str().unwrap().starts_with(".fuseloop-") {
                continue;
            } else if path.is_dir() {
                open.push(path);
            } else {
                assert!(
                    fs::read(&path).unwrap() == fs::read(whole.join(name)).unwrap(),
                    "{path:?}"
                );
                count += 1;
            }
        }
    }
    count
}

/// Wherever a run is killed, each file of the copy is complete or absent; the next run completes the copy.
#[test]
fn a_killed_recut_leaves_whole_files_only() {
    let kills = rounds("FUSELOOP_RECUT_KILLS");
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    for n in 0..60 {
        fs::create_dir_all(photos.join(format!("{}", n % 3))).unwrap();
        fs::write(photos.join(format!("{}/{n}.jpg", n % 3)), jpeg(200 + n, 150, 1)).unwrap();
    }
    stdout_of(dir.path(), &["recut", "photos", "whole"]);
    let whole = dir.path().join("whole");
    for kill in 0..kills {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fuseloop"))
            .args(["recut", "photos", "killed"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(3 + kill * 37 % 150));
        let _ = child.kill();
        child.wait().unwrap();
        assert!(whole_files(&dir.path().join("killed"), &whole) <= 60);
    }
    stdout_of(dir.path(), &["recut", "photos", "killed"]);
    assert_eq!(whole_files(&dir.path().join("killed"), &whole), 60);
    assert_eq!(fs::read_dir(dir.path().join("killed")).unwrap().count(), 3, "nothing is left over");
}

#[test]
fn info_tells_fields_sizes_and_labels() {
    let dir = dataset();
    let text = stdout_of(dir.path(), &["info", "photos.beton"]);
    assert!(text.contains("photos.beton: 6 samples"), "{text}");
    assert!(text.contains("6 as JPEG, 47 to 97 wide, 40 to 90 high"), "{text}");
    assert!(text.contains("0 to 1"), "{text}");
    assert!(!text.contains("row functions"), "{text}");

    let json: Value =
        serde_json::from_str(&stdout_of(dir.path(), &["info", "photos.beton", "--json"])).unwrap();
    assert_eq!(json["samples"], 6);
    assert_eq!(json["bytes"], fs::metadata(dir.path().join("photos.beton")).unwrap().len());
    assert_eq!(json["page_size"], 1 << 23);
    assert_eq!(json["stored_values"], 6);
    assert_eq!(json["fields"][1]["stats"]["max"], 1);
}

#[test]
fn info_shows_the_first_class_names_with_their_counts() {
    let dir = dataset();
    let classes = "2 classes\n  0    cat                      3 samples\n";
    for name in ["photos", "photos.beton"] {
        let text = stdout_of(dir.path(), &["info", name]);
        assert!(text.contains(classes), "{text}");
        let json: Value =
            serde_json::from_str(&stdout_of(dir.path(), &["info", name, "--json"])).unwrap();
        assert_eq!(json["classes"].as_array().unwrap().len(), 2, "{json}");
        assert_eq!(
            (&json["classes"][1]["number"], &json["classes"][1]["samples"]),
            (&1.into(), &3.into())
        );
    }
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
    for args in [&["write", ".", "out.beton"][..], &["index", "."]] {
        let (code, message) = refused(dir.path(), args);
        assert!(code == 1 && message.contains("images with annotated objects"), "{message}");
    }
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
    let (code, message) = refused(dir.path(), &["info", "voc"]);
    assert!(code == 1 && message.contains("9.xml: the image is missing"), "{message}");
    let (code, message) = refused(dir.path(), &["write", "voc", "out.beton"]);
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
    fs::write(labels.join("9.txt"), "1 0.5").unwrap();
    fs::copy(fs::read_dir(&images).unwrap().next().unwrap().unwrap().path(), images.join("9.jpg"))
        .unwrap();
    let (code, message) = refused(dir.path(), &["info", root]);
    assert!(code == 1 && message.contains("9.txt: line 1: 2 numbers, expected"), "{message}");
    let (code, message) = refused(dir.path(), &["write", root, "out.beton"]);
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
    assert!(error.contains("gives ops to arrays of bytes"), "{error}");
    for command in ["write", "index"] {
        let out = if command == "write" { &["x.beton"][..] } else { &[] };
        let (code, error) = refused(dir.path(), &[&[command, "mnist"], out].concat());
        assert_eq!(code, 1);
        assert!(error.contains("help: `fuseloop convert` writes them"), "{error}");
    }
}

#[test]
fn info_shows_what_it_can_of_a_file_with_a_user_defined_field() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/beton");
    let file = "custom_field_p4k.beton";
    let text = stdout_of(&golden, &["info", file]);
    for word in [
        "3 samples",
        "2 fields, 3 stored values",
        "a_name_longer_th custom",
        "i                int",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(text.contains("`--custom a_name_longer_th=BYTES:ALIGN`"), "{text}");
    let json: Value = serde_json::from_str(&stdout_of(&golden, &["info", file, "--json"])).unwrap();
    assert_eq!((&json["samples"], &json["fields"][0]["type"]), (&3.into(), &"custom".into()));
    assert_eq!(json["fields"][1]["name"], "i");

    let text = stdout_of(&golden, &["info", file, "--custom", "a_name_longer_th=8:8"]);
    assert!(text.contains("custom of 8 bytes") && text.contains(" to "), "{text}");
    let (code, errors) = refused(&golden, &["info", file, "--custom", "a_name_longer_th=8"]);
    assert!(code == 2 && errors.contains("expected NAME=BYTES:ALIGN"), "{errors}");
    let (code, errors) = refused(&golden, &["bench", file]);
    assert!(code == 1 && errors.contains("--custom NAME=BYTES:ALIGN"), "{errors}");
    assert!(!errors.contains("is it a .beton file?"), "{errors}");
}

#[test]
fn padded_images_are_as_large_as_the_largest_of_their_batch() {
    let dir = dataset();
    fs::write(dir.path().join("pad.toml"), "[collate]\nimage = \"pad\"\n").unwrap();
    let args = ["dump", "photos.beton", "--pipeline", "pad.toml", "--out", "padded"];
    stdout_of(dir.path(), &[&args[..], &["-b", "3", "-n", "2", "--sequential"]].concat());
    let shape = |name: &str| {
        let npy = fs::read(dir.path().join("padded").join(name)).unwrap();
        let header = String::from_utf8_lossy(&npy[..128]).into_owned();
        header.split("'shape': ").nth(1).unwrap().split('}').next().unwrap().replace(' ', "")
    };
    // The images are 40 to 90 high, each 7 wider than high, in this order.
    assert!(shape("image_0000.npy").starts_with("(3,60,67,3"), "{}", shape("image_0000.npy"));
    assert!(shape("image_0001.npy").starts_with("(3,90,97,3"), "{}", shape("image_0001.npy"));
    assert!(shape("image.size_0001.npy").starts_with("(3,2"), "the sizes are called so");
}

#[test]
fn each_rank_dumps_its_own_share() {
    let dir = dataset();
    let dump = |out: &str, more: &[&str]| {
        let args = ["dump", "photos.beton", "--out", out, "-b", "3", "-n", "9", "--sequential"];
        stdout_of(dir.path(), &[&args[..], more].concat());
        let labels = |batch: u64| fs::read(dir.path().join(format!("{out}/label_{batch:04}.npy")));
        let numbers =
            (0..9).map_while(|batch| labels(batch).ok()).flat_map(|npy| npy[128..].to_vec());
        numbers.step_by(8).collect::<Vec<u8>>()
    };
    assert_eq!(dump("all", &[]), [0, 0, 0, 1, 1, 1]);
    assert_eq!(dump("even", &["--rank", "0", "--world", "2"]), [0, 0, 1]);
    assert_eq!(dump("odd", &["--rank", "1", "--world", "2"]), [0, 1, 1]);

    let json = stdout_of(
        dir.path(),
        &["bench", "photos.beton", "-e", "1", "--rank", "1", "--world", "3", "--json"],
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["rank"], &json["world"]), (&1.into(), &3.into()));
    assert_eq!(json["epochs"][0]["images"], 2);
    let (code, errors) =
        refused(dir.path(), &["bench", "photos.beton", "--rank", "3", "--world", "3"]);
    assert!(code == 1 && errors.contains("rank 3"), "{errors}");
    let (code, errors) = refused(dir.path(), &["bench", "photos.beton", "--rank", "1"]);
    assert!(code == 2 && errors.contains("--world"), "{errors}");
}

#[test]
fn a_rank_in_the_environment_is_said_not_to_be_read() {
    let dir = dataset();
    let bench = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
        command.args(["bench", "photos.beton", "-e", "1", "--json"]).current_dir(dir.path());
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["epochs"][0]["images"], 6, "all of them");
        String::from_utf8(output.stderr).unwrap()
    };
    let errors = bench(&[("RANK", "3"), ("WORLD_SIZE", "8")]);
    assert!(
        errors.contains("note: the environment names rank 3 of 8, which is not read"),
        "{errors}"
    );
    assert!(errors.contains("`--rank 3 --world 8`") && errors.lines().count() == 1, "{errors}");
    assert_eq!(bench(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]), "");
}

#[test]
fn bench_measures_every_epoch() {
    let dir = dataset();
    let args = ["bench", "photos.beton", "--epochs", "3", "--batch-size", "4", "--workers", "2"];
    let text = stdout_of(dir.path(), &args);
    for word in
        ["epoch 0 ", "(warm-up)", "epoch 2 ", "median", "first batch", "workers  ", "bottleneck  "]
    {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    let json =
        stdout_of(dir.path(), &[&args[..], &["--json", "--recompile", "-w", "jitter"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["workload"], &json["samples"]), (&"W3".into(), &6.into()));
    assert_eq!(json["epochs"].as_array().unwrap().len(), 3);
    assert_eq!(json["epochs"][2]["images"], 6, "a short last batch counts");
    assert!(json["median_images_per_second"].as_f64().unwrap() > 0.0);
    assert!(json["first_batch_ms"].as_f64().unwrap() > 0.0);
    let shares = json["phases"].as_object().unwrap().values().map(|share| share.as_f64().unwrap());
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-6, "{}", json["phases"]);
    assert!(json["bottleneck"].is_string());
    #[cfg(target_os = "linux")]
    assert!(json["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
}

#[test]
fn bench_stops_after_the_batches_asked_for() {
    let dir = dataset();
    let args = ["bench", "photos.beton", "--batch-size", "2", "-n", "1", "-e", "1", "--json"];
    let json: Value = serde_json::from_str(&stdout_of(dir.path(), &args)).unwrap();
    assert_eq!((&json["epochs"][0]["images"], &json["warm_up_epochs"]), (&2.into(), &0.into()));
}

/// The spans of a trace by track, each with its start and end in µs.
fn spans(trace: &Value) -> std::collections::BTreeMap<u64, Vec<(f64, f64, &Value)>> {
    let mut tracks = std::collections::BTreeMap::<u64, Vec<_>>::new();
    for event in trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X") {
        let start = event["ts"].as_f64().unwrap();
        let end = start + event["dur"].as_f64().unwrap();
        tracks.entry(event["tid"].as_u64().unwrap()).or_default().push((start, end, event));
    }
    tracks
}

#[test]
fn a_trace_of_an_epoch_is_json_whose_spans_do_not_overlap() {
    let dir = dataset();
    let args = ["bench", "photos.beton", "-b", "2", "-j", "2", "-e", "1", "--trace", "t.json"];
    let text = stdout_of(dir.path(), &args);
    assert!(text.contains("trace        t.json: ") && text.contains("ui.perfetto.dev"), "{text}");

    let trace = fs::read_to_string(dir.path().join("t.json")).unwrap();
    let trace: Value = serde_json::from_str(&trace).unwrap();
    assert_eq!(trace["otherData"]["lost spans"], 0);
    let tracks = spans(&trace);
    let [epoch] = tracks[&0].as_slice() else { panic!("one epoch: {:?}", tracks[&0]) };
    assert_eq!((epoch.0, &epoch.2["args"]["epoch"]), (0.0, &1.into()), "after the one measured");
    for (track, spans) in &tracks {
        // Spans follow each other to the nanosecond, up to the rounding of a sum of two decimal fractions.
        let follows = |pair: &[(f64, f64, &Value)]| pair[0].1 <= pair[1].0 + 1e-4;
        assert!(spans.windows(2).all(follows), "track {track}: {spans:?}");
        assert!(spans.iter().all(|span| span.0 >= 0.0 && span.1 <= epoch.1 + 1e-4), "{spans:?}");
    }
    let named = |name: &str| {
        let all = tracks.values().flatten().filter(|span| span.2["name"] == name);
        all.map(|span| span.2["args"]["batch"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(named("have a batch"), [0, 1, 2]);
    let mut opened = named("open");
    opened.sort_unstable();
    assert_eq!(opened, [0, 1, 2]);

    let events = trace["traceEvents"].as_array().unwrap();
    let ids = |phase: &str| {
        let of_phase = events.iter().filter(|event| event["ph"] == phase);
        of_phase
            .map(|event| event["id"].as_u64().unwrap())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!((ids("s"), ids("f")), ([0, 1, 2].into(), [0, 1, 2].into()), "arrows have both ends");
    let tracks: Vec<&Value> = events.iter().filter(|e| e["name"] == "thread_name").collect();
    let tracks: Vec<&str> = tracks.iter().map(|e| e["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(tracks, ["epoch", "consumer", "worker 0", "worker 1"]);
}

#[test]
fn verify_finds_nothing_in_a_whole_file() {
    let dir = dataset();
    let text = stdout_of(dir.path(), &["verify", "photos.beton", "--write-indices", "good.txt"]);
    for word in [
        "photos.beton: 6 samples checked in ",
        " samples/s, ",
        " MB/s\n12 values, ",
        " read, 6 pictures decoded\nno damage found\n",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(!text.contains("note"), "{text}");
    assert_eq!(fs::read_to_string(dir.path().join("good.txt")).unwrap(), "0\n1\n2\n3\n4\n5\n");
    let part = stdout_of(dir.path(), &["verify", "photos.beton", "--limit", "2"]);
    assert!(part.contains("2 samples checked of 6 in "), "{part}");
}

#[test]
fn verify_lists_what_is_damaged_and_fails() {
    let dir = dataset();
    let path = dir.path().join("photos.beton");
    let file = fuseloop::source::Beton::open(&path, &OpenOptions::default()).unwrap();
    let picture =
        fuseloop::source::Source::locate(&file, fuseloop::SampleId(2), 0).unwrap().bytes.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[picture.start as usize] = 0;
    bytes[file.header().sample_table_start() as usize + 4 * file.row_bytes()] = 9;
    fs::write(&path, bytes).unwrap();

    let verify = |more: &[&str]| {
        let output = fuseloop(dir.path(), &[&["verify", "photos.beton"], more].concat());
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("error: photos.beton: 2 samples are damaged\n"), "{errors}");
        (String::from_utf8(output.stdout).unwrap(), errors)
    };
    let (text, errors) = verify(&[]);
    assert!(errors.contains("help: `--write-indices good.txt` lists"), "{errors}");
    let listed = format!(
        "  sample 2: photos.beton (image) at byte {}: not a JPEG: it begins with",
        picture.start
    );
    for word in [
        "2 damaged samples, 2 damaged values:\n",
        "  invalid entries of the sample table: 1\n",
        "  images that can't be decoded: 1\n",
        &listed,
        "  sample 4: photos.beton (image) at byte ",
        "note: records that no sample refers to: 1, ",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(!text.contains("no damage found"), "{text}");

    let (text, errors) = verify(&["--json", "--jobs", "1", "--write-indices", "good.txt"]);
    assert!(!errors.contains("help: "), "the list is there: {errors}");
    assert_eq!(fs::read_to_string(dir.path().join("good.txt")).unwrap(), "0\n1\n3\n5\n");
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["is_whole"], &json["damaged_samples"]), (&false.into(), &2.into()));
    assert_eq!(json["troubles"], serde_json::json!({ "cell": 1, "picture_damaged": 1 }));
    assert_eq!(json["damaged"][0]["offset"], picture.start);
    assert_eq!(json["damaged"][1]["trouble"], "cell");
    assert_eq!(json["tables"]["unreferenced"]["count"], 1);

    let (code, errors) =
        refused(dir.path(), &["verify", "photos.beton", "--write-indices", "no/such/folder/g.txt"]);
    assert!(code == 1 && errors.contains("help: check the path"), "{errors}");
}

/// The type, shape and elements of a `.npy` file, read by its specification.
fn npy(path: &Path) -> (String, String, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!(end % 64, 0, "elements are aligned");
    let header = std::str::from_utf8(&bytes[10..end]).unwrap();
    assert!(header.contains("'fortran_order': False") && header.ends_with('\n'), "{header}");
    let between = |from: &str, to: &str| {
        let rest = header.split_once(from).unwrap().1;
        rest.split_once(to).unwrap().0.to_owned()
    };
    (between("'descr': '", "'"), between("'shape': (", ")"), bytes[end..].to_vec())
}

#[test]
fn dumped_batches_are_those_of_the_loader() {
    let dir = dataset();
    let args =
        ["dump", "photos.beton", "-w", "W3", "-n", "9", "-b", "4", "--seed", "5", "--epoch", "2"];
    let text = stdout_of(dir.path(), &[&args[..], &["--out", "new/dump"]].concat());
    assert!(text.contains("2 batches") && text.contains("no more batches"), "{text}");

    let loader = Loader::open(dir.path().join("photos.beton")).unwrap();
    let loader = loader.batch_size(4).seed(5).order(Order::Random).drop_last(false).workers(1);
    let loader = loader.pipeline("image", Workload::Jitter.ops().unwrap()).build().unwrap();
    for (number, batch) in loader.epoch(2).unwrap().enumerate() {
        let batch = batch.unwrap();
        let read = |name: &str| npy(&dir.path().join(format!("new/dump/{name}_{number:04}.npy")));
        let (dtype, shape, bytes) = read("image");
        assert_eq!(dtype, if cfg!(target_endian = "little") { "<f4" } else { ">f4" });
        assert_eq!(shape, format!("{}, 3, 224, 224, ", batch.len()));
        assert!(bytes == batch.bytes("image").unwrap(), "batch {number}");
        let (_, shape, bytes) = read("label");
        assert_eq!(shape, format!("{}, ", batch.len()));
        assert_eq!(bytes, batch.bytes("label").unwrap());
    }
}

/// A pipeline file means the same to the command as to the library: order, last batch, seed, draws.
#[test]
fn a_pipeline_file_dumps_what_the_library_loads_by_it() {
    let dir = dataset();
    let fields =
        "[fields]\nimage = [{ op = 'RandomResizedCrop', size = 16 }, 'RandomHorizontalFlip']";
    let settings = "batch_size = 4\norder = 'random'\nseed = 7\ndrop_last = true";
    for (name, settings) in [("none", ""), ("size", "batch_size = 4"), ("all", settings)] {
        let file = dir.path().join(format!("{name}.toml"));
        fs::write(&file, format!("{settings}\n{fields}")).unwrap();
        let args = ["dump", "photos.beton", "-n", "9", "--epoch", "1", "--out", name, "-p"];
        stdout_of(dir.path(), &[&args[..], &[file.to_str().unwrap()]].concat());
        let loader = Loader::open(dir.path().join("photos.beton")).unwrap();
        let loader = Spec::open(&file).unwrap().apply(loader).build().unwrap();
        let mut count = 0;
        for (number, batch) in loader.epoch(1).unwrap().enumerate() {
            let batch = batch.unwrap();
            for field in ["image", "label"] {
                let path = dir.path().join(format!("{name}/{field}_{number:04}.npy"));
                assert!(npy(&path).2 == batch.bytes(field).unwrap(), "{name}: {field} {number}");
            }
            count = number + 1;
        }
        assert!(!dir.path().join(format!("{name}/image_{count:04}.npy")).exists(), "{name}");
        assert_eq!(count as u64, loader.len());
    }
}

#[test]
fn a_dump_overwrites_only_by_force() {
    let dir = dataset();
    let dump = ["dump", "photos.beton", "--out", "dump"];
    stdout_of(dir.path(), &dump);
    let label = dir.path().join("dump/label_0000.npy");
    fs::remove_file(dir.path().join("dump/image_0000.npy")).unwrap();
    fs::write(&label, "mine").unwrap();
    let (code, errors) = refused(dir.path(), &dump);
    assert_eq!(code, 1);
    assert!(errors.contains("label_0000.npy already exists\nhelp: `--force`"), "{errors}");
    assert_eq!(fs::read(&label).unwrap(), b"mine");
    assert!(!dir.path().join("dump/image_0000.npy").exists(), "nothing was written before");
    stdout_of(dir.path(), &[&dump[..], &["--force"]].concat());
    assert_eq!(npy(&label).1, "6, ");
}

#[test]
fn explain_shows_the_plan_its_costs_and_its_code() {
    let dir = dataset();
    let explain = ["explain", "photos.beton", "-w", "W3"];
    let text = stdout_of(dir.path(), &[&explain[..], &["-n", "2"]].concat());
    for word in [
        "block 0: u8 [40..=90, 47..=97, 3] -> f32 [3, 224, 224]: rows resized",
        "ColorJitter",
        "predicted",
        "ends here: it stores the batch",
        "only what RandomResizedCrop asks for: ",
        "mean of 2 samples: read ",
        "of decode, estimated: entropy decoding ",
        "the same windows of 2 images, stored as\n    JPEG ",
        "µs to decode  1.00x\n    re-cut ",
        "--write-mode planes\n",
        "bottleneck: ",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    let unmeasured = stdout_of(dir.path(), &[&explain[..], &["-n", "0"]].concat());
    for word in ["predicted", "bottleneck", "the same windows"] {
        assert!(!unmeasured.contains(word), "{unmeasured}");
    }
    let with_code = |flag| stdout_of(dir.path(), &[&explain[..], &["-n", "0", flag]].concat());
    if text.contains("bytes of code") {
        assert!(text.contains("measured"), "{text}");
        for flag in ["--clif", "--ir"] {
            assert!(with_code(flag).contains("; fuseloop::image::block0::variant0\nfunction "));
        }
        assert!(with_code("--asm").contains("xmm"));
    }
}

#[test]
fn explain_as_json_has_every_op_and_its_nanoseconds() {
    let dir = dataset();
    fs::write(dir.path().join("p.toml"), "[fields]\nimage = ['RandomHorizontalFlip', { op = 'Resize', size = 32 }, { op = 'RandomBrightness', magnitude = 0.4 }, { op = 'RandomResizedCrop', size = 24 }]\nlabel = [{ op = 'OneHot', classes = 2 }]").unwrap();
    let text =
        stdout_of(dir.path(), &["explain", "photos.beton", "-p", "p.toml", "--json", "-n", "1"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    let image = &json["images"][0];
    let blocks = image["blocks"].as_array().unwrap();
    assert_eq!(blocks.len(), 2, "{text}");
    let ends = blocks[0]["ends"].as_str().unwrap();
    assert!(ends.starts_with("RandomResizedCrop makes rows of a whole picture"), "{ends}");
    assert_eq!(blocks[0]["ops"][1]["name"], "Resize");
    assert_eq!(blocks[1]["output"]["height"], serde_json::json!([24, 24]));
    assert!(blocks[0]["ops"][1]["predicted_ns"].as_f64().unwrap() > 0.0);
    if json["not_compiled"].is_null() {
        assert!(blocks[0]["ops"][1]["measured_ns"].is_f64() && blocks[1]["measured_ns"].is_f64());
    }
    assert!(image["measured"]["decode_ns"].as_f64().unwrap() > 0.0);
    assert!(image["bottleneck"].as_str().unwrap().contains(" % of a sample's "));
    assert_eq!(json["others"][0]["ops"][0], "OneHot");
}

/// The size of a PNG.
fn png_size(path: &Path) -> [u32; 2] {
    let file = std::io::BufReader::new(fs::File::open(path).unwrap());
    let reader = png::Decoder::new(file).read_info().unwrap();
    [reader.info().height, reader.info().width]
}

#[test]
fn preview_shows_samples_by_epochs_or_by_ops() {
    let dir = dataset();
    let path = dir.path();
    let preview = |args: &[&str]| {
        stdout_of(path, &[&["preview", "photos.beton", "-w", "W3", "--seed", "3"], args].concat())
    };
    let text = preview(&["-n", "2", "-m", "3", "-o", "a.png"]);
    assert!(text.contains("2 samples of W3") && text.contains("epochs 0 to 2"), "{text}");
    let [height, width] = png_size(&path.join("a.png"));
    assert!(width > 4 * 224 && width < 5 * 240 && height > 2 * 224, "{height}x{width}");
    preview(&["-n", "2", "-m", "3", "-o", "again.png"]);
    assert_eq!(fs::read(path.join("a.png")).unwrap(), fs::read(path.join("again.png")).unwrap());

    preview(&["-n", "1", "--each-op", "--epoch", "4"]);
    let [_, width] = png_size(&path.join("preview.png"));
    assert!(width > 6 * 224, "the stored picture and five ops: {width}");
    preview(&["-n", "1", "-m", "1", "-o", "sheet.JPG"]);
    assert!(fs::read(path.join("sheet.JPG")).unwrap().starts_with(&[0xff, 0xd8, 0xff]));
    for command in [&["preview", "photos.beton"][..], &["demo"]] {
        let (code, errors) = refused(path, &[command, &["-o", "a.b.Gif"]].concat());
        assert_eq!(code, 1);
        let wanted = "a.b.Gif: pictures are not saved as .gif; available: .png, .jpg, .jpeg";
        assert!(errors.contains(wanted), "{errors}");
    }
    let (code, errors) = refused(path, &["preview", "photos.beton", "--field", "picture"]);
    assert_eq!(code, 1);
    assert!(errors.contains("no field named picture; available: image\nhelp: "), "{errors}");
}

/// A sample replayed alone equals the row that the loader yields, in any batch and order.
#[test]
fn a_replayed_sample_is_the_loader_s_row() {
    let dir = dataset();
    let path = dir.path();
    let file = "[fields]\nimage = [{ op = 'RandomResizedCrop', size = { from = 16, to = 48, \
        epochs = 3, step = 16 } }, { op = 'ColorJitter', brightness = 0.4, contrast = 0.4, \
        saturation = 0.4 }, { op = 'Convert', to = 'f16' }, 'ToChannelsFirst']";
    fs::write(path.join("p.toml"), file).unwrap();
    let spec = Spec::open(&path.join("p.toml")).unwrap();
    let loader = spec.apply(Loader::open(path.join("photos.beton")).unwrap());
    let loader = loader.batch_size(6).seed(9).order(Order::Random).workers(1).build().unwrap();
    let batch = loader.epoch(2).unwrap().next().unwrap().unwrap();
    let row = batch.bytes("image").unwrap().len() / 6;
    for sample in 0..6u32 {
        let args = ["replay", "photos.beton", "-p", "p.toml", "--seed", "9", "--epoch", "2"];
        let sample_text = sample.to_string();
        let out = format!("replayed/{sample}");
        let more = ["--sample", &sample_text, "--out", &out];
        let text = stdout_of(path, &[&args[..], &more].concat());
        assert!(text.contains("are the same bits") || text.contains("not compiled"), "{text}");
        assert!(text.contains(" to 48x48\n") && text.contains("stored label "), "{text}");
        let (_, shape, bytes) = npy(&path.join(&out).join("image.npy"));
        assert_eq!(shape, "3, 48, 48, ");
        let rows = batch.bytes("image").unwrap().chunks(row);
        assert_eq!(rows.filter(|row| **row == bytes[..]).count(), 1, "sample {sample}");
        assert_eq!(png_size(&path.join(&out).join("image_02_ColorJitter.png")), [48, 48]);
        assert_eq!(refused(path, &[&args[..], &more].concat()).0, 1, "nothing is overwritten");
    }
}

#[test]
fn commands_show_gray_images_as_their_pipeline_reads_them() {
    let dir = dataset();
    let path = dir.path();
    let pipeline = "[read_mode]\nimage = 'gray'\n[fields]\nimage = [{ op = 'Resize', size = [24, 24] }, 'RandomAutocontrast', { op = 'Normalize', mean = [0.5], std = [0.5] }, 'ToChannelsFirst']\n";
    fs::write(path.join("p.toml"), pipeline).unwrap();
    let args = ["replay", "photos.beton", "-p", "p.toml", "--sample", "2", "--out", "replayed"];
    let text = stdout_of(path, &args);
    assert!(text.contains("are the same bits") || text.contains("not compiled"), "{text}");
    let (_, shape, _) = npy(&path.join("replayed/image.npy"));
    assert_eq!(shape, "1, 24, 24, ");
    assert_eq!(png_size(&path.join("replayed/image_01_Resize.png")), [24, 24]);
    let color = fs::read(path.join("replayed/image_01_Resize.png")).unwrap()[25];
    assert_eq!(color, 0, "gray");
    stdout_of(path, &["preview", "photos.beton", "-p", "p.toml", "-n", "2", "-o", "sheet.png"]);
    let text = stdout_of(path, &["explain", "photos.beton", "-p", "p.toml", "-n", "2"]);
    assert!(text.contains(", 1] -> f32 [1, 24, 24]"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn compiled_loops_are_named_for_perf_if_asked() {
    let dir = dataset();
    let child = Command::new(env!("CARGO_BIN_EXE_fuseloop"))
        .args(["explain", "photos.beton", "-n", "0"])
        .current_dir(dir.path())
        .env("FUSELOOP_PERF", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let map = PathBuf::from(format!("/tmp/perf-{}.map", child.id()));
    let output = child.wait_with_output().unwrap();
    let names = fs::read_to_string(&map).unwrap_or_default();
    let _ = fs::remove_file(&map);
    if String::from_utf8_lossy(&output.stdout).contains("bytes of code") {
        assert!(names.contains(" fuseloop::image::block0::variant0\n"), "{names}");
    }
}

#[test]
fn ops_lists_every_op_and_explains_one() {
    let dir = tempfile::tempdir().unwrap();
    let text = stdout_of(dir.path(), &["ops"]);
    for line in [
        "\ngeometry\n",
        "  RandomHorizontalFlip(p = 0.5): mirrors a share p of the images left to right\n",
        "  Cutout(crop_size, fill = 0): paints a random square over\n",
        "  CenterCrop(size, [ratio], interpolation = \"bilinear-antialias\"): ",
    ] {
        assert!(format!("\n{text}").contains(line), "{line}:\n{text}");
    }
    let json: Value = serde_json::from_str(&stdout_of(dir.path(), &["ops", "--json"])).unwrap();
    let listed: Vec<&str> =
        json.as_array().unwrap().iter().map(|op| op["name"].as_str().unwrap()).collect();
    let known: Vec<&str> = registry().iter().map(|info| info.name).collect();
    assert_eq!(listed, known);

    let text = stdout_of(dir.path(), &["ops", "OneHot"]);
    assert!(
        text.contains("classes          a whole number, 0 or more (required): elements"),
        "{text}"
    );
    assert!(text.contains("label = [{ op = \"OneHot\", classes = 1000 }]"), "{text}");
    let json: Value =
        serde_json::from_str(&stdout_of(dir.path(), &["ops", "Cutout", "--json"])).unwrap();
    assert_eq!((&json["class"], &json["params"][1]["default"]), (&"overwrite".into(), &0.into()));
}

/// The example that `ops NAME` shows is a pipeline file.
#[test]
fn what_ops_shows_can_be_pasted() {
    let dir = tempfile::tempdir().unwrap();
    for info in registry() {
        let text = stdout_of(dir.path(), &["ops", info.name]);
        let example = &text[text.find("[fields]").unwrap()..];
        let spec: Spec = example.parse().unwrap_or_else(|error| panic!("{example}: {error}"));
        assert_eq!(spec.fields().count(), 1);
    }
}

/// Ops that would make images of gigabytes are refused before any sample is read if every sample would
/// be too large, and at the sample if the size depends on the sample.
#[test]
fn pictures_without_bound_are_refused_by_the_op_that_would_make_them() {
    let dir = dataset();
    let cases = [
        (r#"{ op = "CenterCrop", size = 30000 }"#, "CenterCrop produces an image of 30000x30000"),
        (r#"{ op = "Pad", padding = 65535 }, "#, "Pad produces an image of 1311"),
        (
            r#"{ op = "RandomZoomOut", side_range = [1.0, 1e9], p = 0.999 }"#,
            "RandomZoomOut produces an image of ",
        ),
        (
            r#"{ op = "RandomResizedCrop", size = 65535 }"#,
            "RandomResizedCrop produces an image of 65535",
        ),
    ];
    for (op, expected) in cases {
        let op = op.trim_end_matches(", ");
        let pipeline = format!("[fields]\nimage = [{op}, {{ op = \"Resize\", size = [8, 8] }}]\n");
        fs::write(dir.path().join("p.toml"), pipeline).unwrap();
        for command in ["bench", "preview", "replay"] {
            let mut args = vec![command, "photos.beton", "--pipeline", "p.toml"];
            if command == "replay" {
                args.extend(["--sample", "1"]);
            }
            let (code, errors) = refused(dir.path(), &args);
            assert_eq!(code, 1, "{command}, {op}: {errors}");
            let cure = "raise `max_pixels` (LoaderBuilder::limits)";
            assert!(errors.contains(expected) && errors.contains(cure), "{command}: {errors}");
            assert!(errors.contains("the limit is 178956970"), "{command}: {errors}");
            if op.contains("RandomZoomOut") && command == "bench" {
                assert!(errors.contains("sample ") && errors.contains("(image)"), "{errors}");
            }
        }
    }
}

#[test]
fn batches_of_more_than_their_limit_are_refused() {
    let dir = dataset();
    let args = ["bench", "photos.beton", "--workload", "W1", "--batch-size", "1000000"];
    let (code, errors) = refused(dir.path(), &args);
    assert_eq!(code, 1);
    let expected = "4 batches of 1000000 samples take ";
    assert!(errors.contains(expected) && errors.contains("the limit is 68719476736"), "{errors}");
    assert!(errors.contains("use smaller batches"), "{errors}");
}

#[test]
fn a_pipeline_file_runs_in_place_of_a_workload() {
    let dir = dataset();
    let path = dir.path();
    let file = "batch_size = 4\nseed = 5\n[fields]\nimage = [
        { op = 'RandomResizedCrop', size = { from = 32, to = 64, epochs = 3, step = 16 } },
        'ToChannelsFirst']\nlabel = [{ op = 'OneHot', classes = 2 }]";
    fs::write(path.join("p.toml"), file).unwrap();

    let text = stdout_of(path, &["explain", "photos.beton", "--pipeline", "p.toml", "--ir"]);
    assert!(text.contains("p.toml: ops for image, label, changing with the epoch"), "{text}");
    assert!(text.contains("RandomResizedCrop"), "{text}");

    let args = ["bench", "photos.beton", "-p", "p.toml", "--json", "-e", "2"];
    let json: Value = serde_json::from_str(&stdout_of(path, &args)).unwrap();
    assert_eq!((&json["workload"], &json["pipeline"]), (&Value::Null, &"p.toml".into()));
    assert_eq!((&json["batch_size"], &json["seed"]), (&4.into(), &5.into()));
    assert_eq!(json["epochs"][1]["images"], 6, "a short last batch counts");
    let json: Value =
        serde_json::from_str(&stdout_of(path, &[&args[..], &["-b", "2"]].concat())).unwrap();
    assert_eq!(json["batch_size"], 2, "what is given holds against the file");

    let dump = ["dump", "photos.beton", "-p", "p.toml", "--epoch", "2", "--out", "out"];
    stdout_of(path, &dump);
    assert_eq!(npy(&path.join("out/image_0000.npy")).1, "4, 3, 64, 64, ");
    assert_eq!(npy(&path.join("out/label_0000.npy")).1, "4, 2, ");
    let both = ["bench", "photos.beton", "-p", "p.toml", "-w", "W1"];
    assert_eq!(refused(path, &both).0, 2);
}

/// Each wrong call, its exit code, its message, and the next step that the message names.
#[test]
fn an_error_names_the_cause_and_the_next_step() {
    let dir = dataset();
    let path = dir.path();
    fs::write(path.join("text.beton"), "this is no dataset, but it is long enough").unwrap();
    fs::write(path.join("text.tar"), "this is no archive").unwrap();
    fs::write(path.join("short.beton"), [2, 0]).unwrap();
    let whole = fs::read(path.join("photos.beton")).unwrap();
    let mut unfinished = whole.clone();
    unfinished[16..24].fill(0);
    fs::write(path.join("unfinished.beton"), unfinished).unwrap();
    fs::write(path.join("cut.beton"), &whole[..whole.len() - 100]).unwrap();
    fs::create_dir(path.join("empty")).unwrap();
    for (name, fields) in [
        ("op.toml", "image = ['Resise']"),
        ("param.toml", "image = [{ op = 'Resize', sise = 1 }]"),
        ("field.toml", "picture = ['ToChannelsFirst']"),
        ("type.toml", "image = ['ToChannelsFirst',\n  { op = 'OneHot', classes = 2 }]"),
        (
            "classes.toml",
            "image = [{ op = 'RandomResizedCrop', size = 8 }]\nlabel = [{ op = 'OneHot', classes = 1 }]",
        ),
    ] {
        fs::write(path.join(name), format!("[fields]\n{fields}")).unwrap();
    }
    fs::write(path.join("wide.csv"), "path,label\na.jpg,1\nb.jpg,2,3\n").unwrap();
    fs::write(path.join("head.csv"), "path,label\n").unwrap();
    fs::write(path.join("hello.txt"), "hello").unwrap();
    for (args, message, help) in [
        (&["info", "none.beton"][..], "none.beton: No such file", "what can be opened"),
        (
            &["info", "empty"],
            "no .jpg, .jpeg, .png, .webp, .tif or .tiff file",
            "what can be opened",
        ),
        (&["bench", "none-*.tar"], "none-*.tar: no file matches", "what can be opened"),
        (&["convert", "text.tar", "x.beton"], "text.tar", "what can be opened"),
        (
            &["bench", "text.beton"],
            "text.beton: not a .beton file: version",
            "is it a .beton file?",
        ),
        (&["explain", "short.beton"], "ends inside its header", "is it a .beton file?"),
        (&["bench", "unfinished.beton"], "not finished by its writer", "write it again"),
        (&["info", "cut.beton"], "cut.beton: ", "copy it again"),
        (&["bench", "photos.beton", "-w", "W4"], "images of 40..=90 x 47..=97", "--workload W1"),
        (&["bench", "photos.beton", "-b", "0"], "a batch size of 0", "--batch-size 64"),
        (&["bench", "photos.beton", "-j", "0"], "0 workers", "--workers"),
        (
            &["write", "empty", "x.beton"],
            "no .jpg, .jpeg, .png, .webp, .tif or .tiff file",
            "convert them to JPEG",
        ),
        (&["write", "nothing", "x.beton"], "nothing", "nothing has this name"),
        (&["info", "wide.csv"], "line 3: 3 columns, expected 2 (path, label): quote", ""),
        (&["info", "head.csv"], "the table lists no image", ""),
        (&["write", "head.csv", "x.beton"], "the table lists no image", ""),
        (&["info", "hello.txt"], "hello.txt: not a .beton file: it ends", "is it a .beton file?"),
        (&["info", "hello.txt"], "its extension is not one of .tar, .tfrecord, .csv", ""),
        (&["convert", "photos.beton", "x.parquet"], "x.parquet\": no format has this", ""),
        (
            &["bench", "photos.beton", "-p", "type.toml"],
            "type.toml:3:3: output image: op 1 of the list: OneHot takes a label or an array",
            "",
        ),
        (
            &["bench", "photos.beton", "-p", "classes.toml"],
            "label 1 is none of the 1 classes of OneHot, which are 0 to 0",
            "the largest label plus 1",
        ),
        (&["write", "photos", "photos"], "is a directory", "name a file"),
        (&["write", "photos", "x.beton", "--page-size", "5"], "page size 5", "8388608"),
        (&["write", "photos", "x.beton", "--jpeg-quality", "0"], "quality 0", "--jpeg-quality"),
        (
            &["write", "photos", "x.beton", "--write-mode", "raw", "--tile", "32"],
            "`--tile`",
            "tiled",
        ),
        (&["recut", "none", "x"], "none: No such file", "check the path"),
        (&["recut", "photos", "photos"], "which is to be re-cut", "another path"),
        (&["recut", "photos", "photos/cat/new"], "choose a folder outside", "another path"),
        (&["recut", "photos", "text.beton"], "text.beton\" is a file", "name a folder"),
        (&["recut", "photos.beton", "photos.beton"], "another name", "another path"),
        (&["recut", "photos.beton", "photos"], "is a directory", "name a file"),
        (
            &["recut", "text.beton", "x.beton"],
            "text.beton: not a .beton file: version",
            "is it a .beton file?",
        ),
        (
            &["bench", "photos.beton", "-p", "none.toml"],
            "none.toml: No such file",
            "check the path",
        ),
        (
            &["bench", "photos.beton", "-p", "op.toml"],
            "op.toml:2:10: no op named",
            "`fuseloop ops`",
        ),
        (&["dump", "photos.beton", "-o", "d", "-p", "param.toml"], "`sise`, did you", "ops NAME`"),
        (
            &["explain", "photos.beton", "-p", "field.toml"],
            "no field named picture",
            "fuseloop info",
        ),
        (&["explain", "photos.beton", "-p", "photos.beton"], "more than", "is TOML"),
        (&["explain", "photos.beton", "-p", "short.beton"], "not TOML", "is TOML"),
        (&["replay", "photos.beton", "--sample", "6"], "no such sample: the file has 6", "from 0"),
        (&["ops", "Resise"], "no op named `Resise`, did you mean `Resize`?", "`fuseloop ops`"),
        (&["demo", "-o", "no/such/x.png"], "no/such/x.png: No such file", "check the path"),
    ] {
        let output = fuseloop(path, args);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
        let (error, next) = errors.split_once("\nhelp: ").unwrap_or((&errors, ""));
        assert!(error.starts_with("error: ") && error.contains(message), "{args:?}: {errors}");
        assert!(next.contains(help), "{args:?}: {errors}");
    }
}

#[test]
fn what_is_not_understood_is_2_and_lists_what_there_is() {
    let dir = dataset();
    let (code, errors) = refused(dir.path(), &["bench", "photos.beton", "--workload", "W9"]);
    assert_eq!(code, 2);
    for workload in Workload::ALL {
        assert!(errors.contains(&workload.to_string()), "{errors}");
    }
    assert_eq!(refused(dir.path(), &["train"]).0, 2);
    assert_eq!(refused(dir.path(), &["write", "photos"]).0, 2);
    assert_eq!(refused(dir.path(), &["bench", "photos.beton", "--epochs", "0"]).0, 2);
    let (code, errors) = refused(dir.path(), &["recut", "photos", "x", "--tile", "0"]);
    assert!(code == 2 && errors.contains("expected `row`, or pixels from 8 to 1024"), "{errors}");
    let (code, help) = refused(dir.path(), &[]);
    assert_eq!(code, 2);
    assert!(help.contains("Usage:") && help.contains("fuseloop demo"), "{help}");
}

#[test]
fn every_command_has_help_with_examples() {
    let dir = tempfile::tempdir().unwrap();
    for command in
        ["demo", "write", "recut", "info", "bench", "dump", "explain", "preview", "replay", "ops"]
    {
        let help = stdout_of(dir.path(), &[command, "--help"]);
        assert!(help.contains("Examples:\n  fuseloop "), "{command}:\n{help}");
    }
}

#[test]
#[cfg(unix)]
fn a_hostile_name_does_not_reach_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let (code, errors) = refused(dir.path(), &["info", "\u{1b}[31mred\r.beton"]);
    assert_eq!(code, 1);
    assert!(!errors.contains(['\u{1b}', '\r']), "{errors:?}");
    assert!(errors.contains("\\u{1b}[31mred\\r.beton"), "{errors:?}");

    let photos = folder(dir.path());
    fs::write(photos.join("cat/\u{1b}[2J.txt"), "").unwrap();
    let text = stdout_of(dir.path(), &["write", "photos", "x.beton"]);
    assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[2J.txt"), "{text:?}");
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let dir = dataset();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fuseloop"))
        .args(["explain", "photos.beton", "--ir"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_command_is_called_fuseloop_whatever_its_crate_is_called() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        stdout_of(dir.path(), &["--version"]),
        format!("fuseloop {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(stdout_of(dir.path(), &["--help"]).contains("Usage: fuseloop <COMMAND>"));
}
