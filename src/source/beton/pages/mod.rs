//! The process cache: a run's pages, read ahead by threads of their own into memory of their own.
//!
//! ```text
//! begin   plan.rs      the tables alone  -> the pages of the run, and by page the places of its uses
//! read    threads.rs   I/O threads: the page whose next use comes soonest, while there is room
//! value   cache.rs     here: lent     being read: waited for     neither: read directly
//! room    cache.rs     a page goes at its last use; before that, the one whose next use is farthest
//! ```
//!
//! | | |
//! |----------|-----------------------------------------------------------------------------|
//! | memory   | `budget_bytes` of pages; 4 bytes a value of the run (16 to begin), 100 a page |
//! | begin    | one look at the row of each sample and one sort, on all cores               |
//! | reads    | a page once, from its first needed byte to its last, if the budget allows    |
//! | threads  | `io_threads`, from `begin` until the run's view is dropped                   |
//!
//! What plain reads ([`Beton`]) leave to the system's cache: no read of a page, but of one value
//! after another. A disk far away, or one that turns, likes whole pages better; and pages that are
//! read before they are needed are not waited for.
//!
//! Which page to give up when room is short is Belady's rule (IBM Systems Journal 5(2), 1966): the
//! schedule is known, so the rule can be kept. One thing is added: a page is not read in another's
//! place if little of it will be used before that other is wanted back. A shuffled epoch on a small
//! budget would else read a page for each value; its values are read directly, one by one.
//!
//! A value that lies before the first page or crosses from one to the next, as no writer of ours or
//! FFCV's leaves it, is read directly.

mod cache;
mod plan;
mod stats;
mod threads;

pub use stats::PageStats;

use super::{Beton, FieldSpec, ImageStats, read::Located};
use crate::sample::SampleId;
use crate::source::{
    BoxError, Buffer, ClassNames, ReadErrorKind, Record, RunPlan, SampleLocation, Source, Value,
};
use crate::threads::{self as limits, ThreadsError};
use plan::Plan;
use stats::Counters;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threads::{Lent, Reading};

/// How pages are kept and read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessCache {
    /// Most bytes of pages in memory, for each run. Default 1 GiB. With less than a page, values
    /// are read directly.
    pub budget_bytes: u64,
    /// Threads that read pages, for each run, at most 1024. Default 4.
    pub io_threads: NonZeroUsize,
}

impl Default for ProcessCache {
    fn default() -> Self {
        const FOUR: NonZeroUsize = NonZeroUsize::new(4).expect("four is not zero");
        Self { budget_bytes: 1 << 30, io_threads: FOUR }
    }
}

impl ProcessCache {
    /// Refuses more threads than may be asked for.
    pub(crate) fn check(&self) -> Result<(), ThreadsError> {
        limits::check("io_threads", self.io_threads.get())
    }
}

/// A `.beton` file whose pages are read ahead of the samples of a run.
///
/// A run begins with [`Source::begin`], which loaders call; what is read outside one is read as
/// [`Beton`] reads it. A file held in memory is lent from there.
pub struct PagedBeton {
    beton: Arc<Beton>,
    options: ProcessCache,
    counters: Arc<Counters>,
    /// In the view of one run: its pages.
    run: Option<Reading>,
}

impl PagedBeton {
    /// An open file, to be read by pages.
    #[must_use]
    pub fn new(beton: impl Into<Arc<Beton>>, options: ProcessCache) -> Self {
        let counters = Arc::new(Counters::default());
        Self { beton: beton.into(), options, counters, run: None }
    }

    /// The file.
    #[must_use]
    pub fn beton(&self) -> &Beton {
        &self.beton
    }

    /// What was read so far, in all runs.
    #[must_use]
    pub fn stats(&self) -> PageStats {
        self.counters.stats()
    }

    /// A stored value's bytes: lent from its page, else read into the buffer.
    fn stored<'a>(
        &'a self,
        run: &Reading,
        (ptr, size): (u64, u64),
        buffer: &'a mut Buffer,
    ) -> Result<&'a [u8], ReadErrorKind> {
        self.counters.needed(size);
        if let Some(Lent { page, range }) = run.lend(ptr, size)? {
            let held = buffer.held.insert(page);
            let bytes: &[u8] = (**held).as_ref();
            return Ok(&bytes[range]);
        }
        self.counters.read_directly(size);
        self.beton.bytes.get(ptr, size, &mut buffer.bytes)
    }
}

impl Source for PagedBeton {
    fn fields(&self) -> &[FieldSpec] {
        self.beton.fields()
    }

    fn len(&self) -> u64 {
        self.beton.len()
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.beton.read(sample)
    }

    fn name(&self) -> String {
        self.beton.name()
    }

    fn path(&self) -> Option<&Path> {
        self.beton.path()
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Source::paths(&*self.beton)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        // Whoever waits for a page holds none: else it might be its own room that it waits for.
        buffer.held = None;
        let Some(run) = &self.run else {
            return Source::value(&*self.beton, sample, field, buffer);
        };
        match self.beton.located(sample, field)? {
            Located::Here(value) => Ok(value),
            Located::Stored(stored) if stored.size == 0 => Ok(stored.value(&[])),
            Located::Stored(stored) => {
                let bytes = self.stored(run, (stored.ptr, stored.size), buffer)?;
                Ok(stored.value(bytes))
            }
        }
    }

    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        self.beton.image_stats(field).cloned()
    }

    fn longest(&self, field: usize) -> Option<u64> {
        Some(self.beton.longest(field))
    }

    fn is_cheap_to_read_again(&self) -> bool {
        self.beton.is_cheap_to_read_again()
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        Source::locate(&*self.beton, sample, field)
    }

    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        self.beton.class_names()
    }

    fn page(&self, sample: SampleId) -> Option<u64> {
        self.beton.page(sample)
    }

    fn fingerprint(&self) -> u64 {
        self.beton.fingerprint()
    }

    fn end(&self) {
        if let Some(run) = &self.run {
            run.end();
        }
    }

    /// A view that reads ahead. `None` where there is nothing to gain: a file in memory, a run
    /// without stored values or of more than 2^32 samples.
    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Arc<dyn Source>>, BoxError> {
        let Some(reader) = self.beton.bytes.reader() else { return Ok(None) };
        let Some(plan) = Plan::new(&self.beton, run)? else { return Ok(None) };
        let reading = Reading::begin(plan, run, &self.options, &self.counters, reader)?;
        Ok(Some(Arc::new(Self {
            beton: Arc::clone(&self.beton),
            options: self.options,
            counters: Arc::clone(&self.counters),
            run: Some(reading),
        })))
    }
}
