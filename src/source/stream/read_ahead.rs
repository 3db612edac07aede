//! Threads that read ahead: up to a given number of items of each of several passes, each pass with its
//! own queue.
//!
//! The threads are the engine's workers, and [`Streams`] has the queues: a worker pulls an item of a pass and
//! reads it. Reading ahead begins at the first item that the consumer asks for: items skipped before that are
//! skipped in the pass itself.
//!
//! The threads end when all [`ReadAheadPass`]es are dropped. A thread that is inside a read ends when
//! the read returns; dropping does not wait for it.

use super::{Item, Items, by_asking};
use crate::panicked::caught;
use crate::source::BoxError;
use crate::threads;
use fuseloop_engine::work_queue::{
    NumberedStream, StreamRead, Streams, Taken, WaitError, WorkQueue, Worker,
};
use std::sync::Arc;

/// The threads that read several passes ahead. They end when the last pass is dropped.
pub(super) struct ReadAhead {
    queue: Arc<WorkQueue<Streams<Box<dyn Items>, ReadItem>>>,
    threads: usize,
}

/// An item that was read, or the reason why the pass can't continue.
type ReadItem = Result<Item, BoxError>;

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
    /// A reader with at most `threads` threads and queues of `capacity` items each.
    pub(super) fn new(threads: usize, capacity: usize) -> Arc<Self> {
        Arc::new(Self { queue: Arc::new(WorkQueue::new(Streams::new(capacity))), threads })
    }

    /// Adds a queue for `items` and begins to read them ahead.
    fn enter(&self, items: Box<dyn Items>) -> Result<u64, BoxError> {
        // One thread for each queue, up to the limit.
        if self.queue.with(|state| state.added())? < self.threads as u64 {
            let worker = Worker::new(Arc::clone(&self.queue));
            let name = "fuseloop-read".to_owned();
            threads::builder(name)?.spawn(move || worker.work(read_next))?;
        }
        Ok(self.queue.with(|state| state.add(items))?)
    }

    /// Returns the next item of a queue. Blocks until there is one, or the queue has ended.
    fn take(&self, number: u64) -> Result<Option<Item>, BoxError> {
        match self.queue.take(None, |state| state.take(number)).map_err(reason)? {
            Taken::Result(item) => item.map(Some),
            Taken::End => Ok(None),
        }
    }

    /// Returns the index of the first of these passes that has an item ready or has ended. Blocks until
    /// there is one; `None` if `passes` is empty.
    ///
    /// # Errors
    ///
    /// In a forked process, which has no threads that read ahead.
    pub(super) fn first_ready(&self, passes: &[&ReadAheadPass]) -> Result<Option<usize>, BoxError> {
        if passes.is_empty() {
            return Ok(None);
        }
        let ready = self.queue.take(None, |state| {
            let mut numbers = passes.iter().map(|pass| pass.number());
            numbers.position(|number| number.is_none_or(|number| state.is_ready(number)))
        });
        Ok(Some(ready.map_err(reason)?))
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.queue.stop();
    }
}

impl ReadAheadPass {
    pub(super) fn new(reader: &Arc<ReadAhead>, items: Box<dyn Items>) -> Self {
        Self { reader: Arc::clone(reader), location: ItemLocation::Here(items) }
    }

    /// Begins to read the pass ahead, unless it has begun.
    pub(super) fn begin(&mut self) -> Result<u64, BoxError> {
        if let ItemLocation::Queued(number) = self.location {
            return Ok(number);
        }
        match std::mem::replace(&mut self.location, ItemLocation::Queued(u64::MAX)) {
            ItemLocation::Queued(number) => Ok(number),
            ItemLocation::Here(items) => {
                let number = self.reader.enter(items)?;
                self.location = ItemLocation::Queued(number);
                Ok(number)
            }
        }
    }

    fn number(&self) -> Option<u64> {
        match self.location {
            ItemLocation::Here(_) => None,
            ItemLocation::Queued(number) => Some(number),
        }
    }
}

impl Items for ReadAheadPass {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let number = self.begin()?;
        self.reader.take(number)
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
        if let ItemLocation::Queued(number) = self.location {
            // A forked process has no queue to remove.
            let _ = self.reader.queue.with(|state| state.remove(number));
        }
    }
}

/// Reads the next item of a pass, with its record. An item that can't be read is returned unread: its
/// error is reported when the consumer reads it.
fn read_next(mut from: NumberedStream<Box<dyn Items>>) -> StreamRead<Box<dyn Items>, ReadItem> {
    let read = caught(|| {
        let item = from.stream.next()?;
        Ok(item.map(|item| item.held().unwrap_or(item)))
    });
    let read = read.unwrap_or_else(|message| Err(format!("panic: {message}").into()));
    let item = read.transpose();
    let is_over = !matches!(item, Some(Ok(_)));
    StreamRead { from, item, is_over }
}

/// Why a thread that waited for an item got none.
fn reason(error: WaitError) -> BoxError {
    match error {
        WaitError::Forked(error) => error.into(),
        // Only the drop of an item or of a pass panics in a thread that reads ahead.
        WaitError::WorkersEnded | WaitError::Stopped | WaitError::TimedOut => {
            "the threads that read ahead have panicked: see their messages".into()
        }
    }
}
