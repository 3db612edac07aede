//! The decoded pages that were read last, within a number of bytes.
//!
//! Threads that want one page at once decode it once: the first decodes, the others wait for it.

use super::span::Span;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A page, or all pages of a column in a row group: the file, the row group, the field and the page.
pub(super) type Key = (u32, u32, u32, u32);

/// The pages in memory.
pub(super) struct Cache {
    pages: Mutex<Pages>,
    most_bytes: usize,
}

#[derive(Default)]
struct Pages {
    slots: HashMap<Key, Slot>,
    /// The pages by the time of their last use.
    by_use: BTreeMap<u64, Key>,
    /// The time of the last use of any page.
    now: u64,
    bytes: usize,
}

struct Slot {
    span: Arc<Mutex<Option<Arc<Span>>>>,
    used: u64,
    bytes: usize,
}

impl Cache {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { pages: Mutex::default(), most_bytes }
    }

    /// Returns a page: that in memory, or the one that `decode` returns.
    pub(super) fn get<E>(
        &self,
        key: Key,
        decode: impl FnOnce() -> Result<Span, E>,
    ) -> Result<Arc<Span>, E> {
        let slot = lock(&self.pages).touch(key);
        let mut span = lock(&slot);
        if let Some(span) = &*span {
            return Ok(Arc::clone(span));
        }
        let decoded = Arc::new(decode()?);
        *span = Some(Arc::clone(&decoded));
        drop(span);
        lock(&self.pages).filled(key, decoded.memory(), self.most_bytes);
        Ok(decoded)
    }
}

impl Pages {
    /// Returns the slot of a page, which becomes the one that was used last.
    fn touch(&mut self, key: Key) -> Arc<Mutex<Option<Arc<Span>>>> {
        self.now += 1;
        let now = self.now;
        let slot = self.slots.entry(key).or_insert_with(|| Slot {
            span: Arc::default(),
            used: now,
            bytes: 0,
        });
        self.by_use.remove(&slot.used);
        slot.used = now;
        self.by_use.insert(now, key);
        Arc::clone(&slot.span)
    }

    /// Notes the size of a page, and removes those whose last use is the longest ago while there are too many bytes.
    fn filled(&mut self, key: Key, bytes: usize, most: usize) {
        // Each slot needs memory itself, also one that stays empty after an error.
        let bytes = bytes + size_of::<Slot>() + 128;
        if let Some(slot) = self.slots.get_mut(&key) {
            self.bytes += bytes - slot.bytes;
            slot.bytes = bytes;
        }
        while self.bytes > most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            if let Some(slot) = self.slots.remove(&oldest) {
                self.bytes -= slot.bytes;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
