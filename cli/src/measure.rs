//! Runs and times one epoch.

use super::problem::Problem;
use super::process;
use fuseloop::{Batch, Loader};
use std::time::{Duration, Instant};

/// The measurements of an epoch.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) images: u64,
    /// The time from requesting the epoch to the end of its last batch, including compilation.
    pub(super) wall: Duration,
    /// The processor time of all threads; `None` if the system does not report it.
    pub(super) cpu: Option<Duration>,
    /// The time from requesting the epoch to the first batch.
    pub(super) first_batch: Duration,
    /// The time at which the first batch came.
    pub(super) first_batch_at: Instant,
    pub(super) compile: Duration,
}

impl Measured {
    pub(super) fn images_per_second(&self) -> f64 {
        per(self.images, self.wall)
    }

    /// Returns the processor milliseconds per image.
    pub(super) fn cpu_ms(&self) -> Option<f64> {
        let images = u32::try_from(self.images.max(1)).ok()?;
        Some(self.cpu?.as_secs_f64() * 1e3 / f64::from(images))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate, shown rounded")]
fn per(images: u64, wall: Duration) -> f64 {
    images as f64 / wall.as_secs_f64().max(1e-9)
}

/// Runs at most `batches` batches of an epoch and calls `each` with each of them.
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
