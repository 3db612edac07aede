//! The facts that a source gets before a run: which samples come, in which order.

use crate::sample::{Epoch, SampleId};
use std::ops::Range;
use std::sync::Arc;

/// The facts about a run that are known before it begins.
///
/// ```
/// use fuseloop::SampleId;
/// use fuseloop::source::RunPlan;
///
/// /// Returns the samples of the batches that are started before they are asked for.
/// fn first_samples(run: &RunPlan) -> Vec<SampleId> {
///     let rows = (run.batch_size * run.batches_ahead) as u64;
///     let mut samples = vec![];
///     run.upcoming.at(0..rows.min(run.upcoming.samples()), &mut samples);
///     samples
/// }
/// ```
#[derive(Clone)]
pub struct RunPlan {
    /// The loader's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: Epoch,
    /// The samples, in the order in which they become rows. A bucketed order on one rank has positions that become no row:
    /// they come last in a short batch, and have the sample of its last row again.
    pub upcoming: Arc<dyn Upcoming>,
    /// The number of rows in a batch.
    pub batch_size: usize,
    /// The number of batches that are started before they are asked for.
    pub batches_ahead: usize,
    /// The fields that are read.
    pub fields: Vec<usize>,
}

/// The samples of a run, in order.
///
/// ```
/// use fuseloop::SampleId;
/// use fuseloop::source::Upcoming;
/// use std::ops::Range;
///
/// /// The samples of a dataset in its own order, to try [`Source::begin`] with.
/// struct InOrder(u64);
///
/// impl Upcoming for InOrder {
///     fn samples(&self) -> u64 {
///         self.0
///     }
///
///     fn at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
///         samples.extend(positions.map(SampleId));
///     }
/// }
///
/// let mut samples = vec![];
/// InOrder(10).at(3..5, &mut samples);
/// assert_eq!(samples, [SampleId(3), SampleId(4)]);
/// ```
pub trait Upcoming: Send + Sync {
    /// Returns the number of samples.
    fn samples(&self) -> u64;

    /// Appends the samples at these positions, which end at or before `samples()`.
    fn at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>);
}
