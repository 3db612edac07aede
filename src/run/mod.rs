//! The engine: threads that fill the rows of batches, and the ring that delivers them in order.
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
//! 1. `delivered <= opened <= delivered + ahead`, and `opened <= limit`. Memory is bounded by it:
//!    `ahead` slots, plus one for each batch the user holds, plus a few kept for reuse.
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
//! 5. An error at batch `b` sets `limit` to `b + 1`: those before it are still delivered, then the
//!    error, then nothing. Chunks are claimed in order and those already claimed are finished,
//!    so of several bad samples in a batch always the first is reported.
//! 6. Nothing of the user's (stage, schedule, drop of a batch) runs under the lock.
//!
//! The lock is taken a few times a batch and worker, never for a sample.
//!
//! Which thread fills which row is left to chance, so a stage may depend on the epoch and
//! the sample only, and to finish a batch on its rows and its number; then batches have the same
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
