//! The cache: samples as they are before their ops, kept for the epochs to come.
//!
//! | of a sample                      | is kept                                                  |
//! |----------------------------------|----------------------------------------------------------|
//! | a JPEG                           | decoded whole, upright if asked for: u8 `[h, w, 3]`       |
//! | a raw picture, any other value   | if its source is costly to read again, as it is           |
//! | the same of a `.beton` file      | no: the system keeps the file's pages, a read is a copy   |
//! | what can't be read or decoded    | no                                                        |
//!
//! Before its ops: every epoch draws crops and colours of its own. A picture comes out of the cache
//! as a raw picture whose bytes are lent to the compiled loop, so that its pixels are, bit for bit,
//! what they are without a cache. One decode and one kept copy serve all views and branches.
//!
//! A sample is kept whole or not at all, so that a hit never reads its source. What is kept stays:
//! a full cache takes nothing more, and the other samples are decoded as before, only the window
//! wanted. To throw out what was used longest ago, as caches do elsewhere, would be of no use: an
//! epoch comes to each sample once, so that is the one needed next, and with room for all samples
//! but one such a cache finds none.
//!
//! | kept in | a hit                                                     | room                    |
//! |---------|-----------------------------------------------------------|-------------------------|
//! | memory  | a look-up; no copy, no lock while the loop runs           | as an allocator takes it |
//! | a file  | one positioned read and its checksum                      | its bytes               |
//!
//! and, for both, the memory of a sample's place in the table. The budget is for all of it and is
//! reserved before anything is decoded or stored: it is never exceeded. 8 KiB of empty table are
//! beside it.
//!
//! The file is the loader's own, has no name where the system allows that, and is gone with the
//! loader or its process. A failed write (a full disk) ends storing; a failed or short read, or
//! bytes that are not those written, ends the use of the cache. Either is counted in
//! [`CacheStats::failures`] and told in [`CacheStats::trouble`]; the samples are then decoded as
//! before, and no run fails for it.

mod disk;
mod keeper;
mod part;
mod table;

pub(super) use keeper::Keeper;

use crate::sample::SampleId;
use crate::source::{Source, Value};
use disk::Disk;
use part::Part;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use table::{Found, Table};

/// Where decoded samples are kept, and how much of them; see
/// [`LoaderBuilder::cache`](super::LoaderBuilder::cache).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// In memory, if none.
    folder: Option<PathBuf>,
    budget: u64,
}

impl Cache {
    /// In memory, no more than `bytes` of it.
    #[must_use]
    pub fn memory(bytes: u64) -> Self {
        Self { folder: None, budget: bytes }
    }

    /// In a file of the loader's own in `folder`, which must exist; no more than `bytes` of it.
    #[must_use]
    pub fn disk(folder: impl Into<PathBuf>, bytes: u64) -> Self {
        Self { folder: Some(folder.into()), budget: bytes }
    }
}

/// Why a cache could not be made.
#[derive(Debug, thiserror::Error)]
#[error("no cache in {}: {error}", folder.display())]
pub struct CacheError {
    /// The folder given.
    pub folder: PathBuf,
    /// What the system said.
    #[source]
    pub error: io::Error,
}

/// What a loader's cache did so far, over all epochs; see
/// [`Loader::cache_stats`](super::Loader::cache_stats).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Rows made of a kept sample.
    pub hits: u64,
    /// Rows whose sample was read, and its pictures decoded.
    pub misses: u64,
    /// Samples kept now.
    pub stored: u64,
    /// What they take.
    pub bytes: u64,
    /// What they may take.
    pub budget: u64,
    /// How often a sample was not kept for want of room.
    pub refused: u64,
    /// Failed writes and reads of the file. Any of them ends storing, or the cache.
    pub failures: u64,
    /// The first of these failures.
    pub trouble: Option<String>,
}

/// The samples kept by one loader.
pub(super) struct SampleCache {
    table: Table,
    /// In memory, if none.
    disk: Option<Disk>,
    /// Whether raw pictures and other values are kept too.
    keeps_all: bool,
}

impl SampleCache {
    /// An empty cache for samples of `source`.
    ///
    /// # Errors
    ///
    /// If no file can be made in its folder.
    pub(super) fn open(cache: Cache, source: &dyn Source) -> Result<Self, CacheError> {
        let disk = cache
            .folder
            .map(|folder| Disk::create(&folder).map_err(|error| CacheError { folder, error }));
        let (table, disk) = (Table::new(cache.budget), disk.transpose()?);
        Ok(Self { table, disk, keeps_all: !source.is_cheap_to_read_again() })
    }

    /// What is known of a sample, and who is to keep it if nothing is.
    pub(super) fn look(&self, sample: SampleId) -> Seat<'_> {
        if self.disk.as_ref().is_some_and(Disk::is_closed) {
            self.table.pass(sample);
            return Seat::EMPTY;
        }
        match self.table.find(sample) {
            Found::Kept(parts) => {
                Seat { kept: Some(Kept { parts, disk: self.disk.as_ref() }), keeper: None }
            }
            Found::InTheMaking => Seat::EMPTY,
            Found::Nothing => Seat { kept: None, keeper: Some(Keeper::new(self, sample)) },
        }
    }

    pub(super) fn stats(&self) -> CacheStats {
        let stats = self.table.stats();
        match &self.disk {
            None => stats,
            Some(disk) => {
                CacheStats { failures: disk.failures(), trouble: disk.trouble(), ..stats }
            }
        }
    }
}

/// What a worker has of a sample before it begins: at most one of the two.
pub(super) struct Seat<'a> {
    pub(super) kept: Option<Kept<'a>>,
    pub(super) keeper: Option<Keeper<'a>>,
}

impl Seat<'_> {
    /// No cache, or one that is of no use now: another worker is at this sample.
    pub(super) const EMPTY: Self = Self { kept: None, keeper: None };

    /// Keeps the sample, now that all that is read of it was had.
    pub(super) fn end(self) {
        if let Some(keeper) = self.keeper {
            keeper.store();
        }
    }
}

/// A kept sample. It lives as long as somebody works at it.
pub(super) struct Kept<'a> {
    parts: Arc<[Part]>,
    disk: Option<&'a Disk>,
}

impl Kept<'_> {
    /// A field's value, lent from memory or read into `buffer`; `None` if it was not kept, or
    /// can't be had any more.
    pub(super) fn value<'b>(&'b self, field: usize, buffer: &'b mut Vec<u8>) -> Option<Value<'b>> {
        let part = self.parts.iter().find(|part| part.field == field)?;
        match (&part.place, self.disk) {
            (Some(place), Some(disk)) => Some(part.with_bytes(disk.read(place, buffer)?)),
            _ => Some(part.value.borrowed()),
        }
    }
}
