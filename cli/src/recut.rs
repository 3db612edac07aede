//! `fuseloop recut`: copies a dataset and re-cuts its JPEGs, or stores them as bit planes. The functions that report re-cutting are
//! shared with `fuseloop write`.

use super::folder::{OnLinks, add_links};
use super::output::{self, OutputArgs};
use super::print::{WriteBar, bytes, count, counted, rate, say};
use super::problem::Problem;
use super::stored::{BIT_PLANES, RE_CUT};
use clap::ValueEnum;
use fuseloop::internals::source::Escaped;
use fuseloop::recut::Tile;
use fuseloop::write::{
    CountedList, ImageOptions, RecutFolderReport, SizeChange, SkippedSample, UnchangedJpeg,
    WriteOptions, WriteReport, recut_beton, recut_folder,
};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Re-cut the JPEGs of a dataset so that crops decode faster
///
/// No pixel changes: only a restart marker is added every `--tile` pixels, and the coded bytes are packed
/// again. Any decoder reads the result. JPEGs that cannot be re-cut are copied unchanged.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop recut imagenet/train tiled/train       # a folder: the same names in a new folder
  fuseloop recut train.beton tiled.beton          # the same samples, in the same format
  fuseloop recut train.beton tiled.beton --tile row
  fuseloop recut train.beton planes.beton --write-mode planes    # bit planes: crops decode in half that time
  fuseloop write imagenet/train train.beton --write-mode tiled   # in one step")]
pub(super) struct Args {
    /// Input folder (with its subfolders) or .beton file
    src: PathBuf,
    /// Output folder or .beton file
    #[arg(value_parser = output::local())]
    dst: PathBuf,
    /// How to store JPEGs
    #[arg(long, value_enum, default_value_t = RecutMode::Tiled)]
    write_mode: RecutMode,
    /// Pixels between restart markers (bit planes: tile width), or `row`
    #[arg(long, value_name = "PIXELS", default_value_t)]
    tile: Tile,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    in_folder: OnLinks,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RecutMode {
    /// JPEGs with restart markers, readable by any decoder
    Tiled,
    /// Bit planes, in a .beton file that FFCV cannot read. `fuseloop unpack` restores the JPEGs byte for
    /// byte.
    Planes,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let is_folder = fs::metadata(&args.src).is_ok_and(|found| found.is_dir());
    let bit_planes = args.write_mode == RecutMode::Planes;
    if is_folder && bit_planes {
        return Err(Problem::FolderOfPlanes { path: args.src.clone() });
    }
    let bar = WriteBar::new(if is_folder { "files" } else { "samples" });
    let image = ImageOptions { tile: Some(args.tile), bit_planes, ..ImageOptions::default() };
    let options = WriteOptions {
        image,
        threads: args.output.threads,
        on_damaged: args.output.on_damaged,
        progress: bar.progress(),
        links: args.in_folder.links(),
        overwrite: args.output.overwrite,
        ..WriteOptions::default()
    };
    let start = Instant::now();
    if is_folder {
        let report = recut_folder(&args.src, &args.dst, &options)?;
        drop(bar);
        return say(&folder_summary(&args.dst, &report, start.elapsed()));
    }
    let report = recut_beton(&args.src, &args.dst, &options)?;
    drop(bar);
    let before = fs::metadata(&args.src).map_err(Problem::io(&args.src))?.len();
    let rewritten = if bit_planes { BIT_PLANES } else { RE_CUT };
    say(&beton_summary(&args.dst, before, (&report, rewritten), start.elapsed()))
}

fn folder_summary(dst: &Path, report: &RecutFolderReport, took: Duration) -> String {
    let jpegs = report.recut + report.unchanged.count;
    let mut text = head(dst, jpegs, report.bytes, took);
    add_recut(&mut text, RE_CUT, report.recut, report.recut_bytes);
    if report.copied > 0 {
        let _ = writeln!(text, "{} copied", counted(report.copied, "other file"));
    }
    let unchanged = report.unchanged.first.iter();
    let unchanged = unchanged.map(|file| format!("{}: {}", file.path.display(), file.cause));
    add_list(&mut text, "kept unchanged", "JPEG", report.unchanged.count, unchanged);
    add_skipped(&mut text, "unreadable file", &report.skipped);
    add_links(&mut text, &report.links);
    let ignored = report.ignored.first.iter();
    let ignored = ignored.map(|(path, reason)| format!("{}: {reason}", path.display()));
    add_list(&mut text, "ignored", "other name", report.ignored.count, ignored);
    text
}

fn beton_summary(
    dst: &Path,
    before: u64,
    (report, rewritten): (&WriteReport, &str),
    took: Duration,
) -> String {
    let jpegs = report.recut + report.unchanged.count;
    let mut text = head(dst, jpegs, SizeChange { before, after: report.bytes }, took);
    let _ = writeln!(
        text,
        "{} in {}",
        counted(report.samples, "sample"),
        counted(report.pages, "page")
    );
    add_recut(&mut text, rewritten, report.recut, report.recut_bytes);
    add_unchanged(&mut text, &report.unchanged);
    add_skipped(&mut text, "damaged sample", &report.skipped);
    text
}

/// Returns the first line of the report.
pub(super) fn head(dst: &Path, jpegs: u64, change: SizeChange, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate, shown rounded")]
    let speed = rate(jpegs as f64 / seconds.max(1e-9));
    format!(
        "{}: {}, {} in {seconds:.2} s, {speed} images/s\n",
        Escaped(&dst.to_string_lossy()),
        counted(jpegs, "JPEG"),
        changed(change),
    )
}

/// Adds the number of JPEGs that are `rewritten`, and how their size changed.
pub(super) fn add_recut(text: &mut String, rewritten: &str, recut: u64, change: SizeChange) {
    let _ = writeln!(text, "{} {rewritten}: {}", counted(recut, "JPEG"), changed(change));
}

/// Adds the JPEGs that were not re-cut, and the reasons.
pub(super) fn add_unchanged(text: &mut String, unchanged: &CountedList<UnchangedJpeg>) {
    let lines = unchanged.first.iter().map(|jpeg| {
        let path = jpeg.path.as_ref().map_or_else(String::new, |p| format!("{} ", p.display()));
        format!("{path}(sample {}, {}): {}", jpeg.sample, jpeg.field, jpeg.cause)
    });
    add_list(text, "kept unchanged", "JPEG", unchanged.count, lines);
}

/// Adds the samples that were left out, and the reasons.
pub(super) fn add_skipped(text: &mut String, noun: &str, skipped: &CountedList<SkippedSample>) {
    let lines = skipped.first.iter().map(|sample| {
        let path = sample.path.as_ref().map_or_else(String::new, |p| format!("{} ", p.display()));
        format!("{path}(sample {}): {}", sample.sample, sample.cause)
    });
    add_list(text, "skipped", noun, skipped.count, lines);
}

/// Adds the number of entries, and the first of them.
pub(super) fn add_list(
    text: &mut String,
    what: &str,
    noun: &str,
    all: u64,
    first: impl ExactSizeIterator<Item = String>,
) {
    if all == 0 {
        return;
    }
    let more = all.saturating_sub(first.len() as u64);
    let _ = writeln!(text, "{what} {}:", counted(all, noun));
    for line in first {
        let _ = writeln!(text, "  {}", Escaped(&line));
    }
    if more > 0 {
        let _ = writeln!(text, "  and {} more", count(more));
    }
}

/// Formats a change of size: `22.9 MB to 22.1 MB (-3.5 %)`.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn changed(change: SizeChange) -> String {
    let SizeChange { before, after } = change;
    let percent = (after as f64 - before as f64) / (before.max(1) as f64) * 100.0;
    format!("{} to {} ({percent:+.1} %)", bytes(before), bytes(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_a_sign() {
        assert_eq!(changed(SizeChange { before: 2000, after: 1900 }), "2.0 kB to 1.9 kB (-5.0 %)");
        assert_eq!(
            changed(SizeChange { before: 100, after: 103 }),
            "100 bytes to 103 bytes (+3.0 %)"
        );
        assert_eq!(changed(SizeChange::default()), "0 bytes to 0 bytes (+0.0 %)");
    }
}
