//! Prepares an order for a dataset: computes what all epochs share, then the order of each epoch.

use super::balanced::Balanced;
use super::bucketed::{Bucketed, Steps, one_bucket};
use super::custom::Custom;
use super::epoch::{EpochOrder, Global, Rows, copies};
use super::fingerprint::fingerprint;
use super::memory::reserved;
use super::mixed::Mixed;
use super::permuted::Permutation;
use super::quasi::Quasi;
use super::weighted::Weighted;
use super::{DataMixture, Order, Ranks, Subset, numpy, repeated, torch};
use crate::error::{BoxError, Error, fail};
use crate::sample::{Epoch, SampleId};
use fuseloop_ops::internals::DefaultFloats;

/// The information that an order needs about a dataset.
pub trait DatasetInfo {
    /// Returns the number of samples.
    fn samples(&self) -> u64;

    /// Returns the number of the file page that stores a sample; `None` if the sample is in no page.
    fn page(&self, sample: SampleId) -> Option<u64> {
        let _ = sample;
        None
    }

    /// Returns the class of a sample: its value of the int field `field`.
    ///
    /// # Errors
    ///
    /// If the sample has no such value.
    fn class(&self, field: &str, sample: SampleId) -> Result<i64, BoxError>;

    /// Returns the number of components of the dataset.
    fn components(&self) -> usize {
        1
    }

    /// Returns the component of a sample.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    fn component(&self, sample: SampleId) -> Result<usize, BoxError> {
        let _ = sample;
        Ok(0)
    }

    /// Returns the bucket of each sample of a subset: one number for the samples whose images have the same size in a
    /// batch, `None` for a sample that is left out. Default: one bucket, as of a dataset whose images have one size.
    ///
    /// # Errors
    ///
    /// If the size of a sample can't be read.
    fn buckets(&self, subset: &Subset) -> Result<Vec<Option<u32>>, Error> {
        one_bucket(subset)
    }
}

/// A dataset with a number of samples only: no pages, no classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleCount(pub u64);

impl DatasetInfo for SampleCount {
    fn samples(&self) -> u64 {
        self.0
    }

    fn class(&self, field: &str, _: SampleId) -> Result<i64, BoxError> {
        Err(format!("the dataset has no field {field}").into())
    }
}

/// An order prepared for a dataset; see [`Order::prepare`].
#[derive(Debug)]
pub struct PreparedOrder {
    subset: Subset,
    /// For each row, the first row of the same sample, if a sample is listed several times.
    duplicates: Option<Vec<u32>>,
    kind: OrderKind,
    len: u64,
    fingerprint: u64,
    order: Order,
    steps: Steps,
}

/// Returns the orders that a cursor may be of: those without parameters, or with usual ones, and `own`.
fn usual_orders(own: &Order) -> impl Iterator<Item = Order> {
    let balanced = [true, false].map(|replacement| {
        let field = match own {
            Order::ClassBalanced { field, .. } => field.clone(),
            _ => "label".to_owned(),
        };
        Order::ClassBalanced { field, replacement }
    });
    let repeated = (2..=4).map(|repeats| Order::RepeatedAugment { repeats });
    let quasi = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
    let quasi = quasi.map(|open_pages| Order::QuasiRandom { open_pages });
    let plain = [own.clone(), Order::Sequential, Order::Random, Order::Permuted];
    plain.into_iter().chain(balanced).chain(repeated).chain(quasi)
}

/// Returns the name of an order over a subset of `total` samples, as errors have it.
fn described(order: &Order, subset: &Subset, total: u64, is_shared: bool) -> String {
    let samples = match subset {
        Subset::All(samples) if *samples == total => format!("all {samples} samples"),
        Subset::All(samples) => format!("the first {samples} samples"),
        Subset::Listed(ids) => format!("{} listed samples", ids.len()),
    };
    let ranks = if is_shared { " that ranks share" } else { "" };
    let pages = match order {
        Order::QuasiRandom { open_pages } => format!(" with {open_pages} open pages"),
        Order::Mixture(mixture) => format!(" with {}", mixture.described()),
        _ => String::new(),
    };
    format!("{}{pages} of {samples}{ranks}", order.name())
}

/// How the rows of an epoch are computed.
#[derive(Debug)]
enum OrderKind {
    Sequential,
    Random,
    Permuted,
    Quasi(Quasi),
    Weighted(Weighted),
    Balanced(Balanced),
    Repeated(u32),
    Bucketed(Bucketed),
    Mixed(Mixed),
    Custom(Custom),
}

impl Order {
    /// Checks the order against a dataset, and computes what all epochs share: pages, classes, a table
    /// of weights.
    ///
    /// ```
    /// use fuseloop::Epoch;
    /// use fuseloop::internals::order::SampleCount;
    /// use fuseloop::order::{Order, Subset};
    ///
    /// let order = Order::Random.prepare(&SampleCount(5), Subset::All(5))?;
    /// let visits = order.epoch(1, Epoch(0), None)?.visits_vec();
    /// assert_eq!(visits.iter().map(|visit| visit.sample.0).collect::<Vec<_>>(), [4, 0, 1, 2, 3]);
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the subset or the order's parameters do not fit the dataset, or there is not enough memory.
    #[doc(hidden)]
    pub fn prepare(&self, facts: &dyn DatasetInfo, subset: Subset) -> Result<PreparedOrder, Error> {
        self.prepare_steps(facts, subset, Steps::SINGLE)
    }

    /// Like [`prepare`](Self::prepare), for epochs that are divided into these steps.
    ///
    /// # Errors
    ///
    /// The same as those of `prepare`.
    #[doc(hidden)]
    pub fn prepare_steps(
        &self,
        facts: &dyn DatasetInfo,
        subset: Subset,
        steps: Steps,
    ) -> Result<PreparedOrder, Error> {
        let subset = subset.checked(facts.samples())?;
        let is_counted =
            matches!((self, &subset), (Self::Sequential | Self::Permuted, Subset::All(_)));
        if !is_counted {
            self.countable(subset.len())?;
        }
        let kind = DefaultFloats::during(|| self.kind(facts, &subset, steps))?;
        let len = kind.len(&subset)?;
        // Positions of a bucketed order are not listed.
        if !is_counted && !matches!(kind, OrderKind::Bucketed(_)) {
            self.countable(len)?;
        }
        let (duplicates, mut fingerprint) = (subset.duplicates()?, fingerprint(self, &subset));
        if let OrderKind::Bucketed(bucketed) = &kind {
            fingerprint ^= bucketed.fingerprint();
        }
        if let Self::Mixture(mixture) = self {
            fingerprint ^= Mixed::fingerprint_of_steps(mixture, steps);
        }
        Ok(PreparedOrder { steps, subset, duplicates, kind, len, fingerprint, order: self.clone() })
    }

    /// Returns `samples` as a number of rows, if that many can be held in memory.
    fn countable(&self, samples: u64) -> Result<u32, Error> {
        let most = u64::from(u32::MAX);
        let order = self.name();
        u32::try_from(samples).map_err(|_| {
            fail!(Memory, "order {order}: {samples} samples; the limit is {most}: use `permuted` or `sequential`")
        })
    }

    fn kind(
        &self,
        facts: &dyn DatasetInfo,
        subset: &Subset,
        steps: Steps,
    ) -> Result<OrderKind, Error> {
        Ok(match self {
            Self::Sequential => OrderKind::Sequential,
            Self::Random => OrderKind::Random,
            Self::Permuted => OrderKind::Permuted,
            Self::QuasiRandom { open_pages } => {
                let pages = subset.iter().map(|sample| facts.page(sample));
                OrderKind::Quasi(Quasi::new(pages, subset.len(), *open_pages)?)
            }
            Self::Weighted { weights, samples, replacement } => {
                let (found, samples_of) = (weights.len() as u64, facts.samples());
                if found != samples_of {
                    return Err(fail!(
                        Parameter,
                        "order weighted: {found} weights for a dataset of {samples_of} samples"
                    ));
                }
                let samples = self.countable(*samples)?;
                OrderKind::Weighted(Weighted::new(weights, subset, samples, *replacement)?)
            }
            Self::ClassBalanced { field, replacement } => {
                OrderKind::Balanced(Balanced::new(&classes(facts, field, subset)?, *replacement)?)
            }
            Self::RepeatedAugment { repeats: 0 } => {
                return Err(fail!(
                    Parameter,
                    "order {order}: repeats is 0, it must be at least 1",
                    order = repeated::NAME
                ));
            }
            Self::RepeatedAugment { repeats } => OrderKind::Repeated(*repeats),
            Self::Bucketed => OrderKind::Bucketed(Bucketed::new(&facts.buckets(subset)?, steps)?),
            Self::Mixture(mixture) => {
                let components = components(facts, subset)?;
                OrderKind::Mixed(Mixed::new(mixture, &components, facts.components(), steps)?)
            }
            Self::Custom(sampler) => OrderKind::Custom(Custom::new(sampler, subset)?),
        })
    }
}

/// Returns the class of each row.
fn classes(facts: &dyn DatasetInfo, field: &str, subset: &Subset) -> Result<Vec<i64>, Error> {
    let mut classes = reserved(subset.len())?;
    for sample in subset.iter() {
        let class = facts.class(field, sample);
        classes.push(class.map_err(|source| {
            Error::from(source)
                .context(format_args!("order class_balanced: sample {sample} has no class"))
                .of_sample(sample)
        })?);
    }
    Ok(classes)
}

/// Returns the component of each row.
fn components(facts: &dyn DatasetInfo, subset: &Subset) -> Result<Vec<u32>, Error> {
    let mut components = reserved(subset.len())?;
    for sample in subset.iter() {
        let component = facts.component(sample).map_err(|source| {
            Error::from(source)
                .context(format_args!("order mixture: sample {sample} has no component"))
                .of_sample(sample)
        })?;
        let known = facts.components();
        if component >= known {
            return Err(fail!(
                Custom,
                "order mixture: sample {sample} is of component {component}, but the dataset has {known}"
            )
            .of_sample(sample));
        }
        components.push(component as u32);
    }
    Ok(components)
}

impl PreparedOrder {
    /// Returns the order of `epoch` on this rank. This is a pure function of the prepared order, the
    /// seed, the epoch and the rank.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, or a [`Sampler`](super::Sampler) fails.
    pub fn epoch(
        &self,
        seed: u64,
        epoch: Epoch,
        ranks: Option<&Ranks>,
    ) -> Result<EpochOrder, Error> {
        let rows = || self.kind.rows(&self.subset, seed, epoch, ranks.is_some());
        let rows = DefaultFloats::during(rows)?;
        let may_repeat = self.kind.may_repeat() || self.duplicates.is_some();
        let copies = if may_repeat {
            copies(&rows, self.duplicates.as_deref(), &self.subset)?
        } else {
            None
        };
        let repeats = if let OrderKind::Repeated(repeats) = self.kind { repeats } else { 1 };
        let (subset, len) = (self.subset.clone(), self.len);
        let all = Global { subset, len, rows, copies, repeats };
        Ok(EpochOrder::new(all, ranks.copied()))
    }

    /// Returns the samples that the order chooses from.
    pub(crate) fn subset(&self) -> &Subset {
        &self.subset
    }

    /// Returns a sample that `sample` may be replaced by in an epoch, if there is one; `word` draws it.
    pub(crate) fn substitute(&self, sample: SampleId, word: u64) -> Option<SampleId> {
        let index = match &self.kind {
            OrderKind::Bucketed(bucketed) => {
                let mut rows = self.subset.iter();
                let row = match &self.subset {
                    Subset::All(_) => u32::try_from(sample.0).ok()?,
                    Subset::Listed(_) => rows.position(|listed| listed == sample)? as u32,
                };
                bucketed.other_row(row, word)?.into()
            }
            _ => word.checked_rem(self.subset.len())?,
        };
        Some(self.subset.at(index))
    }

    /// Returns the number of samples of an epoch, or of this rank's share, without the positions that only fill a step
    /// of a single process.
    #[must_use]
    pub fn samples(&self, ranks: Option<&Ranks>) -> u64 {
        match &self.kind {
            OrderKind::Bucketed(bucketed) if ranks.is_none_or(|ranks| ranks.world_size() == 1) => {
                bucketed.rows_once(self.len)
            }
            _ => self.len(ranks),
        }
    }

    /// Returns the number of positions of an epoch, or of this rank's share: that of its samples, for all orders but a
    /// bucketed one.
    #[must_use]
    pub fn len(&self, ranks: Option<&Ranks>) -> u64 {
        ranks.map_or(self.len, |ranks| ranks.rows(self.len))
    }

    /// Returns a hash of the order's name, its parameters and its subset: the same in every process and
    /// release, different for a different order. The hash does not depend on the dataset, the seed or
    /// the number of ranks, with one exception: a random order has another fingerprint if there are
    /// ranks.
    #[must_use]
    pub fn fingerprint(&self, ranks: Option<&Ranks>) -> u64 {
        match (&self.kind, ranks) {
            (OrderKind::Random, Some(_)) => !self.fingerprint,
            _ => self.fingerprint,
        }
    }

    /// Returns the fingerprint that a cursor of this order has at a position, if `found` is the one that it has: also that
    /// of a mixture without the changes from this position on, which comes to the same samples before it.
    pub(crate) fn fingerprint_at(
        &self,
        found: u64,
        (epoch, position): (u32, u64),
        ranks: Option<&Ranks>,
    ) -> u64 {
        let Order::Mixture(mixture) = &self.order else { return self.fingerprint(ranks) };
        let is_later = |at: (u32, u64)| at >= (epoch, position);
        let changes = mixture.changes().enumerate().rev();
        let mut before = changes.take_while(|(_, at)| is_later(*at));
        let is_found = |count| {
            let mixture = mixture.with_changes(count);
            let steps = Mixed::fingerprint_of_steps(&mixture, self.steps);
            fingerprint(&Order::Mixture(mixture), &self.subset) ^ steps == found
        };
        if before.any(|(count, _)| is_found(count)) { found } else { self.fingerprint }
    }

    /// Returns the number of samples of each component before a position of an epoch, on all ranks together, if the order
    /// is a mixture.
    #[must_use]
    pub fn drawn(&self, seed: u64, epoch: Epoch, position: u64) -> Option<Vec<u64>> {
        match &self.kind {
            OrderKind::Mixed(mixed) => {
                Some(DefaultFloats::during(|| mixed.drawn(seed, epoch, position)))
            }
            _ => None,
        }
    }

    /// Returns short fingerprints of the settings of a mixture; 0 for other orders.
    pub(crate) fn mixture_prints(&self) -> [u16; 4] {
        match &self.order {
            Order::Mixture(mixture) => mixture.prints(),
            _ => [0; 4],
        }
    }

    /// Names the settings of a mixture that differ from those with these short fingerprints; `None` if they are of no
    /// mixture, or this order is none.
    fn changed_mixture(&self, other: [u16; 4]) -> Option<String> {
        let own = self.mixture_prints();
        if own == [0; 4] || other == [0; 4] {
            return None;
        }
        let pairs = own.into_iter().zip(other).zip(DataMixture::SETTINGS);
        let changed: Vec<&str> =
            pairs.filter(|((own, other), _)| own != other).map(|(_, name)| name).collect();
        Some(match &*changed {
            [] => "a mixture of other samples or with other steps".to_owned(),
            changed => format!(
                "a mixture with other {} (`changed_at` continues with others)",
                changed.join(" and ")
            ),
        })
    }

    /// Returns the names of the order with a fingerprint, and of this one, for an error. The other one is found if it is
    /// of a usual kind, and of the same samples or of all `total` samples of the dataset.
    pub(crate) fn names(
        &self,
        (other, mixture): (u64, [u16; 4]),
        ranks: Option<&Ranks>,
        total: u64,
    ) -> (String, String) {
        let subsets = [&self.subset, &Subset::All(total)];
        let usual = || usual_orders(&self.order);
        let found = subsets.into_iter().find_map(|subset| {
            usual().find_map(|order| {
                let print = fingerprint(&order, subset);
                let is_shared = matches!(order, Order::Random) && print == !other;
                (print == other || is_shared).then(|| described(&order, subset, total, is_shared))
            })
        });
        let unknown = match self.kind {
            OrderKind::Bucketed(_) => {
                "one with other samples or image sizes, another batch size x ranks or another `drop_last`"
            }
            _ => "one with other samples or parameters",
        };
        let found = found.or_else(|| self.changed_mixture(mixture));
        (found.unwrap_or_else(|| unknown.to_owned()), self.own_name(ranks, total))
    }

    /// Returns the name of the order with its samples, of a dataset that has `total` of them.
    pub(crate) fn own_name(&self, ranks: Option<&Ranks>, total: u64) -> String {
        let is_shared = matches!(self.order, Order::Random) && ranks.is_some();
        let own = described(&self.order, &self.subset, total, is_shared);
        match &self.kind {
            OrderKind::Bucketed(bucketed) => format!("{own}, {}", bucketed.described_steps()),
            _ => own,
        }
    }

    /// Returns the bytes held from epoch to epoch, including the list of the subset.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let duplicates = self.duplicates.as_ref().map_or(0, Vec::capacity) * size_of::<u32>();
        self.subset.bytes() + duplicates + self.kind.bytes()
    }
}

impl OrderKind {
    /// Returns the number of positions of an epoch.
    fn len(&self, subset: &Subset) -> Result<u64, Error> {
        Ok(match self {
            Self::Sequential | Self::Random | Self::Permuted | Self::Quasi(_) => subset.len(),
            Self::Weighted(weighted) => u64::from(weighted.len()),
            Self::Balanced(balanced) => u64::from(balanced.len()),
            Self::Repeated(_) => repeated::len(subset.len()),
            Self::Bucketed(bucketed) => bucketed.positions()?,
            Self::Mixed(mixed) => mixed.len(),
            Self::Custom(custom) => custom.len(),
        })
    }

    /// Returns the rows of an epoch.
    fn rows(
        &self,
        subset: &Subset,
        seed: u64,
        epoch: Epoch,
        is_distributed: bool,
    ) -> Result<Rows, Error> {
        // Every order but the sequential and the permuted one was checked to be countable when it was prepared.
        let count = subset.len() as u32;
        let rows = match self {
            Self::Sequential => return Ok(Rows::Turns),
            Self::Permuted => {
                return Ok(Rows::Permuted(Permutation::new(seed, epoch, subset.len())?));
            }
            Self::Bucketed(bucketed) => return Ok(Rows::Steps(bucketed.rows(seed, epoch)?)),
            Self::Random if is_distributed => torch::permutation(torch::seed(seed, epoch), count),
            Self::Random => numpy::permutation(numpy::seed(seed, epoch), count),
            Self::Quasi(quasi) => quasi.rows(seed, epoch),
            Self::Weighted(weighted) => weighted.rows(subset, seed, epoch),
            Self::Balanced(balanced) => balanced.rows(seed, epoch),
            Self::Repeated(repeats) => repeated::rows(seed, epoch, count, *repeats),
            Self::Mixed(mixed) => mixed.rows(seed, epoch),
            Self::Custom(custom) => custom.rows(subset, seed, epoch),
        };
        Ok(Rows::Listed(rows?))
    }

    /// Returns true if a row may come twice. (Repeated augmentation repeats all rows equally.)
    fn may_repeat(&self) -> bool {
        match self {
            Self::Sequential
            | Self::Random
            | Self::Permuted
            | Self::Quasi(_)
            | Self::Bucketed(_)
            | Self::Repeated(_) => false,
            Self::Weighted(weighted) => weighted.may_repeat(),
            Self::Balanced(balanced) => balanced.may_repeat(),
            Self::Mixed(mixed) => mixed.may_repeat(),
            Self::Custom(_) => true,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Sequential | Self::Random | Self::Permuted | Self::Repeated(_) => 0,
            Self::Quasi(quasi) => quasi.bytes(),
            Self::Weighted(weighted) => weighted.bytes(),
            Self::Balanced(balanced) => balanced.bytes(),
            Self::Bucketed(bucketed) => bucketed.bytes(),
            Self::Mixed(mixed) => mixed.bytes(),
            Self::Custom(custom) => custom.bytes(),
        }
    }
}
