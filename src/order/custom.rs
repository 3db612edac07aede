//! An order defined by the user.

use super::Subset;
use super::memory::reserved;
use crate::error::{BoxError, Error, fail};
use crate::sample::{Epoch, SampleId};
use std::fmt;
use std::sync::Arc;

/// Defines the order of the samples in an epoch.
///
/// A pure function: the same seed, epoch and subset give the same order, on every rank and after
/// a resume.
///
/// ```
/// use fuseloop::order::{Order, Sampler, Subset};
/// use fuseloop::source::BoxError;
/// use fuseloop::{Epoch, SampleId};
/// use std::sync::Arc;
///
/// /// Every other epoch backwards.
/// struct BackAndForth;
///
/// impl Sampler for BackAndForth {
///     fn name(&self) -> &str {
///         "back_and_forth"
///     }
///
///     fn order(&self, _: u64, epoch: Epoch, subset: &Subset) -> Result<Vec<SampleId>, BoxError> {
///         let mut order: Vec<SampleId> = subset.iter().collect();
///         if epoch.index() % 2 == 1 {
///             order.reverse();
///         }
///         Ok(order)
///     }
/// }
///
/// let order = Order::Custom(Arc::new(BackAndForth));
/// let prepared = order.prepare(&fuseloop::internals::order::SampleCount(3), Subset::All(3))?;
/// let last = prepared.epoch(0, Epoch(1), None)?.visits_vec();
/// assert_eq!(last.iter().map(|visit| visit.sample.0).collect::<Vec<_>>(), [2, 1, 0]);
/// # Ok::<(), fuseloop::Error>(())
/// ```
pub trait Sampler: Send + Sync {
    /// Returns the name used in messages and in the fingerprint. Samplers with different parameters must
    /// have different names.
    fn name(&self) -> &str;

    /// Returns the number of samples of an epoch, the same in every epoch. Default: the size of the
    /// subset.
    fn samples(&self, subset: &Subset) -> u64 {
        subset.len()
    }

    /// Returns the samples of an epoch, in order: any of `subset`, any number of times.
    ///
    /// # Errors
    ///
    /// If the order can't be computed.
    fn order(&self, seed: u64, epoch: Epoch, subset: &Subset) -> Result<Vec<SampleId>, BoxError>;
}

impl fmt::Debug for dyn Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A sampler is only equal to itself.
impl PartialEq for dyn Sampler {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self, other)
    }
}

/// A sampler, and the index that finds the rows of its samples.
#[derive(Debug)]
pub(super) struct Custom {
    sampler: Arc<dyn Sampler>,
    samples: u64,
    /// The rows, sorted by sample id; not needed where a row is an id.
    by_id: Option<Vec<u32>>,
}

impl Custom {
    pub(super) fn new(sampler: &Arc<dyn Sampler>, subset: &Subset) -> Result<Self, Error> {
        let by_id = match subset {
            Subset::All(_) => None,
            Subset::Listed(_) => Some(subset.rows_by_id()?),
        };
        Ok(Self { sampler: Arc::clone(sampler), samples: sampler.samples(subset), by_id })
    }

    /// Returns the number of rows of an epoch.
    pub(super) fn len(&self) -> u64 {
        self.samples
    }

    pub(super) fn rows(&self, subset: &Subset, seed: u64, epoch: Epoch) -> Result<Vec<u32>, Error> {
        let order = self.sampler.name();
        let ids = self.sampler.order(seed, epoch, subset);
        let ids =
            ids.map_err(|source| Error::from(source).context(format_args!("order {order}")))?;
        let (found, said) = (ids.len() as u64, self.samples);
        if found != said {
            return Err(fail!(
                Custom,
                "order {order}: it returned {found} samples, expected {said} as announced"
            ));
        }
        let mut rows = reserved(found)?;
        for sample in ids {
            let row = self.row(subset, sample);
            rows.push(row.ok_or_else(|| {
                fail!(
                    Custom,
                    "order {order}: it returned sample {sample}, which is not in the subset"
                )
                .of_sample(sample)
            })?);
        }
        Ok(rows)
    }

    /// Returns the first row of a sample.
    fn row(&self, subset: &Subset, sample: SampleId) -> Option<u32> {
        let Some(by_id) = &self.by_id else {
            return (sample.0 < subset.len()).then_some(sample.0 as u32);
        };
        let index = by_id.partition_point(|&row| subset.at(u64::from(row)) < sample);
        by_id.get(index).copied().filter(|&row| subset.at(u64::from(row)) == sample)
    }

    /// Returns the bytes held, without those of the sampler.
    pub(super) fn bytes(&self) -> usize {
        self.by_id.as_ref().map_or(0, Vec::capacity) * size_of::<u32>()
    }
}
