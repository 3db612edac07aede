//! The decoded pages that were read last, within a number of bytes.
//!
//! Threads that want one page at once decode it once: the first decodes, the others wait for it.

use super::span::Span;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A page, or all pages of a column in a row group: the file, the row group, the field and the page.
pub(super) type Key = (u32, u32, u32, u32);

/// The pages in memory.
pub(super) struct Cache {
    pages: Mutex<Pages>,
    changed: Condvar,
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
    page: Page,
    used: u64,
}

enum Page {
    /// A thread of this process decodes the page. A forked child has no such thread.
    Loading(u32),
    Ready(Arc<Span>, usize),
}

impl Cache {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { pages: Mutex::default(), changed: Condvar::new(), most_bytes }
    }

    /// Returns a page: that in memory, or the one that `decode` returns.
    pub(super) fn get<E>(
        &self,
        key: Key,
        decode: impl FnOnce() -> Result<Span, E>,
    ) -> Result<Arc<Span>, E> {
        let process = std::process::id();
        let mut pages = lock(&self.pages);
        loop {
            match pages.touch(key) {
                Some(Page::Ready(span, _)) => return Ok(Arc::clone(span)),
                Some(Page::Loading(of)) if *of == process => {
                    pages = self.changed.wait(pages).unwrap_or_else(PoisonError::into_inner);
                }
                _ => break,
            }
        }
        pages.insert(key, Page::Loading(process));
        drop(pages);
        let loading = Loading { cache: self, key };
        let span = Arc::new(decode()?);
        let bytes = span.memory() + size_of::<Slot>() + 128;
        let mut pages = lock(&self.pages);
        pages.bytes += bytes;
        pages.insert(key, Page::Ready(Arc::clone(&span), bytes));
        pages.give_up(self.most_bytes, key);
        drop(pages);
        drop(loading);
        Ok(span)
    }
}

/// Ends the waiting of other threads, also where decoding fails or panics.
struct Loading<'a> {
    cache: &'a Cache,
    key: Key,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let mut pages = lock(&self.cache.pages);
        if let Some(Slot { page: Page::Loading(_), .. }) = pages.slots.get(&self.key) {
            pages.remove(self.key);
        }
        drop(pages);
        self.cache.changed.notify_all();
    }
}

impl Pages {
    /// Returns a page, which becomes the one that was used last.
    fn touch(&mut self, key: Key) -> Option<&Page> {
        let slot = self.slots.get_mut(&key)?;
        self.now += 1;
        self.by_use.remove(&slot.used);
        slot.used = self.now;
        self.by_use.insert(self.now, key);
        Some(&slot.page)
    }

    fn insert(&mut self, key: Key, page: Page) {
        self.remove(key);
        self.now += 1;
        self.by_use.insert(self.now, key);
        self.slots.insert(key, Slot { page, used: self.now });
    }

    fn remove(&mut self, key: Key) -> Option<Page> {
        let slot = self.slots.remove(&key)?;
        self.by_use.remove(&slot.used);
        Some(slot.page)
    }

    /// Gives up the pages whose last use is the longest ago, until the others fit into `most` bytes; never the page
    /// `last`.
    fn give_up(&mut self, most: usize, last: Key) {
        while self.bytes > most {
            let mut ready = self.by_use.values().filter(|key| {
                **key != last
                    && matches!(self.slots.get(*key), Some(Slot { page: Page::Ready(..), .. }))
            });
            let Some(oldest) = ready.next().copied() else { return };
            if let Some(Page::Ready(_, bytes)) = self.remove(oldest) {
                self.bytes -= bytes;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
