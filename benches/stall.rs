//! How evenly batches arrive, and how soon the first: samples only sleep, so the benchmark measures
//! the order of work and not the machine.
//!
//! ```text
//! 4 workers, batches of 16, 5 ms a sample, a consumer that takes 1 ms a batch
//!
//! shared        all workers fill the oldest batch     a batch every 16 * 5 / 4 = 20 ms
//! one a worker  worker w fills batches w, w+4, ...    4 batches every 80 ms
//! ```
//!
//! "One a worker" is how PyTorch's `DataLoader` distributes work. It runs on the same engine: four
//! engines with one worker each, read in turn, with two batches ahead, like `prefetch_factor`.
//!
//! In the second half one sample in 100 takes ten times as long. The consumer is always waiting
//! here, so no batch is ready when a slow sample occurs: in order, the batch of that sample takes
//! at least those 50 ms, and even out of order the next batch takes the 27 ms of three workers and
//! the time already spent on its neighbours. So the longest wait is compared with the longest wait
//! of one a worker, in addition to the aim for samples of equal cost.
//!
//! `-- nothing` runs each measurement once, quickly.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "common/figures.rs"]
mod figures;

use std::convert::Infallible;
use std::env;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use figures::record;
use fuseloop::batch::TensorSpec;
use fuseloop::internals::run::RowsMut;
use fuseloop::internals::run::{
    Delivery, Engine, EngineOptions, EpochRun, FillError, Progress, RunOrder, RunRequest, Stage,
};
use fuseloop::sample::{Epoch, SampleId, SampleRef};
use fuseloop_ops::DType;

const WORKERS: usize = 4;
const BATCH: u64 = 16;
const SAMPLE: Duration = Duration::from_millis(5);
const CONSUMER: Duration = Duration::from_millis(1);

/// Sleeps for each sample; `slow` selects the samples that take ten times as long.
struct Sleep {
    tensor: TensorSpec,
    slow: fn(u64) -> bool,
}

impl Stage for Sleep {
    type Worker = ();
    type Error = Infallible;

    fn outputs(&self) -> &[TensorSpec] {
        std::slice::from_ref(&self.tensor)
    }

    fn worker(&self, _watch: Progress) {}

    fn fill(
        &self,
        (): &mut (),
        _epoch: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        let is_slow = (self.slow)(visits[0].sample.0);
        thread::sleep(if is_slow { SAMPLE * 10 } else { SAMPLE });
        rows.output(0).fill(1);
        Ok(())
    }
}

/// Every `step`th batch of all samples, from batch `first` on.
struct Every {
    first: u64,
    step: u64,
    batches: u64,
}

impl RunOrder for Every {
    fn samples(&self) -> u64 {
        (self.batches.saturating_sub(self.first)).div_ceil(self.step) * BATCH
    }

    fn visits(&self, positions: Range<u64>, visits: &mut Vec<SampleRef>) {
        visits.extend(positions.map(|position| {
            let batch = self.first + position / BATCH * self.step;
            SampleRef::once(SampleId(batch * BATCH + position % BATCH))
        }));
    }
}

/// How batches are distributed over workers and delivered.
#[derive(Clone, Copy)]
enum How {
    Shared(Delivery),
    OneAWorker,
}

fn engine(workers: usize, ahead: usize) -> Engine<Sleep> {
    let (workers, ahead) = (NonZeroUsize::new(workers), NonZeroUsize::new(ahead));
    let options = EngineOptions { workers: workers.unwrap(), ..EngineOptions::default() };
    Engine::new(EngineOptions { batches_ahead: ahead.unwrap(), ..options }).unwrap()
}

/// Returns the time that the consumer waits for each of `batches` batches.
fn waits(how: How, slow: fn(u64) -> bool, batches: u64) -> Vec<Duration> {
    let tensor = TensorSpec::new("x", DType::U8, [1]);
    let stage = Arc::new(Sleep { tensor, slow });
    let (count, delivery) = match how {
        How::Shared(delivery) => (1, delivery),
        How::OneAWorker => (WORKERS, Delivery::InOrder),
    };
    let ahead = if count == 1 { 3 } else { 2 };
    let engines = (0..count).map(|_| engine(WORKERS / count, ahead)).collect::<Vec<_>>();
    let begun = Instant::now();
    let start = |(first, engine): (usize, &Engine<Sleep>)| {
        let schedule = Every { first: first as u64, step: count as u64, batches };
        let size = NonZeroUsize::new(BATCH as usize).unwrap();
        let pass = RunRequest::new(Arc::clone(&stage), Epoch(0), Box::new(schedule), size);
        engine.start(RunRequest { delivery, ..pass }).unwrap()
    };
    let mut runs = engines.iter().enumerate().map(start).collect::<Vec<EpochRun<Sleep>>>();
    let mut waits = Vec::with_capacity(batches as usize);
    let mut asked = begun;
    for batch in 0..batches as usize {
        let batch = runs[batch % count].next().unwrap().unwrap();
        waits.push(asked.elapsed());
        thread::sleep(CONSUMER);
        drop(batch);
        asked = Instant::now();
    }
    waits
}

/// A row of the table.
struct Found {
    first: Duration,
    median: Duration,
    p99: Duration,
    longest: Duration,
}

impl Found {
    /// Summarizes the waits of a run. The first wait includes the start, so it is reported
    /// separately.
    fn of(waits: &[Duration]) -> Self {
        let (first, mut rest) = (waits[0], waits[1..].to_vec());
        rest.sort_unstable();
        let at = |share: f64| rest[((rest.len() - 1) as f64 * share).round() as usize];
        Self { first, median: at(0.5), p99: at(0.99), longest: at(1.0) }
    }

    fn print(&self, what: &str) {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let ratio = ms(self.p99) / ms(self.median).max(1e-3);
        println!(
            "{what:34} {:9.1} {:9.1} {:9.1} {:9.1} {ratio:13.2}",
            ms(self.first),
            ms(self.median),
            ms(self.p99),
            ms(self.longest)
        );
    }
}

/// Prints an aim and the result.
fn judge(what: &str, reached: f64, below: f64) {
    let verdict = if reached < below { "reached" } else { "MISSED" };
    println!("  aim: {what} < {below:.2}; {reached:.2}: {verdict}");
}

fn main() {
    let is_full = env::args().any(|arg| arg == "--bench")
        && !env::args().any(|arg| arg == "nothing" || arg == "--test");
    let batches = if is_full { 200 } else { 8 };
    println!(
        "{:34} {:>9} {:>9} {:>9} {:>9} {:>13}",
        "waits in ms", "first", "median", "p99", "longest", "p99 / median"
    );
    for (samples, slow) in [
        ("even", (|_| false) as fn(u64) -> bool),
        ("1 in 100 ten times slower", |sample| sample % 100 == 57),
    ] {
        let run = |how: How, name: &str| {
            let found = Found::of(&waits(how, slow, batches));
            found.print(&format!("{samples}, {name}"));
            found
        };
        let ours = run(How::Shared(Delivery::InOrder), "shared");
        let unordered = run(How::Shared(Delivery::Unordered), "shared, unordered");
        let theirs = run(How::OneAWorker, "one a worker");
        let ratio = |found: &Found| found.p99.as_secs_f64() / found.median.as_secs_f64().max(1e-6);
        record(samples, "p99 / median of the waits", ratio(&ours), "x");
        record(samples, "p99 / median of the waits, unordered", ratio(&unordered), "x");
        judge("p99 / median of the waits", ratio(&ours), 1.5);
        judge("p99 / median of the waits, unordered", ratio(&unordered), 1.5);
        let first = ours.first.as_secs_f64() / theirs.first.as_secs_f64();
        record(samples, "first batch / that of one a worker", first, "x");
        judge("first batch / that of one a worker", first, 1.0 / 3.0);
        let longest = ours.longest.as_secs_f64() / theirs.longest.as_secs_f64();
        record(samples, "longest wait / that of one a worker", longest, "x");
        judge("longest wait / that of one a worker", longest, 0.6);
    }
}
