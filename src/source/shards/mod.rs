//! The files that a dataset's samples lie in, and where in them.
//!
//! ```text
//! names ─▶ Shards: open files, read at places ─▶ (tar, tfrecord) scan each ─▶ ShardIndex ─▶ samples
//! ```

mod deal;
mod index;
mod pool;
mod reader;

pub(in crate::source) use deal::deal;
pub(in crate::source) use index::{Part, ShardIndex};
pub(in crate::source) use reader::{LARGE, ShardReader};

use super::file::FileBytes;
use super::{BoxError, Location, ReadErrorKind, RunPlan, remote};
use crate::parallel;
use crate::sample::SampleId;
use pool::Pool;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One open file of several. A clone is the same file.
#[derive(Clone)]
pub(in crate::source) struct Shard {
    pub(in crate::source) location: Location,
    pub(in crate::source) bytes: Arc<FileBytes>,
}

impl Shard {
    /// Opens a file, or an object elsewhere.
    ///
    /// # Errors
    ///
    /// As the system says, with the name.
    pub(in crate::source) fn open(location: Location) -> Result<Self, BoxError> {
        Self::open_in(location, None)
    }

    fn open_in(location: Location, pool: Option<&Arc<Pool>>) -> Result<Self, BoxError> {
        let bytes = match (&location, pool) {
            (Location::Path(path), None) => FileBytes::open(path),
            (Location::Path(path), Some(pool)) => {
                pool.file(path).and_then(|file| FileBytes::from_reader(file))
            }
            (Location::Url(url), _) => FileBytes::from_reader(remote::open(url)?),
        };
        let bytes = bytes.map_err(|error| format!("{location}: {error}"))?;
        Ok(Self { location, bytes: Arc::new(bytes) })
    }

    /// Bytes held in memory, for tests and fuzzing.
    pub(in crate::source) fn held(name: &str, bytes: &[u8]) -> Self {
        let bytes = FileBytes::Held(bytes.into());
        Self { location: Location::Path(name.into()), bytes: Arc::new(bytes) }
    }

    /// `range` of it: lent, or read into the buffer.
    ///
    /// # Errors
    ///
    /// As [`FileBytes::get`], with the name.
    pub(in crate::source) fn get<'a>(
        &'a self,
        range: &Range<u64>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], BoxError> {
        let size = range.end.saturating_sub(range.start);
        let got = self.bytes.get(range.start, size, buffer);
        got.map_err(|error: ReadErrorKind| format!("{}: {error}", self.location).into())
    }
}

/// The open files of a dataset, in order. A clone shares them.
#[derive(Clone)]
pub(in crate::source) struct Shards(Arc<[Shard]>);

impl Shards {
    /// Open files.
    pub(in crate::source) fn new(shards: impl Into<Arc<[Shard]>>) -> Self {
        Self(shards.into())
    }

    /// Opens all files that a text names, several at a time. Where they are many, those of this machine
    /// are opened when they are read.
    ///
    /// # Errors
    ///
    /// With the first, by name, that can't be.
    pub(in crate::source) fn open(spec: &str) -> Result<Self, BoxError> {
        let locations = Location::parse(spec)?;
        let pool = (locations.len() > pool::MOST).then(|| Pool::new(pool::MOST));
        let open = |location: &Location| Shard::open_in(location.clone(), pool.as_ref());
        let opened = parallel::map(&locations, open)?;
        let shards: Result<Vec<Shard>, BoxError> = opened.into_iter().collect();
        Ok(Self::new(shards?))
    }

    /// All of them.
    pub(in crate::source) fn all(&self) -> &[Shard] {
        &self.0
    }

    /// Where they are.
    pub(in crate::source) fn locations(&self) -> impl Iterator<Item = &Location> {
        self.0.iter().map(|shard| &shard.location)
    }

    /// What they are called together in errors.
    pub(in crate::source) fn name(&self) -> String {
        name_of(self.0.iter().map(|shard| &shard.location))
    }

    /// Whether all of them are files of this machine.
    pub(in crate::source) fn are_local(&self) -> bool {
        self.0.iter().all(|shard| matches!(shard.location, Location::Path(_)))
    }

    /// The path, if there is one file of this machine alone.
    pub(in crate::source) fn path(&self) -> Option<&Path> {
        match &*self.0 {
            [Shard { location: Location::Path(path), .. }] => Some(path),
            _ => None,
        }
    }

    /// The paths of those that are files of this machine.
    pub(in crate::source) fn paths(&self) -> impl Iterator<Item = PathBuf> + '_ {
        local_paths(self.0.iter().map(|shard| &shard.location))
    }

    /// The files as one run reads them, where some are elsewhere: what the run will want is
    /// fetched ahead of it. `None`: as they are.
    ///
    /// # Errors
    ///
    /// If reading ahead can't be begun.
    pub(in crate::source) fn ahead(
        &self,
        run: &RunPlan,
        extents: Arc<dyn Extents>,
    ) -> Result<Option<Self>, BoxError> {
        remote::ahead(self, run, extents)
    }
}

/// The paths of the shards that are files of this machine.
pub(in crate::source) fn local_paths<'a>(
    shards: impl Iterator<Item = &'a Location>,
) -> impl Iterator<Item = PathBuf> {
    shards.filter_map(|shard| match shard {
        Location::Path(path) => Some(path.clone()),
        Location::Url(_) => None,
    })
}

/// What shards are called together.
pub(in crate::source) fn name_of<'a>(
    mut shards: impl ExactSizeIterator<Item = &'a Location> + DoubleEndedIterator,
) -> String {
    let count = shards.len();
    match (shards.next(), shards.next_back()) {
        (None, _) => "no shards".to_owned(),
        (Some(one), None) => one.to_string(),
        (Some(first), Some(last)) => format!("{first} .. {last} ({count} shards)"),
    }
}

/// Where samples lie: what reading ahead is planned by.
pub(in crate::source) trait Extents: Send + Sync {
    #[cfg_attr(
        not(feature = "remote"),
        expect(dead_code, reason = "only what is remote is planned")
    )]
    /// Appends (shard, bytes) of what reading these fields of a sample reads.
    fn extents(&self, sample: SampleId, fields: &[usize], out: &mut Vec<(usize, Range<u64>)>);
}
