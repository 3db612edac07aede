//! Quasi-random: shuffled within the pages in memory.
//!
//! ```text
//! pages    in random order; the first `open_pages` are open
//! next     drawn uniformly from the samples left in the open pages
//! a page   without samples left is closed, and the next one is opened
//! ```
//!
//! | | |
//! |---|---|
//! | input | the page of each sample; a sample in no page belongs to the page of the sample before it |
//! | output | each row once |
//! | random | seed and epoch |
//! | cost | at most `open_pages` pages in memory, each read once; 8 bytes a sample of these |
//!
//! FFCV's `OrderOption.QUASI_RANDOM` opens twice as many pages as a batch has samples, and draws a page
//! first, then a sample, so pages with few samples are exhausted early. FFCV's order also depends on the
//! number of earlier calls. This order is a function of seed and epoch, so ranks can share it.

use super::groups::Groups;
use super::memory::reserved;
use super::random::{generator, shuffle};
use crate::error::{Error, fail};
use crate::sample::Epoch;

pub(super) const NAME: &str = "quasi_random";

/// The pages, and the number that may be open.
#[derive(Debug)]
pub(super) struct Quasi {
    pages: Groups,
    open_pages: u32,
}

impl Quasi {
    /// Groups the rows by their pages.
    pub(super) fn new(
        pages: impl Iterator<Item = Option<u64>>,
        rows: u64,
        open_pages: u32,
    ) -> Result<Self, Error> {
        if open_pages == 0 {
            return Err(fail!(Parameter, "order {NAME}: open_pages is 0, it must be at least 1"));
        }
        let mut keys = reserved(rows)?;
        let mut last = 0;
        keys.extend(pages.map(|page| {
            last = page.map_or(last, |page| page.saturating_add(1));
            last
        }));
        Ok(Self { pages: Groups::by(&keys)?, open_pages })
    }

    pub(super) fn rows(&self, seed: u64, epoch: Epoch) -> Result<Vec<u32>, Error> {
        let mut rng = generator(seed, epoch, NAME);
        let mut pages: Vec<u32> = (0..self.pages.len()).collect();
        shuffle(&mut rng, &mut pages);
        let mut rows = reserved(u64::from(self.pages.rows()))?;
        let mut open = OpenPages::new(&self.pages, pages, self.open_pages);
        while !open.pool.is_empty() {
            let index = rng.below(open.pool.len() as u32);
            rows.push(open.take(index as usize));
        }
        Ok(rows)
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.pages.bytes()
    }
}

/// The samples left in the open pages.
struct OpenPages<'a> {
    pages: &'a Groups,
    /// The pages to open; the next one is last.
    closed: Vec<u32>,
    /// The rows, each with the index of its open page.
    pool: Vec<(u32, u32)>,
    /// The number of rows left in each open page.
    left: Vec<u32>,
}

impl<'a> OpenPages<'a> {
    fn new(pages: &'a Groups, closed: Vec<u32>, at_once: u32) -> Self {
        let slots = at_once.min(pages.len());
        let mut open = Self { pages, closed, pool: vec![], left: vec![0; slots as usize] };
        (0..slots).for_each(|slot| open.fill(slot));
        open
    }

    /// Opens the next page, if there is one, as open page `slot`.
    fn fill(&mut self, slot: u32) {
        let Some(page) = self.closed.pop() else { return };
        let indices = self.pages.indices(page);
        self.left[slot as usize] = indices.end - indices.start;
        self.pool.extend(indices.map(|index| (self.pages.row(index), slot)));
    }

    /// Removes a row from the pool.
    fn take(&mut self, index: usize) -> u32 {
        let (row, slot) = self.pool.swap_remove(index);
        self.left[slot as usize] -= 1;
        if self.left[slot as usize] == 0 {
            self.fill(slot);
        }
        row
    }
}
