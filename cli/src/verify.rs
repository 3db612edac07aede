//! `fuseloop verify`: reads every value of a dataset, decodes every image, and reports what is damaged.

use super::folder::InFolder;
use super::number;
use super::output;
use super::print::{bar, rate, say, say_json};
use super::problem::Problem;
use super::words::in_command;
use fuseloop::internals::source::{Escaped, temporary_file};
use fuseloop::internals::verify::{report_json, verify_with_tables};
use fuseloop::verify::{VerifyOptions, VerifyReport};
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Check every value of a dataset, and decode every image, audio and video file
///
/// Counts the damaged values by kind, and lists them with sample, field and position in the file. The exit
/// code is 1 if anything is damaged.
///
/// Harmless findings, such as unused space or empty boxes, are listed as notes. TFRecord has checksums, and
/// Parquet and MDS may have some; in other formats a changed number or byte cannot be detected.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop verify train.beton
  fuseloop verify train.beton --limit 10000               # only the first samples
  fuseloop verify train.beton --write-indices good.txt    # the samples to train on
  fuseloop verify 'train-{000..255}.tar'
  fuseloop verify speech.beton --audio audio              # a field of bytes that are audio files
  fuseloop verify movies.beton                            # decodes fields of bytes most of which begin as video files, too
  fuseloop verify videos.csv --start-field start --end-field end    # the listed parts of videos
  fuseloop verify train.beton --json | jq .damaged")]
pub(super) struct Args {
    /// Dataset: .beton file, folder of images, audio or videos, table, tar, TFRecord, MDS, Parquet, LeRobot, MNIST, CIFAR or
    /// annotations
    #[arg(value_name = "DATASET")]
    file: PathBuf,
    /// Number of threads [default: one per core]. Does not affect the report.
    #[arg(long, short = 'j', value_parser = number::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,
    /// Check only the first N samples
    #[arg(long, value_name = "N", value_parser = number::at_least_one::<u64>)]
    limit: Option<u64>,
    /// Decode this field of bytes as audio files (repeatable)
    #[arg(long, value_name = "FIELD")]
    audio: Vec<String>,
    /// Decode this field of bytes as video files, even if most of its first values do not begin as such (repeatable)
    #[arg(long, value_name = "FIELD")]
    video: Vec<String>,
    /// Field with the first second of the part of each video to check
    #[arg(long, value_name = "FIELD")]
    start_field: Option<String>,
    /// Field with the second before which the part of each video ends
    #[arg(long, value_name = "FIELD")]
    end_field: Option<String>,
    /// Write the indices of undamaged samples to this file, one per line. Written atomically; an existing
    /// file is replaced.
    #[arg(long, value_name = "FILE", value_parser = output::local())]
    write_indices: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: InFolder,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let dataset = args.folder.open(&args.file)?;
    let source = dataset.source().ok_or_else(|| Problem::InSequence { path: args.file.clone() })?;
    if let Some(path) = &args.write_indices {
        output::refuse_input(path, &args.file, source.paths())?;
    }
    // The file is created before hours of work, not after, because creating it may fail.
    let indices = args.write_indices.as_deref().map(Indices::new).transpose()?;
    let start = Instant::now();
    let options = VerifyOptions {
        threads: args.threads,
        limit: args.limit,
        audio: args.audio.clone(),
        video: args.video.clone(),
        start_field: args.start_field.clone(),
        end_field: args.end_field.clone(),
        ..VerifyOptions::default()
    };
    let template = "{wide_bar} {human_pos}/{human_len} samples, {per_sec}, {eta} left";
    let bar = bar(source.len().min(args.limit.unwrap_or(u64::MAX)), template);
    let outcome = verify_with_tables(&dataset, &*source, &options, &|samples| bar.inc(samples));
    bar.finish_and_clear();
    let (report, seconds) = (outcome?, start.elapsed().as_secs_f64());
    if let Some(indices) = indices {
        indices.write(&report)?;
    }
    if args.json {
        say_json(&as_json(args, &report, seconds))?;
    } else {
        say(&in_words(args, &report, seconds))?;
    }
    if report.is_whole() {
        return Ok(());
    }
    Err(Problem::Damaged {
        path: args.file.clone(),
        samples: report.damaged_samples,
        has_list: args.write_indices.is_some(),
    })
}

/// A list of samples in a file that appears at its path when it is complete.
struct Indices<'a> {
    path: &'a Path,
    partial: tempfile::NamedTempFile,
}

impl<'a> Indices<'a> {
    fn new(path: &'a Path) -> Result<Self, Problem> {
        Ok(Self { path, partial: temporary_file(path).map_err(Problem::io(path))? })
    }

    fn write(mut self, report: &VerifyReport) -> Result<(), Problem> {
        put_indices(self.partial.as_file_mut(), report).map_err(Problem::io(self.path))?;
        let persisted = self.partial.persist(self.path);
        persisted.map_err(|error| Problem::io(self.path)(error.error))?;
        Ok(())
    }
}

fn put_indices(file: &mut File, report: &VerifyReport) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    report.good().try_for_each(|sample| writeln!(out, "{sample}"))?;
    out.flush()
}

/// Returns the report with the name of the dataset and the speed in its first line.
fn in_words(args: &Args, report: &VerifyReport, seconds: f64) -> String {
    let path = args.file.to_string_lossy();
    #[expect(clippy::cast_precision_loss, reason = "rates, shown rounded")]
    let [samples, megabytes] =
        [report.samples as f64, report.bytes as f64 / 1e6].map(|n| rate(n / seconds.max(1e-9)));
    let speed = format!(" in {seconds:.2} s, {samples} samples/s, {megabytes} MB/s\n");
    let text = format!("{}: {report}", Escaped(&path)).replacen('\n', &speed, 1);
    in_command(&text).into_owned()
}

fn as_json(args: &Args, report: &VerifyReport, seconds: f64) -> Value {
    let mut json = report_json(report);
    for damaged in json["damaged"].as_array_mut().into_iter().flatten() {
        for key in ["error", "text"] {
            damaged[key] = damaged[key].as_str().map(in_command).into();
        }
    }
    json["name"] = args.file.to_string_lossy().into();
    json["seconds"] = seconds.into();
    json
}
