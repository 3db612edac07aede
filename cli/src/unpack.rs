//! `fuseloop unpack`: copies a dataset and restores JPEGs from bit planes.

use super::number;
use super::output;
use super::print::{WriteBar, counted, say};
use super::problem::Problem;
use super::recut::{add_skipped, head};
use super::write::OnDamage;
use fuseloop::write::{SizeChange, UnpackOptions, unpack_beton};
use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
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
    /// Number of threads [default: one per core]. Does not affect the output.
    #[arg(long, short = 'j', value_parser = number::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,
    /// How to handle unreadable samples
    #[arg(long, value_enum, default_value_t = OnDamage::Fail)]
    damaged: OnDamage,
    /// Replace an existing output
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let bar = WriteBar::new("samples");
    let options = UnpackOptions {
        threads: args.threads,
        damaged: args.damaged.into(),
        progress: bar.progress(),
        overwrite: args.overwrite,
        ..UnpackOptions::default()
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
