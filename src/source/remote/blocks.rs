//! A cache for small reads: blocks of 1 MiB that hold the bytes around each read. All objects share it.
//!
//! ```text
//! small read ─▶ its block: here │ being fetched: waited for │ fetched by whoever asks first
//! the block before it is here too: this is a sequence, and the one after it is sent for as well
//! ```
//!
//! The cache holds 64 MiB for the whole process, plus one block for each thread that waits for one; the
//! least recently used block is dropped first. If a block can't be fetched, the thread that fetched it
//! gets the error, and each thread that waited for it tries itself.

use super::fetch::FetchError;
use super::opened::Object;
use super::runtime::runtime;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The size of a block. At 30 ms per request and 100 MB/s, its bytes take a third of the request's time.
const BLOCK: u64 = 1 << 20;

/// The capacity in bytes.
const ROOM: usize = 64 << 20;

/// An object's number, and the index of a block in it.
type Key = (u64, u64);

enum BlockState {
    Coming,
    Here { bytes: Arc<Vec<u8>>, used: u64 },
}

#[derive(Default)]
struct Blocks {
    blocks: HashMap<Key, BlockState>,
    /// The number of bytes of the blocks that have arrived.
    held: usize,
    /// A counter of uses.
    now: u64,
}

static BLOCKS: Mutex<Option<Blocks>> = Mutex::new(None);
static ARRIVED: Condvar = Condvar::new();

/// Reads up to the end of a block at most.
pub(super) fn read(object: &Object, bytes: &mut [u8], start: u64) -> io::Result<usize> {
    if start >= object.size() || bytes.is_empty() {
        return Ok(0);
    }
    let block = start / BLOCK;
    let held = block_of(object, block)?;
    let from = (start - block * BLOCK) as usize;
    let count = bytes.len().min(held.len() - from);
    bytes[..count].copy_from_slice(&held[from..from + count]);
    Ok(count)
}

/// Drops all blocks of an object.
pub(super) fn forget(object: u64) {
    with(|all| {
        let held = &mut all.held;
        all.blocks.retain(|(of, _), block| {
            let stays = *of != object;
            if let (false, BlockState::Here { bytes, .. }) = (stays, block) {
                *held -= bytes.len();
            }
            stays
        });
    });
}

fn block_of(object: &Object, block: u64) -> io::Result<Arc<Vec<u8>>> {
    let key = (object.number(), block);
    let mut all = lock();
    loop {
        let blocks = all.get_or_insert_default();
        blocks.now += 1;
        let now = blocks.now;
        match blocks.blocks.get_mut(&key) {
            Some(BlockState::Here { bytes, used }) => {
                *used = now;
                let bytes = Arc::clone(bytes);
                send_for_next(blocks, object, block);
                return Ok(bytes);
            }
            Some(BlockState::Coming) => {
                all = ARRIVED.wait(all).unwrap_or_else(PoisonError::into_inner);
            }
            None => break,
        }
    }
    let blocks = all.get_or_insert_default();
    blocks.blocks.insert(key, BlockState::Coming);
    send_for_next(blocks, object, block);
    drop(all);
    let fetched = object.fetched(range(object, block));
    arrive(key, fetched)
}

/// Starts to fetch the block after this one, if the blocks are read in sequence.
fn send_for_next(blocks: &mut Blocks, object: &Object, block: u64) {
    let here = |block: u64| blocks.blocks.contains_key(&(object.number(), block));
    let is_sequence = block.checked_sub(1).is_some_and(here);
    let next = block + 1;
    if !is_sequence || here(next) || range(object, next).is_empty() {
        return;
    }
    let Ok(runtime) = runtime() else { return };
    let key = (object.number(), next);
    blocks.blocks.insert(key, BlockState::Coming);
    let object = object.clone();
    let coming = PendingFetch(key);
    let _task = runtime.spawn(async move {
        let fetched = object.fetch(range(&object, next)).await;
        // The error is dropped: a thread that asks for the block fetches it again and gets the error of
        // that attempt.
        let _ = arrive(coming.0, fetched);
        drop(coming);
    });
}

/// A block that is being fetched. If the task ends without a result, threads stop waiting for the block.
struct PendingFetch(Key);

impl Drop for PendingFetch {
    fn drop(&mut self) {
        let is_left = with(|all| matches!(all.blocks.get(&self.0), Some(BlockState::Coming)));
        if is_left {
            let _ = arrive(
                self.0,
                Err::<_, FetchError>(FetchError::other("the request was cancelled")),
            );
        }
    }
}

fn arrive<E>(key: Key, fetched: Result<Vec<u8>, E>) -> Result<Arc<Vec<u8>>, E> {
    let fetched = fetched.map(Arc::new);
    with(|all| {
        all.blocks.remove(&key);
        if let Ok(bytes) = &fetched {
            all.make_room(bytes.len());
            all.held += bytes.len();
            let block = BlockState::Here { bytes: Arc::clone(bytes), used: all.now };
            all.blocks.insert(key, block);
        }
    });
    ARRIVED.notify_all();
    fetched
}

impl Blocks {
    fn make_room(&mut self, len: usize) {
        while self.held + len > ROOM {
            let used = |(key, block): (&Key, &BlockState)| match block {
                BlockState::Here { used, .. } => Some((*used, *key)),
                BlockState::Coming => None,
            };
            let Some((_, oldest)) = self.blocks.iter().filter_map(used).min() else { return };
            if let Some(BlockState::Here { bytes, .. }) = self.blocks.remove(&oldest) {
                self.held -= bytes.len();
            }
        }
    }
}

fn range(object: &Object, block: u64) -> Range<u64> {
    let start = block.saturating_mul(BLOCK).min(object.size());
    start..start.saturating_add(BLOCK).min(object.size())
}

fn lock() -> MutexGuard<'static, Option<Blocks>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(f: impl FnOnce(&mut Blocks) -> T) -> T {
    f(lock().get_or_insert_default())
}
