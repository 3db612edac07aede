//! `fuseloop diff`: names the first batch in which two logs of fingerprints differ, and why.

use super::print::{counted, say};
use super::problem::Problem;
use fuseloop::internals::loader::{LogComparison, LogDifference, RepeatedLines, diff};
use fuseloop::internals::source::Escaped;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Name the first batch that differs between two logs of fingerprints
///
/// A log is written by `log_fingerprints` of a loader, in Rust and Python: one line of JSON for each batch. The cause is the
/// dataset, the seed, the op of the plan, the batch size, the ranks, the order or the samples. A log that begins later,
/// as that of a resumed run, is compared from there on. The exit code is 1 if the logs differ, or if a resumed run
/// repeats a batch with another fingerprint.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop diff monday.jsonl tuesday.jsonl
  fuseloop diff monday/rank3.jsonl tuesday/rank3.jsonl > report.txt")]
pub(super) struct Args {
    /// Path of the first log
    #[arg(value_name = "A.jsonl")]
    first: PathBuf,
    /// Path of the second log
    #[arg(value_name = "B.jsonl")]
    second: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let logs = [args.first.as_path(), &args.second];
    let LogComparison { equal, before, repeated, difference } = diff(logs[0], logs[1])?;
    let mut text = String::new();
    match &difference {
        None => {
            let _ = writeln!(text, "the same {}", counted(equal, "batch"));
        }
        Some(found) => describe(&mut text, found, equal, logs),
    }
    for (path, before) in logs.into_iter().zip(before).filter(|(_, before)| *before > 0) {
        let (path, batches) = (shown(path), counted(before, "batch"));
        let _ = writeln!(text, "{path}: {batches} before the first of the other log, not compared");
    }
    for (path, RepeatedLines { count, changed }) in logs.into_iter().zip(repeated) {
        let path = shown(path);
        if count > 0 {
            let (lines, verb) =
                (counted(count, "line"), if count == 1 { "repeats" } else { "repeat" });
            let _ = writeln!(text, "{path}: {lines} {verb} a batch, as of a run that was resumed");
        }
        if let Some((line, (epoch, batch))) = changed {
            let _ = writeln!(
                text,
                "{path}: line {line} repeats epoch {epoch}, batch {batch} with another fingerprint"
            );
        }
    }
    say(&text)?;
    let of_logs = difference.map(|LogDifference { epoch, batch, .. }| (epoch, batch));
    let of_repeated = || repeated.iter().find_map(|lines| Some(lines.changed?.1));
    match of_logs.or_else(of_repeated) {
        Some((epoch, batch)) => Err(Problem::LogsDiffer { epoch, batch }),
        None => Ok(()),
    }
}

fn describe(text: &mut String, found: &LogDifference, equal: u64, logs: [&Path; 2]) {
    let LogDifference { epoch, batch, lines, causes } = found;
    let _ = writeln!(
        text,
        "epoch {epoch}, batch {batch} differs, after {} that {} the same",
        counted(equal, "batch"),
        if equal == 1 { "is" } else { "are" }
    );
    for (path, line) in logs.into_iter().zip(lines) {
        let line = line.map_or("at its end".to_owned(), |line| format!("line {line}"));
        let _ = writeln!(text, "  {}: {line}", shown(path));
    }
    for (cause, number) in causes.iter().zip(0..) {
        let word = if number == 0 { "cause" } else { "also" };
        let _ = writeln!(text, "  {word}: {cause}");
    }
}

fn shown(path: &Path) -> String {
    Escaped(&path.display().to_string()).to_string()
}
