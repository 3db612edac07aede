//! The pool of slots of one shape: hands out, takes back, and never waits.
//!
//! ```text
//!             take            redeem                 Batch dropped
//!   free ---> Lease::Free ----------\              /---------------> free (at most `keep`)
//!   (none free, below the cap)       >--> Slot ---<
//!        ---> Lease::New --- allocate/             \---------------> memory returned
//! ```
//!
//! `live = free + handed out`, and never above the cap. So a user who holds many batches makes
//! the pool grow, up to the cap, and it shrinks to `keep` free slots when they are dropped.

use super::{BatchSpec, Slot, SlotError};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::threads::Process;

/// A right to one slot. Every lease must be [redeemed](Pool::redeem).
pub(crate) enum Lease {
    /// A slot used before.
    Free(Slot),
    /// One that is still to be allocated.
    New,
}

/// Slots of one shape. See the top of the file.
pub(crate) struct Pool {
    spec: Arc<BatchSpec>,
    cap: Option<usize>,
    keep: usize,
    state: Mutex<State>,
    /// The process whose threads use it.
    process: Process,
    /// Called when a slot comes back after somebody was refused one.
    returned: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    free: Vec<Slot>,
    live: usize,
    allocated: u64,
    refused: bool,
}

impl Pool {
    /// An empty pool: at most `cap` slots in all, at most `keep` of them kept while unused.
    pub(crate) fn new(
        spec: Arc<BatchSpec>,
        cap: Option<usize>,
        keep: usize,
        returned: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let process = Process::current();
        Self { spec, cap, keep, state: Mutex::default(), process, returned }
    }

    /// What its slots are made for.
    pub(crate) fn spec(&self) -> &Arc<BatchSpec> {
        &self.spec
    }

    /// A slot, or the right to allocate one; `None` at the cap, and then `returned` is called
    /// when one comes back.
    pub(crate) fn take(&self) -> Option<Lease> {
        let mut state = self.lock();
        if let Some(slot) = state.free.pop() {
            return Some(Lease::Free(slot));
        }
        if self.cap.is_some_and(|cap| state.live >= cap) {
            state.refused = true;
            return None;
        }
        state.live += 1;
        Some(Lease::New)
    }

    /// The slot of a lease, without samples. Allocates where none was free.
    ///
    /// # Errors
    ///
    /// If the system has no such memory. The lease is given up then.
    pub(crate) fn redeem(&self, lease: Lease) -> Result<Slot, SlotError> {
        let mut slot = match lease {
            Lease::Free(slot) => slot,
            Lease::New => self.allocate()?,
        };
        if let Some(companion) = slot.companion_mut() {
            companion.reclaim();
        }
        slot.visits_mut().clear();
        Ok(slot)
    }

    fn allocate(&self) -> Result<Slot, SlotError> {
        let slot = Slot::new(&self.spec);
        let mut state = self.lock();
        match slot {
            Ok(_) => state.allocated += 1,
            Err(_) => state.live -= 1,
        }
        slot
    }

    /// Takes a slot back. It may call `returned`: hold no lock that `returned` takes.
    ///
    /// In a forked process, where a thread that is not there may hold the lock, it is freed.
    pub(crate) fn give(&self, slot: Slot) {
        if self.process.is_forked() {
            return;
        }
        let mut state = self.lock();
        let refused = std::mem::take(&mut state.refused);
        let surplus = if state.free.len() < self.keep {
            state.free.push(slot);
            None
        } else {
            state.live -= 1;
            Some(slot)
        };
        drop(state);
        // Freed without the lock: it may be a large mapping.
        drop(surplus);
        if refused {
            (self.returned)();
        }
    }

    /// Whether `take` would be refused.
    pub(crate) fn is_exhausted(&self) -> bool {
        let state = self.lock();
        state.free.is_empty() && self.cap.is_some_and(|cap| state.live >= cap)
    }

    /// Most slots there may be.
    pub(crate) fn cap(&self) -> Option<usize> {
        self.cap
    }

    /// Slots that there are now, and slots allocated since the beginning.
    pub(crate) fn slots(&self) -> (usize, u64) {
        let state = self.lock();
        (state.live, state.allocated)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
