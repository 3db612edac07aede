//! An order and a dataset: what of it can be made once, and the order of each epoch.

use super::balanced::Balanced;
use super::custom::Custom;
use super::epoch::{EpochOrder, Global, copies};
use super::fingerprint::fingerprint;
use super::memory::reserved;
use super::quasi::Quasi;
use super::weighted::Weighted;
use super::{Order, OrderError, Ranks, Subset, numpy, repeated, torch};
use crate::sample::{Epoch, SampleId};
use crate::source::BoxError;

/// What orders ask of a dataset.
pub trait Facts {
    /// How many samples it has.
    fn samples(&self) -> u64;

    /// The page of the file that a sample lies in, by its number; `None` if it lies in none.
    fn page(&self, sample: SampleId) -> Option<u64> {
        let _ = sample;
        None
    }

    /// The class of a sample: its value of the int field `field`.
    ///
    /// # Errors
    ///
    /// If there is no such value.
    fn class(&self, field: &str, sample: SampleId) -> Result<i64, BoxError>;
}

/// A dataset of which only the number of samples is known: no pages, no classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

impl Facts for Count {
    fn samples(&self) -> u64 {
        self.0
    }

    fn class(&self, field: &str, _: SampleId) -> Result<i64, BoxError> {
        Err(format!("the dataset has no field {field}").into())
    }
}

/// An order made ready for a dataset: see [`Order::prepare`].
#[derive(Debug)]
pub struct Prepared {
    subset: Subset,
    /// For each row the first of the same sample, if one is listed several times.
    twins: Option<Vec<u32>>,
    way: Way,
    places: u64,
    fingerprint: u64,
}

/// How the rows of an epoch are found.
#[derive(Debug)]
enum Way {
    Sequential,
    Random,
    Quasi(Quasi),
    Weighted(Weighted),
    Balanced(Balanced),
    Repeated(u32),
    Custom(Custom),
}

impl Order {
    /// Checks the order against a dataset, and makes once what all its epochs need: the pages,
    /// the classes, a table of weights.
    ///
    /// ```
    /// use fuseloop::Epoch;
    /// use fuseloop::order::{Count, Order, Subset};
    ///
    /// let order = Order::Random.prepare(&Count(5), Subset::All(5))?;
    /// let visits = order.epoch(1, Epoch(0), None)?.visits_vec();
    /// assert_eq!(visits.iter().map(|visit| visit.sample.0).collect::<Vec<_>>(), [4, 0, 1, 2, 3]);
    /// # Ok::<(), fuseloop::order::OrderError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the subset or the order's parameters don't fit the dataset, or there is no memory.
    pub fn prepare(&self, facts: &dyn Facts, subset: Subset) -> Result<Prepared, OrderError> {
        let subset = subset.checked(facts.samples())?;
        let is_counted = matches!((self, &subset), (Self::Sequential, Subset::All(_)));
        if !is_counted {
            self.countable(subset.len())?;
        }
        let way = self.way(facts, &subset)?;
        let places = way.places(&subset);
        if !is_counted {
            self.countable(places)?;
        }
        let (twins, fingerprint) = (subset.twins()?, fingerprint(self, &subset));
        Ok(Prepared { subset, twins, way, places, fingerprint })
    }

    /// `samples` as a number of rows that can be held.
    fn countable(&self, samples: u64) -> Result<u32, OrderError> {
        let most = u64::from(u32::MAX);
        let order = || self.name().to_owned();
        u32::try_from(samples).map_err(|_| OrderError::TooMany { order: order(), samples, most })
    }

    fn way(&self, facts: &dyn Facts, subset: &Subset) -> Result<Way, OrderError> {
        Ok(match self {
            Self::Sequential => Way::Sequential,
            Self::Random => Way::Random,
            Self::QuasiRandom { open_pages } => {
                let pages = subset.iter().map(|sample| facts.page(sample));
                Way::Quasi(Quasi::new(pages, subset.len(), *open_pages)?)
            }
            Self::Weighted { weights, samples, replacement } => {
                let (found, samples_of) = (weights.len() as u64, facts.samples());
                if found != samples_of {
                    return Err(OrderError::WeightCount { weights: found, samples: samples_of });
                }
                let samples = self.countable(*samples)?;
                Way::Weighted(Weighted::new(weights, subset, samples, *replacement)?)
            }
            Self::ClassBalanced { field, replacement } => {
                Way::Balanced(Balanced::new(&classes(facts, field, subset)?, *replacement)?)
            }
            Self::RepeatedAugment { repeats: 0 } => {
                return Err(OrderError::Zero { order: repeated::NAME, param: "repeats" });
            }
            Self::RepeatedAugment { repeats } => Way::Repeated(*repeats),
            Self::Custom(sampler) => Way::Custom(Custom::new(sampler, subset)?),
        })
    }
}

/// The class of each row.
fn classes(facts: &dyn Facts, field: &str, subset: &Subset) -> Result<Vec<i64>, OrderError> {
    let mut classes = reserved(subset.len())?;
    for sample in subset.iter() {
        let class = facts.class(field, sample);
        classes.push(class.map_err(|source| OrderError::Class { sample, source })?);
    }
    Ok(classes)
}

impl Prepared {
    /// The order of `epoch`, a pure function of what was prepared, the seed and the epoch; of it
    /// this rank's part, if there are ranks.
    ///
    /// # Errors
    ///
    /// If there is no memory for it, or a [`Sampler`](super::Sampler) fails.
    pub fn epoch(
        &self,
        seed: u64,
        epoch: Epoch,
        ranks: Option<&Ranks>,
    ) -> Result<EpochOrder, OrderError> {
        let rows = self.way.rows(&self.subset, seed, epoch, ranks.is_some())?;
        let may_repeat = self.way.may_repeat() || self.twins.is_some();
        let copies = if may_repeat {
            copies(rows.as_deref(), self.twins.as_deref(), &self.subset)?
        } else {
            None
        };
        let repeats = if let Way::Repeated(repeats) = self.way { repeats } else { 1 };
        let (subset, places) = (self.subset.clone(), self.places);
        Ok(EpochOrder::new(Global { subset, places, rows, copies, repeats }, ranks.copied()))
    }

    /// Visits of an epoch, or of this rank's part of it.
    #[must_use]
    pub fn len(&self, ranks: Option<&Ranks>) -> u64 {
        ranks.map_or(self.places, |ranks| ranks.rows(self.places))
    }

    /// A number of the order's name, its parameters and its subset: the same in every process and
    /// release, another for another order. The dataset and the seed are not in it, nor how many
    /// ranks there are; but a random order is another one where there are any.
    #[must_use]
    pub fn fingerprint(&self, ranks: Option<&Ranks>) -> u64 {
        match (&self.way, ranks) {
            (Way::Random, Some(_)) => !self.fingerprint,
            _ => self.fingerprint,
        }
    }

    /// Bytes held from epoch to epoch, with those of the subset's list.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let twins = self.twins.as_ref().map_or(0, Vec::capacity) * size_of::<u32>();
        self.subset.bytes() + twins + self.way.bytes()
    }
}

impl Way {
    /// Visits of an epoch.
    fn places(&self, subset: &Subset) -> u64 {
        match self {
            Self::Sequential | Self::Random | Self::Quasi(_) => subset.len(),
            Self::Weighted(weighted) => u64::from(weighted.len()),
            Self::Balanced(balanced) => u64::from(balanced.len()),
            Self::Repeated(_) => repeated::len(subset.len()),
            Self::Custom(custom) => custom.len(),
        }
    }

    /// The rows of an epoch; `None` if they are 0, 1, 2 and so on.
    fn rows(
        &self,
        subset: &Subset,
        seed: u64,
        epoch: Epoch,
        is_distributed: bool,
    ) -> Result<Option<Vec<u32>>, OrderError> {
        // All but a sequential order were counted when they were prepared.
        let count = subset.len() as u32;
        let rows = match self {
            Self::Sequential => return Ok(None),
            Self::Random if is_distributed => torch::permutation(torch::seed(seed, epoch), count),
            Self::Random => numpy::permutation(numpy::seed(seed, epoch), count),
            Self::Quasi(quasi) => quasi.rows(seed, epoch),
            Self::Weighted(weighted) => weighted.rows(subset, seed, epoch),
            Self::Balanced(balanced) => balanced.rows(seed, epoch),
            Self::Repeated(repeats) => repeated::rows(seed, epoch, count, *repeats),
            Self::Custom(custom) => custom.rows(subset, seed, epoch),
        };
        rows.map(Some)
    }

    /// Whether a row may come twice. (Repeated augmentation repeats each alike.)
    fn may_repeat(&self) -> bool {
        match self {
            Self::Sequential | Self::Random | Self::Quasi(_) | Self::Repeated(_) => false,
            Self::Weighted(weighted) => weighted.may_repeat(),
            Self::Balanced(balanced) => balanced.may_repeat(),
            Self::Custom(_) => true,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Sequential | Self::Random | Self::Repeated(_) => 0,
            Self::Quasi(quasi) => quasi.bytes(),
            Self::Weighted(weighted) => weighted.bytes(),
            Self::Balanced(balanced) => balanced.bytes(),
            Self::Custom(custom) => custom.bytes(),
        }
    }
}
