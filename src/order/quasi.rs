//! Quasi-random: shuffled as far as the pages in memory allow.
//!
//! ```text
//! pages    in random order; the first `open_pages` are open
//! next     any sample that is left in an open page, each as likely as any other
//! a page   with no sample left is closed, and the next one is opened
//! ```
//!
//! | | |
//! |---|---|
//! | input | the page of each sample; a sample of no page goes with the one before it |
//! | output | each row once |
//! | random | seed and epoch |
//! | cost | at most `open_pages` pages in memory, each read once; 8 bytes a sample of these |
//!
//! FFCV's `OrderOption.QUASI_RANDOM` opens twice as many pages as a batch has samples, and draws a
//! page first, then a sample: pages with few samples then come to an end early. Its order also
//! depends on how often it was asked before. This one is a function of seed and epoch, so ranks
//! can share it.

use super::OrderError;
use super::groups::Groups;
use super::memory::reserved;
use super::random::{generator, shuffle};
use crate::sample::Epoch;

pub(super) const NAME: &str = "quasi_random";

/// The pages, and how many may be open.
#[derive(Debug)]
pub(super) struct Quasi {
    pages: Groups,
    open_pages: u32,
}

impl Quasi {
    /// Of the page of each row.
    pub(super) fn new(
        pages: impl Iterator<Item = Option<u64>>,
        rows: u64,
        open_pages: u32,
    ) -> Result<Self, OrderError> {
        if open_pages == 0 {
            return Err(OrderError::Zero { order: NAME, param: "open_pages" });
        }
        let mut keys = reserved(rows)?;
        let mut last = 0;
        keys.extend(pages.map(|page| {
            last = page.map_or(last, |page| page.saturating_add(1));
            last
        }));
        Ok(Self { pages: Groups::by(&keys)?, open_pages })
    }

    pub(super) fn rows(&self, seed: u64, epoch: Epoch) -> Result<Vec<u32>, OrderError> {
        let mut rng = generator(seed, epoch, NAME);
        let mut pages: Vec<u32> = (0..self.pages.len()).collect();
        shuffle(&mut rng, &mut pages);
        let mut rows = reserved(u64::from(self.pages.rows()))?;
        let mut open = Open::new(&self.pages, pages, self.open_pages);
        while !open.pool.is_empty() {
            let place = rng.below(open.pool.len() as u32);
            rows.push(open.take(place as usize));
        }
        Ok(rows)
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.pages.bytes()
    }
}

/// The samples left in open pages.
struct Open<'a> {
    pages: &'a Groups,
    /// Pages to open, the next one last.
    closed: Vec<u32>,
    /// Rows, each with the slot of its page.
    pool: Vec<(u32, u32)>,
    /// Rows left of the page in each slot.
    left: Vec<u32>,
}

impl<'a> Open<'a> {
    fn new(pages: &'a Groups, closed: Vec<u32>, at_once: u32) -> Self {
        let slots = at_once.min(pages.len());
        let mut open = Self { pages, closed, pool: vec![], left: vec![0; slots as usize] };
        (0..slots).for_each(|slot| open.fill(slot));
        open
    }

    /// Opens the next page, if there is one, in `slot`.
    fn fill(&mut self, slot: u32) {
        let Some(page) = self.closed.pop() else { return };
        let places = self.pages.places(page);
        self.left[slot as usize] = places.end - places.start;
        self.pool.extend(places.map(|place| (self.pages.row(place), slot)));
    }

    /// Takes a row out of the pool.
    fn take(&mut self, place: usize) -> u32 {
        let (row, slot) = self.pool.swap_remove(place);
        self.left[slot as usize] -= 1;
        if self.left[slot as usize] == 0 {
            self.fill(slot);
        }
        row
    }
}
