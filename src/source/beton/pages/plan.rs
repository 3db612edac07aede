//! Which pages a run uses, and when: from the tables alone.
//!
//! A *place* is a sample's number in the run's order, from 0; a *use* is a value that the run reads,
//! at its place. Kept are, by page, the places of its uses in order: 4 bytes a use.

use super::super::read::{Beton, Located, Stored};
use crate::parallel;
use crate::sample::SampleId;
use crate::source::{BoxError, FieldKind, ReadErrorKind, RunPlan, Upcoming};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Samples that one thread looks up in a stroke: well under a millisecond.
const CHUNK: u64 = 4096;

/// Values this near to each other are read as one. Reading 64 KiB takes less than one more request,
/// on whatever pages are of use for.
const GAP: u32 = 64 << 10;

/// The pages of a run, by their number.
pub(super) struct Plan {
    beton: Arc<Beton>,
    upcoming: Arc<dyn Upcoming>,
    fields: Vec<usize>,
    layout: PageLayout,
    pages: Vec<PageUse>,
    /// Places of uses, by page.
    places: Vec<u32>,
}

/// Where pages lie.
#[derive(Clone, Copy)]
struct PageLayout {
    start: u64,
    size: u64,
}

/// A page, as a run uses it.
struct PageUse {
    number: u32,
    /// Its uses among `places`.
    uses: Range<usize>,
    /// From its first needed byte to the end of its last, from the page's start.
    needed: Range<u32>,
    /// Bytes of its uses. A value used twice counts twice.
    bytes: u64,
}

/// Bytes of a page that are read at one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// File offset.
    pub(super) start: u64,
    /// Bytes.
    pub(super) len: usize,
    /// Where they lie in the page's memory.
    pub(super) at: usize,
}

/// A use.
#[derive(Clone, Copy)]
struct Use {
    page: u32,
    place: u32,
    at: u32,
    len: u32,
}

impl PageLayout {
    /// The page that a value lies in, and where; `None` if it lies in none, or in two.
    fn find(&self, ptr: u64, size: u64) -> Option<(u32, Range<u32>)> {
        let from = ptr.checked_sub(self.start)?;
        let last = from.checked_add(size)?.checked_sub(1)?;
        let page = from / self.size;
        if last / self.size != page {
            return None;
        }
        // Within a page, whose size is a `u32`.
        let at = |from: u64| u32::try_from(from % self.size).ok();
        Some((u32::try_from(page).ok()?, at(from)?..at(last)? + 1))
    }
}

impl Plan {
    /// The plan of a run; `None` if it uses no page, or has more places than can be told apart.
    ///
    /// # Errors
    ///
    /// If there is no memory for it, or the system starts no threads to make it.
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
            places: vec![],
        };
        plan.enter(&plan.collect_uses()?)?;
        Ok(if plan.pages.is_empty() { None } else { Some(plan) })
    }

    /// Every use of a page, by page and place.
    fn collect_uses(&self) -> Result<Vec<Use>, BoxError> {
        let count = self.upcoming.samples();
        let mut uses = vec![];
        reserve(&mut uses, (count as usize).saturating_mul(self.stored_fields()))?;
        let chunks = count.div_ceil(CHUNK);
        let uses_of = |chunk| self.uses_at(chunk * CHUNK..count.min((chunk + 1) * CHUNK));
        parallel::on_all_cores(chunks as usize, || {
            uses.par_extend((0..chunks).into_par_iter().flat_map_iter(uses_of));
            uses.par_sort_unstable_by_key(|of| u64::from(of.page) << 32 | u64::from(of.place));
        })?;
        Ok(uses)
    }

    /// How many of the fields have values in pages.
    fn stored_fields(&self) -> usize {
        let kind = |&&field: &&usize| self.beton.fields().get(field).map(|spec| &spec.kind);
        let stored =
            |field: &&usize| !matches!(kind(field), Some(FieldKind::Int | FieldKind::Float));
        self.fields.iter().filter(stored).count()
    }

    /// The uses of the samples at these places, which are below 2^32.
    fn uses_at(&self, places: Range<u64>) -> Vec<Use> {
        let (mut uses, mut samples) = (vec![], vec![]);
        self.upcoming.at(places.clone(), &mut samples);
        for (place, sample) in (places.start as u32..).zip(samples) {
            self.values(sample, |page, at| {
                uses.push(Use { page, place, at: at.start, len: at.end - at.start });
            });
        }
        uses
    }

    /// Calls `each` with the page and the place in it of every value of a sample that lies in one.
    fn values(&self, sample: SampleId, mut each: impl FnMut(u32, Range<u32>)) {
        for &field in &self.fields {
            // One that can't be read is an error when it is asked for.
            if let Ok(Located::Stored(Stored { ptr, size, .. })) = self.beton.located(sample, field)
                && let Some((page, at)) = self.layout.find(ptr, size)
            {
                each(page, at);
            }
        }
    }

    fn enter(&mut self, uses: &[Use]) -> Result<(), ReadErrorKind> {
        reserve(&mut self.places, uses.len())?;
        for uses in uses.chunk_by(|a, b| a.page == b.page) {
            let first = self.places.len();
            self.places.extend(uses.iter().map(|of| of.place));
            let start = uses.iter().map(|of| of.at).min().unwrap_or_default();
            let end = uses.iter().map(|of| of.at + of.len).max().unwrap_or_default();
            self.pages.push(PageUse {
                number: uses[0].page,
                uses: first..self.places.len(),
                needed: start..end,
                bytes: uses.iter().map(|of| u64::from(of.len)).sum(),
            });
        }
        Ok(())
    }

    /// How many pages there are.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The page's number in the file, from 0.
    pub(super) fn number(&self, page: usize) -> u64 {
        self.pages[page].number.into()
    }

    /// The page that a value lies in, if the run uses it.
    pub(super) fn find(&self, ptr: u64, size: u64) -> Option<usize> {
        let (number, _) = self.layout.find(ptr, size)?;
        // Mostly the run uses all pages from the first on.
        let guess = number.checked_sub(self.pages.first()?.number)? as usize;
        if self.pages.get(guess).is_some_and(|page| page.number == number) {
            return Some(guess);
        }
        self.pages.binary_search_by_key(&number, |page| page.number).ok()
    }

    /// The places of a page's uses, in order.
    pub(super) fn uses(&self, page: usize) -> &[u32] {
        &self.places[self.pages[page].uses.clone()]
    }

    /// About how many bytes `uses` of a page's uses are.
    pub(super) fn bytes_of(&self, page: usize, uses: usize) -> u64 {
        self.pages[page].bytes / self.uses(page).len() as u64 * uses as u64
    }

    /// What to read of a page of which `used` uses are over: all from the first needed byte to the
    /// last, or, where that is more than double the need, only what is needed.
    pub(super) fn parts(&self, page: usize, used: usize) -> Vec<Part> {
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
            Part { start: start + u64::from(range.start), len, at: at - len }
        };
        ranges.into_iter().map(part).collect()
    }

    /// The bytes of the uses that are left, those near to each other together.
    fn ranges(&self, page: usize, used: usize) -> Vec<Range<u32>> {
        let (number, mut samples, mut found) = (self.pages[page].number, vec![], vec![]);
        let mut places = self.uses(page)[used..].to_vec();
        places.dedup(); // one for each value
        for place in places.into_iter().map(u64::from) {
            self.upcoming.at(place..place + 1, &mut samples);
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

fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), ReadErrorKind> {
    let size = more.saturating_mul(size_of::<T>()) as u64;
    list.try_reserve(more).map_err(|_| ReadErrorKind::Memory { size })
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
