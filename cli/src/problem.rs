//! The errors of commands, and what the user can do next.

use super::print::count;
use super::words::in_command;
use fuseloop::batch::TensorError;
use fuseloop::internals::source::Escaped;
use fuseloop::internals::source::beton::INCOMPLETE;
use fuseloop::internals::spec::{ParseCause, ParseError};
use fuseloop::ops::ParamError;
use fuseloop::ops::internals::registry::{self, SpecCause, SpecError};
use fuseloop::{Error, ErrorKind};
use std::io;
use std::path::{Path, PathBuf};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error(transparent)]
    Library(#[from] Error),
    #[error(transparent)]
    Memory(#[from] fuseloop::ops::internals::memory::NoMemory),
    #[error("{}: line {line} is not a sample number", .path.display())]
    NotANumber { path: PathBuf, line: usize },
    #[error("`--tile` is only for JPEGs, and `--write-mode raw` stores none")]
    NoTiles,
    #[error(transparent)]
    Param(#[from] ParamError),
    #[error(transparent)]
    Op(#[from] SpecError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("{}: {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: {error}", .path.display())]
    Png { path: PathBuf, error: png::EncodingError },
    #[error("{}: {error}", .path.display())]
    Jpeg { path: PathBuf, error: jpeg_encoder::EncodingError },
    #[error("{}: images cannot be saved as .{extension}; available: .png, .jpg, .jpeg", .path.display())]
    PictureExtension { path: PathBuf, extension: String },
    /// A file next to a dataset, such as that of its class names, can't be read.
    #[error("{0}")]
    Beside(fuseloop::source::BoxError),
    #[error("a drawn image: {0}")]
    Draw(#[from] jpeg_encoder::EncodingError),
    #[error("{} already exists", .path.display())]
    Exists { path: PathBuf },
    #[error("{} is not empty", .path.display())]
    NotEmpty { path: PathBuf },
    #[error("{}: no image field; available: {known}", .path.display())]
    NoImages { path: PathBuf, known: String },
    #[error("{}: field {field} has video files, and no clips of them are chosen", .path.display())]
    NoClips { path: PathBuf, field: String },
    #[error("{}: the file has no samples", .path.display())]
    Empty { path: PathBuf },
    #[error("{}: this dataset can only be read sequentially", .path.display())]
    InSequence { path: PathBuf },
    /// A command for folders of images was given the files of MNIST or CIFAR.
    #[error("{}: these are the files of MNIST or CIFAR, not a folder of images", .path.display())]
    FixedLength { path: PathBuf },
    /// A command for folders of images was given images with annotated objects.
    #[error("{}: these are images with annotated objects, not a folder for each class", .path.display())]
    Annotated { path: PathBuf },
    /// The command was understood, but does not do what was asked.
    #[error("{message}")]
    Refused { message: String, help: &'static str },
    /// `verify` has found damage and reported it on stdout.
    #[error("{}: {}", .path.display(), damage(*.samples))]
    Damaged { path: PathBuf, samples: u64, has_list: bool },
    /// `diff` has found a difference and reported it on stdout.
    #[error("the logs differ at epoch {epoch}, batch {batch}")]
    LogsDiffer { epoch: u32, batch: u64 },
    /// The reader of the output has closed it, or the disk of the output is full.
    #[error("cannot write to the output: {0}")]
    Stdout(io::Error),
}

impl Problem {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.to_owned(), error }
    }

    /// Returns true if the reader has closed the output, as in `fuseloop info x.beton | head -1`.
    pub(super) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns `error: ...`, and `help: ...` if there is a next step. Control characters in names are
    /// escaped, so that they can't affect the terminal.
    pub(super) fn report(&self) -> String {
        let message = self.to_string();
        let mut text = format!("error: {}\n", Escaped(&in_command(&message)));
        if let Some(help) = self.help() {
            text.push_str(&format!("help: {}\n", in_command(help)));
        }
        text
    }

    /// Returns a hint on what to do about the error.
    pub(super) fn help(&self) -> Option<&'static str> {
        match self {
            Self::Library(error) => library_help(error),
            Self::NoTiles => Some("`--write-mode tiled` stores JPEGs that are fast to crop"),
            Self::Op(error) => op_help(&error.cause),
            Self::Refused { help, .. } => Some(*help),
            Self::Exists { .. } => Some(OVERWRITE),
            Self::NotEmpty { .. } => Some("choose a new or empty folder"),
            Self::NoImages { .. } => Some(
                "`fuseloop info FILE` lists the fields; a pipeline file can give ops to arrays of bytes",
            ),
            Self::NoClips { .. } => Some(
                "add `--set clips.sampler=random --set clips.frames=16`, or the table `[clips]` to the pipeline file",
            ),
            Self::Empty { .. } => Some(WRITE),
            Self::FixedLength { .. } | Self::Annotated { .. } => {
                Some("`fuseloop convert` writes them to another format; they need no index")
            }
            Self::InSequence { .. } => Some("unpack it first: `gzip -d`, `zstd -d`"),
            Self::Damaged { samples: 0, .. } => Some(INCOMPLETE),
            Self::Damaged { has_list: false, .. } => Some(
                "`--write-indices good.txt` lists the undamaged samples, and `fuseloop convert` with `--indices good.txt` copies these",
            ),
            Self::Io { error, .. } => io_help(error),
            _ => None,
        }
    }
}

/// Describes what `verify` found, in a few words.
fn damage(samples: u64) -> String {
    match samples {
        0 => "its tables are damaged".to_owned(),
        1 => "1 sample is damaged".to_owned(),
        n => format!("{} samples are damaged", count(n)),
    }
}

const OVERWRITE: &str = "`--overwrite` replaces it";

const WRITE: &str = "`fuseloop write FOLDER OUT.beton` converts a folder of JPEGs";

const NAME: &str = "check the name; `fuseloop info --help` lists the kinds of datasets";

fn library_help(error: &Error) -> Option<&'static str> {
    if let Some(help) = error.next_step() {
        return Some(help);
    }
    let parsed = error.cause().map(parse_help);
    parsed.unwrap_or_else(|| match error.kind() {
        ErrorKind::NotFound => Some(NAME),
        // Without a path, it is not the dataset that is wrong, but what is asked of it.
        ErrorKind::Format | ErrorKind::Unsupported => error.path().map(|_| NAME),
        ErrorKind::Device if error.op().is_none() => {
            Some("`fuseloop info --gpu` shows the available devices")
        }
        _ => None,
    })
}

fn parse_help(error: &ParseError) -> Option<&'static str> {
    match &error.cause {
        ParseCause::Text(error) => error.next_step().or_else(|| error.cause().and_then(read_help)),
        ParseCause::Spec(cause) => op_help(cause),
    }
}

fn op_help(cause: &SpecCause) -> Option<&'static str> {
    match cause {
        // If the owner is not an op, it is a setting, and the message already lists what is expected.
        SpecCause::UnknownParam { owner, .. }
        | SpecCause::Missing { owner, .. }
        | SpecCause::Kind { owner, .. }
            if registry::find(owner).is_err() =>
        {
            None
        }
        SpecCause::Param(error) if registry::find(error.op).is_err() => None,
        SpecCause::UnknownOp { .. } | SpecCause::NotAnOp { .. } => {
            Some("`fuseloop ops` lists all ops")
        }
        _ => Some("`fuseloop ops NAME` shows the parameters of an op, with an example"),
    }
}

/// Returns a hint for a file or folder that can't be read.
fn read_help(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::NotFound => Some("check the path: no such file or folder"),
        _ => io_help(error),
    }
}

fn io_help(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::NotFound => Some("check the path: its folder must exist"),
        io::ErrorKind::PermissionDenied => Some("choose a path that you may read and write"),
        io::ErrorKind::StorageFull => {
            Some("the disk is full: free some space, or choose another disk")
        }
        _ => None,
    }
}
