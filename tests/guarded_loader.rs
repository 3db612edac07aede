//! Images whose size differs from the sample table, loaded where every allocation ends at a page without
//! access: the result is an error that names the sample, never a write past its row.

#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]
#![cfg(all(target_os = "linux", target_env = "gnu"))]

#[path = "common/guarded_maps.rs"]
mod guarded_maps;
#[path = "common/jpegs.rs"]
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each binary uses its own part")]
mod jpegs;

use fuseloop::internals::source::beton::{Cell, ImageCell, RowLayout};
use fuseloop::ops::{CenterCrop, Ops, RandomHorizontalFlip, RandomResizedCrop, ops};
use fuseloop::source::{Beton, FieldKind, FieldSpec, OpenOptions};
use fuseloop::write::{FieldValue, ImageInput, WriteOptions, write_iter};
use fuseloop::{Loader, OnDamaged, SampleId};
use fuseloop_ops::{Size, ToChannelsFirst};
use jpegs::{Colour, drawn, progressive, with_index, with_markers};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The size in the sample table: a batch of 64 x 64 pixels fills whole pages, and ends at a guard.
const SIZE: Size = Size::new(64, 64);
const BATCH: usize = 4;

/// JPEGs of one size, one for each decoding path.
fn kinds(size: Size) -> Vec<Vec<u8>> {
    let colour = drawn(size, Colour::ALL[3]);
    let plain = [0, 1, 3, 5].map(|colour| drawn(size, Colour::ALL[colour]));
    let others =
        [progressive(&colour), with_markers(&colour, 2), with_index(&with_markers(&colour, 2))];
    plain.into_iter().chain(others).collect()
}

/// A dataset whose sample table gives every image one size, whatever its actual size is.
fn dataset(pictures: &[Vec<u8>]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sizes.beton");
    let fields = [FieldSpec { name: "image".into(), kind: FieldKind::RgbImage }];
    let rows = pictures.iter().cloned();
    let rows = rows.map(|jpeg| vec![FieldValue::Image(ImageInput::JpegBytes(jpeg))]);
    write_iter(rows, &fields, &path, &WriteOptions::default()).unwrap();
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    let layout = RowLayout::new([&FieldKind::RgbImage]).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    for sample in beton.samples() {
        let row = beton.header().sample_table_start() + sample.0 * layout.size() as u64;
        let row = &mut bytes[row as usize..][..layout.size()];
        let cell = Cell::parse(&FieldKind::RgbImage, layout.cell(row, 0).unwrap()).unwrap();
        let Cell::Image(cell) = cell else { panic!() };
        let (width, height) = (SIZE.width as u16, SIZE.height as u16);
        let cell = Cell::Image(ImageCell { width, height, ..cell });
        cell.put(layout.cell_mut(row, 0).unwrap());
    }
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

const PIPELINES: [fn() -> Ops; 4] = [
    || ops![],
    || ops![RandomHorizontalFlip::new(0.5).unwrap(), ToChannelsFirst],
    || ops![CenterCrop::new(64).unwrap()],
    || {
        ops![
            RandomResizedCrop::new(64)
                .unwrap()
                .scale(0.1..=1.0)
                .unwrap()
                .ratio(0.75..=1.33)
                .unwrap(),
            ToChannelsFirst
        ]
    },
];

fn loader(path: &Path, pipeline: fn() -> Ops) -> Loader {
    let builder = Loader::open(path).unwrap().batch_size(BATCH).workers(2).drop_last(false);
    let builder = builder.on_damaged(OnDamaged::Skip).pipeline("image", pipeline());
    builder.build().unwrap()
}

#[test]
fn a_picture_of_another_size_than_the_table_s_is_an_error_and_stays_in_its_row() {
    let good = drawn(SIZE, Colour::ALL[3]);
    let (side, big) = (SIZE.height, 4 * SIZE.height);
    let sizes = [
        [side + 1, side],
        [side, side + 1],
        [side + 8, side + 8],
        [side - 1, side],
        [side, side - 1],
        [big, big],
        [1, 1],
        [2 * side, side / 2],
        [side / 2, 2 * side],
    ];
    let bad = sizes.into_iter().flat_map(|[height, width]| kinds(Size::new(height, width)));
    // Each image is in the first row of a batch or in the last, which ends at the guard.
    let mut pictures = vec![];
    for (index, bad) in bad.enumerate() {
        let mut batch = vec![good.clone(); BATCH];
        batch[if index % 2 == 0 { BATCH - 1 } else { 0 }] = bad;
        pictures.extend(batch);
    }
    let (_dir, path) = dataset(&pictures);
    let (_dir, clean) = dataset(&vec![good; pictures.len()]);
    for pipeline in PIPELINES {
        let loader = loader(&path, pipeline);
        let clean = self::loader(&clean, pipeline);
        for (batch, clean) in loader.epoch(0).unwrap().zip(clean.epoch(0).unwrap()) {
            let (batch, clean) = (batch.unwrap(), clean.unwrap());
            assert_eq!((batch.len(), batch.skipped().len()), (BATCH - 1, 1));
            let (found, want) = (batch.bytes("image").unwrap(), clean.bytes("image").unwrap());
            let row = want.len() / BATCH;
            assert_eq!(row, SIZE.pixels() as usize * 3);
            // The remaining rows are what they would be without the damage.
            let left = batch.ids().iter().map(|id| id.0 as usize % BATCH);
            for (index, sample) in left.enumerate() {
                let same = found[index * row..][..row] == want[sample * row..][..row];
                assert!(same, "row {index}, {:?}", batch.ids());
            }
        }
        let quarantine = loader.quarantine();
        assert_eq!(quarantine.rows, (pictures.len() / BATCH) as u64);
    }
    let fails = Loader::open(&path).unwrap().batch_size(BATCH).build().unwrap();
    let error = fails.epoch(0).unwrap().next().unwrap().unwrap_err();
    let message = error.to_string();
    assert!(message.contains("64") && message.contains("65"), "both sizes are told: {message}");
}

#[test]
fn raw_pictures_of_another_length_than_the_table_s_are_errors() {
    let pictures = vec![drawn(SIZE, Colour::ALL[3]); 2 * BATCH];
    let (_dir, path) = dataset(&pictures);
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    let at = beton.header().sample_table_start() as usize;
    let mut bytes = std::fs::read(&path).unwrap();
    // The sample table declares the first sample's image as raw.
    assert_eq!(std::mem::replace(&mut bytes[at], 1), 0);
    std::fs::write(&path, bytes).unwrap();
    let loader = loader(&path, PIPELINES[0]);
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.skipped()[0].sample, SampleId(0));
}

/// A test of the guards themselves: a child that reads past the end of a batch or an allocation is killed.
#[test]
fn the_byte_behind_a_batch_can_not_be_read() {
    const BEHIND: &str = "FUSELOOP_READ_BEHIND";
    let (_dir, path) = dataset(&vec![drawn(SIZE, Colour::ALL[3]); BATCH]);
    if let Ok(what) = std::env::var(BEHIND) {
        let loader = loader(&path, PIPELINES[0]);
        let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
        let memory = vec![1; 3000];
        let bytes = if what == "batch" { batch.bytes("image").unwrap() } else { &memory[..] };
        println!("{}", guarded_maps::read_behind(bytes));
        return;
    }
    for what in ["batch", "allocation"] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_byte_behind_a_batch_can_not_be_read"])
            .env(BEHIND, what)
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(libc::SIGSEGV), "{what}: {child:?}");
    }
}
