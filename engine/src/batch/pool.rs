//! The pool of slots of one shape. No method waits.
//!
//! ```text
//!             take            redeem                 Batch dropped
//!   free ---> Lease::Free ----------\              /---------------> free (at most `keep`)
//!   (none free, below the cap)       >--> Slot ---<
//!        ---> Lease::New --- allocate/             \---------------> memory returned
//! ```
//!
//! `live = free + handed out`, and `live` never exceeds the cap. A user who holds many batches makes the
//! pool grow up to the cap; the pool shrinks to `keep` free slots when the batches are dropped.

use super::{BatchSpec, Slot, SlotError};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::threads::Process;

/// A right to one slot. Every lease must be [redeemed](SlotPool::redeem).
pub enum Lease {
    /// A slot used before.
    Free(Slot),
    /// A slot that is still to be allocated.
    New,
}

/// A pool of slots of one shape. See the top of the file.
pub struct SlotPool {
    spec: Arc<BatchSpec>,
    cap: Option<usize>,
    keep: usize,
    state: Mutex<State>,
    /// The process whose threads use the pool.
    process: Process,
    /// Called when a slot is returned after a [`take`](Self::take) was refused.
    returned: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    free: Vec<Slot>,
    live: usize,
    allocated: u64,
    refused: bool,
}

impl SlotPool {
    /// Creates an empty pool of at most `cap` slots, which keeps at most `keep` unused ones.
    pub fn new(
        spec: Arc<BatchSpec>,
        cap: Option<usize>,
        keep: usize,
        returned: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let process = Process::current();
        Self { spec, cap, keep, state: Mutex::default(), process, returned }
    }

    /// Returns the layout of the slots.
    pub(crate) fn spec(&self) -> &Arc<BatchSpec> {
        &self.spec
    }

    /// Returns a slot, or the right to allocate one. Returns `None` at the cap; `returned` is then
    /// called when a slot is returned.
    pub fn take(&self) -> Option<Lease> {
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

    /// Returns the slot of a lease, without samples. Allocates the slot if none was free.
    ///
    /// # Errors
    ///
    /// If the memory can't be allocated. The lease is released then.
    pub fn redeem(&self, lease: Lease) -> Result<Slot, SlotError> {
        let mut slot = match lease {
            Lease::Free(slot) => slot,
            Lease::New => self.allocate()?,
        };
        if let Some(companion) = slot.extension_mut() {
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

    /// Takes a slot back. This may call `returned`: hold no lock that `returned` takes.
    ///
    /// In a forked process the slot is freed: the lock may be held by a thread of the parent process.
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
        // Freed outside the lock: the slot may be a large mapping.
        drop(surplus);
        if refused {
            (self.returned)();
        }
    }

    /// Returns true if `take` would be refused.
    pub(crate) fn is_exhausted(&self) -> bool {
        let state = self.lock();
        state.free.is_empty() && self.cap.is_some_and(|cap| state.live >= cap)
    }

    /// Returns the maximum number of slots.
    pub(crate) fn cap(&self) -> Option<usize> {
        self.cap
    }

    /// Returns the current number of slots, and the number of slots allocated since the beginning.
    pub(crate) fn slots(&self) -> (usize, u64) {
        let state = self.lock();
        (state.live, state.allocated)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
