//! Cache: the records of a whole pass, stored in memory or in a file for later passes.
//!
//! The first pass that runs from the stream's start to its end fills the cache. A pass that ended early,
//! began in the middle, or has more records than the limit allows stores nothing. Until the cache is
//! filled, every pass reads the stream itself, including a pass that runs beside the one that fills the
//! cache.
//!
//! The items must not depend on whether the cache is filled, or by which pass. A cached stream is
//! therefore always the pass of epoch 0 with seed 0: put `shuffle`, and everything else that is random,
//! after the cache. If an item can't be read, nothing is stored.

use super::cache_file::{ItemFile, Writer};
use super::{ENDLESS, Item, Items, Pass, Stream, Streamed, facts_of};
use crate::sample::Epoch;
use crate::source::{
    BoxError, Facts, FieldSpec, OwnedImage, OwnedValue, Record, check_destination,
};
use std::mem;
use std::path::PathBuf;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

impl Stream {
    /// Stores the records of the first whole pass in memory, if they take at most `max_bytes`; later
    /// passes then read nothing from the source. Random combinators belong after the cache: it always
    /// holds the stream's pass of epoch 0 with seed 0.
    #[must_use]
    pub fn cache_in_memory(self, max_bytes: u64) -> Self {
        Self::new(Cached::new(self, max_bytes, None))
    }

    /// Stores the records of the first whole pass in a file, if they take at most `max_bytes`, like
    /// tf.data's `cache(filename)`. The file appears when the pass is over, and other processes find and
    /// use it; a file of another stream is refused. 40 bytes per item stay in memory. Random combinators
    /// belong after the cache, as for [`cache_in_memory`](Self::cache_in_memory).
    #[must_use]
    pub fn cache_file(self, path: impl Into<PathBuf>, max_bytes: u64) -> Self {
        Self::new(Cached::new(self, max_bytes, Some(path.into())))
    }
}

struct Cached {
    facts: Facts,
    from: Stream,
    max_bytes: u64,
    /// The path of the file; `None` for a cache in memory.
    path: Option<PathBuf>,
    store: Arc<Store>,
}

#[derive(Default)]
struct Store {
    items: OnceLock<Arc<[Item]>>,
    /// True if a pass is filling the cache, or the cache can't be filled.
    is_taken: AtomicBool,
}

impl Streamed for Cached {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, _: &Pass) -> Result<Box<dyn Items>, BoxError> {
        if self.store.items.get().is_none()
            && let Some(items) = self.saved()?
        {
            // Another pass may have been first; its items are the same.
            let _ = self.store.items.set(items);
        }
        if let Some(items) = self.store.items.get() {
            return Ok(Box::new(CachedPass { items: Arc::clone(items), next: 0 }));
        }
        let items = self.from.open(&Pass { seed: 0, epoch: Epoch(0), turn: 0 })?;
        let share = self.begin();
        let left = self.known_len().filter(|&len| len != ENDLESS);
        Ok(Box::new(CachingPass { items, share, left }))
    }

    fn known_len(&self) -> Option<u64> {
        self.from.known_len()
    }
}

impl Cached {
    fn new(from: Stream, max_bytes: u64, path: Option<PathBuf>) -> Self {
        let facts = facts_of("cache", &[], slice::from_ref(&from));
        Self { facts, from, max_bytes, path, store: Arc::default() }
    }

    /// Opens the file that an earlier pass or process left.
    fn saved(&self) -> Result<Option<Arc<[Item]>>, BoxError> {
        let Some(path) = &self.path else { return Ok(None) };
        check_destination(path)?;
        ItemFile::items(path, self.from.fields(), self.from.facts().fingerprint)
    }

    /// Returns the right to fill the cache; `None` if another pass has it, or the cache can't be filled.
    fn begin(&self) -> Option<Fill> {
        if self.store.is_taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (store, max_bytes) = (Arc::clone(&self.store), self.max_bytes);
        let mut fill = Fill {
            store,
            room: ItemStore::Memory(vec![]),
            bytes: 0,
            max_bytes,
            is_hopeless: false,
        };
        if let Some(path) = &self.path {
            // If the folder is not writable, the pass runs without a cache.
            let writer = Writer::begin(path, self.from.facts().fingerprint);
            fill.is_hopeless = writer.is_err();
            let (path, fields) = (path.clone(), self.from.fields().to_vec());
            fill.room = ItemStore::File { writer: writer.ok()?, path, fields };
        }
        Some(fill)
    }
}

/// A pass over the cache.
struct CachedPass {
    items: Arc<[Item]>,
    next: usize,
}

impl Items for CachedPass {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let item = self.items.get(self.next).cloned();
        self.next += usize::from(item.is_some());
        Ok(item)
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        let left = self.items.len() - self.next;
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(left);
        self.next += count;
        Ok(count as u64)
    }
}

/// A pass over the stream that stores its items if it can.
struct CachingPass {
    items: Box<dyn Items>,
    share: Option<Fill>,
    /// The number of items that are still to come, if it is known: a loader does not ask for the end then.
    left: Option<u64>,
}

/// The right to fill a cache, and the items stored so far.
struct Fill {
    store: Arc<Store>,
    room: ItemStore,
    bytes: u64,
    max_bytes: u64,
    /// True if an item can't be stored: a later pass would fail in the same way.
    is_hopeless: bool,
}

/// Where items are stored during a pass.
enum ItemStore {
    Memory(Vec<Item>),
    File { writer: Writer, path: PathBuf, fields: Vec<FieldSpec> },
}

impl Fill {
    /// Stores an item; returns `None` instead of `self` if the item can't be stored.
    fn keep(mut self, item: Item) -> (Option<Self>, Item) {
        let Ok(held) = item.held() else {
            self.is_hopeless = true;
            return (None, item);
        };
        self.is_hopeless = match &mut self.room {
            ItemStore::Memory(items) => {
                self.bytes = self.bytes.saturating_add(held.record().map_or(0, bytes));
                items.push(held.clone());
                self.bytes > self.max_bytes
            }
            ItemStore::File { writer, .. } => {
                writer.add(&held).is_err() || writer.bytes() > self.max_bytes
            }
        };
        (Some(self).filter(|fill| !fill.is_hopeless), held)
    }

    fn end(mut self) {
        let items = match mem::replace(&mut self.room, ItemStore::Memory(vec![])) {
            ItemStore::Memory(items) => Some(items.into()),
            ItemStore::File { writer, path, fields } => {
                let written = writer.finish(&path, &fields);
                self.is_hopeless = written.is_err();
                written.ok()
            }
        };
        if let Some(items) = items {
            // Only the pass that has the right to fill the cache comes here.
            let _ = self.store.items.set(items);
        }
    }
}

/// Lets another pass try, if it can succeed.
impl Drop for Fill {
    fn drop(&mut self) {
        self.store.is_taken.store(self.is_hopeless, Ordering::Release);
    }
}

impl Items for CachingPass {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let share = self.share.take();
        let Some(item) = self.items.next()? else {
            share.into_iter().for_each(Fill::end);
            return Ok(None);
        };
        let Some(share) = share else { return Ok(Some(item)) };
        let (share, item) = share.keep(item);
        self.left = self.left.map(|left| left.saturating_sub(1));
        if self.left == Some(0) {
            share.into_iter().for_each(Fill::end);
        } else {
            self.share = share;
        }
        Ok(Some(item))
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        if count > 0 {
            self.share = None;
        }
        self.items.skip(count)
    }
}

/// The size of a record in memory, in bytes.
fn bytes(record: &Record) -> u64 {
    let of = |value: &OwnedValue| match value {
        OwnedValue::Image(OwnedImage { bytes, .. })
        | OwnedValue::Bytes(bytes)
        | OwnedValue::NdArray(bytes)
        | OwnedValue::Json(bytes)
        | OwnedValue::Custom(bytes) => bytes.len(),
        OwnedValue::Int(_) | OwnedValue::Float(_) => 0,
    };
    record.iter().map(|value| (of(value) + size_of::<OwnedValue>()) as u64).sum()
}
