//! What a name is opened as.
//!
//! | named                                            | opened as                           |
//! |--------------------------------------------------|-------------------------------------|
//! | a folder; `photos/**/*.jpg` (jpeg, png)          | a [`Folder`]: class = folder's name |
//! | `.csv`, `.tsv`, `.jsonl`                         | a [`Folder`]: a table of paths      |
//! | `.tar`: one, or by braces, `::` and `*`          | a [`Tar`], in any order             |
//! | `.tar.gz`, `.tgz`, `.tar.zst`                    | a [`TarStream`], in sequence        |
//! | `.tfrecord(s)`, `.tfrec`, `train-00000-of-01024` | [`TfRecords`], in any order         |
//! | the same with `.gz`                              | a [`TfRecordStream`], in sequence   |
//! | anything else                                    | a [`Beton`]                         |
//!
//! All files of a name are of one kind, which the end of the name says.

use super::{
    Beton, BoxError, Folder, FolderOptions, Location, OpenOptions, Source, SourceError, Stream,
    Tar, TarStream, TfRecordStream, TfRecords, remote,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A dataset, by how it can be read.
#[derive(Clone)]
pub enum Dataset {
    /// A `.beton` file, in any order, page by page.
    Beton(Arc<Beton>),
    /// A folder, a table or a pattern of images, in any order.
    Folder(Arc<Folder>),
    /// Anything else that can be read in any order.
    Source(Arc<dyn Source>),
    /// What can only be read from its beginning to its end.
    Stream(Stream),
}

/// Why a dataset could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// It is a `.beton` file.
    #[error(transparent)]
    Beton(#[from] SourceError),
    /// It is anything else; the message begins with its name.
    #[error(transparent)]
    Other(BoxError),
}

/// What the files of a name are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Beton,
    Folder,
    Tar,
    TarStream,
    TfRecords,
    TfRecordStream,
}

impl Dataset {
    /// Opens what a name names: see the top of the file.
    ///
    /// # Errors
    ///
    /// If it is not there, or not what its name says.
    pub fn open(name: impl AsRef<Path>) -> Result<Self, DatasetError> {
        Self::open_with(name, &FolderOptions::default())
    }

    /// As [`open`](Self::open), with options for a folder. The [saved listing](saved_listing) beside a
    /// folder is used unless they name another.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(
        name: impl AsRef<Path>,
        options: &FolderOptions,
    ) -> Result<Self, DatasetError> {
        let path = name.as_ref();
        match Kind::of(path) {
            Kind::Beton => Ok(Self::Beton(Arc::new(beton(path)?))),
            kind => Self::other(kind, path, options).map_err(DatasetError::Other),
        }
    }

    /// What can be read in any order; `None` of a stream.
    #[must_use]
    pub fn source(&self) -> Option<Arc<dyn Source>> {
        match self {
            Self::Beton(beton) => Some(Arc::clone(beton) as _),
            Self::Folder(folder) => Some(Arc::clone(folder) as _),
            Self::Source(source) => Some(Arc::clone(source)),
            Self::Stream(_) => None,
        }
    }

    fn other(kind: Kind, path: &Path, options: &FolderOptions) -> Result<Self, BoxError> {
        let text = || {
            path.to_str().ok_or_else(|| format!("{}: shards need names in UTF-8", path.display()))
        };
        Ok(match kind {
            Kind::Beton => Self::Beton(Arc::new(beton(path)?)),
            Kind::Folder => {
                let options = options.clone().listing_or(saved_listing(path));
                Self::Folder(Arc::new(Folder::open(path, &options)?))
            }
            Kind::Tar => Self::Source(Arc::new(Tar::open(text()?)?)),
            Kind::TarStream => Self::Stream(TarStream::open(text()?)?.into()),
            Kind::TfRecords => Self::Source(Arc::new(TfRecords::open(text()?)?)),
            Kind::TfRecordStream => Self::Stream(TfRecordStream::open(text()?)?.into()),
        })
    }
}

/// Where the [listing](Folder::save_listing) of a folder is looked for: beside it, `FOLDER.fidx`.
#[must_use]
pub fn saved_listing(folder: &Path) -> PathBuf {
    // Of `photos/` as of `photos`.
    let mut path = folder.components().collect::<PathBuf>().into_os_string();
    path.push(".fidx");
    path.into()
}

/// A `.beton` file, here or elsewhere.
fn beton(path: &Path) -> Result<Beton, DatasetError> {
    let options = OpenOptions::default();
    let Some(url) = path.to_str().filter(|text| text.contains("://")) else {
        return Ok(Beton::open_with(path, &options)?);
    };
    let object = remote::object(url).map_err(DatasetError::Other)?;
    let opened = Beton::from_reader(object, &options);
    Ok(opened.map_err(|error| SourceError { path: path.to_owned(), kind: error.into() })?)
}

impl Kind {
    fn of(path: &Path) -> Self {
        if path.is_dir() {
            return Self::Folder;
        }
        let Some(text) = path.to_str().filter(|_| !path.is_file()) else {
            return Self::of_name(&path.file_name().unwrap_or_default().to_string_lossy());
        };
        // A pattern's own end tells the kind as well as the files it finds.
        let last = text.rsplit("::").find(|part| !part.is_empty()).unwrap_or(text);
        Self::of_name(Location::Url(last.to_owned()).file_name())
    }

    /// By a file's own name, without those of the folders it is in.
    pub(super) fn of_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        let is_tf_shard = || {
            let stem = name.trim_end_matches(".gz");
            stem.rsplit_once("-of-")
                .is_some_and(|(_, of)| !of.is_empty() && of.bytes().all(|b| b.is_ascii_digit()))
        };
        if ends(&[".tar"]) {
            Self::Tar
        } else if ends(&[".tar.gz", ".tgz", ".tar.zst"]) {
            Self::TarStream
        } else if ends(&[".tfrecord", ".tfrecords", ".tfrec"]) {
            Self::TfRecords
        } else if ends(&[".tfrecord.gz", ".tfrecords.gz", ".tfrec.gz"]) {
            Self::TfRecordStream
        } else if is_tf_shard() {
            if name.ends_with(".gz") { Self::TfRecordStream } else { Self::TfRecords }
        } else if ends(&[".csv", ".tsv", ".jsonl", ".jpg", ".jpeg", ".png"]) {
            Self::Folder
        } else {
            Self::Beton
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_told_by_the_name() {
        let kinds = [
            ("a/train-{000..255}.tar", Kind::Tar),
            ("a.tar::b.tar", Kind::Tar),
            ("s3://bucket/x-{0..9}.tar.gz", Kind::TarStream),
            ("x.tgz", Kind::TarStream),
            ("X.TAR.ZST", Kind::TarStream),
            ("d/*.tfrecord", Kind::TfRecords),
            ("train-*-of-01024", Kind::TfRecords),
            ("train-00000-of-01024.gz", Kind::TfRecordStream),
            ("x.tfrec.gz", Kind::TfRecordStream),
            ("labels.tsv", Kind::Folder),
            ("photos/**/*.JPEG", Kind::Folder),
            ("https://host/a.beton?version=x.tar", Kind::Beton),
            ("train", Kind::Beton),
        ];
        for (name, kind) in kinds {
            assert_eq!(Kind::of(Path::new(name)), kind, "{name}");
        }
        assert_eq!(Kind::of(&std::env::temp_dir()), Kind::Folder);
    }
}
