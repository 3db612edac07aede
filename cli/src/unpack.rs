//! `fuseloop unpack`: copies a dataset and restores JPEGs from bit planes.

use super::output::{self, OutputArgs};
use super::print::{WriteBar, counted, say};
use super::problem::Problem;
use super::recut::{add_skipped, head};
use fuseloop::write::{SizeChange, WriteOptions, unpack_beton};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// Restore the JPEGs of a .beton file with bit planes
///
/// The JPEGs are restored byte for byte, and FFCV can read the output. `fuseloop convert` also restores them
/// when it writes another format.
#[derive(clap::Args)]
#[command(after_help = "Example:
  fuseloop unpack planes.beton train.beton")]
pub(super) struct Args {
    /// Input .beton file
    src: PathBuf,
    /// Output .beton file
    #[arg(value_parser = output::local())]
    dst: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let bar = WriteBar::new("samples");
    let options = WriteOptions {
        threads: args.output.threads,
        on_damaged: args.output.on_damaged,
        progress: bar.progress(),
        overwrite: args.output.overwrite,
        ..WriteOptions::default()
    };
    let start = Instant::now();
    let report = unpack_beton(&args.src, &args.dst, &options)?;
    drop(bar);
    let before = fs::metadata(&args.src).map_err(Problem::io(&args.src))?.len();
    let change = SizeChange { before, after: report.bytes };
    let mut text = head(&args.dst, report.passed_through, change, start.elapsed());
    let _ = writeln!(
        text,
        "{} in {}",
        counted(report.samples, "sample"),
        counted(report.pages, "page")
    );
    add_skipped(&mut text, "damaged sample", &report.skipped);
    say(&text)
}
