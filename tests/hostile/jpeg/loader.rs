//! A loader configured to skip damaged samples skips and counts exactly those that can't be decoded.

use super::whole;
use crate::common::jpegs::*;
use fuseloop::internals::decode::Decoder;
use fuseloop::ops::{Resize, ops};
use fuseloop::source::{Beton, FieldKind, FieldSpec, OpenOptions, OwnedValue};
use fuseloop::write::{FieldValue, ImageInput, WriteOptions, write_iter};
use fuseloop::{Loader, OnDamaged, Order};
use fuseloop_ops::Size;
use std::path::{Path, PathBuf};

const SAMPLES: usize = 40;

/// Images of all kinds that the writer accepts, every other one with tiles and an index.
fn dataset() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.beton");
    let fields = [FieldSpec { name: "image".into(), kind: FieldKind::RgbImage }];
    let rows = (0..SAMPLES).map(|sample| {
        let size = Size::new(40 + sample as u32, 90 - sample as u32);
        let jpeg = drawn(size, Colour::ALL[sample % 9]);
        let jpeg = if sample % 2 == 0 { with_index(&with_markers(&jpeg, 2)) } else { jpeg };
        vec![FieldValue::Image(ImageInput::JpegBytes(jpeg))]
    });
    write_iter(rows, &fields, &path, &WriteOptions::default()).unwrap();
    (dir, path)
}

/// Methods of damaging a stored image.
const WAYS: [fn(&mut [u8]); 6] = [
    |jpeg| jpeg[0] = 0,
    |jpeg| {
        let half = jpeg.len() / 2;
        jpeg[half..].fill(0);
    },
    // One row more than the sample table says.
    |jpeg| jpeg[frame(jpeg) + 6] += 1,
    |jpeg| {
        let scan = jpeg.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
        jpeg[scan + 20..scan + 60].fill(0x5a);
    },
    // One restart marker less, in a file that has them.
    |jpeg| {
        if let Some(at) = jpeg.windows(2).rposition(|pair| pair == [0xff, 0xd1]) {
            jpeg[at + 1] = 0;
        }
    },
    // The file's last byte: the end of the index's mark, or of the end marker if there is no index.
    |jpeg| *jpeg.last_mut().unwrap() ^= 0x10,
];

fn frame(jpeg: &[u8]) -> usize {
    jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap()
}

/// Damages two samples of three, by methods in turn.
fn damage(path: &Path) {
    let beton = Beton::open(path, &OpenOptions::default()).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    for stored in beton.allocations().unwrap() {
        let sample = stored.sample as usize;
        if !sample.is_multiple_of(3) {
            let jpeg = &mut bytes[stored.ptr as usize..][..stored.size as usize];
            WAYS[sample % WAYS.len()](jpeg);
        }
    }
    std::fs::write(path, bytes).unwrap();
}

/// The samples that can't be decoded, or are not of the size in the sample table.
fn refused(path: &Path) -> Vec<u64> {
    let beton = Beton::open(path, &OpenOptions::default()).unwrap();
    let is_bad = |sample: &_| {
        let OwnedValue::Image(image) = beton.owned(*sample, 0).unwrap() else { panic!() };
        let mut decoder = Decoder::default();
        let size = decoder.size(&unmeasured(&image.bytes));
        size.is_ok_and(|size| size != Size::new(image.height, image.width))
            || whole(&mut decoder, &image.bytes).is_err()
    };
    beton.samples().filter(is_bad).map(|sample| sample.0).collect()
}

#[test]
fn damaged_samples_are_skipped_and_counted() {
    let (_dir, path) = dataset();
    assert!(refused(&path).is_empty(), "all are good before");
    damage(&path);
    let bad = refused(&path);
    println!("refused: {bad:?}");
    assert!((10..SAMPLES * 2 / 3).contains(&bad.len()), "some can be decoded all the same");
    for workers in [1, 3] {
        let loader = Loader::open(&path)
            .unwrap()
            .order(Order::Sequential)
            .batch_size(7)
            .drop_last(false)
            .workers(workers)
            .on_damaged(OnDamaged::Skip)
            .pipeline("image", ops![Resize::new((16, 16)).unwrap()])
            .build()
            .unwrap();
        let rows: usize = loader.epoch(0).unwrap().map(|batch| batch.unwrap().len()).sum();
        assert_eq!(rows, SAMPLES - bad.len());
        let quarantine = loader.quarantine();
        let listed: Vec<u64> = quarantine.samples.iter().map(|bad| bad.sample.0).collect();
        assert_eq!((listed, quarantine.rows), (bad.clone(), bad.len() as u64));
    }
}
