//! Code shared by the benchmarks: images, settings, and contenders timed in turn.

#![allow(dead_code, reason = "each benchmark takes what it needs of it")]

pub(crate) mod figures;
pub(crate) mod photographs;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use fuseloop_ops::Size;
use fuseloop_ops::internals::SampleKey;
use std::time::{Duration, Instant};

/// Bytes touched to evict a batch's memory from the caches: well above the size of the L2 cache.
const ELSEWHERE: usize = 96 << 20;

/// Rounds of the table that is printed before criterion's own figures.
const ROUNDS: usize = 15;

/// How long a contender runs in one round, in cache.
const TURN: Duration = Duration::from_millis(2);

/// One method of doing the work of a group.
pub(crate) struct Contender<'a> {
    pub(crate) how: &'static str,
    pub(crate) run: Box<dyn FnMut() + 'a>,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(how: &'static str, run: impl FnMut() + 'a) -> Self {
        Self { how, run: Box::new(run) }
    }
}

/// Describes the work of a group's contenders, which gives their times a scale.
pub(crate) struct Work<'a> {
    /// The name of the group, such as `fused/crop+flip+normalize`.
    pub(crate) group: &'a str,
    /// The input, such as `one 256x256 u8, in cache`.
    pub(crate) what: &'a str,
    /// Samples of one run.
    pub(crate) samples: u64,
    /// Bytes read and written for one sample.
    pub(crate) bytes: u64,
    /// True if other memory is touched before each run.
    pub(crate) cold: bool,
}

/// Short settings: ten contenders take one minute instead of ten.
pub(crate) fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args()
}

/// Returns random u8 pixels, `[height, width, 3]`.
pub(crate) fn noise(size: Size, seed: u64) -> Vec<u8> {
    let mut rng = SampleKey::new(seed, 0, size.pixels()).op(0);
    (0..size.pixels() * 3).map(|_| rng.below(256) as u8).collect()
}

/// Bytes that start at a multiple of 64, with their memory pages touched, as in the loader's slots.
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    start: usize,
}

impl Bytes {
    pub(crate) fn new(len: usize) -> Self {
        let bytes = vec![1; len + 64];
        let start = bytes.as_ptr().align_offset(64);
        Self { bytes, start }
    }

    pub(crate) fn get(&mut self) -> &mut [u8] {
        let len = self.bytes.len() - 64;
        &mut self.bytes[self.start..][..len]
    }
}

/// Times the contenders twice: first in turn, and prints their ratios, which a busy machine does
/// not distort; then each on its own, by criterion.
pub(crate) fn compare(c: &mut Criterion, work: &Work<'_>, contenders: &mut [Contender<'_>]) {
    let mut elsewhere = vec![1u8; if work.cold { ELSEWHERE } else { 0 }];
    if !std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        print_ratios(work, contenders, &mut elsewhere);
    }
    let mut group = c.benchmark_group(work.group);
    group.throughput(Throughput::Bytes(work.bytes * work.samples));
    if work.cold {
        group.sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_millis(500));
    }
    for contender in contenders {
        let id = BenchmarkId::new(work.what, contender.how);
        group.bench_function(id, |b| {
            b.iter_custom(|turns| time(&mut *contender.run, turns, &mut elsewhere));
        });
    }
    group.finish();
}

/// Returns the time of `turns` runs, without the time spent touching `elsewhere`.
fn time(run: &mut dyn FnMut(), turns: u64, elsewhere: &mut [u8]) -> Duration {
    if elsewhere.is_empty() {
        let start = Instant::now();
        (0..turns).for_each(|_| run());
        return start.elapsed();
    }
    let one = |_| {
        for line in elsewhere.chunks_mut(64) {
            line[0] = line[0].wrapping_add(1);
        }
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..turns).map(one).sum()
}

/// Prints the median time of each contender, and the median over the rounds of the first
/// contender's time divided by this one's: below 1, the first is faster.
fn print_ratios(work: &Work<'_>, contenders: &mut [Contender<'_>], elsewhere: &mut [u8]) {
    let times = rounds(contenders, elsewhere);
    let title = format!("{}/{}", work.group, work.what);
    println!("{title}, {ROUNDS} rounds in turn:");
    for (contender, times_of) in contenders.iter().zip(&times) {
        let ratio = median(times[0].iter().zip(times_of).map(|(first, this)| first / this));
        let micros = median(times_of.iter().map(|nanos| nanos / work.samples as f64 / 1000.0));
        println!("  {:<28} {micros:>9.2} us a sample   first/this {ratio:.2}", contender.how);
        figures::record(&title, contender.how, micros, "us");
    }
}

/// Runs all contenders in turn, round by round, and returns for each contender the nanoseconds of
/// one run in each round. `elsewhere` is touched before each run, so that the contender's memory is
/// cold.
pub(crate) fn rounds(contenders: &mut [Contender<'_>], elsewhere: &mut [u8]) -> Vec<Vec<f64>> {
    let is_cold = !elsewhere.is_empty();
    let turns: Vec<u64> = contenders
        .iter_mut()
        .map(|contender| {
            let once = time(&mut *contender.run, 1, &mut []).as_nanos().max(1);
            if is_cold { 1 } else { (TURN.as_nanos() / once).clamp(1, 10_000) as u64 }
        })
        .collect();
    let mut times = vec![vec![]; contenders.len()];
    for _ in 0..ROUNDS {
        for ((contender, turns), times) in contenders.iter_mut().zip(&turns).zip(&mut times) {
            if !is_cold {
                (contender.run)(); // loads its memory back into the cache
            }
            let taken = time(&mut *contender.run, *turns, elsewhere).as_nanos() as f64;
            times.push(taken / *turns as f64);
        }
    }
    times
}

/// Returns the median.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
