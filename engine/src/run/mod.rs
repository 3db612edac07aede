//! The engine: threads that fill the rows of batches, and the ring that delivers the batches, in order
//! or as they are finished.
//!
//! A [`Stage`] fills rows; a [`RunOrder`] determines the samples of an epoch. The
//! engine knows neither pixels nor files.
//!
//! ```text
//!            delivered             opened                 limit
//!  batch 0 1 2 | 3      4      5   | 6  7  8  9 ...       |
//!        (user)| ready  filling .. | not opened           |
//!              +------+------+-----+
//!              | done | ##.. | #...|   # chunk claimed by a worker, . free chunk
//!              +------+------+-----+
//!              \_ at most `ahead` _/
//! ```
//!
//! The following holds whenever the lock is free:
//!
//! 1. Batches are opened in order, from the first batch of the run on, and are numbered from the start
//!    of the epoch. At most `ahead` of them are opened and not yet delivered. This bounds memory:
//!    `ahead` slots, one for each batch that the user holds, and a few kept for reuse; and the cap on
//!    slots or bytes, if set.
//! 2. Workers take chunks of the oldest batch that has unclaimed chunks; if there is none, they open the
//!    next batch; if there is no room, they sleep. A batch is therefore finished soon after it is
//!    opened, and a slow sample delays only its own batch as long as the other workers find room ahead.
//!    Workers that look for work at the same time open one batch each; all but the oldest of these
//!    batches are left after a chunk, and stay listed until a worker returns to them.
//! 3. A batch being filled is an `Arc<BatchInFlight>` shared by the ring and the workers. Chunks are
//!    claimed by one atomic addition, without the lock. The thread that drops the last `Arc` owns the
//!    slot again and must finish the batch: exactly one thread does. If all rows are filled, that thread
//!    calls [`Stage::finish`], without the lock, while others fill the next batch.
//! 4. Every opened batch is finished once, as a batch or as an error. `under_way` counts the batches
//!    that are opened and not yet finished. A run is removed from the ring when it is closed and this
//!    count is 0.
//! 5. An error at batch `b` sets `limit` to `b + 1` and drops finished batches beyond it: the batches
//!    before `b` are still delivered, then the error, then nothing. Chunks are claimed in order and
//!    claimed chunks are finished, so of several bad samples in a batch the first is always reported.
//!    With unordered delivery, batches after `b` may have been delivered before the error occurred. A
//!    row for which there is no sample ends the run in the same way, but the rows before it are
//!    delivered as a batch: a short one, or none with [`LastBatch::Drop`].
//! 6. A row that the stage refuses is handled at once, by the thread that fills it: the row is left out,
//!    or filled with another sample, or the batch fails. The gaps of left-out rows are closed when all
//!    rows are filled, before [`Stage::finish`]. The consumer skips a batch without rows.
//! 7. Each worker is in one [`Phase`] at any time, so the times of the phases add up to the worker's
//!    lifetime.
//! 8. No user code (stage, order, drop of a batch) runs under the lock.
//!
//! The lock is taken a few times per batch and worker, never per sample. All synchronization comes from
//! `crate::sync`, so that `tests/interleavings` can run these files under thousands of schedules.
//!
//! Any thread may fill any row, so `fill` may depend only on the epoch and the sample, and `finish` only
//! on the rows and the number of the batch. Batches then have the same bytes for any number of workers
//! and any chunk size.

mod engine;
mod epoch;
mod error;
mod job;
mod meter;
mod ring;
mod row_fixes;
mod shared;
mod spans;
mod stage;
mod trace;
mod utilization;
mod waits;
mod worker;

pub use self::engine::{Engine, EngineOptions};
pub use self::epoch::{Delivery, EpochRun, LastBatch, RunRequest};
pub use self::error::RunError;
pub use self::meter::Progress;
pub use self::row_fixes::MAX_ATTEMPTS;
pub use self::stage::{FillError, OnFailure, RunOrder, Stage};
pub use self::trace::{Trace, TraceEvent};
pub use self::utilization::{Activity, Phase, Times, Utilization, WorkerActivity};
pub use self::waits::WaitHistogram;
