//! The memory of batches on the device, and the streams that still read it.
//!
//! ```text
//!   BufferPool ──take──▶ SharedBuffer ◀── the batch, and a ReaderGuard for each stream that reads it
//!      ▲                    │
//!      └── the last of them is dropped: events record the work enqueued on their streams
//! ```
//!
//! | waiter | waits for | where |
//! |---|---|---|
//! | a reader's stream | `ready`: the batch is there | on the device, when the [guard is created](ReaderGuard::begin) |
//! | the stream that writes the next batch | all `released` events | on the device |
//! | the same, after an unordered reader | the whole context | on the host, when memory is taken |
//!
//! If a release can't be recorded (a stream that is gone, a fork, a driver that shuts down), the memory
//! is leaked: the alternative is to overwrite it while a stream reads it.

#![allow(unsafe_code, reason = "streams of others")]

use crate::device::error::all_in_use;
use crate::error::Error;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};

use super::context::Context;
use super::handles::{CudaEvent, DeviceMemory, OwnedStream};
use crate::device::DeviceStream;

/// The memory of all batches of one uploader.
pub(super) struct BufferPool {
    context: Arc<Context>,
    pub(super) bytes: usize,
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: VecDeque<DeviceBuffer>,
    allocated: usize,
}

/// The memory of one batch.
pub(super) struct DeviceBuffer {
    pub(super) memory: DeviceMemory,
    /// Recorded after the last write.
    pub(super) ready: CudaEvent,
    users: Mutex<Users>,
}

/// The readers since the last write.
#[derive(Default)]
struct Users {
    /// An event after the last work of each reading stream.
    released: Vec<(StreamReader, CudaEvent)>,
    spare: Vec<CudaEvent>,
    /// True if a reader used no stream that can be waited for.
    unknown: bool,
    /// True if the end of a reader's work could not be recorded.
    lost: bool,
}

/// A stream, by its handle; and the thread, if it is that thread's default stream.
#[derive(Clone, Copy, PartialEq, Eq)]
struct StreamReader {
    stream: usize,
    thread: Option<ThreadId>,
}

impl StreamReader {
    /// Returns the stream that `thread` meant by `stream`, if the calling thread can name it: another
    /// thread's default stream has no name on this thread.
    fn of(stream: DeviceStream, thread: ThreadId) -> Option<Self> {
        let own = (stream == DeviceStream::PerThread).then_some(thread);
        if own.is_some_and(|thread| thread != thread::current().id()) {
            return None;
        }
        Some(Self { stream: stream.number()?, thread: own })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BufferPool {
    /// Creates a pool of up to `limit` batches of `bytes`; nothing is allocated yet.
    pub(super) fn new(context: &Arc<Context>, bytes: usize, limit: usize) -> Arc<Self> {
        let context = Arc::clone(context);
        Arc::new(Self { context, bytes, limit, state: Mutex::default() })
    }

    /// Takes unused memory, the memory that was released first.
    ///
    /// # Errors
    ///
    /// If all memory is in use, or the device has no more.
    pub(super) fn take(self: &Arc<Self>) -> Result<Arc<SharedBuffer>, Error> {
        let buffer = Some(self.unused_buffer()?);
        let held = SharedBuffer { buffer, buffers: Arc::downgrade(self) };
        held.buffer().wait_for_unknown(&self.context)?;
        Ok(Arc::new(held))
    }

    fn unused_buffer(&self) -> Result<DeviceBuffer, Error> {
        let mut state = lock(&self.state);
        let known = state.free.iter().position(|buffer| !lock(&buffer.users).unknown);
        if let Some(buffer) = state.free.remove(known.unwrap_or(0)) {
            return Ok(buffer);
        }
        if state.allocated >= self.limit {
            return Err(all_in_use(self.limit));
        }
        let buffer = DeviceBuffer::new(&self.context, self.bytes)?;
        state.allocated += 1;
        Ok(buffer)
    }

    /// Returns the number of batches that are held.
    pub(super) fn held(&self) -> usize {
        let state = lock(&self.state);
        state.allocated - state.free.len()
    }

    /// Returns the number of batches that memory is allocated for.
    pub(super) fn allocated(&self) -> usize {
        lock(&self.state).allocated
    }
}

impl DeviceBuffer {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Error> {
        let memory = DeviceMemory::new(context, bytes, "a batch")?;
        Ok(Self { memory, ready: CudaEvent::new(context)?, users: Mutex::default() })
    }

    /// Makes `queue` wait for all readers.
    pub(super) fn wait_for_users(&self, queue: &OwnedStream) -> Result<(), Error> {
        lock(&self.users).released.iter().try_for_each(|(_, event)| queue.wait(event))
    }

    /// Forgets all readers: the next writer's stream waits for them.
    pub(super) fn forget_users(&self) {
        let users = &mut *lock(&self.users);
        users.spare.extend(users.released.drain(..).map(|(_, event)| event));
    }

    fn wait_for_unknown(&self, context: &Context) -> Result<(), Error> {
        if lock(&self.users).unknown {
            context.synchronize()?;
            lock(&self.users).unknown = false;
        }
        Ok(())
    }

    /// Records the work enqueued on `reader` up to now.
    fn record_reader(&self, reader: StreamReader) -> Result<(), Error> {
        let users = &mut *lock(&self.users);
        let known = users.released.iter().position(|(known, _)| *known == reader);
        let index = match known {
            Some(index) => index,
            None => {
                let event = match users.spare.pop() {
                    Some(event) => event,
                    None => CudaEvent::new(self.memory.context())?,
                };
                users.released.push((reader, event));
                users.released.len() - 1
            }
        };
        // SAFETY: the stream lives until its reader ends, by the promise of `StreamHandle::new`, or is
        // one of CUDA's own.
        unsafe { users.released[index].1.record_on(reader.stream) }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // The host waits here, since the memory is freed. A lost context reads nothing any more, so an
        // error also means that no reader is left.
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

/// Memory that a batch and its readers share.
pub(super) struct SharedBuffer {
    /// `None` only inside `drop`.
    buffer: Option<DeviceBuffer>,
    buffers: Weak<BufferPool>,
}

impl SharedBuffer {
    pub(super) fn buffer(&self) -> &DeviceBuffer {
        self.buffer.as_ref().expect("it has its buffer until it is dropped")
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        if lock(&buffer.users).lost {
            std::mem::forget(buffer);
        } else if let Some(buffers) = self.buffers.upgrade() {
            lock(&buffers.state).free.push_back(buffer);
        }
    }
}

/// A guard that is held while a stream reads a batch: the work enqueued on the stream before the guard
/// is dropped ends before the memory is written again.
pub(crate) struct ReaderGuard {
    held: Arc<SharedBuffer>,
    stream: DeviceStream,
    thread: ThreadId,
}

impl ReaderGuard {
    /// Makes `stream` wait until the batch is there.
    ///
    /// # Errors
    ///
    /// If `stream` is not a stream of this device.
    pub(super) fn begin(held: &Arc<SharedBuffer>, stream: DeviceStream) -> Result<Self, Error> {
        let thread = thread::current().id();
        if let Some(reader) = StreamReader::of(stream, thread) {
            // SAFETY: see `DeviceBuffer::record_reader`.
            unsafe { held.buffer().ready.make_wait(reader.stream) }?;
            // If the stream's release can't be recorded, this fails now, not when it is too late.
            held.buffer().record_reader(reader)?;
        }
        Ok(Self { held: Arc::clone(held), stream, thread })
    }

    /// Returns true if the guard is for the stream that the calling thread means by `stream`.
    pub(super) fn is_of(&self, stream: DeviceStream) -> bool {
        let own = stream != DeviceStream::PerThread || self.thread == thread::current().id();
        self.stream == stream && own
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        let buffer = self.held.buffer();
        match StreamReader::of(self.stream, self.thread) {
            None => lock(&buffer.users).unknown = true,
            Some(reader) => {
                if buffer.record_reader(reader).is_err() {
                    lock(&buffer.users).lost = true;
                }
            }
        }
    }
}
