//! The same samples from every kind of dataset: written by `fuseloop convert`, opened by name, loaded to
//! the same batches.

use crate::command::{fuseloop, refused, stdout_of};
use crate::files::files;
use fuseloop::loader::OnDamaged;
use fuseloop::ops::*;
use fuseloop::source::{Concat, Dataset, FieldKind, FieldSpec, OwnedValue, Source as _, Value};
use fuseloop::write::{FieldValue, ImageInput, WriteOptions, write_iter};
use fuseloop::{Loader, LoaderBuilder, Order, SampleId};
use jpeg_encoder::{ColorType, Encoder};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

const IMAGES: usize = 23;

/// Three classes of JPEGs, with a PNG among them.
fn photos(dir: &Path) {
    for k in 0..IMAGES {
        let class = dir.join("photos").join(["ape", "bee", "cow"][k * 3 / IMAGES]);
        fs::create_dir_all(&class).unwrap();
        let (width, height) = (30 + k as u16, 40 - k as u16);
        let pixels: Vec<u8> = (0..usize::from(width) * usize::from(height) * 3)
            .map(|i| (i * (k + 1) / 7) as u8)
            .collect();
        let path = class.join(format!("{k:03}.jpg"));
        if k == 5 {
            let file = fs::File::create(path.with_extension("png")).unwrap();
            let mut png = png::Encoder::new(file, width.into(), height.into());
            png.set_color(png::ColorType::Rgb);
            png.write_header().unwrap().write_image_data(&pixels).unwrap();
            continue;
        }
        let mut jpeg = vec![];
        Encoder::new(&mut jpeg, 90).encode(&pixels, width, height, ColorType::Rgb).unwrap();
        fs::write(path, jpeg).unwrap();
    }
}

/// A random crop to 16 x 16 pixels.
fn crop() -> Ops {
    let crop = RandomResizedCrop::new(16).unwrap().scale(0.3..=1.0).unwrap();
    ops![crop.ratio(0.75..=1.33).unwrap()]
}

/// All pixels and labels of an epoch, whatever the fields are called.
fn epoch(builder: LoaderBuilder, order: Order, workers: usize) -> (Vec<u8>, Vec<i64>) {
    let fields = builder.source().fields().to_vec();
    let name = |kind: FieldKind| fields.iter().find(|f| f.kind == kind).unwrap().name.clone();
    let (image, label) = (name(FieldKind::RgbImage), name(FieldKind::Int));
    let loader = builder
        .batch_size(4)
        .seed(9)
        .order(order)
        .workers(workers)
        .drop_last(false)
        .pipeline(&image, crop())
        .build()
        .unwrap();
    let mut all = (vec![], vec![]);
    for batch in loader.epoch(3).unwrap() {
        let batch = batch.unwrap();
        all.0.extend_from_slice(batch.tensor::<u8>(&image).unwrap().as_slice());
        all.1.extend_from_slice(batch.tensor::<i64>(&label).unwrap().as_slice());
    }
    all
}

fn opened(dir: &Path, name: &str) -> LoaderBuilder {
    Loader::open(dir.join(name)).unwrap()
}

#[test]
fn the_index_of_a_split_is_that_of_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path());
    fs::create_dir(dir.path().join("set")).unwrap();
    fs::rename(dir.path().join("photos"), dir.path().join("set/train")).unwrap();
    let text = stdout_of(dir.path(), &["index", "set", "--split", "train"]);
    assert!(text.contains("listed in set/train.fidx"), "{text}");
    assert!(dir.path().join("set/train.fidx").exists() && !dir.path().join("set.fidx").exists());
    let hub = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/parquet/hub");
    for (command, said) in [
        (["index", "set", "--split", "val"], "no folder \"val\" for `--split`"),
        (["index", hub, "--split", "train"], "the Parquet files of all splits get an index"),
    ] {
        let (code, errors) = refused(dir.path(), &command);
        assert!(code == 1 && errors.contains(said), "{errors}");
    }
}

#[test]
fn every_kind_of_dataset_gives_the_same_batches() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    let kinds = ["s-{000}.tar", "one.tar", "t-{0}-of-{N}.tfrecord"];
    stdout_of(dir, &["convert", "photos", kinds[0], "--max-samples", "9"]);
    stdout_of(dir, &["convert", "s-{000..002}.tar", kinds[1]]);
    stdout_of(dir, &["convert", "photos", kinds[2], "--shards", "2"]);
    stdout_of(dir, &["convert", "photos", "m/index.json", "--max-samples", "9"]);
    let names =
        ["s-{000..002}.tar", "s-*.tar", "one.tar", "t-*-of-2.tfrecord", "m/", "m/index.json"];
    let (pixels, labels) = epoch(opened(dir, "photos"), Order::Random, 2);
    assert_eq!(labels.len(), IMAGES);
    for name in names {
        for workers in [1, 3] {
            let found = epoch(opened(dir, name), Order::Random, workers);
            assert!(found == (pixels.clone(), labels.clone()), "{name}, {workers} workers");
        }
    }
    // With an index, the result is the same; a damaged index is then reported, and rebuilt.
    stdout_of(dir, &["index", "s-*.tar"]);
    stdout_of(dir, &["index", "t-*-of-2.tfrecord"]);
    stdout_of(dir, &["index", "photos"]);
    for name in names.into_iter().chain(["photos"]) {
        assert!(epoch(opened(dir, name), Order::Random, 2).0 == pixels, "{name}, with an index");
    }
    let index = dir.join("s-001.tar.fidx");
    let mut bytes = fs::read(&index).unwrap();
    bytes[40] ^= 1;
    fs::write(&index, bytes).unwrap();
    let error = Loader::open(dir.join("s-*.tar")).err().unwrap().to_string();
    assert!(error.contains("s-001.tar.fidx"), "{error}");
    stdout_of(dir, &["index", "s-*.tar"]);
    assert!(epoch(opened(dir, "s-*.tar"), Order::Random, 2).0 == pixels);
}

#[test]
fn a_joined_index_gives_the_same_batches_and_verify_finds_a_shard_that_was_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    stdout_of(dir, &["convert", "photos", "s-{000}.tar", "--max-samples", "9"]);
    stdout_of(dir, &["convert", "photos", "t-{00}-of-{N}.tfrecord", "--shards", "2"]);
    let names = ["s-{000..002}.tar", "t-*-of-02.tfrecord"];
    let scanned = names.map(|name| {
        let builder = opened(dir, name);
        (builder.source().facts().fingerprint, epoch(builder, Order::Random, 2))
    });
    for name in names {
        let text = stdout_of(dir, &["index", "--join", name]);
        assert!(text.contains("23 samples, indexed in"), "{text}");
    }
    assert!(!dir.join("s-000.tar.fidx").exists() && dir.join("joined.fjdx").exists());
    for (name, scanned) in names.into_iter().zip(&scanned) {
        let builder = opened(dir, name);
        let print = builder.source().facts().fingerprint;
        assert!(*scanned == (print, epoch(builder, Order::Random, 2)), "{name}");
        assert!(stdout_of(dir, &["verify", name]).contains("no damage found"));
    }
    // A shard of another call with the same length.
    let mut shard = fs::read(dir.join("s-001.tar")).unwrap();
    shard[513] ^= 1;
    fs::write(dir.join("s-001.tar"), shard).unwrap();
    let output = fuseloop(dir, &["verify", names[0]]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("belongs to another file"), "{text}");
    let (code, errors) = refused(dir, &["index", "--join", "photos"]);
    assert!(code == 1 && errors.contains("`--join` is for tar and TFRecord shards"), "{errors}");
}

#[test]
fn compressed_shards_give_the_batches_of_plain_ones_in_sequence() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    stdout_of(dir, &["convert", "photos", "s-{0}.tar", "--max-samples", "10"]);
    stdout_of(dir, &["convert", "photos", "t.tfrecord"]);
    for name in ["s-0.tar", "s-1.tar", "s-2.tar", "t.tfrecord"] {
        let file = fs::File::create(dir.join(format!("{name}.gz"))).unwrap();
        let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        gz.write_all(&fs::read(dir.join(name)).unwrap()).unwrap();
        gz.finish().unwrap();
    }
    let want = epoch(opened(dir, "photos"), Order::Sequential, 2);
    for name in ["s-{0..2}.tar", "s-{0..2}.tar.gz", "t.tfrecord.gz"] {
        let found = epoch(opened(dir, name), Order::Sequential, 3);
        assert!(found == want, "{name}");
    }
    let found = stdout_of(dir, &["bench", "s-{0..2}.tar.gz", "-e", "1", "-b", "4"]);
    assert!(found.contains("images/s"), "{found}");
    let refused = fuseloop(dir, &["verify", "t.tfrecord.gz"]);
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("help: unpack it first"), "{errors}");
    // Compressed shards are counted and then converted in sequence, to the same bytes as plain shards.
    for (src, to) in [("s-{0..2}.tar", "plain"), ("s-{0..2}.tar.gz", "packed")] {
        fs::create_dir(dir.join(to)).unwrap();
        for dst in ["x-{000}.tar", "x.beton", "x-{0}.tfrecord", "x"] {
            let limit = if dst.contains('{') { &["--max-samples", "6"][..] } else { &[] };
            let args = ["convert", src, &format!("{to}/{dst}"), "-j", "3"];
            stdout_of(dir, &[&args[..], limit].concat());
        }
    }
    let plain = files(&dir.join("plain"));
    // The class names are stored beside shards and the .beton; a folder has them as directory names.
    let named = plain.keys().filter(|name| name.ends_with(".classes.json")).count();
    assert_eq!((plain.len(), named), (4 + 1 + 4 + IMAGES + 3, 3));
    assert!(files(&dir.join("packed")) == plain);
    let gz = fs::read(dir.join("s-2.tar.gz")).unwrap();
    fs::write(dir.join("s-2.tar.gz"), &gz[..gz.len() / 2]).unwrap();
    let refused = fuseloop(dir, &["convert", "s-{0..2}.tar.gz", "y.beton"]);
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("s-2.tar.gz") && !dir.join("y.beton").exists(), "{errors}");
}

#[test]
fn a_dataset_says_what_it_holds_and_what_of_it_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    stdout_of(dir, &["convert", "photos", "s-{0}.tar", "--max-samples", "10"]);
    let info = stdout_of(dir, &["info", "s-{0..2}.tar"]);
    assert!(info.contains("23 samples") && info.contains("2 fields"), "{info}");
    let json: serde_json::Value =
        serde_json::from_str(&stdout_of(dir, &["info", "photos", "--json"])).unwrap();
    assert_eq!((&json["samples"], &json["fields"][0]["name"]), (&23.into(), &"image".into()));
    assert!(stdout_of(dir, &["verify", "s-{0..2}.tar"]).contains("no damage found"));
    fs::write(dir.join("photos/ape/000.jpg"), b"\xff\xd8\xffno picture").unwrap();
    let refused = fuseloop(dir, &["verify", "photos"]);
    assert_eq!(refused.status.code(), Some(1));
    let found = String::from_utf8(refused.stdout).unwrap();
    assert!(found.contains("1 damaged sample"), "{found}");
}

/// The output of one command, followed by its errors.
fn said(dir: &Path, args: &[&str]) -> String {
    let output = fuseloop(dir, args);
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat()
}

#[test]
fn a_damaged_image_is_named_by_its_file_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    let torn = dir.join("photos/ape/006.jpg");
    let jpeg = fs::read(&torn).unwrap();
    fs::write(&torn, &jpeg[..jpeg.len() / 2]).unwrap();
    stdout_of(dir, &["convert", "photos", "s-{0}.tar", "--max-samples", "5"]);
    stdout_of(dir, &["convert", "photos", "t-{0}.tfrecord", "--max-samples", "5"]);
    for shard in 0..5 {
        let file = fs::File::create(dir.join(format!("s-{shard}.tar.gz"))).unwrap();
        let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        gz.write_all(&fs::read(dir.join(format!("s-{shard}.tar"))).unwrap()).unwrap();
        gz.finish().unwrap();
    }
    // The images of a class come in the order of their names: the torn one is the sixth.
    let names = [
        ("photos", "photos/ape/006.jpg (image): the JPEG is cut short"),
        ("s-{0..4}.tar", "s-1.tar: sample "),
        ("t-{0..4}.tfrecord", "t-1.tfrecord:1 (image"),
        ("s-{0..4}.tar.gz", "s-1.tar.gz: sample "),
    ];
    for (name, location) in names {
        let bench = said(dir, &["bench", name, "-e", "1"]);
        assert!(bench.contains(location) && bench.contains("cut short"), "bench {name}: {bench}");
        let loader = opened(dir, name).on_damaged(OnDamaged::Skip).drop_last(false);
        let image = loader.source().fields().iter().find(|f| f.kind == FieldKind::RgbImage);
        let image = image.unwrap().name.clone();
        let loader = loader.pipeline(&image, crop()).build().unwrap();
        loader.epoch(0).unwrap().for_each(|batch| drop(batch.unwrap()));
        let listed = loader.quarantine().samples;
        assert_eq!(listed.len(), 1, "{name}: {listed:?}");
        assert!(listed[0].error.contains(location), "quarantine of {name}: {}", listed[0].error);
        if name.ends_with(".gz") {
            continue;
        }
        // All samples are measured, so that the damaged one is met.
        let explain = said(dir, &["explain", name, "-n", "1000"]);
        let number = format!("sample {}: ", listed[0].sample);
        assert!(explain.contains(&number) && explain.contains(location), "{name}: {explain}");
        let verify = said(dir, &["verify", name]);
        assert!(
            verify.contains(location) && verify.contains("cut short"),
            "verify {name}: {verify}"
        );
        let json = fuseloop(dir, &["verify", name, "--json"]).stdout;
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let damaged = &json["damaged"][0];
        assert!(location.contains(damaged["path"].as_str().unwrap()), "{name}: {damaged}");
        assert!(damaged["key"].is_string(), "{name}: {damaged}");
    }
    let both = Concat::new(
        ["s-{0..1}.tar", "s-{2..4}.tar"]
            .map(|name| Dataset::open(dir.join(name)).unwrap().source().unwrap()),
    );
    let location = both.unwrap().locate(SampleId(6), 0).unwrap();
    assert!(location.to_string().contains("s-1.tar: sample "), "{location}");
    fs::remove_file(&torn).unwrap();
    let gone = said(dir, &["verify", "s-{0..4}.tar"]);
    assert!(gone.contains("s-1.tar: sample "), "what was opened stays: {gone}");
}

const PIPELINE: &str = r#"
batch_size = 4
order = "random"
seed = 9

[fields]
image = [{ op = "RandomResizedCrop", size = 16 }]
label = [{ op = "OneHot", classes = 3 }]
"#;

#[test]
fn one_pipeline_file_does_for_every_kind_of_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    // The pixels of a PNG need not be the same in every format.
    fs::remove_file(dir.join("photos/ape/005.png")).unwrap();
    stdout_of(dir, &["convert", "photos", "s-{0}.tar", "--max-samples", "9"]);
    stdout_of(dir, &["convert", "photos", "t.tfrecord"]);
    stdout_of(dir, &["convert", "photos", "x.beton"]);
    fs::write(dir.join("p.toml"), PIPELINE).unwrap();
    fs::write(dir.join("stored.toml"), PIPELINE.replace("image", "jpg").replace("label", "cls"))
        .unwrap();
    let dump = |name: &str, pipeline: &str, out: &str| {
        stdout_of(dir, &["dump", name, "--pipeline", pipeline, "--out", out, "-n", "9"]);
        files(&dir.join(out))
    };
    let want = dump("photos", "p.toml", "of_photos");
    assert!(want.keys().any(|name| name.contains("image_0000.npy")), "{:?}", want.keys());
    for (k, name) in ["s-{0..2}.tar", "t.tfrecord", "x.beton"].into_iter().enumerate() {
        assert!(dump(name, "p.toml", &format!("out{k}")) == want, "{name}");
        stdout_of(dir, &["explain", name, "--pipeline", "p.toml"]);
    }
    assert!(dump("s-{0..2}.tar", "stored.toml", "stored") == want, "by the stored names");

    let crop = || ops![Resize::new((8, 8)).unwrap()];
    for (image, label) in [("image", "label"), ("jpg", "cls")] {
        let builder = opened(dir, "s-{0..2}.tar").batch_size(4).pipeline(image, crop());
        let loader = builder.filter(label, |label| matches!(label, Value::Int(1))).build().unwrap();
        let names: Vec<String> = loader.tensors().into_iter().map(|tensor| tensor.name).collect();
        assert_eq!(names, ["image", "label"]);
        let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
        for name in [label, "label", "cls"] {
            assert!(batch.tensor::<i64>(name).unwrap().as_slice().iter().all(|&class| class == 1));
        }
        let error = batch.tensor::<u8>("nothing").unwrap_err().to_string();
        assert!(error.contains("image"), "{error}");
        assert!(loader.inspect(image, 0).unwrap().is_some());
    }
    let both = opened(dir, "s-{0..2}.tar").pipeline("image", crop()).pipeline("jpg", crop());
    let error = both.build().err().unwrap().to_string();
    assert_eq!(
        error,
        "pipelines for image and jpg, which are names of one field: keep one of them"
    );
    let none = opened(dir, "s-{0..2}.tar").pipeline("photo", crop()).build().err().unwrap();
    assert!(none.to_string().contains("image (stored as jpg)"), "{none}");
}

#[test]
fn betons_are_put_together_split_and_cut_down() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    stdout_of(dir, &["convert", "photos", "all.beton"]);
    stdout_of(dir, &["convert", "all.beton", "all-{000}.beton", "--shards", "2"]);
    let mut parts: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".beton") && name != "all.beton")
        .collect();
    parts.sort();
    let [first, second] = &parts[..] else { panic!("{parts:?}") };
    stdout_of(dir, &["convert", first, second, "again.beton"]);
    let all = fs::read(dir.join("all.beton")).unwrap();
    assert!(fs::read(dir.join("again.beton")).unwrap() == all);
    let want = epoch(opened(dir, "all.beton"), Order::Random, 2);
    assert!(epoch(opened(dir, "again.beton"), Order::Random, 2) == want);
    let source = |name: &str| match Dataset::open(dir.join(name)).unwrap() {
        Dataset::Beton(beton) => beton as Arc<dyn fuseloop::source::Source>,
        _ => panic!("it is a .beton"),
    };
    let both = Concat::new([source(first), source(second)]).unwrap();
    assert!(epoch(Loader::from_source(both), Order::Random, 2) == want);
    // The parts have one name, for the library and for every command.
    let name = "all-{000..001}.beton";
    assert!(epoch(opened(dir, name), Order::Random, 2) == want);
    for command in [&["info"][..], &["verify"], &["explain"], &["preview", "-n", "2"]] {
        stdout_of(dir, &[command, &[name]].concat());
    }
    stdout_of(dir, &["convert", name, "converted.beton"]);
    assert!(epoch(opened(dir, "converted.beton"), Order::Random, 2) == want);
    stdout_of(dir, &["convert", "all.beton", "few.beton", "--every", "10"]);
    let (few, all) = (source("few.beton"), source("all.beton"));
    assert_eq!(few.len(), 3);
    assert_eq!(few.read(SampleId(2)).unwrap(), all.read(SampleId(20)).unwrap());
}

/// More shards than the process may have files open.
#[cfg(unix)]
#[test]
fn a_dataset_may_have_more_shards_than_a_process_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    stdout_of(dir, &["convert", "photos", "one.tar"]);
    let shard = fs::read(dir.join("one.tar")).unwrap();
    (0..400).for_each(|k| fs::write(dir.join(format!("s-{k:03}.tar")), &shard).unwrap());
    let run = |command: &str| {
        let script = format!("ulimit -n 300; exec \"$0\" {command}");
        let mut shell = std::process::Command::new("sh");
        let program = env!("CARGO_BIN_EXE_fuseloop");
        shell.args(["-c", &script, program]).current_dir(dir).output().unwrap()
    };
    for command in ["info 's-{000..399}.tar'", "verify 's-{000..399}.tar' --threads 4"] {
        let output = run(command);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("9,200 samples"), "{command}: {text}");
    }
}

/// A distinct JPEG for each number.
fn numbered(k: u16) -> Vec<u8> {
    let (width, height) = (20 + k, 50 - k);
    let pixels: Vec<u8> = (0..usize::from(width) * usize::from(height) * 3)
        .map(|i| (i * (usize::from(k) + 3) / 5) as u8)
        .collect();
    let mut jpeg = vec![];
    Encoder::new(&mut jpeg, 90).encode(&pixels, width, height, ColorType::Rgb).unwrap();
    jpeg
}

/// The order of torchvision's `ImageFolder`, written by hand: class by class; in a class the order of
/// `sorted(os.walk(class, followlinks=True))`, which compares the paths of directories as texts; in a
/// directory the order of `sorted(files)`.
const NESTED: [(&str, i64); 12] = [
    ("cat/a.jpg", 0),
    ("cat/z.jpg", 0),
    ("cat/sub/b.jpg", 0),
    ("cat/sub/c.jpg", 0),
    ("cat/sub-b/q.jpg", 0),
    ("cat/sub.c/x.jpg", 0),
    ("cat/sub/deep/a.jpg", 0),
    ("cat/subway/0.jpg", 0),
    ("dog/1.jpg", 1),
    ("dog/10.jpg", 1),
    ("dog/2.jpg", 1),
    ("dog/0/9.jpg", 1),
];

/// Writes the files of [`NESTED`] and returns their images, in that order.
fn nested(root: &Path) -> Vec<Vec<u8>> {
    let write = |(k, (name, _)): (u16, &(&str, i64))| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, numbered(k)).unwrap();
        numbered(k)
    };
    (0..).zip(&NESTED).map(write).collect()
}

/// Every stored JPEG and its label, in the order of the samples.
fn samples(path: &Path) -> Vec<(Vec<u8>, i64)> {
    let source = Dataset::open(path).unwrap().source().unwrap();
    let sample = |id| {
        let (mut image, mut label) = (vec![], -1);
        for value in source.read(SampleId(id)).unwrap() {
            match value {
                OwnedValue::Image(found) => image = found.bytes,
                OwnedValue::Int(found) => label = found,
                other => panic!("{other:?}"),
            }
        }
        (image, label)
    };
    (0..source.len()).map(sample).collect()
}

#[test]
fn folders_in_classes_are_numbered_as_torchvision_numbers_them_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let jpegs = nested(&dir.join("photos"));
    stdout_of(dir, &["write", "photos", "w.beton"]);
    stdout_of(dir, &["convert", "photos", "c.beton"]);
    stdout_of(dir, &["convert", "photos", "c.tar"]);
    stdout_of(dir, &["convert", "photos", "c.tfrecord"]);
    stdout_of(dir, &["recut", "photos", "recut"]);
    let labels = NESTED.iter().map(|(_, label)| *label);
    let want: Vec<_> = jpegs.into_iter().zip(labels).collect();
    let stream = epoch(opened(dir, "photos"), Order::Random, 2);
    for name in ["photos", "w.beton", "c.beton", "c.tar", "c.tfrecord"] {
        assert!(samples(&dir.join(name)) == want, "{name}");
        assert!(epoch(opened(dir, name), Order::Random, 3) == stream, "{name}");
    }
    assert!(epoch(opened(dir, "recut"), Order::Random, 2) == stream);
}

/// A folder of links to images stored elsewhere, as ImageNet's validation set is often sorted; with a
/// link to a directory of images, and a directory that contains a link to itself.
#[cfg(unix)]
#[test]
fn links_are_followed_by_every_command_and_loops_are_left_out() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let pool = dir.join("pool");
    let jpegs = nested(&pool);
    let photos = dir.join("photos");
    for (class, files) in [("ape", 0..3), ("bee", 3..6)] {
        fs::create_dir_all(photos.join(class)).unwrap();
        for k in files {
            symlink(pool.join(NESTED[k].0), photos.join(format!("{class}/{k}.jpg"))).unwrap();
        }
    }
    symlink(pool.join("dog"), photos.join("cow")).unwrap();
    symlink(&photos, photos.join("bee/loop")).unwrap();
    symlink("nowhere", photos.join("ape/gone.jpg")).unwrap();
    let want: Vec<(Vec<u8>, i64)> = (0..6)
        .map(|k| (jpegs[k].clone(), i64::from(k > 2)))
        .chain([8, 9, 10, 11].map(|k| (jpegs[k].clone(), 2)))
        .collect();
    let said = "7 links followed, 1 loop left out, 1 link to nothing left out";
    for (command, out) in [
        (&["write", "photos", "w.beton"][..], "w.beton"),
        (&["convert", "photos", "c.beton"], "c.beton"),
        (&["convert", "photos", "c.tar"], "c.tar"),
        (&["convert", "photos", "c.tfrecord"], "c.tfrecord"),
        (&["recut", "photos", "recut"], "photos"),
        (&["info", "photos"], "photos"),
        (&["index", "photos"], "photos"),
        (&["info", "photos"], "photos"),
    ] {
        let text = stdout_of(dir, command);
        assert!(text.contains(said), "{command:?}: {text}");
        assert!(samples(&dir.join(out)) == want, "{out}");
    }
    let stream = epoch(opened(dir, "photos"), Order::Random, 2);
    for name in ["w.beton", "c.beton", "c.tar", "c.tfrecord", "recut"] {
        assert!(epoch(opened(dir, name), Order::Random, 3) == stream, "{name}");
    }
    for command in [
        &["info"][..],
        &["bench"],
        &["verify"],
        &["index"],
        &["dump", "--out", "out"],
        &["explain"],
        &["preview"],
        &["replay", "--sample", "0"],
    ] {
        let refused = fuseloop(dir, &[command, &["photos", "--links", "refuse"]].concat());
        let errors = String::from_utf8(refused.stderr).unwrap();
        assert!(errors.contains("9 links refused"), "{command:?}: {errors}");
    }
    for command in [["write", "no.beton"], ["convert", "no.tar"], ["recut", "no"]] {
        let [command, out] = command;
        let refused = fuseloop(dir, &[command, "photos", out, "--links", "refuse"]);
        let text = [refused.stdout, refused.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("9 links refused"), "{command}: {text}");
    }
}

/// Writes a `.beton` of images of these classes, which have no names.
fn beton_of(path: &Path, labels: &[i64]) {
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    let rows = (0..).zip(labels).map(|(k, &label)| {
        let image = ImageInput::JpegBytes(numbered(k));
        vec![FieldValue::Image(image), FieldValue::Int(label)]
    });
    let options = WriteOptions { overwrite: true, ..WriteOptions::default() };
    write_iter(rows, &fields, path, &options).unwrap();
}

#[test]
fn class_numbers_survive_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    beton_of(&dir.join("a.beton"), &[600, 600, 601, 602, 602]);
    let want = samples(&dir.join("a.beton"));
    for (from, to) in [
        ("a.beton", "new/folders/f"),
        ("new/folders/f", "new/shards/s-{000}.tar"),
        ("new/shards/s-*.tar", "g"),
        ("g", "t-{00000}-of-{N}.tfrecord"),
        ("t-*-of-*.tfrecord", "h"),
        ("h", "deep/er/b.beton"),
    ] {
        let limit = if to.contains("{N}") { &["--shards", "2"][..] } else { &[] };
        stdout_of(dir, &[&["convert", from, to], limit].concat());
        let shard = to.replace("{000}", "*").replace("{00000}-of-{N}", "*-of-*");
        assert!(samples(&dir.join(shard)) == want, "{from} to {to}");
    }
}

/// The names of a dataset's classes by their numbers.
fn names(path: &Path) -> Vec<(i64, String)> {
    let source = Dataset::open(path).unwrap().source().unwrap();
    let names = source.class_names().unwrap().unwrap_or_default();
    names.iter().map(|(number, name)| (number, name.to_owned())).collect()
}

#[test]
fn class_names_survive_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // The classes are not in the order of their names; one name can't be a folder's, and one class has
    // no samples.
    let classes = [(0, "zebra"), (2, "ape"), (7, "a/b"), (9, "nobody")];
    let classes = classes.map(|(number, name)| (number, name.to_owned()));
    beton_of(&dir.join("a.beton"), &[0, 7, 2, 2, 0]);
    let list =
        classes.each_ref().map(|(n, name)| format!("{{\"number\":{n},\"name\":\"{name}\"}}"));
    let text =
        format!("{{\"fuseloop\":\"classes\",\"version\":1,\"classes\":[{}]}}", list.join(","));
    fs::write(dir.join("a.beton.classes.json"), text).unwrap();
    let sorted = |name: &str| {
        let mut samples = samples(&dir.join(name));
        samples.sort();
        samples
    };
    let labels = |samples: &[(Vec<u8>, i64)]| {
        let mut labels: Vec<i64> = samples.iter().map(|(_, label)| *label).collect();
        labels.sort_unstable();
        labels
    };
    let want = sorted("a.beton");
    let mut from = "a.beton".to_owned();
    for to in ["f", "b.beton", "g", "s-{000}.tar", "one.tar", "t-{00}-of-{N}.tfrecord", "h", "r"] {
        let limit: &[&str] = match to {
            "s-{000}.tar" => &["--max-samples", "2"],
            "t-{00}-of-{N}.tfrecord" => &["--shards", "2"],
            _ => &[],
        };
        let command = if to == "r" { "recut" } else { "convert" };
        let text = stdout_of(dir, &[&[command, &from, to], limit].concat());
        let is_said =
            text.contains("note: the numbers and names of the classes are in classes.json");
        assert_eq!(is_said, ["f", "g", "h"].contains(&to), "{text}");
        from = to.replace("{000}", "*").replace("{00}-of-{N}", "*-of-*");
        // Re-cut images have other bytes.
        if to != "r" {
            assert!(sorted(&from) == want, "{to}");
        }
        assert_eq!(labels(&sorted(&from)), labels(&want), "{to}");
        assert_eq!(names(&dir.join(&from)), classes, "{to}");
    }
    // Some of the shards, and files derived from .beton files.
    assert_eq!(names(&dir.join("s-{001..002}.tar")), classes);
    stdout_of(dir, &["convert", "a.beton", "b.beton", "both.beton"]);
    stdout_of(dir, &["convert", "both.beton", "few.beton", "--every", "3"]);
    stdout_of(dir, &["convert", "both.beton", "part-{0}.beton", "--shards", "2"]);
    stdout_of(dir, &["convert", "both.beton", "cut.beton", "--write-mode", "tiled"]);
    stdout_of(dir, &["write", "r", "w.beton"]);
    for name in ["both.beton", "few.beton", "part-0.beton", "part-1.beton", "cut.beton", "w.beton"]
    {
        assert_eq!(names(&dir.join(name)), classes, "{name}");
    }
    assert_eq!(labels(&sorted("w.beton")), labels(&want));
    // Writing a dataset without names in the same place removes the names of the earlier one.
    beton_of(&dir.join("w.beton"), &[0]);
    assert!(names(&dir.join("w.beton")).is_empty() && !dir.join("w.beton.classes.json").exists());
}

/// The folders of classes have the names of the classes, as ImageFolder expects, and there are no other
/// files if the order of the names determines the numbers.
#[test]
fn a_folder_of_named_classes_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    stdout_of(dir, &["convert", "photos", "a.beton"]);
    stdout_of(dir, &["convert", "a.beton", "new"]);
    let classes = [(0, "ape".to_owned()), (1, "bee".to_owned()), (2, "cow".to_owned())];
    assert_eq!(names(&dir.join("a.beton")), classes);
    assert_eq!(names(&dir.join("new")), classes);
    let found = files(&dir.join("new"));
    assert!(found.len() == IMAGES && found.contains_key("ape/00000000.jpg"));
    // If someone adds a class folder, its number is not guessed.
    beton_of(&dir.join("gaps.beton"), &[4, 9]);
    stdout_of(dir, &["convert", "gaps.beton", "gaps"]);
    fs::create_dir(dir.join("gaps/new")).unwrap();
    assert!(stdout_of(dir, &["info", "gaps"]).contains("2 samples"));
    fs::copy(dir.join("photos/ape/000.jpg"), dir.join("gaps/new/0.jpg")).unwrap();
    let refused = String::from_utf8(fuseloop(dir, &["info", "gaps"]).stderr).unwrap();
    assert!(refused.contains("no number for the class folder \"new\""), "{refused}");
}

#[test]
fn a_folder_with_a_table_keeps_class_names() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let kinds =
        [("image", FieldKind::RgbImage), ("label", FieldKind::Int), ("x", FieldKind::Float)];
    let fields = kinds.map(|(name, kind)| field(name, kind));
    let rows = (0..3).map(|k| {
        let image = FieldValue::Image(ImageInput::JpegBytes(numbered(k)));
        vec![image, FieldValue::Int(600 + i64::from(k)), FieldValue::Float(0.5)]
    });
    write_iter(rows, &fields, dir.join("a.beton"), &WriteOptions::default()).unwrap();
    let list =
        "{\"fuseloop\":\"classes\",\"version\":1,\"classes\":[{\"number\":601,\"name\":\"ape\"}]}";
    fs::write(dir.join("a.beton.classes.json"), list).unwrap();
    stdout_of(dir, &["convert", "a.beton", "t"]);
    stdout_of(dir, &["convert", "t/metadata.jsonl", "b.beton"]);
    assert_eq!(names(&dir.join("b.beton")), [(601, "ape".to_owned())]);
    // The folder is the same dataset.
    stdout_of(dir, &["convert", "t", "c.beton"]);
    assert!(fs::read(dir.join("c.beton")).unwrap() == fs::read(dir.join("b.beton")).unwrap());
    assert_eq!(names(&dir.join("c.beton")), [(601, "ape".to_owned())]);
    let text = stdout_of(dir, &["info", "t"]);
    assert!(text.contains("metadata.jsonl: 3 samples") && text.contains("float"), "{text}");
    stdout_of(dir, &["write", "t", "d.beton"]);
    assert!(fs::read(dir.join("d.beton")).unwrap() == fs::read(dir.join("b.beton")).unwrap());
}
