//! Values that were read or decoded last, within a number of bytes: the unpacked shards of MDS, the decoded pages of
//! Parquet.
//!
//! A thread that needs a value which another thread makes waits for it. The value that was used least recently is given
//! up first; who still reads it holds it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Values in memory, by their keys.
pub(super) struct LruCache<K, V> {
    /// The most bytes of the values, but for the last one, which may be larger alone.
    budget: u64,
    /// Returns the bytes of a value.
    size: fn(&V) -> u64,
    state: Mutex<State<K, V>>,
    changed: Condvar,
}

struct State<K, V> {
    slots: HashMap<K, Slot<V>>,
    /// The keys by the time of their last use.
    by_use: BTreeMap<u64, K>,
    /// The time of the last use of any value.
    now: u64,
    bytes: u64,
}

struct Slot<V> {
    content: Content<V>,
    used: u64,
}

enum Content<V> {
    /// A thread of this process makes the value. A forked child has no such thread.
    Loading(u32),
    Ready(Arc<V>),
}

impl<K: Copy + Eq + Hash, V> LruCache<K, V> {
    pub(super) fn new(budget: u64, size: fn(&V) -> u64) -> Self {
        let (slots, by_use) = (HashMap::new(), BTreeMap::new());
        let state = Mutex::new(State { slots, by_use, now: 0, bytes: 0 });
        Self { budget, size, state, changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the value of a key is in memory, or is made just now.
    #[cfg(feature = "parquet")]
    pub(super) fn has(&self, key: K) -> bool {
        self.state().slots.contains_key(&key)
    }

    /// Returns the value of a key: the one in memory, or the one that `make` returns.
    pub(super) fn get<E>(&self, key: K, make: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        let process = std::process::id();
        let mut state = self.state();
        loop {
            match state.touch(key) {
                Some(Content::Ready(value)) => return Ok(Arc::clone(value)),
                Some(Content::Loading(of)) if *of == process => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                _ => break,
            }
        }
        state.insert(key, Content::Loading(process));
        drop(state);
        let loading = Loading { cache: self, key };
        let value = Arc::new(make()?);
        let mut state = self.state();
        state.bytes += (self.size)(&value);
        state.insert(key, Content::Ready(Arc::clone(&value)));
        state.give_up(self.budget, self.size, key);
        drop(state);
        drop(loading);
        Ok(value)
    }
}

/// Ends the waiting of other threads, also where making a value fails or panics.
struct Loading<'a, K: Copy + Eq + Hash, V> {
    cache: &'a LruCache<K, V>,
    key: K,
}

impl<K: Copy + Eq + Hash, V> Drop for Loading<'_, K, V> {
    fn drop(&mut self) {
        let mut state = self.cache.state();
        if let Some(Slot { content: Content::Loading(_), .. }) = state.slots.get(&self.key) {
            state.remove(self.key);
        }
        drop(state);
        self.cache.changed.notify_all();
    }
}

impl<K: Copy + Eq + Hash, V> State<K, V> {
    /// Returns the content of a slot, which becomes the one that was used last.
    fn touch(&mut self, key: K) -> Option<&Content<V>> {
        let slot = self.slots.get_mut(&key)?;
        self.now += 1;
        self.by_use.remove(&slot.used);
        slot.used = self.now;
        self.by_use.insert(self.now, key);
        Some(&slot.content)
    }

    fn insert(&mut self, key: K, content: Content<V>) {
        self.remove(key);
        self.now += 1;
        self.by_use.insert(self.now, key);
        self.slots.insert(key, Slot { content, used: self.now });
    }

    fn remove(&mut self, key: K) -> Option<Content<V>> {
        let slot = self.slots.remove(&key)?;
        self.by_use.remove(&slot.used);
        Some(slot.content)
    }

    /// Drops values until the others fit into the budget, but never the value of the key `last`.
    fn give_up(&mut self, budget: u64, size: fn(&V) -> u64, last: K) {
        while self.bytes > budget {
            let is_ready = |key: &&K| {
                let slot = self.slots.get(*key);
                matches!(slot, Some(Slot { content: Content::Ready(_), .. })) && **key != last
            };
            let Some(oldest) = self.by_use.values().find(is_ready).copied() else { return };
            if let Some(Content::Ready(value)) = self.remove(oldest) {
                self.bytes -= size(&value);
            }
        }
    }
}

impl<K, V> fmt::Debug for LruCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a cache of {} bytes", self.budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(budget: u64) -> LruCache<usize, Vec<u8>> {
        LruCache::new(budget, |value| value.len() as u64)
    }

    #[test]
    fn the_value_that_was_used_least_recently_is_given_up() {
        let values = cache(20);
        let get = |key| {
            let mut is_new = false;
            let _ = values.get(key, || {
                is_new = true;
                Ok::<_, ()>(vec![0; 10])
            });
            is_new
        };
        assert_eq!([0, 1, 0, 2, 0, 1].map(get), [true, true, false, true, false, true]);
        let large = values.get(2, || Ok::<_, ()>(vec![0; 50])).unwrap();
        assert!(get(0) && large.len() == 50);
        assert!(values.get(1, || Err("no")).is_err() && get(1));
    }

    #[test]
    fn a_value_is_made_once_for_all_threads() {
        let (values, count) = (cache(100), std::sync::atomic::AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = || {
                        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok::<_, ()>(vec![0; 10])
                    };
                    assert_eq!(values.get(0, make).unwrap().len(), 10);
                });
            }
        });
        assert_eq!(count.into_inner(), 1);
    }
}
