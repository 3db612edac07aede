//! The pages of one run: which are here, which comes next, and who goes for it. No threads, no I/O.
//!
//! ```text
//!            start                arrive             last use, or no longer worth its room
//! missing ─────────▶ being read ─────────▶ here ───────────────────────────────────────▶ missing, gone
//! ```
//!
//! How far the run is, is told by the pages: of one of which `n` values were taken, the `n`th use's
//! place has been reached. So nobody needs to know at which place a sample is.
//!
//! Nobody waits for memory that somebody else holds. A page is only begun with the memory it will
//! lie in; whoever wants one that can't be begun reads his value directly.

use super::plan::{Part, Plan};
use super::stats::Counters;
use crate::source::ReadErrorKind;
use crate::source::file::LINE;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A page takes another's room if at least one in so many of its bytes will be used before that
/// other is wanted back. At 200 MB/s and 1 ms a request a page of 2 MiB takes 11 ms, and so do ten
/// values of 20 KB; a quarter of a page is 26 of them. It is also the most that such pages may make
/// of the bytes read.
const WORTH: u64 = 4;

/// A page's memory, with what was read of it.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) bytes: Vec<u8>,
    /// What is there, by file offset.
    pub(super) parts: Vec<Part>,
    pub(super) failure: Option<Failure>,
}

/// Why the rest of a page is not there.
#[derive(Debug)]
pub(super) struct Failure {
    /// The page's number in the file.
    pub(super) page: u64,
    /// The first byte that could not be read.
    pub(super) at: u64,
    /// What the system said; `None` at the end of the file.
    pub(super) cause: Option<(io::ErrorKind, String)>,
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Page {
    /// Where in the memory a value lies; `None` if it was not asked for when the page was read.
    ///
    /// # Errors
    ///
    /// If it could not be read.
    pub(super) fn find(&self, ptr: u64, size: u64) -> Result<Option<Range<usize>>, ReadErrorKind> {
        let after = self.parts.partition_point(|part| part.start <= ptr);
        if let Some(part) = after.checked_sub(1).and_then(|place| self.parts.get(place)) {
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

impl Failure {
    /// The error of a value that it concerns.
    fn of(&self, ptr: u64, size: u64) -> ReadErrorKind {
        match &self.cause {
            None => ReadErrorKind::Short { ptr, size, found: self.at.saturating_sub(ptr) },
            Some((kind, message)) => ReadErrorKind::Page {
                ptr,
                size,
                page: self.page,
                at: self.at,
                kind: *kind,
                message: message.clone(),
            },
        }
    }
}

/// A page to be read, with the memory it will lie in.
pub(super) struct Job {
    pub(super) page: usize,
    pub(super) parts: Vec<Part>,
    pub(super) bytes: Vec<u8>,
    /// Whether it was read before.
    pub(super) again: bool,
}

/// What holds for a whole run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most bytes of pages.
    pub(super) budget: u64,
    /// Pages are read for uses up to so many places ahead of the furthest one reached...
    pub(super) window: u32,
    /// ... or while there are fewer than this that no value was taken of.
    pub(super) ahead: usize,
    /// Uses so many places behind the furthest one won't come any more: their sample was damaged.
    pub(super) lag: u32,
}

/// The pages of one run.
pub(super) struct Cache {
    plan: Arc<Plan>,
    counters: Arc<Counters>,
    bounds: Bounds,
    entries: Vec<Entry>,
    /// Pages that are missing, by their next use. What is out of date is put right when it comes up.
    missing: BinaryHeap<Reverse<(u32, usize)>>,
    /// Begun because somebody waits for them; no I/O thread is at them yet.
    wanted: VecDeque<Job>,
    /// Pages that are here, and such as are being read.
    here: Vec<usize>,
    reading: Vec<usize>,
    /// Pages of no more use, which somebody may still hold.
    retired: Vec<Arc<Page>>,
    /// Memory without a page.
    free: Vec<Vec<u8>>,
    /// Bytes of all memory there is for pages, whoever has it.
    held: u64,
    /// The furthest place known to be reached.
    furthest: u32,
    /// There was no room: nothing is begun before this place is reached, or a page goes.
    blocked_until: u32,
    /// An I/O thread found nothing to do before this place is reached.
    look_at: u32,
    /// Something has happened that an I/O thread should have a look at.
    look: bool,
}

#[derive(Default)]
struct Entry {
    /// Values taken of it.
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

impl Cache {
    pub(super) fn new(plan: Arc<Plan>, bounds: Bounds, counters: Arc<Counters>) -> Self {
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
            look_at: 0,
            look: true,
        }
    }

    /// Whether an I/O thread should have a look.
    pub(super) fn needs_a_look(&self) -> bool {
        self.look || self.furthest >= self.look_at
    }

    /// Begins a page that is missing, if it can be begun: somebody is about to wait for it.
    pub(super) fn want(&mut self, page: usize) {
        if self.reclaim() {
            self.blocked_until = 0;
            self.look = true;
        }
        if matches!(self.entries[page].state, State::Missing)
            && self.furthest >= self.blocked_until
            && let Some(job) = self.start(page)
        {
            self.wanted.push_back(job);
            self.look = true;
        }
    }

    pub(super) fn is_being_read(&self, page: usize) -> bool {
        matches!(self.entries[page].state, State::Reading)
    }

    /// Takes a value of a page, if it is here, and counts that in any case.
    pub(super) fn take(&mut self, page: usize) -> Option<Arc<Page>> {
        let uses = self.plan.uses(page);
        let entry = &mut self.entries[page];
        let taken = match &entry.state {
            State::Here(page) => Some(Arc::clone(page)),
            _ => None,
        };
        // One that is asked for again, after a panic, is not counted beyond the last.
        if let Some(&place) = uses.get(entry.used) {
            entry.used += 1;
            self.look |= entry.used == 1;
            self.furthest = self.furthest.max(place);
            if entry.used == uses.len() {
                self.retire(page);
            }
        }
        taken
    }

    /// The page to be read next, of those that are wanted or will be soon.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        self.look = false;
        self.look_at = u32::MAX;
        if let Some(job) = self.wanted.pop_front() {
            return Some(job);
        }
        let (place, page) = self.soonest()?;
        let reach = self.furthest.saturating_add(self.bounds.window);
        if place > reach && self.unused() >= self.bounds.ahead {
            self.look_at = place - self.bounds.window;
            return None;
        }
        let job = if self.furthest >= self.blocked_until { self.start(page) } else { None };
        if job.is_none() {
            self.look_at = self.blocked_until;
        }
        job
    }

    /// Enters what was read.
    pub(super) fn arrive(&mut self, page: usize, read: Page) {
        self.reading.retain(|&other| other != page);
        self.here.push(page);
        let entry = &mut self.entries[page];
        entry.state = State::Here(Arc::new(read));
        if entry.used == self.plan.uses(page).len() {
            self.retire(page);
        }
    }

    /// Gives all memory back but what somebody holds: the run is over.
    pub(super) fn close(&mut self) {
        while let Some(&page) = self.here.last() {
            self.evict(page);
        }
        self.reclaim();
        self.free.extend(self.wanted.drain(..).map(|job| job.bytes));
        self.shrink_to(0);
    }

    /// Gives memory without a page back, until all there is is `most` bytes or none is left.
    fn shrink_to(&mut self, most: u64) {
        while self.held > most
            && let Some(bytes) = self.free.pop()
        {
            self.held -= size_of_page(&bytes) as u64;
            self.counters.give_back(size_of_page(&bytes) as u64);
        }
    }

    /// The missing page whose next use comes first, with its place.
    fn soonest(&mut self) -> Option<(u32, usize)> {
        while let Some(&Reverse((place, page))) = self.missing.peek() {
            let missing = matches!(self.entries[page].state, State::Missing);
            match self.next_use(page).filter(|_| missing) {
                Some(next) if next == place => return Some((place, page)),
                Some(next) => {
                    self.missing.pop();
                    self.missing.push(Reverse((next, page)));
                }
                None => drop(self.missing.pop()),
            }
        }
        None
    }

    /// Place of the next use of a page that may still come.
    fn next_use(&self, page: usize) -> Option<u32> {
        let left = &self.plan.uses(page)[self.entries[page].used..];
        let overdue = |&place: &u32| place.saturating_add(self.bounds.lag) < self.furthest;
        left.get(left.partition_point(overdue)).copied()
    }

    /// Pages read, or being read, that no value was taken of.
    fn unused(&self) -> usize {
        let pages = self.here.iter().chain(&self.reading);
        pages.filter(|&&page| self.entries[page].used == 0).count()
    }

    /// Gives a page its memory; from then on it is being read. `None` if there is no room for it.
    fn start(&mut self, page: usize) -> Option<Job> {
        self.next_use(page)?;
        let parts = self.plan.parts(page, self.entries[page].used);
        let len = parts.iter().map(|part| part.len).sum();
        let Some(bytes) = self.room(page, len) else {
            // To look for room costs as much as some values do: once every few is often enough.
            self.blocked_until = self.furthest.saturating_add(self.bounds.window / 64 + 1);
            return None;
        };
        let entry = &mut self.entries[page];
        entry.state = State::Reading;
        let again = std::mem::replace(&mut entry.was_read, true);
        self.reading.push(page);
        Some(Job { page, parts, bytes, again })
    }

    /// Memory for `len` bytes of a page: of the sizes that are powers of two, so that what one page
    /// leaves fits the next.
    fn room(&mut self, page: usize, len: usize) -> Option<Vec<u8>> {
        let size = len.checked_next_power_of_two()?;
        if size as u64 > self.bounds.budget {
            return None;
        }
        self.reclaim();
        loop {
            if let Some(place) = self.free.iter().position(|bytes| size_of_page(bytes) == size) {
                return Some(self.free.swap_remove(place));
            }
            self.shrink_to(self.bounds.budget - size as u64);
            if self.held + size as u64 <= self.bounds.budget {
                return self.allocate(size);
            }
            let victim = self.victim(page, len as u64)?;
            self.evict(victim);
        }
    }

    /// Memory that whoever reads into it fills first: not under the lock.
    fn allocate(&mut self, size: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size.checked_add(LINE)?).ok()?;
        self.held += size_of_page(&bytes) as u64;
        self.counters.take(size_of_page(&bytes) as u64);
        Some(bytes)
    }

    /// The page that nobody holds whose next use is farthest, if `len` bytes of `page` are worth
    /// its room.
    fn victim(&self, page: usize, len: u64) -> Option<usize> {
        let is_lent = |page: usize| match &self.entries[page].state {
            State::Here(page) => Arc::strong_count(page) > 1,
            _ => true,
        };
        let idle = self.here.iter().copied().filter(|&other| !is_lent(other));
        // One without a next use before all others.
        let by_need = idle.map(|other| (Reverse(self.next_use(other).map(Reverse)), other));
        let (Reverse(back), victim) = by_need.max()?;
        let worth = back.is_none_or(|Reverse(back)| self.is_worth(page, len, back));
        worth.then_some(victim)
    }

    /// Whether enough of a page's `len` bytes will be used before place `back`.
    fn is_worth(&self, page: usize, len: u64, back: u32) -> bool {
        let left = &self.plan.uses(page)[self.entries[page].used..];
        let before = left.partition_point(|&place| place < back);
        self.plan.bytes_of(page, before).saturating_mul(WORTH) >= len && before > 0
    }

    /// Gives up a page that nobody holds; it is read again for its next use.
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

    /// Gives up a page of which all was used.
    fn retire(&mut self, page: usize) {
        let entry = &mut self.entries[page];
        if let State::Here(_) = entry.state
            && let State::Here(gone) = std::mem::take(&mut entry.state)
        {
            self.retired.push(gone);
            self.here.retain(|&other| other != page);
            self.blocked_until = 0;
            self.look = true;
        }
    }

    /// Takes the memory of pages of no more use that nobody holds. Says whether there was any.
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

impl Drop for Cache {
    fn drop(&mut self) {
        self.counters.give_back(self.held);
    }
}

/// Bytes of a page that memory has room for, wherever in its first line they begin.
fn size_of_page(memory: &Vec<u8>) -> usize {
    memory.capacity().saturating_sub(LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes 100 to 109 and 150 to 159 of a file, the latter cut after 154.
    fn page(cause: Option<(io::ErrorKind, String)>) -> Page {
        let part = |start, len, at| Part { start, len, at };
        let failure = Some(Failure { page: 3, at: 155, cause });
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
        let short = |ptr, size, found| Err(ReadErrorKind::Short { ptr, size, found });
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
