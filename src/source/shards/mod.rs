//! The files that hold a dataset's samples, and the positions of the samples in them. A shard is one file of a dataset
//! that consists of several.
//!
//! ```text
//! names ─▶ Shards: open files, read at offsets ─▶ (tar, tfrecord) scan each ─▶ ShardIndex ─▶ PackedIndex ─▶ samples
//! ```

pub(in crate::source) mod bits;
mod index;
mod keys;
mod packed;
mod reader;

pub(in crate::source) use super::remote::Extents;
pub(in crate::source) use index::{ShardIndex, ShardMember};
pub(in crate::source) use packed::{
    IndexFile, IndexPages, MemberLayout, MemberNames, NamedMembers, PackedIndex,
};
pub(in crate::source) use reader::{LARGE, ShardReader};

use super::file::FileBytes;
use super::{BoxError, Facts, FieldSpec, Location, ReadAt, RunPlan, classes, remote};
use crate::error::{AtPath as _, Error};
use crate::parallel;
use crate::source::file_pool;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One open file of a dataset. A clone is the same file.
#[derive(Clone)]
pub(in crate::source) struct Shard {
    pub(in crate::source) location: Location,
    pub(in crate::source) bytes: Arc<FileBytes>,
}

impl Shard {
    /// Opens a file or a remote object.
    ///
    /// # Errors
    ///
    /// Fails with the system's error and the file's name.
    pub(in crate::source) fn open(location: Location) -> Result<Self, Error> {
        Self::open_as(location, FileBytes::open)
    }

    fn open_as(
        location: Location,
        open: impl Fn(&Path) -> io::Result<FileBytes>,
    ) -> Result<Self, Error> {
        let bytes = match &location {
            Location::Path(path) => open(path),
            Location::Url(url) => FileBytes::from_reader(remote::open(url)?),
        };
        let bytes = bytes.at(&location)?;
        Ok(Self { location, bytes: Arc::new(bytes) })
    }

    /// Wraps bytes in memory, for tests and fuzzing.
    #[cfg_attr(
        not(feature = "tfrecord"),
        allow(dead_code, reason = "a test of tar files needs it")
    )]
    pub(in crate::source) fn held(name: &str, bytes: &[u8]) -> Self {
        let bytes = FileBytes::InMemory(bytes.into());
        Self { location: Location::Path(name.into()), bytes: Arc::new(bytes) }
    }
}

/// The open files of a dataset, in order. A clone shares the files.
#[derive(Clone)]
pub(in crate::source) struct Shards(Arc<[Shard]>);

impl Shards {
    /// Wraps open files.
    pub(in crate::source) fn new(shards: impl Into<Arc<[Shard]>>) -> Self {
        Self(shards.into())
    }

    /// Opens all files that a text names, several at a time. Of several local files, as many are open as the
    /// [pool](file_pool) of the process has room for; the others are opened when they are read.
    ///
    /// # Errors
    ///
    /// Fails with the name of the first file that can't be opened.
    pub(in crate::source) fn open(spec: &str) -> Result<Self, Error> {
        Self::at(&Location::parse(spec)?)
    }

    /// Opens all files of a list, as [`open`](Self::open) does.
    ///
    /// # Errors
    ///
    /// Fails with the name of the first file that can't be opened.
    pub(in crate::source) fn at(locations: &[Location]) -> Result<Self, Error> {
        let (count, most) = (locations.len(), file_pool::most_open());
        let open_one = |path: &Path| match count {
            0 | 1 => FileBytes::open(path),
            _ => FileBytes::pooled(path, count <= most),
        };
        let open = |location: &Location| Shard::open_as(location.clone(), open_one);
        let opened = parallel::map(locations, open)?;
        let shards: Result<Vec<Shard>, Error> = opened.into_iter().collect();
        Ok(Self::new(shards?))
    }

    /// Returns all shards.
    pub(in crate::source) fn all(&self) -> &[Shard] {
        &self.0
    }

    /// Returns the locations of the shards.
    pub(in crate::source) fn locations(&self) -> impl Iterator<Item = &Location> + Clone {
        self.0.iter().map(|shard| &shard.location)
    }

    /// Returns a name for all shards together, for errors.
    pub(in crate::source) fn name(&self) -> String {
        name_of(self.0.iter().map(|shard| &shard.location))
    }

    /// Returns the facts of a dataset of these files.
    pub(in crate::source) fn facts(&self, fields: Arc<[FieldSpec]>, samples: u64) -> Facts {
        let path = match &*self.0 {
            [Shard { location: Location::Path(path), .. }] => Some(path.clone()),
            _ => None,
        };
        let rereads_cheaply =
            self.0.iter().all(|shard| matches!(shard.location, Location::Path(_)));
        let all = facts_of(self.locations().cloned().collect(), fields, samples);
        Facts { path, rereads_cheaply, ..all }
    }

    /// Returns the files as one run reads them, if some are remote: the ranges that the run will need
    /// are fetched ahead of it. `None` means that the run reads the files as they are.
    ///
    /// # Errors
    ///
    /// Fails if reading ahead can't be started.
    pub(in crate::source) fn ahead(
        &self,
        run: &RunPlan,
        extents: Arc<dyn Extents>,
    ) -> Result<Option<Self>, BoxError> {
        let views = remote::ahead(&self.readers(), run, extents)?;
        views.map(|views| self.over(views)).transpose()
    }

    /// Returns what each shard is read from; `None` for a shard in memory.
    pub(in crate::source) fn readers(&self) -> Vec<Option<Arc<dyn ReadAt>>> {
        self.0.iter().map(|shard| shard.bytes.reader().cloned()).collect()
    }

    /// Returns the shards with some of their files replaced by `views` of the same bytes.
    ///
    /// # Errors
    ///
    /// Fails if a view can't tell its length.
    pub(in crate::source) fn over(
        &self,
        views: Vec<Option<Arc<dyn ReadAt>>>,
    ) -> Result<Self, BoxError> {
        let shards = self.0.iter().zip(views).map(|(shard, view)| {
            let Some(view) = view else { return Ok(shard.clone()) };
            let bytes = Arc::new(FileBytes::from_reader(view)?);
            Ok(Shard { location: shard.location.clone(), bytes })
        });
        Ok(Self::new(shards.collect::<Result<Vec<_>, BoxError>>()?))
    }
}

/// Returns the paths of the shards that are local files.
fn local_paths(shards: &[Location]) -> impl Iterator<Item = PathBuf> {
    shards.iter().filter_map(|shard| match shard {
        Location::Path(path) => Some(path.clone()),
        Location::Url(_) => None,
    })
}

/// Returns the facts of a dataset of these files, with the names of classes that are next to them.
pub(in crate::source) fn facts_of(
    files: Arc<[Location]>,
    fields: Arc<[FieldSpec]>,
    samples: u64,
) -> Facts {
    let of_names = Arc::clone(&files);
    Facts { name: name_of(files.iter()), ..Facts::of(fields, samples) }
        .with_paths(move || Box::new(local_paths(&files).collect::<Vec<_>>().into_iter()))
        .with_class_names(move || classes::names_beside_shards(of_names.iter()))
}

/// Returns a name for several shards together.
fn name_of<'a>(
    mut shards: impl ExactSizeIterator<Item = &'a Location> + DoubleEndedIterator,
) -> String {
    let count = shards.len();
    match (shards.next(), shards.next_back()) {
        (None, _) => "no shards".to_owned(),
        (Some(one), None) => one.to_string(),
        (Some(first), Some(last)) => format!("{first} .. {last} ({count} shards)"),
    }
}
