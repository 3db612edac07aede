//! `fuseloop verify`: reads every value of a dataset, decodes every image, and reports what is damaged.

use super::folder::InFolder;
use super::number;
use super::output;
use super::print::{bar, bytes, count, counted, json_text, rate, say};
use super::problem::Problem;
use super::words::in_command;
use fuseloop::internals::source::beton::Allocation;
use fuseloop::internals::source::beton::{OpenError, SourceError};
use fuseloop::internals::source::{Escaped, temporary_file};
use fuseloop::internals::verify::{
    DamageKindExt as _, DegenerateKindExt as _, Finding, LayoutReport, layout,
};
use fuseloop::source::{Beton, Dataset};
use fuseloop::verify::{DamagedValue, DegenerateObject, VerifyOptions, VerifyReport, verify};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The number of damaged values listed in the text report; `--json` lists all that the report stores.
const LISTED: usize = 50;

/// Check every value of a dataset, and decode every image completely
///
/// Counts the damaged values by kind, and lists them with sample, field and position in the file. The exit
/// code is 1 if anything is damaged.
///
/// Harmless findings, such as unused space or empty boxes, are listed as notes. Only TFRecord has checksums;
/// in other formats a changed number or byte cannot be detected.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop verify train.beton
  fuseloop verify train.beton --limit 10000               # only the first samples
  fuseloop verify train.beton --write-indices good.txt    # the samples to train on
  fuseloop verify 'train-{000..255}.tar'
  fuseloop verify train.beton --json | jq .damaged")]
pub(super) struct Args {
    /// Dataset: .beton file, folder, table, tar, TFRecord, MNIST, CIFAR or annotations
    #[arg(value_name = "DATASET")]
    file: PathBuf,
    /// Number of threads [default: one per core]. Does not affect the report.
    #[arg(long, short = 'j', value_parser = number::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,
    /// Check only the first N samples
    #[arg(long, value_name = "N", value_parser = number::at_least_one::<u64>)]
    limit: Option<u64>,
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

/// The complete report.
struct Checked {
    all: u64,
    values: VerifyReport,
    /// The report on the tables of a .beton file.
    tables: Option<LayoutReport>,
    took: Duration,
}

impl Checked {
    fn is_whole(&self) -> bool {
        self.values.is_whole() && self.tables.as_ref().is_none_or(LayoutReport::is_whole)
    }
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
    let tables = match &dataset {
        Dataset::Beton(beton) => Some(tables(&args.file, beton)?),
        _ => None,
    };
    let options =
        VerifyOptions { threads: args.threads, limit: args.limit, ..VerifyOptions::default() };
    let template = "{wide_bar} {human_pos}/{human_len} samples, {per_sec}, {eta} left";
    let bar = bar(source.len().min(args.limit.unwrap_or(u64::MAX)), template);
    let outcome = verify(&*source, &options, &|samples| bar.inc(samples));
    bar.finish_and_clear();
    let checked = Checked { all: source.len(), values: outcome?, tables, took: start.elapsed() };
    if let Some(indices) = indices {
        indices.write(&checked.values)?;
    }
    let text =
        if args.json { json_text(&as_json(args, &checked)) } else { in_words(args, &checked) };
    say(&text)?;
    if checked.is_whole() {
        return Ok(());
    }
    Err(Problem::Damaged {
        path: args.file.clone(),
        samples: checked.values.damaged_samples,
        has_list: args.write_indices.is_some(),
    })
}

/// Checks the tables of a file against each other.
fn tables(path: &Path, beton: &Beton) -> Result<LayoutReport, fuseloop::Error> {
    layout(beton).map_err(|kind| {
        let kind = OpenError::from(kind).into();
        SourceError { path: path.to_owned(), kind }.into()
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

fn in_words(args: &Args, checked: &Checked) -> String {
    let path = Escaped(&args.file.to_string_lossy()).to_string();
    let Checked { all, values, tables, took } = checked;
    let mut text = format!("{path}: {} checked", counted(values.samples, "sample"));
    if values.samples < *all {
        let _ = write!(text, " of {}", count(*all));
    }
    let seconds = took.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "rates, shown rounded")]
    let [samples, megabytes] =
        [values.samples as f64, values.bytes as f64 / 1e6].map(|n| rate(n / seconds.max(1e-9)));
    let _ = writeln!(
        text,
        " in {seconds:.2} s, {samples} samples/s, {megabytes} MB/s\n{}, {} read, {} decoded",
        counted(values.values, "value"),
        bytes(values.bytes),
        counted(values.pictures, "image"),
    );
    if checked.is_whole() {
        text.push_str("no damage found\n");
    }
    add_damage(&mut text, values);
    add_degenerate(&mut text, values);
    if let Some(tables) = tables {
        add_tables(&mut text, tables);
    }
    text
}

fn add_damage(text: &mut String, report: &VerifyReport) {
    if report.is_whole() {
        return;
    }
    let [samples, values] = [
        counted(report.damaged_samples, "damaged sample"),
        counted(report.damaged_values(), "damaged value"),
    ];
    let _ = writeln!(text, "\n{samples}, {values}:");
    for (trouble, found) in &report.troubles {
        let _ = writeln!(text, "  {trouble}: {}", count(*found));
    }
    text.push('\n');
    for damaged in report.first.iter().take(LISTED) {
        let _ = writeln!(text, "  {}", Escaped(&in_command(&damaged.to_string())));
    }
    let more = report.damaged_values().saturating_sub(LISTED as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {} more (`--json` lists up to 1,000)", count(more));
    }
}

/// Adds the objects that train nothing; adds nothing if there are none.
fn add_degenerate(text: &mut String, report: &VerifyReport) {
    let all: u64 = report.degenerate.values().sum();
    for (kind, found) in &report.degenerate {
        let _ = writeln!(text, "note: {kind}: {}", count(*found));
    }
    for object in report.first_degenerate.iter().take(LISTED) {
        let _ = writeln!(text, "  {}", Escaped(&object.to_string()));
    }
    let more = all.saturating_sub(LISTED as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {} more (`--json` lists up to 1,000)", count(more));
    }
}

/// Adds the findings about the tables; adds nothing if there are none.
fn add_tables(text: &mut String, tables: &LayoutReport) {
    let at = |record: &Allocation| format!("at byte {}", record.ptr);
    let lines = [
        line(
            "damaged: overlapping records of the allocation table",
            &tables.overlapping,
            |[_, record]| at(record),
        ),
        line("damaged: records of the allocation table outside the data", &tables.outside, at),
        line("note: records of missing samples", &tables.no_sample, at),
        line(
            "note: values in two pages, which FFCV can't read with `os_cache=False`",
            &tables.across_pages,
            at,
        ),
        line(
            "note: samples in several pages, which FFCV can't read with `os_cache=False`",
            &tables.several_pages,
            |sample| format!("is sample {sample}"),
        ),
        line("note: values shared by several samples", &tables.shared, |[a, b]| {
            format!("of samples {a} and {b}")
        }),
        line("note: records that no sample refers to", &tables.unreferenced, at),
    ];
    text.extend(lines.into_iter().flatten());
}

/// Returns a line such as `note: records that no sample refers to: 3, 12.1 kB, the first at byte 8192`.
fn line<T>(what: &str, finding: &Finding<T>, first: impl Fn(&T) -> String) -> Option<String> {
    let location = first(finding.first.as_ref()?);
    let (found, size) = (count(finding.count), bytes(finding.bytes));
    Some(format!("{what}: {found}, {size}, the first {location}\n"))
}

fn as_json(args: &Args, checked: &Checked) -> Value {
    let Checked { all, values, tables, took } = checked;
    let troubles = values.troubles.iter();
    let troubles: serde_json::Map<String, Value> =
        troubles.map(|(trouble, found)| (trouble.word().to_owned(), json!(found))).collect();
    let damaged = |damaged: &DamagedValue| {
        json!({
            "sample": damaged.sample.0,
            "field": damaged.field,
            "file": damaged.location.as_ref().and_then(|location| location.file.as_deref()),
            "key": damaged.location.as_ref().and_then(|location| location.key.as_deref()),
            "offset": damaged.offset,
            "trouble": damaged.kind.word(),
            "error": in_command(&damaged.error.to_string()),
        })
    };
    let degenerate: serde_json::Map<String, Value> = values
        .degenerate
        .iter()
        .map(|(kind, found)| (kind.word().to_owned(), json!(found)))
        .collect();
    let object = |object: &DegenerateObject| {
        json!({
            "sample": object.sample.0,
            "field": object.field,
            "file": object.location.as_ref().and_then(|location| location.file.as_deref()),
            "key": object.location.as_ref().and_then(|location| location.key.as_deref()),
            "object": object.object,
            "annotation": object.annotation,
            "kind": object.kind.word(),
            "text": object.text,
        })
    };
    json!({
        "file": args.file.to_string_lossy(),
        "is_whole": checked.is_whole(),
        "samples": all,
        "checked_samples": values.samples,
        "checked_values": values.values,
        "decoded_pictures": values.pictures,
        "decoded_pixels": values.pixels,
        "bytes": values.bytes,
        "seconds": took.as_secs_f64(),
        "damaged_samples": values.damaged_samples,
        "damaged_values": values.damaged_values(),
        "troubles": troubles,
        "damaged": values.first.iter().map(damaged).collect::<Vec<_>>(),
        "degenerate": degenerate,
        "degenerate_objects": values.first_degenerate.iter().map(object).collect::<Vec<_>>(),
        "tables": tables.as_ref().map(tables_json),
    })
}

fn tables_json(tables: &LayoutReport) -> Value {
    fn found<T>(finding: &Finding<T>, first: impl Fn(&T) -> Value) -> Value {
        json!({
            "count": finding.count,
            "bytes": finding.bytes,
            "first": finding.first.as_ref().map(first),
        })
    }
    let record = |record: &Allocation| json!({ "sample": record.sample, "offset": record.ptr, "bytes": record.size });
    json!({
        "records": tables.records,
        "page_bytes": tables.page_bytes,
        "value_bytes": tables.value_bytes,
        "overlapping": found(&tables.overlapping, |[a, b]| json!([record(a), record(b)])),
        "outside": found(&tables.outside, record),
        "no_sample": found(&tables.no_sample, record),
        "across_pages": found(&tables.across_pages, record),
        "several_pages": found(&tables.several_pages, |sample| json!(sample.0)),
        "shared": found(&tables.shared, |[a, b]| json!([a.0, b.0])),
        "unreferenced": found(&tables.unreferenced, record),
    })
}
