//! `fuseloop index`: writes the offsets of samples to an index file, so that opening a dataset reads
//! only that.

use super::costly::add_costly;
use super::folder::InFolder;
use super::print::{bar, bytes, counted, say};
use super::problem::Problem;
use fuseloop::internals::info::folder_text;
use fuseloop::internals::source::Escaped;
use fuseloop::internals::source::{is_annotated, is_fixed_length, is_parquet, saved_listing};
use fuseloop::source::{Dataset, Folder, IndexReport, Source as _, index_shards, join_index};
use std::path::{Path, PathBuf};

/// Index tar, TFRecord and Parquet files, folders or videos for faster opening
///
/// Writes NAME.fidx next to each shard (.NAME.fidx for Parquet), or FOLDER.fidx next to the folder, and
/// FOLDER.videos.fidx with the packets and times of its video files. Without an index, every start
/// reads the headers of all samples of the shards; of Parquet files, the first read of a row group finds
/// its images. With `--join`, one file in the folder of the shards, joined.fjdx, indexes all of them, and shards are
/// opened when they are read. A stale index is an error, a stale listing or index of a video is ignored; rerun to update it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop index 'train-{000..255}.tar'
  fuseloop index 'data/*.tfrecord'
  fuseloop index --join 'train-{00000..99999}.tar'   # one index for all shards
  fuseloop index org-folder              # Parquet files in the Hub's layout
  fuseloop index imagenet/train          # 1.28 million names, listed once
  fuseloop index clips                   # video files: their packets and times")]
pub(super) struct Args {
    /// Shards, by braces, `::` and `*`, or a folder of images, audio or video files. A .beton file and a table need no index.
    dataset: PathBuf,
    /// Write one index for all tar or TFRecord shards of a folder.
    #[arg(long)]
    join: bool,
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
    if args.join && (dataset.is_dir() || is_parquet(&dataset)) {
        let name = dataset.display().to_string();
        return Err(Problem::Refused {
            message: format!("{}: `--join` is for tar and TFRecord shards", Escaped(&name)),
            help: "leave `--join` out, or name shards, such as 'data/train-*.tar'",
        });
    }
    let text = if dataset.is_dir() && !is_parquet(&dataset) {
        index_folder(&dataset, &folder)?
    } else {
        let name = dataset.to_string_lossy();
        let bar = bar(0, "{wide_bar} {human_pos}/{human_len} shards, {eta} left");
        let progress = |done, of| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        };
        let indexed = match args.join {
            true => join_index(&name, &progress),
            false => index_shards(&name, &progress),
        };
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
    let noun = match folder.facts().is_video(0) {
        true => "video file",
        false if is_audio => "audio file",
        false => "image",
    };
    let (files, classes) = (folder.facts().samples, folder.classes().len() as u64);
    let classes = match classes {
        1 => "1 class".to_owned(),
        _ => format!("{classes} classes"),
    };
    let path = path.display().to_string();
    let mut text = format!("{} of {classes}, listed in {}\n", counted(files, noun), Escaped(&path));
    text += &index_videos(dir, &folder)?;
    add_costly(&mut text, &folder);
    text += &folder_text(&folder.links(), folder.ignored());
    Ok(text)
}

/// Does nothing: this build reads no video files.
#[cfg(not(feature = "video"))]
#[expect(clippy::unnecessary_wraps, reason = "as with video")]
fn index_videos(_: &Path, _: &Folder) -> Result<String, Problem> {
    Ok(String::new())
}

/// Saves the indexes of a folder's video files, if it has such.
#[cfg(feature = "video")]
fn index_videos(dir: &Path, folder: &Folder) -> Result<String, Problem> {
    use fuseloop::internals::source::{SavedVideosReport, save_video_indexes};
    if !folder.facts().is_video(0) {
        return Ok(String::new());
    }
    let bar = bar(0, "{wide_bar} {human_pos}/{human_len} videos, {eta} left");
    let progress = |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let (cancel, limits) = (fuseloop::write::CancelFlag::new(), fuseloop::Limits::DEFAULT);
    let saved = save_video_indexes((folder, 0), dir, &limits, &cancel, &progress);
    bar.finish_and_clear();
    let SavedVideosReport { videos, unreadable, bytes: size, .. } = saved?;
    let mut text = format!("indexes of {} saved in {}\n", counted(videos, "video"), bytes(size));
    if unreadable > 0 {
        text +=
            &format!("{} unreadable: `fuseloop verify` lists them\n", counted(unreadable, "file"));
    }
    Ok(text)
}
