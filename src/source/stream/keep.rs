//! Cache: the records of a whole pass, kept in memory or in a file for those after it.
//!
//! The first pass that goes through from its beginning to its end fills it; one that was left early,
//! began in the midst, or whose records are more than may be kept, leaves nothing. While it is not
//! filled, every pass comes from the stream itself, and a second pass beside the one that fills it
//! too.
//!
//! What it gives must not depend on whether it is filled, nor by whom, so it is always the stream's
//! pass in epoch 0 of seed 0: put `shuffle`, and all else that is to be random, after it. Items that
//! can't be read are not kept; then nothing is.

use super::kept_file::{KeptFile, Writer};
use super::{Item, Items, Pass, Stream, Streamed, print};
use crate::sample::Epoch;
use crate::source::{BoxError, FieldSpec, OwnedImage, OwnedValue, Record};
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

impl Stream {
    /// Keeps the records of the first whole pass in memory, if they are no more than so many bytes;
    /// later passes read nothing. It must stand before what is random: what it gives is the
    /// stream's pass in epoch 0 of seed 0, in every epoch.
    #[must_use]
    pub fn cache_in_memory(self, max_bytes: u64) -> Self {
        Self::new(Cached { from: [self], max_bytes, path: None, store: Arc::default() })
    }

    /// Keeps the records of the first whole pass in a file, if they are no more than so many bytes, as
    /// tf.data's `cache(filename)` does. The file appears when the pass is over, and is found again by
    /// other processes: that of another stream is refused. 40 bytes an item stay in memory. It must
    /// stand before what is random, as [`cache_in_memory`](Self::cache_in_memory).
    #[must_use]
    pub fn cache_file(self, path: impl Into<PathBuf>, max_bytes: u64) -> Self {
        let path = Some(path.into());
        Self::new(Cached { from: [self], max_bytes, path, store: Arc::default() })
    }
}

struct Cached {
    from: [Stream; 1],
    max_bytes: u64,
    /// In memory, if none.
    path: Option<PathBuf>,
    store: Arc<Store>,
}

#[derive(Default)]
struct Store {
    items: OnceLock<Arc<[Item]>>,
    /// A pass is at it, or it can't be filled.
    is_taken: AtomicBool,
}

impl Streamed for Cached {
    fn fields(&self) -> &[FieldSpec] {
        self.from[0].fields()
    }

    fn parts(&self) -> &[Stream] {
        &self.from
    }

    fn open(&self, _: &Pass) -> Result<Box<dyn Items>, BoxError> {
        if self.store.items.get().is_none()
            && let Some(items) = self.saved()?
        {
            // Another pass may have come first, with the same.
            let _ = self.store.items.set(items);
        }
        if let Some(items) = self.store.items.get() {
            return Ok(Box::new(Kept { items: Arc::clone(items), next: 0 }));
        }
        let items = self.from[0].open(&Pass { seed: 0, epoch: Epoch(0), turn: 0 })?;
        let share = self.begin();
        Ok(Box::new(Filling { items, share }))
    }

    fn known_len(&self) -> Option<u64> {
        self.from[0].known_len()
    }

    fn fingerprint(&self) -> u64 {
        print("cache", &[], &self.from)
    }
}

impl Cached {
    /// What an earlier pass, or process, has left in the file.
    fn saved(&self) -> Result<Option<Arc<[Item]>>, BoxError> {
        let Some(path) = &self.path else { return Ok(None) };
        KeptFile::items(path, self.from[0].fields(), self.from[0].fingerprint())
    }

    /// The right to fill the store; `None` if another pass is at it, or none can.
    fn begin(&self) -> Option<Fill> {
        if self.store.is_taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (store, max_bytes) = (Arc::clone(&self.store), self.max_bytes);
        let mut fill =
            Fill { store, room: Room::Memory(vec![]), bytes: 0, max_bytes, is_hopeless: false };
        if let Some(path) = &self.path {
            // A folder that can't be written to costs the cache, not the pass.
            let writer = Writer::begin(path, self.from[0].fingerprint());
            fill.is_hopeless = writer.is_err();
            let (path, fields) = (path.clone(), self.from[0].fields().to_vec());
            fill.room = Room::File { writer: writer.ok()?, path, fields };
        }
        Some(fill)
    }
}

/// A pass over what is kept.
struct Kept {
    items: Arc<[Item]>,
    next: usize,
}

impl Items for Kept {
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

/// A pass over the stream, that keeps what it gives if it can.
struct Filling {
    items: Box<dyn Items>,
    share: Option<Fill>,
}

/// The right to fill a store, and what was kept so far.
struct Fill {
    store: Arc<Store>,
    room: Room,
    bytes: u64,
    max_bytes: u64,
    /// What was met can't be kept, and would be met again.
    is_hopeless: bool,
}

/// Where items are kept while a pass goes on.
enum Room {
    Memory(Vec<Item>),
    File { writer: Writer, path: PathBuf, fields: Vec<FieldSpec> },
}

impl Fill {
    /// Keeps an item; `None` if it can't be.
    fn keep(mut self, item: Item) -> (Option<Self>, Item) {
        let Ok(held) = item.held() else {
            self.is_hopeless = true;
            return (None, item);
        };
        self.is_hopeless = match &mut self.room {
            Room::Memory(items) => {
                self.bytes = self.bytes.saturating_add(held.record().map_or(0, bytes));
                items.push(held.clone());
                self.bytes > self.max_bytes
            }
            Room::File { writer, .. } => {
                writer.add(&held).is_err() || writer.bytes() > self.max_bytes
            }
        };
        (Some(self).filter(|fill| !fill.is_hopeless), held)
    }

    fn end(mut self) {
        let items = match mem::replace(&mut self.room, Room::Memory(vec![])) {
            Room::Memory(items) => Some(items.into()),
            Room::File { writer, path, fields } => {
                let written = writer.finish(&path, &fields);
                self.is_hopeless = written.is_err();
                written.ok()
            }
        };
        if let Some(items) = items {
            // Only who has the right to fill it comes here.
            let _ = self.store.items.set(items);
        }
    }
}

/// Another pass may try, if that is of use.
impl Drop for Fill {
    fn drop(&mut self) {
        self.store.is_taken.store(self.is_hopeless, Ordering::Release);
    }
}

impl Items for Filling {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let share = self.share.take();
        let Some(item) = self.items.next()? else {
            share.into_iter().for_each(Fill::end);
            return Ok(None);
        };
        let Some(share) = share else { return Ok(Some(item)) };
        let (share, item) = share.keep(item);
        self.share = share;
        Ok(Some(item))
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        if count > 0 {
            self.share = None;
        }
        self.items.skip(count)
    }
}

/// What a record takes in memory.
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
