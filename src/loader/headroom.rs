//! Headroom: one batch again and again, to find out whether the consumer of the batches or the loader is the limit.
//!
//! ```text
//! consumer   samples / time of a loop over one batch, which is ready     the rate without a loader
//! loader     samples / time of an epoch whose batches are dropped        the rate without a consumer
//! headroom   loader / consumer                                           below 1, the loader is the limit
//! ```
//!
//! The first tenth of the loop, and at least one batch of several, is not timed: it warms the consumer up.

use super::{Batches, Loader};
use crate::amounts::count;
use crate::batch::Batch;
use crate::error::{Error, fail};
use crate::sample::Epoch;
use std::fmt;
use std::iter::FusedIterator;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

/// One batch of a loader, again and again: see [`Loader::headroom`].
///
/// ```no_run
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// let mut replay = loader.headroom(0, 20)?;
/// let rows: usize = replay.by_ref().map(|batch| batch.len()).sum();
/// println!("{rows} rows: {}", replay.report()?);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug)]
pub struct Headroom<'a> {
    loader: &'a Loader,
    epoch: u32,
    batch: Arc<Batch>,
    batches: NonZeroU64,
    /// The number of batches returned.
    returned: u64,
    /// The time at which the consumer asked for the first batch that is timed.
    begin: Option<Instant>,
    /// The number of batches that it has used since then, and the time of its last call.
    used: Option<(u64, Instant)>,
}

/// The rates of a loader and of the consumer of its batches, each without the other: see [`Loader::headroom`].
///
/// ```no_run
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// let mut replay = loader.headroom(0, 100)?;
/// for batch in &mut replay {
///     println!("a training step with {} samples", batch.len());
/// }
/// let report = replay.report()?;
/// if report.headroom() < 1.0 {
///     println!("{report}: more workers, or `fuseloop explain`");
/// }
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadroomReport {
    /// The samples per second that the consumer uses if batches are ready.
    pub consumer: f64,
    /// The samples per second that the loader prepares if batches are dropped.
    pub loader: f64,
}

impl Loader {
    /// Returns the first batch of an epoch `batches` times, for a loop that shows how fast its consumer is without the
    /// loader. [`report`](Headroom::report) then compares that with the loader's own rate. Positions of other runs, and
    /// [`cursor`](Self::cursor), stay the same. [`stats`](Self::stats) counts what is prepared for it, too.
    ///
    /// ```no_run
    /// # fn train(batch: &fuseloop::Batch) {}
    /// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
    /// let mut replay = loader.headroom(0, 100)?;
    /// for batch in &mut replay {
    ///     train(&batch);
    /// }
    /// println!("{}", replay.report()?);
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `batches` is 0, or the epoch has no batch; and see [`epoch`](Self::epoch).
    pub fn headroom(&self, epoch: u32, batches: u64) -> Result<Headroom<'_>, Error> {
        let batches = NonZeroU64::new(batches)
            .ok_or_else(|| fail!(Parameter, "0 batches to replay: use at least 1"))?;
        let first = self.epoch_apart(epoch)?.next().transpose()?;
        let Some(batch) = first else {
            return Err(fail!(
                Parameter,
                "epoch {epoch} has no batch to replay: use smaller batches"
            ));
        };
        let batch = Arc::new(batch);
        Ok(Headroom { loader: self, epoch, batch, batches, returned: 0, begin: None, used: None })
    }

    /// Starts an epoch whose position is not that of [`cursor`](Self::cursor), and whose batches are in no log.
    fn epoch_apart(&self, epoch: u32) -> Result<Batches, Error> {
        let epoch = Epoch(epoch);
        let stage = self.stage(epoch)?;
        let (batches, _) =
            self.batches(self.order(epoch)?, (epoch, &stage), (0, None), Arc::default())?;
        Ok(batches)
    }
}

impl Headroom<'_> {
    /// Returns the number of batches that are not timed.
    fn warm_up(&self) -> u64 {
        let batches = self.batches.get();
        (batches / 10).max(1).min(batches - 1)
    }

    /// Times the loader for as many batches, or for the epoch if it has fewer, and returns both rates.
    ///
    /// # Errors
    ///
    /// If the loop ended before a batch was timed; and see [`Loader::epoch`].
    pub fn report(&self) -> Result<HeadroomReport, Error> {
        let (Some(begin), Some((used, end))) = (self.begin, self.used) else {
            return Err(fail!(
                Parameter,
                "no batch was timed: iterate over all {} batches first",
                self.batches
            ));
        };
        let consumed = used * self.batch.len() as u64;
        let consumer = per_second(consumed, begin, end);
        let (begin, mut prepared) = (Instant::now(), 0);
        let most = usize::try_from(self.batches.get()).unwrap_or(usize::MAX);
        for batch in self.loader.epoch_apart(self.epoch)?.take(most) {
            prepared += batch?.len() as u64;
        }
        Ok(HeadroomReport { consumer, loader: per_second(prepared, begin, Instant::now()) })
    }
}

impl Iterator for Headroom<'_> {
    type Item = Arc<Batch>;

    fn next(&mut self) -> Option<Arc<Batch>> {
        if self.used.is_some_and(|(used, _)| used + self.warm_up() == self.batches.get()) {
            return None;
        }
        // The consumer is done with the batches before.
        let now = Instant::now();
        match self.returned.checked_sub(self.warm_up()) {
            None => {}
            Some(0) => self.begin = Some(now),
            Some(used) => self.used = Some((used, now)),
        }
        if self.returned == self.batches.get() {
            return None;
        }
        self.returned += 1;
        Some(Arc::clone(&self.batch))
    }
}

impl FusedIterator for Headroom<'_> {}

impl HeadroomReport {
    /// Returns how many times as fast as its consumer the loader is. Below 1, the loader is the limit.
    #[must_use]
    pub fn headroom(&self) -> f64 {
        self.loader / self.consumer
    }
}

/// Shows both rates, and the side that is the limit.
impl fmt::Display for HeadroomReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = if self.headroom() < 1.0 { "loader" } else { "consumer" };
        let [consumer, loader] =
            [self.consumer, self.loader].map(|rate| count(rate.round() as u64));
        write!(
            f,
            "the consumer uses {consumer} samples/s, the loader prepares {loader} samples/s: the {limit} is the limit \
             (headroom {:.2})",
            self.headroom()
        )
    }
}

fn per_second(samples: u64, begin: Instant, end: Instant) -> f64 {
    samples as f64 / (end - begin).as_secs_f64().max(1e-9)
}
