//! Folders and records of PNGs and JPEGs through the loader and the writer.

use crate::common::dataset;
use fuseloop::source::Source as _;
use fuseloop::source::{
    Beton, Buffer, Dataset, Folder, FolderOptions, ImageMode, OpenOptions, OwnedValue, TfOptions,
    Value,
};
use fuseloop::source::{Feature, TfRecords};
use fuseloop::write::{ImageOptions, Reencoded, WriteMode, WriteOptions, convert};
use fuseloop::{Loader, LoaderBuilder, Order, SampleId, ops::*};
use std::fs;
use std::path::{Path, PathBuf};

const NAMES: [&str; 5] = ["gray16", "palette4", "rgb8", "rgb8_interlaced", "rgba16"];
const WIDTH: usize = 11;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/png").join(name)
}

/// A folder with a class for each PNG, and the pixels of each.
fn pngs() -> (tempfile::TempDir, Vec<Vec<u8>>) {
    let dir = tempfile::tempdir().unwrap();
    let copy = |name: &str| {
        let class = dir.path().join(name);
        fs::create_dir(&class).unwrap();
        fs::copy(golden(&format!("{name}.png")), class.join("1.PNG")).unwrap();
        fs::read(golden(&format!("{name}.rgb"))).unwrap()
    };
    let pixels = NAMES.iter().map(|name| copy(name)).collect();
    (dir, pixels)
}

/// The middle 5 x 5 pixels of an image.
fn middle(pixels: &[u8]) -> Vec<u8> {
    let rows = pixels.chunks_exact(WIDTH * 3).skip(1).take(5);
    rows.flat_map(|row| &row[9..24]).copied().collect()
}

fn rows(builder: LoaderBuilder) -> (Vec<u8>, Vec<i64>) {
    let builder = builder.batch_size(NAMES.len()).order(Order::Sequential).workers(2);
    let builder = builder.pipeline("image", ops![CenterCrop::new(5).unwrap()]);
    let batch = builder.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    let labels = batch.tensor::<i64>("label").unwrap().as_slice().to_vec();
    (batch.bytes("image").unwrap().to_vec(), labels)
}

#[test]
fn a_folder_of_pngs_is_loaded() {
    let (dir, pixels) = pngs();
    let folder = Folder::open(dir.path(), &FolderOptions::default()).unwrap();
    assert_eq!(folder.classes(), NAMES);
    let (images, labels) = rows(Loader::from_source(folder));
    assert!(images == pixels.iter().flat_map(|pixels| middle(pixels)).collect::<Vec<_>>());
    assert_eq!(labels, [0, 1, 2, 3, 4]);
}

#[test]
fn a_folder_of_pngs_is_written_decoded() {
    let (dir, pixels) = pngs();
    let out = dir.path().join("x.beton");
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    let options = WriteOptions { image, ..WriteOptions::default() };
    let written = dataset::write_folder(dir.path(), &out, &options).unwrap();
    assert_eq!(written.samples, 5);
    // gray16, rgba16 and palette4, whose colours are transparent, have more than RGB of 8 bits.
    let (from, to) = (ImageMode::Png, ImageMode::Raw);
    let kind = |is_lossy, images| Reencoded { from, to, is_lossy, images, lost_orientations: 0 };
    assert_eq!(written.reencoded, [kind(false, 2), kind(true, 3)]);
    let beton = Beton::open(&out, &OpenOptions::default()).unwrap();
    let mut buffer = Buffer::default();
    for (sample, pixels) in (0..).map(SampleId).zip(&pixels) {
        let Value::Image(image) = beton.value(sample, 0, &mut buffer).unwrap() else { panic!() };
        assert_eq!((image.mode, image.width, image.height), (ImageMode::Raw, 11, 7));
        assert!(image.bytes == pixels, "{sample}");
    }
    let raw = std::fs::read(&out).unwrap();
    let error = dataset::write_folder(dir.path(), &out, &WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), fuseloop::ErrorKind::AlreadyExists, "{error}");
    let replacing = WriteOptions { overwrite: true, ..WriteOptions::default() };
    dataset::write_folder(dir.path(), &out, &replacing).unwrap();
    assert!(std::fs::read(&out).unwrap() == raw);
    let image = ImageOptions { write_mode: WriteMode::Jpg, ..ImageOptions::default() };
    dataset::write_folder(dir.path(), &out, &WriteOptions { image, ..replacing }).unwrap();
    let beton = Beton::open(&out, &OpenOptions::default()).unwrap();
    let Value::Image(image) = beton.value(SampleId(0), 0, &mut buffer).unwrap() else { panic!() };
    assert_eq!((image.mode, &image.bytes[..2]), (ImageMode::Jpeg, &[0xff, 0xd8][..]));
}

#[test]
fn a_png_in_a_file_keeps_what_rgb_does_not_hold() {
    let (dir, _) = pngs();
    let (out, folder) = (tempfile::tempdir().unwrap(), dir.path().to_str().unwrap());
    let source = Dataset::open(folder).unwrap().source().unwrap();
    for mode in [WriteMode::Lossless, WriteMode::Raw, WriteMode::Mask] {
        let image = ImageOptions { write_mode: mode, ..ImageOptions::default() };
        let path = out.path().join(format!("{mode:?}.tar"));
        let options = WriteOptions { image, ..WriteOptions::default() };
        let report = convert(&*source, &path, &options).unwrap();
        assert_eq!(report.reencoded, [], "{mode:?}");
        let tar = Dataset::open(&path).unwrap().source().unwrap();
        for (sample, name) in (0..).map(SampleId).zip(NAMES) {
            let record = tar.read(sample).unwrap();
            let file = fs::read(golden(&format!("{name}.png"))).unwrap();
            let is_file = |value: &OwnedValue| matches!(value, OwnedValue::Image(image) if image.bytes == file);
            assert!(record.iter().any(is_file), "{mode:?}, {name}");
        }
    }
}

/// A TFRecord file with an image and a label in each record, written by hand.
fn records(pngs: &[Vec<u8>]) -> Vec<u8> {
    let tagged = |tag: u8, bytes: &[u8]| {
        let (low, high) = (bytes.len() as u8 | 128, (bytes.len() >> 7) as u8);
        [&[tag << 3 | 2, low, high][..], bytes].concat()
    };
    let entry = |name: &str, kind, values: &[u8]| {
        let feature = tagged(kind, &tagged(1, values));
        tagged(1, &[tagged(1, name.as_bytes()), tagged(2, &feature)].concat())
    };
    let framed = |data: &[u8]| {
        let crc = |bytes: &[u8]| {
            crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
        };
        let length = (data.len() as u64).to_le_bytes();
        [&length[..], &crc(&length), data, &crc(data)].concat()
    };
    let record = |(label, png): (u8, &Vec<u8>)| {
        framed(&tagged(1, &[entry("image", 1, png), entry("label", 3, &[label])].concat()))
    };
    (0..).zip(pngs).flat_map(record).collect()
}

#[test]
fn records_of_pngs_are_loaded() {
    let names = NAMES.map(|name| golden(&format!("{name}.png")));
    let file = records(&names.map(|path| fs::read(path).unwrap()));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pngs.tfrecord");
    fs::write(&path, file).unwrap();
    let options = TfOptions::default().feature("label", Feature::Int);
    let asked = options.feature("image", Feature::Image);
    for options in [asked, TfOptions::default()] {
        let source = TfRecords::open(path.to_str().unwrap(), &options).unwrap();
        let (images, labels) = rows(Loader::from_source(source));
        let want = NAMES.map(|name| middle(&fs::read(golden(&format!("{name}.rgb"))).unwrap()));
        assert!(images == want.concat());
        assert_eq!(labels, [0, 1, 2, 3, 4]);
    }
}

/// Masks hold what a loader reads from their files.
#[test]
fn a_mask_is_written_as_the_class_numbers_of_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let written = |name: &str| {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::copy(golden(&format!("{name}.png")), folder.path().join("a/1.png")).unwrap();
        let path = dir.path().join(format!("{name}.beton"));
        let image = ImageOptions { write_mode: WriteMode::Mask, ..ImageOptions::default() };
        let options = WriteOptions { image, ..WriteOptions::default() };
        dataset::write_folder(folder.path(), &path, &options).map_err(|error| error.to_string())?;
        let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
        let mut buffer = Buffer::default();
        let Value::Image(image) = beton.value(SampleId(0), 0, &mut buffer).unwrap() else {
            panic!("{name}")
        };
        Ok::<_, String>(image.bytes.to_vec())
    };
    for name in ["gray1", "gray2", "gray4", "gray8", "palette4"] {
        let classes = fs::read(golden(&format!("{name}.index"))).unwrap();
        let expected: Vec<u8> = classes.iter().flat_map(|&class| [class; 3]).collect();
        assert!(written(name).unwrap() == expected, "{name}");
    }
    for (name, reason) in [("rgb8", "has the colour"), ("gray16", "an index is at most 255")] {
        let error = written(name).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}
