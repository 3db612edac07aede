//! The engine: threads that fill the rows of batches, and the ring that delivers them, in order or
//! as they are finished.
//!
//! What fills a row is a [`Stage`]; which samples make an epoch is a [`Schedule`]. The engine
//! knows neither pixels nor files.
//!
//! ```text
//!            delivered             opened                 limit
//!  batch 0 1 2 | 3      4      5   | 6  7  8  9 ...       |
//!        (user)| ready  filling .. | not begun            |
//!              +------+------+-----+
//!              | done | ##.. | #...|   # chunk claimed by a worker, . free chunk
//!              +------+------+-----+
//!              \_ at most `ahead` _/
//! ```
//!
//! What holds whenever the lock is free:
//!
//! 1. Batches are opened in order, from the pass's first on, and numbered from the start of the
//!    epoch. At most `ahead` of them are opened and not yet delivered. Memory is bounded by it:
//!    `ahead` slots, plus one for each batch the user holds, plus a few kept for reuse; and by the
//!    cap on slots or bytes, where there is one.
//! 2. Workers take chunks of the oldest batch that has some left; with none left they open the
//!    next batch; with no room they sleep. So a batch ends soon after it is begun, and a slow
//!    sample holds up its own batch only as long as the others find room ahead. Workers that look
//!    at one time open a batch each; all but the oldest are left again after a chunk, and listed
//!    until somebody comes back.
//! 3. A batch being filled is an `Arc<Job>` that the ring and its workers share. Chunks are
//!    claimed by one atomic addition, without the lock. Whoever drops the last `Arc` owns
//!    the slot again, and with it the right to finish the batch: exactly one does. If all rows are
//!    there it has the stage finish them as a whole, without the lock, while others fill the next.
//! 4. Every batch opened is finished once, as a batch or as an error. `under_way` counts those
//!    that are not yet, and a run is taken out of the ring when it is closed and this is 0.
//! 5. An error at batch `b` sets `limit` to `b + 1` and drops what is finished beyond: those before
//!    it are still delivered, then the error, then nothing. Chunks are claimed in order and those
//!    already claimed are finished, so of several bad samples in a batch always the first is
//!    reported. Out of order, batches after `b` may have been delivered before the error was made.
//!    A row for which there is no sample is the end: as an error, but the rows before it are
//!    delivered as a batch, short or, with [`LastBatch::Drop`], not at all, and then nothing.
//! 6. A row the stage refuses is dealt with on the spot, by the thread that has it: it is left out,
//!    or filled with another visit, or the batch fails. Rows left out are closed up when all are
//!    filled, before the batch is finished as a whole. A batch without rows is delivered as nothing:
//!    the consumer passes over it.
//! 7. Each worker is in one [`Phase`] at any time, so its phases add up to its life.
//! 8. Nothing of the user's (stage, schedule, drop of a batch) runs under the lock.
//!
//! The lock is taken a few times a batch and worker, never for a sample. All that threads meet at
//! comes from `crate::sync`, so that `tests/interleavings` can run these files in thousands of orders.
//!
//! Which thread fills which row is left to chance, so a stage may depend on the epoch and
//! the visit only, and to finish a batch on its rows and its number; then batches have the same
//! bytes for any number of workers and any chunk.

mod engine;
mod epoch;
mod error;
mod headroom;
mod job;
mod meter;
mod repair;
mod ring;
mod shared;
mod spans;
mod stage;
mod trace;
mod worker;

pub use self::engine::{Engine, EngineOptions};
pub use self::epoch::{Delivery, EpochRun, LastBatch, Pass};
pub use self::error::RunError;
pub use self::headroom::{Doing, Headroom, Phase, Times};
pub use self::meter::Watch;
pub use self::repair::MOST_ATTEMPTS;
pub use self::stage::{Damaged, FillError, Schedule, Stage};
pub use self::trace::{Event, Trace};
