//! `fuseloop convert`: converts a dataset to another format.

use super::costly::add_costly;
use super::folder::{InFolder, add_links};
use super::indices::IndexArgs;
use super::number;
use super::output::{self, OutputArgs};
use super::print::{WriteBar, bar, bytes, count, counted, rate, say};
use super::problem::Problem;
use super::recut::{add_ignored, add_recut, add_skipped, add_unchanged};
use super::stored::{StoredArgs, add_reencoded};
use clap::ValueEnum;
use clap::error::ErrorKind;
use fuseloop::internals::source::{Escaped, MDS_INDEX, check_destination};
use fuseloop::internals::write::{convert_any, stores_frames};
use fuseloop::order::{Ranks, Uneven};
use fuseloop::source::{Concat, Dataset, Selected, Source};
use fuseloop::write::{VideoOptions, WriteOptions, WriteReport};
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Write a folder or any other dataset as .beton, tar, TFRecord or MDS shards, Parquet files or a folder
///
/// The name of DST selects the format: x.beton, x-{000000}.tar (WebDataset), x-{00000}-of-{N}.tfrecord,
/// x-{00000}-of-{N}.parquet (Hugging Face), x/index.json (MDS shards of mosaicml-streaming in x), or a name without an
/// extension or with a trailing / for a folder of images, audio or video files. FFCV can read .beton files, except for bit
/// planes. Several datasets are joined.
///
/// The subfolders of a folder are the classes; without subfolders, the class is the part of a file name before
/// the first `_`. A .csv or .tsv table has one `path,label` per line.
///
/// Video files become a row per frame of a .beton, which is a dataset of images and, with clips, one of videos. A LeRobot
/// dataset has a row for each row of its episodes, with the frames of its cameras as images.
///
/// Rerun the command to resume an interrupted conversion. Finished outputs are kept, and the result is
/// byte-identical.
#[derive(clap::Args)]
#[command(
    override_usage = "fuseloop convert [OPTIONS] <SRC>... <DST>",
    after_help = "Examples:
  fuseloop convert imagenet/train train.beton                     # JPEGs unchanged, PNGs as pixels
  fuseloop convert imagenet/train train.beton --write-mode tiled  # faster to crop, no pixel changed
  fuseloop convert imagenet/train train.beton --write-mode planes # even faster, only for fuseloop
  fuseloop convert imagenet/train train.beton --max-resolution 500   # smaller, faster to decode
  fuseloop convert photos train.beton --write-mode raw            # pixels: nothing to decode
  fuseloop convert labels.csv train.beton --on-damaged skip --verify # skip damaged images
  fuseloop convert planes.beton train.beton                       # bit planes become JPEGs again, byte for byte
  fuseloop convert a.beton b.beton both.beton                     # all samples of a, then all of b
  fuseloop convert train.beton 'part-{000}.beton' --shards 4      # consecutive parts
  fuseloop convert train.beton few.beton --indices 0..1000
  fuseloop convert train.beton val.beton --indices 90%..          # the last tenth
  fuseloop convert train.beton tenth.beton --every 10
  fuseloop convert train.beton good.beton --indices good.txt      # as `verify --write-indices good.txt` lists them
  fuseloop convert train.beton 'shards/train-{000000}.tar'        # 100,000 samples or 3 GB each
  fuseloop convert train.beton 'shards/train-{000000}.tar' --max-bytes 1000000000
  fuseloop convert train.beton 'train-{00000}-of-{N}.tfrecord' --shards 16
  fuseloop convert train.beton 'out/train-{00000}-of-{N}.parquet' # load_dataset(\"out\") reads it; 500 MB each
  fuseloop convert train.beton mds/train/index.json               # StreamingDataset(local=\"mds/train\") reads it; 64 MiB each
  fuseloop convert train.beton train/                             # one folder per class, or metadata.jsonl
  fuseloop convert train.beton again.beton --on-damaged skip
  fuseloop convert scans train.beton --write-mode jpg             # PNGs as JPEGs: lossy
  fuseloop convert 'train-*-of-01024' train.beton --rename image/class/label=y
  fuseloop convert 'train-{000..255}.tar.gz' train.beton          # read twice: once to count the samples
  fuseloop convert mnist/ mnist.beton                             # the training split of MNIST's files
  fuseloop convert coco/annotations/instances_train2017.json train.beton    # boxes, classes, masks and keypoints
  fuseloop convert voc/ train.beton                               # a folder of Pascal VOC
  fuseloop convert camvid/ train.beton                            # a folder with images/ and masks/
  fuseloop convert coco128/images/train2017 train.beton           # a folder in YOLO's format
  fuseloop convert mnist/t10k-images-idx3-ubyte mnist-test.beton  # the test split
  fuseloop convert clips/ clips.beton --write-mode tiled          # the frames of video files, decoded once
  fuseloop convert frames/ clips.beton --videos frames --source-fps 12    # folders of frames
  fuseloop convert clips/ files.beton --videos files              # video files unchanged
  fuseloop convert files.beton clips/                             # a folder of video files
  fuseloop convert pusht/ 'pusht-{00000}-of-{N}.parquet'          # LeRobot: the frames of its cameras as images
  srun fuseloop convert train/ 'x-{000}.tar' --shards 64 --ranks env   # each task writes its share

In tar shards the first image is jpg or png, the int `label` is cls, other fields are NAME.txt (floats),
NAME.bin, NAME.json, NAME.npy. In TFRecord shards each sample is a tf.train.Example. Parquet files have the
features of Hugging Face's datasets; boxes are xywh, in the list `objects`. MDS columns are jpeg, png, int, float64,
str, bytes, json and ndarray; the index is written last.

Images are stored without loss by default: JPEGs and PNGs unchanged, pixels as PNG, and in a .beton file
PNGs as pixels. --write-mode, --max-resolution and --jpeg-quality change this. Masks always keep their class
numbers. Frames of video files become JPEGs of quality 90, or pixels with --write-mode raw; those of Motion
JPEG stay unchanged. Field names that the destination does not allow are shortened: image/encoded to image,
image/class/label to label, a/b/c to c."
)]
pub(super) struct Args {
    /// One or more datasets (.beton files, folders of images, audio or videos, tables, tar, TFRecord, MDS, Parquet, LeRobot, MNIST,
    /// CIFAR or annotations), and at the end the output: a file, shards or a folder. Files are written atomically.
    #[arg(required = true, num_args = 1.., value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    samples: IndexArgs,
    /// Maximum number of samples per shard
    #[arg(long, value_name = "N", value_parser = number::at_least_one::<u64>)]
    max_samples: Option<u64>,
    /// Maximum shard size, such as 500MB. A larger sample gets a shard of its own.
    #[arg(long, value_name = "BYTES", value_parser = number::whole_bytes::<u64>)]
    max_bytes: Option<u64>,
    /// Number of shards, of equal sample counts
    #[arg(long, value_name = "N", value_parser = number::at_least_one::<u64>, conflicts_with_all = ["max_samples", "max_bytes"])]
    shards: Option<u64>,
    /// How to store videos [default: frames of video files that become a .beton, otherwise unchanged]
    #[arg(long, value_enum, value_name = "AS")]
    videos: Option<VideosAs>,
    #[command(flatten)]
    of_videos: VideoArgs,
    #[command(flatten)]
    stored: StoredArgs,
    /// Rename field A to B (repeatable)
    #[arg(long, value_name = "A=B", value_parser = renaming)]
    rename: Vec<(String, String)>,
    /// Page size of a .beton file, a power of two, such as 2MiB [default: that of the source if it is a .beton file,
    /// otherwise 8MiB, or enough for the largest sample]
    #[arg(long, value_name = "BYTES", value_parser = number::whole_bytes::<u32>)]
    page_size: Option<u32>,
    #[command(flatten)]
    output: OutputArgs,
    /// Write only the shards of one rank: K/N, or `env`. K starts at 0; `env` reads the rank that torchrun,
    /// MPI or Slurm set. All ranks together write the same shards as one process, and each needs --shards.
    #[arg(long, value_name = "K/N", value_parser = ranks, requires = "shards")]
    ranks: Option<Ranks>,
    #[command(flatten)]
    folder: InFolder,
}

/// How videos are stored.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VideosAs {
    /// A row per frame, with its time, in a .beton
    Frames,
    /// The files unchanged
    Files,
}

/// The options for the frames of videos.
#[derive(clap::Args)]
struct VideoArgs {
    /// Frames per second of folders of frames
    #[arg(long, value_name = "FPS")]
    source_fps: Option<f64>,
    /// Store every Nth frame of a video
    #[arg(long, value_name = "N", value_parser = number::at_least_one::<u32>)]
    frame_stride: Option<u32>,
    /// File that lists the videos to store, such as trainlist01.txt
    #[arg(long, value_name = "FILE")]
    video_list: Option<PathBuf>,
}

impl VideoArgs {
    fn options(&self) -> VideoOptions {
        VideoOptions {
            source_fps: self.source_fps,
            frame_stride: self.frame_stride.and_then(NonZeroU32::new),
            list: self.video_list.clone(),
            ..VideoOptions::default()
        }
    }
}

impl Args {
    /// Returns the datasets and the output.
    ///
    /// # Errors
    ///
    /// If there is no output, or it is an address. The command is not understood then.
    pub(super) fn paths(&self) -> Result<(&[PathBuf], &Path), (ErrorKind, String)> {
        let Some((dst, sources @ [_, ..])) = self.paths.split_last() else {
            return Err((
                ErrorKind::TooFewValues,
                "the output is missing: convert SRC DST".to_owned(),
            ));
        };
        check_destination(dst).map_err(|error| (ErrorKind::ValueValidation, error.to_string()))?;
        Ok((sources, dst))
    }
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let start = Instant::now();
    // Checked when the arguments were parsed.
    let Ok((names, dst)) = args.paths() else { return Ok(()) };
    check_shards(args, dst)?;
    if let Some(list) = &args.samples.indices {
        output::refuse_input(dst, Path::new(list), [])?;
    }
    let (mut sources, mut said) = (vec![], String::new());
    let folder = args.folder.are_frames(args.videos == Some(VideosAs::Frames));
    for name in names {
        sources.push(open(name, &folder, &mut said)?);
    }
    let dataset: Arc<dyn Source> = match &sources[..] {
        [one] => Arc::clone(one),
        _ => Arc::new(Concat::new(sources)?),
    };
    let source: Arc<dyn Source> = match args.samples.selected(dataset.len())? {
        Some(samples) => Arc::new(Selected::new(dataset, samples)?),
        None => dataset,
    };
    let frames = args.videos.map(|videos| videos == VideosAs::Frames);
    let has_frames = frames.unwrap_or_else(|| stores_frames(&*source, dst));
    let bar = WriteBar::new(if has_frames { "frames" } else { "samples" });
    let options = WriteOptions {
        max_samples: args.max_samples,
        max_bytes: args.max_bytes,
        shards: args.shards,
        image: args.stored.options()?,
        rename: args.rename.clone(),
        page_size: args.page_size,
        threads: args.output.threads,
        on_damaged: args.output.on_damaged,
        ranks: args.ranks,
        overwrite: args.output.overwrite,
        progress: bar.progress(),
        ..WriteOptions::default()
    };
    let videos = (frames, &args.of_videos.options());
    let report = convert_any(Arc::clone(&source), dst, videos, &options)?;
    drop(bar);
    let classes =
        source.class_names().map_err(Problem::Beside)?.map_or(0, |names| names.iter().len());
    let mut text = summary(dst, &report, classes as u64, start.elapsed());
    add_renamed(&mut text, &report.renamed);
    // Masks stay pixels.
    let objects = source.object_fields().ok().flatten().unwrap_or_default();
    let has_objects = objects.iter().next().is_some();
    let hint = args.stored.hint_of_pixels().filter(|_| !has_objects);
    add_reencoded(&mut text, &report.reencoded, report.reencoded_bytes, hint);
    if let Some(rewritten) = args.stored.rewritten() {
        add_recut(&mut text, rewritten, report.recut, report.recut_bytes);
        add_unchanged(&mut text, &report.unchanged);
    }
    report.notes.iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
    if report.pages > 0
        && dst.is_file()
        && let Ok(Dataset::Beton(written)) = Dataset::open(dst)
    {
        add_costly(&mut text, &*written);
    }
    add_skipped(&mut text, "damaged sample", &report.skipped);
    say(&(text + &said))
}

/// Refuses limits of shards for a destination without shards, which would ignore them.
fn check_shards(args: &Args, dst: &Path) -> Result<(), Problem> {
    let extension = dst.extension().map(|extension| extension.to_ascii_lowercase());
    let name = dst.to_string_lossy();
    let is_index = dst.file_name().is_some_and(|name| name == MDS_INDEX);
    let dst = dst.display();
    let is_sharded = extension.is_some_and(|extension| {
        ["tar", "tfrecord", "tfrecords", "parquet"].iter().any(|shards| extension == *shards)
            || (extension == "beton" && name.contains(['{', '%']))
            || is_index
    });
    let limits = [
        ("--max-samples", args.max_samples),
        ("--max-bytes", args.max_bytes),
        ("--shards", args.shards),
    ];
    let given = limits.iter().find(|(_, limit)| limit.is_some());
    if let Some((option, _)) = given.filter(|_| !is_sharded) {
        return Err(Problem::Refused {
            message: format!("`{option}` is only for shards, and {dst} names none"),
            help: "name shards, such as x/index.json, x-{000000}.tar or x-{000}.beton; `--indices` selects samples",
        });
    }
    Ok(())
}

/// Parses `K/N`, or reads the rank that a launcher has set.
fn ranks(text: &str) -> Result<Ranks, String> {
    if text == "env" {
        let found = Ranks::from_env().map_err(|error| error.to_string())?;
        return found.ok_or_else(|| "no launcher has set a rank: give K/N".to_owned());
    }
    let numbers = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    let (rank, world) = numbers.ok_or("expected K/N, such as 0/8, or env")?;
    Ranks::new(rank, world, Uneven::Pad).map_err(|error| error.to_string())
}

/// Parses `A=B`, split at the first equals sign.
fn renaming(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(from, to)| !from.is_empty() && !to.is_empty());
    let (from, to) = pair.ok_or("expected A=B: the name of a field and its new name")?;
    Ok((from.to_owned(), to.to_owned()))
}

/// Adds the fields with another name than in the source.
fn add_renamed(text: &mut String, renamed: &[(String, String)]) {
    for (from, to) in renamed {
        let _ = writeln!(text, "field {} renamed to {}", Escaped(from), Escaped(to));
    }
}

/// Opens any dataset, and adds which files of a folder were left out. Compressed shards are read
/// once more, to count their samples.
fn open(spec: &Path, folder: &InFolder, said: &mut String) -> Result<Arc<dyn Source>, Problem> {
    Ok(match folder.open(spec)? {
        Dataset::Beton(beton) => beton,
        Dataset::Folder(folder) => {
            add_links(said, &folder.links());
            add_ignored(said, "other file", folder.ignored());
            folder
        }
        Dataset::Source(source) => source,
        Dataset::Stream(stream) => {
            let bar = bar(u64::MAX, "{spinner} {human_pos} samples counted, {per_sec}");
            let counted = stream.counted(|samples| bar.set_position(samples));
            bar.finish_and_clear();
            Arc::new(counted?)
        }
    })
}

fn summary(dst: &Path, report: &WriteReport, classes: u64, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    let now = report.samples.saturating_sub(report.resumed);
    #[expect(clippy::cast_precision_loss, reason = "a rate, shown rounded")]
    let speed = rate(now as f64 / seconds.max(1e-9));
    let mut text = format!(
        "{}: {} in {}, {} in {seconds:.2} s, {speed} samples/s\n",
        Escaped(&dst.to_string_lossy()),
        counted(report.samples, "sample"),
        counted(report.files, "file"),
        bytes(report.bytes),
    );
    if report.resumed > 0 {
        let _ =
            writeln!(text, "resumed after {} of an earlier run", counted(report.resumed, "sample"));
    }
    let has_classes = classes > 0;
    let classes = match classes {
        1 => "1 class".to_owned(),
        classes => format!("{} classes", count(classes)),
    };
    let jpegs = format!("{} stored byte for byte", counted(report.passed_through, "JPEG"));
    let pages = counted(report.pages, "page");
    let parts =
        [(has_classes, classes), (report.passed_through > 0, jpegs), (report.pages > 0, pages)];
    let parts: Vec<String> =
        parts.into_iter().filter(|(is, _)| *is).map(|(_, text)| text).collect();
    if !parts.is_empty() {
        let _ = writeln!(text, "{}", parts.join(", "));
    }
    text
}
