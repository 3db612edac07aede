//! Threads that read ahead: of each of several passes some items, each in a queue of its own.
//!
//! ```text
//! pass a ─┐                ┌─▶ queue a ─▶
//! pass b ─┼─▶ any thread ──┼─▶ queue b ─▶   whoever takes of it
//! pass c ─┘                └─▶ queue c ─▶
//! ```
//!
//! A pass is in the hands of one thread at a time, which pulls an item and reads it, so its queue is
//! in its order. That of whom somebody waits for comes first, then the oldest with room. A thread
//! begins with the first item that is asked for: what is passed over before is passed over at once.
//!
//! When nobody takes any more (all lanes are dropped) the threads end, those inside a read when it
//! returns; nobody waits for them.

use super::{Item, Items, by_asking};
use crate::panicked::message;
use crate::source::BoxError;
use crate::threads::{Process, ThreadsError};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The threads of some lanes. They end with the last of these.
pub(super) struct Lanes {
    shared: Arc<Shared>,
    threads: usize,
    /// Items of a queue.
    room: usize,
    /// The process that has the threads.
    process: Process,
}

struct Shared {
    state: Mutex<State>,
    /// For the threads: there is something to read, or all is over.
    work: Condvar,
    /// For who takes: an item or an end.
    news: Condvar,
}

#[derive(Default)]
struct State {
    lanes: BTreeMap<u64, Queue>,
    next_lane: u64,
    /// The lane that is waited for.
    awaited: Option<u64>,
    /// The lane that an item was taken of last.
    last: u64,
    threads: usize,
    is_over: bool,
}

struct Queue {
    /// `None` while a thread has them, and after their end.
    items: Option<Box<dyn Items>>,
    ready: VecDeque<Result<Item, BoxError>>,
    is_over: bool,
}

/// One pass that is read ahead.
pub(super) struct Lane {
    lanes: Arc<Lanes>,
    place: Place,
}

/// Where the items of a lane are.
enum Place {
    /// Nobody has asked for one yet.
    Here(Box<dyn Items>),
    /// In the queue of this number.
    Queued(u64),
}

impl Lanes {
    /// Up to so many threads, each queue with room for so many items.
    pub(super) fn new(threads: usize, room: usize) -> Arc<Self> {
        let shared = Shared { state: Mutex::default(), work: Condvar::new(), news: Condvar::new() };
        let (shared, process) = (Arc::new(shared), Process::current());
        Arc::new(Self { shared, threads, room: room.max(1), process })
    }

    /// Has items read ahead from here on.
    fn enter(&self, items: Box<dyn Items>) -> Result<u64, BoxError> {
        self.process.check()?;
        let mut state = self.shared.lock();
        let lane = state.next_lane;
        state.next_lane += 1;
        let queue = Queue { items: Some(items), ready: VecDeque::new(), is_over: false };
        state.lanes.insert(lane, queue);
        // As many threads as lanes, up to those there may be.
        if state.threads < self.threads {
            let (shared, room) = (Arc::clone(&self.shared), self.room);
            let name = "fuseloop-read".to_owned();
            thread::Builder::new().name(name).spawn(move || shared.work(room))?;
            state.threads += 1;
        }
        self.shared.work.notify_one();
        Ok(lane)
    }

    /// The next item of a queue.
    fn take(&self, lane: u64) -> Result<Option<Item>, BoxError> {
        self.process.check()?;
        let mut state = self.shared.lock();
        loop {
            let Some(queue) = state.lanes.get_mut(&lane) else { return Ok(None) };
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

    /// Which of these lanes has an item, or has ended: the first, in this order, that has.
    ///
    /// # Errors
    ///
    /// In a forked process, which has no threads that read ahead.
    pub(super) fn first_ready(&self, lanes: &[&Lane]) -> Result<Option<usize>, ThreadsError> {
        self.process.check()?;
        let mut state = self.shared.lock();
        let numbers = || lanes.iter().map(|lane| lane.number());
        loop {
            let is_ready = |number: Option<u64>| match number {
                None => true,
                Some(number) => {
                    let queue = state.lanes.get(&number);
                    queue.is_none_or(|queue| queue.is_over || !queue.ready.is_empty())
                }
            };
            if lanes.is_empty() {
                return Ok(None);
            }
            if let Some(ready) = numbers().position(is_ready) {
                return Ok(Some(ready));
            }
            state = self.shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        if self.process.is_forked() {
            return;
        }
        let mut state = self.shared.lock();
        state.is_over = true;
        let lanes = std::mem::take(&mut state.lanes);
        self.shared.work.notify_all();
        drop(state);
        drop(lanes);
    }
}

impl Lane {
    pub(super) fn new(lanes: &Arc<Lanes>, items: Box<dyn Items>) -> Self {
        Self { lanes: Arc::clone(lanes), place: Place::Here(items) }
    }

    /// Has it read ahead, if it is not.
    pub(super) fn begin(&mut self) -> Result<u64, BoxError> {
        if let Place::Queued(lane) = self.place {
            return Ok(lane);
        }
        match std::mem::replace(&mut self.place, Place::Queued(u64::MAX)) {
            Place::Queued(lane) => Ok(lane),
            Place::Here(items) => {
                let lane = self.lanes.enter(items)?;
                self.place = Place::Queued(lane);
                Ok(lane)
            }
        }
    }

    fn number(&self) -> Option<u64> {
        match self.place {
            Place::Here(_) => None,
            Place::Queued(lane) => Some(lane),
        }
    }
}

impl Items for Lane {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let lane = self.begin()?;
        self.lanes.take(lane)
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        match &mut self.place {
            Place::Here(items) => items.skip(count),
            Place::Queued(_) => by_asking(self, count),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Place::Queued(lane) = self.place
            && !self.lanes.process.is_forked()
        {
            let queue = self.lanes.shared.lock().lanes.remove(&lane);
            drop(queue);
        }
    }
}

impl Shared {
    /// Nothing of the user's runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does: read of one lane after another, until all is over.
    fn work(&self, room: usize) {
        while let Some((lane, mut items)) = self.claim(room) {
            let read = catch_unwind(AssertUnwindSafe(|| read_next(&mut *items)));
            let read =
                read.unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic)).into()));
            self.enter(lane, items, read.transpose());
        }
    }

    /// The items of the lane to read of next; `None` when all is over.
    fn claim(&self, room: usize) -> Option<(u64, Box<dyn Items>)> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            let awaited = state.awaited;
            let has_room = |queue: &&mut Queue| queue.items.is_some() && queue.ready.len() < room;
            // Who waits may not have woken yet to take what is there.
            let is_missed = |queue: &&mut Queue| has_room(queue) && queue.ready.is_empty();
            let first = awaited.and_then(|lane| state.lanes.get_mut(&lane)).filter(is_missed);
            if let (Some(queue), Some(lane)) = (first, awaited) {
                return Some(lane).zip(queue.items.take());
            }
            // The emptiest, and of these the one whose turn comes first.
            let last = state.last;
            let open = state.lanes.iter_mut().filter(|(_, queue)| has_room(queue));
            let next = open.min_by_key(|(lane, queue)| (queue.ready.len(), **lane <= last));
            if let Some((&lane, queue)) = next {
                return Some(lane).zip(queue.items.take());
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Enters what was read of a lane, and gives its items back.
    fn enter(&self, lane: u64, items: Box<dyn Items>, read: Option<Result<Item, BoxError>>) {
        let mut state = self.lock();
        let mut spent = Some(items);
        if let Some(queue) = state.lanes.get_mut(&lane) {
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

/// The next item, read. One that can't be read is left to who reads it again, to be told.
fn read_next(items: &mut dyn Items) -> Result<Option<Item>, BoxError> {
    let Some(item) = items.next()? else { return Ok(None) };
    Ok(Some(item.held().unwrap_or(item)))
}
