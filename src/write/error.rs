//! Errors of writing a `.beton` file.

use super::atomic_file::TargetError;
use super::file::SchemaError;
use super::mode::OptionsError;
use super::options::{MAX_PAGE_SIZE, MIN_PAGE_SIZE};
use super::value::WriteSampleError;
use crate::error::{Cause, Details, Error, ErrorKind};
use crate::sample::SampleId;
use crate::threads::ThreadsError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a write failed. The path is as it was before, except after a failed sync of its directory, or if
/// only the file of class names beside it could not be written or deleted.
#[derive(Debug, thiserror::Error)]
pub enum WriteCause {
    /// A file can't have these fields.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The page size is not a power of two, or outside the limits.
    #[error("page size {found}, expected a power of two from {MIN_PAGE_SIZE} to {MAX_PAGE_SIZE}")]
    PageSize {
        /// The requested size.
        found: u32,
    },
    /// Invalid image options.
    #[error("images of field {field:?}: {cause}")]
    Options {
        /// The field's name.
        field: String,
        /// The cause.
        cause: OptionsError,
    },
    /// Image options for a field that is missing or holds no images.
    #[error("image options are given for {name:?}, which is not an image field")]
    NoSuchImageField {
        /// The name.
        name: String,
    },
    /// The folder or table is no dataset.
    #[error(transparent)]
    List(Error),
    /// A file beside the source, such as that of its class names, can't be read.
    #[error(transparent)]
    Beside(Error),
    /// The file can't be created, or can't be renamed to its path.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The threads can't be started, or too many are requested.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// A sample can't be written.
    #[error("sample {sample}{}: {cause}", named(path.as_deref()))]
    Sample {
        /// The sample's index in the input.
        sample: SampleId,
        /// The sample's image file, if it has one.
        path: Option<PathBuf>,
        /// The cause.
        cause: WriteSampleError,
    },
    /// All samples that were read were left out because they are damaged.
    #[error(
        "{}, so that none is left to write; the first is sample {sample}{}: {cause}",
        all_damaged(*count),
        named(path.as_deref())
    )]
    AllDamaged {
        /// The number of samples.
        count: u64,
        /// The index of the first in the input.
        sample: SampleId,
        /// Its image file, if it has one.
        path: Option<PathBuf>,
        /// Why it can't be written.
        cause: String,
    },
    /// The write was cancelled after its last sample.
    #[error("the write was cancelled")]
    Cancelled,
    /// A system call failed: most often because the disk is full.
    #[error("{path:?}: cannot write: {source}")]
    Write {
        /// The unfinished file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn all_damaged(count: u64) -> String {
    match count {
        1 => "the only sample is damaged".to_owned(),
        _ => format!("all {count} samples are damaged"),
    }
}

fn named(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" ({path:?})"))
}

impl Cause for WriteCause {
    fn details(&self) -> Details<'_> {
        match self {
            Self::Schema(_) => Details::of(ErrorKind::Field),
            Self::PageSize { .. } => Details::of(ErrorKind::Parameter),
            Self::Options { field, .. } => Details::of(ErrorKind::Parameter).field(field),
            Self::NoSuchImageField { name } => Details::of(ErrorKind::Field).field(name),
            Self::List(error) => error.details(),
            Self::Beside(error) => error.details(),
            Self::Target(error) => error.details(),
            Self::Threads(error) => error.details(),
            Self::Sample { sample, path, cause } => {
                let details = cause.details().sample(*sample);
                path.iter().fold(details, |details, path| details.path(path))
            }
            Self::AllDamaged { sample, path, .. } => {
                let details = Details::of(ErrorKind::Damaged).sample(*sample);
                path.iter().fold(details, |details, path| details.path(path))
            }
            Self::Cancelled => Details::of(ErrorKind::Cancelled),
            Self::Write { path, source } => Details::of_io(source.kind()).path(path),
        }
    }
}
