//! `fuseloop bench`: measures how fast a file is loaded on this machine, and what it costs.

use super::measure::{self, Measured};
use super::number;
use super::output;
use super::print::{bytes, counted, device_line, millis, rate, say, say_json};
use super::problem::Problem;
use super::process::{self, Memory};
use super::source::{OnDevice, OnRank, Pipeline, Setup};
use super::trace::{self, Traced};
use fuseloop::device::DeviceStats;
use fuseloop::internals::source::Escaped;
use fuseloop::loader::Phase;
use fuseloop::loader::{Placement, Stats};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Measure images or clips per second, CPU time of each, and time to the first batch
///
/// The first epoch is a warm-up, unless it is the only one. The batches are discarded.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop bench train.beton
  fuseloop bench train.beton --workload W3 --workers 2 --epochs 5
  fuseloop bench train.beton --pipeline imagenet.toml
  fuseloop bench clips/ --pipeline clips.toml          # clips of videos, by the file's [clips]
  fuseloop bench train.beton --batches 50 --json
  fuseloop bench train.beton --rank 0 --world-size 8   # the share of one rank
  fuseloop bench train.beton --device auto        # normalize on the GPU, if available
  fuseloop bench train.beton --batches 20 --trace trace.json   # open it in ui.perfetto.dev")]
pub(super) struct Args {
    /// Dataset: any kind that `fuseloop info` shows
    #[arg(value_name = "DATASET")]
    file: PathBuf,
    #[command(flatten)]
    pipeline: Pipeline,
    #[command(flatten)]
    on: OnDevice,
    #[command(flatten)]
    on_rank: OnRank,
    /// Number of epochs
    #[arg(long, short, default_value = "3", value_parser = number::at_least_one::<NonZeroU32>)]
    epochs: NonZeroU32,
    /// Maximum number of batches per epoch [default: all]. Prefetched batches count towards CPU time but not
    /// towards images or clips.
    #[arg(long, short = 'n', value_parser = number::at_least_one::<u64>)]
    batches: Option<u64>,
    /// Plan and compile again in every epoch
    #[arg(long)]
    recompile: bool,
    /// Run one extra epoch and write a timeline of all threads to this file. Open it in ui.perfetto.dev or
    /// chrome://tracing; it takes about 500 bytes per sample (see `--batches`).
    #[arg(long, value_name = "FILE.json", value_parser = output::local())]
    trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The complete report.
struct Report {
    samples: u64,
    epochs: Vec<Measured>,
    stats: Stats,
    /// The time from the first line of `main`: the system reports the start of a process only to 10 ms.
    first_batch: Duration,
    memory: Option<Memory>,
    traced: Option<Traced>,
    /// Where the ends of the op lists ran.
    device: Placement,
    sent: Option<DeviceStats>,
    /// The number of damaged samples that the loader has found and went on without.
    damaged: u64,
    damaged_line: Option<String>,
}

pub(super) fn run(args: &Args, start: Instant) -> Result<(), Problem> {
    let setup = args.pipeline.setup()?.on(&args.on).of_rank(&args.on_rank)?;
    let builder = setup.builder(&args.file)?;
    // Not `recompile(args.recompile)`, because a pipeline file may request it too.
    let builder = if args.recompile { builder.recompile(true) } else { builder };
    let loader = builder.build()?;
    if let Some(path) = &args.trace {
        setup.check_output(path, &args.file, &loader)?;
    }
    let batches = args.batches.unwrap_or(u64::MAX);
    let mut epochs = vec![];
    let mut before = loader.stats();
    for number in 0..args.epochs.get() {
        if number <= 1 {
            before = loader.stats();
        }
        epochs.push(measure::epoch(&loader, number, batches, |batch| {
            black_box(batch);
        })?);
    }
    let stats = loader.stats().since(&before);
    let trace = |path| trace::write(&loader, args.epochs.get(), batches, path);
    let report = Report {
        samples: loader.samples(),
        device: loader.device(),
        sent: loader.device_stats(),
        stats,
        first_batch: epochs[0].first_batch_at - start,
        memory: process::memory(),
        traced: args.trace.as_deref().map(trace).transpose()?,
        damaged: loader.quarantine().samples.len() as u64,
        damaged_line: setup.damaged_line(&args.file, &loader),
        epochs,
    };
    if args.json {
        say_json(&as_json(args, &setup, &report))
    } else {
        say(&in_words(args, &setup, &report))
    }
}

/// Returns the epochs that count: all but the first, if there are several.
fn counting(epochs: &[Measured]) -> &[Measured] {
    if epochs.len() > 1 { &epochs[1..] } else { epochs }
}

/// Returns the middle value; for an even number of values, the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
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
        "{}: {}, {}: {}\n{}, batches of {}{}\n{}\n",
        Escaped(&file),
        counted(report.samples, "sample"),
        setup.ops,
        setup.ops.summary(),
        counted(setup.threads() as u64, "worker"),
        setup.batch_size(),
        setup.rank().map_or_else(String::new, |(rank, world)| format!(", rank {rank} of {world}")),
        device_line(&report.device),
    );
    let (warm_up, noun) = (report.epochs.len() > 1, report.stats.noun());
    for (number, epoch) in report.epochs.iter().enumerate() {
        let note = if warm_up && number == 0 { "  (warm-up)" } else { "" };
        let compiled = if number == 0 || args.recompile {
            format!("  compiled in {}", millis(epoch.compile))
        } else {
            String::new()
        };
        let speed = rate(epoch.images_per_second());
        let cpu = cpu_words(epoch.cpu_ms(), noun);
        let _ = writeln!(text, "epoch {number:<3} {speed:>10} {noun}s/s {cpu}{compiled}{note}");
    }
    let speed = median_rate(&report.epochs).map_or_else(String::new, rate);
    let cpu = cpu_words(median_cpu(&report.epochs), noun);
    let _ = writeln!(text, "median    {speed:>10} {noun}s/s {cpu}\n");
    add_process(&mut text, args, report);
    text
}

fn cpu_words(ms: Option<f64>, noun: &str) -> String {
    ms.map_or_else(String::new, |ms| format!("{ms:>9.3} CPU-ms/{noun}"))
}

fn add_process(text: &mut String, args: &Args, report: &Report) {
    let first = millis(report.first_batch);
    let _ = writeln!(text, "first batch  {first} after the process started (first line of main)");
    if let Some(Memory { peak, mapped }) = report.memory {
        let (peak, mapped) = (bytes(peak), bytes(mapped));
        let _ = writeln!(text, "peak memory  {peak} resident, including {mapped} of mapped files");
    }
    if let Some(sent) = &report.sent {
        let _ = writeln!(text, "device       {}", sent_words(sent));
    }
    let _ = writeln!(text, "{}", report.stats);
    if let Some(line) = &report.damaged_line {
        let _ = writeln!(text, "damaged      {line}");
    }
    if let (Some(traced), Some(path)) = (&report.traced, &args.trace) {
        let path = Escaped(&path.display().to_string()).to_string();
        let Traced { spans, lost, .. } = *traced;
        let lost = match lost {
            0 => String::new(),
            lost => format!(", {} missing because the trace was full", counted(lost, "span")),
        };
        let spans = counted(spans, "span");
        let _ = writeln!(text, "trace        {path}: {spans}{lost}; open it in ui.perfetto.dev");
    }
}

fn sent_words(sent: &DeviceStats) -> String {
    let kernels = match sent.kernels {
        Some(origin) => format!(", kernels {origin} in {}", millis(sent.kernels_took)),
        None => String::new(),
    };
    let pageable = match sent.pageable_copies {
        0 => String::new(),
        count => format!(", {} from memory that could not be locked", counted(count, "tensor")),
    };
    let [copied, taken] = [sent.bytes_copied, sent.device_bytes].map(bytes);
    format!("{copied} copied to it{pageable}, {taken} of its memory used{kernels}")
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
    let stats = &report.stats;
    let phases: serde_json::Map<String, Value> = Phase::ALL
        .map(|phase| (phase.name().to_owned(), json!(stats.share(phase))))
        .into_iter()
        .collect();
    json!({
        "file": args.file.to_string_lossy(),
        "workload": setup.ops.workload(),
        "pipeline": setup.ops.file().map(|path| path.to_string_lossy()),
        "samples": report.samples,
        "damaged_samples": report.damaged,
        "workers": setup.threads(),
        "batch_size": setup.batch_size(),
        "seed": setup.seed(),
        "rank": setup.rank().map(|(rank, _)| rank),
        "world_size": setup.rank().map(|(_, size)| size),
        "device": report.device.device.to_string(),
        "gpu": report.device.gpu,
        "device_fallback": report.device.fallback,
        "device_bytes_copied": report.sent.as_ref().map(|sent| sent.bytes_copied),
        "device_pageable_copies": report.sent.as_ref().map(|sent| sent.pageable_copies),
        "recompile": args.recompile,
        "epochs": report.epochs.iter().map(epoch).collect::<Vec<_>>(),
        "warm_up_epochs": report.epochs.len() - counting(&report.epochs).len(),
        "median_images_per_second": median_rate(&report.epochs),
        "median_cpu_ms_per_image": median_cpu(&report.epochs),
        "first_batch_ms": ms(report.first_batch),
        "peak_rss_bytes": report.memory.map(|memory| memory.peak),
        "mapped_bytes": report.memory.map(|memory| memory.mapped),
        "workers_busy": stats.busy_share(),
        "waited_for_room": stats.share(Phase::Room) + stats.share(Phase::Slot),
        "consumer_waited": stats.consumer_share(),
        "phases": phases,
        "bottleneck": stats.verdict(),
        "cache_stopped": stats.cache_stopped,
        "trace": report.traced.as_ref().map(|traced| json!({
            "spans": traced.spans,
            "lost": traced.lost,
            "seconds": traced.took.as_secs_f64(),
        })),
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
