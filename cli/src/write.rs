//! `fuseloop write`: writes a folder or a table of JPEGs to a `.beton` file.

use super::costly::add_costly;
use super::folder::{InFolder, add_links};
use super::output::{self, OutputArgs};
use super::print::{WriteBar, bytes, count, counted, rate, say};
use super::problem::Problem;
use super::recut::{add_list, add_recut, add_skipped, add_unchanged};
use super::stored::{StoredArgs, add_reencoded};
use fuseloop::internals::source::{Escaped, is_annotated, is_fixed_length};
use fuseloop::internals::write::note_of_orientations;
use fuseloop::source::Dataset;
use fuseloop::write::{FolderReport, WriteOptions, write_folder};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Write a folder or table of images as a .beton file
///
/// The subfolders are the classes; without subfolders, the class is the part of a file name before the first
/// `_`. A .csv or .tsv table has one `path,label` per line. FFCV can read the output, except for bit planes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop write imagenet/train train.beton                       # JPEGs unchanged, PNGs as pixels
  fuseloop write imagenet/train train.beton --write-mode tiled    # faster to crop, no pixel changed
  fuseloop write imagenet/train train.beton --write-mode planes   # even faster, only for fuseloop
  fuseloop write imagenet/train train.beton --max-resolution 500  # smaller, faster to decode
  fuseloop write photos train.beton --write-mode raw              # pixels: nothing to decode
  fuseloop write scans train.beton --write-mode jpg               # PNGs as JPEGs: lossy, and smaller
  fuseloop write labels.csv train.beton --on-damaged skip --verify   # skip damaged images")]
pub(super) struct Args {
    /// Folder of images, or a .csv or .tsv file of `path,label` lines
    folder: PathBuf,
    /// Output file. Written atomically.
    #[arg(value_parser = output::local())]
    out: PathBuf,
    #[command(flatten)]
    stored: StoredArgs,
    /// Page size in bytes, a power of two [default: 8388608, or enough for the largest sample]
    #[arg(long, value_name = "BYTES")]
    page_size: Option<u32>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    in_folder: InFolder,
}

impl Args {
    fn options(&self, bar: &WriteBar) -> Result<WriteOptions, Problem> {
        Ok(WriteOptions {
            page_size: self.page_size,
            threads: self.output.threads,
            on_damaged: self.output.on_damaged,
            progress: bar.progress(),
            links: self.in_folder.links(),
            folder: self.in_folder.options()?,
            image: self.stored.options()?,
            overwrite: self.output.overwrite,
            ..WriteOptions::default()
        })
    }
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    if is_fixed_length(&args.folder) {
        return Err(Problem::FixedLength { path: args.folder.clone() });
    }
    if is_annotated(&args.folder) {
        return Err(Problem::Annotated { path: args.folder.clone() });
    }
    // A file that is there and is no .beton file may be an image of the folder.
    let is_beton = args.out.extension().is_some_and(|extension| extension == "beton");
    if args.folder.is_file() || (args.out.is_file() && !is_beton) {
        output::refuse_input(&args.out, &args.folder, [])?;
    }
    let bar = WriteBar::new("samples");
    let options = args.options(&bar)?;
    let start = Instant::now();
    let report = write_folder(&args.folder, &args.out, &options)?;
    drop(bar);
    let mut text = summary(&args.out, &report, start.elapsed());
    add_reencoded(&mut text, &report.written.reencoded);
    if let Some(note) = note_of_orientations(&report.written.reencoded) {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(rewritten) = args.stored.rewritten() {
        add_recut(&mut text, rewritten, report.written.recut, report.written.recut_bytes);
        add_unchanged(&mut text, &report.written.unchanged);
    }
    if let Ok(Dataset::Beton(written)) = Dataset::open(&args.out) {
        add_costly(&mut text, &*written);
    }
    add_left_out(&mut text, &report);
    say(&text)
}

/// Describes what was written.
fn summary(out: &Path, report: &FolderReport, took: Duration) -> String {
    let written = &report.written;
    let seconds = took.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate, shown rounded")]
    let speed = rate(written.samples as f64 / seconds.max(1e-9));
    let mut text = format!(
        "{}: {}, {} in {seconds:.2} s, {speed} images/s\n",
        Escaped(&out.to_string_lossy()),
        counted(written.samples, "image"),
        bytes(written.bytes),
    );
    let classes = match report.classes.len() as u64 {
        0 => "labels from the list".to_owned(),
        1 => "1 class".to_owned(),
        n => format!("{} classes", count(n)),
    };
    let _ = writeln!(
        text,
        "{classes}, {} stored byte for byte, {}",
        counted(written.passed_through, "JPEG"),
        counted(written.pages, "page"),
    );
    text
}

fn add_left_out(text: &mut String, report: &FolderReport) {
    add_links(text, &report.links);
    add_skipped(text, "damaged image", &report.written.skipped);
    let ignored = report.ignored.first.iter();
    let ignored = ignored.map(|(path, reason)| format!("{}: {reason}", path.display()));
    add_list(text, "ignored", "other file", report.ignored.count, ignored);
}
