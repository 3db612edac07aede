//! Why a folder, a table or a pattern gives no dataset.

use super::links::LinkCounts;
use crate::source::{Escaped, LocationError};
use crate::threads::ThreadsError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a folder or a table of paths gives no dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The system refused.
    #[error("{path:?}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The threads that read the folders can't be started.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// No image was found.
    #[error("{path:?}: no .jpg, .jpeg or .png file is in it ({ignored} others are{})", and(links))]
    Empty {
        /// The folder.
        path: PathBuf,
        /// Files that are no images.
        ignored: u64,
        /// What became of the links in it.
        links: LinkCounts,
    },
    /// A file of a folder without sub-folders has no `_` in its name.
    #[error(
        "{path:?}: no class: a folder without sub-folders needs names such as class_name.jpg \
         (or give a .csv file of path,label)"
    )]
    NoClass {
        /// The file.
        path: PathBuf,
    },
    /// A line of a table is not `path,label`.
    #[error("{path:?}: line {line}: {found} columns, expected path and label")]
    Columns {
        /// The table.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// Columns on it.
        found: usize,
    },
    /// A table whose lines are not what its header, or its first line, says.
    #[error("{path:?}: line {line}: {}", Escaped(reason))]
    Table {
        /// The table.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// A `classes.json` that is damaged, or lacks a class that has samples.
    #[error("{reason}")]
    Classes {
        /// The file, and what is wrong with it.
        reason: String,
    },
    /// More than the limits allow.
    #[error("{path:?}: {what}, the limit is {max}")]
    Limit {
        /// The folder or table.
        path: PathBuf,
        /// What there is too much of.
        what: String,
        /// The limit.
        max: u64,
    },
    /// A file name that can't be kept: on systems where names are Unicode, one that is not.
    #[error("{path:?}: a name in it cannot be kept")]
    Many {
        /// The directory.
        path: PathBuf,
    },
    /// A pattern that names nothing.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// An address where files of this machine are wanted.
    #[error("{name}: a folder's images are read from this machine's files alone")]
    Address {
        /// The address.
        name: String,
    },
    /// A saved listing that is none, or was cut or changed.
    #[error("{path:?}: {reason}")]
    Saved {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// A table is not CSV in UTF-8.
    #[error("{path:?}: {source}")]
    Csv {
        /// The table.
        path: PathBuf,
        /// Where and why.
        source: csv::Error,
    },
}

/// What became of links, behind other words.
fn and(links: &LinkCounts) -> String {
    if links.is_empty() { String::new() } else { format!("; {links}") }
}

impl ListError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
