//! Read-ahead of a run's objects.
//!
//! ```text
//! RunPlan ─▶ plan.rs: the next positions' extents, merged into requests
//!                │
//!            window.rs: which request next, within 256 MiB and 16 at a time
//!                │
//!            tasks on the shared runtime ─▶ blocks ─▶ read_at: copied, or waited for, or read directly
//! ```
//!
//! | | |
//! |---------|---------------------------------------------------------------------------------|
//! | order   | the blocks that are needed first are fetched first; reads may come in any order      |
//! | horizon | the batches that are begun ahead, and 8 more                                        |
//! | memory  | 256 MiB of blocks per run, plus a block for each read that is being copied           |
//! | errors  | if a block fails, its values are read one by one, each with its own error            |
//! | end     | when the shards are dropped, requests in flight are aborted and no task is left      |

mod plan;
#[cfg(test)]
mod tests;
mod window;

use super::extents::{Extents, Views};
use super::opened::Object;
use super::runtime::{self, runtime};
use crate::source::{BoxError, ReadAt, RunPlan};
use plan::Planner;
use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;
use window::{AheadLimits, BlockWindow, Key, ReadOutcome};

/// The number of batches planned beyond those that are begun. More batches give longer requests; fewer
/// batches waste fewer requests if a run ends early.
const MORE_BATCHES: usize = 8;

/// The largest number of bytes of a run's blocks.
const ROOM: u64 = 256 << 20;

/// The number of requests in flight: enough to fill a line of 1 Gbit/s from servers that send some 10
/// MB/s per request.
const REQUESTS: usize = 16;

/// Returns the files behind `readers` as one run reads them: the ranges that the run will need are merged
/// and fetched ahead. `None` if no file is remote.
///
/// # Errors
///
/// If the system can't start threads, or there is no memory for the first plan.
pub fn ahead(
    readers: &[Option<Arc<dyn ReadAt>>],
    run: &RunPlan,
    extents: Arc<dyn Extents>,
) -> Result<Option<Views>, BoxError> {
    ahead_within(readers, run, extents, bounds(run))
}

fn ahead_within(
    readers: &[Option<Arc<dyn ReadAt>>],
    run: &RunPlan,
    extents: Arc<dyn Extents>,
    bounds: AheadLimits,
) -> Result<Option<Views>, BoxError> {
    let objects: Vec<Option<Object>> =
        readers.iter().map(|reader| object_of(reader.as_ref()?)).collect();
    if objects.iter().all(Option::is_none) {
        return Ok(None);
    }
    let reading = Arc::new(ReadAheadRun(Shared::begin(objects.clone(), run, extents, bounds)?));
    let views = objects.into_iter().enumerate().map(|(shard, object)| {
        let planned = Planned { reading: Arc::clone(&reading), shard, object: object? };
        Some(Arc::new(planned) as Arc<dyn ReadAt>)
    });
    Ok(Some(views.collect()))
}

/// The remote object behind a reader, if there is one.
fn object_of(reader: &Arc<dyn ReadAt>) -> Option<Object> {
    let mut reader: &dyn Any = &**reader;
    if let Some(shared) = reader.downcast_ref::<Arc<dyn ReadAt>>() {
        reader = &**shared;
    }
    reader.downcast_ref::<Object>().cloned()
}

fn bounds(run: &RunPlan) -> AheadLimits {
    let positions = |batches: usize| run.batch_size.saturating_mul(batches) as u64;
    let ahead = run.batches_ahead;
    AheadLimits {
        room: ROOM,
        requests: REQUESTS,
        horizon: positions(ahead.saturating_add(MORE_BATCHES)),
        lag: positions(ahead.saturating_add(2)),
        misses: positions(1),
    }
}

/// Aborts the requests in flight when the last view is dropped.
struct ReadAheadRun(Arc<Shared>);

struct Shared {
    objects: Vec<Option<Object>>,
    planner: Mutex<Planner>,
    state: Mutex<State>,
    arrived: Condvar,
}

struct State {
    window: BlockWindow,
    tasks: HashMap<Key, AbortHandle>,
    stopping: bool,
}

/// One shard of the run.
struct Planned {
    reading: Arc<ReadAheadRun>,
    shard: usize,
    object: Object,
}

impl Shared {
    fn begin(
        objects: Vec<Option<Object>>,
        run: &RunPlan,
        extents: Arc<dyn Extents>,
        bounds: AheadLimits,
    ) -> Result<Arc<Self>, BoxError> {
        runtime()?;
        let sizes = objects.iter().map(|object| object.as_ref().map(Object::size)).collect();
        let state =
            State { window: BlockWindow::new(bounds), tasks: HashMap::new(), stopping: false };
        let shared = Arc::new(Self {
            objects,
            planner: Mutex::new(Planner::new(run.clone(), extents, sizes)),
            state: Mutex::new(state),
            arrived: Condvar::new(),
        });
        shared.plan()?;
        Ok(shared)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans more positions, if too few are planned and no other thread is planning.
    fn plan(self: &Arc<Self>) -> io::Result<()> {
        let Ok(mut planner) = self.planner.try_lock() else { return Ok(()) };
        while !planner.is_done() {
            let lacks = self.lock().window.lacks();
            if lacks == 0 {
                return Ok(());
            }
            let wanted = planner.take(lacks)?;
            let mut state = self.lock();
            state.window.add(wanted, planner.next());
            self.start_next(&mut state);
        }
        Ok(())
    }

    fn start_next(self: &Arc<Self>, state: &mut State) {
        while !state.stopping
            && let Some(key) = state.window.next()
        {
            self.start(state, key);
        }
    }

    /// Starts to fetch a block.
    fn start(self: &Arc<Self>, state: &mut State, key: Key) {
        let Some((shard, range)) = state.window.start(key) else { return };
        let object = self.objects.get(shard).cloned().flatten();
        // Both were checked when the run began.
        let (Ok(runtime), Some(object)) = (runtime(), object) else {
            return state.window.arrive(key, None);
        };
        let coming = BlockInFlight { shared: Arc::clone(self), key, bytes: None };
        let task = runtime.spawn(async move {
            let fetched = object.fetch(range).await;
            coming.arrives(fetched.ok());
        });
        state.tasks.insert(key, task.abort_handle());
    }

    /// Copies the bytes of a read, if it was planned and there is room.
    fn read(
        self: &Arc<Self>,
        planned: &Planned,
        bytes: &mut [u8],
        start: u64,
    ) -> io::Result<usize> {
        let range = planned.object.range(start, bytes.len());
        let count = (range.end.saturating_sub(range.start)) as usize;
        let mut state = self.lock();
        loop {
            match state.window.find(planned.shard, &range) {
                ReadOutcome::Nothing => {
                    drop(state);
                    self.plan()?;
                    return planned.object.read_at(bytes, start);
                }
                ReadOutcome::NoRoom(key) => {
                    state.window.used(key, &range);
                    break;
                }
                ReadOutcome::Start(key) => self.start(&mut state, key),
                ReadOutcome::Coming => {
                    state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                ReadOutcome::Here(key, block) => {
                    drop(state);
                    let from = (range.start - key.1) as usize;
                    bytes[..count].copy_from_slice(&block[from..from + count]);
                    drop(block);
                    self.after(key, &range)?;
                    return Ok(count);
                }
            }
        }
        drop(state);
        self.plan()?;
        planned.object.read_directly(bytes, start)
    }

    /// Called after a read: there may be room for the next block, and more to plan.
    fn after(self: &Arc<Self>, key: Key, range: &Range<u64>) -> io::Result<()> {
        let mut state = self.lock();
        state.window.used(key, range);
        self.start_next(&mut state);
        let lacks = state.window.lacks();
        drop(state);
        if lacks > 0 {
            self.plan()?;
        }
        Ok(())
    }
}

/// A block in flight: the task delivers its bytes, or is aborted.
struct BlockInFlight {
    shared: Arc<Shared>,
    key: Key,
    bytes: Option<Vec<u8>>,
}

impl BlockInFlight {
    fn arrives(mut self, bytes: Option<Vec<u8>>) {
        self.bytes = bytes;
    }
}

impl Drop for BlockInFlight {
    fn drop(&mut self) {
        let bytes = self.bytes.take();
        let mut state = self.shared.lock();
        state.tasks.remove(&self.key);
        state.window.arrive(self.key, bytes);
        self.shared.start_next(&mut state);
        drop(state);
        self.shared.arrived.notify_all();
    }
}

impl Drop for ReadAheadRun {
    fn drop(&mut self) {
        if runtime::check().is_err() {
            return;
        }
        let mut state = self.0.lock();
        state.stopping = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        tasks.values().for_each(AbortHandle::abort);
    }
}

impl ReadAt for Planned {
    fn len(&self) -> io::Result<u64> {
        Ok(self.object.size())
    }

    fn read_at(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        runtime::check().map_err(io::Error::other)?;
        if bytes.is_empty() || start >= self.object.size() {
            return Ok(0);
        }
        self.reading.0.read(self, bytes, start)
    }
}
