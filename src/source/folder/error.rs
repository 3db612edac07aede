//! Why a folder, a table or a pattern gives no dataset.

use super::links::LinkCounts;
use crate::error::{Cause, Details, ErrorKind};
use crate::source::image_names::LISTED;
use crate::source::{BesideFileError, Escaped, LocationError};
use crate::threads::ThreadsError;
use std::io;
use std::path::{Path, PathBuf};

/// Names a format that the build leaves out, among other names.
fn such_as(hint: Option<&str>) -> String {
    hint.map(|hint| format!(", such as {hint}")).unwrap_or_default()
}

/// Why a folder or a table of paths gives no dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The system reported an error.
    #[error("{path:?}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The threads that read the folders can't be started.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// The listing was cancelled.
    #[error("the listing was cancelled")]
    Cancelled,
    /// No image was found.
    #[error("{path:?}: no {LISTED} file found ({ignored} other names{}{})", and(links), such_as(hint.as_deref()))]
    Empty {
        /// The folder.
        path: PathBuf,
        /// The number of files that are not images.
        ignored: u64,
        /// What is among them: images that were left out, or files of another format.
        hint: Option<String>,
        /// How the links in the folder were treated.
        links: LinkCounts,
    },
    /// A table has no lines besides its header.
    #[error("{path:?}: the table lists no image: expected a line such as `cat/1.jpg,cat` for each")]
    EmptyTable {
        /// The table.
        path: PathBuf,
    },
    /// None of the first files of a table exists.
    #[error("{table}: the files that it lists do not exist, such as {tried:?}: {advice}")]
    NoFiles {
        /// The table, escaped.
        table: String,
        /// The first file that was looked for.
        tried: PathBuf,
        /// The settings that may be wrong.
        advice: String,
    },
    /// The labels would be a guess.
    #[error("{path:?}: {reason}")]
    Guess {
        /// The file or folder.
        path: PathBuf,
        /// What was found, and what may be set.
        reason: String,
    },
    /// The dataset is not written from a list of images and labels.
    #[error(
        "{path:?}: {found}: expected a folder of images, or a .csv or .tsv table of path,label; `convert` writes datasets of any kind"
    )]
    NotAList {
        /// The file or folder.
        path: PathBuf,
        /// A description of what was found there.
        found: &'static str,
    },
    /// The lines of a table do not match its header or its first line.
    #[error("{path:?}: line {line}: {}", Escaped(reason))]
    Table {
        /// The table.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The problem.
        reason: String,
    },
    /// A `classes.json` can't be read or is damaged.
    #[error(transparent)]
    ClassFile(#[from] BesideFileError),
    /// A `classes.json` lacks a class that has samples.
    #[error("{reason}")]
    Classes {
        /// The file, and the problem with it.
        reason: String,
    },
    /// The dataset exceeds the limits.
    #[error("{path:?}: {what}, the limit is {max}")]
    Limit {
        /// The folder or table.
        path: PathBuf,
        /// The size of what was found.
        what: String,
        /// The limit.
        max: u64,
    },
    /// There are 2^32 directories or more, so the files of another one can't be listed.
    #[error("{path:?}: 2^32 directories were listed already, the limit")]
    Many {
        /// The directory that is one too many.
        path: PathBuf,
    },
    /// The pattern is not valid, or names no file.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// An address was given, but only local files can be read.
    #[error("{name}: folders of images can only be read from local files")]
    Address {
        /// The address.
        name: String,
    },
    /// The saved listing is not a listing, or it was cut or changed.
    #[error("{path:?}: {reason}")]
    Saved {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: &'static str,
    },
    /// A table, which this build can't read.
    #[error("{path:?}: {reason}")]
    LeftOut {
        /// The table.
        path: PathBuf,
        /// The feature that would let it.
        reason: String,
    },
}

/// Returns the link counts for the end of a message.
fn and(links: &LinkCounts) -> String {
    if links.is_empty() { String::new() } else { format!("; {links}") }
}

impl ListError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

impl Cause for ListError {
    fn details(&self) -> Details<'_> {
        let format = Details::of(ErrorKind::Format);
        match self {
            Self::Io { path, source } => Details::of_io(source.kind()).path(path),
            Self::Threads(error) => error.details(),
            Self::Empty { path, .. }
            | Self::EmptyTable { path }
            | Self::Guess { path, .. }
            | Self::Table { path, .. }
            | Self::Saved { path, .. } => format.path(path),
            Self::ClassFile(error) => error.details(),
            Self::NoFiles { tried, .. } => Details::of(ErrorKind::NotFound).path(tried),
            Self::Cancelled => Details::of(ErrorKind::Cancelled),
            Self::Classes { .. } => format,
            Self::Limit { path, .. } | Self::Many { path } => {
                Details::of(ErrorKind::Memory).path(path)
            }
            Self::Location(error) => error.details(),
            Self::Address { .. } => Details::of(ErrorKind::Unsupported),
            Self::NotAList { path, .. } | Self::LeftOut { path, .. } => {
                Details::of(ErrorKind::Unsupported).path(path)
            }
        }
    }
}
