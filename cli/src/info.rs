//! `fuseloop info`: shows what a dataset contains, from its tables alone.

use super::folder::InFolder;
use super::gpu;
use super::print::{say, say_json};
use super::problem::Problem;
use fuseloop::internals::info::DatasetSummary;
use fuseloop::internals::jit::{check::widest_vectors, unsupported};
use fuseloop::internals::source::beton::BetonHead;
use fuseloop::source::{Beton, CustomRow, Dataset, OpenOptions, Source as _};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Show the samples, fields and classes of a dataset
///
/// For a .beton file, also shows image sizes and label ranges; for video files, also in fields of bytes, the codecs, sizes,
/// frames and key frames of the first ones, and those that cannot be read.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop info train.beton
  fuseloop info train.beton --json | jq .fields
  fuseloop info photos/       # one folder per class
  fuseloop info mnist/        # the files of MNIST or CIFAR: their training split
  fuseloop info coco/annotations/instances_val2017.json
  fuseloop info voc/
  fuseloop info coco128/images/train2017                     # YOLO's format
  fuseloop info 'train-{000..255}.tar'
  fuseloop info org-folder --split train                     # Parquet files of the Hugging Face Hub
  fuseloop info clips/        # video files, or folders of frames
  fuseloop info pusht/        # LeRobot, version 3: cameras, columns and tasks
  fuseloop info own.beton --custom vector=24:8
  fuseloop info --gpu         # the GPUs of this machine
  fuseloop info --cpu         # how loops run on its processors
  fuseloop info --video       # the decoders of video files")]
pub(super) struct Args {
    /// Dataset: .beton file, folder of images, audio or videos, table, tar, TFRecord, MDS, Parquet, LeRobot, MNIST, CIFAR or
    /// annotations
    #[arg(value_name = "DATASET", required_unless_present_any = ["gpu", "cpu", "video"], conflicts_with = "gpu")]
    file: Option<PathBuf>,
    /// Size and alignment of a user-defined .beton field, such as vector=24:8 (repeatable). Take them from
    /// its NumPy type.
    #[arg(long, value_name = "NAME=BYTES:ALIGN", value_parser = custom, conflicts_with = "gpu")]
    custom: Vec<(String, CustomRow)>,
    /// Show the GPUs that ToDevice finds, instead of a dataset
    #[arg(long)]
    gpu: bool,
    /// Show how this CPU runs loops, instead of a dataset
    #[arg(long, conflicts_with_all = ["file", "custom", "gpu"])]
    cpu: bool,
    /// Show the decoders of video files, instead of a dataset
    #[arg(long, conflicts_with_all = ["file", "custom", "gpu", "cpu"])]
    video: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: InFolder,
}

/// Parses the size and alignment of a user-defined field: `vector=24:8`.
fn custom(text: &str) -> Result<(String, CustomRow), String> {
    let expected = "expected NAME=BYTES:ALIGN, such as vector=24:8";
    let (name, row) = text.rsplit_once('=').ok_or(expected)?;
    let (row_size, align) = row.split_once(':').ok_or(expected)?;
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?}: {expected}"));
    Ok((name.to_owned(), CustomRow { row_size: number(row_size)?, align: number(align)? }))
}

/// Opens the dataset, or only the head of a `.beton` file whose user-defined fields have unknown sizes.
fn open(args: &Args, file: &Path) -> Result<Result<Dataset, BetonHead>, Problem> {
    let options =
        OpenOptions { custom_fields: args.custom.iter().cloned().collect(), ..Default::default() };
    let opened = if args.custom.is_empty() {
        args.folder.open(file)
    } else {
        Ok(Dataset::Beton(Beton::open(file, &options)?.into()))
    };
    let opened = match opened {
        Ok(dataset) => Ok(dataset),
        Err(error) => match BetonHead::open(file, &options) {
            Ok(head) if head.fields.iter().any(|(_, kind)| kind.is_none()) => Err(head),
            _ => return Err(error),
        },
    };
    check_custom(args, file, &opened)?;
    Ok(opened)
}

/// Refuses the size of a field that the file does not have.
fn check_custom(
    args: &Args,
    file: &Path,
    opened: &Result<Dataset, BetonHead>,
) -> Result<(), Problem> {
    let known: Vec<&str> = match opened {
        Ok(Dataset::Beton(beton)) => {
            beton.facts().fields.iter().map(|field| &*field.name).collect()
        }
        Err(head) => head.fields.iter().map(|(name, _)| &**name).collect(),
        _ => return Ok(()),
    };
    let unknown = args.custom.iter().find(|(name, _)| !known.contains(&&**name));
    let Some((name, _)) = unknown else { return Ok(()) };
    let (file, known) = (file.display(), known.join(", "));
    Err(Problem::Refused {
        message: format!("{file}: no field named {name}; available: {known}"),
        help: "`--custom` gives the size and alignment of a user-defined field of the file",
    })
}

/// Says whether this CPU runs compiled loops, and with which vectors.
fn cpu(as_json: bool) -> Result<(), Problem> {
    let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
    let (bits, reason) = (widest_vectors().count(), unsupported());
    if as_json {
        let bits = reason.is_none().then_some(bits);
        return say_json(
            &json!({ "arch": arch, "os": os, "vector_bits": bits, "not_compiled": reason }),
        );
    }
    let loops = match reason {
        None => format!("compiled, with vectors of at most {bits} bits"),
        Some(reason) => format!("not compiled ({reason}): ops are evaluated one by one, slowly"),
    };
    say(&format!("CPU: {arch}, {os}\nloops: {loops}\n"))
}

/// Says what decodes video files.
fn video(as_json: bool) -> Result<(), Problem> {
    let own: &[&str] = if cfg!(feature = "video") { &["H.264", "Motion JPEG"] } else { &[] };
    let found = libavcodec();
    if as_json {
        let (found, reason) = (found.as_ref().ok(), found.as_ref().err().map(|none| &none.reason));
        let found = found.map(|(version, path)| json!({ "version": version, "path": path }));
        return say_json(&json!({ "own_decoders": own, "libavcodec": found, "not_found": reason }));
    }
    let own = if own.is_empty() { "none".to_owned() } else { own.join(" and ") };
    let library = match found {
        Ok((version, path)) => format!("{version}, {path}"),
        Err(NoLibrary { reason, cure }) => {
            format!("none ({reason}): files of other codecs are refused; to read them, {cure}")
        }
    };
    say(&format!("decoders of this build: {own}\nlibavcodec: {library}\n"))
}

/// Why there is no library of FFmpeg, and what a user can do.
struct NoLibrary {
    reason: String,
    cure: &'static str,
}

/// Returns the version and the path of the library of FFmpeg.
#[cfg(feature = "video")]
fn libavcodec() -> Result<(String, String), NoLibrary> {
    match fuseloop::internals::video::Libavcodec::find() {
        Ok(found) => Ok((found.version(), found.path().to_owned())),
        Err(none) => Err(NoLibrary { reason: none.to_string(), cure: none.cure() }),
    }
}

#[cfg(not(feature = "video"))]
fn libavcodec() -> Result<(String, String), NoLibrary> {
    let reason = "a build without the feature `video`".to_owned();
    Err(NoLibrary { reason, cure: "build fuseloop with the feature `video`" })
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    if args.video {
        return video(args.json);
    }
    if args.cpu {
        return cpu(args.json);
    }
    let Some(file) = &args.file else { return gpu::run(args.json) };
    let info = match open(args, file)? {
        Ok(dataset) => DatasetSummary::of(&dataset).map_err(Problem::Beside)?,
        Err(head) => DatasetSummary::of_head(file, &head),
    };
    if args.json { say_json(&info.to_json()) } else { say(&info.to_string()) }
}
