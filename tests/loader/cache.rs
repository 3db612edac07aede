//! The cache's promises: a loader with a cache gives the batches of a loader without one, bit for bit;
//! nothing that is cached is decoded or read twice; the cache never exceeds its budget by a byte; and
//! its file needs no cleaning up. `FUSELOOP_CACHE_EPOCHS=200` watches memory for longer.

use crate::common::dataset::{self, picture, varied};
use crate::common::jpegs::oriented;
use fuseloop::loader::{Cache, CacheStats};
use fuseloop::source::{Facts, FieldKind, InMemory, OwnedImage, OwnedValue};
use fuseloop::write::WriteMode;
use fuseloop::{Loader, LoaderBuilder, Order, ops::*};
use fuseloop_counts::rounds;
use jpeg_encoder::{ColorType, Encoder};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs};

const SAMPLES: u64 = 40;
const EPOCHS: u32 = 3;

/// A budget that fits every sample of these tests.
const ENOUGH: u64 = 64 << 20;

/// A budget that fits some of the samples.
const SMALL: u64 = 300 << 10;

fn crop(side: u32) -> Ops {
    ops![
        RandomResizedCrop::new(side).unwrap().scale(0.1..=1.0).unwrap().ratio(0.75..=1.33).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
    ]
}

/// Configures two outputs of each image, in a random order.
fn set_up(builder: LoaderBuilder) -> LoaderBuilder {
    builder
        .batch_size(7)
        .seed(5)
        .order(Order::Random)
        .drop_last(false)
        .pipeline("image", crop(32))
        .view("other", "image", crop(20))
}

fn beton(path: &Path) -> LoaderBuilder {
    set_up(Loader::open(path).unwrap())
}

/// All bytes of an epoch.
fn epoch(loader: &Loader, epoch: u32) -> Vec<u8> {
    let mut all = vec![];
    for batch in loader.epoch(epoch).unwrap() {
        let batch = batch.unwrap();
        for tensor in loader.tensors() {
            all.extend_from_slice(batch.bytes(&tensor.name).unwrap());
        }
    }
    all
}

fn epochs(loader: &Loader) -> Vec<Vec<u8>> {
    (0..EPOCHS).map(|number| epoch(loader, number)).collect()
}

fn stats(loader: &Loader) -> CacheStats {
    loader.cache_stats().unwrap()
}

/// A cache in memory and one on disk.
fn caches(folder: &Path, budget: u64) -> [Cache; 2] {
    [Cache::memory(budget), Cache::disk(folder, budget)]
}

/// Asserts that the batches of a loader with any cache are those of a loader without one. `check` gets
/// the loader and the statistics of each cache that fits all samples.
fn assert_same_batches(open: impl Fn() -> LoaderBuilder, check: impl Fn(&Loader, &CacheStats)) {
    let folder = tempfile::tempdir().unwrap();
    let plain = open().build().unwrap();
    let expected = epochs(&plain);
    assert_eq!(plain.cache_stats(), None);
    for workers in [1, 2, 8] {
        for budget in [0, SMALL, ENOUGH] {
            for cache in caches(folder.path(), budget) {
                let what = format!("{cache:?}, {workers} workers");
                let loader = open().workers(workers).cache(cache).build().unwrap();
                assert!(epochs(&loader) == expected, "{what}");
                let stats = stats(&loader);
                assert!(stats.bytes <= budget && stats.budget == budget, "{what}: {stats:?}");
                assert_eq!((stats.failures, &stats.trouble), (0, &None), "{what}");
                assert_eq!(stats.hits + stats.misses, plain.samples() * u64::from(EPOCHS));
                if budget == 0 {
                    assert_eq!((stats.hits, stats.stored), (0, 0), "{what}");
                }
                if budget == ENOUGH {
                    check(&loader, &stats);
                }
            }
        }
    }
}

#[test]
fn jpegs_are_decoded_once_and_the_batches_stay_the_same() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Jpg, varied);
    assert_same_batches(
        || beton(&path),
        |loader, stats| {
            assert_eq!(loader.decoded(), SAMPLES);
            assert_eq!((stats.misses, stats.stored, stats.refused), (SAMPLES, SAMPLES, 0));
            let pixels: u64 = (0..SAMPLES).map(|sample| varied(sample).pixels() * 3).sum();
            assert!(stats.bytes > pixels && stats.bytes < pixels + SAMPLES * 400, "{stats:?}");
        },
    );
}

#[test]
fn raw_pictures_of_a_file_are_not_kept() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Raw, varied);
    assert_same_batches(
        || beton(&path),
        |_, stats| assert_eq!((stats.hits, stats.stored, stats.bytes), (0, 0, 0)),
    );
}

#[test]
fn a_full_cache_keeps_what_it_has() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Jpg, varied);
    let loader = beton(&path).cache(Cache::memory(SMALL)).workers(2).build().unwrap();
    epoch(&loader, 0);
    let first = stats(&loader);
    assert!(first.stored > 5 && first.stored < SAMPLES && first.hits == 0, "{first:?}");
    assert_eq!(first.refused, SAMPLES - first.stored);
    epoch(&loader, 1);
    let second = stats(&loader);
    assert_eq!((second.stored, second.bytes), (first.stored, first.bytes));
    assert_eq!(second.hits, first.stored);
    assert_eq!(loader.decoded(), 2 * SAMPLES - second.hits);
}

/// Returns records in memory, with a count of how often they are read.
fn records(pictures: impl Iterator<Item = OwnedImage>) -> (InMemory, Arc<AtomicU64>) {
    let fields = [
        ("label", FieldKind::Int),
        ("image", FieldKind::RgbImage),
        ("text", FieldKind::Bytes),
        ("weight", FieldKind::Float),
    ];
    let records = (0..).zip(pictures).map(|(sample, image)| {
        vec![
            OwnedValue::Int(sample * 3),
            OwnedValue::Image(image),
            OwnedValue::Bytes(vec![sample as u8; sample as usize % 9]),
            OwnedValue::Float(sample as f64 / 8.0),
        ]
    });
    let (records, reads) = (records.collect::<Vec<_>>(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&reads);
    let facts = Facts::new(fields, records.len() as u64).with_longest(|_| Some(8));
    let source = InMemory::from_fn(facts, move |sample| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(records[sample.0 as usize].clone())
    });
    (source, reads)
}

fn encoded(sample: u64) -> Vec<u8> {
    let (size, mut jpeg) = (varied(sample), vec![]);
    let encoder = Encoder::new(&mut jpeg, 90);
    let (width, height) = (size.width as u16, size.height as u16);
    encoder.encode(&picture(sample, size), width, height, ColorType::Rgb).unwrap();
    jpeg
}

/// JPEGs and raw images in turn.
fn mixed(sample: u64) -> OwnedImage {
    let size = varied(sample);
    match sample % 2 {
        0 => OwnedImage::jpeg(encoded(sample)),
        _ => OwnedImage::rgb(size, picture(sample, size)),
    }
}

#[test]
fn records_of_a_users_source_are_read_once() {
    assert_same_batches(
        || set_up(Loader::from_source(records((0..SAMPLES).map(mixed)).0)),
        |loader, stats| {
            assert_eq!((loader.decoded(), stats.stored), (SAMPLES, SAMPLES));
        },
    );
    let (source, reads) = records((0..SAMPLES).map(mixed));
    let loader = set_up(Loader::from_source(source)).cache(Cache::memory(ENOUGH)).build().unwrap();
    for _ in 0..2 {
        epochs(&loader);
        assert_eq!(reads.load(Ordering::Relaxed), SAMPLES);
    }
}

#[test]
fn turned_pictures_are_kept_upright() {
    let turned = |sample: u64| OwnedImage::jpeg(oriented(&encoded(sample), (sample % 9) as u8));
    let open = |turn| {
        let source = records((0..SAMPLES).map(turned)).0;
        set_up(Loader::from_source(source)).exif_orientation(turn)
    };
    assert_same_batches(|| open(true), |loader, _| assert_eq!(loader.decoded(), SAMPLES));
    let upright = epochs(&open(true).cache(Cache::memory(ENOUGH)).build().unwrap());
    assert!(upright != epochs(&open(false).cache(Cache::memory(ENOUGH)).build().unwrap()));
}

/// An image whose last rows are damaged counts as whole for a loader that decodes other rows only.
#[test]
fn a_picture_damaged_where_nobody_looks_is_used_and_not_kept() {
    let spoilt = |sample: u64| {
        let mut jpeg = encoded(sample);
        if sample.is_multiple_of(4) {
            // A run of one bits, which is no Huffman code, fills the scan up to the two bytes that end
            // the file.
            let scan = jpeg.len() - 2;
            jpeg[scan / 8 * 7..scan]
                .chunks_exact_mut(2)
                .for_each(|pair| pair.copy_from_slice(&[0xFF, 0]));
        }
        OwnedImage::jpeg(jpeg)
    };
    let open = || {
        Loader::from_source(records((0..SAMPLES).map(spoilt)).0)
            .batch_size(8)
            .pipeline("image", ops![CenterCrop::new(8).unwrap()])
    };
    let expected = epochs(&open().build().unwrap());
    let folder = tempfile::tempdir().unwrap();
    for cache in caches(folder.path(), ENOUGH) {
        let loader = open().cache(cache).build().unwrap();
        assert!(epochs(&loader) == expected);
        let stats = stats(&loader);
        assert_eq!(
            (stats.stored, stats.misses),
            (SAMPLES * 3 / 4, SAMPLES * 3 / 4 + SAMPLES / 4 * 3)
        );
    }
}

#[test]
fn a_damaged_picture_is_the_same_error_and_takes_no_room() {
    let damaged = |sample: u64| match sample {
        13 => OwnedImage::jpeg(vec![0xFF, 0xD8, 0xFF]),
        _ => mixed(sample),
    };
    let open = || {
        let source = records((0..SAMPLES).map(damaged)).0;
        set_up(Loader::from_source(source)).order(Order::Sequential).workers(1)
    };
    let error = |loader: &Loader| {
        let mut batches = loader.epoch(0).unwrap();
        batches.find_map(Result::err).unwrap().to_string()
    };
    let expected = error(&open().build().unwrap());
    let cached = open().cache(Cache::memory(ENOUGH)).build().unwrap();
    for _ in 0..2 {
        assert_eq!(error(&cached), expected);
    }
    let pixels: u64 = (0..13).map(|sample| varied(sample).pixels() * 3).sum();
    let stats = stats(&cached);
    assert!(stats.stored >= 13, "{stats:?}");
    if stats.stored == 13 {
        assert!(stats.bytes < pixels + 13 * 800, "{stats:?}");
    }
}

#[test]
fn a_sample_that_comes_often_is_kept_once() {
    let (_dir, path) = dataset::write(4, WriteMode::Jpg, varied);
    let often = || beton(&path).indices((0..200).map(|index| index / 50));
    let expected = epochs(&often().build().unwrap());
    let folder = tempfile::tempdir().unwrap();
    for cache in caches(folder.path(), ENOUGH) {
        let loader = often().workers(8).cache(cache).build().unwrap();
        assert!(epochs(&loader) == expected);
        let stats = stats(&loader);
        assert_eq!((stats.stored, stats.refused), (4, 0), "{stats:?}");
        assert!(stats.hits >= 400, "{stats:?}");
    }
}

#[test]
fn runs_that_overlap_share_the_cache() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Jpg, varied);
    let loader = beton(&path).workers(2).cache(Cache::memory(ENOUGH)).build().unwrap();
    let expected = beton(&path).build().unwrap();
    let (first, second) = (loader.epoch(0).unwrap(), loader.epoch(1).unwrap());
    let bytes = |batches: fuseloop::Batches| {
        let images = batches.map(|batch| batch.unwrap().bytes("image").unwrap().to_vec());
        images.collect::<Vec<_>>().concat()
    };
    assert!(bytes(second) == bytes(expected.epoch(1).unwrap()));
    assert!(bytes(first) == bytes(expected.epoch(0).unwrap()));
    assert_eq!(stats(&loader).stored, SAMPLES);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let (dir, path) = dataset::write(2, WriteMode::Raw, varied);
    let message = |folder: PathBuf| {
        let built = beton(&path).cache(Cache::disk(folder, ENOUGH)).build();
        built.err().unwrap().to_string()
    };
    let missing = message(dir.path().join("none"));
    assert!(missing.contains("none: ") && missing.starts_with("no cache in "), "{missing}");
    assert!(message(path.clone()).ends_with("pictures.beton: not a folder"));
}

/// The files that this process has open in `folder`, on systems that show them.
fn open_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return vec![] };
    let open = open.map(|entry| entry.unwrap().path());
    open.filter(|fd| fs::read_link(fd).is_ok_and(|file| file.starts_with(folder))).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_cut_while_in_use_changes_no_pixel() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Jpg, varied);
    let expected = epochs(&beton(&path).build().unwrap());
    let folder = tempfile::tempdir().unwrap();
    for workers in [1, 8] {
        let cache = Cache::disk(folder.path(), ENOUGH);
        let loader = beton(&path).workers(workers).cache(cache).build().unwrap();
        assert!(epoch(&loader, 0) == expected[0]);
        let file = fs::File::options().write(true).open(&open_files(folder.path())[0]).unwrap();
        file.set_len(SMALL).unwrap();
        assert!(epoch(&loader, 1) == expected[1] && epoch(&loader, 2) == expected[2]);
        let stats = stats(&loader);
        assert!(stats.failures > 0 && stats.hits < SAMPLES, "{stats:?}");
        assert!(stats.trouble.unwrap().starts_with("reading "));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_spoilt_while_in_use_changes_no_pixel() {
    use std::os::unix::fs::FileExt as _;
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Jpg, varied);
    let expected = epochs(&beton(&path).build().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::disk(folder.path(), ENOUGH);
    let loader = beton(&path).workers(2).cache(cache).build().unwrap();
    epoch(&loader, 0);
    let file = fs::File::options().write(true).open(&open_files(folder.path())[0]).unwrap();
    file.write_all_at(&[0xAA; 64], SMALL).unwrap();
    assert!(epoch(&loader, 1) == expected[1] && epoch(&loader, 2) == expected[2]);
    assert!(stats(&loader).trouble.unwrap().ends_with("not what was written"));
}

#[test]
fn loaders_share_a_folder_and_leave_nothing_in_it() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Jpg, varied);
    let expected = epochs(&beton(&path).build().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let open = || beton(&path).cache(Cache::disk(folder.path(), ENOUGH)).build().unwrap();
    let (one, two) = (open(), open());
    for (number, expected) in (0..).zip(&expected) {
        assert!(epoch(&one, number) == *expected && epoch(&two, number) == *expected);
    }
    for loader in [&one, &two] {
        assert_eq!((stats(loader).stored, stats(loader).failures), (SAMPLES, 0));
    }
    if cfg!(unix) {
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the files have no names");
    }
    if cfg!(target_os = "linux") {
        assert_eq!(open_files(folder.path()).len(), 2);
    }
    drop(one);
    assert!(epoch(&two, 0) == expected[0]);
    drop(two);
    assert!(open_files(folder.path()).is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// An allowance for a loader's workers, code and batches, in bytes.
const SLACK: u64 = 6 << 20;

fn run(loader: &Loader, epoch: u32) {
    loader.epoch(epoch).unwrap().for_each(|batch| drop(batch.unwrap()));
}

/// The environment variable that names the dataset to the child whose memory is measured.
const CHILD: &str = "FUSELOOP_CACHE_CHILD";

/// Not a test of its own: the child process whose memory is measured. It fills a cache in memory,
/// compares the growth of the process with the cache's statistics, and then runs for many more epochs.
#[test]
fn child_fills_a_cache() {
    let Some(path) = env::var_os(CHILD).map(PathBuf::from) else { return };
    let more = rounds("FUSELOOP_CACHE_EPOCHS");
    let open = |budget| beton(&path).workers(2).cache(Cache::memory(budget)).build().unwrap();
    let warm_up = open(0);
    run(&warm_up, 0);
    for budget in [4 << 20, 24 << 20] {
        let before = resident();
        let loader = open(budget);
        run(&loader, 0);
        let (grown, stats) = (resident() - before.min(resident()), stats(&loader));
        println!("{grown} bytes more, {} of {budget} by the cache", stats.bytes);
        assert!(stats.bytes > budget * 3 / 4 && stats.bytes <= budget, "{stats:?}");
        assert!(grown <= stats.bytes + SLACK, "{grown} bytes more: {stats:?}");
        let (full, bytes) = (resident(), stats.bytes);
        (1..=more).for_each(|number| run(&loader, number));
        assert!(resident() < full + (2 << 20), "{more} epochs: {} more", resident() - full);
        assert_eq!(self::stats(&loader).bytes, bytes);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn memory_is_what_the_cache_says_and_stays_so() {
    let size = |sample: u64| Size::new(40 + (sample % 30) as u32, 50 + (sample % 7) as u32);
    let (_dir, path) = dataset::write(3000, WriteMode::Jpg, size);
    let child = std::process::Command::new(env::current_exe().unwrap())
        .args(["--exact", "cache::child_fills_a_cache", "--nocapture"])
        .env(CHILD, &path)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}\n{}", String::from_utf8_lossy(&child.stderr));
    assert!(output.contains("by the cache"), "{output}");
}
