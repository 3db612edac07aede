//! `fuseloop concat`, `split` and `subset`: concatenate, split and select from `.beton` files.

use super::number;
use super::output::{self, OutputArgs};
use super::print::{WriteBar, bytes, counted, say};
use super::problem::Problem;
use super::recut::add_skipped;
use fuseloop::internals::source::Escaped;
use fuseloop::internals::write::{Split, concat_beton, split_beton, subset_beton};
use fuseloop::source::{Beton, OpenOptions, Source as _};
use fuseloop::write::{WriteOptions, WriteReport};
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The maximum number of samples in a range, so that a typing error does not fill the memory.
const MOST: u64 = 1 << 32;

/// Returns the options for writing files.
fn options(output: &OutputArgs, bar: &WriteBar) -> WriteOptions {
    WriteOptions {
        threads: output.threads,
        on_damaged: output.on_damaged,
        overwrite: output.overwrite,
        progress: bar.progress(),
        ..WriteOptions::default()
    }
}

/// Concatenate .beton files
///
/// The files must have the same fields. Values are copied byte for byte, without decoding.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop concat a.beton b.beton both.beton
  fuseloop concat part-*.beton whole.beton --overwrite")]
pub(super) struct ConcatArgs {
    /// Input .beton files, followed by the output file
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Split a .beton file into parts of consecutive samples
///
/// Values are copied byte for byte, without decoding.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop split train.beton --parts 4                 # train-000.beton to train-003.beton
  fuseloop split train.beton --at 0.9                  # nine tenths, and a tenth
  fuseloop split train.beton 'part-{00}.beton' --at 0.8,0.1")]
pub(super) struct SplitArgs {
    /// Input .beton file
    src: PathBuf,
    /// Names of the parts [default: SRC-{000}.beton next to SRC]
    #[arg(value_parser = output::local())]
    template: Option<PathBuf>,
    /// Number of parts, of equal sample counts
    #[arg(long, value_name = "N", required_unless_present = "at", conflicts_with = "at", value_parser = number::at_least_one::<u64>)]
    parts: Option<u64>,
    /// Shares of the samples; the remainder is one more part
    #[arg(long, value_name = "SHARE,..", value_delimiter = ',')]
    at: Vec<f64>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Copy selected samples of a .beton file, in the given order
///
/// Values are copied byte for byte, without decoding.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop subset train.beton few.beton --indices 0..1000
  fuseloop subset train.beton three.beton --indices 4,0,17
  fuseloop subset train.beton tenth.beton --every 10
  fuseloop verify train.beton --write-indices good.txt
  fuseloop subset train.beton good.beton --indices good.txt")]
pub(super) struct SubsetArgs {
    /// Input .beton file
    src: PathBuf,
    /// Output .beton file
    #[arg(value_parser = output::local())]
    out: PathBuf,
    /// Samples: A..B (B excluded), a list (0,5,7), or a file of numbers
    #[arg(long, value_name = "A..B|N,..|FILE", required_unless_present = "every")]
    indices: Option<String>,
    /// Take every K-th sample
    #[arg(long, value_name = "K", conflicts_with = "indices", value_parser = number::at_least_one::<NonZeroUsize>)]
    every: Option<NonZeroUsize>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn concat(args: &ConcatArgs) -> Result<(), Problem> {
    let Some((out, files)) = args.files.split_last() else { return Ok(()) };
    let bar = WriteBar::new("samples");
    let report = concat_beton(files, out, &options(&args.output, &bar))?;
    drop(bar);
    say(&summary(out, &report))
}

pub(super) fn split(args: &SplitArgs) -> Result<(), Problem> {
    let split = args.parts.map_or_else(|| Split::At(args.at.clone()), Split::Parts);
    let template = args.template.clone().unwrap_or_else(|| {
        let mut name = args.src.file_stem().unwrap_or_default().to_owned();
        name.push("-{000}.beton");
        args.src.with_file_name(name)
    });
    let bar = WriteBar::new("samples");
    let options = options(&args.output, &bar);
    let parts = split_beton(&args.src, &split, template, &options)?;
    drop(bar);
    let text: String = parts.iter().map(|(path, report)| summary(path, report)).collect();
    say(&text)
}

pub(super) fn subset(args: &SubsetArgs) -> Result<(), Problem> {
    let samples = match (&args.indices, args.every) {
        (Some(text), _) => {
            output::refuse_input(&args.out, &args.src, [PathBuf::from(text)])?;
            indices(text)?
        }
        (None, every) => {
            let file = Beton::open(&args.src, &OpenOptions::default())?;
            (0..file.facts().samples).step_by(every.map_or(1, NonZeroUsize::get)).collect()
        }
    };
    let bar = WriteBar::new("samples");
    let report = subset_beton(&args.src, &samples, &args.out, &options(&args.output, &bar))?;
    drop(bar);
    say(&summary(&args.out, &report))
}

/// Returns the samples of a range, of a list, or of a file.
fn indices(text: &str) -> Result<Vec<u64>, Problem> {
    if let Some((from, to)) = text.split_once("..")
        && let (Ok(from), Ok(to)) = (from.parse::<u64>(), to.parse::<u64>())
    {
        return if to.saturating_sub(from) > MOST {
            Err(Problem::LongRange { range: text.to_owned() })
        } else {
            Ok((from..to).collect())
        };
    }
    if let Ok(numbers) = text.split(',').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>() {
        return Ok(numbers);
    }
    let path = Path::new(text);
    let lines = fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Problem::Refused {
            message: format!("--indices {text}: neither a range nor a list of numbers nor a file"),
            help: "give a range such as 0..1000, numbers such as 0,5,7, or a file with one number per line",
        },
        _ => Problem::io(path)(error),
    })?;
    let lines = lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let number = |(at, line): (usize, &str)| {
        let wrong = |_| Problem::NotANumber { path: path.to_owned(), line: at + 1 };
        line.trim().parse().map_err(wrong)
    };
    lines.map(number).collect()
}

fn summary(out: &Path, report: &WriteReport) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {} in {}, {}",
        Escaped(&out.to_string_lossy()),
        counted(report.samples, "sample"),
        counted(report.pages, "page"),
        bytes(report.bytes),
    );
    add_skipped(&mut text, "damaged sample", &report.skipped);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_named_by_a_range_or_a_file() {
        assert_eq!(indices("3..6").unwrap(), [3, 4, 5]);
        assert!(indices("6..3").unwrap().is_empty());
        assert_eq!(indices("0").unwrap(), [0]);
        assert_eq!(indices("4,0,17").unwrap(), [4, 0, 17]);
        let error = indices("no/such.txt").unwrap_err();
        assert!(error.to_string().contains("neither a range nor a list"), "{error}");
        assert!(error.help().unwrap().contains("0..1000"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, "5\n\n 2 \n").unwrap();
        assert_eq!(indices(path.to_str().unwrap()).unwrap(), [5, 2]);
        fs::write(&path, "5\nx\n").unwrap();
        let error = indices(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.ends_with("line 2 is not a sample number"), "{error}");
    }
}
