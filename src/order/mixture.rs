//! A mixture as it is described: weights of the components by time, and when an epoch ends.

use crate::source::Fingerprint;
use std::sync::Arc;

/// How the components of a dataset are mixed: by weights, which may change with the epoch or the step, or by the sizes
/// of the components and a temperature. For [`Order::Mixture`](super::Order::Mixture).
///
/// ```
/// use fuseloop::Order;
/// use fuseloop::order::{DataMixture, Stopping};
///
/// // Nine photographs for each drawing, and from epoch 10 on as many of each.
/// let mixture = DataMixture::new([0.9, 0.1]).at_epoch(10.0, [0.5, 0.5]);
/// // Drawings come again when they are exhausted. An epoch has a million samples.
/// let order = Order::Mixture(mixture.stopping(Stopping::Samples(1_000_000)));
/// assert_eq!(order.name(), "mixture");
/// ```
///
/// The components are the datasets that [`Concat`](crate::source::Concat) joins. The weights need not sum to 1.
///
/// After a checkpoint, [`changed_at`](Self::changed_at) continues the epoch with other weights.
#[derive(Clone, Debug, PartialEq)]
pub struct DataMixture {
    pub(super) schedule: Schedule,
    pub(super) stopping: Stopping,
    pub(super) changes: Vec<Change>,
}

/// When an epoch of a mixture ends, and what happens when a component is exhausted before. The words are those of
/// `interleave_datasets` in Hugging Face's datasets.
///
/// ```
/// use fuseloop::order::{DataMixture, Stopping};
///
/// let once = DataMixture::new([0.9, 0.1]).stopping(Stopping::AllExhaustedWithoutReplacement);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stopping {
    /// After as many samples as all components have together. A component that is exhausted repeats in another order,
    /// and the next epoch continues where it is: in the long run, all of its samples come equally often.
    #[default]
    DatasetSize,
    /// After this many samples, otherwise as `DatasetSize`.
    Samples(u64),
    /// When the next sample would be of a component that is exhausted. No sample comes twice.
    FirstExhausted,
    /// When all components have been exhausted. Until then, those that are exhausted repeat.
    AllExhausted,
    /// When each sample has come once. The components that are left share the weight of those that are exhausted.
    AllExhaustedWithoutReplacement,
}

/// The weights from a time on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Schedule {
    pub(super) points: Vec<Point>,
    pub(super) is_linear: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) time: Time,
    pub(super) weights: Weights,
}

/// A time in all epochs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Time {
    Epoch(f64),
    Step(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Weights {
    Listed(Arc<[f64]>),
    Temperature(f64),
}

/// Another mixture from a position of an epoch on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) epoch: u32,
    pub(super) position: u64,
    pub(super) to: DataMixture,
}

impl DataMixture {
    /// Creates a mixture by weights, one for each component, in the order in which they are joined. A component of
    /// weight 0 has no samples.
    #[must_use]
    pub fn new(weights: impl Into<Arc<[f64]>>) -> Self {
        Self::of(Weights::Listed(weights.into()))
    }

    /// Creates a mixture whose weights are the sizes of the components to the power of 1 / `temperature`: 1 takes as
    /// much of a component as it has, and the larger the temperature, the more comes from small ones. Multilingual
    /// models are trained with temperatures of about 3 to 5.
    ///
    /// ```
    /// use fuseloop::order::DataMixture;
    ///
    /// // Of 8,000,000 and 1,000 samples, 20 to 1 instead of 8,000 to 1.
    /// let mixture = DataMixture::by_temperature(3.0);
    /// ```
    #[must_use]
    pub fn by_temperature(temperature: f64) -> Self {
        Self::of(Weights::Temperature(temperature))
    }

    fn of(weights: Weights) -> Self {
        let points = vec![Point { time: Time::Epoch(0.0), weights }];
        let schedule = Schedule { points, is_linear: false };
        Self { schedule, stopping: Stopping::default(), changes: vec![] }
    }

    /// Adds the weights from an epoch on, counted from 0: 2.5 is in the middle of the third. Times must increase.
    #[must_use]
    pub fn at_epoch(self, epoch: f64, weights: impl Into<Arc<[f64]>>) -> Self {
        self.at(Time::Epoch(epoch), weights.into())
    }

    /// Adds the weights from a step on, counted from 0 over all epochs. A step is a batch of all ranks together; a short
    /// one at the end of an epoch counts unless it is [dropped](crate::LoaderBuilder::drop_last). Times must increase.
    #[must_use]
    pub fn at_step(self, step: u64, weights: impl Into<Arc<[f64]>>) -> Self {
        self.at(Time::Step(step), weights.into())
    }

    fn at(mut self, time: Time, weights: Arc<[f64]>) -> Self {
        self.schedule.points.push(Point { time, weights: Weights::Listed(weights) });
        self
    }

    /// Makes the weights go from each point to the next in a line, instead of in one step.
    #[must_use]
    pub fn linear(mut self) -> Self {
        self.schedule.is_linear = true;
        self
    }

    /// Sets when an epoch ends. Where weights change with time, all epochs must have the same length: `FirstExhausted`
    /// and `AllExhausted` are then refused.
    #[must_use]
    pub fn stopping(self, stopping: Stopping) -> Self {
        Self { stopping, ..self }
    }

    /// Continues with another mixture from a position on: that of a [`Cursor`](crate::Cursor). What came before stays
    /// as it was, so a loader with this order resumes cursors of the order without the change, if they are at the
    /// position or before it. Of the other mixture, the weights that hold at the position are taken, and the points
    /// after it.
    ///
    /// ```no_run
    /// use fuseloop::order::DataMixture;
    /// use fuseloop::{Cursor, Loader, Order};
    ///
    /// # fn resumed(saved: &str) -> fuseloop::Result<()> {
    /// let cursor: Cursor = saved.parse()?;
    /// let mixture = DataMixture::new([0.9, 0.1]);
    /// let mixture = mixture.changed_at(cursor.epoch, cursor.position, DataMixture::new([0.6, 0.4]));
    /// let loader = Loader::open("train.beton")?.order(Order::Mixture(mixture)).build()?;
    /// let rest = loader.resume(&cursor)?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn changed_at(mut self, epoch: u32, position: u64, to: Self) -> Self {
        self.changes.push(Change { epoch, position, to });
        self
    }

    /// Returns the epochs and positions of the changes.
    pub(super) fn changes(
        &self,
    ) -> impl DoubleEndedIterator<Item = (u32, u64)> + ExactSizeIterator {
        self.changes.iter().map(|change| (change.epoch, change.position))
    }

    /// Returns the mixture with its first changes only.
    pub(super) fn with_changes(&self, count: usize) -> Self {
        let Self { schedule, stopping, changes } = self;
        Self { schedule: schedule.clone(), stopping: *stopping, changes: changes[..count].to_vec() }
    }

    /// Returns true if a point is a step, so that the order depends on the size of the steps.
    pub(super) fn has_steps(&self) -> bool {
        let is_step = |point: &Point| matches!(point.time, Time::Step(_));
        self.schedule.points.iter().any(is_step)
            || self.changes.iter().any(|change| change.to.has_steps())
    }

    /// Returns true if the weights are not the same at all times.
    pub(super) fn varies(&self) -> bool {
        self.schedule.points.len() > 1 || !self.changes.is_empty()
    }

    pub(super) fn hash(&self, hash: &mut Fingerprint) {
        self.hash_weights(hash);
        self.hash_points(hash);
        self.hash_stopping(hash);
        self.hash_changes(hash);
    }

    /// Returns short fingerprints of the settings: those of [`SETTINGS`](Self::SETTINGS).
    pub(super) fn prints(&self) -> [u16; 4] {
        let parts =
            [Self::hash_weights, Self::hash_points, Self::hash_stopping, Self::hash_changes];
        parts.map(|part| {
            let mut hash = Fingerprint::default();
            part(self, &mut hash);
            // 0 is none.
            (hash.value() >> 48).max(1) as u16
        })
    }

    /// The settings of which [`prints`](Self::prints) has the fingerprints.
    pub(super) const SETTINGS: [&str; 4] =
        ["weights", "schedule of weights", "end of the epoch", "changes after a checkpoint"];

    fn hash_weights(&self, hash: &mut Fingerprint) {
        self.schedule.points[0].weights.hash(hash);
    }

    fn hash_points(&self, hash: &mut Fingerprint) {
        let points = &self.schedule.points[1..];
        hash.number(points.len() as u64);
        hash.number(u64::from(self.schedule.is_linear && !points.is_empty()));
        for Point { time, weights } in points {
            let (kind, time) = match time {
                Time::Epoch(epoch) => (0, epoch.to_bits()),
                Time::Step(step) => (1, *step),
            };
            hash.number(kind);
            hash.number(time);
            weights.hash(hash);
        }
    }

    fn hash_stopping(&self, hash: &mut Fingerprint) {
        let (kind, samples) = match self.stopping {
            Stopping::DatasetSize => (0, 0),
            Stopping::Samples(samples) => (1, samples),
            Stopping::FirstExhausted => (2, 0),
            Stopping::AllExhausted => (3, 0),
            Stopping::AllExhaustedWithoutReplacement => (4, 0),
        };
        hash.number(kind);
        hash.number(samples);
    }

    fn hash_changes(&self, hash: &mut Fingerprint) {
        hash.number(self.changes.len() as u64);
        for Change { epoch, position, to } in &self.changes {
            hash.number(u64::from(*epoch));
            hash.number(*position);
            to.hash_weights(hash);
            to.hash_points(hash);
        }
    }

    /// Describes the mixture for an error.
    pub(super) fn described(&self) -> String {
        let points = self.schedule.points.iter().map(|Point { time, weights }| match time {
            Time::Epoch(0.0) => weights.described(),
            Time::Epoch(epoch) => format!("{} from epoch {epoch} on", weights.described()),
            Time::Step(step) => format!("{} from step {step} on", weights.described()),
        });
        let changes = self.changes.iter().map(|change| {
            let weights = change.to.described();
            format!("{weights} after row {} of epoch {}", change.position, change.epoch)
        });
        points.chain(changes).collect::<Vec<_>>().join(", ")
    }
}

impl Weights {
    fn hash(&self, hash: &mut Fingerprint) {
        match self {
            Self::Listed(weights) => {
                hash.number(weights.len() as u64);
                weights.iter().for_each(|weight| hash.number(weight.to_bits()));
            }
            Self::Temperature(temperature) => {
                hash.text("temperature");
                hash.number(temperature.to_bits());
            }
        }
    }

    fn described(&self) -> String {
        /// The most weights that are listed.
        const LISTED: usize = 8;
        match self {
            Self::Listed(weights) if weights.len() > LISTED => {
                format!("{} weights", weights.len())
            }
            Self::Listed(weights) => {
                let listed: Vec<String> = weights.iter().map(f64::to_string).collect();
                format!("weights {}", listed.join(" : "))
            }
            Self::Temperature(temperature) => format!("temperature {temperature}"),
        }
    }
}
