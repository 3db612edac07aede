//! `fuseloop index`: writes the offsets of samples to an index file, so that opening a dataset reads
//! only that.

use super::costly::add_costly;
use super::folder::InFolder;
use super::print::{bar, bytes, counted, say};
use super::problem::Problem;
use fuseloop::internals::info::folder_text;
use fuseloop::internals::source::Escaped;
use fuseloop::internals::source::{is_annotated, is_fixed_length, is_parquet, saved_listing};
use fuseloop::source::{Dataset, Folder, IndexReport, Source as _, index_shards};
use std::path::{Path, PathBuf};

/// Index tar, TFRecord and Parquet files or folders for faster opening
///
/// Writes NAME.fidx next to each shard (.NAME.fidx for Parquet), or FOLDER.fidx next to the folder. Without an index, every start
/// reads the headers of all samples of the shards; of Parquet files, the first read of a row group finds
/// its images. A stale index is an error, a stale listing is ignored; rerun to update it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop index 'train-{000..255}.tar'
  fuseloop index 'data/*.tfrecord'
  fuseloop index org-folder              # Parquet files in the Hub's layout
  fuseloop index imagenet/train          # 1.28 million names, listed once")]
pub(super) struct Args {
    /// Shards, by braces, `::` and `*`, or a folder. A .beton file and a table need no index.
    dataset: PathBuf,
    #[command(flatten)]
    folder: InFolder,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let (dataset, folder) = split_of(args)?;
    if is_fixed_length(&dataset) {
        return Err(Problem::FixedLength { path: dataset });
    }
    if is_annotated(&dataset) {
        return Err(Problem::Annotated { path: dataset });
    }
    let text = if dataset.is_dir() && !is_parquet(&dataset) {
        index_folder(&dataset, &folder)?
    } else {
        let name = dataset.to_string_lossy();
        let bar = bar(0, "{wide_bar} {human_pos}/{human_len} shards, {eta} left");
        let indexed = index_shards(&name, &|done, of| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        let IndexReport { shards, samples, bytes: size } = indexed?;
        let samples = counted(samples, "sample");
        let mut text =
            format!("{}: {samples}, indexed in {}\n", counted(shards as u64, "shard"), bytes(size));
        // Images of remote shards would have to be fetched.
        if !name.contains("://")
            && let Ok(Dataset::Source(source)) = Dataset::open(&*name)
        {
            add_costly(&mut text, &*source);
        }
        text
    };
    say(&text)
}

/// Returns the split that is asked for, which is a folder in the dataset, and the options for it.
fn split_of(args: &Args) -> Result<(PathBuf, InFolder), Problem> {
    let (split, folder) = args.folder.take_split();
    let Some(split) = split else { return Ok((args.dataset.clone(), folder)) };
    let whole = args.dataset.join(split);
    let refused = |reason: &str, help| {
        let dataset = args.dataset.display();
        Err(Problem::Refused { message: format!("{dataset}: {reason}"), help })
    };
    if is_parquet(&args.dataset) {
        let help = "leave `--split` out, or name files, such as 'data/train-*.parquet'";
        return refused("the Parquet files of all splits get an index", help);
    }
    if !whole.is_dir() {
        let help = "name the shards of the split, or open the folder that has it";
        return refused(&format!("no folder {split:?} for `--split`"), help);
    }
    Ok((whole, folder))
}

fn index_folder(dir: &Path, folder: &InFolder) -> Result<String, Problem> {
    let folder = Folder::open(dir, &folder.options()?)?;
    let path = saved_listing(dir);
    folder.save_listing(&path)?;
    let is_audio = folder.facts().fields.first().is_some_and(|field| field.name == "audio");
    let noun = if is_audio { "audio file" } else { "image" };
    let (files, classes) = (folder.facts().samples, folder.classes().len() as u64);
    let classes = match classes {
        1 => "1 class".to_owned(),
        _ => format!("{classes} classes"),
    };
    let path = path.display().to_string();
    let mut text = format!("{} of {classes}, listed in {}\n", counted(files, noun), Escaped(&path));
    add_costly(&mut text, &folder);
    text += &folder_text(&folder.links(), folder.ignored());
    Ok(text)
}
