//! Threads that read ahead: up to a given number of items of each of several passes, each pass with its
//! own queue.
//!
//! ```text
//! pass a ─┐                ┌─▶ queue a ─▶
//! pass b ─┼─▶ any thread ──┼─▶ queue b ─▶   whoever takes of it
//! pass c ─┘                └─▶ queue c ─▶
//! ```
//!
//! Only one thread at a time works on a pass: it pulls an item and reads it, so each queue is in the
//! order of its pass. A queue that a consumer is blocked on goes first, then the emptiest queue, then
//! the next one in turn. Reading ahead begins at the first item that the consumer asks for: items
//! skipped before that are skipped in the pass itself.
//!
//! The threads end when all [`ReadAheadPass`]es are dropped. A thread that is inside a read ends when
//! the read returns; dropping does not wait for it.

use super::{Item, Items, by_asking};
use crate::panicked::message;
use crate::source::BoxError;
use crate::threads::{Process, ThreadsError};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The threads that read several passes ahead. They end when the last pass is dropped.
pub(super) struct ReadAhead {
    shared: Arc<Shared>,
    threads: usize,
    /// The capacity of each queue, in items.
    room: usize,
    /// The process that the threads run in.
    process: Process,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the threads: an item can be read, or the threads are to end.
    work: Condvar,
    /// Wakes consumers: a queue has an item or has ended.
    news: Condvar,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<u64, ReadAheadQueue>,
    next_queue: u64,
    /// The queue that a consumer is blocked on.
    awaited: Option<u64>,
    /// The queue that an item was taken from last.
    last: u64,
    threads: usize,
    is_over: bool,
}

struct ReadAheadQueue {
    /// `None` while a thread works on the pass, and after the end of the pass.
    items: Option<Box<dyn Items>>,
    ready: VecDeque<Result<Item, BoxError>>,
    is_over: bool,
}

/// A pass that is read ahead.
pub(super) struct ReadAheadPass {
    reader: Arc<ReadAhead>,
    location: ItemLocation,
}

/// The location of a pass's items.
enum ItemLocation {
    /// Not queued yet: no item was asked for.
    Here(Box<dyn Items>),
    /// In the queue with this number.
    Queued(u64),
}

impl ReadAhead {
    /// A reader with at most `threads` threads and queues of `room` items each.
    pub(super) fn new(threads: usize, room: usize) -> Arc<Self> {
        let shared = Shared { state: Mutex::default(), work: Condvar::new(), news: Condvar::new() };
        let (shared, process) = (Arc::new(shared), Process::current());
        Arc::new(Self { shared, threads, room: room.max(1), process })
    }

    /// Adds a queue for `items` and begins to read them ahead.
    fn enter(&self, items: Box<dyn Items>) -> Result<u64, BoxError> {
        self.process.check()?;
        let mut state = self.shared.lock();
        let lane = state.next_queue;
        state.next_queue += 1;
        let queue = ReadAheadQueue { items: Some(items), ready: VecDeque::new(), is_over: false };
        state.queues.insert(lane, queue);
        // One thread for each queue, up to the limit.
        if state.threads < self.threads {
            let (shared, room) = (Arc::clone(&self.shared), self.room);
            let name = "fuseloop-read".to_owned();
            thread::Builder::new().name(name).spawn(move || shared.work(room))?;
            state.threads += 1;
        }
        self.shared.work.notify_one();
        Ok(lane)
    }

    /// Returns the next item of a queue. Blocks until there is one, or the queue has ended.
    fn take(&self, lane: u64) -> Result<Option<Item>, BoxError> {
        self.process.check()?;
        let mut state = self.shared.lock();
        loop {
            let Some(queue) = state.queues.get_mut(&lane) else { return Ok(None) };
            if let Some(ready) = queue.ready.pop_front() {
                (state.awaited, state.last) = (None, lane);
                self.shared.work.notify_one();
                return ready.map(Some);
            }
            if queue.is_over {
                return Ok(None);
            }
            state.awaited = Some(lane);
            state = self.shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the index of the first of these passes that has an item ready or has ended. Blocks until
    /// there is one; `None` if `passes` is empty.
    ///
    /// # Errors
    ///
    /// In a forked process, which has no threads that read ahead.
    pub(super) fn first_ready(
        &self,
        passes: &[&ReadAheadPass],
    ) -> Result<Option<usize>, ThreadsError> {
        self.process.check()?;
        let mut state = self.shared.lock();
        let numbers = || passes.iter().map(|lane| lane.number());
        loop {
            let is_ready = |number: Option<u64>| match number {
                None => true,
                Some(number) => {
                    let queue = state.queues.get(&number);
                    queue.is_none_or(|queue| queue.is_over || !queue.ready.is_empty())
                }
            };
            if passes.is_empty() {
                return Ok(None);
            }
            if let Some(ready) = numbers().position(is_ready) {
                return Ok(Some(ready));
            }
            state = self.shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if self.process.is_forked() {
            return;
        }
        let mut state = self.shared.lock();
        state.is_over = true;
        let lanes = std::mem::take(&mut state.queues);
        self.shared.work.notify_all();
        drop(state);
        drop(lanes);
    }
}

impl ReadAheadPass {
    pub(super) fn new(lanes: &Arc<ReadAhead>, items: Box<dyn Items>) -> Self {
        Self { reader: Arc::clone(lanes), location: ItemLocation::Here(items) }
    }

    /// Begins to read the pass ahead, unless it has begun.
    pub(super) fn begin(&mut self) -> Result<u64, BoxError> {
        if let ItemLocation::Queued(lane) = self.location {
            return Ok(lane);
        }
        match std::mem::replace(&mut self.location, ItemLocation::Queued(u64::MAX)) {
            ItemLocation::Queued(lane) => Ok(lane),
            ItemLocation::Here(items) => {
                let lane = self.reader.enter(items)?;
                self.location = ItemLocation::Queued(lane);
                Ok(lane)
            }
        }
    }

    fn number(&self) -> Option<u64> {
        match self.location {
            ItemLocation::Here(_) => None,
            ItemLocation::Queued(lane) => Some(lane),
        }
    }
}

impl Items for ReadAheadPass {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let lane = self.begin()?;
        self.reader.take(lane)
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        match &mut self.location {
            ItemLocation::Here(items) => items.skip(count),
            ItemLocation::Queued(_) => by_asking(self, count),
        }
    }
}

impl Drop for ReadAheadPass {
    fn drop(&mut self) {
        if let ItemLocation::Queued(lane) = self.location
            && !self.reader.process.is_forked()
        {
            let queue = self.reader.shared.lock().queues.remove(&lane);
            drop(queue);
        }
    }
}

impl Shared {
    /// No user code runs under this lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of a thread: reads one item of one queue after another until the threads are to end.
    fn work(&self, room: usize) {
        while let Some((lane, mut items)) = self.claim(room) {
            let read = catch_unwind(AssertUnwindSafe(|| read_next(&mut *items)));
            let read =
                read.unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic)).into()));
            self.enter(lane, items, read.transpose());
        }
    }

    /// Takes the items of the queue to read next. Blocks until a queue has room; `None` when the threads
    /// are to end.
    fn claim(&self, room: usize) -> Option<(u64, Box<dyn Items>)> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            let awaited = state.awaited;
            let has_room =
                |queue: &&mut ReadAheadQueue| queue.items.is_some() && queue.ready.len() < room;
            // A blocked consumer may not have woken up yet to take an item that is ready.
            let is_missed = |queue: &&mut ReadAheadQueue| has_room(queue) && queue.ready.is_empty();
            let first = awaited.and_then(|lane| state.queues.get_mut(&lane)).filter(is_missed);
            if let (Some(queue), Some(lane)) = (first, awaited) {
                return Some(lane).zip(queue.items.take());
            }
            // The emptiest queue; among equals, the next one in turn after `last`.
            let last = state.last;
            let open = state.queues.iter_mut().filter(|(_, queue)| has_room(queue));
            let next = open.min_by_key(|(lane, queue)| (queue.ready.len(), **lane <= last));
            if let Some((&lane, queue)) = next {
                return Some(lane).zip(queue.items.take());
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stores the item that was read in its queue and puts the pass back.
    fn enter(&self, lane: u64, items: Box<dyn Items>, read: Option<Result<Item, BoxError>>) {
        let mut state = self.lock();
        let mut spent = Some(items);
        if let Some(queue) = state.queues.get_mut(&lane) {
            queue.is_over = !matches!(read, Some(Ok(_)));
            if !queue.is_over {
                queue.items = spent.take();
            }
            queue.ready.extend(read);
        }
        self.news.notify_all();
        drop(state);
        drop(spent);
    }
}

/// Returns the next item, with its record. An item that can't be read is returned unread: its error is
/// reported when the consumer reads it.
fn read_next(items: &mut dyn Items) -> Result<Option<Item>, BoxError> {
    let Some(item) = items.next()? else { return Ok(None) };
    Ok(Some(item.held().unwrap_or(item)))
}
