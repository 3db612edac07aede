//! Errors of conversions.

use crate::error::{Cause, Details, ErrorKind};
use crate::source::SourceError;
use crate::write::WriteCause;
use crate::write::atomic_file::TargetError;
use crate::write::shards::{ShardFieldError, TemplateError};
use std::io;
use std::path::{Path, PathBuf};

/// Why a dataset was not converted, concatenated or split. After a failed conversion, complete outputs
/// stay, and the next attempt continues behind them.
#[derive(Debug, thiserror::Error)]
pub enum ConvertCause {
    /// A sample can't be written, or a system call failed.
    #[error(transparent)]
    Write(#[from] WriteCause),
    /// A `.beton` file can't be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The destination is not a valid name for shards.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The fields can't be written in this format.
    #[error(transparent)]
    Column(#[from] ShardFieldError),
    /// The options are invalid.
    #[error("{reason}")]
    Options {
        /// The cause.
        reason: &'static str,
    },
    /// A field can't keep its name, or can't have the requested one.
    #[error("{reason}")]
    Rename {
        /// The field, the cause and the remedy.
        reason: String,
    },
    /// No format has the destination's extension.
    #[error(
        "{path:?}: unknown extension: use .beton, .tar or .tfrecord, or end the name with / for a folder"
    )]
    Extension {
        /// The destination.
        path: PathBuf,
    },
    /// The journal of an earlier attempt belongs to another conversion, or is damaged.
    #[error("{path:?}: {reason}")]
    Journal {
        /// The journal.
        path: PathBuf,
        /// What is wrong with the journal.
        reason: String,
    },
    /// The files do not have the same fields.
    #[error("{path:?} has other fields than {first:?}: {reason}")]
    Fields {
        /// The first of the files.
        first: PathBuf,
        /// The file with other fields.
        path: PathBuf,
        /// The first field that differs.
        reason: String,
    },
    /// A requested sample does not exist, or a file can't be used.
    #[error("{path:?}: {reason}")]
    Pick {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The new file would replace one that is read.
    #[error("{path:?} is an input of this command: choose a different output")]
    Same {
        /// The path.
        path: PathBuf,
    },
    /// The new folder would be inside a folder that is read, or contain a file that is read.
    #[error("output {dst:?} overlaps input {src:?}: choose a different output")]
    Inside {
        /// The folder or file that is read.
        src: PathBuf,
        /// The destination.
        dst: PathBuf,
    },
}

impl From<TargetError> for ConvertCause {
    fn from(error: TargetError) -> Self {
        Self::Write(error.into())
    }
}

impl ConvertCause {
    /// Returns a conversion from the error of `action` at a path.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let to_error = TargetError::io(action, path);
        move |source| to_error(source).into()
    }

    /// Returns a conversion from the error of a write to a path.
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| WriteCause::Write { path, source }.into()
    }
}

impl Cause for ConvertCause {
    fn details(&self) -> Details<'_> {
        let (parameter, field) = (Details::of(ErrorKind::Parameter), Details::of(ErrorKind::Field));
        match self {
            Self::Write(error) => error.details(),
            Self::Source(error) => error.details(),
            Self::Template(error) => parameter.path(&error.path),
            Self::Column(
                ShardFieldError::Custom { field: name } | ShardFieldError::Name { field: name },
            ) => field.field(name),
            Self::Column(_) | Self::Rename { .. } => field,
            Self::Options { .. } => parameter,
            Self::Journal { path, .. } => Details::of(ErrorKind::Format).path(path),
            Self::Fields { path, .. } => field.path(path),
            Self::Extension { path }
            | Self::Pick { path, .. }
            | Self::Same { path }
            | Self::Inside { dst: path, .. } => parameter.path(path),
        }
    }
}
