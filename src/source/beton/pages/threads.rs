//! The threads that read pages, and how threads that need values wait for them.
//!
//! | condition | who waits     | who notifies                                     |
//! |-----------|---------------|--------------------------------------------------|
//! | `work`    | I/O threads   | a taken value, if it makes a difference; the end |
//! | `arrived` | value readers | a page that was read                             |
//!
//! An I/O thread does not wait while it has a page to read, and a page that a thread waits for is being
//! read by an I/O thread or is at the head of the queue. Dropping the run does not wait for a slow read:
//! its thread ends when the read does. A forked process has no I/O threads: there values are read
//! directly.

use super::ProcessCache;
use super::cache::{Page, PageCache, PageFailure, PageLimits, PageRead};
use super::plan::PagePlan;
use super::stats::Counters;
use crate::error::Error;
use crate::panicked::caught;
use crate::source::file::{LINE, ReadAt, read_all_at, skew};
use crate::source::{BoxError, RunPlan};
use crate::threads::{self, Process};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The pages of a run, which are read until this is dropped.
pub(super) struct PageReads {
    shared: Arc<Shared>,
    /// The process that the threads belong to.
    process: Process,
}

/// A value in a page.
pub(super) struct BorrowedValue {
    /// The page, which is held for as long as the value is used.
    pub(super) page: Arc<Page>,
    pub(super) range: Range<usize>,
}

struct Shared {
    plan: Arc<PagePlan>,
    counters: Arc<Counters>,
    state: Mutex<State>,
    work: Condvar,
    arrived: Condvar,
}

struct State {
    cache: PageCache,
    /// The number of I/O threads that are waiting.
    idle: usize,
    stopping: bool,
}

impl PageReads {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// Fails if there are too many threads, or if the system starts none; fewer threads than asked for
    /// are enough.
    pub(super) fn begin(
        plan: PagePlan,
        run: &RunPlan,
        options: &ProcessCache,
        counters: &Arc<Counters>,
        reader: &Arc<dyn ReadAt>,
    ) -> Result<Self, BoxError> {
        options.check()?;
        let (plan, counters) = (Arc::new(plan), Arc::clone(counters));
        let bounds = bounds(run, options);
        let cache = PageCache::new(Arc::clone(&plan), bounds, Arc::clone(&counters));
        let state = Mutex::new(State { cache, idle: 0, stopping: false });
        let (work, arrived) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { plan, counters, state, work, arrived });
        // From here on, dropping `reading` ends the threads.
        let reading = Self { shared, process: Process::current() };
        for index in 0..options.io_threads.get() {
            let (shared, reader) = (Arc::clone(&reading.shared), Arc::clone(reader));
            let read = move || {
                shared.read_pages(&*reader);
                drop(shared); // frees the memory before the file is closed
            };
            let thread = threads::builder(format!("fuseloop-io-{index}"));
            match thread.and_then(|builder| builder.spawn(read)) {
                Ok(_) => {}
                Err(error) if index == 0 => {
                    return Err(format!("no thread to read pages: {error}").into());
                }
                Err(_) => break,
            }
        }
        Ok(reading)
    }

    /// Returns the page that holds a value, and the value's range in it; `None` if the value must be
    /// read directly.
    ///
    /// # Errors
    ///
    /// Fails if the page could not be read up to the value's end.
    pub(super) fn borrow(&self, ptr: u64, size: u64) -> Result<Option<BorrowedValue>, Error> {
        let shared = &*self.shared;
        let Some(index) = shared.plan.find(ptr, size) else { return Ok(None) };
        if self.process.is_forked() {
            return Ok(None);
        }
        let mut state = shared.lock();
        if state.stopping {
            return Ok(None);
        }
        state.cache.request(index);
        shared.wake(&state);
        if state.cache.is_being_read(index) {
            state = shared.wait_for(index, state);
        }
        let page = state.cache.take(index);
        shared.wake(&state);
        drop(state);
        let Some(page) = page else { return Ok(None) };
        Ok(page.find(ptr, size)?.map(|range| BorrowedValue { page, range }))
    }
}

impl PageReads {
    /// Ends the threads and frees the memory that is not borrowed. From here on, values are read
    /// directly.
    pub(super) fn end(&self) {
        if self.process.is_forked() {
            return;
        }
        let mut state = self.shared.lock();
        state.stopping = true;
        state.cache.close();
        drop(state);
        self.shared.work.notify_all();
        self.shared.arrived.notify_all();
    }
}

impl Drop for PageReads {
    fn drop(&mut self) {
        self.end();
    }
}

fn bounds(run: &RunPlan, options: &ProcessCache) -> PageLimits {
    let batches =
        |count: usize| u32::try_from(run.batch_size.saturating_mul(count)).unwrap_or(u32::MAX);
    let ahead = run.batches_ahead;
    PageLimits {
        budget: options.budget_bytes,
        window: batches(ahead.saturating_add(1)),
        ahead: options.io_threads.get().saturating_mul(2),
        // Workers have no more batches than this in flight.
        lag: batches(ahead.saturating_add(2)),
    }
}

impl Shared {
    /// Locks the state. A panic under the lock leaves the state valid: only the user's order of samples
    /// may panic there, when it is asked for the ranges of a page that are needed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, state: &State) {
        if state.idle > 0 && state.cache.needs_check() {
            self.work.notify_one();
        }
    }

    fn wait_for<'a>(
        &'a self,
        page: usize,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        let begun = Instant::now();
        while state.cache.is_being_read(page) && !state.stopping {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.counters.waited(begun.elapsed());
        state
    }

    /// Runs an I/O thread.
    fn read_pages(&self, reader: &dyn ReadAt) {
        while let Some(job) = self.next_job() {
            let (page, again) = (job.page, job.again);
            let read = read_page(reader, job, self.plan.number(page));
            let bytes = read.parts.iter().map(|part| part.len as u64).sum();
            self.counters.page(bytes, again);
            self.lock().cache.arrive(page, read);
            self.arrived.notify_all();
        }
    }

    /// Waits for a page to read; returns `None` at the end.
    fn next_job(&self) -> Option<PageRead> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            if let Some(job) = state.cache.next_job() {
                if state.idle > 0 {
                    self.work.notify_one(); // there may be another page to read
                }
                return Some(job);
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// Reads the ranges of a page, up to the first that can't be read.
fn read_page(reader: &dyn ReadAt, job: PageRead, number: u64) -> Page {
    let PageRead { mut parts, mut bytes, .. } = job;
    let end = parts.last().map_or(0, |part| part.at + part.len);
    if bytes.len() < end + LINE {
        bytes.resize(end + LINE, 0);
    }
    let skew = parts.first().map_or(0, |part| skew(&bytes, part.start));
    parts.iter_mut().for_each(|part| part.at += skew);
    let mut failure = None;
    let mut read_parts = 0;
    for part in &mut parts {
        let memory = &mut bytes[part.at..part.at + part.len];
        let read = || read_all_at(reader, memory, part.start);
        let (found, outcome) = caught(read).unwrap_or_else(|message| {
            (0, Err(io::Error::other(format!("the reader panicked: {message}"))))
        });
        let cause = outcome.err().map(|error| (error.kind(), error.to_string()));
        if cause.is_some() || found < part.len {
            failure = Some(PageFailure { page: number, at: part.start + found as u64, cause });
        }
        part.len = found;
        read_parts += 1;
        if failure.is_some() {
            break;
        }
    }
    parts.truncate(read_parts);
    Page { bytes, parts, failure }
}
