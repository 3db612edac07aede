//! The process cache on a slow disk: the speed of a quasi-random order relative to sequential
//! order.
//!
//! The file has 256 MiB, in `.beton` pages of 2 MiB with samples of 20 KB, on a disk that delivers
//! 200 MB/s and adds a latency to each request; two workers only read. The quasi-random order draws
//! from 32 open pages, and the cache holds 64. Plain reads (`os cache`) are listed for comparison:
//! one request per value, and no other cache below them, as in the first epoch over a file larger
//! than memory.
//!
//! | column         | meaning                                                     | aim for quasi-random |
//! |----------------|-------------------------------------------------------------|----------------------|
//! | `read/needed`  | bytes read from the file, divided by the bytes of the values requested | at most 1.1 |
//! | `of sequential`| speed, as a share of the same cache's speed in sequential order | at least 80 %    |
//!
//! `-- nothing` or `--test` runs a smaller file once on a fast disk: its figures mean nothing.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../tests/common/paged.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests' files")]
mod paged;

use fuseloop::SampleId;
use fuseloop::internals::order::DatasetInfo;
use fuseloop::internals::source::beton::PageStats;
use fuseloop::internals::source::beton::PagedBeton;
use fuseloop::order::{Order, Subset};
use fuseloop::source::{
    Beton, BoxError, Buffer, OpenOptions, ProcessCache, ReadAt, Run, RunPlan, Source,
};
use paged::{Disk, Pages, run_over};
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PAGE: u32 = 2 << 20;
const SAMPLE: usize = 20_000;
const OPEN_PAGES: u32 = 32;
const ROOM: u64 = 64 * PAGE as u64;
const WORKERS: usize = 2;

/// The speed of a disk: a bandwidth shared by all requests, and a latency for each request.
#[derive(Clone, Copy)]
struct Speed {
    name: &'static str,
    bytes_per_second: f64,
    per_request: Duration,
}

/// A disk of this speed. Requests share the bandwidth, but their latencies overlap.
#[derive(Clone)]
struct SlowDisk {
    disk: Disk,
    speed: Speed,
    /// The time at which the last byte requested so far is delivered.
    free_at: Arc<Mutex<Instant>>,
    bytes: Arc<AtomicU64>,
}

impl ReadAt for SlowDisk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read_at(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        let found = self.disk.read_at(bytes, start)?;
        let took = Duration::from_secs_f64(found as f64 / self.speed.bytes_per_second);
        let mut free_at = self.free_at.lock().unwrap();
        *free_at = (*free_at).max(Instant::now()) + took;
        let out = *free_at + self.speed.per_request;
        drop(free_at);
        self.bytes.fetch_add(found as u64, Ordering::Relaxed);
        thread::sleep(out.saturating_duration_since(Instant::now()));
        Ok(found)
    }
}

const ORDERS: [Order; 3] =
    [Order::Sequential, Order::QuasiRandom { open_pages: OPEN_PAGES }, Order::Random];

/// Maps each sample to its `.beton` page, for the orders.
struct PagesOf<'a>(&'a Beton);

impl DatasetInfo for PagesOf<'_> {
    fn samples(&self) -> u64 {
        self.0.facts().samples
    }

    fn page(&self, sample: SampleId) -> Option<u64> {
        self.0.locality_group(sample)
    }

    fn class(&self, _: &str, _: SampleId) -> Result<i64, BoxError> {
        Err("there is none".into())
    }
}

fn samples(order: &Order, beton: &Beton) -> Vec<usize> {
    let order = order.prepare(&PagesOf(beton), Subset::All(beton.facts().samples)).unwrap();
    let visits = order.epoch(1, fuseloop::Epoch(0), None).unwrap().visits_vec();
    visits.iter().map(|visit| visit.sample.0 as usize).collect()
}

/// Plans batches of 64 with the single field that is read.
fn run(samples: &[usize]) -> RunPlan {
    RunPlan { fields: vec![0], ..run_over(samples, 64) }
}

/// The measurements of an epoch.
struct Epoch {
    time: Duration,
    bytes_read: u64,
    stats: Option<PageStats>,
}

/// Reads an epoch the way a loader's workers do.
fn epoch(disk: &SlowDisk, order: &Order, cache: Option<ProcessCache>) -> Epoch {
    let beton = Beton::from_reader(disk.clone(), &OpenOptions::default()).unwrap();
    let samples = samples(order, &beton);
    let before = disk.bytes.load(Ordering::Relaxed);
    let begun = Instant::now();
    let (source, paged) = match cache {
        None => (Run::new(Arc::new(beton)), None),
        Some(cache) => {
            let paged = Arc::new(PagedBeton::new(beton, cache));
            let view = Arc::clone(&paged).begin(&run(&samples)).unwrap().unwrap();
            (view, Some(paged))
        }
    };
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let mut buffer = Buffer::default();
                while let Some(&sample) = samples.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let value = source.value(SampleId(sample as u64), 0, &mut buffer);
                    black_box(value.unwrap());
                    buffer.forget();
                }
            });
        }
    });
    Epoch {
        time: begun.elapsed(),
        bytes_read: disk.bytes.load(Ordering::Relaxed) - before,
        stats: paged.map(|paged| paged.stats()),
    }
}

fn compare(disk: &SlowDisk, samples: usize, room: u64, judged: bool) {
    println!("\n{}:", disk.speed.name);
    println!(
        "{:14} {:14} {:>8} {:>12} {:>14} {:>10} {:>10}",
        "order", "cache", "MB/s", "read/needed", "of sequential", "peak MiB", "waited s"
    );
    let needed = (samples * SAMPLE) as f64;
    let cache = ProcessCache { budget_bytes: room, ..ProcessCache::default() };
    let mut sequential = [Duration::ZERO; 2];
    for order in &ORDERS {
        for (index, cache) in [Some(cache), None].into_iter().enumerate() {
            let Epoch { time, bytes_read, stats } = epoch(disk, order, cache);
            if *order == Order::Sequential {
                sequential[index] = time;
            }
            let share = sequential[index].as_secs_f64() / time.as_secs_f64();
            let ratio = bytes_read as f64 / needed;
            print!(
                "{:14} {:14} {:8.0} {ratio:12.3} {:13.0}%",
                order.name(),
                if cache.is_some() { "process cache" } else { "os cache" },
                needed / time.as_secs_f64() / 1e6,
                share * 100.0
            );
            if let Some(stats) = stats {
                let peak = stats.peak_held_bytes >> 20;
                print!(" {peak:10} {:10.2}", stats.waited.as_secs_f64());
            }
            println!();
            if judged && matches!(order, Order::QuasiRandom { .. }) && cache.is_some() {
                judge(ratio, share);
            }
        }
    }
}

/// Prints the aims and the results.
fn judge(ratio: f64, share: f64) {
    let reached = |yes| if yes { "reached" } else { "missed" };
    println!(
        "  aim: read/needed <= 1.1 {} ({ratio:.3}), speed >= 80 % of sequential {} ({:.0} %)",
        reached(ratio <= 1.1),
        reached(share >= 0.8),
        share * 100.0
    );
}

fn main() {
    let quick = std::env::args().skip(1).any(|arg| arg == "nothing" || arg == "--test");
    let (pages, rate) = if quick { (16, 20e9) } else { (128, 200e6) };
    let samples = pages * (PAGE as usize / SAMPLE);
    let mut file = Pages::new(PAGE);
    (0..samples).for_each(|_| file.add([SAMPLE, 0]));
    let disk = Disk::new(file.bytes());
    drop(file);
    println!(
        "{samples} samples of {SAMPLE} bytes, {pages} pages, {WORKERS} workers, 4 I/O threads"
    );
    for (name, per_request) in
        [("200 MB/s", Duration::ZERO), ("200 MB/s, 1 ms a request", Duration::from_millis(1))]
    {
        let speed = Speed { name, bytes_per_second: rate, per_request };
        let free_at = Arc::new(Mutex::new(Instant::now()));
        let disk = SlowDisk { disk: disk.clone(), speed, free_at, bytes: Arc::default() };
        compare(&disk, samples, ROOM, !quick);
    }
}
