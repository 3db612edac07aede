//! The counts of the cache.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counts of what a [`PagedBeton`](super::PagedBeton) has read, in all its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStats {
    /// The bytes read from the file, for pages and for values that were read directly.
    pub bytes_read: u64,
    /// The bytes of the values that were asked for.
    pub bytes_needed: u64,
    /// The number of pages read, whole or in part.
    pub pages_read: u64,
    /// The number of pages that had been read before in the same run.
    pub pages_read_again: u64,
    /// The number of values that were in no page in memory.
    pub values_read_directly: u64,
    /// The bytes of memory for pages, now.
    pub held_bytes: u64,
    /// The most bytes of memory for pages so far.
    pub peak_held_bytes: u64,
    /// The time that threads waited for pages, added up.
    pub waited: Duration,
}

/// The counters behind [`PageStats`].
#[derive(Default)]
pub(super) struct Counters {
    bytes_read: AtomicU64,
    bytes_needed: AtomicU64,
    pages_read: AtomicU64,
    pages_read_again: AtomicU64,
    values_read_directly: AtomicU64,
    held: AtomicU64,
    peak: AtomicU64,
    waited_ns: AtomicU64,
}

impl Counters {
    pub(super) fn needed(&self, bytes: u64) {
        self.bytes_needed.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn read_directly(&self, bytes: u64) {
        self.values_read_directly.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn page(&self, bytes: u64, again: bool) {
        self.pages_read.fetch_add(1, Ordering::Relaxed);
        self.pages_read_again.fetch_add(again.into(), Ordering::Relaxed);
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn take(&self, bytes: u64) {
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(held, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn waited(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.waited_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> PageStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PageStats {
            bytes_read: of(&self.bytes_read),
            bytes_needed: of(&self.bytes_needed),
            pages_read: of(&self.pages_read),
            pages_read_again: of(&self.pages_read_again),
            values_read_directly: of(&self.values_read_directly),
            held_bytes: of(&self.held),
            peak_held_bytes: of(&self.peak),
            waited: Duration::from_nanos(of(&self.waited_ns)),
        }
    }
}
