//! Images that are stored as bit planes load as the JPEGs that they were.

use crate::common::dataset;
use fuseloop::prelude::*;
use fuseloop::source::Source as _;
use fuseloop::write::{ImageOptions, WriteMode, WriteOptions};
use std::fs;
use std::path::Path;

const SAMPLES: u64 = 20;

/// Returns the rows of an epoch.
fn rows(path: &Path, change: impl FnOnce(LoaderBuilder) -> LoaderBuilder) -> Vec<u8> {
    let builder = Loader::open(path).unwrap().batch_size(8).drop_last(false).workers(2);
    let loader = change(builder).build().unwrap();
    let batches = loader.epoch(1).unwrap().map(Result::unwrap);
    batches.flat_map(|batch| batch.bytes("image").unwrap().to_vec()).collect()
}

#[test]
fn windows_of_bit_planes_have_the_rows_of_jpegs() {
    let (dir, jpegs) = dataset::write(SAMPLES, WriteMode::Jpg, dataset::varied);
    let [planes, again] = ["planes.beton", "again.beton"].map(|name| dir.path().join(name));
    let options = WriteOptions {
        image: ImageOptions { bit_planes: true, ..ImageOptions::default() },
        ..WriteOptions::default()
    };
    let report = dataset::recut(&jpegs, &planes, &options).unwrap();
    assert_eq!((report.samples, report.unchanged.first.len()), (SAMPLES, 0));
    let beton = fuseloop::source::Beton::open(&planes, &Default::default()).unwrap();
    let stats = beton.facts().image_stats(0).unwrap();
    assert_eq!((stats.jpeg, stats.bit_planes), (0, SAMPLES));

    let lists = [
        ops![RandomResizedCrop::new(40).unwrap(), RandomHorizontalFlip::new(0.5).unwrap()],
        ops![CenterCrop::new(33).unwrap(), Normalize::imagenet(), ToChannelsFirst],
        ops![Resize::new((50, 50)).unwrap()],
    ];
    for (number, list) in lists.into_iter().enumerate() {
        let of = |path: &Path| rows(path, |builder| builder.pipeline("image", list.clone()));
        assert!(of(&planes) == of(&jpegs), "list {number}");
    }
    let gray = |path: &Path| {
        let list = ops![RandomCrop::new(30).unwrap()];
        rows(path, |builder| {
            builder.pipeline("image", list).read_mode("image", fuseloop::ImageReadMode::Gray)
        })
    };
    assert!(gray(&planes) == gray(&jpegs), "gray");
    let held = |path: &Path| {
        rows(path, |builder| {
            builder.in_memory(true).pipeline("image", ops![CenterCrop::new(20).unwrap()])
        })
    };
    assert!(held(&planes) == held(&jpegs), "held in memory");

    dataset::copy(&planes, &again, &WriteOptions::default()).unwrap();
    assert!(fs::read(&again).unwrap() == fs::read(&jpegs).unwrap(), "the file is not what it was");
}

/// Advice on decoding is for what was decoded: re-cutting helps plain JPEGs alone.
#[test]
fn advice_follows_the_stored_form() {
    use fuseloop::loader::Phase;
    let (dir, jpegs) = dataset::write(SAMPLES, WriteMode::Jpg, dataset::varied);
    let stored = |name: &str, image: ImageOptions| {
        let path = dir.path().join(name);
        dataset::recut(&jpegs, &path, &WriteOptions { image, ..WriteOptions::default() }).unwrap();
        path
    };
    let tile = Some(fuseloop::recut::Tile::default());
    let tiled = stored("tiled.beton", ImageOptions { tile, ..ImageOptions::default() });
    let planes = ImageOptions { bit_planes: true, ..ImageOptions::default() };
    let planes = stored("planes.beton", planes);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for name in ["png/rgb8.png", "jpeg/420.jpg"] {
        let (kind, _) = name.split_once('/').unwrap();
        let folder = dir.path().join(kind).join("a");
        fs::create_dir_all(&folder).unwrap();
        fs::copy(golden.join(name), folder.join(Path::new(name).file_name().unwrap())).unwrap();
    }
    for (path, words) in [
        (dir.path().join("jpeg"), "`fuseloop recut`"),
        (tiled, "`--write-mode planes`"),
        (planes, "which decode fastest"),
        (dir.path().join("png"), "--write-mode tiled --jpeg-quality 90"),
    ] {
        let builder = Loader::open(&path).unwrap().batch_size(1);
        let cut = ops![CenterCrop::new(8).unwrap()];
        let loader = builder.pipeline("image", cut).build().unwrap();
        loader.epoch(0).unwrap().for_each(|batch| drop(batch.unwrap()));
        let advice = loader.stats().remedy(Phase::Decode);
        assert!(advice.contains(words), "{path:?}: {advice}");
        assert_eq!(advice.contains("`fuseloop recut`"), words.contains("recut"), "{advice}");
    }
}
