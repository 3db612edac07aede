//! The process cache: its own threads read the pages of a run ahead, into its own memory.
//!
//! ```text
//! begin   plan.rs      the tables alone  -> the pages of the run, and the positions of each page's uses
//! read    threads.rs   I/O threads: the page whose next use comes soonest, while there is room
//! value   cache.rs     in memory: borrowed     being read: wait     neither: read directly
//! room    cache.rs     a page is dropped after its last use; before that, the one with the farthest next use
//! ```
//!
//! |         |                                                                                     |
//! |---------|-------------------------------------------------------------------------------------|
//! | memory  | `budget_bytes` of pages; per value of the run 4 bytes (16 in `begin`), per page 100 |
//! | begin   | one lookup of the row of each sample and one sort, on all cores                     |
//! | reads   | each page once, from its first needed byte to its last, if the budget allows        |
//! | threads | `io_threads`, from `begin` until the run's view is dropped                          |
//!
//! Plain reads ([`Beton`]) read one value after another, and leave pages to the system's cache. A remote
//! disk, or a rotating one, is faster at whole pages; and no thread waits for pages that are read before
//! they are needed.
//!
//! When memory is short, the page to evict is chosen by Belady's rule (IBM Systems Journal 5(2), 1966):
//! the schedule is known, so the rule can be applied. There is one addition: a page does not replace
//! another if little of it will be used before the other is needed again. Otherwise a shuffled epoch on
//! a small budget would read a page for each value; instead its values are read directly, one by one.
//!
//! A value that begins before the first page or crosses from one page to the next is read directly.
//! Neither our writer nor FFCV's writes such values.

mod cache;
mod plan;
mod stats;
mod threads;

pub use stats::PageStats;

use super::{Beton, sample_table::ValueLocation};
use crate::error::Error;
use crate::sample::SampleId;
use crate::source::{BoxError, Buffer, Facts, Record, Run, RunPlan, SampleLocation, Source, Value};
use crate::threads::{self as limits, ThreadsError};
use plan::PagePlan;
use stats::Counters;
use std::num::NonZeroUsize;
use std::sync::Arc;
use threads::{BorrowedValue, PageReads};

/// How pages are cached and read ahead.
///
/// ```no_run
/// use fuseloop::{Loader, source::ProcessCache};
///
/// let cache = ProcessCache { budget_bytes: 4 << 30, ..ProcessCache::default() };
/// let loader = Loader::open("train.beton")?.process_cache(cache).build()?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessCache {
    /// The most bytes of pages in memory, for each run. The default is 1 GiB. With less than a page,
    /// values are read directly.
    pub budget_bytes: u64,
    /// The number of threads that read pages, for each run, at most 1024. The default is 4.
    pub io_threads: NonZeroUsize,
}

impl Default for ProcessCache {
    fn default() -> Self {
        const FOUR: NonZeroUsize = NonZeroUsize::new(4).expect("four is not zero");
        Self { budget_bytes: 1 << 30, io_threads: FOUR }
    }
}

impl ProcessCache {
    /// Returns an error if there are more threads than are allowed.
    pub(crate) fn check(&self) -> Result<(), ThreadsError> {
        limits::check("io_threads", self.io_threads.get())
    }
}

/// A `.beton` file whose pages are read ahead of the samples of a run.
///
/// A run begins with [`Source::begin`], which loaders call. Outside a run, values are read as [`Beton`]
/// reads them. Values of a file in memory are borrowed from there.
pub struct PagedBeton {
    beton: Arc<Beton>,
    facts: Facts,
    options: ProcessCache,
    counters: Arc<Counters>,
    /// The pages of the run, in the view of one run.
    run: Option<Arc<PageReads>>,
}

impl PagedBeton {
    /// Wraps an open file, to read it by pages.
    #[must_use]
    pub fn new(beton: impl Into<Arc<Beton>>, options: ProcessCache) -> Self {
        let (beton, counters) = (beton.into(), Arc::new(Counters::default()));
        // Its pages are read ahead, so that the file is not held.
        let facts = Facts { stored_bytes: None, ..beton.facts().clone() };
        Self { beton, facts, options, counters, run: None }
    }

    /// Returns the file.
    #[must_use]
    pub fn beton(&self) -> &Beton {
        &self.beton
    }

    /// Returns the counts of what was read so far, in all runs.
    #[must_use]
    pub fn stats(&self) -> PageStats {
        self.counters.stats()
    }

    /// Returns a stored value's bytes, borrowed from its page, otherwise read into the buffer.
    fn stored_bytes<'a>(
        &'a self,
        run: &PageReads,
        (ptr, size): (u64, u64),
        buffer: &'a mut Buffer,
    ) -> Result<&'a [u8], Error> {
        self.counters.needed(size);
        if let Some(BorrowedValue { page, range }) = run.borrow(ptr, size)? {
            let held = buffer.held.insert(page);
            let bytes: &[u8] = (**held).as_ref();
            return Ok(&bytes[range]);
        }
        self.counters.read_directly(size);
        self.beton.bytes.get(ptr, size, &mut buffer.bytes)
    }
}

impl Source for PagedBeton {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.beton.read(sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        // A thread that waits for a page holds none: it could be waiting for the memory of the page that
        // it holds.
        buffer.held = None;
        let Some(run) = &self.run else {
            return Source::value(&*self.beton, sample, field, buffer);
        };
        let value = self.beton.table.located(sample, field).and_then(|located| match located {
            ValueLocation::InRow(value) => Ok(value),
            ValueLocation::InPages(stored) if stored.size == 0 => Ok(stored.value(&[])),
            ValueLocation::InPages(stored) => {
                let bytes = self.stored_bytes(run, (stored.ptr, stored.size), buffer)?;
                Ok(stored.value(bytes))
            }
        });
        Ok(value.map_err(|error| self.beton.of_value(error, sample, field))?)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        Source::locate(&*self.beton, sample, field)
    }

    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        self.beton.locality_group(sample)
    }

    /// Returns a view that reads ahead. `None` if there is nothing to gain: for a file in memory, a run
    /// without stored values, or a run of more than 2^32 samples.
    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Run>, BoxError> {
        let Some(reader) = self.beton.bytes.reader() else { return Ok(None) };
        let Some(plan) = PagePlan::new(&self.beton, run)? else { return Ok(None) };
        let reading = PageReads::begin(plan, run, &self.options, &self.counters, reader)?;
        let reading = Arc::new(reading);
        let view = Self {
            beton: Arc::clone(&self.beton),
            facts: self.facts.clone(),
            options: self.options,
            counters: Arc::clone(&self.counters),
            run: Some(Arc::clone(&reading)),
        };
        Ok(Some(Run::new(Arc::new(view)).on_end(move || reading.end())))
    }
}
