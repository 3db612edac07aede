//! The plan of a run: which pages it uses, and when, from the tables alone.
//!
//! A *position* is a sample's number in the run's order, from 0; a *use* is a value that the run reads,
//! at its position. The plan stores, for each page, the positions of its uses in order: 4 bytes for each
//! use.

use super::super::Beton;
use super::super::sample_table::{StoredBytes, ValueLocation};
use crate::error::Error;
use crate::parallel;
use crate::sample::SampleId;
use crate::source::error::no_memory;
use crate::source::{BoxError, FieldKind, RunPlan, Upcoming};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// The number of samples that one thread looks up in one piece of work: well under a millisecond.
const CHUNK: u64 = 4096;

/// Values with gaps of at most this many bytes are read as one. Reading 64 KiB takes less time than one
/// more request, on any storage that pages are useful for.
const GAP: u32 = 64 << 10;

/// The pages that a run uses, in the order of their numbers.
pub(super) struct PagePlan {
    beton: Arc<Beton>,
    upcoming: Arc<dyn Upcoming>,
    fields: Vec<usize>,
    layout: PageLayout,
    pages: Vec<PageUse>,
    /// The positions of the uses, page by page.
    positions: Vec<u32>,
}

/// The layout of the pages in the file.
#[derive(Clone, Copy)]
struct PageLayout {
    start: u64,
    size: u64,
}

/// A page that a run uses.
struct PageUse {
    number: u32,
    /// The range of the page's uses in the plan's list of positions.
    uses: Range<usize>,
    /// The range from the first needed byte to the end of the last, relative to the page's start.
    needed: Range<u32>,
    /// The bytes of all uses. A value that is used twice counts twice.
    bytes: u64,
}

/// A range of a page that is read in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageRange {
    /// The offset of the range in the file.
    pub(super) start: u64,
    /// The size of the range in bytes.
    pub(super) len: usize,
    /// The offset of the range in the page's memory.
    pub(super) at: usize,
}

/// One use of a page.
#[derive(Clone, Copy)]
struct Use {
    page: u32,
    position: u32,
    at: u32,
    len: u32,
}

impl PageLayout {
    /// Returns the page that holds a value, and the value's range in the page; `None` if the value is in
    /// no page, or in two.
    fn find(&self, ptr: u64, size: u64) -> Option<(u32, Range<u32>)> {
        let from = ptr.checked_sub(self.start)?;
        let last = from.checked_add(size)?.checked_sub(1)?;
        let page = from / self.size;
        if last / self.size != page {
            return None;
        }
        // The offset is inside a page, whose size is a `u32`.
        let at = |from: u64| u32::try_from(from % self.size).ok();
        Some((u32::try_from(page).ok()?, at(from)?..at(last)? + 1))
    }
}

impl PagePlan {
    /// Returns the plan of a run; `None` if the run uses no page, or has more positions than a `u32` can
    /// count.
    ///
    /// # Errors
    ///
    /// Fails if there is no memory for the plan, or if the system starts no threads to build it.
    pub(super) fn new(beton: &Arc<Beton>, run: &RunPlan) -> Result<Option<Self>, BoxError> {
        let header = beton.header();
        let size = u64::from(header.page_size);
        let (Some(start), Ok(_)) =
            (header.data_start(beton.row_bytes()), u32::try_from(run.upcoming.samples()))
        else {
            return Ok(None);
        };
        let mut plan = Self {
            beton: Arc::clone(beton),
            upcoming: Arc::clone(&run.upcoming),
            fields: run.fields.clone(),
            layout: PageLayout { start, size },
            pages: vec![],
            positions: vec![],
        };
        plan.enter(&plan.collect_uses()?)?;
        Ok(if plan.pages.is_empty() { None } else { Some(plan) })
    }

    /// Collects every use of a page, in the order of pages and positions.
    fn collect_uses(&self) -> Result<Vec<Use>, BoxError> {
        let count = self.upcoming.samples();
        let mut uses = vec![];
        reserve(&mut uses, (count as usize).saturating_mul(self.stored_fields()))?;
        let chunks = count.div_ceil(CHUNK);
        let uses_of = |chunk| self.uses_at(chunk * CHUNK..count.min((chunk + 1) * CHUNK));
        parallel::on_all_cores(chunks as usize, || {
            uses.par_extend((0..chunks).into_par_iter().flat_map_iter(uses_of));
            uses.par_sort_unstable_by_key(|of| u64::from(of.page) << 32 | u64::from(of.position));
        })?;
        Ok(uses)
    }

    /// Returns the number of fields that have values in pages.
    fn stored_fields(&self) -> usize {
        let kind = |&&field: &&usize| self.beton.fields().get(field).map(|spec| &spec.kind);
        let stored =
            |field: &&usize| !matches!(kind(field), Some(FieldKind::Int | FieldKind::Float));
        self.fields.iter().filter(stored).count()
    }

    /// Returns the uses of the samples at these positions, which are below 2^32.
    fn uses_at(&self, positions: Range<u64>) -> Vec<Use> {
        let (mut uses, mut samples) = (vec![], vec![]);
        self.upcoming.at(positions.clone(), &mut samples);
        for (position, sample) in (positions.start as u32..).zip(samples) {
            self.values(sample, |page, at| {
                uses.push(Use { page, position, at: at.start, len: at.end - at.start });
            });
        }
        uses
    }

    /// Calls `each` for every value of a sample that is in a page, with the page and the value's range
    /// in it.
    fn values(&self, sample: SampleId, mut each: impl FnMut(u32, Range<u32>)) {
        for &field in &self.fields {
            // A value that can't be read is an error when it is asked for.
            if let Ok(ValueLocation::InPages(StoredBytes { ptr, size, .. })) =
                self.beton.table.located(sample, field)
                && let Some((page, at)) = self.layout.find(ptr, size)
            {
                each(page, at);
            }
        }
    }

    fn enter(&mut self, uses: &[Use]) -> Result<(), Error> {
        reserve(&mut self.positions, uses.len())?;
        for uses in uses.chunk_by(|a, b| a.page == b.page) {
            let first = self.positions.len();
            self.positions.extend(uses.iter().map(|of| of.position));
            let start = uses.iter().map(|of| of.at).min().unwrap_or_default();
            let end = uses.iter().map(|of| of.at + of.len).max().unwrap_or_default();
            self.pages.push(PageUse {
                number: uses[0].page,
                uses: first..self.positions.len(),
                needed: start..end,
                bytes: uses.iter().map(|of| u64::from(of.len)).sum(),
            });
        }
        Ok(())
    }

    /// Returns the number of pages.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the page's number in the file, from 0.
    pub(super) fn number(&self, page: usize) -> u64 {
        self.pages[page].number.into()
    }

    /// Returns the page that holds a value, if the run uses that page.
    pub(super) fn find(&self, ptr: u64, size: u64) -> Option<usize> {
        let (number, _) = self.layout.find(ptr, size)?;
        // A run usually uses all pages from the first on.
        let guess = number.checked_sub(self.pages.first()?.number)? as usize;
        if self.pages.get(guess).is_some_and(|page| page.number == number) {
            return Some(guess);
        }
        self.pages.binary_search_by_key(&number, |page| page.number).ok()
    }

    /// Returns the positions of a page's uses, in order.
    pub(super) fn uses(&self, page: usize) -> &[u32] {
        &self.positions[self.pages[page].uses.clone()]
    }

    /// Returns about how many bytes there are in `uses` of a page's uses.
    pub(super) fn bytes_of(&self, page: usize, uses: usize) -> u64 {
        self.pages[page].bytes / self.uses(page).len() as u64 * uses as u64
    }

    /// Returns the ranges to read of a page after `used` of its uses: everything from the first needed
    /// byte to the last, or only what is needed, if everything is more than double that.
    pub(super) fn ranges_to_read(&self, page: usize, used: usize) -> Vec<PageRange> {
        let needed = self.pages[page].needed.clone();
        let left = self.uses(page).len() - used;
        let most = u64::from(needed.end - needed.start) / 2;
        let ranges = match self.bytes_of(page, left) {
            bytes if bytes > most => vec![needed],
            _ => match self.ranges(page, used) {
                ranges if total(&ranges) > most => vec![needed],
                ranges => ranges,
            },
        };
        let start = self.layout.start + self.number(page) * self.layout.size;
        let mut at = 0;
        let part = |range: Range<u32>| {
            let len = (range.end - range.start) as usize;
            at += len;
            PageRange { start: start + u64::from(range.start), len, at: at - len }
        };
        ranges.into_iter().map(part).collect()
    }

    /// Returns the byte ranges of the remaining uses; ranges near to each other are merged.
    fn ranges(&self, page: usize, used: usize) -> Vec<Range<u32>> {
        let (number, mut samples, mut found) = (self.pages[page].number, vec![], vec![]);
        let mut positions = self.uses(page)[used..].to_vec();
        positions.dedup(); // one for each value
        for position in positions.into_iter().map(u64::from) {
            self.upcoming.at(position..position + 1, &mut samples);
        }
        for sample in samples {
            self.values(sample, |page, at| {
                if page == number {
                    found.push(at);
                }
            });
        }
        found.sort_unstable_by_key(|at| at.start);
        let mut ranges: Vec<Range<u32>> = vec![];
        for at in found {
            match ranges.last_mut() {
                Some(last) if at.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(at.end);
                }
                _ => ranges.push(at),
            }
        }
        ranges
    }
}

fn total(ranges: &[Range<u32>]) -> u64 {
    ranges.iter().map(|range| u64::from(range.end - range.start)).sum()
}

fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), Error> {
    let size = more.saturating_mul(size_of::<T>()) as u64;
    list.try_reserve(more).map_err(|_| no_memory(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_two_pages_or_before_the_first_lies_in_none() {
        let layout = PageLayout { start: 1000, size: 100 };
        assert_eq!(layout.find(1000, 100), Some((0, 0..100)));
        assert_eq!(layout.find(1250, 3), Some((2, 50..53)));
        for (ptr, size) in [(999, 1), (1099, 2), (1000, 0), (u64::MAX, 2), (u64::MAX - 1, 1)] {
            assert_eq!(layout.find(ptr, size), None, "{size} at {ptr}");
        }
    }
}
