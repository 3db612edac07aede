//! A run's objects, fetched ahead of its samples.
//!
//! ```text
//! RunPlan ─▶ plan.rs: the next places' extents, merged into requests
//!                │
//!            window.rs: which request next, within 256 MiB and 16 at a time
//!                │
//!            tasks on the shared runtime ─▶ blocks ─▶ read_at: copied, or waited for, or read directly
//! ```
//!
//! | | |
//! |---------|---------------------------------------------------------------------------------|
//! | order   | blocks that are wanted first are fetched first; reads may come in any order         |
//! | horizon | the batches that are begun ahead, and 8 more                                        |
//! | memory  | 256 MiB of blocks a run, and a block for each read that is being copied              |
//! | errors  | of a block: its values are read one by one, each with an error of its own            |
//! | end     | when the shards are dropped: requests under way are given up, nothing is left        |

mod plan;
#[cfg(test)]
mod tests;
mod window;

use super::opened::Object;
use super::runtime::{self, runtime};
use crate::source::file::FileBytes;
use crate::source::shards::{Extents, Shard, Shards};
use crate::source::{BoxError, ReadAt, RunPlan};
use plan::Planner;
use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;
use window::{Bounds, Found, Key, Window};

/// Batches planned beyond those that are begun: the more, the longer the requests; the fewer, the
/// less was fetched in vain where a run is left.
const MORE_BATCHES: usize = 8;

/// Most bytes of blocks of a run.
const ROOM: u64 = 256 << 20;

/// Requests at a time: what a line of 1 Gbit/s takes of servers that give each some 10 MB/s.
const REQUESTS: usize = 16;

/// The shards as one run reads them: ranges that the run will want, fetched ahead and together.
/// `None` where none of them is remote.
///
/// # Errors
///
/// If the system gives no threads, or the first plan has no memory.
pub(in crate::source) fn ahead(
    shards: &Shards,
    run: &RunPlan,
    extents: Arc<dyn Extents>,
) -> Result<Option<Shards>, BoxError> {
    ahead_within(shards, run, extents, bounds(run))
}

fn ahead_within(
    shards: &Shards,
    run: &RunPlan,
    extents: Arc<dyn Extents>,
    bounds: Bounds,
) -> Result<Option<Shards>, BoxError> {
    let objects: Vec<Option<Object>> = shards.all().iter().map(object_of).collect();
    if objects.iter().all(Option::is_none) {
        return Ok(None);
    }
    let reading = Arc::new(Reading(Shared::begin(objects.clone(), run, extents, bounds)?));
    let views = shards.all().iter().zip(objects).enumerate().map(|(shard, (whole, object))| {
        let Some(object) = object else { return Ok(whole.clone()) };
        let planned = Planned { reading: Arc::clone(&reading), shard, object };
        let bytes = Arc::new(FileBytes::from_reader(Arc::new(planned))?);
        Ok(Shard { location: whole.location.clone(), bytes })
    });
    let views: io::Result<Vec<Shard>> = views.collect();
    Ok(Some(Shards::new(views?)))
}

/// The object that a shard is, if it is one.
fn object_of(shard: &Shard) -> Option<Object> {
    let mut reader: &dyn Any = &**shard.bytes.reader()?;
    if let Some(shared) = reader.downcast_ref::<Arc<dyn ReadAt>>() {
        reader = &**shared;
    }
    reader.downcast_ref::<Object>().cloned()
}

fn bounds(run: &RunPlan) -> Bounds {
    let places = |batches: usize| run.batch_size.saturating_mul(batches) as u64;
    let ahead = run.batches_ahead;
    Bounds {
        room: ROOM,
        requests: REQUESTS,
        horizon: places(ahead.saturating_add(MORE_BATCHES)),
        lag: places(ahead.saturating_add(2)),
        misses: places(1),
    }
}

/// Ends what is under way when the last view of it goes.
struct Reading(Arc<Shared>);

struct Shared {
    objects: Vec<Option<Object>>,
    planner: Mutex<Planner>,
    state: Mutex<State>,
    arrived: Condvar,
}

struct State {
    window: Window,
    tasks: HashMap<Key, AbortHandle>,
    stopping: bool,
}

/// One shard of the run.
struct Planned {
    reading: Arc<Reading>,
    shard: usize,
    object: Object,
}

impl Shared {
    fn begin(
        objects: Vec<Option<Object>>,
        run: &RunPlan,
        extents: Arc<dyn Extents>,
        bounds: Bounds,
    ) -> Result<Arc<Self>, BoxError> {
        runtime()?;
        let sizes = objects.iter().map(|object| object.as_ref().map(Object::size)).collect();
        let state = State { window: Window::new(bounds), tasks: HashMap::new(), stopping: false };
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

    /// Plans more places, if there are too few, and unless somebody else is at it.
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

    /// Has a block fetched.
    fn start(self: &Arc<Self>, state: &mut State, key: Key) {
        let Some((shard, range)) = state.window.start(key) else { return };
        let object = self.objects.get(shard).cloned().flatten();
        // That there are both was seen when the run began.
        let (Ok(runtime), Some(object)) = (runtime(), object) else {
            return state.window.arrive(key, None);
        };
        let coming = Coming { shared: Arc::clone(self), key, bytes: None };
        let task = runtime.spawn(async move {
            let fetched = object.fetch(range).await;
            coming.arrives(fetched.ok());
        });
        state.tasks.insert(key, task.abort_handle());
    }

    /// Copies what a read wants, if it was planned and there is room.
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
                Found::Nothing => {
                    drop(state);
                    self.plan()?;
                    return planned.object.read_at(bytes, start);
                }
                Found::NoRoom(key) => {
                    state.window.used(key, &range);
                    break;
                }
                Found::Start(key) => self.start(&mut state, key),
                Found::Coming => {
                    state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Found::Here(key, block) => {
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

    /// A read is over: there may be room, and more to plan.
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

/// A block under way: it arrives, or its task is given up.
struct Coming {
    shared: Arc<Shared>,
    key: Key,
    bytes: Option<Vec<u8>>,
}

impl Coming {
    fn arrives(mut self, bytes: Option<Vec<u8>>) {
        self.bytes = bytes;
    }
}

impl Drop for Coming {
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

impl Drop for Reading {
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
