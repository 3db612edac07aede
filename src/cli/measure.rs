//! One epoch, with a clock beside it.

use super::problem::Problem;
use super::process;
use fuseloop::run::{Headroom, Phase};
use fuseloop::{Batch, Loader};
use std::time::{Duration, Instant};

/// What an epoch took.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) images: u64,
    /// From asking for the epoch to the end of its last batch; compiling included.
    pub(super) wall: Duration,
    /// Of all threads; `None` where the system does not say.
    pub(super) cpu: Option<Duration>,
    /// From asking for the epoch to the first batch.
    pub(super) first_batch: Duration,
    /// When the first batch came.
    pub(super) first_batch_at: Instant,
    pub(super) compile: Duration,
}

impl Measured {
    pub(super) fn images_per_second(&self) -> f64 {
        per(self.images, self.wall)
    }

    /// Processor milliseconds an image.
    pub(super) fn cpu_ms(&self) -> Option<f64> {
        let images = u32::try_from(self.images.max(1)).ok()?;
        Some(self.cpu?.as_secs_f64() * 1e3 / f64::from(images))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate, shown rounded")]
fn per(images: u64, wall: Duration) -> f64 {
    images as f64 / wall.as_secs_f64().max(1e-9)
}

/// Runs at most `batches` of an epoch and hands each to `each`.
pub(super) fn epoch(
    loader: &Loader,
    epoch: u32,
    batches: u64,
    mut each: impl FnMut(&Batch),
) -> Result<Measured, Problem> {
    let (start, cpu) = (Instant::now(), process::cpu_time());
    let run = loader.epoch(epoch)?;
    let (mut images, mut first) = (0, None);
    for batch in run.take(usize::try_from(batches).unwrap_or(usize::MAX)) {
        let batch = batch?;
        first.get_or_insert_with(Instant::now);
        images += batch.len() as u64;
        each(&batch);
    }
    let wall = start.elapsed();
    let first_batch_at = first.unwrap_or_else(Instant::now);
    Ok(Measured {
        images,
        wall,
        cpu: process::cpu_time().zip(cpu).map(|(now, then)| now.saturating_sub(then)),
        first_batch: first_batch_at - start,
        first_batch_at,
        compile: loader.compile_time(),
    })
}

/// Who waited for whom between two moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// Share of the workers' time that they worked, 0 to 1.
    pub(super) workers_busy: f64,
    /// Share of the time that the consumer waited for a batch, 0 to 1.
    pub(super) consumer_waited: f64,
    /// Share of the workers' time that no room was free for another batch, 0 to 1.
    pub(super) waited_for_room: f64,
}

impl Waits {
    pub(super) fn between(before: &Headroom, after: &Headroom, wall: Duration) -> Self {
        let room = |headroom: &Headroom| headroom.time(Phase::Room) + headroom.time(Phase::Slot);
        let workers = u32::try_from(after.workers.len().max(1)).unwrap_or(u32::MAX);
        let share = |after: Duration, before: Duration, of: Duration| {
            let time = after.saturating_sub(before).as_secs_f64();
            (time / of.as_secs_f64().max(1e-9)).min(1.0)
        };
        let all = wall.saturating_mul(workers);
        Self {
            workers_busy: share(after.busy(), before.busy(), all),
            consumer_waited: share(after.consumer_waited, before.consumer_waited, wall),
            waited_for_room: share(room(after), room(before), all),
        }
    }

    /// In words: who should be made faster.
    pub(super) fn verdict(&self) -> &'static str {
        if self.waited_for_room > self.consumer_waited {
            "the consumer is the slower side: more workers would not help"
        } else {
            "the workers are the slower side: more cores would help, or smaller images"
        }
    }
}
