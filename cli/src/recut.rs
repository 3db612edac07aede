//! `fuseloop recut`: copies a folder and re-cuts its JPEGs. The functions that report what was written are shared with
//! `fuseloop convert`.

use super::folder::{OnLinks, add_links};
use super::output::{self, OutputArgs};
use super::print::{WriteBar, bytes, count, counted, rate, say};
use super::problem::Problem;
use super::stored::RE_CUT;
use fuseloop::internals::source::Escaped;
use fuseloop::recut::{Tile, Unchanged};
use fuseloop::write::{
    CountedList, Ignored, ImageOptions, RecutFolderReport, SizeChange, SkippedSample,
    UnchangedCause, UnchangedJpeg, WriteOptions, recut_folder,
};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Copy a folder with its JPEGs re-cut so that crops decode faster
///
/// No pixel changes: only a restart marker is added every `--tile` pixels, and the coded bytes are packed
/// again. Any decoder reads the result. JPEGs that cannot be re-cut, and other files, are copied unchanged.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop recut imagenet/train tiled/train       # the same names in a new folder
  fuseloop convert train.beton tiled.beton --write-mode tiled      # the same for a .beton file
  fuseloop convert imagenet/train train.beton --write-mode tiled   # in one step")]
pub(super) struct Args {
    /// Input folder, with its subfolders
    src: PathBuf,
    /// Output folder
    #[arg(value_parser = output::local())]
    dst: PathBuf,
    /// Pixels between restart markers, or `row`
    #[arg(long, value_name = "PIXELS", default_value_t)]
    tile: Tile,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    in_folder: OnLinks,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    if args.src.is_file() {
        return Err(Problem::Refused {
            message: format!("{}: a file, expected a folder", args.src.display()),
            help: "`fuseloop convert SRC DST --write-mode tiled` re-cuts the JPEGs of a dataset",
        });
    }
    let bar = WriteBar::new("files");
    let options = WriteOptions {
        image: ImageOptions { tile: Some(args.tile), ..ImageOptions::default() },
        threads: args.output.threads,
        on_damaged: args.output.on_damaged,
        progress: bar.progress(),
        links: args.in_folder.links(),
        overwrite: args.output.overwrite,
        ..WriteOptions::default()
    };
    let start = Instant::now();
    let report = recut_folder(&args.src, &args.dst, &options)?;
    drop(bar);
    say(&folder_summary(&args.dst, &report, start.elapsed()))
}

fn folder_summary(dst: &Path, report: &RecutFolderReport, took: Duration) -> String {
    let jpegs = report.recut + report.unchanged.count;
    let seconds = took.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate, shown rounded")]
    let speed = rate(jpegs as f64 / seconds.max(1e-9));
    let mut text = format!(
        "{}: {}, {} in {seconds:.2} s, {speed} images/s\n",
        Escaped(&dst.to_string_lossy()),
        counted(jpegs, "JPEG"),
        changed(report.bytes),
    );
    add_recut(&mut text, RE_CUT, report.recut, report.recut_bytes);
    if report.copied > 0 {
        let _ = writeln!(text, "{} copied", counted(report.copied, "other file"));
    }
    let unchanged = report.unchanged.first.iter().take(MOST_UNCHANGED);
    let unchanged = unchanged.map(|file| format!("{}: {}", file.path.display(), file.cause));
    add_list(&mut text, "kept unchanged", "JPEG", report.unchanged.count, unchanged);
    add_skipped(&mut text, "unreadable file", &report.skipped);
    add_links(&mut text, &report.links);
    add_ignored(&mut text, "other name", &report.ignored);
    text
}

/// The most JPEGs that are listed with the reason for which they were not rewritten.
const MOST_UNCHANGED: usize = 10;

/// Adds the number of JPEGs that are `rewritten`, and how their size changed, if there are any.
pub(super) fn add_recut(text: &mut String, rewritten: &str, recut: u64, change: SizeChange) {
    if recut > 0 {
        let _ = writeln!(text, "{} {rewritten}: {}", counted(recut, "JPEG"), changed(change));
    }
}

/// Adds the JPEGs that were not re-cut, and the reasons.
pub(super) fn add_unchanged(text: &mut String, unchanged: &CountedList<UnchangedJpeg>) {
    let lines = unchanged.first.iter().take(MOST_UNCHANGED).map(|jpeg| {
        let path = jpeg.path.as_ref().map_or_else(String::new, |p| format!("{} ", p.display()));
        format!("{path}(sample {}, {}): {}", jpeg.sample, jpeg.field, jpeg.cause)
    });
    add_list(text, "kept unchanged", "JPEG", unchanged.count, lines);
    let is_of_scans =
        |jpeg: &UnchangedJpeg| jpeg.cause == UnchangedCause::Jpeg(Unchanged::SeveralScans);
    if unchanged.first.iter().any(is_of_scans) {
        text.push_str(
            "`fuseloop recut`, or `--write-mode tiled`, first makes such JPEGs ones of a single scan, whose bit planes can be \
             stored\n",
        );
    }
}

/// Adds the samples that were left out, and the reasons.
pub(super) fn add_skipped(text: &mut String, noun: &str, skipped: &CountedList<SkippedSample>) {
    let lines = skipped.first.iter().map(|sample| {
        let path = sample.path.as_ref().map_or_else(String::new, |p| format!("{} ", p.display()));
        format!("{path}(sample {}): {}", sample.sample, sample.cause)
    });
    add_list(text, "skipped", noun, skipped.count, lines);
}

/// Adds the files of a folder that were ignored, and the reasons.
pub(super) fn add_ignored(text: &mut String, noun: &str, ignored: &Ignored) {
    let lines = ignored.first.iter();
    let lines = lines.map(|(path, reason)| format!("{}: {reason}", path.display()));
    add_list(text, "ignored", noun, ignored.count, lines);
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
pub(super) fn changed(change: SizeChange) -> String {
    let SizeChange { before, after } = change;
    let percent = (after as f64 - before as f64) / (before.max(1) as f64) * 100.0;
    format!("{} to {} ({percent:+.1} %)", bytes(before), bytes(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop::SampleId;

    #[test]
    fn a_few_unchanged_jpegs_are_listed_with_what_helps() {
        let mut list = CountedList { count: 1200, first: vec![] };
        for sample in 0..100 {
            let cause = UnchangedCause::Jpeg(Unchanged::SeveralScans);
            let field = "image".to_owned();
            list.first.push(UnchangedJpeg { sample: SampleId(sample), field, path: None, cause });
        }
        let mut text = String::new();
        add_unchanged(&mut text, &list);
        assert!(
            text.starts_with("kept unchanged 1,200 JPEGs:\n  (sample 0, image): it is"),
            "{text}"
        );
        assert!(text.contains("(sample 9, image)") && !text.contains("sample 10,"), "{text}");
        assert!(text.contains("  and 1,190 more\n`fuseloop recut`"), "{text}");
    }

    #[test]
    fn no_jpegs_are_no_line() {
        let mut text = String::new();
        add_recut(&mut text, RE_CUT, 0, SizeChange::default());
        assert_eq!(text, "");
    }

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
