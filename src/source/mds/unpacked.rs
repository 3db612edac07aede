//! Compressed shards, unpacked into memory once and kept within a budget.
//!
//! A thread that needs a shard which another thread unpacks waits for it. The shard that was used least recently is
//! given up first; who still reads it holds it.

use super::index::{ListedFile, Packing};
use super::offsets::Offsets;
use crate::error::{AtPath as _, Error, fail};
use crate::source::shards::{Shard, ShardReader};
use crate::source::tar::ZstdReader;
use flate2::bufread::MultiGzDecoder;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A compressed shard.
pub(super) struct PackedShard {
    pub(super) packing: Packing,
    pub(super) raw: ListedFile,
    pub(super) samples: u64,
}

/// An unpacked shard.
pub(super) struct UnpackedShard {
    pub(super) bytes: Vec<u8>,
    pub(super) offsets: Offsets,
}

/// The shards that are unpacked.
pub(super) struct UnpackedShards {
    /// The most bytes that are kept.
    budget: u64,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    slots: Vec<Slot>,
    /// The number of times that a shard was asked for.
    uses: u64,
    bytes: u64,
}

enum Slot {
    Empty,
    /// A thread of this process unpacks the shard. A forked child has no such thread.
    Loading(u32),
    Ready {
        shard: Arc<UnpackedShard>,
        used: u64,
    },
}

impl UnpackedShards {
    pub(super) fn new(shards: usize, budget: u64) -> Self {
        let slots = std::iter::repeat_with(|| Slot::Empty).take(shards).collect();
        let state = Mutex::new(State { slots, uses: 0, bytes: 0 });
        Self { budget, state, changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a shard by its number, unpacked by `unpack` if it is not kept.
    pub(super) fn get(
        &self,
        number: usize,
        unpack: impl FnOnce() -> Result<UnpackedShard, Error>,
    ) -> Result<Arc<UnpackedShard>, Error> {
        let process = std::process::id();
        let mut state = self.state();
        loop {
            state.uses += 1;
            let now = state.uses;
            match &mut state.slots[number] {
                Slot::Ready { shard, used } => {
                    *used = now;
                    return Ok(Arc::clone(shard));
                }
                Slot::Loading(of) if *of == process => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                slot => {
                    *slot = Slot::Loading(process);
                    break;
                }
            }
        }
        drop(state);
        let loading = Loading { shards: self, number };
        let shard = Arc::new(unpack()?);
        let mut state = self.state();
        state.bytes += shard.bytes.len() as u64;
        let used = state.uses;
        state.slots[number] = Slot::Ready { shard: Arc::clone(&shard), used };
        state.give_up(self.budget, number);
        drop(state);
        drop(loading);
        Ok(shard)
    }
}

/// Ends the waiting of other threads, also where unpacking fails or panics.
struct Loading<'a> {
    shards: &'a UnpackedShards,
    number: usize,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let mut state = self.shards.state();
        if matches!(state.slots[self.number], Slot::Loading(_)) {
            state.slots[self.number] = Slot::Empty;
        }
        drop(state);
        self.shards.changed.notify_all();
    }
}

impl State {
    /// Gives up shards until the others fit into the budget; never the shard `last`.
    fn give_up(&mut self, budget: u64, last: usize) {
        while self.bytes > budget {
            let ready = self.slots.iter_mut().enumerate().filter_map(|(number, slot)| match slot {
                Slot::Ready { used, .. } if number != last => Some((*used, slot)),
                _ => None,
            });
            let Some((_, oldest)) = ready.min_by_key(|(used, _)| *used) else { return };
            if let Slot::Ready { shard, .. } = std::mem::replace(oldest, Slot::Empty) {
                self.bytes -= shard.bytes.len() as u64;
            }
        }
    }
}

impl PackedShard {
    /// Unpacks the shard of a file.
    ///
    /// # Errors
    ///
    /// Fails if the file is damaged, or unpacks to another number of bytes than the index lists.
    pub(super) fn unpack(&self, file: &Shard) -> Result<UnpackedShard, Error> {
        let (reader, listed) = (ShardReader::new(file.clone()), self.raw.bytes);
        let bytes = match self.packing {
            Packing::Zstd => read(ZstdReader::new(reader), listed),
            _ => read(MultiGzDecoder::new(reader), listed),
        };
        let bytes = bytes.at(&file.location)?;
        if bytes.len() as u64 != listed {
            let more = if bytes.len() as u64 > listed { "more than " } else { "" };
            let found = listed.min(bytes.len() as u64);
            return Err(fail!(
                Damaged,
                "it unpacks to {more}{found} bytes, and the index lists {listed}: copy the shard again"
            )
            .at(&file.location));
        }
        let offsets = Offsets::parse(&bytes, self.samples, listed).map_err(|error| {
            error.context(format_args!("the unpacked shard")).at(&file.location)
        })?;
        Ok(UnpackedShard { bytes, offsets })
    }
}

/// Reads all bytes, or one more than the index lists.
fn read(from: impl Read, listed: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    // A larger shard grows as it is unpacked: the index may lie.
    let room = usize::try_from(listed.min(64 << 20)).unwrap_or_default();
    bytes
        .try_reserve_exact(room + 1)
        .map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
    from.take(listed.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(bytes: usize) -> UnpackedShard {
        UnpackedShard { bytes: vec![0; bytes], offsets: Offsets::default() }
    }

    #[test]
    fn the_shard_that_was_used_least_recently_is_given_up() {
        let shards = UnpackedShards::new(3, 20);
        let get = |number| {
            let mut is_new = false;
            let _ = shards.get(number, || {
                is_new = true;
                Ok(shard(10))
            });
            is_new
        };
        assert_eq!([0, 1, 0, 2, 0, 1].map(get), [true, true, false, true, false, true]);
        let large = shards.get(2, || Ok(shard(50))).unwrap();
        assert!(get(0) && large.bytes.len() == 50);
        assert!(shards.get(1, || Err(fail!(Damaged, "no"))).is_err() && get(1));
    }

    #[test]
    fn a_shard_is_unpacked_once_for_all_threads() {
        let (shards, count) = (UnpackedShards::new(1, 100), std::sync::atomic::AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let unpack = || {
                        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok(shard(10))
                    };
                    assert_eq!(shards.get(0, unpack).unwrap().bytes.len(), 10);
                });
            }
        });
        assert_eq!(count.into_inner(), 1);
    }
}
