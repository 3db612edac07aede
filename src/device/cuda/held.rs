//! The memory of batches on the device, and who still reads it.
//!
//! ```text
//!   Buffers ──take──▶ Held ◀── the batch, and a Use for each stream that reads it
//!      ▲                │
//!      └── the last of them is dropped: what they asked of their streams is noted by events
//! ```
//!
//! | | waits for | where |
//! |---|---|---|
//! | a reader's stream | `ready`: the batch is there | on the device, when it is [handed over](Use::begin) |
//! | who writes the next batch | all `released` events | on the device |
//! | the same, after a reader on no stream | the whole context | here, when memory is taken |
//!
//! A release that can't be noted (a stream that is gone, a fork, a driver that is going) leaves the
//! memory lost: better than having it written while somebody reads.

#![allow(unsafe_code, reason = "streams of others")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};

use super::context::Context;
use super::handles::{Event, Memory, Queue};
use crate::device::{DeviceError, Stream};

/// All memory of one lane's batches.
pub(super) struct Buffers {
    context: Arc<Context>,
    pub(super) bytes: usize,
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: VecDeque<Buffer>,
    made: usize,
}

/// Memory of one batch.
pub(super) struct Buffer {
    pub(super) memory: Memory,
    /// What was written last is there.
    pub(super) ready: Event,
    users: Mutex<Users>,
}

/// Who read it since it was last written.
#[derive(Default)]
struct Users {
    /// The last that each stream was asked for.
    released: Vec<(Reader, Event)>,
    spare: Vec<Event>,
    /// Somebody reads it on no stream that can be waited for.
    unknown: bool,
    /// Somebody may read it for ever.
    lost: bool,
}

/// A stream, by its number; and the thread, if it is that thread's.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Reader {
    stream: usize,
    thread: Option<ThreadId>,
}

impl Reader {
    /// The stream that `thread` meant by `stream`, if the calling thread can name it: another
    /// thread's own stream has no name here.
    fn of(stream: Stream, thread: ThreadId) -> Option<Self> {
        let own = (stream == Stream::PerThread).then_some(thread);
        if own.is_some_and(|thread| thread != thread::current().id()) {
            return None;
        }
        Some(Self { stream: stream.number()?, thread: own })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Buffers {
    /// Room for up to `limit` batches of `bytes`; none is taken yet.
    pub(super) fn new(context: &Arc<Context>, bytes: usize, limit: usize) -> Arc<Self> {
        let context = Arc::clone(context);
        Arc::new(Self { context, bytes, limit, state: Mutex::default() })
    }

    /// Memory that nobody holds, that which was given back first.
    ///
    /// # Errors
    ///
    /// If all is held, or the device has no more.
    pub(super) fn take(self: &Arc<Self>) -> Result<Arc<Held>, DeviceError> {
        let buffer = Some(self.unheld()?);
        let held = Held { buffer, buffers: Arc::downgrade(self) };
        held.buffer().wait_for_unknown(&self.context)?;
        Ok(Arc::new(held))
    }

    fn unheld(&self) -> Result<Buffer, DeviceError> {
        let mut state = lock(&self.state);
        let known = state.free.iter().position(|buffer| !lock(&buffer.users).unknown);
        if let Some(buffer) = state.free.remove(known.unwrap_or(0)) {
            return Ok(buffer);
        }
        if state.made >= self.limit {
            return Err(DeviceError::AllHeld { limit: self.limit });
        }
        let buffer = Buffer::new(&self.context, self.bytes)?;
        state.made += 1;
        Ok(buffer)
    }

    /// How many there is memory for now.
    pub(super) fn made(&self) -> usize {
        lock(&self.state).made
    }
}

impl Buffer {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        let memory = Memory::new(context, bytes, "a batch")?;
        Ok(Self { memory, ready: Event::new(context)?, users: Mutex::default() })
    }

    /// Has `queue` wait for all who read it.
    pub(super) fn wait_for_users(&self, queue: &Queue) -> Result<(), DeviceError> {
        lock(&self.users).released.iter().try_for_each(|(_, event)| queue.wait(event))
    }

    /// Who writes it next has waited for all of them.
    pub(super) fn forget_users(&self) {
        let users = &mut *lock(&self.users);
        users.spare.extend(users.released.drain(..).map(|(_, event)| event));
    }

    fn wait_for_unknown(&self, context: &Context) -> Result<(), DeviceError> {
        if lock(&self.users).unknown {
            context.synchronize()?;
            lock(&self.users).unknown = false;
        }
        Ok(())
    }

    /// Notes what `reader` was asked for up to now.
    fn note(&self, reader: Reader) -> Result<(), DeviceError> {
        let users = &mut *lock(&self.users);
        let known = users.released.iter().position(|(known, _)| *known == reader);
        let place = match known {
            Some(place) => place,
            None => {
                let event = match users.spare.pop() {
                    Some(event) => event,
                    None => Event::new(self.memory.context())?,
                };
                users.released.push((reader, event));
                users.released.len() - 1
            }
        };
        // SAFETY: a stream that lives until it has let go, by the promise of `StreamHandle::new`,
        // or one of CUDA's own.
        unsafe { users.released[place].1.record_on(reader.stream) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Nobody waits on the device any more: the memory goes. A context that is lost reads
        // nothing, so that an error is as good as an end.
        let users = self.users.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = self.ready.synchronize();
        for (_, event) in &users.released {
            let _ = event.synchronize();
        }
        if users.unknown {
            let _ = self.memory.context().synchronize();
        }
    }
}

/// Memory that a batch and its readers hold.
pub(super) struct Held {
    /// `None` only inside `drop`.
    buffer: Option<Buffer>,
    buffers: Weak<Buffers>,
}

impl Held {
    pub(super) fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("it has its buffer until it is dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        if lock(&buffer.users).lost {
            std::mem::forget(buffer);
        } else if let Some(buffers) = self.buffers.upgrade() {
            lock(&buffers.state).free.push_back(buffer);
        }
    }
}

/// A stream's hold on a batch: what the stream was asked for when this is dropped is waited for
/// before the memory is written again.
pub(crate) struct Use {
    held: Arc<Held>,
    stream: Stream,
    thread: ThreadId,
}

impl Use {
    /// Has `stream` wait until the batch is there.
    ///
    /// # Errors
    ///
    /// If it is no stream of this device.
    pub(super) fn begin(held: &Arc<Held>, stream: Stream) -> Result<Self, DeviceError> {
        let thread = thread::current().id();
        if let Some(reader) = Reader::of(stream, thread) {
            // SAFETY: as in `Buffer::note`.
            unsafe { held.buffer().ready.hold_up(reader.stream) }?;
            // A stream whose release can't be noted is found now, and not when it is too late.
            held.buffer().note(reader)?;
        }
        Ok(Self { held: Arc::clone(held), stream, thread })
    }

    /// Whether it is of the stream that the calling thread means by `stream`.
    pub(super) fn is_of(&self, stream: Stream) -> bool {
        let own = stream != Stream::PerThread || self.thread == thread::current().id();
        self.stream == stream && own
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let buffer = self.held.buffer();
        match Reader::of(self.stream, self.thread) {
            None => lock(&buffer.users).unknown = true,
            Some(reader) => {
                if buffer.note(reader).is_err() {
                    lock(&buffer.users).lost = true;
                }
            }
        }
    }
}
