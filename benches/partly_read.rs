//! Large re-cut photographs and bit planes in a `.beton` file, of which windows are read, against whole reads.
//!
//! A row reads `<size> <stored as> <KB of a record> <list> <where the file is>  ms an image whole, parts  <- parts over
//! whole  share of the bytes`. The yardstick is the same file behind a source that knows no parts; the two take turns,
//! epoch by epoch, so that both see every window. `cached` is a file in the system's cache. For `disk` (on Linux) the
//! system drops the file from its cache before each epoch. The photographs are the largest of `data/imagenet` of the
//! folder `FUSELOOP_SHARED` or `../shared`, enlarged: they have fewer bits a pixel than those of a camera.
//!
//! `-- 12` runs the sets whose names contain 12; `-- nothing` runs each once, with one photograph.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod common;
#[path = "../tests/common/counted.rs"]
#[allow(dead_code, unreachable_pub, reason = "tests use all of it, from another module")]
mod counted;

use common::median;
use common::photographs::{enlarged, largest};
use counted::{Counted, Reads};
use fuseloop::prelude::*;
use fuseloop::recut::Tile;
use fuseloop::sample::SampleId;
use fuseloop::source::{Beton, FieldKind, FieldSpec, OpenOptions, Source};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteOptions, write_iter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The number of pixels of the images of each set.
const SETS: [(&str, f64); 5] = [
    ("500 px", 0.19e6),
    ("1024 px", 0.8e6),
    ("2048 px", 3.1e6),
    ("12 Mpixel", 12.0e6),
    ("48 Mpixel", 48.0e6),
];

fn main() {
    let is_full = std::env::args().any(|arg| arg == "--bench")
        && !std::env::args().any(|arg| arg == "nothing" || arg == "--test");
    let (count, epochs, sets) = if is_full { (16, 9, SETS.len()) } else { (1, 1, 1) };
    let paths = largest(count);
    let wanted = std::env::args().nth(1).filter(|name| !name.starts_with('-'));
    for (name, pixels) in SETS.into_iter().take(sets) {
        if wanted.as_ref().is_some_and(|wanted| is_full && !name.contains(wanted)) {
            continue;
        }
        let jpegs: Vec<Vec<u8>> = paths.iter().filter_map(|path| enlarged(path, pixels)).collect();
        for (stored, bit_planes) in [("re-cut", false), ("bit planes", true)] {
            let dir = tempfile::tempdir().unwrap();
            let path = write(&dir.path().join("large.beton"), &jpegs, bit_planes);
            let file = Beton::open(&path, &OpenOptions::default()).unwrap();
            let extents = (0..jpegs.len())
                .map(|n| file.stored().unwrap().image_extent(SampleId(n as u64), 0).unwrap());
            let kilobytes =
                extents.map(|extent| extent.bytes).sum::<u64>() / jpegs.len() as u64 / 1000;
            for (title, list) in [
                ("RandomResizedCrop", ops![RandomResizedCrop::new(224).unwrap()]),
                ("RandomCrop", ops![RandomCrop::new(224).unwrap()]),
            ] {
                for is_cold in [false, true] {
                    let [whole, parts, ratio, share] =
                        in_turn(&path, &list, jpegs.len(), epochs, is_cold);
                    let at = if is_cold { "disk" } else { "cached" };
                    println!(
                        "{name:<10} {stored:<11} {kilobytes:>6} KB {title:<18} {at:<7} {whole:7.3} ms whole \
                         {parts:7.3} ms parts  <- {ratio:.3}x  {share:.2} of the bytes"
                    );
                }
            }
        }
    }
}

/// Returns milliseconds an image whole and in parts, the median of their ratios, and the share of the bytes.
fn in_turn(path: &Path, list: &Ops, images: usize, epochs: u32, is_cold: bool) -> [f64; 4] {
    let reads = [(); 2].map(|()| Arc::new(Reads::default()));
    let loaders = [false, true].map(|in_parts| {
        let source = Arc::new(Beton::open(path, &OpenOptions::default()).unwrap());
        let source = Counted::new(source, in_parts, &reads[usize::from(in_parts)]);
        let loader = Loader::from_source(source).batch_size(1).workers(1).batches_ahead(1);
        let loader = loader.order(Order::Random).in_memory(false);
        loader.pipeline("image", list.clone()).build().unwrap()
    });
    let mut times = [vec![], vec![]];
    for epoch in 0..=epochs {
        let mut rows = [vec![], vec![]];
        for way in 0..2 {
            if is_cold {
                drop_from_cache(path);
            }
            let begun = Instant::now();
            for batch in loaders[way].epoch(epoch).unwrap() {
                rows[way].extend_from_slice(batch.unwrap().bytes("image").unwrap());
            }
            times[way].push(begun.elapsed().as_secs_f64());
        }
        assert!(rows[0] == rows[1], "rows differ");
    }
    // The first epoch compiles.
    let ratio = median(times[1][1..].iter().zip(&times[0][1..]).map(|(a, b)| a / b));
    let bytes = reads.map(|reads| reads.bytes());
    let [whole, parts] =
        times.map(|times| 1e3 * median(times[1..].iter().copied()) / images as f64);
    [whole, parts, ratio, bytes[1] as f64 / bytes[0] as f64]
}

/// Writes images.
fn write(path: &Path, jpegs: &[Vec<u8>], bit_planes: bool) -> PathBuf {
    let fields = [FieldSpec { name: "image".to_owned(), kind: FieldKind::RgbImage }];
    let image = ImageOptions { tile: Some(Tile::Pixels(32)), bit_planes, ..Default::default() };
    let rows =
        jpegs.iter().map(|jpeg| vec![FieldValue::Image(ImageInput::JpegBytes(jpeg.clone()))]);
    let options = WriteOptions { image, ..WriteOptions::default() };
    write_iter(rows.collect::<Vec<_>>(), &fields, path, &options).unwrap();
    path.to_owned()
}

/// Drops a file from the system's cache.
fn drop_from_cache(path: &Path) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Advice, fadvise};
        let file = std::fs::File::open(path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
    #[cfg(not(target_os = "linux"))]
    let _ = path;
}
