//! Folders of WebP and TIFF images load as they are, and as whatever they are written to.

use crate::common::dataset;
use fuseloop::prelude::*;
use fuseloop::source::{Folder, FolderOptions, ImageMode};
use fuseloop::write::{ImageOptions, WriteMode, WriteOptions, convert};
use std::fs;
use std::path::Path;

const IMAGES: [&str; 6] = [
    "webp/lossy.webp",
    "webp/lossless.webp",
    "webp/lossless_alpha.webp",
    "tiff/rgb_tiles_deflate.tif",
    "tiff/palette.tif",
    "tiff/rgb16.tif",
];

/// The rows of a dataset in its order, and their labels.
fn rows(path: &Path) -> (Vec<u8>, Vec<i64>) {
    let loader = Loader::open(path).unwrap().batch_size(IMAGES.len()).order(Order::Sequential);
    let loader = loader.pipeline("image", ops![CenterCrop::new((15, 19)).unwrap()]);
    let mut batches = loader.build().unwrap().epoch(0).unwrap();
    let batch = batches.next().unwrap().unwrap();
    let labels = batch.tensor::<i64>("label").unwrap().as_slice().to_vec();
    (batch.bytes("image").unwrap().to_vec(), labels)
}

#[test]
fn images_have_the_same_pixels_wherever_they_are_stored() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folder = dir.path().join("images");
    for (number, name) in IMAGES.iter().enumerate() {
        let (class, name) = (name.split('/').next().unwrap(), *name);
        fs::create_dir_all(folder.join(class)).unwrap();
        let to = folder.join(class).join(format!("{number}_{}", &name[class.len() + 1..]));
        fs::copy(golden.join(name), to).unwrap();
    }
    let expected = rows(&folder);
    let labels: Vec<i64> = vec![0, 0, 0, 1, 1, 1];
    assert_eq!(expected.1, labels, "tiff comes before webp");
    assert!(expected.0.iter().any(|&level| level > 0));

    let beton = dir.path().join("images.beton");
    let written = dataset::write_folder(&folder, &beton, &WriteOptions::default()).unwrap();
    assert_eq!(written.samples, 6);
    // One of each format has alpha or 16 bits a sample.
    let kinds = written.reencoded.iter().map(|kind| (kind.from, kind.is_lossy, kind.images));
    let (tiff, webp) = (ImageMode::Tiff, ImageMode::Webp);
    let expected_kinds = [(tiff, false, 2), (tiff, true, 1), (webp, false, 2), (webp, true, 1)];
    assert!(kinds.eq(expected_kinds), "{:?}", written.reencoded);
    assert!(rows(&beton) == expected, "a .beton");

    let source = Folder::open(&folder, &FolderOptions::default()).unwrap();
    for name in ["images-{000000}.tar", "images-{00000}.tfrecord"] {
        let to = dir.path().join(name);
        let shards = convert(&source, &to, &WriteOptions::default()).unwrap();
        assert_eq!((shards.samples, shards.files), (6, 1), "{name}");
        let ending = to.extension().unwrap().to_owned();
        let mut found = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let found = found.find(|path| path.extension() == Some(&ending)).unwrap();
        assert!(rows(&found) == expected, "{name}");
    }
}

#[test]
fn writing_jpegs_of_them_is_lossy_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folder = dir.path().join("images/one");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(golden.join(IMAGES[1]), folder.join("a.webp")).unwrap();
    let image = ImageOptions { write_mode: WriteMode::Jpg, ..ImageOptions::default() };
    let options = WriteOptions { image, ..WriteOptions::default() };
    let out = dir.path().join("one.beton");
    let report = dataset::write_folder(dir.path().join("images"), out, &options).unwrap();
    assert!(report.reencoded.len() == 1 && report.reencoded[0].is_lossy, "{report:?}");
}
