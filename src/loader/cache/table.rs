//! Which samples are kept, and the bytes that all of them may take.
//!
//! ```text
//! nothing ──claim(bytes)──▶ in the making ──store──▶ kept
//!    ▲                            │
//!    └──────────abandon───────────┘
//! ```
//!
//! Of several workers that come to a sample at once, one claims it; to the others it is as if there
//! were no cache. A claim has the bytes reserved before it takes them, so their sum stays within
//! the budget at every moment.
//!
//! The table is split by sample number: workers at different samples seldom meet. A lock is held
//! for a look-up or an insertion, never while anything is read, decoded or run.

use super::CacheStats;
use super::part::Part;
use crate::sample::SampleId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Parts of the table.
const SHARDS: usize = 64;

/// What the table takes for a sample, at most. Its hash maps take `size_of::<(u64, Slot)>() + 1`
/// for each of their places. Right after one has grown it is filled to 7/32 at least (it grows
/// when 7/8 are full or were, half of that in use), and until then the smaller one was there too:
/// 1.5 * 32 / 7 places a sample.
const PLACE: u64 = 128;

/// Two counts of references, before the parts.
const COUNTS: u64 = 16;

/// What an allocator writes down for each piece.
const HEADER: u64 = 16;

/// From here on an allocator may give a piece pages of its own.
const LARGE: u64 = 64 << 10;

const PAGE: u64 = 4096;

/// What an allocator takes for so many bytes.
pub(super) const fn allocated(bytes: u64) -> u64 {
    let unit = if bytes < LARGE { HEADER } else { PAGE };
    bytes.saturating_add(HEADER + unit - 1) / unit * unit
}

/// What a sample takes before it has a value.
pub(super) const SAMPLE: u64 = PLACE + allocated(COUNTS);

/// What a value takes besides its bytes.
pub(super) const VALUE: u64 = (size_of::<Part>() as u64).next_multiple_of(HEADER);

/// A sample that is in the making, or kept.
type Slot = Option<Arc<[Part]>>;

/// What is known of a sample.
pub(super) enum Found {
    Nothing,
    InTheMaking,
    Kept(Arc<[Part]>),
}

/// See the module's top.
pub(super) struct Table {
    shards: Box<[Shard]>,
    budget: u64,
    used: AtomicU64,
    stored: AtomicU64,
    refused: AtomicU64,
}

/// On a cache line of its own: the counts beside the lock cost nothing, as it is written anyway.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    samples: RwLock<HashMap<u64, Slot>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Shard {
    /// No code that can panic runs under the lock.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<u64, Slot>> {
        self.samples.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<u64, Slot>> {
        self.samples.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    pub(super) fn new(budget: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            budget,
            used: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    fn shard(&self, sample: SampleId) -> &Shard {
        &self.shards[(sample.0 % SHARDS as u64) as usize]
    }

    /// What is known of a sample.
    pub(super) fn find(&self, sample: SampleId) -> Found {
        let shard = self.shard(sample);
        let found = match shard.read().get(&sample.0) {
            Some(Some(parts)) => Found::Kept(Arc::clone(parts)),
            Some(None) => Found::InTheMaking,
            None => Found::Nothing,
        };
        let count = if matches!(found, Found::Kept(_)) { &shard.hits } else { &shard.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Counts a row whose sample was not looked for.
    pub(super) fn pass(&self, sample: SampleId) {
        self.shard(sample).misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes it on to make a sample, for so many bytes: false if there is no room, or somebody
    /// else has taken it on.
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

    /// Reserves more bytes: false if there is no room.
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

    /// Keeps a claimed sample.
    pub(super) fn store(&self, sample: SampleId, parts: Arc<[Part]>) {
        self.shard(sample).write().insert(sample.0, Some(parts));
        self.stored.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives a claim of so many bytes up.
    pub(super) fn abandon(&self, sample: SampleId, bytes: u64) {
        self.shard(sample).write().remove(&sample.0);
        self.release(bytes);
    }

    pub(super) fn stats(&self) -> CacheStats {
        let sum = |count: fn(&Shard) -> &AtomicU64| {
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

    fn nothing() -> Arc<[Part]> {
        Arc::new([])
    }

    #[test]
    fn a_sample_is_claimed_once_and_kept_for_good() {
        let table = Table::new(100);
        assert!(matches!(table.find(A), Found::Nothing));
        assert!(table.claim(A, 60) && !table.claim(A, 10));
        assert!(matches!(table.find(A), Found::InTheMaking));
        table.store(A, nothing());
        assert!(matches!(table.find(A), Found::Kept(_)) && !table.claim(A, 10));
        let stats = table.stats();
        assert_eq!((stats.hits, stats.misses, stats.stored, stats.bytes), (1, 2, 1, 60));
        assert_eq!(stats.refused, 0);
    }

    #[test]
    fn an_abandoned_claim_leaves_nothing() {
        let table = Table::new(100);
        assert!(table.claim(A, 60) && table.reserve(40));
        table.abandon(A, 100);
        assert!(matches!(table.find(A), Found::Nothing));
        assert_eq!(table.stats().bytes, 0);
    }

    #[test]
    fn bytes_over_the_budget_are_refused() {
        let table = Table::new(100);
        assert!(!table.claim(A, 101) && !table.claim(A, u64::MAX));
        assert!(table.claim(A, 100) && !table.reserve(1) && table.reserve(0));
        assert_eq!((table.stats().refused, table.stats().bytes), (3, 100));
    }

    #[test]
    fn of_workers_that_come_at_once_one_makes_the_sample() {
        let (table, claimed) = (Table::new(u64::MAX), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for sample in (0..1000).map(SampleId) {
                        if matches!(table.find(sample), Found::Nothing) && table.claim(sample, 5) {
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

    /// The reckoning of `PLACE`, at every count: a map's places are 8/7 of its capacity, and
    /// 4 at least.
    #[test]
    fn a_place_in_the_table_takes_no_more_than_is_reckoned() {
        let mut map: HashMap<u64, Slot> = HashMap::new();
        let bytes = |capacity: usize| {
            let places = (capacity * 8 / 7).next_power_of_two().max(4);
            (places * (size_of::<(u64, Slot)>() + 1) + 16) as u64
        };
        for count in 1..=50_000u64 {
            let before = bytes(map.capacity());
            map.insert(count, None);
            let now = bytes(map.capacity());
            let most = if now > before && before > 0 { now + before } else { now };
            // An empty map takes nothing, though the formula says 4 places.
            let most = if count == 1 { now } else { most };
            assert!(most <= count * PLACE, "{count} samples take {most} bytes");
        }
    }

    #[test]
    fn an_allocator_takes_a_header_and_whole_units() {
        assert_eq!([allocated(0), allocated(1), allocated(16)], [16, 32, 32]);
        assert_eq!([allocated(LARGE), allocated(u64::MAX)], [LARGE + PAGE, u64::MAX / PAGE * PAGE]);
    }
}
