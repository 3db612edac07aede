//! The table of cached samples, and the bytes that all of them may take.
//!
//! ```text
//! nothing ──claim(bytes)──▶ pending ──store──▶ cached
//!    ▲                         │
//!    └─────────abandon─────────┘
//! ```
//!
//! If several workers come to a sample at the same time, one claims it; the others proceed as without a
//! cache. A claim reserves its bytes in advance, so the sum stays within the budget at all times.
//!
//! The table is split by sample number, so that workers at different samples seldom wait for each other.
//! A lock is held for a lookup or an insertion, never while anything is read, decoded or run.

use super::CacheStats;
use super::cached_field::CachedField;
use crate::sample::SampleId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The number of shards of the table.
const SHARDS: usize = 64;

/// The maximum number of bytes of a table entry. The hash maps take `size_of::<(u64, EntryState)>() + 1`
/// for each of their buckets. Right after a map has grown it is at least 7/32 full (it grows when 7/8
/// are full or were, with half of these in use), and during the growth the smaller map exists too: 1.5 *
/// 32 / 7 buckets per sample.
const TABLE_ENTRY: u64 = 128;

/// The two reference counts of an `Arc`, stored before the fields.
const COUNTS: u64 = 16;

/// The allocator's overhead per allocation.
const HEADER: u64 = 16;

/// An allocation of at least this size may get memory pages of its own.
const LARGE: u64 = 64 << 10;

const PAGE: u64 = 4096;

/// Returns the memory that an allocation of `bytes` takes.
pub(super) const fn allocated(bytes: u64) -> u64 {
    let unit = if bytes < LARGE { HEADER } else { PAGE };
    bytes.saturating_add(HEADER + unit - 1) / unit * unit
}

/// The memory of a sample without its values.
pub(super) const SAMPLE: u64 = TABLE_ENTRY + allocated(COUNTS);

/// The memory of a value in addition to its bytes.
pub(super) const VALUE: u64 = (size_of::<CachedField>() as u64).next_multiple_of(HEADER);

/// The entry of a sample: `None` while it is being stored.
type EntryState = Option<Arc<[CachedField]>>;

/// The result of looking up a sample.
pub(super) enum SampleState {
    Nothing,
    Pending,
    Kept(Arc<[CachedField]>),
}

/// See the top of the module.
pub(super) struct SampleTable {
    shards: Box<[TableShard]>,
    budget: u64,
    used: AtomicU64,
    stored: AtomicU64,
    refused: AtomicU64,
}

/// One shard, on a cache line of its own. The counts share the line of the lock, which is written
/// anyway.
#[derive(Default)]
#[repr(align(128))]
struct TableShard {
    samples: RwLock<HashMap<u64, EntryState>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl TableShard {
    /// No code that can panic runs under the lock, so it can't be poisoned.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<u64, EntryState>> {
        self.samples.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<u64, EntryState>> {
        self.samples.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SampleTable {
    pub(super) fn new(budget: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| TableShard::default()).collect(),
            budget,
            used: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    fn shard(&self, sample: SampleId) -> &TableShard {
        &self.shards[(sample.0 % SHARDS as u64) as usize]
    }

    /// Looks up a sample and counts a hit or a miss.
    pub(super) fn find(&self, sample: SampleId) -> SampleState {
        let shard = self.shard(sample);
        let found = match shard.read().get(&sample.0) {
            Some(Some(fields)) => SampleState::Kept(Arc::clone(fields)),
            Some(None) => SampleState::Pending,
            None => SampleState::Nothing,
        };
        let count = if matches!(found, SampleState::Kept(_)) { &shard.hits } else { &shard.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Counts a row whose sample was not looked up.
    pub(super) fn pass(&self, sample: SampleId) {
        self.shard(sample).misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Claims a sample and reserves `bytes`. Returns false if there is no room, or another worker has
    /// claimed it.
    pub(super) fn claim(&self, sample: SampleId, bytes: u64) -> bool {
        if !self.reserve(bytes) {
            return false;
        }
        let mut samples = self.shard(sample).write();
        if samples.contains_key(&sample.0) {
            self.release(bytes);
            return false;
        }
        samples.insert(sample.0, None);
        true
    }

    /// Reserves more bytes. Returns false if there is no room.
    pub(super) fn reserve(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|&used| used <= self.budget);
        let reserved = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if !reserved {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        reserved
    }

    fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Stores a claimed sample.
    pub(super) fn store(&self, sample: SampleId, fields: Arc<[CachedField]>) {
        self.shard(sample).write().insert(sample.0, Some(fields));
        self.stored.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a claim and releases its `bytes`.
    pub(super) fn abandon(&self, sample: SampleId, bytes: u64) {
        self.shard(sample).write().remove(&sample.0);
        self.release(bytes);
    }

    pub(super) fn stats(&self) -> CacheStats {
        let sum = |count: fn(&TableShard) -> &AtomicU64| {
            self.shards.iter().map(|shard| count(shard).load(Ordering::Relaxed)).sum()
        };
        CacheStats {
            hits: sum(|shard| &shard.hits),
            misses: sum(|shard| &shard.misses),
            stored: self.stored.load(Ordering::Relaxed),
            bytes: self.used.load(Ordering::Relaxed),
            budget: self.budget,
            refused: self.refused.load(Ordering::Relaxed),
            ..CacheStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    const A: SampleId = SampleId(7);

    fn nothing() -> Arc<[CachedField]> {
        Arc::new([])
    }

    #[test]
    fn a_sample_is_claimed_once_and_kept_for_good() {
        let table = SampleTable::new(100);
        assert!(matches!(table.find(A), SampleState::Nothing));
        assert!(table.claim(A, 60) && !table.claim(A, 10));
        assert!(matches!(table.find(A), SampleState::Pending));
        table.store(A, nothing());
        assert!(matches!(table.find(A), SampleState::Kept(_)) && !table.claim(A, 10));
        let stats = table.stats();
        assert_eq!((stats.hits, stats.misses, stats.stored, stats.bytes), (1, 2, 1, 60));
        assert_eq!(stats.refused, 0);
    }

    #[test]
    fn an_abandoned_claim_leaves_nothing() {
        let table = SampleTable::new(100);
        assert!(table.claim(A, 60) && table.reserve(40));
        table.abandon(A, 100);
        assert!(matches!(table.find(A), SampleState::Nothing));
        assert_eq!(table.stats().bytes, 0);
    }

    #[test]
    fn bytes_over_the_budget_are_refused() {
        let table = SampleTable::new(100);
        assert!(!table.claim(A, 101) && !table.claim(A, u64::MAX));
        assert!(table.claim(A, 100) && !table.reserve(1) && table.reserve(0));
        assert_eq!((table.stats().refused, table.stats().bytes), (3, 100));
    }

    #[test]
    fn of_workers_that_come_at_once_one_makes_the_sample() {
        let (table, claimed) = (SampleTable::new(u64::MAX), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for sample in (0..1000).map(SampleId) {
                        if matches!(table.find(sample), SampleState::Nothing)
                            && table.claim(sample, 5)
                        {
                            claimed.fetch_add(1, Ordering::Relaxed);
                            table.store(sample, nothing());
                        }
                    }
                });
            }
        });
        assert_eq!(claimed.into_inner(), 1000);
        let stats = table.stats();
        assert_eq!((stats.stored, stats.bytes, stats.hits + stats.misses), (1000, 5000, 8000));
    }

    /// Checks `TABLE_ENTRY` for every count: a map has 8/7 as many buckets as its capacity, at least 4.
    #[test]
    fn a_place_in_the_table_takes_no_more_than_is_reckoned() {
        let mut map: HashMap<u64, EntryState> = HashMap::new();
        let bytes = |capacity: usize| {
            let buckets = (capacity * 8 / 7).next_power_of_two().max(4);
            (buckets * (size_of::<(u64, EntryState)>() + 1) + 16) as u64
        };
        for count in 1..=50_000u64 {
            let before = bytes(map.capacity());
            map.insert(count, None);
            let now = bytes(map.capacity());
            let most = if now > before && before > 0 { now + before } else { now };
            // An empty map takes nothing, though the formula yields 4 buckets.
            let most = if count == 1 { now } else { most };
            assert!(most <= count * TABLE_ENTRY, "{count} samples take {most} bytes");
        }
    }

    #[test]
    fn an_allocator_takes_a_header_and_whole_units() {
        assert_eq!([allocated(0), allocated(1), allocated(16)], [16, 32, 32]);
        assert_eq!([allocated(LARGE), allocated(u64::MAX)], [LARGE + PAGE, u64::MAX / PAGE * PAGE]);
    }
}
