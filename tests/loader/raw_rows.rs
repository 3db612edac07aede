//! Of large raw images, only the rows that a sample needs are read.

use crate::common::counted::{Counted, Reads};
use crate::common::dataset;
use fuseloop::prelude::*;
use fuseloop::source::{Beton, OpenOptions};
use fuseloop::write::WriteMode;
use std::sync::Arc;

#[test]
fn rows_outside_of_a_crop_are_not_read() {
    let size = Size::new(200, 130);
    let (_dir, path) = dataset::write(6, WriteMode::Raw, |_| size);
    let list = || ops![RandomCrop::new(50).unwrap(), RandomVerticalFlip::new(0.5).unwrap()];
    let epoch = |builder: LoaderBuilder| {
        let builder = builder.batch_size(6).in_memory(false).pipeline("image", list());
        let loader = builder.build().unwrap();
        let batch = loader.epoch(3).unwrap().next().unwrap().unwrap();
        batch.bytes("image").unwrap().to_vec()
    };
    let reads = Arc::new(Reads::default());
    let source = Arc::new(Beton::open(&path, &OpenOptions::default()).unwrap());
    let counted = Counted::new(source, true, &reads);
    let found = epoch(Loader::from_source(counted));
    let [whole, _, bytes] = reads.counts();
    assert_eq!((whole, bytes), (0, 6 * 50 * 130 * 3));

    let whole = |builder: LoaderBuilder| builder.in_memory(true);
    let held = whole(Loader::open(&path).unwrap()).batch_size(6).pipeline("image", list());
    let held = held.build().unwrap();
    let batch = held.epoch(3).unwrap().next().unwrap().unwrap();
    assert!(found == batch.bytes("image").unwrap(), "rows of a crop");
}

#[test]
fn an_image_that_ends_early_is_an_error() {
    let (_dir, path) = dataset::write(6, WriteMode::Raw, |_| Size::new(200, 130));
    let crop = ops![RandomCrop::new(190).unwrap()];
    let builder = Loader::open(&path).unwrap().in_memory(false).pipeline("image", crop);
    let loader = builder.batch_size(6).build().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("sample") && error.contains("pictures.beton"), "{error}");
}
