//! Why a dataset is not converted.

use crate::source::SourceError;
use crate::write::shards::{ColumnError, TemplateError};
use crate::write::{TargetError, WriteError};
use std::io;
use std::path::{Path, PathBuf};

/// Why a dataset is not converted, put together or taken apart. What was whole by then is kept, and
/// the next attempt goes on behind it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A sample, or the system.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A `.beton` file that can't be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The destination names no shards.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The fields can't be written in this form.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// Options that make no sense.
    #[error("{reason}")]
    Options {
        /// Why.
        reason: &'static str,
    },
    /// A field can't be called as it is, or as is asked for.
    #[error("{reason}")]
    Rename {
        /// Which, why, and what helps.
        reason: String,
    },
    /// Something lies at the destination.
    #[error("{path:?} is there already")]
    Exists {
        /// What.
        path: PathBuf,
    },
    /// The notes of an earlier attempt are of another conversion, or damaged.
    #[error("{path:?}: {reason}")]
    Journal {
        /// The notes.
        path: PathBuf,
        /// What is wrong with them.
        reason: String,
    },
    /// Files that are no parts of one dataset.
    #[error("{path:?} has other fields than {first:?}: {reason}")]
    Fields {
        /// The first of the files.
        first: PathBuf,
        /// The file with other fields.
        path: PathBuf,
        /// The first field that differs.
        reason: String,
    },
    /// A part that holds no samples, or a sample that is not there.
    #[error("{path:?}: {reason}")]
    Pick {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The new file would replace one that it is made of.
    #[error("{path:?} is read for this: give the new file another name")]
    Same {
        /// The path.
        path: PathBuf,
    },
    /// The new folder would lie in one that is read, or hold a file that is read.
    #[error(
        "{dst:?} and {src:?}, which is read for this, lie one in the other: choose a place outside"
    )]
    Inside {
        /// The folder or file that is read.
        src: PathBuf,
        /// The destination.
        dst: PathBuf,
    },
}

impl From<TargetError> for ConvertError {
    fn from(error: TargetError) -> Self {
        Self::Write(error.into())
    }
}

impl ConvertError {
    /// What the system refused to do at a path.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let to_error = TargetError::io(action, path);
        move |source| to_error(source).into()
    }

    /// What the system answered to a write.
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| WriteError::Write { path, source }.into()
    }
}
