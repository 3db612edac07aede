//! The loader's own cost: samples that need no work, a resume, the tables of a large dataset.
//!
//! | what | aim |
//! |---|---|
//! | `overhead`: raw 32x32 images copied to batches of 512, 2 workers | > 1 M samples/s |
//! | the same images flipped, translated, cut out and normalized to f32 | > 1.5 M samples/s |
//! | `resume`: resuming an epoch of 1.28 M samples at any position | < 10 ms |
//! | `metadata`: memory for a million samples | reported |
//!
//! The yardstick of `overhead` is a single-threaded memcpy of the same bytes, sample by sample, in
//! the same process; the yardstick of `resume` is a copy of a table with 4 bytes per sample.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "common/figures.rs"]
mod figures;

use figures::record;
use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Loader, Order};
use fuseloop_ops::*;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// The number of rounds; the median is printed.
const ROUNDS: usize = 9;

/// The number of ImageNet's training images.
const LARGE: u64 = 1_281_167;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // Like criterion's benchmarks: `cargo test --benches` only checks that this one runs.
    let is_test = args.iter().any(|arg| arg == "--test");
    let dir = tempfile::tempdir().unwrap();
    let (small, large) = if is_test { (2_000, 20_000) } else { (50_000, LARGE) };
    overhead(&dir.path().join("small.beton"), small);
    resume(&dir.path().join("large.beton"), large);
}

fn field(name: &str, kind: FieldKind) -> FieldSpec {
    FieldSpec { name: name.to_owned(), kind }
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            run();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

fn overhead(path: &Path, samples: u64) {
    let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    let rows = (0..samples).map(|sample| {
        let pixels = vec![sample as u8; 32 * 32 * 3];
        let image = FieldValue::Image(ImageInput::Rgb { pixels, width: 32, height: 32 });
        vec![image, FieldValue::Int(sample as i64)]
    });
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    write_iter(rows, &fields, path, &WriteOptions { image, ..WriteOptions::default() }).unwrap();
    let (image, mut out) = (vec![7u8; 3072], vec![0u8; 512 * 3072]);
    let copied = median(|| {
        for sample in 0..samples as usize {
            let row = &mut out[sample % 512 * 3072..][..3072];
            row.copy_from_slice(black_box(&image));
        }
    });
    let rate = |time: Duration| samples as f64 / time.as_secs_f64() / 1e6;
    println!("overhead: {samples} raw 32x32 pictures and labels, batches of 512");
    println!("  memcpy             1 thread    {:6.2} M samples/s", rate(copied));
    let ways = [
        (Order::Sequential, "read, in order", false),
        (Order::Random, "read, random", false),
        (Order::Random, "in memory, random", true),
    ];
    for (order, name, in_memory) in ways {
        for workers in [1, 2] {
            let builder = || {
                let opened = Loader::open(path).unwrap().in_memory(in_memory);
                opened.batch_size(512).workers(workers).order(order.clone())
            };
            let time = epochs(&builder().build().unwrap());
            let aim = if workers == 2 { "  (aim: > 1)" } else { "" };
            println!("  {name:18} {workers} worker(s) {:6.2} M samples/s{aim}", rate(time));
            record(name, &format!("copied, {workers}"), rate(time), "M samples/s");
            let time = epochs(&builder().pipeline("image", augmented()).build().unwrap());
            let aim = if workers == 2 { "  (aim: > 1.5)" } else { "" };
            println!(
                "  {:18} {workers} worker(s) {:6.2} M samples/s{aim}",
                "- augmented",
                rate(time)
            );
            record(name, &format!("augmented, {workers}"), rate(time), "M samples/s");
        }
    }
}

/// The usual list for CIFAR.
fn augmented() -> Ops {
    ops![
        RandomHorizontalFlip::new(0.5).unwrap(),
        RandomTranslate::new(4).unwrap(),
        Cutout::new(8).unwrap(),
        Normalize::cifar10(),
        ToChannelsFirst,
    ]
}

fn epochs(loader: &Loader) -> Duration {
    let mut epoch = 0;
    median(|| {
        loader.epoch(epoch).unwrap().for_each(|batch| drop(black_box(batch.unwrap())));
        epoch += 1;
    })
}

fn resume(path: &Path, samples: u64) {
    let fields = [field("a", FieldKind::Int), field("b", FieldKind::Int)];
    let rows = (0..samples).map(|i| vec![FieldValue::Int(i as i64), FieldValue::Int(-(i as i64))]);
    write_iter(rows, &fields, path, &WriteOptions::default()).unwrap();
    let table: Vec<u32> = (0..samples as u32).collect();
    let copied = median(|| drop(black_box(table.clone())));
    println!("resume: {samples} samples, batches of 256 (copying 4 bytes a sample: {copied:.2?})");
    for (order, name) in [(Order::Sequential, "in order"), (Order::Random, "random")] {
        let before = memory();
        let begun = Instant::now();
        let builder = Loader::open(path).unwrap().batch_size(256).order(order);
        let loader = builder.build().unwrap();
        let built = begun.elapsed();
        let whole = loader.epoch(0).unwrap();
        let held = memory().saturating_sub(before) as f64 / (samples as f64 / 1e6);
        let begin = whole.cursor().unwrap();
        drop(whole);
        for share in [1, 5, 9] {
            let position = samples * share / 10 / 256 * 256;
            let mut cursor = begin;
            cursor.position = position;
            let resumed = median(|| drop(loader.resume(&cursor).unwrap()));
            let first = median(|| {
                loader.resume(&cursor).unwrap().next().unwrap().unwrap();
            });
            println!(
                "  {name}, at {share}0 %: {resumed:8.2?}; with the first batch {first:8.2?}  (aim: < 10 ms)"
            );
            let work = format!("resume {name}, at {share}0 %");
            record(&work, "with the first batch", 1e3 * first.as_secs_f64(), "ms");
        }
        println!(
            "  {name}: opened and built in {built:.2?}; {:.1} MB a million samples",
            held / 1e6
        );
    }
}

/// Returns the resident memory in bytes.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    resident.unwrap_or(0) * 4096
}
