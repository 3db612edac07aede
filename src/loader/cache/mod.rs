//! The cache: samples before their ops, cached for later epochs; see [`Cache`].

mod cached_field;
mod disk;
mod pending;
mod table;

pub(super) use pending::PendingEntry;

use crate::error::Error;
use crate::sample::SampleId;
use crate::source::{Source, Value};
use cached_field::CachedField;
use disk::CacheFile;
use std::path::PathBuf;
use std::sync::Arc;
use table::{SampleState, SampleTable};

/// Where decoded samples are cached, and the budget.
///
/// | value of a sample                | cached                                                   |
/// |----------------------------------|----------------------------------------------------------|
/// | a JPEG                           | decoded whole, upright if asked for: u8 `[h, w, 3]`       |
/// | a raw image, any other value     | unchanged, if its source is expensive to read again       |
/// | the same in a `.beton` file      | no: the system caches the file's pages, a read is a copy  |
/// | what can't be read or decoded    | no                                                        |
///
/// Samples are cached before their ops, because every epoch draws other crops and colours. An image is
/// returned from the cache as a raw image whose bytes the compiled loop borrows, so its pixels are, bit
/// for bit, the same as without a cache. One decode and one cached copy serve all views and branches.
///
/// A sample is cached completely or not at all, so a hit never reads the source. Nothing is evicted: a
/// full cache takes no more samples, and the other samples are decoded as before, only in the window
/// needed. Evicting the least recently used sample would not help: an epoch visits each sample once, so
/// that sample is the one needed next, and with room for all samples but one an LRU cache never hits.
///
/// | cached in | a hit                                                   | room                    |
/// |-----------|---------------------------------------------------------|-------------------------|
/// | memory    | a lookup; no copy, no lock while the loop runs          | its allocations         |
/// | a file    | one positioned read and its checksum                    | its bytes               |
///
/// In both cases the sample's entry in the table is added. The budget covers all of this and is reserved
/// before anything is decoded or stored: it is never exceeded. The 8 KiB of the empty table are not
/// included.
///
/// The file belongs to the loader, has no name where the system allows that, and disappears with the
/// loader or its process. A failed write (a full disk) ends storing; a failed or short read, or bytes
/// that differ from those written, end the use of the cache. Both are counted in
/// [`CacheStats::failures`] and described in [`CacheStats::trouble`]; the samples are then decoded as
/// before, and no run fails because of it; [`Stats::cache_stopped`](super::Stats::cache_stopped) says it in a sentence.
/// No other loader and no other rank uses the file, and the next run begins with an empty one.
///
/// ```no_run
/// use fuseloop::{Loader, loader::Cache};
///
/// let in_memory = Loader::open("train.beton")?.cache(Cache::memory(32 << 30));
/// let on_disk = Loader::open("train.beton")?.cache(Cache::disk("/scratch/cache", 200 << 30));
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The folder of the cache file; `None` for a cache in memory.
    folder: Option<PathBuf>,
    budget: u64,
}

impl Cache {
    /// A cache in memory, of at most `bytes`.
    #[must_use]
    pub fn memory(bytes: u64) -> Self {
        Self { folder: None, budget: bytes }
    }

    /// A cache in a file of its own in `folder`, which must exist, of at most `bytes`. The file is private to the loader
    /// and deleted with it.
    #[must_use]
    pub fn disk(folder: impl Into<PathBuf>, bytes: u64) -> Self {
        Self { folder: Some(folder.into()), budget: bytes }
    }
}

/// The statistics of a loader's cache, over all epochs; see
///
/// ```no_run
/// use fuseloop::{Loader, loader::Cache};
///
/// let loader = Loader::open("train.beton")?.cache(Cache::memory(8 << 30)).build()?;
/// loader.epoch(0)?.try_for_each(|batch| batch.map(drop))?;
/// if let Some(stats) = loader.cache_stats() {
///     println!("{} of {} bytes; {} samples did not fit", stats.bytes, stats.budget, stats.refused);
/// }
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// The number of rows computed from a cached sample.
    pub hits: u64,
    /// The number of rows whose sample was read and decoded.
    pub misses: u64,
    /// The number of cached samples.
    pub stored: u64,
    /// The bytes they take.
    pub bytes: u64,
    /// The maximum number of bytes.
    pub budget: u64,
    /// How often a sample was not cached because of lack of room.
    pub refused: u64,
    /// The number of failed writes and reads of the file. A failed write ends storing, a failed read the
    /// use of the cache.
    pub failures: u64,
    /// The first of these failures.
    pub trouble: Option<String>,
}

/// The cached samples of one loader.
pub(super) struct SampleCache {
    table: SampleTable,
    /// The cache file; `None` for a cache in memory.
    disk: Option<CacheFile>,
    /// True if raw images and other values are cached too.
    keeps_all: bool,
}

impl SampleCache {
    /// Creates an empty cache for samples of `source`.
    ///
    /// # Errors
    ///
    /// If no file can be created in its folder.
    pub(super) fn open(cache: Cache, source: &dyn Source) -> Result<Self, Error> {
        let create = |folder: PathBuf| {
            CacheFile::create(&folder).map_err(|error| {
                Error::from(error)
                    .context(format_args!("no cache in {}", folder.display()))
                    .named_path(&folder)
            })
        };
        let disk = cache.folder.map(create);
        let (table, disk) = (SampleTable::new(cache.budget), disk.transpose()?);
        Ok(Self { table, disk, keeps_all: !source.facts().rereads_cheaply })
    }

    /// Looks up a sample. If the sample is unknown, the result holds a pending entry that can store it.
    pub(super) fn look(&self, sample: SampleId) -> CacheLookup<'_> {
        if self.disk.as_ref().is_some_and(CacheFile::is_closed) {
            self.table.pass(sample);
            return CacheLookup::EMPTY;
        }
        match self.table.find(sample) {
            SampleState::Kept(fields) => CacheLookup {
                found: Some(CachedSample { fields, disk: self.disk.as_ref() }),
                keeper: None,
            },
            SampleState::Pending => CacheLookup::EMPTY,
            SampleState::Nothing => {
                CacheLookup { found: None, keeper: Some(PendingEntry::new(self, sample)) }
            }
        }
    }

    /// Returns why a cache on disk has stopped: it takes no more samples, or is not used any more.
    pub(super) fn stopped(&self) -> Option<String> {
        let disk = self.disk.as_ref()?;
        let effect = if disk.is_closed() {
            "all samples are decoded again"
        } else {
            "it takes no more samples, and those that are not in it are decoded again in each epoch"
        };
        disk.trouble().map(|trouble| format!("{trouble}: {effect}"))
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

/// The result of a lookup; at most one of the two is set.
pub(super) struct CacheLookup<'a> {
    pub(super) found: Option<CachedSample<'a>>,
    pub(super) keeper: Option<PendingEntry<'a>>,
}

impl CacheLookup<'_> {
    /// There is no cache, its file is closed, or another worker is storing this sample.
    pub(super) const EMPTY: Self = Self { found: None, keeper: None };

    /// Stores the sample, after all its fields were read.
    pub(super) fn end(self) {
        if let Some(keeper) = self.keeper {
            keeper.store();
        }
    }
}

/// A cached sample, shared by the workers that use it.
pub(super) struct CachedSample<'a> {
    fields: Arc<[CachedField]>,
    disk: Option<&'a CacheFile>,
}

impl CachedSample<'_> {
    /// Returns a field's value, borrowed from memory or read into `buffer`; `None` if the field is not
    /// cached or can't be read any more.
    pub(super) fn value<'b>(&'b self, field: usize, buffer: &'b mut Vec<u8>) -> Option<Value<'b>> {
        let cached = self.fields.iter().find(|cached| cached.field == field)?;
        match (&cached.extent, self.disk) {
            (Some(extent), Some(disk)) => Some(cached.with_bytes(disk.read(extent, buffer)?)),
            _ => Some(cached.value.borrowed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_can_t_be_written_says_that_it_stopped_and_why() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Writing to a file that is open for reading fails, as a full disk does.
        let disk = |file| Some(CacheFile::of(file));
        let table = SampleTable::new(1 << 20);
        let cache = SampleCache { table, disk: disk(file.reopen().unwrap()), keeps_all: true };
        assert_eq!(cache.stopped(), None);
        let read_only = std::fs::File::open(file.path()).unwrap();
        let cache = SampleCache { disk: disk(read_only), ..cache };
        assert!(cache.disk.as_ref().unwrap().write(&[1; 100]).is_none());
        let reason = cache.stopped().unwrap();
        assert!(reason.starts_with("writing 100 bytes at 0: "), "{reason}");
        assert!(reason.contains("it takes no more samples"), "{reason}");
    }
}
