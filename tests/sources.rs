//! The same samples from every kind of dataset: written by `fuseloop convert`, opened by their names,
//! loaded to the same batches.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

#[path = "common/command.rs"]
mod command;
#[path = "common/files.rs"]
mod files;

use command::{fuseloop, told};
use files::files;
use fuseloop::ops::*;
use fuseloop::source::{Concat, Dataset, FieldKind, OwnedValue};
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
        .pipeline(&image, |_| Ok(ops![RandomResizedCrop::new(16, 0.3..=1.0, 0.75..=1.33)?]))
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
fn every_kind_of_dataset_gives_the_same_batches() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    let kinds = ["s-{000}.tar", "one.tar", "t-{0}-of-{N}.tfrecord"];
    told(dir, &["convert", "photos", kinds[0], "--max-samples", "9"]);
    told(dir, &["convert", "s-{000..002}.tar", kinds[1]]);
    told(dir, &["convert", "photos", kinds[2], "--shards", "2"]);
    let names = ["s-{000..002}.tar", "s-*.tar", "one.tar", "t-*-of-2.tfrecord"];
    let (pixels, labels) = epoch(opened(dir, "photos"), Order::Random, 2);
    assert_eq!(labels.len(), IMAGES);
    for name in names {
        for workers in [1, 3] {
            let found = epoch(opened(dir, name), Order::Random, workers);
            assert!(found == (pixels.clone(), labels.clone()), "{name}, {workers} workers");
        }
    }
    // With an index, the same; then a damaged one is told, and made anew.
    told(dir, &["index", "s-*.tar"]);
    told(dir, &["index", "t-*-of-2.tfrecord"]);
    told(dir, &["index", "photos"]);
    for name in names.into_iter().chain(["photos"]) {
        assert!(epoch(opened(dir, name), Order::Random, 2).0 == pixels, "{name}, with an index");
    }
    let index = dir.join("s-001.tar.fidx");
    let mut bytes = fs::read(&index).unwrap();
    bytes[40] ^= 1;
    fs::write(&index, bytes).unwrap();
    let error = Loader::open(dir.join("s-*.tar")).err().unwrap().to_string();
    assert!(error.contains("s-001.tar.fidx"), "{error}");
    told(dir, &["index", "s-*.tar"]);
    assert!(epoch(opened(dir, "s-*.tar"), Order::Random, 2).0 == pixels);
}

#[test]
fn compressed_shards_give_the_batches_of_plain_ones_in_sequence() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    told(dir, &["convert", "photos", "s-{0}.tar", "--max-samples", "10"]);
    told(dir, &["convert", "photos", "t.tfrecord"]);
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
    let found = told(dir, &["bench", "s-{0..2}.tar.gz", "-e", "1", "-b", "4"]);
    assert!(found.contains("images/s"), "{found}");
    let refused = fuseloop(dir, &["verify", "t.tfrecord.gz"]);
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("help: unpack it first"), "{errors}");
    // Counted and then converted in sequence, to the bytes that plain shards become.
    for (src, to) in [("s-{0..2}.tar", "plain"), ("s-{0..2}.tar.gz", "packed")] {
        fs::create_dir(dir.join(to)).unwrap();
        for dst in ["x-{000}.tar", "x.beton", "x-{0}.tfrecord", "x"] {
            told(dir, &["convert", src, &format!("{to}/{dst}"), "--max-samples", "6", "-j", "3"]);
        }
    }
    let plain = files(&dir.join("plain"));
    assert!(plain.len() == 4 + 1 + 4 + IMAGES && files(&dir.join("packed")) == plain);
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
    told(dir, &["convert", "photos", "s-{0}.tar", "--max-samples", "10"]);
    let info = told(dir, &["info", "s-{0..2}.tar"]);
    assert!(info.contains("23 samples") && info.contains("2 fields"), "{info}");
    let json: serde_json::Value =
        serde_json::from_str(&told(dir, &["info", "photos", "--json"])).unwrap();
    assert_eq!((&json["samples"], &json["fields"][0]["name"]), (&23.into(), &"image".into()));
    assert!(told(dir, &["verify", "s-{0..2}.tar"]).contains("no damage found"));
    fs::write(dir.join("photos/ape/000.jpg"), b"\xff\xd8\xffno picture").unwrap();
    let refused = fuseloop(dir, &["verify", "photos"]);
    assert_eq!(refused.status.code(), Some(1));
    let found = String::from_utf8(refused.stdout).unwrap();
    assert!(found.contains("1 damaged sample"), "{found}");
}

#[test]
fn betons_are_put_together_split_and_cut_down() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    photos(dir);
    told(dir, &["convert", "photos", "all.beton"]);
    told(dir, &["split", "all.beton", "--parts", "2"]);
    let mut parts: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".beton") && name != "all.beton")
        .collect();
    parts.sort();
    let [first, second] = &parts[..] else { panic!("{parts:?}") };
    told(dir, &["concat", first, second, "again.beton"]);
    let want = epoch(opened(dir, "all.beton"), Order::Random, 2);
    assert!(epoch(opened(dir, "again.beton"), Order::Random, 2) == want);
    let source = |name: &str| match Dataset::open(dir.join(name)).unwrap() {
        Dataset::Beton(beton) => beton as Arc<dyn fuseloop::source::Source>,
        _ => panic!("it is a .beton"),
    };
    let both = Concat::new([source(first), source(second)]).unwrap();
    assert!(epoch(Loader::from_source(both), Order::Random, 2) == want);
    told(dir, &["subset", "all.beton", "few.beton", "--every", "10"]);
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
    told(dir, &["convert", "photos", "one.tar"]);
    let shard = fs::read(dir.join("one.tar")).unwrap();
    (0..400).for_each(|k| fs::write(dir.join(format!("s-{k:03}.tar")), &shard).unwrap());
    let run = |command: &str| {
        let script = format!("ulimit -n 300; exec \"$0\" {command}");
        let mut shell = std::process::Command::new("sh");
        let program = env!("CARGO_BIN_EXE_fuseloop");
        shell.args(["-c", &script, program]).current_dir(dir).output().unwrap()
    };
    for command in ["info 's-{000..399}.tar'", "verify 's-{000..399}.tar' --jobs 4"] {
        let output = run(command);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("9,200 samples"), "{command}: {text}");
    }
}

/// A JPEG of its own for each number.
fn numbered(k: u16) -> Vec<u8> {
    let (width, height) = (20 + k, 50 - k);
    let pixels: Vec<u8> = (0..usize::from(width) * usize::from(height) * 3)
        .map(|i| (i * (usize::from(k) + 3) / 5) as u8)
        .collect();
    let mut jpeg = vec![];
    Encoder::new(&mut jpeg, 90).encode(&pixels, width, height, ColorType::Rgb).unwrap();
    jpeg
}

/// The order of torchvision's `ImageFolder`, by hand: class by class; in a class
/// `sorted(os.walk(class, followlinks=True))`, which compares the paths of directories as texts;
/// in a directory `sorted(files)`.
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

/// The files of [`NESTED`]; their pictures, in that order.
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
    told(dir, &["write", "photos", "w.beton"]);
    told(dir, &["convert", "photos", "c.beton"]);
    told(dir, &["convert", "photos", "c.tar"]);
    told(dir, &["convert", "photos", "c.tfrecord"]);
    told(dir, &["recut", "photos", "recut"]);
    let labels = NESTED.iter().map(|(_, label)| *label);
    let want: Vec<_> = jpegs.into_iter().zip(labels).collect();
    let stream = epoch(opened(dir, "photos"), Order::Random, 2);
    for name in ["photos", "w.beton", "c.beton", "c.tar", "c.tfrecord"] {
        assert!(samples(&dir.join(name)) == want, "{name}");
        assert!(epoch(opened(dir, name), Order::Random, 3) == stream, "{name}");
    }
    assert!(epoch(opened(dir, "recut"), Order::Random, 2) == stream);
}

/// A folder of links to pictures that lie elsewhere, as ImageNet's validation set is often sorted; a
/// directory of them, and one that holds itself.
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
        let text = told(dir, command);
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
