//! Whole epochs: the loader against a plain loop over good libraries, in the same process.
//!
//! The yardstick is the loop that a Rust programmer writes without Fuseloop: rayon over the samples
//! of a batch, `zune-jpeg` for the whole image, `fast_image_resize` (bilinear, antialiased) on the
//! crop, and a pass over the pixels for each further op, all in reused memory (`baseline.rs`). The
//! plain loop receives the loader's own draws, so both do the same work; their pixels are compared
//! before anything is timed.
//!
//! An id reads `epoch/<images>/<workload>/<threads> threads/<how>`. The images are
//!
//! * `jpeg`: `data/imagenet` of the folder `FUSELOOP_SHARED` or `../shared`, else drawn images of 500 x 375
//! * `tiled jpeg`: the same images re-cut losslessly (`write --write-mode tiled`); the plain loop
//!   reads the originals
//! * `bit planes`: the same images as bit planes (`write --write-mode planes`); the plain loop reads the originals
//! * `raw 32x32` and `raw 256x256`: drawn images, stored as pixels
//!
//! Images/s and processor time per image are printed in addition to criterion's figures: medians of
//! rounds in which the two take turns, so that a slow moment of the machine affects both.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod baseline;
mod data;
#[path = "../common/figures.rs"]
mod figures;
#[path = "../../cli/src/demo/pictures.rs"]
#[allow(dead_code, reason = "the demo draws pictures of many sizes, this of one")]
mod pictures;
#[path = "../../cli/src/process.rs"]
#[allow(dead_code, unused_imports, reason = "a benchmark asks for less than the command")]
mod process;

use baseline::Baseline;
use criterion::{BenchmarkId, Criterion, Throughput};
use data::Images;
use figures::record;
use fuseloop::internals::workload::Workload;
use fuseloop::{Batch, Loader};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

const SEED: u64 = 7;

/// The turns that each contender takes before criterion measures it.
const ROUNDS: u32 = 5;

/// A workload on images.
struct Case {
    images: Images,
    workload: Workload,
    batch: usize,
    /// The number of levels, of 255, by which the two outputs may differ: 1 from the resize,
    /// besides rounding. The loader keeps fractions between colour ops, a pass over u8 rounds after
    /// each op; with three factors of up to 1.4 the difference is `1.4^3 + (1.4^2 + 1.4 + 1) / 2`
    /// at worst.
    tolerance: f32,
}

impl Case {
    fn id(&self, threads: usize) -> String {
        format!("epoch/{}/{}/{threads} threads", self.images.name(), self.workload.id())
    }
}

const CASES: [Case; 8] = [
    Case { images: Images::Jpeg, workload: Workload::ImageNet, batch: 64, tolerance: 2.0 },
    Case { images: Images::Jpeg, workload: Workload::Jitter, batch: 64, tolerance: 5.0 },
    Case { images: Images::Tiled, workload: Workload::ImageNet, batch: 64, tolerance: 2.0 },
    Case { images: Images::Tiled, workload: Workload::Jitter, batch: 64, tolerance: 5.0 },
    Case { images: Images::BitPlanes, workload: Workload::ImageNet, batch: 64, tolerance: 2.0 },
    Case { images: Images::BitPlanes, workload: Workload::Jitter, batch: 64, tolerance: 5.0 },
    Case { images: Images::Raw(32), workload: Workload::Cifar, batch: 512, tolerance: 2.0 },
    Case { images: Images::Raw(256), workload: Workload::Crop, batch: 64, tolerance: 2.0 },
];

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let dir = tempfile::tempdir().unwrap();
    for case in &CASES {
        for threads in [1, 2] {
            if asked_for(&case.id(threads)) {
                compare(&mut criterion, case, dir.path(), threads);
            }
        }
    }
    criterion.final_summary();
}

/// True if the command line selects `id`. Criterion's own filter applies too late: after the images
/// are written and compared.
fn asked_for(id: &str) -> bool {
    let filter = std::env::args().nth(1).filter(|word| !word.starts_with('-'));
    filter.is_none_or(|filter| id.contains(&filter))
}

fn loader(case: &Case, file: &Path, threads: usize) -> Loader {
    let workload = case.workload;
    let builder = Loader::open(file).unwrap().batch_size(case.batch).seed(SEED).workers(threads);
    builder.drop_last(false).pipeline("image", workload.ops().unwrap()).build().unwrap()
}

/// Runs an epoch of the loader. Returns the number of images.
fn fused(loader: &Loader, mut each: impl FnMut(&Batch)) -> u64 {
    let mut images = 0;
    for batch in loader.epoch(0).unwrap() {
        let batch = batch.unwrap();
        images += batch.len() as u64;
        each(&batch);
    }
    images
}

fn compare(criterion: &mut Criterion, case: &Case, dir: &Path, threads: usize) {
    let loader = loader(case, &case.images.file(dir), threads);
    let plain = case.images.plain().file(dir);
    let mut baseline = Baseline::new(&plain, case.workload, case.batch, threads, SEED);
    check(&loader, &mut baseline, case);
    let mut run_fused = || {
        fused(&loader, |batch| {
            black_box(batch);
        })
    };
    let mut run_plain = || {
        baseline.epoch(|values| {
            black_box(values);
        })
    };
    let (images, what) = (loader.samples(), case.id(threads));
    take_turns(&what, &mut run_fused, &mut run_plain);

    let mut group = criterion.benchmark_group(&what);
    group.throughput(Throughput::Elements(images));
    group.bench_function(BenchmarkId::from_parameter("fuseloop"), |b| b.iter(&mut run_fused));
    group.bench_function(BenchmarkId::from_parameter("plain loop"), |b| b.iter(&mut run_plain));
    group.finish();
}

/// Asserts that both produce the same pixels.
fn check(loader: &Loader, baseline: &mut Baseline, case: &Case) {
    let mut ours: Vec<f32> = vec![];
    fused(loader, |batch| ours.extend(batch.tensor::<f32>("image").unwrap().as_slice()));
    let mut at = 0;
    let (mut worst, mut sum) = (0f32, 0f64);
    baseline.epoch(|values| {
        for value in values {
            // One level changes a normalized value by at least 1 / (0.229 * 255).
            let apart = (value - ours[at]).abs() * (0.229 * 255.0);
            worst = worst.max(apart);
            sum += f64::from(apart);
            at += 1;
        }
    });
    assert_eq!(at, ours.len(), "as many values");
    let (mean, name) = (sum / at as f64, case.images.name());
    println!("{name}, {}: at most {worst:.2} levels apart, {mean:.3} on average", case.workload);
    assert!(worst <= case.tolerance, "{worst} levels, at most {} are allowed", case.tolerance);
}

/// Returns the images/s and the CPU-ms per image of one run.
fn timed(run: &mut impl FnMut() -> u64) -> (f64, f64) {
    let (start, cpu) = (Instant::now(), process::cpu_time());
    let images = run() as f64;
    let cpu = process::cpu_time().zip(cpu).map(|(now, then)| now - then).unwrap_or_default();
    (images / start.elapsed().as_secs_f64(), cpu.as_secs_f64() * 1e3 / images)
}

fn take_turns(what: &str, fused: &mut impl FnMut() -> u64, plain: &mut impl FnMut() -> u64) {
    let (mut ours, mut theirs) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        ours.push(timed(fused));
        theirs.push(timed(plain));
    }
    let (ours, theirs) = (medians(ours), medians(theirs));
    for (how, (rate, cpu)) in [("fuseloop", ours), ("plain loop", theirs)] {
        println!("{what:<36} {how:<10} {rate:>9.0} images/s {cpu:>8.4} CPU-ms/image");
        record(what, how, rate, "images/s");
        record(what, &format!("{how}, processor"), cpu, "ms");
    }
    let (faster, cheaper) = (ours.0 / theirs.0, theirs.1 / ours.1);
    println!("{what:<36} {faster:.2} times the images/s, {cheaper:.2} times less processor time");
}

fn medians(rounds: Vec<(f64, f64)>) -> (f64, f64) {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (rates, costs) = rounds.into_iter().unzip();
    (median(rates), median(costs))
}
