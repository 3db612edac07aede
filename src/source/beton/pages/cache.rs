//! The pages of one run: which are in memory, which is read next, and who reads it. This file has no
//! threads and no I/O.
//!
//! ```text
//!            start                arrive             last use, or no longer worth its room
//! missing ─────────▶ being read ─────────▶ here ───────────────────────────────────────▶ missing, gone
//! ```
//!
//! The pages tell how far the run is: when `n` values of a page were taken, the run has reached the
//! position of the page's `n`th use. So the position of a sample in the run need not be known.
//!
//! No thread waits for memory that another thread holds. Reading a page starts only when there is memory
//! for it; a thread that needs a page for which there is none reads its value directly.

use super::plan::{PagePlan, PageRange};
use super::stats::Counters;
use crate::error::{Damage, Error, fail};
use crate::source::error::short;
use crate::source::file::LINE;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A page replaces another if at least one in this many of its bytes will be used before the other is
/// needed again. At 200 MB/s and 1 ms a request, a page of 2 MiB takes 11 ms, and so do ten values of 20
/// KB; a quarter of a page is 26 of them. Such pages also read at most this many times the bytes that
/// are needed.
const WORTH: u64 = 4;

/// The memory of a page, and the ranges that were read into it.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) bytes: Vec<u8>,
    /// The ranges that were read, in the order of their file offsets.
    pub(super) parts: Vec<PageRange>,
    pub(super) failure: Option<PageFailure>,
}

/// Why the rest of a page is missing.
#[derive(Debug)]
pub(super) struct PageFailure {
    /// The page's number in the file.
    pub(super) page: u64,
    /// The first byte that could not be read.
    pub(super) at: u64,
    /// The system's error; `None` at the end of the file.
    pub(super) cause: Option<(io::ErrorKind, String)>,
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Page {
    /// Returns the range of a value in the memory; `None` if the value was not asked for when the page
    /// was read.
    ///
    /// # Errors
    ///
    /// Fails if the value could not be read.
    pub(super) fn find(&self, ptr: u64, size: u64) -> Result<Option<Range<usize>>, Error> {
        let after = self.parts.partition_point(|part| part.start <= ptr);
        if let Some(part) = after.checked_sub(1).and_then(|index| self.parts.get(index)) {
            let from = ptr - part.start;
            if from.saturating_add(size) <= part.len as u64 {
                let at = part.at + from as usize;
                return Ok(Some(at..at + size as usize));
            }
        }
        match &self.failure {
            Some(failure) if ptr.saturating_add(size) > failure.at => Err(failure.of(ptr, size)),
            _ => Ok(None),
        }
    }
}

impl PageFailure {
    /// Returns the error for a value that the failure affects.
    fn of(&self, ptr: u64, size: u64) -> Error {
        let Self { page, at, cause } = self;
        match cause {
            None => short(ptr, size, at.saturating_sub(ptr)),
            Some((kind, message)) => fail!(
                Io,
                "{size} bytes at byte {ptr}: page {page} can't be read from byte {at} on: {message}"
            )
            .of_system(*kind)
            .named_byte(*at)
            .damage(Damage::Unreadable),
        }
    }
}

/// A page to be read, and the memory to read it into.
pub(super) struct PageRead {
    pub(super) page: usize,
    pub(super) parts: Vec<PageRange>,
    pub(super) bytes: Vec<u8>,
    /// True if the page was read before.
    pub(super) again: bool,
}

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLimits {
    /// The most bytes of pages.
    pub(super) budget: u64,
    /// Pages are read for uses up to this many positions ahead of the furthest one reached...
    pub(super) window: u32,
    /// ... or while fewer pages than this are unused, that is, no value was taken from them.
    pub(super) ahead: usize,
    /// Uses more than this many positions behind the furthest one will not come any more: their sample
    /// was damaged.
    pub(super) lag: u32,
}

/// The pages of one run.
pub(super) struct PageCache {
    plan: Arc<PagePlan>,
    counters: Arc<Counters>,
    bounds: PageLimits,
    entries: Vec<Entry>,
    /// Pages that are missing, by their next use. An outdated entry is corrected when it comes up.
    missing: BinaryHeap<Reverse<(u32, usize)>>,
    /// Pages that a thread waits for and that no I/O thread has taken yet.
    wanted: VecDeque<PageRead>,
    /// The pages in memory; `reading` are those that are being read.
    here: Vec<usize>,
    reading: Vec<usize>,
    /// Pages that are no longer needed, but may still be borrowed.
    retired: Vec<Arc<Page>>,
    /// Memory that holds no page.
    free: Vec<Vec<u8>>,
    /// The bytes of all memory for pages, whether it is free, in a page, or borrowed.
    held: u64,
    /// The furthest position known to be reached.
    furthest: u32,
    /// There was no memory: no page is started before this position is reached or a page is dropped.
    blocked_until: u32,
    /// There is nothing to do for an I/O thread before this position is reached.
    check_at: u32,
    /// True if something has changed that an I/O thread should check.
    has_changed: bool,
}

#[derive(Default)]
struct Entry {
    /// The number of values that were taken from the page.
    used: usize,
    state: State,
    was_read: bool,
}

#[derive(Default)]
enum State {
    #[default]
    Missing,
    Reading,
    Here(Arc<Page>),
}

impl PageCache {
    pub(super) fn new(plan: Arc<PagePlan>, bounds: PageLimits, counters: Arc<Counters>) -> Self {
        let pages = 0..plan.pages();
        let missing = pages.clone().map(|page| Reverse((plan.uses(page)[0], page)));
        Self {
            missing: missing.collect(),
            entries: pages.map(|_| Entry::default()).collect(),
            plan,
            counters,
            bounds,
            wanted: VecDeque::new(),
            here: vec![],
            reading: vec![],
            retired: vec![],
            free: vec![],
            held: 0,
            furthest: 0,
            blocked_until: 0,
            check_at: 0,
            has_changed: true,
        }
    }

    /// Returns whether an I/O thread should check for work.
    pub(super) fn needs_check(&self) -> bool {
        self.has_changed || self.furthest >= self.check_at
    }

    /// Starts a page that is missing, if there is memory for it: a thread is about to wait for the page.
    pub(super) fn request(&mut self, page: usize) {
        if self.reclaim() {
            self.blocked_until = 0;
            self.has_changed = true;
        }
        if matches!(self.entries[page].state, State::Missing)
            && self.furthest >= self.blocked_until
            && let Some(job) = self.start(page)
        {
            self.wanted.push_back(job);
            self.has_changed = true;
        }
    }

    pub(super) fn is_being_read(&self, page: usize) -> bool {
        matches!(self.entries[page].state, State::Reading)
    }

    /// Returns the page for a value that is taken from it, if the page is in memory. The use is counted
    /// in any case.
    pub(super) fn take(&mut self, page: usize) -> Option<Arc<Page>> {
        let uses = self.plan.uses(page);
        let entry = &mut self.entries[page];
        let taken = match &entry.state {
            State::Here(page) => Some(Arc::clone(page)),
            _ => None,
        };
        // A value that is asked for again, after a panic, is not counted beyond the last use.
        if let Some(&position) = uses.get(entry.used) {
            entry.used += 1;
            self.has_changed |= entry.used == 1;
            self.furthest = self.furthest.max(position);
            if entry.used == uses.len() {
                self.retire(page);
            }
        }
        taken
    }

    /// Returns the page to be read next: one that a thread waits for, or one that will be needed soon.
    pub(super) fn next_job(&mut self) -> Option<PageRead> {
        self.has_changed = false;
        self.check_at = u32::MAX;
        if let Some(job) = self.wanted.pop_front() {
            return Some(job);
        }
        let (position, page) = self.soonest()?;
        let reach = self.furthest.saturating_add(self.bounds.window);
        if position > reach && self.unused() >= self.bounds.ahead {
            self.check_at = position - self.bounds.window;
            return None;
        }
        let job = if self.furthest >= self.blocked_until { self.start(page) } else { None };
        if job.is_none() {
            self.check_at = self.blocked_until;
        }
        job
    }

    /// Adds a page that was read.
    pub(super) fn arrive(&mut self, page: usize, read: Page) {
        self.reading.retain(|&other| other != page);
        self.here.push(page);
        let entry = &mut self.entries[page];
        entry.state = State::Here(Arc::new(read));
        if entry.used == self.plan.uses(page).len() {
            self.retire(page);
        }
    }

    /// Frees all memory that is not borrowed: the run is over.
    pub(super) fn close(&mut self) {
        while let Some(&page) = self.here.last() {
            self.evict(page);
        }
        self.reclaim();
        self.free.extend(self.wanted.drain(..).map(|job| job.bytes));
        self.shrink_to(0);
    }

    /// Frees memory that holds no page, until `most` bytes are left in total or no such memory is left.
    fn shrink_to(&mut self, most: u64) {
        while self.held > most
            && let Some(bytes) = self.free.pop()
        {
            self.held -= size_of_page(&bytes) as u64;
            self.counters.give_back(size_of_page(&bytes) as u64);
        }
    }

    /// Returns the missing page whose next use comes first; before it, the position of that use.
    fn soonest(&mut self) -> Option<(u32, usize)> {
        while let Some(&Reverse((position, page))) = self.missing.peek() {
            let missing = matches!(self.entries[page].state, State::Missing);
            match self.next_use(page).filter(|_| missing) {
                Some(next) if next == position => return Some((position, page)),
                Some(next) => {
                    self.missing.pop();
                    self.missing.push(Reverse((next, page)));
                }
                None => drop(self.missing.pop()),
            }
        }
        None
    }

    /// Returns the position of the next use of a page that may still come.
    fn next_use(&self, page: usize) -> Option<u32> {
        let left = &self.plan.uses(page)[self.entries[page].used..];
        let overdue = |&position: &u32| position.saturating_add(self.bounds.lag) < self.furthest;
        left.get(left.partition_point(overdue)).copied()
    }

    /// Returns the number of pages, read or being read, from which no value was taken.
    fn unused(&self) -> usize {
        let pages = self.here.iter().chain(&self.reading);
        pages.filter(|&&page| self.entries[page].used == 0).count()
    }

    /// Takes memory for a page, which then counts as being read. `None` if there is no memory for it.
    fn start(&mut self, page: usize) -> Option<PageRead> {
        self.next_use(page)?;
        let parts = self.plan.ranges_to_read(page, self.entries[page].used);
        let len = parts.iter().map(|part| part.len).sum();
        let Some(bytes) = self.room(page, len) else {
            // Looking for memory costs as much as some values do, so it is done once every few values.
            self.blocked_until = self.furthest.saturating_add(self.bounds.window / 64 + 1);
            return None;
        };
        let entry = &mut self.entries[page];
        entry.state = State::Reading;
        let again = std::mem::replace(&mut entry.was_read, true);
        self.reading.push(page);
        Some(PageRead { page, parts, bytes, again })
    }

    /// Returns memory for `len` bytes of a page. Its size is a power of two, so that the memory of one
    /// page fits the next.
    fn room(&mut self, page: usize, len: usize) -> Option<Vec<u8>> {
        let size = len.checked_next_power_of_two()?;
        if size as u64 > self.bounds.budget {
            return None;
        }
        self.reclaim();
        loop {
            if let Some(index) = self.free.iter().position(|bytes| size_of_page(bytes) == size) {
                return Some(self.free.swap_remove(index));
            }
            self.shrink_to(self.bounds.budget - size as u64);
            if self.held + size as u64 <= self.bounds.budget {
                return self.allocate(size);
            }
            let victim = self.victim(page, len as u64)?;
            self.evict(victim);
        }
    }

    /// Returns new memory. The I/O thread initializes it when it reads, which is not under the lock.
    fn allocate(&mut self, size: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size.checked_add(LINE)?).ok()?;
        self.held += size_of_page(&bytes) as u64;
        self.counters.take(size_of_page(&bytes) as u64);
        Some(bytes)
    }

    /// Returns the page to evict: of the pages that are not borrowed, the one with the farthest next
    /// use, if `len` bytes of `page` are worth its memory.
    fn victim(&self, page: usize, len: u64) -> Option<usize> {
        let is_lent = |page: usize| match &self.entries[page].state {
            State::Here(page) => Arc::strong_count(page) > 1,
            _ => true,
        };
        let idle = self.here.iter().copied().filter(|&other| !is_lent(other));
        // A page without a next use comes before all others.
        let by_need = idle.map(|other| (Reverse(self.next_use(other).map(Reverse)), other));
        let (Reverse(back), victim) = by_need.max()?;
        let worth = back.is_none_or(|Reverse(back)| self.is_worth(page, len, back));
        worth.then_some(victim)
    }

    /// Returns whether enough of a page's `len` bytes will be used before position `back`.
    fn is_worth(&self, page: usize, len: u64, back: u32) -> bool {
        let left = &self.plan.uses(page)[self.entries[page].used..];
        let before = left.partition_point(|&position| position < back);
        self.plan.bytes_of(page, before).saturating_mul(WORTH) >= len && before > 0
    }

    /// Drops a page that is not borrowed; the page is read again for its next use.
    fn evict(&mut self, page: usize) {
        if let State::Here(gone) = std::mem::take(&mut self.entries[page].state) {
            self.retired.push(gone);
        }
        self.here.retain(|&other| other != page);
        if let Some(next) = self.next_use(page) {
            self.missing.push(Reverse((next, page)));
        }
        self.reclaim();
    }

    /// Drops a page after its last use.
    fn retire(&mut self, page: usize) {
        let entry = &mut self.entries[page];
        if let State::Here(_) = entry.state
            && let State::Here(gone) = std::mem::take(&mut entry.state)
        {
            self.retired.push(gone);
            self.here.retain(|&other| other != page);
            self.blocked_until = 0;
            self.has_changed = true;
        }
    }

    /// Takes the memory of pages that are no longer needed and not borrowed. Returns whether there was
    /// any.
    fn reclaim(&mut self) -> bool {
        let before = self.free.len();
        for page in std::mem::take(&mut self.retired) {
            match Arc::try_unwrap(page) {
                Ok(page) => self.free.push(page.bytes),
                Err(page) => self.retired.push(page),
            }
        }
        self.free.len() > before
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        self.counters.give_back(self.held);
    }
}

/// Returns the size of a page that fits into memory, wherever in its first cache line the page begins.
fn size_of_page(memory: &Vec<u8>) -> usize {
    memory.capacity().saturating_sub(LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a page with bytes 100 to 109 and 150 to 159 of a file, where the second range was cut
    /// after byte 154.
    fn page(cause: Option<(io::ErrorKind, String)>) -> Page {
        let part = |start, len, at| PageRange { start, len, at };
        let failure = Some(PageFailure { page: 3, at: 155, cause });
        Page { bytes: vec![0; 32], parts: vec![part(100, 10, 0), part(150, 5, 10)], failure }
    }

    #[test]
    fn a_value_is_found_if_all_of_it_is_there() {
        let page = page(None);
        assert_eq!(page.find(100, 10), Ok(Some(0..10)));
        assert_eq!(page.find(152, 3), Ok(Some(12..15)));
        for (ptr, size) in [(99, 2), (109, 2), (120, 4), (149, 1)] {
            assert_eq!(page.find(ptr, size), Ok(None), "{size} at {ptr}");
        }
    }

    #[test]
    fn what_lies_behind_the_end_is_short_by_its_own_count() {
        let short = |ptr, size, found| Err(short(ptr, size, found));
        assert_eq!(page(None).find(152, 4), short(152, 4, 3));
        assert_eq!(page(None).find(170, 4), short(170, 4, 0));
    }

    #[test]
    fn what_lies_behind_a_broken_byte_fails_as_it_did() {
        let page = page(Some((io::ErrorKind::Other, "a bad sector".to_owned())));
        assert_eq!(
            page.find(156, 2).unwrap_err().to_string(),
            "2 bytes at byte 156: page 3 can't be read from byte 155 on: a bad sector"
        );
        assert_eq!(page.find(150, 5), Ok(Some(10..15)));
    }
}
