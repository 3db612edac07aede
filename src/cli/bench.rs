//! `fuseloop bench`: how fast a file is loaded here, and what it costs.

use super::measure::{self, Measured, Waits};
use super::print::{bytes, counted, millis, rate, say};
use super::problem::Problem;
use super::process::{self, Memory};
use super::source::{Pipeline, Setup};
use fuseloop::source::Escaped;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Measure how fast a file is loaded: images/s, processor time an image, time to the first batch.
///
/// The first epoch warms up, unless it is the only one. Nothing is done with the batches.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop bench train.beton
  fuseloop bench train.beton --workload W3 --workers 2 --epochs 5
  fuseloop bench train.beton --pipeline imagenet.toml
  fuseloop bench train.beton --batches 50 --json")]
pub(super) struct Args {
    /// The file.
    file: PathBuf,
    #[command(flatten)]
    pipeline: Pipeline,
    /// Epochs to run.
    #[arg(long, short, default_value = "3")]
    epochs: NonZeroU32,
    /// Most batches of an epoch; all if not given. What was begun ahead of the last is not counted
    /// as images, but its processor time is.
    #[arg(long, short = 'n')]
    batches: Option<u64>,
    /// Plan and compile at every epoch.
    #[arg(long)]
    recompile: bool,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
}

/// All that is reported.
struct Report {
    samples: u64,
    epochs: Vec<Measured>,
    waits: Waits,
    /// From the first line of `main`: the system's own start of a process is known to 10 ms only.
    first_batch: Duration,
    memory: Option<Memory>,
}

pub(super) fn run(args: &Args, start: Instant) -> Result<(), Problem> {
    let setup = args.pipeline.setup()?;
    let builder = setup.builder(&args.file)?;
    // Not `recompile(args.recompile)`: a pipeline file may ask for it too.
    let builder = if args.recompile { builder.recompile(true) } else { builder };
    let loader = builder.build()?;
    let batches = args.batches.unwrap_or(u64::MAX);
    let mut epochs = vec![];
    let mut before = loader.headroom();
    for number in 0..args.epochs.get() {
        if number <= 1 {
            before = loader.headroom();
        }
        epochs.push(measure::epoch(&loader, number, batches, |batch| {
            black_box(batch);
        })?);
    }
    let wall = counting(&epochs).iter().map(|epoch| epoch.wall).sum();
    let report = Report {
        samples: loader.samples(),
        waits: Waits::between(&before, &loader.headroom(), wall),
        first_batch: epochs[0].first_batch_at - start,
        memory: process::memory(),
        epochs,
    };
    if args.json {
        say(&format!("{:#}\n", as_json(args, &setup, &report)))
    } else {
        say(&in_words(args, &setup, &report))
    }
}

/// Those that count: all but the first, if there are more.
fn counting(epochs: &[Measured]) -> &[Measured] {
    if epochs.len() > 1 { &epochs[1..] } else { epochs }
}

/// The middle one; of an even number, the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 { Some(upper) } else { Some((values[middle - 1] + upper) / 2.0) }
}

fn median_rate(epochs: &[Measured]) -> Option<f64> {
    median(counting(epochs).iter().map(Measured::images_per_second).collect())
}

fn median_cpu(epochs: &[Measured]) -> Option<f64> {
    median(counting(epochs).iter().map(Measured::cpu_ms).collect::<Option<_>>()?)
}

fn in_words(args: &Args, setup: &Setup, report: &Report) -> String {
    let file = args.file.display().to_string();
    let mut text = format!(
        "{}: {}, {}: {}\n{}, batches of {}\n\n",
        Escaped(&file),
        counted(report.samples, "sample"),
        setup.ops,
        setup.ops.summary(),
        counted(setup.threads() as u64, "worker"),
        setup.batch_size,
    );
    let warm_up = report.epochs.len() > 1;
    for (number, epoch) in report.epochs.iter().enumerate() {
        let note = if warm_up && number == 0 { "  (warm-up)" } else { "" };
        let compiled = if number == 0 || args.recompile {
            format!("  compiled in {}", millis(epoch.compile))
        } else {
            String::new()
        };
        let speed = rate(epoch.images_per_second());
        let cpu = cpu_words(epoch.cpu_ms());
        let _ = writeln!(text, "epoch {number:<3} {speed:>10} images/s {cpu}{compiled}{note}");
    }
    let speed = median_rate(&report.epochs).map_or_else(String::new, rate);
    let cpu = cpu_words(median_cpu(&report.epochs));
    let _ = writeln!(text, "median    {speed:>10} images/s {cpu}\n");
    add_process(&mut text, report);
    text
}

fn cpu_words(ms: Option<f64>) -> String {
    ms.map_or_else(String::new, |ms| format!("{ms:>9.3} CPU-ms/image"))
}

fn add_process(text: &mut String, report: &Report) {
    let first = millis(report.first_batch);
    let _ = writeln!(text, "first batch  {first} after the process began (first line of main)");
    if let Some(Memory { peak, mapped }) = report.memory {
        let (peak, mapped) = (bytes(peak), bytes(mapped));
        let _ = writeln!(text, "peak memory  {peak} resident, of it {mapped} of mapped files");
    }
    let waits = report.waits;
    let _ = writeln!(
        text,
        "headroom     workers busy {:.0} %, waiting for room {:.0} %; consumer waiting {:.0} %",
        waits.workers_busy * 100.0,
        waits.waited_for_room * 100.0,
        waits.consumer_waited * 100.0,
    );
    let _ = writeln!(text, "             {}", waits.verdict());
}

fn as_json(args: &Args, setup: &Setup, report: &Report) -> Value {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let epoch = |epoch: &Measured| {
        json!({
            "images": epoch.images,
            "seconds": epoch.wall.as_secs_f64(),
            "images_per_second": epoch.images_per_second(),
            "cpu_ms_per_image": epoch.cpu_ms(),
            "first_batch_ms": ms(epoch.first_batch),
            "compile_ms": ms(epoch.compile),
        })
    };
    json!({
        "file": args.file.to_string_lossy(),
        "workload": setup.ops.workload(),
        "pipeline": setup.ops.file().map(|path| path.to_string_lossy()),
        "samples": report.samples,
        "workers": setup.threads(),
        "batch_size": setup.batch_size,
        "seed": setup.seed,
        "recompile": args.recompile,
        "epochs": report.epochs.iter().map(epoch).collect::<Vec<_>>(),
        "warm_up_epochs": report.epochs.len() - counting(&report.epochs).len(),
        "median_images_per_second": median_rate(&report.epochs),
        "median_cpu_ms_per_image": median_cpu(&report.epochs),
        "first_batch_ms": ms(report.first_batch),
        "peak_rss_bytes": report.memory.map(|memory| memory.peak),
        "mapped_bytes": report.memory.map(|memory| memory.mapped),
        "workers_busy": report.waits.workers_busy,
        "waited_for_room": report.waits.waited_for_room,
        "consumer_waited": report.waits.consumer_waited,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
